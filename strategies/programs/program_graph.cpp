#include "strategies/programs/program_graph.h"

#include <algorithm>
#include <utility>

namespace shardlab {

std::optional<std::size_t> find_by_name_or_label(const Program& program, std::string_view text) {
  std::optional<std::size_t> found = program.find(text);
  if (found || text.empty()) return found;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (!program.nodes[n].is_source() || program.nodes[n].label != text) continue;
    if (found) return std::nullopt;
    found = n;
  }
  return found;
}

std::vector<std::string_view> names_and_labels(const Program& program) {
  std::vector<std::string_view> texts;
  for (const ProgramNode& node : program.nodes) {
    texts.emplace_back(node.name);
    if (node.is_source() && !node.label.empty()) texts.emplace_back(node.label);
  }
  return texts;
}

std::vector<ValueRef> values_read(const ProgramNode& node) {
  std::vector<ValueRef> values;
  for (const ProgramInput& input : node.inputs) {
    values.insert(values.end(), input.values.begin(), input.values.end());
  }
  return values;
}

ProgramGraph graph_of(const Program& program) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
  std::vector<ProgramEdge> edges;
  for (std::size_t node = 0; node < program.nodes.size(); ++node) {
    std::uint32_t argument = 0;
    for (const ProgramInput& input : program.nodes[node].inputs) {
      for (const ValueRef& value : input.values) {
        ends.emplace_back(static_cast<std::uint32_t>(value.node), static_cast<std::uint32_t>(node));
        edges.push_back({argument++, static_cast<std::uint32_t>(value.output)});
      }
    }
  }
  return {boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), edges.begin(),
          static_cast<std::uint32_t>(program.nodes.size())};
}

std::vector<std::uint32_t> users_of(const ProgramGraph& graph, std::uint32_t node) {
  std::vector<std::uint32_t> users;
  const auto [begin, end] = boost::out_edges(node, graph);
  for (auto edge = begin; edge != end; ++edge) users.push_back(boost::target(*edge, graph));
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  return users;
}

}  // namespace shardlab
