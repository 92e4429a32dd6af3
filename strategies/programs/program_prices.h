// Prices of a program's strategies under a stack: what a node's kernel costs in each strategy,
// and what it costs to bring a value from each layout in which its producer may leave it to each
// layout that a reader may want. All prices are in microseconds.
//
//   ProgramPrices prices(program, strategies, evaluator, mesh);
//   prices.compute_us(strategies.class_of[node])[strategy]
//   const PriceTable& table = prices.table(prices.edges()[e].table);
//   table.at(reader_strategy, producer_strategy)  // infinity: no move leads there
//
// Edges with the same tensor, the same layouts of the producer and the same layouts of the reader
// share one table, which is priced once, however many layers there are. The objective of an
// assignment is the sum of the kernels of all nodes, of the communication of all edges, and of the
// stack's transition_us for each edge whose two ends have different layouts. Source:
// meta-pytorch/autoparallel at a54c252 (its optimizer's objective). With the stack ap-nccl, prices
// equal its costs to 1e-12 relative.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/mesh.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/select/evaluator.h"

namespace shardlab {

// The prices of one edge, with a row for each strategy of the reader and a column for each strategy
// of the producer. Rows that want the same layout share their prices, and so do columns that make
// the same layout.
struct PriceTable {
  LayoutListId wanted = 0;  // by row: the layout that the reader wants
  LayoutListId made = 0;    // by column: the layout that the producer makes
  std::vector<std::uint32_t> row_of =
      {};  // by row: index of the layout that it wants, among the distinct ones
  std::vector<std::uint32_t> column_of =
      {};  // by column: index of the layout that it makes, among the distinct ones
  std::uint32_t distinct_columns = 0;
  std::vector<double> communication_us = {};  // row-major, over the distinct layouts

  [[nodiscard]] std::size_t rows() const { return row_of.size(); }
  [[nodiscard]] std::size_t columns() const { return column_of.size(); }
  [[nodiscard]] double at(std::size_t row, std::size_t column) const {
    return communication_us[std::size_t{row_of[row]} * distinct_columns + column_of[column]];
  }
};

// A value that a node reads.
struct PricedEdge {
  std::uint32_t producer = 0;  // index of the node that makes the value
  std::uint32_t output = 0;
  std::uint32_t reader = 0;  // index of the node that reads it
  std::uint32_t argument = 0;
  std::uint32_t table = 0;
};

class ProgramPrices {
 public:
  // The largest number of costs that the tables of all edges may hold together. Status: assumed; a
  // network with this many costs takes some 4 GiB.
  static constexpr double kMostCosts = 1e8;

  // Uses the evaluator's models, and its redistributor for the mesh; with more than one job, edges
  // are priced by further evaluators of its stack, whose factors are 1. Throws LimitError for more
  // than kMostCosts.
  ProgramPrices(const Program& program, const ProgramStrategies& strategies,
                StackEvaluator& evaluator, const DeviceMesh& mesh, int jobs = 1);

  // The prices of the kernels alone: the tables of the edges are listed, but hold no prices.
  [[nodiscard]] static ProgramPrices of_kernels(const Program& program,
                                                const ProgramStrategies& strategies,
                                                const StackEvaluator& evaluator,
                                                const DeviceMesh& mesh);
  // How many costs the tables of all edges hold together, or would hold if they had prices.
  [[nodiscard]] double pairs(const ProgramStrategies& strategies) const;

  [[nodiscard]] double transition_us() const { return transition_us_; }
  [[nodiscard]] std::span<const double> compute_us(std::uint32_t node_class) const {
    return compute_us_[node_class];
  }
  [[nodiscard]] const std::vector<PriceTable>& tables() const { return tables_; }
  [[nodiscard]] const PriceTable& table(std::uint32_t id) const { return tables_[id]; }
  // The edges in the order of readers, and of each reader's arguments.
  [[nodiscard]] const std::vector<PricedEdge>& edges() const { return edges_; }

 private:
  ProgramPrices() = default;

  double transition_us_ = 0.0;
  std::vector<std::vector<double>> compute_us_;  // by class
  std::vector<PriceTable> tables_;
  // By table: the meta of its tensor, and whether the tensor counts as row-major.
  std::vector<std::pair<std::uint32_t, bool>> tensors_;
  std::vector<PricedEdge> edges_;
};

// For StrategyOptions: mesh dims have one number where their groups cross hosts alike, with as many
// ranks on each host. Empty under a stack that prices an edge by its two ends, for which the order
// of shards means nothing.
[[nodiscard]] std::vector<int> links_of(const Redistributor& redistributor);

// The kernel of one node in these layouts, as compute_us() prices it; nothing for a node that runs
// no kernel. `rule` is the rule of the node's class.
[[nodiscard]] std::optional<KernelQuery> kernel_query_of(const Program& program, std::size_t node,
                                                         const OpRule* rule, const DeviceMesh& mesh,
                                                         const NodePlacements& placements);
// What the kernel of one node costs in these layouts, computed as for compute_us(). `rule` is the
// rule of the node's class.
[[nodiscard]] double kernel_us_of(const Program& program, std::size_t node, const OpRule* rule,
                                  const ComputeModel& kernels, const DeviceMesh& mesh,
                                  const NodePlacements& placements);

}  // namespace shardlab
