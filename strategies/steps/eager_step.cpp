#include "strategies/steps/eager_step.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/programs/program_check.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/program_prices.h"
#include "strategies/select/questionnaire.h"
#include "strategies/steps/step_memory.h"

namespace shardlab {
namespace {

// Whether the node only gives a name to a value that exists already, so that it runs no kernel.
[[nodiscard]] bool only_names(const ProgramNode& node) {
  return !node.computes() || node.op == kGetItem;
}

// The rule that a stack has for an op or, if it has none, AutoParallel's, as in `solve`.
[[nodiscard]] const OpRule& rule_of(const std::string& op, const Rules& rules) {
  try {
    return find_op_rule(op, rules);
  } catch (const InputError&) {
    const OpRule* rule = find_program_rule(op, rules.set());
    if (rule == nullptr) throw;
    return *rule;
  }
}

// A text that is equal for equal questions alone.
[[nodiscard]] std::string key_of(const Question& question) {
  std::string key;
  const auto add = [&](const TensorMeta& meta, const Layout& layout) {
    key += meta.text();
    for (const std::int64_t stride : meta.strides) key += "," + std::to_string(stride);
    key += " " + layout.text() + ";";
  };
  if (question.kind == Question::Kind::kPlan) {
    add(question.tensor, question.from);
    return key + " to " + question.to.text();
  }
  key = question.call.op + question.call.args.dump();
  for (const TensorArg& arg : question.call.inputs) {
    key += arg.is_list ? "[" : "(";
    for (const bool given : arg.given) key += given ? "1" : "0";
    for (const auto& tensor : arg.tensors) add(tensor.meta, tensor.layout);
  }
  return key;
}

[[nodiscard]] bool are_equal(const EagerDecision& a, const EagerDecision& b) {
  return a.text() == b.text();
}

}  // namespace

std::string EagerDecision::text() const {
  std::string text;
  if (question.kind == Question::Kind::kSelect) text = choice_text(inputs, outputs);
  std::string moved;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (moves[i].steps.empty()) continue;
    if (question.kind == Question::Kind::kPlan) return moves[i].path();
    moved += (moved.empty() ? "" : ", ") + ("input " + std::to_string(i)) + ": " + moves[i].path();
  }
  return moved.empty() ? text : text + " [" + moved + "]";
}

EagerStack::EagerStack(const Stack& stack, const Topology& topology)
    : evaluator_(stack, topology) {}

const EagerDecision& EagerStack::decide(const std::string& key, const Question& question) {
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.try_emplace(key, make(question)).first->second;
}

EagerDecision EagerStack::make(const Question& question) {
  EagerDecision made{.question = question, .inputs = {}, .outputs = {}, .moves = {}};
  const auto move = [&](const TensorMeta& meta, const Layout& from, const Layout& to) {
    // Layouts with equal placements may still disagree on what strided shards mean. No data moves
    // then, so the plan goes to the source's own layout.
    const bool stays = from.placements == to.placements && from.order == to.order;
    made.moves.push_back(evaluator_.plan(question.mesh, meta, from, stays ? from : to));
    const Plan& plan = made.moves.back();
    const std::string& reason = plan.refusal();
    if (reason.empty() || from.placements == to.placements) return;
    throw InputError(from.text() + " to " + to.text() + ": " + reason);
  };
  if (question.kind == Question::Kind::kPlan) {
    made.inputs = {question.to.placements};
    move(question.tensor, question.from, question.to);
    return made;
  }
  const OpRule& rule = rule_of(question.call.op, evaluator_.stack().rules);
  if (is_foreach(rule.op)) {
    throw InputError(question.call.op +
                     " is applied to each element of a list; valid: the op of one element");
  }
  made.question.call.op = std::string(rule.op);
  Candidate choice = evaluator_.select(made.question.call, question.mesh, {.rule = &rule}).choice;
  made.inputs = std::move(choice.inputs);
  made.outputs = std::move(choice.outputs);
  const auto tensors = made.question.call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    move(tensors[i]->meta, tensors[i]->layout, asked_layout(made.question.call, made.inputs[i]));
  }
  return made;
}

EagerStep::EagerStep(const Program& program, const DeviceMesh& mesh,
                     std::vector<Placements> sources, const Stack& reference,
                     const Topology& topology, const StepOptions& options)
    : program_(program),
      mesh_(mesh),
      topology_(topology),
      sources_(std::move(sources)),
      paired_(program.nodes.size()),
      reference_(reference, topology),
      options_(options),
      blocks_(blocks_of(program)) {
  if (reference.compute_model.entry->name == "none") {
    throw InputError("the reference " + reference.name +
                     " prices no kernels, so that it can't say what a step takes; valid: a stack "
                     "with a compute model, such as alpha-beta");
  }
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    rules_.push_back(only_names(node) ? nullptr
                                      : find_program_rule(node.op, reference.rules.set()));
    if (!node.is_source()) continue;
    if (n >= sources_.size() || sources_[n].size() != to_index(mesh.ndim())) {
      throw InputError("node " + node.name + ": found no layout of " + std::to_string(mesh.ndim()) +
                       " mesh dims; valid: one for each parameter, buffer, input and tangent");
    }
  }
  for (const auto& [a, b] : program.pairs) {
    if (program.nodes[b].leaves() && program.nodes[a].is_source()) paired_[b] = a;
    if (program.nodes[a].leaves() && program.nodes[b].is_source()) paired_[a] = b;
  }
}

Question EagerStep::question_of(std::size_t n,
                                const std::vector<NodePlacements>& placements) const {
  const ProgramNode& node = program_.nodes[n];
  Question question;
  question.id = node.name;
  question.mesh = mesh_;
  const auto layout_of = [&](const ValueRef& value) {
    Layout layout(placements[value.node].outputs[value.output]);
    layout.own_strided = own_strided_[value.node];
    return layout;
  };
  if (node.computes()) {
    question.call = call_of(program_, n, mesh_.ndim());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      for (std::size_t v = 0; v < node.inputs[i].values.size(); ++v) {
        question.call.inputs[i].tensors[v].layout = layout_of(node.inputs[i].values[v]);
      }
    }
    return question;
  }
  const ValueRef value = values_read(node).at(0);
  question.kind = Question::Kind::kPlan;
  question.tensor = program_.nodes[value.node].outputs[value.output];
  question.from = layout_of(value);
  question.to = Layout(sources_[*paired_[n]]);
  return question;
}

EagerRun EagerStep::run(EagerStack& stack) { return run(Choice{.all = stack}); }

EagerRun EagerStep::run(const Choice& choice) {
  EagerRun run;
  own_strided_.assign(program_.nodes.size(), false);
  std::map<std::string, std::size_t> asked;                  // by key: index into run.questions
  std::map<const EagerDecision*, std::uint32_t> first_plan;  // index into planned.plans
  PlannedProgram planned{.program = &program_,
                         .placements = std::vector<NodePlacements>(program_.nodes.size()),
                         .compute_us = std::vector<double>(program_.nodes.size(), 0.0),
                         .is_view = {},
                         .plans = {},
                         .moves = std::vector<std::vector<std::uint32_t>>(program_.nodes.size())};
  Redistributor& redistributor = reference_.on(mesh_);
  for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
    const ProgramNode& node = program_.nodes[n];
    NodePlacements& own = planned.placements[n];
    planned.is_view.push_back(rules_[n] != nullptr && rules_[n]->kernel == Kernel::kView);
    const std::vector<ValueRef> values = values_read(node);
    const auto layout_of = [&](const ValueRef& value) -> const Placements& {
      return planned.placements[value.node].outputs[value.output];
    };
    if (node.is_source()) {
      own.outputs.assign(node.outputs.size(), sources_[n]);
      continue;
    }
    try {
      if (only_names(node) && !paired_[n]) {
        for (const ValueRef& value : values) {
          own.inputs.push_back(layout_of(value));
          planned.moves[n].push_back(static_cast<std::uint32_t>(planned.plans.size()));
          planned.plans.push_back(
              redistributor.plan(program_.nodes[value.node].outputs[value.output],
                                 Layout(layout_of(value)), Layout(layout_of(value))));
        }
        own.outputs.assign(node.outputs.size(), layout_of(values.at(0)));
        own_strided_[n] = own_strided_[values.at(0).node];
        continue;
      }
      const Question question = question_of(n, planned.placements);
      const std::string key = key_of(question);
      EagerStack& stack = choice.one != nullptr && key == choice.key ? *choice.one : choice.all;
      const EagerDecision& decision = stack.decide(key, question);
      const auto [place, is_new] = asked.try_emplace(key, run.questions.size());
      if (is_new) run.questions.push_back({.key = key, .decision = &decision, .nodes = {}});
      run.questions[place->second].nodes.push_back(n);

      own.inputs = decision.inputs;
      if (node.leaves()) {
        own.outputs.assign(node.outputs.size(), decision.inputs[0]);
      } else {
        const OpRule& rule = rule_of(decision.question.call.op, stack.stack().rules);
        own_strided_[n] = made_layout(decision.question.call, {}).own_strided;
        for (const std::optional<std::size_t> made :
             match_outputs(node, rule, rule.outputs(decision.question.call))) {
          own.outputs.push_back(made ? decision.outputs[*made]
                                     : Layout::replicated(mesh_.ndim()).placements);
        }
        planned.compute_us[n] =
            kernel_us_of(program_, n, rules_[n], reference_.compute_model(), mesh_, own);
      }
      const auto [first, has_no_plans] =
          first_plan.try_emplace(&decision, static_cast<std::uint32_t>(planned.plans.size()));
      double& local_us = run.questions[place->second].local_us;
      if (is_new) local_us = planned.compute_us[n];
      for (std::size_t i = 0; i < decision.moves.size(); ++i) {
        if (has_no_plans) {
          Plan plan = redistributor.repriced(decision.moves[i]);
          const Price price = plan.executed_price();
          if (!price.is_possible()) {
            throw InputError("the reference " + reference_.stack().name + " has no price for " +
                             plan.path() + ": " + std::string(price.impossible));
          }
          planned.plans.push_back(std::move(plan));
        }
        const std::size_t index = first->second + i;
        if (is_new) local_us += planned.plans[index].executed_price().total.value();
        planned.moves[n].push_back(static_cast<std::uint32_t>(index));
      }
    } catch (const LimitError&) {
      throw;
    } catch (const InputError& error) {
      throw node_error(program_, n, error);
    }
  }
  const TrainingStep step = make_step(planned, blocks_, redistributor, options_);
  run.step_us = simulated_us(step, mesh_, topology_);
  run.sum_us = sum_us(step);
  run.peak_bytes = memory_of(step).peak_bytes;
  run.placements = std::move(planned.placements);
  return run;
}

namespace {

// How many nodes beside these take or make other layouts.
std::int64_t followers(const EagerRun& before, const EagerRun& after,
                       const std::vector<std::size_t>& nodes) {
  std::int64_t count = 0;
  for (std::size_t n = 0; n < before.placements.size(); ++n) {
    if (std::ranges::binary_search(nodes, n)) continue;
    const NodePlacements& a = before.placements[n];
    const NodePlacements& b = after.placements[n];
    if (a.inputs != b.inputs || a.outputs != b.outputs) ++count;
  }
  return count;
}

}  // namespace

std::vector<StepFlip> EagerStep::flips(EagerStack& baseline, EagerStack& candidate) {
  const EagerRun before = run(baseline);
  std::vector<StepFlip> flips;
  for (const AskedQuestion& asked : before.questions) {
    try {
      const EagerDecision& other = candidate.decide(asked.key, asked.decision->question);
      if (are_equal(*asked.decision, other)) continue;
      const EagerRun after = run(Choice{.all = baseline, .one = &candidate, .key = asked.key});
      const auto place = std::ranges::find(after.questions, asked.key, &AskedQuestion::key);
      const auto count = static_cast<double>(asked.nodes.size());
      flips.push_back({.node = asked.nodes.front(),
                       .count = static_cast<std::int64_t>(asked.nodes.size()),
                       .question = asked.decision->question,
                       .baseline = asked.decision->text(),
                       .candidate = other.text(),
                       .delta_step_us = after.step_us - before.step_us,
                       .delta_peak_bytes = after.peak_bytes - before.peak_bytes,
                       .delta_local_us = count * (place->local_us - asked.local_us),
                       .delta_sum_us = after.sum_us - before.sum_us,
                       .followers = followers(before, after, asked.nodes)});
    } catch (const LimitError&) {
      throw;
    } catch (const InputError&) {  // the candidate has no answer, or one that leads nowhere
    }
  }
  std::stable_sort(flips.begin(), flips.end(), [](const StepFlip& a, const StepFlip& b) {
    const double of_a = std::abs(a.delta_step_us);
    const double of_b = std::abs(b.delta_step_us);
    if (of_a != of_b) return of_a > of_b;
    return std::abs(a.delta_peak_bytes) > std::abs(b.delta_peak_bytes);
  });
  return flips;
}

}  // namespace shardlab
