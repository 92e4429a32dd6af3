// The solution of a program on one screen, and its plan by layer.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "reports/layers.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace {

using namespace reports;

Figures figures_of(const SolutionRecord& record) {
  const SolutionBreakdown parts = record.breakdown.value_or(SolutionBreakdown{});
  const double total = record.objective_us.value_or(0.0);
  const auto share = [&](double us) {
    return total > 0.0 ? percent(us / total) + " of the total" : std::string("of nothing");
  };
  const double gap = record.lower_bound_us ? total - *record.lower_bound_us : 0.0;
  return {
      {{"Objective", record.objective_us ? duration_text(total) : "none", "all nodes, one step"},
       {"Proof", record.optimal ? "optimal" : "not proved",
        record.objective_us ? "lower bound " + duration_text(total - gap) : "infeasible"},
       {"Kernels", duration_text(parts.compute_us), share(parts.compute_us)},
       {"Communication", duration_text(parts.communication_us + parts.transition_us),
        share(parts.communication_us + parts.transition_us)}}};
}

struct Stretch {
  std::string label;
  std::int64_t ops = 0;
  double compute_us[2] = {0.0, 0.0};  // forward, backward
  double communication_us[2] = {0.0, 0.0};
};

// Stretches in the order of the forward pass: what is before the layers, each layer, what follows.
// The backward pass goes through the layers from the last to the first.
std::vector<Stretch> stretches_of(const SolutionRecord& record) {
  std::array<std::vector<const SolvedNode*>, 2> nodes;
  std::array<Layers, 2> layers;
  for (const std::size_t phase : {std::size_t{0}, std::size_t{1}}) {
    std::vector<std::string> ops;
    for (const SolvedNode& node : record.assignment) {
      if (node.kind != "op" || (node.phase == "backward") != (phase == 1)) continue;
      nodes[phase].push_back(&node);
      ops.push_back(node.op);
    }
    layers[phase] = layers_of(ops);
  }
  const std::size_t most = std::max(layers[0].repeats, layers[1].repeats);
  std::map<std::size_t, Stretch> stretches;
  for (const std::size_t phase : {std::size_t{0}, std::size_t{1}}) {
    const std::size_t repeats = layers[phase].repeats;
    for (std::size_t i = 0; i < nodes[phase].size(); ++i) {
      const std::size_t found = layers[phase].of(i);
      std::size_t place = phase == 0 ? found : repeats + 1 - found;
      // What follows the layers does so in both passes, however many each has.
      if (place == repeats + 1) place = most + 1;
      if (most == 0) place = 0;
      Stretch& stretch = stretches[place];
      ++stretch.ops;
      stretch.compute_us[phase] += nodes[phase][i]->compute_us;
      stretch.communication_us[phase] += nodes[phase][i]->communication_us;
    }
  }
  std::vector<Stretch> ordered;
  for (auto& [place, stretch] : stretches) {
    stretch.label = most == 0      ? std::string("program")
                    : place == 0   ? std::string("before the layers")
                    : place > most ? std::string("after the layers")
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

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  content.blocks.emplace_back(figures_of(record));
  for (const std::string& note : record.notes) content.blocks.emplace_back(Paragraph{note});
  if (!record.objective_us) {
    content.answer = "There is no plan: " + record.infeasible + ".";
    return content;
  }
  const std::vector<Stretch> stretches = stretches_of(record);
  if (!stretches.empty()) {
    content.blocks.emplace_back(Paragraph{
        "Layers are the longest stretch of ops that repeats one sequence; the backward pass goes "
        "through them from the last to the first. Communication stands with the op whose inputs "
        "it brings."});
    content.blocks.emplace_back(Charts{{chart_of(stretches)}});
    content.blocks.emplace_back(table_of(stretches));
  }
  content.answer =
      "Of " + grouped(record.strategies) + " strategies of " +
      counted(record.nodes, "node", "nodes") + " this is " +
      (record.optimal ? "the cheapest choice, proved." : "the cheapest that was found.");
  return content;
}

}  // namespace

REPORT_SECTION(solution){
    .id = "solution",
    .title = "At a glance",
    .question = "What does the best plan cost, and where?",
    .order = 13,
    .render = render,
};

}  // namespace shardlab
