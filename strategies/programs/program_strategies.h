// The strategies that every node of a program has on a mesh. A strategy is a list of layouts: first
// those of the node's outputs, then those of its inputs.
//
//   ProgramStrategies all = enumerate_strategies(program, mesh, {.rules = kAutoParallel});
//   const NodeClass& node = all.of(3);
//   all.layout(node, strategy, tensor)         // outputs first, then inputs
//
// Nodes of the same op, arguments and shapes that read from equal lists have the same strategies:
// they form one class, whose strategies are listed once. A model of 32 equal layers has as many
// classes as a model of two.
//
// A rule lists rows for one mesh dim. A strategy combines one row for each mesh dim; the row of the
// last mesh dim varies fastest, and the row that replicates everything comes first. A strategy is
// dropped if a tensor would mix partials that must not be mixed, if a dim is too short for its
// shards (ceil sizes, mesh dims from left to right), or if the op's own filter rejects it.
// With `links`, shard orders other than the default follow the strategies in default order.
// Parameters, inputs and aliases have every layout without partials; casts and views keep the
// layouts that their input may have; an op without a rule is replicated, and `notes` says so.
// Source: meta-pytorch/autoparallel at a54c252; for `strided`, its pull request 429. Status: equal
// to its lists for LLaMA3-8B, strategy by strategy.
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
  // Whether views may turn shards into strided shards, and products list strided shards if an input
  // may have them.
  bool strided = false;
  // A number for each mesh dim, equal for mesh dims whose links are of one kind (links_of in
  // program_prices.h). If there are numbers, a strategy in which several mesh dims cut one tensor
  // dim is listed once more for each other order in which they may cut: S(0)[1]S(0)[0] beside
  // S(0)S(0). The order of mesh dims with links of one kind does not matter, so that these stay in
  // ascending order. Only even cuts have orders.
  std::vector<int> links = {};
};

struct NodeClass {
  const OpRule* rule = nullptr;  // null for a source, a part of a tuple, or an op without rules
  std::uint32_t node = 0;        // the first node of the class
  std::uint32_t outputs = 0;
  std::uint32_t strategies = 0;       // how many
  std::vector<LayoutListId> tensors;  // by output, then by input: its layout in each strategy

  [[nodiscard]] std::uint32_t inputs() const {
    return static_cast<std::uint32_t>(tensors.size()) - outputs;
  }
};

struct ProgramStrategies {
  LayoutTable layouts;
  std::vector<NodeClass> classes;
  std::vector<std::uint32_t> class_of;      // by node
  std::vector<TensorMeta> metas;            // the distinct metas
  std::vector<std::uint32_t> meta_of;       // index in metas, over all outputs of all nodes
  std::vector<std::uint32_t> first_output;  // by node: where its outputs begin in meta_of
  std::vector<std::string> notes;

  [[nodiscard]] const NodeClass& of(std::size_t node) const { return classes[class_of[node]]; }
  [[nodiscard]] LayoutId layout(const NodeClass& node, std::size_t strategy,
                                std::size_t tensor) const {
    return layouts.list_at(node.tensors[tensor])[strategy];
  }
  [[nodiscard]] std::uint32_t meta(std::size_t node, std::size_t output) const {
    return meta_of[first_output[node] + output];
  }
  // A strategy as text: "S(0)R<-S(0)R,RR", or "S(0)R" for a source.
  [[nodiscard]] std::string strategy_text(const NodeClass& node, std::size_t strategy) const;
};

// The layouts of one node's tensors.
struct NodePlacements {
  std::vector<Placements> outputs;
  std::vector<Placements> inputs;  // the layout that the node wants for each tensor that it reads
};
// The layouts of the strategies that an assignment gives the nodes.
[[nodiscard]] std::vector<NodePlacements> placements_of(const ProgramStrategies& strategies,
                                                        std::span<const int> assignment);
// The layout of each node's first output, by node; empty where a node has none.
[[nodiscard]] std::vector<Placements> first_outputs(const std::vector<NodePlacements>& placements);

// The rule of an op in a program: the rule set's or, if that has none, AutoParallel's, which is
// also that of prims.convert_element_type. Null if neither has one.
[[nodiscard]] const OpRule* find_program_rule(std::string_view op, RuleSet rules);

// Throws NodeError if a node's tensors are not those that its op takes and makes (program_check.h),
// and LimitError for too many strategies.
[[nodiscard]] ProgramStrategies enumerate_strategies(const Program& program, const DeviceMesh& mesh,
                                                     const StrategyOptions& options = {});

}  // namespace shardlab
