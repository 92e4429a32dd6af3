// Prices of a program's strategies under a stack: what a node's kernel costs in each of its rows, and
// what it costs to bring a value from each layout that its producer may leave it in to each layout that
// a reader may want.
//
//   ProgramPrices prices(program, strategies, evaluator, mesh);
//   prices.compute_us(strategies.class_of[node])[row]
//   const PriceTable& table = prices.table(prices.edges()[e].table);
//   table.at(reader_row, producer_row)                                   // infinity: it can't be
//
// A table is priced once for every distinct (tensor, layouts to come from, layouts to go to), whatever
// the number of layers. The objective of an assignment is the sum of the kernels of all nodes, of the
// communication of all edges and of the stack's transition_us for each edge whose ends' layouts differ.
// Source: meta-pytorch/autoparallel at a54c252 (its optimizer's objective), restated in
// docs/autoparallel.md, "The objective".
// With the stack ap-nccl equal to its costs to 1e-12 relative.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mesh.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/select/evaluator.h"

namespace shardlab {

// Rows that want the same layout have the same prices, and columns that make the same.
struct PriceTable {
  LayoutListId wanted = 0;                    // the reader's layouts of that input, by row
  LayoutListId made = 0;                      // the producer's of that output, by column
  std::vector<std::uint32_t> row_of = {};     // which of the distinct wanted layouts
  std::vector<std::uint32_t> column_of = {};  // which of the distinct made ones
  std::uint32_t distinct_columns = 0;
  std::vector<double> communication_us = {};  // by distinct row, by distinct column

  [[nodiscard]] std::size_t rows() const { return row_of.size(); }
  [[nodiscard]] std::size_t columns() const { return column_of.size(); }
  [[nodiscard]] double at(std::size_t row, std::size_t column) const {
    return communication_us[std::size_t{row_of[row]} * distinct_columns + column_of[column]];
  }
};

// A value that is read.
struct PricedEdge {
  std::uint32_t producer = 0;  // node
  std::uint32_t output = 0;
  std::uint32_t reader = 0;  // node
  std::uint32_t argument = 0;
  std::uint32_t table = 0;
};

class ProgramPrices {
 public:
  // Costs in all tables of edges together. Status: assumed; the network of as many takes some 4 GiB.
  static constexpr double kMostCosts = 1e8;

  // The mesh's redistributor and the models are the evaluator's. Throws LimitError: more than kMostCosts.
  ProgramPrices(const Program& program, const ProgramStrategies& strategies,
                StackEvaluator& evaluator, const DeviceMesh& mesh);

  [[nodiscard]] double transition_us() const { return transition_us_; }
  [[nodiscard]] std::span<const double> compute_us(std::uint32_t node_class) const {
    return compute_us_[node_class];
  }
  [[nodiscard]] const std::vector<PriceTable>& tables() const { return tables_; }
  [[nodiscard]] const PriceTable& table(std::uint32_t id) const { return tables_[id]; }
  // By reader, then by argument.
  [[nodiscard]] const std::vector<PricedEdge>& edges() const { return edges_; }

 private:
  double transition_us_;
  std::vector<std::vector<double>> compute_us_;  // by class
  std::vector<PriceTable> tables_;
  std::vector<PricedEdge> edges_;
};

// The kernel of one node in these layouts, as the tables have it. `rule`: as in its class.
[[nodiscard]] double kernel_us_of(const Program& program, std::size_t node, const OpRule* rule,
                                  const ComputeModel& kernels, const DeviceMesh& mesh,
                                  const NodePlacements& placements);

}  // namespace shardlab
