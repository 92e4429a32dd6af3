#include "strategies/programs/wide_program.h"

#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

constexpr std::string_view kCopies = "aten.alias.default";
// Ops whose kernel also works on complex numbers that are stored as pairs, because the op counts
// dims from the left or takes them from the shape of the output.
constexpr std::array<std::string_view, 7> kPairwise = {
    "aten._unsafe_view.default", "aten.add.Tensor",   "aten.alias.default",  "aten.clone.default",
    "aten.detach.default",       "aten.view.default", "aten.reshape.default"};

// Ops that work along the dim that --args begin with, 0 by default.
constexpr std::array<std::string_view, 4> kAlongDim = {
    "aten.cat.default", "aten.select.int", "aten.slice.Tensor", "aten.unsqueeze.default"};

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& ops, std::string_view op) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

bool is_complex(const TensorMeta& meta) { return meta.dtype == DType::kC64; }

// The op whose kernel computes a node on complex numbers.
std::string complex_op(const ProgramNode& node, std::size_t complex_inputs, std::size_t inputs) {
  const std::string& op = node.op;
  if (op == "aten.view_as_complex.default" || op == "aten.view_as_real.default") {
    return std::string(kCopies);
  }
  if (op == "aten._conj.default") return "shardlab.complex_conjugate";
  if (op == "aten.polar.default") return "shardlab.complex_polar";
  if (op == "aten.mul.Tensor" && inputs == 2 && complex_inputs == 2) {
    return "shardlab.complex_product";
  }
  const bool is_pairwise = is_one_of(kPairwise, op) || is_one_of(kAlongDim, op);
  const bool scales = (op == "aten.mul.Tensor" || op == "aten.mul.Scalar") && inputs == 1;
  const bool shifts = op == "aten.add.Tensor" && inputs == 1;  // a number, to the real part alone
  if ((is_pairwise || scales) && !shifts && complex_inputs == inputs) return op;
  throw InputError(op + " has no reference kernel for complex numbers, so it can't be executed");
}

// A dim that is counted from the right skips the dim of the pairs, which is the last one.
void count_from_left(const ProgramNode& node, OpCall& call) {
  if (call.args.empty() || !call.args[0].is_number_integer()) return;
  const auto dim = call.args[0].get<std::int64_t>();
  const bool adds_dim = call.op == "aten.unsqueeze.default";
  const int ndim = call.tensors()[0]->meta.ndim() - 1 + (adds_dim ? 1 : 0);
  if (dim >= ndim || dim < -ndim) {
    throw InputError(node.op + ": found dim " + std::to_string(dim) +
                     "; valid: " + std::to_string(-ndim) + " to " + std::to_string(ndim - 1));
  }
  if (dim < 0) call.args[0] = dim + ndim;
}

}  // namespace

TensorMeta wide_meta(const TensorMeta& meta) {
  TensorMeta wide{.dtype = meta.dtype, .shape = meta.shape, .strides = {}};
  if (is_floating_point(meta.dtype)) wide.dtype = DType::kF64;
  if (meta.dtype == DType::kU64) wide.dtype = DType::kI64;
  if (is_complex(meta)) {
    wide.dtype = DType::kF64;
    wide.shape.push_back(2);
  }
  return wide;
}

OpCall wide_call(const Program& program, std::size_t node, int mesh_ndim) {
  const ProgramNode& own = program.nodes[node];
  OpCall call;
  call.op = own.computes() && own.op != kGetItem ? own.op : std::string(kCopies);
  if (call.op != kCopies) call.args = own.args;
  std::size_t tensors = 0;
  std::size_t complex_tensors = 0;
  for (const ProgramInput& input : own.inputs) {
    TensorArg& arg = call.inputs.emplace_back();
    arg.is_list = input.is_list;
    arg.given = input.given;
    for (const ValueRef& value : input.values) {
      const TensorMeta& meta = program.nodes[value.node].outputs[value.output];
      arg.tensors.push_back({wide_meta(meta), Layout::replicated(mesh_ndim)});
      if (call.op.starts_with("aten.as_strided")) arg.tensors.back().meta.strides = meta.strides;
      ++tensors;
      if (is_complex(meta)) ++complex_tensors;
    }
  }
  const bool makes_complex = std::any_of(own.outputs.begin(), own.outputs.end(), is_complex);
  if (call.op != kCopies && (complex_tensors > 0 || makes_complex)) {
    call.op = complex_op(own, complex_tensors, tensors);
    if (is_one_of(kAlongDim, call.op)) count_from_left(own, call);
  }
  for (nlohmann::json& arg : call.args) {
    if (!arg.is_string()) continue;
    const std::optional<DType> dtype = dtype_from_name(arg.get_ref<const std::string&>());
    if (dtype && is_floating_point(*dtype)) arg = "f64";
  }
  return call;
}

}  // namespace shardlab
