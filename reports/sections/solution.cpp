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
        record.objective_us ? "lower bound " + duration_text(total - gap) : "no plan"}}};
  if (is_step) {
    const std::string interval = interval_text(record.step_low_us, record.step_high_us);
    figures.figures.push_back(
        {"Simulated step", duration_text(*record.step_us),
         interval.empty() ? "communication overlaps with kernels" : interval});
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
                           {"As executed", duration_text(*record.executed_us),
                            interval_text(record.low_us, record.high_us).empty()
                                ? "step by step"
                                : interval_text(record.low_us, record.high_us)});
  }
  return figures;
}

// The nodes of a layer, or of several layers that are alike. Its figures are those of one layer.
struct Stretch {
  std::string label;
  std::int64_t layers = 1;
  std::int64_t ops = 0;
  double compute_us[2] = {0.0, 0.0};  // forward, backward
  double communication_us[2] = {0.0, 0.0};
  double bytes_moved = 0.0;
  std::string plan = {};  // the layouts of its nodes, in the order of the program
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

constexpr double kSame = 1e-9;  // layers whose costs differ by less of them are alike

bool are_alike(const Stretch& one, const Stretch& other) {
  const auto is_same = [](double a, double b) {
    return std::abs(a - b) <= kSame * std::max(std::abs(a), std::abs(b));
  };
  if (one.ops != other.ops || one.plan != other.plan) return false;
  for (const std::size_t phase : {std::size_t{0}, std::size_t{1}}) {
    if (!is_same(one.compute_us[phase], other.compute_us[phase]) ||
        !is_same(one.communication_us[phase], other.communication_us[phase])) {
      return false;
    }
  }
  return is_same(one.bytes_moved, other.bytes_moved);
}

// "layer 3", "layers 0 to 31, alike: 32", or "layers 1, 3 and 14 more, alike: 16".
std::string layers_text(const std::vector<std::int64_t>& layers) {
  if (layers.size() == 1) return "layer " + std::to_string(layers[0]);
  const auto count = static_cast<std::int64_t>(layers.size());
  const std::string alike = ", alike: " + grouped(count);
  if (layers.back() - layers.front() == count - 1) {
    return "layers " + std::to_string(layers.front()) + (count == 2 ? " and " : " to ") +
           std::to_string(layers.back()) + alike;
  }
  std::string text = "layers " + std::to_string(layers[0]);
  if (count == 2) return text + " and " + std::to_string(layers[1]) + alike;
  text += ", " + std::to_string(layers[1]);
  return text + " and " + grouped(count - 2) + " more" + alike;
}

// What the nodes before the layers, each kind of layer, and the nodes after them cost, in the order
// of the forward pass. Layers that have the same layouts and costs are one stretch.
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
    for (const SolvedMove& move : node.moves) stretch.bytes_moved += move.bytes_moved.value_or(0.0);
    stretch.plan += node.op;
    for (const std::string& layout : node.layout_in) stretch.plan += " " + layout;
    stretch.plan += " -> " + node.layout_out + "\n";
  }
  std::vector<Stretch> ordered;
  std::vector<std::vector<std::int64_t>> layers;  // the layers that each stretch stands for
  for (auto& [place, stretch] : stretches) {
    const bool is_layer = place != kBefore && place != kAfter;
    const auto known =
        std::find_if(ordered.begin(), ordered.end(), [&, &stretch = stretch](const Stretch& other) {
          return is_layer && !layers[static_cast<std::size_t>(&other - ordered.data())].empty() &&
                 are_alike(stretch, other);
        });
    if (known != ordered.end()) {
      layers[static_cast<std::size_t>(known - ordered.begin())].push_back(place);
      continue;
    }
    if (!is_layer) {
      stretch.label = place == kBefore ? "before the layers" : "after the layers";
    }
    layers.push_back(is_layer ? std::vector<std::int64_t>{place} : std::vector<std::int64_t>());
    ordered.push_back(std::move(stretch));
  }
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (layers[i].empty()) continue;
    ordered[i].label = layers_text(layers[i]);
    ordered[i].layers = static_cast<std::int64_t>(layers[i].size());
  }
  return ordered;
}

bool has_folded(const std::vector<Stretch>& stretches) {
  return std::any_of(stretches.begin(), stretches.end(),
                     [](const Stretch& stretch) { return stretch.layers > 1; });
}

std::string caption_of(const std::vector<Stretch>& stretches) {
  return has_folded(stretches) ? "Time by layer; of layers that are alike, the figures of one"
                               : "Time by layer";
}

Chart chart_of(const std::vector<Stretch>& stretches) {
  Chart chart;
  chart.id = "layers";
  chart.title = caption_of(stretches);
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

Table table_of(const SolutionRecord& record, const std::vector<Stretch>& stretches) {
  bool has_bytes = false;
  for (const SolvedNode& node : record.assignment) {
    for (const SolvedMove& move : node.moves) has_bytes = has_bytes || move.bytes_moved.has_value();
  }
  Table table;
  table.caption = caption_of(stretches);
  table.columns = {{"layer", ColumnKind::kText},
                   {"ops", ColumnKind::kCount},
                   {"forward kernels, us", ColumnKind::kNumber, 2},
                   {"forward communication, us", ColumnKind::kNumber, 2},
                   {"backward kernels, us", ColumnKind::kNumber, 2},
                   {"backward communication, us", ColumnKind::kNumber, 2}};
  if (has_bytes) table.columns.push_back({"moved between ranks", ColumnKind::kBytes});
  Stretch all;
  const auto row_of = [&](const Stretch& stretch) {
    Row row = {Cell(stretch.label),         Cell(stretch.ops),
               Cell(stretch.compute_us[0]), Cell(stretch.communication_us[0]),
               Cell(stretch.compute_us[1]), Cell(stretch.communication_us[1])};
    if (has_bytes) row.emplace_back(stretch.bytes_moved);
    return row;
  };
  for (const Stretch& stretch : stretches) {
    table.rows.push_back(row_of(stretch));
    const auto times = static_cast<double>(stretch.layers);
    all.ops += stretch.layers * stretch.ops;
    all.bytes_moved += times * stretch.bytes_moved;
    for (const std::size_t phase : {std::size_t{0}, std::size_t{1}}) {
      all.compute_us[phase] += times * stretch.compute_us[phase];
      all.communication_us[phase] += times * stretch.communication_us[phase];
    }
  }
  all.label = "all of them";
  if (has_folded(stretches)) table.rows.push_back(row_of(all));
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
    content.answer = "The search ended without a plan: " + record.infeasible + ".";
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
    content.blocks.emplace_back(table_of(record, stretches));
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
