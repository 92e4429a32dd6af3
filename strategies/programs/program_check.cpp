#include "strategies/programs/program_check.h"

#include <string>

#include "costmodel/base/error.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/rules/op_schemas.h"

namespace shardlab {
namespace {

std::string text_of(std::span<const TensorMeta> metas) {
  std::string text;
  for (const TensorMeta& meta : metas) text += (text.empty() ? "" : ", ") + meta.text();
  return text.empty() ? "none" : text;
}

// Compares shapes and dtypes. The dtype is ignored for an op that reads no tensor, since its
// arguments may not state it.
bool is_alike(const ProgramNode& node, const TensorMeta& said, const TensorMeta& made) {
  return said.shape == made.shape && (said.dtype == made.dtype || node.inputs.empty());
}

// Whether an output is one of the statistics of a layer norm. A GPU keeps those of 16-bit inputs in
// f32, and a CPU in the dtype of the inputs.
bool may_be_narrow(const ProgramNode& node, std::size_t output) {
  return output > 0 && node.op == "aten.native_layer_norm.default";
}

[[noreturn]] void refuse_outputs(const ProgramNode& node, std::span<const TensorMeta> made) {
  throw InputError("its outputs are declared as " + text_of(node.outputs) +
                   "; valid: " + text_of(made));
}

// Whether a tensor is attention's random state, which is whole on every rank.
bool is_random_state(const OpRule& rule, const TensorMeta& meta) {
  return rule.kernel == Kernel::kAttention && !is_floating_point(meta.dtype);
}

// Checks a node that only passes on the one tensor that it reads. A node that leaves the program
// may have no output.
void check_name(const ProgramNode& node, const OpCall& call) {
  const auto read = call.tensors();
  if (read.size() != 1) {
    throw InputError("it reads " + std::to_string(read.size()) + " tensors; valid: 1 tensor for " +
                     (node.computes() ? node.op : "kind " + std::string(to_string(node.kind))));
  }
  const TensorMeta& only = read[0]->meta;
  if (node.leaves() && node.outputs.empty()) return;
  if (node.outputs.size() != 1 || !is_alike(node, node.outputs[0], only)) {
    refuse_outputs(node, {&only, 1});
  }
}

}  // namespace

OpCall call_of(const Program& program, std::size_t node, int mesh_ndim) {
  OpCall call;
  call.op = program.nodes[node].op;
  call.args = program.nodes[node].args;
  for (const ProgramInput& input : program.nodes[node].inputs) {
    TensorArg& arg = call.inputs.emplace_back();
    arg.is_list = input.is_list;
    arg.given = input.given;
    for (const ValueRef& value : input.values) {
      arg.tensors.push_back(
          {program.nodes[value.node].outputs[value.output], Layout::replicated(mesh_ndim)});
    }
  }
  return call;
}

std::vector<std::optional<std::size_t>> match_outputs(const ProgramNode& node, const OpRule& rule,
                                                      std::span<const TensorMeta> made) {
  std::vector<std::optional<std::size_t>> matches;
  std::size_t next = 0;
  const auto skip_state = [&] {
    while (next < made.size() && is_random_state(rule, made[next])) ++next;
  };
  for (const TensorMeta& meta : node.outputs) {
    if (is_random_state(rule, meta)) {
      matches.emplace_back();
      continue;
    }
    skip_state();
    if (next == made.size()) refuse_outputs(node, made);
    TensorMeta own = made[next];
    if (may_be_narrow(node, next) && is_floating_point(meta.dtype)) own.dtype = meta.dtype;
    if (!is_alike(node, meta, own)) refuse_outputs(node, made);
    matches.emplace_back(next++);
  }
  skip_state();
  if (next != made.size()) refuse_outputs(node, made);
  return matches;
}

void check_node(const ProgramNode& node, const OpCall& call, const OpRule* rule) {
  if (node.is_source()) return;
  if (!node.computes() || node.op == kGetItem) {
    check_name(node, call);
  } else if (rule != nullptr && rule->outputs != nullptr) {
    expect_arguments_of_schema(call);
    static_cast<void>(match_outputs(node, *rule, rule->outputs(call)));
  } else if (node.outputs.empty() && call.tensors().empty()) {
    throw InputError(node.op + " has no tensor; valid: a tensor that it reads or makes");
  }
}

void check_program(const Program& program, RuleSet rules) {
  constexpr int kAnyMesh = 1;  // layouts do not matter here
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    OpCall call = call_of(program, n, kAnyMesh);
    const OpRule* rule = node.computes() ? find_program_rule(node.op, rules) : nullptr;
    if (rule != nullptr) call.op = std::string(rule->op);
    try {
      check_node(node, call, rule);
    } catch (const InputError& error) {
      throw node_error(program, n, error);
    }
  }
}

NodeError node_error(const Program& program, std::size_t node, const InputError& error) {
  constexpr std::string_view kOption = "--args";
  std::string what = error.what();
  for (std::size_t begin = 0; (begin = what.find(kOption, begin)) != std::string::npos;) {
    what.replace(begin, kOption.size(), "args.positional");
  }
  return {node, "node " + program.nodes[node].name + ": " + what};
}

}  // namespace shardlab
