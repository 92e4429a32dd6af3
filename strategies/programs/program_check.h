// Checks that the outputs that a program declares for its nodes are the tensors that the nodes' ops
// compute from their inputs.
//
//   check_program(program, kAutoParallel);   // throws NodeError: which node, what is wrong with it
//
// Shapes and dtypes are compared; strides are not, nor is the dtype of the outputs of an op that
// reads no tensor. An op without a rule is not checked.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "strategies/programs/program.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

// The call of a node that computes, or that names what leaves the program, on whole tensors.
[[nodiscard]] OpCall call_of(const Program& program, std::size_t node, int mesh_ndim);

// For each output of the node: its index in `made`, the tensors that the op makes. Nothing for a
// part of attention's random state, which a graph may split in another way and give any dtype.
// Throws InputError if the outputs are not those that the op makes.
[[nodiscard]] std::vector<std::optional<std::size_t>> match_outputs(
    const ProgramNode& node, const OpRule& rule, std::span<const TensorMeta> made);

// `rule` is the rule of the node's op, or null if there is none. Throws InputError for tensors or
// arguments that the op does not take, for outputs that it does not make, and for an op that has no
// tensor at all. It also throws if a part of a tuple, or a node that leaves the program, differs
// from the one tensor that it reads.
void check_node(const ProgramNode& node, const OpCall& call, const OpRule* rule);

// Checks all nodes. Throws NodeError.
void check_program(const Program& program, RuleSet rules);

// Turns the error of a rule into one that names the node. A rule's message calls the arguments
// --args; in a program they are args.positional.
[[nodiscard]] NodeError node_error(const Program& program, std::size_t node,
                                   const InputError& error);

}  // namespace shardlab
