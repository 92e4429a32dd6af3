// shardlab record: writes a stack's choices for the questions of suites into a file, which is then
// a stack itself.
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/parallel.h"
#include "costmodel/base/printable.h"
#include "costmodel/base/units.h"
#include "reports/number_text.h"
#include "runner/base/version.h"
#include "runner/base/write_file.h"
#include "runner/choices/choices_file.h"
#include "runner/choices/question_text.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/session/long_loop.h"
#include "runner/session/session.h"
#include "strategies/rules/expansion.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/suite.h"

namespace shardlab {
namespace {

struct RecordArguments {
  std::string stack{kNewestDTensor};
  std::vector<std::string> suites;
  std::string out;
};

// The choices for one question, which are several for an op on lists of tensors; or why there is
// none.
struct Recorded {
  std::vector<Choice> choices;
  std::string refusal;
};

std::vector<std::string> texts_of(const std::vector<Placements>& layouts) {
  std::vector<std::string> texts;
  for (const Placements& placements : layouts) texts.push_back(Layout(placements).text());
  return texts;
}

// Steps are recorded unmerged, as the planner makes them.
void add_steps(const Plan& plan, std::size_t input, Choice& choice) {
  for (const PlanStep& step : plan.steps) {
    for (const int mesh_dim : step.mesh_dims) {
      choice.steps.push_back({.input = static_cast<std::int64_t>(input),
                              .mesh_dim = mesh_dim,
                              .from = step.from.text(),
                              .to = step.to.text()});
    }
  }
}

Choice choose(StackEvaluator& evaluator, const OpCall& call, const DeviceMesh& mesh) {
  const OpRule& rule = find_op_rule(call.op, evaluator.stack().rules);
  const Expansion expansion = expand(rule, call, mesh);
  if (!expansion.in_place_error().empty()) throw InputError(expansion.in_place_error());
  if (expansion.size() == 0) throw InputError(call.op + ": no sharding candidate is left");
  const Pricing pricing = evaluator.price(expansion, &rule, call, mesh);
  const Decision decision = evaluator.decide_by_search(expansion, pricing, rule, call, mesh);
  nlohmann::json question = decision_question(call, mesh, 1);
  Choice choice{.question = {.mesh = mesh.text(),
                             .op = call.op,
                             .inputs = question.at("inputs").get<std::vector<std::string>>(),
                             .args = {question.at("args")}},
                .inputs = texts_of(decision.choice.inputs),
                .outputs = texts_of(decision.choice.outputs),
                .steps = {},
                .total_us = finite(decision.choice.total_us),
                .candidates = static_cast<std::int64_t>(decision.candidates)};
  choice.set_digest = set_digest(expansion);
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to = asked_layout(call, decision.choice.inputs[i]);
    if (to.placements == tensors[i]->layout.placements) continue;
    add_steps(evaluator.plan(mesh, tensors[i]->meta, tensors[i]->layout, to), i, choice);
  }
  return choice;
}

// The devices that NVLink joins, if they are more than those of a host.
std::optional<std::int64_t> wider_domain(const Topology& topology) {
  if (topology.domain_devices() == topology.devices_per_host()) return std::nullopt;
  return topology.domain_devices();
}

Recorded record_question(StackEvaluator& evaluator, const Question& question) {
  Recorded recorded;
  try {
    if (question.kind == Question::Kind::kPlan) {
      const Plan plan = evaluator.plan(question.mesh, question.tensor, question.from, question.to);
      Choice& choice = recorded.choices.emplace_back();
      choice.question = {.mesh = question.mesh.text(),
                         .op = {},
                         .inputs = {},
                         .args = {},
                         .tensor = question.tensor.text(),
                         .from = question.from.text(),
                         .to = question.to.text()};
      if (plan.impossible.empty()) choice.total_us = finite(plan.price.total.value());
      add_steps(plan, 0, choice);
    } else if (is_foreach(question.call.op)) {
      for (std::size_t i = 0; i < foreach_size(question.call); ++i) {
        recorded.choices.push_back(
            choose(evaluator, foreach_child(question.call, i), question.mesh));
      }
    } else {
      recorded.choices.push_back(choose(evaluator, question.call, question.mesh));
    }
  } catch (const InputError& error) {
    recorded.choices.clear();
    recorded.refusal = error.what();
  }
  return recorded;
}

void run_record(const RecordArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const Topology topology = store.topology(session.topology);
  Stack stack = store.stack(arguments.stack);
  // A merged step has no place in a list of single mesh dims.
  stack.redistribution.merge = MergeMode::kOff;
  std::vector<Suite> suites;
  for (const std::string& name : arguments.suites) {
    suites.push_back(store.suite(name));
    expect_new_suite(suites);
  }
  std::vector<const Question*> questions;
  for (const Suite& suite : suites) {
    for (const Question& question : suite.questions) questions.push_back(&question);
  }
  session.prepare({&stack, 1}, questions, topology);
  std::vector<Recorded> recorded(questions.size());
  {
    LongLoop loop(session, "questions", questions.size());
    const std::size_t done = parallel_for(
        questions.size(), session.threads(),
        [&] { return std::make_unique<StackEvaluator>(stack, topology); },
        [&](StackEvaluator& evaluator, std::size_t i) {
          recorded[i] = record_question(evaluator, *questions[i]);
          loop.advance();
        },
        loop.stop());
    questions.resize(done);
    recorded.resize(done);
  }

  ChoiceList file{.stack = stack.name,
                  .source = "shardlab record " + std::string(version()) + ", topology " +
                            topology.name() +
                            (session.interruption.empty() ? "" : ", " + session.interruption),
                  .devices_per_host = topology.devices_per_host(),
                  .domain_devices = wider_domain(topology),
                  .provenance = session.provenance(),
                  .choices = {}};
  std::set<std::string> known;
  nlohmann::json refused = nlohmann::json::array();
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    if (!recorded[i].refusal.empty()) {
      refused.push_back({{"question", questions[i]->id}, {"reason", recorded[i].refusal}});
    }
    for (Choice& choice : recorded[i].choices) {
      if (known.insert(json_of(choice.question).dump()).second) {
        file.choices.push_back(std::move(choice));
      }
    }
  }
  write_output("--out", arguments.out, choices_text(file));
  if (session.json()) {
    session.print(nlohmann::json{{"stack", stack.name},
                                 {"questions", questions.size()},
                                 {"choices", file.choices.size()},
                                 {"refused", refused},
                                 {"out", arguments.out}});
    return;
  }
  const auto number = [](std::size_t count, std::string_view one, std::string_view many) {
    return reports::counted(static_cast<std::int64_t>(count), one, many);
  };
  std::string text =
      number(file.choices.size(), "choice", "choices") + " of " + printable(stack.name) + " for " +
      number(questions.size(), "question", "questions") + ": " + printable(arguments.out) + "\n";
  if (!refused.empty()) {
    text += "  " + number(refused.size(), "question has", "questions have") +
            (refused.size() == 1 ? " no answer: " : " no answer; the first is ") +
            printable(refused[0]["question"].get<std::string>() + ": " +
                      refused[0]["reason"].get<std::string>()) +
            "\n";
  }
  session.print(text);
}

}  // namespace

void add_record_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<RecordArguments>();
  const Command command = root.subcommand(
      "record",
      "write a stack's choices for the questions of suites into a file, which is then a stack\n"
      "  shardlab record --stack dtensor-2.13 --suite ops-small --out mine.choices.json\n"
      "  shardlab record --stack torch:./venv --suite ops-small --out branch.choices.json");
  command.option("--stack", arguments->stack, "shipped name or path").show_default();
  command.option("--suite", arguments->suites, "shipped name or path; may be repeated")
      .repeatable()
      .required();
  command.option("--out", arguments->out, "the file to write: F.choices.json")
      .required()
      .check(not_empty());
  add_topology_option(command, session);
  add_verify_option(command, session);
  add_common_options(command, session, {.seed = true, .jobs = true, .sets = true});
  command.runs([arguments, &session] { run_record(*arguments, session); });
}

}  // namespace shardlab
