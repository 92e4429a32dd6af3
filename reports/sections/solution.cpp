// The solution of a program on one screen, and its costs by layer.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reports/layers.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace solution_section {

using namespace reports;

Figures figures_of(const SolutionRecord& record) {
  const SolutionBreakdown parts = record.breakdown.value_or(SolutionBreakdown{});
  const double total = record.objective_us.value_or(0.0);
  const auto share = [&](double us) {
    return total > 0.0 ? percent(us / total) + " of the total" : std::string("of nothing");
  };
  const double gap = record.lower_bound_us ? total - *record.lower_bound_us : 0.0;
  const std::string parts_text = "kernels " + duration_text(parts.compute_us) + ", communication " +
                                 duration_text(parts.communication_us);
  const bool is_step = record.step_us && record.memory;
  Figures figures = {
      {{record.objective_name == "objective" ? "Objective" : record.objective_name,
        record.objective_us ? duration_text(total) : "none",
        is_step ? parts_text : "all nodes, one step"},
       {"Proof", record.optimal ? "optimal" : "not proved",
        record.objective_us ? "lower bound " + duration_text(total - gap) : "infeasible"}}};
  if (is_step) {
    figures.figures.push_back(
        {"Simulated step", duration_text(*record.step_us), "communication overlaps with kernels"});
    figures.figures.push_back(
        {"Memory at the peak", bytes_text(record.memory->peak_bytes),
         (record.memory->fits ? "of " : "MORE THAN ") + bytes_text(record.memory->device_bytes)});
  } else {
    figures.figures.push_back(
        {"Kernels", duration_text(parts.compute_us), share(parts.compute_us)});
    figures.figures.push_back(
        {"Communication", duration_text(parts.communication_us),
         share(parts.communication_us) +
             (parts.transition_us > 0.0 ? "; transitions: " + duration_text(parts.transition_us)
                                        : "")});
  }
  if (record.executed_us && !record.runs_as_priced()) {
    figures.figures.insert(figures.figures.begin() + 1,
                           {"As executed", duration_text(*record.executed_us), "step by step"});
  }
  return figures;
}

struct Stretch {
  std::string label;
  std::int64_t ops = 0;
  double compute_us[2] = {0.0, 0.0};  // forward, backward
  double communication_us[2] = {0.0, 0.0};
};

bool is_backward(const SolvedNode& node) { return node.phase == "backward"; }

// The layer of each node: a number from 0, or one of these two.
constexpr std::int64_t kBefore = -1;
constexpr std::int64_t kAfter = std::numeric_limits<std::int64_t>::max();
using Places = std::vector<std::int64_t>;

// Takes the layers that the record names. A node without a layer is before or after all layers,
// depending on where it runs; the backward pass goes through the layers from the last to the first.
std::optional<Places> named_places(const SolutionRecord& record) {
  std::array<std::set<std::int64_t>, 2> layers;
  std::array<bool, 2> has_ops = {false, false};
  std::size_t first_forward = record.assignment.size();
  std::size_t last_backward = 0;
  for (std::size_t i = 0; i < record.assignment.size(); ++i) {
    const SolvedNode& node = record.assignment[i];
    if (node.kind != "op") continue;
    const std::size_t phase = is_backward(node) ? 1 : 0;
    has_ops[phase] = true;
    if (!node.layer) continue;
    layers[phase].insert(*node.layer);
    if (phase == 0) first_forward = std::min(first_forward, i);
    if (phase == 1) last_backward = i;
  }
  if (layers[0].empty() || (has_ops[1] && layers[0] != layers[1])) return std::nullopt;
  Places places;
  for (std::size_t i = 0; i < record.assignment.size(); ++i) {
    const SolvedNode& node = record.assignment[i];
    const bool is_before = is_backward(node) ? i > last_backward : i < first_forward;
    places.push_back(node.layer ? *node.layer : is_before ? kBefore : kAfter);
  }
  return places;
}

// Finds the layers as sequences of ops that repeat equally often in both passes.
std::optional<Places> repeated_places(const SolutionRecord& record) {
  Places places(record.assignment.size(), kAfter);
  std::size_t forward_layers = 0;
  for (const bool backward : {false, true}) {
    std::vector<std::size_t> nodes;
    std::vector<std::string> ops;
    for (std::size_t i = 0; i < record.assignment.size(); ++i) {
      const SolvedNode& node = record.assignment[i];
      if (node.kind != "op" || is_backward(node) != backward) continue;
      nodes.push_back(i);
      ops.push_back(node.op);
    }
    if (backward && nodes.empty()) break;
    const Layers layers = layers_of(ops);
    if (layers.repeats == 0 || (backward && layers.repeats != forward_layers)) return std::nullopt;
    forward_layers = layers.repeats;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::size_t found = layers.of(i);
      const std::size_t place = backward ? layers.repeats + 1 - found : found;
      places[nodes[i]] = place == 0               ? kBefore
                         : place > layers.repeats ? kAfter
                                                  : static_cast<std::int64_t>(place) - 1;
    }
  }
  return places;
}

// The costs of the nodes before the layers, of each layer, and of the nodes after them, in the
// order of the forward pass.
std::vector<Stretch> stretches_of(const SolutionRecord& record, const Places& places) {
  std::map<std::int64_t, Stretch> stretches;
  for (std::size_t i = 0; i < record.assignment.size(); ++i) {
    const SolvedNode& node = record.assignment[i];
    const bool is_op = node.kind == "op";
    if (!is_op && node.compute_us + node.communication_us <= 0.0) continue;
    Stretch& stretch = stretches[places[i]];
    const std::size_t phase = is_backward(node) ? 1 : 0;
    stretch.ops += is_op ? 1 : 0;
    stretch.compute_us[phase] += node.compute_us;
    stretch.communication_us[phase] += node.communication_us;
  }
  std::vector<Stretch> ordered;
  for (auto& [place, stretch] : stretches) {
    stretch.label = place == kBefore  ? std::string("before the layers")
                    : place == kAfter ? std::string("after the layers")
                                      : "layer " + std::to_string(place);
    ordered.push_back(std::move(stretch));
  }
  return ordered;
}

Chart chart_of(const std::vector<Stretch>& stretches) {
  Chart chart;
  chart.id = "layers";
  chart.title = "Time by layer";
  chart.kind = ChartKind::kStackedBars;
  chart.x_title = "layer";
  chart.y_title = "us";
  chart.is_tabulated = true;
  chart.series = {{"forward kernels", {}},
                  {"forward communication", {}},
                  {"backward kernels", {}},
                  {"backward communication", {}}};
  for (const Stretch& stretch : stretches) {
    chart.labels.push_back(stretch.label);
    for (const std::size_t phase : {std::size_t{0}, std::size_t{1}}) {
      chart.series[2 * phase].values.emplace_back(stretch.compute_us[phase]);
      chart.series[2 * phase + 1].values.emplace_back(stretch.communication_us[phase]);
    }
  }
  return chart;
}

Table table_of(const std::vector<Stretch>& stretches) {
  Table table;
  table.caption = "Time by layer";
  table.columns = {{"layer", ColumnKind::kText},
                   {"ops", ColumnKind::kCount},
                   {"forward kernels, us", ColumnKind::kNumber, 2},
                   {"forward communication, us", ColumnKind::kNumber, 2},
                   {"backward kernels, us", ColumnKind::kNumber, 2},
                   {"backward communication, us", ColumnKind::kNumber, 2}};
  for (const Stretch& stretch : stretches) {
    table.rows.push_back({Cell(stretch.label), Cell(stretch.ops), Cell(stretch.compute_us[0]),
                          Cell(stretch.communication_us[0]), Cell(stretch.compute_us[1]),
                          Cell(stretch.communication_us[1])});
  }
  return table;
}

Table memory_table(const SolvedMemory& memory) {
  Table table;
  table.caption = "Memory of a device at the peak of the step (" + memory.peak_at + ")";
  table.columns = {{"what", ColumnKind::kText}, {"bytes", ColumnKind::kBytes}};
  const SolvedMemoryParts& parts = memory.parts;
  for (const auto& [what, bytes] :
       {std::pair("parameters and buffers", parts.parameters),
        std::pair("gradients", parts.gradients), std::pair("optimizer state", parts.optimizer),
        std::pair("activations", parts.activations),
        std::pair("gathered parameters", parts.gathered), std::pair("temporary", parts.temporary),
        std::pair("all", memory.peak_bytes),
        std::pair("reserved by the allocator", memory.reserved_bytes)}) {
    table.rows.push_back({Cell(std::string(what)), Cell(bytes)});
  }
  return table;
}

// What the backward pass does again, in words.
std::string recomputation_text(const SolutionRecord& record) {
  std::string text;
  if (record.recompute != "none") {
    text = "The backward pass computes again what recomputation " + record.recompute + " drops.";
  }
  if (record.reshard_after_forward) {
    text += std::string(text.empty() ? "" : " ") +
            "Weights are dropped after the forward pass and gathered again in the backward pass.";
  }
  return text;
}

// States the cost of the plan's steps if it differs from the objective.
std::string executed_text(const SolutionRecord& record) {
  if (!record.unexecutable.empty()) {
    return "This plan can't run as it is: " + record.unexecutable + ".";
  }
  if (!record.executed_us || record.runs_as_priced()) return "";
  return "Its kernels and the steps of its moves take " + duration_text(*record.executed_us) +
         " in sum, because " + record.stack + " prices a move by its two ends, not step by step.";
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  content.blocks.emplace_back(figures_of(record));
  for (const std::string& note : record.notes) content.blocks.emplace_back(Paragraph{note});
  if (!record.objective_us) {
    content.answer = "There is no plan: " + record.infeasible + ".";
    return content;
  }
  if (const std::string text = executed_text(record); !text.empty()) {
    content.blocks.emplace_back(Paragraph{text});
  }
  if (const std::string text = recomputation_text(record); !text.empty()) {
    content.blocks.emplace_back(Paragraph{text});
  }
  if (record.memory) content.blocks.emplace_back(memory_table(*record.memory));
  const std::optional<Places> named = named_places(record);
  const bool is_named = std::any_of(record.assignment.begin(), record.assignment.end(),
                                    [](const SolvedNode& node) { return node.layer.has_value(); });
  const std::optional<Places> places = is_named ? named : repeated_places(record);
  if (places) {
    const std::vector<Stretch> stretches = stretches_of(record, *places);
    content.blocks.emplace_back(Paragraph{
        std::string(is_named ? "Layers are those that the program's labels name."
                             : "The program names no layers: these are the longest stretch of ops "
                               "that repeats one sequence.") +
        " Communication is counted with the op whose inputs it brings" +
        (record.breakdown->transition_us > 0.0
             ? "; transitions, " + duration_text(record.breakdown->transition_us) +
                   " in all, are counted apart."
             : ".")});
    content.blocks.emplace_back(Charts{{chart_of(stretches)}});
    content.blocks.emplace_back(table_of(stretches));
  }
  content.answer =
      "Of " + grouped(record.strategies) + " strategies of " +
      counted(record.nodes, "node", "nodes") + " this is " +
      (record.optimal ? "the cheapest choice, proved." : "the cheapest that was found.");
  return content;
}

}  // namespace solution_section

REPORT_SECTION(solution){
    .id = "solution",
    .title = "At a glance",
    .question = "What does the best plan cost, and where?",
    .order = 13,
    .render = solution_section::render,
};

}  // namespace shardlab
