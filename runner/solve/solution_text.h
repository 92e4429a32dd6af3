// A solved program as text: its costs, then the layouts of its sources and its moves, or all of its
// nodes.
//
//   llama3-8b: 604 nodes, 836 edges
//     objective 52260 us, lower bound 52260 us, optimal
//     source                        tensor            layout    nodes
//     layers.*.attention.wq.weight  f32[4096,4096]    S(0)S(0)      2
//     moved                         from      to      pass      moves        us
//     bf16[16,8192,4096]            S(0)S(1)  S(0)R   forward       6  2854.6
#pragma once

#include <string>
#include <string_view>

#include "runner/session/layout_names.h"
#include "runner/solve/solution.h"

namespace shardlab {

// A program with more nodes than this is summarised, unless all_nodes is true.
inline constexpr std::size_t kMostNodesInText = 60;

// "layers.*.attention.wq.weight": a name without its numbers, which alike layers share.
[[nodiscard]] std::string without_numbers(std::string_view name);

// What is said first, from executed_plan.h.
struct SolutionHeadline {
  std::string objective;  // what the objective is called
  std::string interval;   // the interval of the objective (interval_text.h), or ""
  std::string executed;   // the lines that follow it, or ""
};
[[nodiscard]] std::string solution_text(const ProgramSolution& solved,
                                        const SolutionHeadline& headline, const LayoutNames& names,
                                        const TextStyle& style, bool all_nodes);
// What takes longer than the plan: how many optima there are, the margins, and further plans. Empty
// where none of them was found.
[[nodiscard]] std::string margins_and_plans_text(const ProgramSolution& solved,
                                                 const LayoutNames& names, const TextStyle& style,
                                                 bool all_nodes);

}  // namespace shardlab
