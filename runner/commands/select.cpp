// shardlab select: shows the candidates of one op, their prices, and the choice.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "runner/base/optional_values.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/evaluation/doubted_prices.h"
#include "runner/evaluation/interval_text.h"
#include "runner/session/flattened_meshes.h"
#include "runner/session/layout_names.h"
#include "runner/session/op_arguments.h"
#include "strategies/rules/output_mask.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/suite.h"

namespace shardlab {
namespace {

struct SelectArguments {
  OpArguments op;
  std::string mesh;
  FlattenedMeshes flattened;
  std::string stack{kNewestDTensor};
  std::string search;
  std::string order;
  bool effort = false;
};

std::vector<std::string> texts(const std::vector<Placements>& layouts) {
  std::vector<std::string> out;
  for (const Placements& placements : layouts) out.push_back(Layout(placements).text());
  return out;
}

// Where the op's mask leaves out results, says which of them the outputs of the candidates are.
class Results {
 public:
  Results(const OpCall& call, const Selection& selection)
      : returned_(returned_results(call, selection.choice.outputs.size())),
        outputs_(selection.choice.outputs.size()) {}

  // Which result of the op each output is, by position. Empty if no result is left out.
  [[nodiscard]] std::vector<std::size_t> positions_of(const Candidate& candidate) const {
    std::vector<std::size_t> positions;
    if (candidate.outputs.size() != outputs_) return positions;
    for (std::size_t r = 0; r < returned_.size(); ++r) {
      if (returned_[r]) positions.push_back(r);
    }
    return positions;
  }

  // "S(0), none, P(sum)".
  [[nodiscard]] std::string text_of(const Candidate& candidate, const LayoutNames& names) const {
    const std::vector<std::size_t> positions = positions_of(candidate);
    const std::size_t results = positions.empty() ? candidate.outputs.size() : returned_.size();
    std::vector<std::string> texts(results, "none");
    for (std::size_t i = 0; i < candidate.outputs.size(); ++i) {
      texts[positions.empty() ? i : positions[i]] = names.of(Layout(candidate.outputs[i]));
    }
    return join(texts);
  }

 private:
  std::vector<bool> returned_;
  std::size_t outputs_;
};

// Says why the redistribution of an input is impossible or can't run. Asks the planner only once
// per layout for the former.
class Reasons {
 public:
  Reasons(const OpCall& call, Redistributor& redistributor)
      : call_(call), tensors_(call.tensors()), redistributor_(redistributor) {}

  std::string of(const Candidate& candidate) {
    for (std::size_t i = 0; i < candidate.inputs.size(); ++i) {
      if (candidate.redistribute_us[i] < kInfinity) continue;
      const Layout to = asked_layout(call_, candidate.inputs[i]);
      std::string& reason = known_[{i, to.text()}];
      if (reason.empty()) {
        reason = "input " + std::to_string(i) + ": " +
                 redistributor_.plan(tensors_[i]->meta, tensors_[i]->layout, to).impossible;
      }
      return reason;
    }
    return "";
  }

  // Why a choice that has a price can't run: "input 0: ..."; empty if it can.
  [[nodiscard]] std::string of_running(const Candidate& choice) const {
    for (std::size_t i = 0; i < choice.inputs.size(); ++i) {
      const Layout to = asked_layout(call_, choice.inputs[i]);
      if (to.placements == tensors_[i]->layout.placements) continue;
      const Plan plan = redistributor_.plan(tensors_[i]->meta, tensors_[i]->layout, to);
      if (!plan.unexecutable.empty()) {
        return "input " + std::to_string(i) + ": " + plan.unexecutable;
      }
    }
    return "";
  }

 private:
  const OpCall& call_;
  boost::container::small_vector<const TensorSpec*, 4> tensors_;
  Redistributor& redistributor_;
  std::map<std::pair<std::size_t, std::string>, std::string> known_;
};

// How sure the totals of candidates are. Plans each move of an input once.
class Intervals {
 public:
  Intervals(const OpCall& call, const DeviceMesh& mesh, StackEvaluator& evaluator)
      : call_(call), tensors_(call.tensors()), mesh_(mesh), evaluator_(evaluator) {}

  // Nothing if the stack does not know the error of any of the candidate's moves.
  std::optional<PriceInterval> of(const Candidate& candidate) {
    if (!(candidate.total_us < kInfinity)) return std::nullopt;
    PriceInterval sum{candidate.total_us, candidate.total_us};
    bool is_known = false;
    for (std::size_t i = 0; i < candidate.inputs.size(); ++i) {
      if (const std::optional<PriceInterval>& move = of(i, candidate.inputs[i])) {
        const double us = candidate.redistribute_us[i];
        sum += {move->low_us - us, move->high_us - us};
        is_known = true;
      }
    }
    return is_known ? std::optional(sum) : std::nullopt;
  }

  // The prices of the candidate's moves that a reader should doubt.
  DoubtedPrices doubts_of(const Candidate& candidate) {
    DoubtedPrices doubted(evaluator_);
    for (const Plan& move : moves_of(candidate)) doubted.add(move, evaluator_.on(mesh_));
    return doubted;
  }

  // Whether the prices of the cheapest candidate and of the next dearer one differ by less than
  // this difference may be off.
  bool is_undecided(const Selection& selection) {
    if (!selection.margin_us) return false;
    const double least = selection.choice.total_us;
    const Candidate* next = nullptr;
    for (const Candidate& each : selection.candidates) {
      if (!(each.total_us > least + 0.5 * *selection.margin_us)) continue;
      if (next == nullptr || each.total_us < next->total_us) next = &each;
    }
    if (next == nullptr || !(next->total_us < kInfinity)) return false;
    return *selection.margin_us < error_of_difference_us(unsure_prices_of(selection.choice),
                                                         unsure_prices_of(*next),
                                                         evaluator_.collective_model());
  }

 private:
  Plan plan_of(std::size_t input, const Layout& to) {
    return evaluator_.plan(mesh_, tensors_[input]->meta, tensors_[input]->layout, to);
  }

  std::vector<Plan> moves_of(const Candidate& candidate) {
    std::vector<Plan> moves;
    for (std::size_t i = 0; i < candidate.inputs.size(); ++i) {
      if (candidate.inputs[i] == tensors_[i]->layout.placements) continue;
      moves.push_back(plan_of(i, asked_layout(call_, candidate.inputs[i])));
    }
    return moves;
  }

  std::vector<UnsurePrice> unsure_prices_of(const Candidate& candidate) {
    std::vector<UnsurePrice> prices;
    for (const Plan& move : moves_of(candidate)) {
      add_unsure_prices(prices, move, evaluator_.on(mesh_), evaluator_.collective_model());
    }
    return prices;
  }

  const std::optional<PriceInterval>& of(std::size_t input, const Placements& placements) {
    const Layout to = asked_layout(call_, placements);
    const auto [place, is_new] = known_.try_emplace({input, to.text()});
    if (is_new && placements != tensors_[input]->layout.placements) {
      place->second =
          interval_of(plan_of(input, to), evaluator_.on(mesh_), evaluator_.collective_model());
    }
    return place->second;
  }

  const OpCall& call_;
  boost::container::small_vector<const TensorSpec*, 4> tensors_;
  const DeviceMesh& mesh_;
  StackEvaluator& evaluator_;
  std::map<std::pair<std::size_t, std::string>, std::optional<PriceInterval>> known_;
};

nlohmann::json candidate_json(const Candidate& candidate, std::size_t index, const Results& results,
                              Reasons& reasons, Intervals& intervals) {
  nlohmann::json costs = nlohmann::json::array();
  for (const double cost : candidate.redistribute_us) costs.push_back(finite_or_null(cost));
  const std::string reason = reasons.of(candidate);
  nlohmann::json json = {{"index", index},
                         {"inputs", texts(candidate.inputs)},
                         {"outputs", texts(candidate.outputs)},
                         {"redistribute_us", costs},
                         {"compute_us", candidate.compute_us},
                         {"total_us", finite_or_null(candidate.total_us)},
                         {"impossible", text_or_null(reason)}};
  if (const std::vector<std::size_t> positions = results.positions_of(candidate);
      !positions.empty()) {
    json["output_positions"] = positions;
  }
  add_interval(json, intervals.of(candidate));
  return json;
}

// Whether the selection comes from PyTorch's own priority queue (strategies/select/search.h), which
// knows no other candidate than the one that it reached first.
bool is_from_queue(const Selection& selection, const SelectOptions& options, const Stack& stack) {
  return options.search.value_or(stack.search) == SearchKind::kDijkstra &&
         stack.redistribution.planner == PlannerKind::kGreedy && stack.decisions == nullptr &&
         selection.search_note.empty();
}

constexpr std::string_view kQueueNote =
    "found by PyTorch's priority queue, which stops at the first candidate that it reaches; its "
    "total adds up the queue's steps, where --search full prices every candidate by the planner";

nlohmann::json selection_json(const Selection& selection, bool from_queue, const Results& results,
                              Reasons& reasons, Intervals& intervals) {
  nlohmann::json candidates = nlohmann::json::array();
  for (std::size_t i = 0; i < selection.candidates.size(); ++i) {
    candidates.push_back(candidate_json(selection.candidates[i], i, results, reasons, intervals));
  }
  nlohmann::json json = {{"candidates", candidates},
                         {"selected", candidate_json(selection.choice, selection.selected, results,
                                                     reasons, intervals)},
                         {"ties", selection.ties},
                         {"margin_us", or_null(selection.margin_us)},
                         {"flips_with_order", selection.flips_with_order},
                         {"unexecutable", text_or_null(reasons.of_running(selection.choice))}};
  if (intervals.of(selection.choice)) json["undecided"] = intervals.is_undecided(selection);
  intervals.doubts_of(selection.choice).add_to(json);
  if (selection.effort) {
    json["search"] = {{"method", name_of(selection.effort->method)},
                      {"states_visited", selection.effort->states_visited},
                      {"prices_asked", selection.effort->prices_asked}};
  }
  if (!selection.search_note.empty()) {
    json["search_note"] = "full enumeration: " + selection.search_note;
  } else if (from_queue) {
    json["search_note"] = kQueueNote;
  }
  return json;
}

std::string layouts_text(const std::vector<Placements>& layouts, const LayoutNames& names) {
  std::vector<std::string> out;
  for (const Placements& placements : layouts) out.push_back(names.of(Layout(placements)));
  return join(out);
}

// What the choice took to find: "the search with bounds examined 9 partial and whole candidates
// ...".
std::string effort_text(const Selection& selection) {
  if (!selection.effort) return "  the choice was made elsewhere, so that no search is counted\n";
  const SearchEffort& effort = *selection.effort;
  const auto counted = [](std::size_t count, std::string_view one, std::string_view more) {
    return std::to_string(count) + " " + std::string(count == 1 ? one : more);
  };
  switch (effort.method) {
    case SearchMethod::kQueue:
      return "  the queue visited " + counted(effort.states_visited, "state", "states") +
             " and asked for " + counted(effort.prices_asked, "price", "prices") +
             " of single steps\n";
    case SearchMethod::kBounds:
      return "  the search with bounds visited " +
             counted(effort.states_visited, "partial or whole candidate",
                     "partial and whole candidates") +
             " and asked for " + counted(effort.prices_asked, "price", "prices") +
             " of moves of an input\n";
    case SearchMethod::kEnumeration:
      break;
  }
  return "  the enumeration visited " + counted(effort.states_visited, "candidate", "candidates") +
         " and asked for " + counted(effort.prices_asked, "price", "prices") +
         " of moves of an input\n";
}

std::string selection_text(const Selection& selection, bool from_queue, const LayoutNames& names,
                           const TextStyle& style, bool shows_effort, const Results& results,
                           Reasons& reasons, Intervals& intervals) {
  constexpr std::size_t kShown = 24;
  std::vector<std::size_t> shown(selection.candidates.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  std::string out;
  if (shown.size() > kShown) {
    std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
      return selection.candidates[a].total_us < selection.candidates[b].total_us;
    });
    shown.resize(kShown);
    out += "  the " + std::to_string(kShown) + " cheapest of " +
           std::to_string(selection.candidates.size()) + " candidates\n";
  }
  std::vector<double> totals;
  for (const std::size_t i : shown) totals.push_back(selection.candidates[i].total_us);
  const std::vector<std::string> total_figures = style.figures(totals);
  TextTable table(style,
                  {"", "index", "outputs", "inputs", "total us", "redistribute us", "compute us"});
  for (std::size_t row = 0; row < shown.size(); ++row) {
    const std::size_t i = shown[row];
    const Candidate& c = selection.candidates[i];
    const bool tied =
        std::find(selection.ties.begin(), selection.ties.end(), i) != selection.ties.end();
    std::string costs;
    for (const double cost : c.redistribute_us) {
      costs +=
          (costs.empty() ? "" : " + ") + (cost < kInfinity ? style.figure(cost) : "impossible");
    }
    table.add(
        {i == selection.selected ? "chosen" : (tied && selection.ties.size() > 1 ? "tie" : ""),
         std::to_string(i), results.text_of(c, names), layouts_text(c.inputs, names),
         c.total_us < kInfinity ? total_figures[row] : "impossible", costs,
         style.figure(c.compute_us)});
    if (i == selection.selected) table.paint(0, Tone::kGood);
  }
  out += table.text();
  if (from_queue) {
    out += "  " + std::string(kQueueNote) + "\n";
  } else {
    out += "  " + std::to_string(selection.ties.size()) +
           (selection.ties.size() == 1 ? " candidate" : " candidates") + " at the minimum";
    if (selection.margin_us) {
      out += ", the next is " + style.figure(*selection.margin_us) + " us dearer";
    }
    out += selection.flips_with_order ? "; the choice depends on the candidates' order\n" : "\n";
  }
  if (const auto interval = intervals.of(selection.choice)) {
    out += "  the choice takes " + style.figure(selection.choice.total_us) + " us" +
           interval_text(interval, style) +
           (intervals.is_undecided(selection)
                ? "; the next candidate is nearer than these errors, so that the choice is "
                  "undecided\n"
                : "\n");
  }
  if (!selection.search_note.empty()) {
    out += "  full enumeration: " + selection.search_note + "\n";
  }
  if (shows_effort) out += effort_text(selection);
  const std::string reason = reasons.of(selection.choice);
  if (!reason.empty()) out += "  the choice is impossible: " + reason + "\n";
  const std::string obstacle = reasons.of_running(selection.choice);
  if (!obstacle.empty()) out += "  the choice can't run: " + obstacle + "\n";
  return out + intervals.doubts_of(selection.choice).text();
}

void run_select(const SelectArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const Topology topology = store.topology(session.topology);
  StackEvaluator evaluator(store.stack(arguments.stack), topology);
  const DeviceMesh mesh = arguments.flattened.read(arguments.mesh);
  const OpCall call = arguments.op.read(mesh, evaluator.stack().rules);
  SelectOptions options;
  if (!arguments.search.empty()) options.search = from_name<SearchKind>(arguments.search);
  if (!arguments.order.empty()) {
    options.order = parse_option("--order", [&] { return CandidateOrder::parse(arguments.order); });
  }
  Question question;
  question.mesh = mesh;
  question.call = call;
  const std::array to_ask = {&question};
  session.prepare({&evaluator.stack(), 1}, to_ask, topology);
  const bool foreach = is_foreach(find_op_rule(call.op, evaluator.stack().rules).op);
  nlohmann::json json = {{"stack", evaluator.stack().name},
                         {"topology", topology.name()},
                         {"mesh", mesh.text()},
                         {"op", call.op}};
  if (!foreach) {
    const Selection selection = evaluator.select(call, mesh, options);
    const bool from_queue = is_from_queue(selection, options, evaluator.stack());
    const Results results(call, selection);
    Reasons reasons(call, evaluator.on(mesh));
    Intervals intervals(call, mesh, evaluator);
    if (session.json()) {
      json.update(selection_json(selection, from_queue, results, reasons, intervals));
      session.print(json);
    } else {
      session.print(LayoutNames(session).of(call) + " on " + mesh.text() + ", " +
                    printable(evaluator.stack().name) + "\n" +
                    selection_text(selection, from_queue, LayoutNames(session), session.style(),
                                   arguments.effort, results, reasons, intervals));
    }
    return;
  }
  // Each element of the lists is handled as an op of its own, with its own choice.
  nlohmann::json children = nlohmann::json::array();
  std::string text;
  for (std::size_t i = 0; i < foreach_size(call); ++i) {
    const OpCall child = foreach_child(call, i);
    const Selection selection = evaluator.select(child, mesh, options);
    const bool from_queue = is_from_queue(selection, options, evaluator.stack());
    const Results results(child, selection);
    Reasons reasons(child, evaluator.on(mesh));
    Intervals intervals(child, mesh, evaluator);
    children.push_back(selection_json(selection, from_queue, results, reasons, intervals));
    text += LayoutNames(session).of(child) + " on " + mesh.text() + ", " +
            printable(evaluator.stack().name) + "\n" +
            selection_text(selection, from_queue, LayoutNames(session), session.style(),
                           arguments.effort, results, reasons, intervals);
  }
  if (!session.json()) {
    session.print(text);
    return;
  }
  if (children.size() == 1) json.update(children[0]);
  json["children"] = children;
  session.print(json);
}

}  // namespace

void add_select_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<SelectArguments>();
  const Command command =
      root.subcommand("select",
                      "list the candidates of one op with their prices, and the choice\n"
                      "  shardlab select --op aten.mm.default --mesh 8 --inputs "
                      "\"bf16[8192,8192] S(0)\" \"bf16[8192,8192] S(0)\" --stack alpha-beta");
  arguments->op.add_options(command, true);
  command.option("--mesh", arguments->mesh, "8x8, or dp=8,tp=8").required();
  arguments->flattened.add(command);
  command.option("--stack", arguments->stack, "shipped name or path").show_default();
  command.option("--search", arguments->search, "the search to use instead of the stack's")
      .check(one_of<SearchKind>());
  command.option("--order", arguments->order,
                 "order of the candidates: listed, reversed or shuffled:SEED");
  command.flag(
      "--effort", arguments->effort,
      "say how many states the search visited and how many prices it asked for; JSON always does");
  add_topology_option(command, session);
  add_torch_names_option(command, session);
  add_verify_option(command, session);
  add_common_options(command, session, {.seed = true, .sets = true, .digits = true});
  command.runs([arguments, &session] { run_select(*arguments, session); });
}

}  // namespace shardlab
