// What every node of a program may do on a mesh: its strategies, rows of layouts of its outputs and of
// its inputs.
//
//   ProgramStrategies all = enumerate_strategies(program, mesh, {.rules = kAutoParallel});
//   const NodeClass& node = all.of(3);
//   all.layout(node, row, tensor)              // outputs first, then inputs
//
// Nodes of the same op, arguments and shapes that read from equal lists have the same strategies: they
// are one class, listed once. A model of 32 equal layers has as many classes as one of two.
//
// The rows of a rule on one mesh dim are taken to the power of the mesh dims, the last one fastest, the
// row that replicates everything first. A row is dropped where a tensor would mix partials that must
// not be mixed, where a dim is too short for its shards (ceil sizes, mesh dims left to right) or where
// the op's own filter says so. Parameters, inputs and aliases have every layout without partials; casts
// and views keep the layouts that their producer may have; an op without a rule replicates, which
// `notes` tells.
// Source: meta-pytorch/autoparallel at a54c252, restated in docs/autoparallel.md, "Strategies";
// --strided: its pull request 429. Status: equal to its lists for LLaMA3-8B, row by row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/mesh.h"
#include "strategies/programs/layout_table.h"
#include "strategies/programs/program.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

struct StrategyOptions {
  RuleSet rules = kAutoParallel;
  // Views keep shards as strided ones, and products list them where an input may have them.
  bool strided = false;
};

struct NodeClass {
  const OpRule* rule = nullptr;  // null: a source, a part of a tuple, or an op without rules
  std::uint32_t node = 0;        // the first of the class
  std::uint32_t outputs = 0;
  std::uint32_t rows = 0;
  std::vector<LayoutListId> tensors;  // layouts by row: the outputs, then the inputs

  [[nodiscard]] std::uint32_t inputs() const {
    return static_cast<std::uint32_t>(tensors.size()) - outputs;
  }
};

struct ProgramStrategies {
  LayoutTable layouts;
  std::vector<NodeClass> classes;
  std::vector<std::uint32_t> class_of;      // by node
  std::vector<TensorMeta> metas;            // distinct
  std::vector<std::uint32_t> meta_of;       // of all outputs of all nodes
  std::vector<std::uint32_t> first_output;  // by node: where its outputs begin there
  std::vector<std::string> notes;

  [[nodiscard]] const NodeClass& of(std::size_t node) const { return classes[class_of[node]]; }
  [[nodiscard]] LayoutId layout(const NodeClass& node, std::size_t row, std::size_t tensor) const {
    return layouts.list_at(node.tensors[tensor])[row];
  }
  [[nodiscard]] std::uint32_t meta(std::size_t node, std::size_t output) const {
    return meta_of[first_output[node] + output];
  }
  // "S(0)R<-S(0)R,RR"; of a source "S(0)R".
  [[nodiscard]] std::string row_text(const NodeClass& node, std::size_t row) const;
};

// The layouts of one node's tensors.
struct NodePlacements {
  std::vector<Placements> outputs;
  std::vector<Placements> inputs;  // wanted, by tensor that the node reads
};
// Of the strategies that an assignment gives the nodes.
[[nodiscard]] std::vector<NodePlacements> placements_of(const ProgramStrategies& strategies,
                                                        std::span<const int> assignment);

// The rule of an op in a program: of the set, else AutoParallel's. Null where neither has one.
[[nodiscard]] const OpRule* find_program_rule(std::string_view op, RuleSet rules);

// Throws NodeError: tensors that are not what the node's op takes and makes (program_check.h); LimitError:
// too many rows.
[[nodiscard]] ProgramStrategies enumerate_strategies(const Program& program, const DeviceMesh& mesh,
                                                     const StrategyOptions& options = {});

}  // namespace shardlab
