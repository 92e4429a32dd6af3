// Builds programs node by node, with PyTorch's names, shapes and strides: the graph that its tracer
// records of a training step, forward and backward.
//
//   ProgramBuilder b("toy", "source");
//   const Value w = b.source(NodeKind::kParameter, meta_of(DType::kF32, {4096, 4096}));
//   const Value x = b.source(NodeKind::kInput, meta_of(DType::kBF16, {64, 4096}));
//   const Value tangent = b.source(NodeKind::kTangent, meta_of(DType::kBF16, {64, 4096}));
//   const Value y = b.mm(x, b.permute(b.dtype_cast(w, DType::kBF16), {1, 0}));
//   b.returns(y, NodeKind::kOutput, tangent);
//   Program program = with_aliases(with_einsums(std::move(b).build()));
//
// Nodes are named as torch.fx names them (mul, mul_1, ...; but sum_1 first, since Python has a
// built-in sum). The program's outputs are in the order of the calls of returns(). Source: PyTorch
// 2.13.0, torch/fx/graph.py (_Namespace), and aten's decompositions; for the passes, AutoParallel
// at a54c252.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

using Value = ValueRef;

// A program whose returned values have no nodes of their own yet.
struct TracedProgram {
  struct Returned {
    Value value;
    NodeKind kind = NodeKind::kOutput;  // kOutput or kGradient
    // The node that must have the same layout: a gradient's parameter, an output's tangent.
    std::size_t partner = 0;
  };
  Program program;
  std::vector<Returned> returned;
  std::map<std::string, int, std::less<>> names;  // by base name: how many nodes have it
};

// A row-major tensor.
[[nodiscard]] TensorMeta meta_of(DType dtype, Shape shape);

class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, std::string source);

  // Nodes that are added from here on belong to the backward pass.
  void begin_backward() { phase_ = Phase::kBackward; }
  // Ops that are added from here on have this label; "" means no label.
  void begin_label(std::string label) { label_ = std::move(label); }
  void set_label(Value value, std::string label);
  [[nodiscard]] const TensorMeta& meta(Value value) const;

  // Adds a source; its name is like "primals_3" or "tangents_1".
  Value source(NodeKind kind, TensorMeta meta, std::string label = "");
  // Adds any op; returns its first output.
  Value op(std::string_view op, const std::vector<Value>& inputs, nlohmann::json args,
           std::vector<TensorMeta> outputs);
  // Adds an op that takes a tensor list, either after one tensor (`first`) or before another.
  Value op_on_list(std::string_view op, std::optional<Value> first, std::vector<Value> list,
                   std::optional<Value> last, nlohmann::json args, TensorMeta output);
  // Says that an optional tensor of a node's op is not given; `place` is its place among the
  // inputs.
  void leave_out(Value of, std::size_t place);
  // Adds a node that selects one of several outputs of another node.
  Value part(Value of, std::size_t output);
  // Skips the numbers of nodes that the tracer made and dropped again.
  void skip(std::string_view base, int count);

  Value dtype_cast(Value x, DType dtype);  // AutoParallel's cast of parameters and their gradients
  Value convert(Value x, DType dtype);
  Value view(Value x, Shape shape);
  Value permute(Value x, const std::vector<int>& dims);
  Value unsqueeze(Value x, int dim);
  Value squeeze(Value x, int dim);
  Value expand(Value x, Shape shape);
  Value mm(Value a, Value b);
  Value unary(std::string_view op, Value x, nlohmann::json args = nlohmann::json::array());
  Value binary(std::string_view op, Value a, Value b);
  Value reduce(std::string_view op, Value x, const std::vector<int>& dims);  // keeps the dims
  Value clone(Value x);                                                      // row-major

  void returns(Value value, NodeKind kind, Value partner);
  [[nodiscard]] TracedProgram build() &&;

 private:
  TracedProgram traced_;
  Phase phase_ = Phase::kForward;
  std::string label_;
};

// Replaces the product of x [.., k] and a matrix [k, n], for which x is viewed as a matrix and the
// result viewed as [.., n] again, by one einsum ("abk,kn->abn"). The product of two such matrices
// over their rows, transposed, is also replaced by an einsum ("abn,abk->kn"). These are the passes
// of AutoParallel's einsum form. Nodes that nothing reads any more are dropped.
[[nodiscard]] TracedProgram with_einsums(TracedProgram traced);
// Adds an alias before the first reader of every tensor that has several readers, and an alias of
// every value that the program returns; partners become pairs. An alias has the label of the value
// that it names.
[[nodiscard]] Program with_aliases(TracedProgram traced);

}  // namespace shardlab
