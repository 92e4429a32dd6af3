// A program as a graph, which says who reads what, in both directions.
//
//   const ProgramGraph graph = graph_of(program);
//   users_of(graph, node)          // the nodes that read it, each once, ascending
//   boost::in_edges(node, graph)   // the values that it reads; graph[edge].argument says where
//
// Vertices are the program's nodes by position. An edge leads from the node that makes a value to a
// node that reads it. There is one edge for every tensor that is read; each tensor of a list
// counts. A graph is not changed after it is made, and any algorithm of Boost.Graph runs on it.
#pragma once

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

struct ProgramEdge {
  std::uint32_t argument = 0;  // which of the reader's tensors it is
  std::uint32_t output = 0;    // which output of the node that is read
};

using ProgramGraph =
    boost::compressed_sparse_row_graph<boost::bidirectionalS, boost::no_property, ProgramEdge,
                                       boost::no_property, std::uint32_t, std::uint32_t>;

[[nodiscard]] ProgramGraph graph_of(const Program& program);
// The nodes that read a node, each once, ascending.
[[nodiscard]] std::vector<std::uint32_t> users_of(const ProgramGraph& graph, std::uint32_t node);
// The values that the node reads, by argument.
[[nodiscard]] std::vector<ValueRef> values_read(const ProgramNode& node);

// The node of that name; else the only parameter, buffer, input or tangent that has this label.
[[nodiscard]] std::optional<std::size_t> find_by_name_or_label(const Program& program,
                                                               std::string_view text);
// The texts that this function finds a node for, as a message about another text suggests them.
// They live as long as the program.
[[nodiscard]] std::vector<std::string_view> names_and_labels(const Program& program);

}  // namespace shardlab
