#include "strategies/programs/dtype_chains.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

// The casts of mixed precision: AutoParallel's own, and the one of other exports. What the model
// itself casts is prims.convert_element_type in AutoParallel's graphs, and no rule is about it.
constexpr std::array<std::string_view, 2> kCasts = {"aten._to_copy.default",
                                                    "autoparallel.dtype_cast.default"};

bool is_cast(const ProgramNode& node) {
  return std::find(kCasts.begin(), kCasts.end(), node.op) != kCasts.end();
}

class Chains {
 public:
  explicit Chains(const Program& program)
      : nodes_(program.nodes), graph_(graph_of(program)), silent_(program.nodes.size(), false) {}

  void follow_parameter(std::uint32_t parameter) {
    std::vector<std::uint32_t> chain;
    std::uint32_t node = parameter;
    while (true) {
      const std::vector<std::uint32_t> users = users_of(graph_, node);
      if (users.size() != 1 || boost::in_degree(users[0], graph_) != 1) return;
      node = users[0];
      chain.push_back(node);
      if (is_cast(nodes_[node])) break;
    }
    if (change_of_size(node) < 0) silence(chain);
  }

  void follow_gradient(std::uint32_t gradient) {
    std::vector<std::uint32_t> chain;
    std::optional<std::uint32_t> cast;
    for (std::uint32_t node = gradient; boost::in_degree(node, graph_) == 1; node = read_by(node)) {
      if (!cast && is_cast(nodes_[node])) cast = node;
      if (cast) chain.push_back(node);
    }
    if (cast && change_of_size(*cast) > 0) silence(chain);
  }

  [[nodiscard]] std::vector<bool> silent() && { return std::move(silent_); }

 private:
  [[nodiscard]] std::uint32_t read_by(std::uint32_t node) const {
    return boost::source(*boost::in_edges(node, graph_).first, graph_);
  }
  // How many bytes larger the cast makes an element; negative if it narrows.
  [[nodiscard]] int change_of_size(std::uint32_t cast) const {
    return itemsize(nodes_[cast].outputs[0].dtype) -
           itemsize(nodes_[read_by(cast)].outputs[0].dtype);
  }
  void silence(const std::vector<std::uint32_t>& chain) {
    for (const std::uint32_t node : chain) silent_[node] = true;
  }

  const std::vector<ProgramNode>& nodes_;
  ProgramGraph graph_;
  std::vector<bool> silent_;
};

}  // namespace

std::vector<bool> silent_nodes(const Program& program, const DTypeRules& rules) {
  Chains chains(program);
  std::set<std::size_t> of_inputs;  // the gradients of inputs, which nothing reduces
  for (const auto& [first, second] : program.pairs) {
    if (program.nodes[first].kind == NodeKind::kInput) of_inputs.insert(second);
  }
  for (std::uint32_t n = 0; n < program.nodes.size(); ++n) {
    const NodeKind kind = program.nodes[n].kind;
    if (rules.forward && kind == NodeKind::kParameter) chains.follow_parameter(n);
    const bool of_input = of_inputs.contains(n);
    if (rules.gradient && kind == NodeKind::kGradient && !of_input) chains.follow_gradient(n);
  }
  return std::move(chains).silent();
}

}  // namespace shardlab
