// shardlab ties: counts the exact ties, near ties and order-dependent choices of a suite.
#include "strategies/select/ties.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/base/parallel.h"
#include "costmodel/base/text.h"
#include "reports/number_text.h"
#include "runner/base/optional_values.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/session/layout_names.h"
#include "runner/session/long_loop.h"
#include "runner/session/run_reports.h"
#include "strategies/select/decision_source.h"

namespace shardlab {
namespace {

struct TiesArguments {
  std::vector<std::string> suites;
  std::string stack{kNewestDTensor};
  double within_percent = 1.0;
  bool fail_on_tie = false;
  bool all = false;
  bool no_flips = false;
};

struct Audit {
  std::vector<Question> questions;
  std::vector<TieItem> items;
  nlohmann::json topology;  // topology and stack as they are after --set
  nlohmann::json stack;
  std::vector<reports::SuiteSource> suites;
  std::size_t exact = 0;
  std::size_t near = 0;
  std::size_t order_dependent = 0;
  std::map<std::string, std::size_t>
      flips;  // for each parameter, how many choices its change flips first
  std::size_t impossible = 0;
  std::size_t not_asked = 0;
  std::size_t one_plan = 0;  // redistributions whose planner weighs no other plan
  std::size_t one_path = 0;  // redistributions of which one path is the cheapest
  std::size_t alone = 0;     // choices of an op without another possible candidate
};

// Each thread has its own auditor, because evaluators keep caches.
struct Auditor {
  Auditor(const Stack& stack, const Topology& topology)
      : evaluator(stack, topology), flips(stack, topology) {}
  StackEvaluator evaluator;
  PriceFlips flips;
};

bool is_listed(const TieItem& item) {
  return item.exact > 1 || item.near > 0 || item.order_dependent;
}

// Whether no other candidate of an op is possible.
bool is_alone(const TieItem& item) {
  return !item.paths && item.exact < 2 && (!item.margin_us || !std::isfinite(*item.margin_us));
}

Audit audit(const TiesArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const Topology topology = store.topology(session.topology);
  const Stack stack = store.stack(arguments.stack);
  if (stack.decisions != nullptr && !stack.decisions->lists_candidates()) {
    throw InputError("ties: found " + stack.rules.text() +
                     ", which do not say what else could have been chosen; valid: a stack that "
                     "lists candidates");
  }
  Audit audit;
  audit.topology = topology.to_json();
  audit.stack = stack.to_json();
  std::vector<Suite> suites;
  for (const std::string& name : arguments.suites) {
    suites.push_back(store.suite(name));
    expect_new_suite(suites);
  }
  for (Suite& suite : suites) {
    audit.suites.push_back({.name = suite.name,
                            .questions = static_cast<std::int64_t>(suite.questions.size()),
                            .source = suite.source});
    for (Question& question : suite.questions) audit.questions.push_back(std::move(question));
  }
  audit.items.resize(audit.questions.size());
  std::vector<const Question*> to_ask;
  for (const Question& question : audit.questions) to_ask.push_back(&question);
  session.prepare({&stack, 1}, to_ask, topology);
  LongLoop loop(session, "questions", audit.questions.size());
  const std::size_t done = parallel_for(
      audit.questions.size(), session.threads(),
      [&] { return std::make_unique<Auditor>(stack, topology); },
      [&](Auditor& auditor, std::size_t i) {
        audit.items[i] = audit_ties(audit.questions[i], auditor.evaluator, arguments.within_percent,
                                    arguments.no_flips ? nullptr : &auditor.flips);
        loop.advance();
      },
      loop.stop());
  if (done < audit.questions.size()) {
    for (reports::SuiteSource& suite : audit.suites) {
      suite.source += (suite.source.empty() ? "" : "; ") + std::string("interrupted after ") +
                      std::to_string(done) + " of " + std::to_string(audit.questions.size()) +
                      " questions in all";
    }
  }
  audit.questions.resize(done);
  audit.items.resize(done);
  for (const TieItem& item : audit.items) {
    if (!item.error.empty()) {
      ++audit.not_asked;
    } else if (!(item.total_us < std::numeric_limits<double>::infinity())) {
      ++audit.impossible;
    } else {
      audit.exact += item.exact > 1 ? 1U : 0U;
      audit.near += item.near > 0 ? 1U : 0U;
      audit.order_dependent += item.order_dependent ? 1U : 0U;
      audit.one_plan += item.paths == 0U ? 1U : 0U;
      audit.one_path += item.paths == 1U ? 1U : 0U;
      audit.alone += is_alone(item) ? 1U : 0U;
      if (item.flip) ++audit.flips[std::string(item.flip->parameter)];
    }
  }
  return audit;
}

nlohmann::json flip_json(const std::optional<PriceFlip>& flip) {
  if (!flip) return nullptr;
  return {{"parameter", flip->parameter}, {"factor", flip->factor}, {"to", flip->to}};
}

nlohmann::json item_json(const Question& question, const TieItem& item) {
  return {{"question", question.id},
          {"op", question.op()},
          {"mesh", question.mesh.text()},
          {"bytes", question.bytes()},
          {"inputs", question.inputs()},
          {"choice", item.choice},
          {"total_us", finite_or_null(item.total_us)},
          {"candidates", item.candidates},
          {"exact_ties", item.exact},
          {"near_ties", item.near},
          {"margin_us", or_null(item.margin_us)},
          {"order_dependent", item.order_dependent},
          {"flip", flip_json(item.flip)},
          {"tied", item.tied}};
}

// "latency x1.25", or "" if nothing flips the choice.
std::string flip_text(const std::optional<PriceFlip>& flip, const TextStyle& style) {
  if (!flip) return "";
  // A factor that is close to 1 still does not look like 1, which would change nothing.
  const std::array factors = {flip->factor, 1.0};
  return std::string(flip->parameter) + " x" + style.figures(factors)[0];
}

// A warning that the search with a queue, which stops at the first of the cheapest candidates, may
// find fewer ties than there are; "" for other searches.
std::string other_search_text(const Audit& audit) {
  const std::string search = audit.stack.value("search", "full");
  if (search != name_of(SearchKind::kDijkstra)) return "";
  return "  these are the ties among all candidates; the stack's search, " + search +
         ", does not list them all, so that fewer of its choices may depend on their order "
         "(compare counts those)\n";
}

// The questions that leave nothing to choose, and why.
std::string without_choice_text(const Audit& audit) {
  std::string text;
  if (audit.one_plan > 0) {
    text += "  " +
            reports::counted(static_cast<std::int64_t>(audit.one_plan),
                             "question is a redistribution", "questions are redistributions") +
            " for which the planner makes one plan: there is no tie to break\n";
  }
  if (audit.alone > 0) {
    text += "  " +
            reports::counted(static_cast<std::int64_t>(audit.alone), "choice has", "choices have") +
            " no other possible candidate: the rules list one, or no other can be priced\n";
  }
  if (audit.one_path > 0) {
    text +=
        "  " +
        reports::counted(static_cast<std::int64_t>(audit.one_path), "question is a redistribution",
                         "questions are redistributions") +
        " of which one path alone is the cheapest; how much dearer the next path is, the planner "
        "does not say\n";
  }
  return text;
}

// "R, S(0) -> S(0)", the layouts of the inputs and of the outputs.
std::string choice_text(const std::string& choice, const LayoutNames& names) {
  constexpr std::string_view kArrow = " -> ";
  const std::size_t arrow = choice.find(kArrow);
  if (arrow == std::string::npos) return names.of_texts(choice);
  return names.of_texts(choice.substr(0, arrow)) + std::string(kArrow) +
         names.of_texts(choice.substr(arrow + kArrow.size()));
}

std::string audit_text(const Audit& audit, const TiesArguments& arguments, const LayoutNames& names,
                       const TextStyle& style) {
  std::string text =
      std::to_string(audit.questions.size()) + " questions under " + arguments.stack + ": " +
      std::to_string(audit.exact) + " exact ties, " + std::to_string(audit.near) +
      " near ties (within " + format_double(arguments.within_percent) + " %), " +
      std::to_string(audit.order_dependent) + " choices that change with the candidates' order";
  if (audit.impossible > 0) text += ", " + std::to_string(audit.impossible) + " impossible";
  if (audit.not_asked > 0) {
    const auto first =
        std::ranges::find_if(audit.items, [](const TieItem& item) { return !item.error.empty(); });
    text += ", " + std::to_string(audit.not_asked) + " not asked, " +
            (audit.not_asked > 1 ? "the first " : "") + "because " + first->error;
  }
  text += "\n" + without_choice_text(audit) + other_search_text(audit);
  for (const auto& [parameter, choices] : audit.flips) {
    text += "  for " + std::to_string(choices) + (choices == 1 ? " choice, " : " choices, ") +
            parameter + " is the parameter that needs the smallest change to flip " +
            (choices == 1 ? "it\n" : "them\n");
  }
  TextTable table(
      style, {"question", "mesh", "us", "ties", "near", "order decides", "flips at", "choice"});
  constexpr std::size_t kShown = 40;
  std::size_t shown = 0;
  std::size_t listed = 0;
  for (std::size_t i = 0; i < audit.items.size(); ++i) {
    const TieItem& item = audit.items[i];
    if (!item.error.empty() || !(arguments.all || is_listed(item))) continue;
    if (++listed > kShown) continue;
    ++shown;
    table.add({audit.questions[i].id, audit.questions[i].mesh.text(), style.figure(item.total_us),
               std::to_string(item.exact), std::to_string(item.near),
               item.order_dependent ? "yes" : "no", flip_text(item.flip, style),
               choice_text(item.choice, names)});
    if (item.order_dependent) table.paint(5, Tone::kBad);
  }
  if (shown > 0) text += table.text();
  if (listed > shown)
    text += "  and " + std::to_string(listed - shown) + " more, which --format json lists\n";
  return text;
}

// The margins of all choices that have a price, by how large they are relative to it. The bands
// rise by factors of ten.
nlohmann::json margins_json(const Audit& result) {
  constexpr std::array kLimits = {0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0};  // percent
  std::array<std::int64_t, kLimits.size() + 1> choices{};
  std::int64_t exact = 0;
  std::int64_t alone = 0;
  std::int64_t free = 0;
  for (const TieItem& item : result.items) {
    const bool has_price = item.total_us < std::numeric_limits<double>::infinity();
    if (!item.error.empty() || !has_price) continue;
    if (item.exact > 1) {
      ++exact;
    } else if (item.paths) {
      continue;  // a redistribution, which is counted apart
    } else if (is_alone(item)) {
      ++alone;
    } else if (!(item.total_us > 0.0)) {
      ++free;
    } else {
      const double percent = 100.0 * *item.margin_us / item.total_us;
      const auto* const above = std::upper_bound(kLimits.begin(), kLimits.end(), percent);
      ++choices[static_cast<std::size_t>(above - kLimits.begin())];
    }
  }
  nlohmann::json bands = nlohmann::json::array();
  for (std::size_t b = 0; b < choices.size(); ++b) {
    bands.push_back({{"from_percent", b == 0 ? 0.0 : kLimits[b - 1]},
                     {"below_percent", b < kLimits.size() ? nlohmann::json(kLimits[b]) : nullptr},
                     {"choices", choices[b]}});
  }
  return {{"exact", exact},
          {"alone", alone},
          {"free", free},
          {"one_plan", result.one_plan},
          {"one_path", result.one_path},
          {"bands", std::move(bands)}};
}

nlohmann::json audit_json(const Audit& result, const TiesArguments& arguments) {
  nlohmann::json items = nlohmann::json::array();
  for (std::size_t i = 0; i < result.items.size(); ++i) {
    if (result.items[i].error.empty() && (arguments.all || is_listed(result.items[i]))) {
      items.push_back(item_json(result.questions[i], result.items[i]));
    }
  }
  return {{"stack", arguments.stack},
          {"within_percent", arguments.within_percent},
          {"questions", result.questions.size()},
          {"exact_ties", result.exact},
          {"near_ties", result.near},
          {"order_dependent", result.order_dependent},
          {"flipped_first_by", result.flips},
          {"impossible", result.impossible},
          {"not_asked", result.not_asked},
          {"items", std::move(items)},
          {"margins", margins_json(result)}};
}

void run_ties(const TiesArguments& arguments, Session& session) {
  const StopWatch watch;
  prepare_out(session);
  const Audit result = audit(arguments, session);
  if (writes_report(session)) {
    reports::RunHeader header = header_of(session);
    header.configuration.topology = result.topology;
    header.configuration.stacks = {result.stack};
    header.configuration.suites = result.suites;
    write_run(session, {.kind = reports::kTiesKind,
                        .header = std::move(header),
                        .result = audit_json(result, arguments),
                        .wall_ms = watch.ms()});
  }
  if (session.json()) {
    session.print(audit_json(result, arguments));
  } else if (!session.summary) {
    session.print(audit_text(result, arguments, LayoutNames(session), session.style()) +
                  report_line(session));
  }
  if (arguments.fail_on_tie && result.exact > 0) session.exit_code = kGateSaidNo;
}

}  // namespace

void add_ties_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<TiesArguments>();
  const Command command = root.subcommand(
      "ties",
      "audit a suite for ties\n  shardlab ties --suite ops-small --stack dtensor-v3 --within 1");
  command.option("--suite", arguments->suites, "shipped name or path; may be repeated")
      .required()
      .repeatable();
  command.option("--stack", arguments->stack, "shipped name or path").show_default();
  command
      .option("--within", arguments->within_percent,
              "how many percent above the minimum still make a near tie")
      .check(number_from(0.0, 1e6))
      .show_default();
  command.flag("--all", arguments->all, "list every question, not only ties");
  command.flag("--no-flips", arguments->no_flips,
               "do not look for the parameter whose change flips each choice first");
  command.flag("--fail-on-tie", arguments->fail_on_tie, "exit 1 when there is an exact tie");
  add_topology_option(command, session);
  add_verify_option(command, session);
  add_torch_names_option(command, session);
  add_report_options(command, session);
  add_common_options(command, session, {.seed = true, .jobs = true, .sets = true, .digits = true});
  command.runs([arguments, &session] {
    arguments->stack = released_stack(arguments->stack);
    run_ties(*arguments, session);
  });
}

}  // namespace shardlab
