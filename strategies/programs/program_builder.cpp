#include "strategies/programs/program_builder.h"

#include <algorithm>
#include <array>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

constexpr std::string_view kMm = "aten.mm.default";
constexpr std::string_view kPermute = "aten.permute.default";
constexpr std::string_view kView = "aten.view.default";

// Names of ops that are also built-in functions of Python: their nodes are numbered from 1.
constexpr std::array<std::string_view, 9> kBuiltIns = {"abs", "all",   "any",   "max", "min",
                                                       "pow", "round", "slice", "sum"};

std::string fresh_name(std::map<std::string, int, std::less<>>& names, std::string_view base) {
  auto found = names.find(base);
  if (found == names.end()) {
    const bool is_built_in = std::find(kBuiltIns.begin(), kBuiltIns.end(), base) != kBuiltIns.end();
    found = names.emplace(std::string(base), is_built_in ? 1 : 0).first;
  }
  const int number = found->second++;
  return std::string(base) + (number == 0 ? "" : "_" + std::to_string(number));
}

// The base of an op's name: "mul" for "aten.mul.Tensor", "getitem" for "_operator.getitem".
std::string_view base_of(std::string_view op) {
  op.remove_prefix(op.find('.') + 1);
  return op.substr(0, op.find('.'));
}

Shape permuted(const Shape& shape, const std::vector<int>& dims) {
  Shape result;
  for (const int dim : dims) result.push_back(shape[to_index(dim)]);
  return result;
}

// Leaves out contiguous strides, as Program::from_json() does.
TensorMeta with_strides(TensorMeta meta, Shape strides) {
  meta.strides = std::move(strides);
  if (meta.is_contiguous()) meta.strides.clear();
  return meta;
}

nlohmann::json extents_json(const Shape& shape) {
  return nlohmann::json::array({std::vector<std::int64_t>(shape.begin(), shape.end())});
}

// The strides of the same memory viewed in another shape. Dims that are contiguous in memory form
// one run, beginning with the last dim; the new dims divide such a run.
Shape viewed_strides(const TensorMeta& in, const Shape& shape) {
  const Shape own = in.all_strides();
  Shape strides(shape.size(), 1);
  std::size_t next = shape.size();
  for (std::size_t d = in.shape.size(); d-- > 0;) {
    const std::int64_t step = own[d];
    std::int64_t run = in.shape[d];
    for (; d > 0 && (in.shape[d - 1] == 1 || own[d - 1] == run * step); --d) {
      run *= in.shape[d - 1];
    }
    std::int64_t within = 1;
    while (next > 0 && (within < run || shape[next - 1] == 1)) {
      --next;
      strides[next] = within * step;
      within *= shape[next];
    }
    SHARDLAB_CHECK(within == run, "a view of ", in.text());
  }
  return strides;
}

}  // namespace

TensorMeta meta_of(DType dtype, Shape shape) {
  return {.dtype = dtype, .shape = std::move(shape), .strides = {}};
}

ProgramBuilder::ProgramBuilder(std::string name, std::string source) {
  traced_.program.name = std::move(name);
  traced_.program.source = std::move(source);
}

const TensorMeta& ProgramBuilder::meta(Value value) const {
  return traced_.program.nodes[value.node].outputs[value.output];
}

void ProgramBuilder::set_label(Value value, std::string label) {
  traced_.program.nodes[value.node].label = std::move(label);
}

Value ProgramBuilder::source(NodeKind kind, TensorMeta meta, std::string label) {
  const bool tangent = kind == NodeKind::kTangent;
  int& count = traced_.names[tangent ? "tangents" : "primals"];
  ProgramNode node;
  node.name = (tangent ? "tangents_" : "primals_") + std::to_string(++count);
  node.label = std::move(label);
  node.kind = kind;
  node.phase = tangent ? Phase::kBackward : Phase::kForward;
  node.outputs = {std::move(meta)};
  traced_.program.nodes.push_back(std::move(node));
  return {traced_.program.nodes.size() - 1, 0};
}

Value ProgramBuilder::op(std::string_view op, const std::vector<Value>& inputs, nlohmann::json args,
                         std::vector<TensorMeta> outputs) {
  ProgramNode node;
  node.name = fresh_name(traced_.names, base_of(op));
  node.label = label_;
  node.phase = phase_;
  node.op = op;
  for (const Value& value : inputs) node.inputs.push_back({{value}, false});
  node.args = std::move(args);
  node.outputs = std::move(outputs);
  traced_.program.nodes.push_back(std::move(node));
  return {traced_.program.nodes.size() - 1, 0};
}

Value ProgramBuilder::op_on_list(std::string_view name, std::optional<Value> first,
                                 std::vector<Value> list, std::optional<Value> last,
                                 nlohmann::json args, TensorMeta output) {
  const Value made = op(name, {}, std::move(args), {std::move(output)});
  std::vector<ProgramInput>& inputs = traced_.program.nodes[made.node].inputs;
  if (first) inputs.push_back({{*first}, false});
  inputs.push_back({std::move(list), true});
  if (last) inputs.push_back({{*last}, false});
  return made;
}

void ProgramBuilder::leave_out(Value of, std::size_t place) {
  std::vector<ProgramInput>& inputs = traced_.program.nodes[of.node].inputs;
  inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(place), ProgramInput());
}

Value ProgramBuilder::part(Value of, std::size_t output) {
  const Value value{of.node, output};
  return op(kGetItem, {value}, nlohmann::json::array(), {meta(value)});
}

void ProgramBuilder::skip(std::string_view base, int count) {
  for (int i = 0; i < count; ++i) static_cast<void>(fresh_name(traced_.names, base));
}

Value ProgramBuilder::dtype_cast(Value x, DType dtype) {
  TensorMeta out = meta(x);
  out.dtype = dtype;
  return op("autoparallel.dtype_cast.default", {x}, nlohmann::json::array({to_string(dtype)}),
            {out});
}

Value ProgramBuilder::convert(Value x, DType dtype) {
  TensorMeta out = meta(x);
  out.dtype = dtype;
  return op("prims.convert_element_type.default", {x}, nlohmann::json::array({to_string(dtype)}),
            {out});
}

Value ProgramBuilder::view(Value x, Shape shape) {
  const TensorMeta& in = meta(x);
  nlohmann::json args = extents_json(shape);
  Shape strides = viewed_strides(in, shape);
  TensorMeta out = with_strides(meta_of(in.dtype, std::move(shape)), std::move(strides));
  return op(kView, {x}, std::move(args), {std::move(out)});
}

Value ProgramBuilder::permute(Value x, const std::vector<int>& dims) {
  const TensorMeta& in = meta(x);
  TensorMeta out =
      with_strides(meta_of(in.dtype, permuted(in.shape, dims)), permuted(in.all_strides(), dims));
  return op(kPermute, {x}, nlohmann::json::array({dims}), {out});
}

Value ProgramBuilder::unsqueeze(Value x, int dim) {
  const TensorMeta& in = meta(x);
  Shape shape = in.shape;
  Shape strides = in.all_strides();
  const auto d = static_cast<std::ptrdiff_t>(dim);
  const std::int64_t stride = dim < in.ndim() ? shape[to_index(dim)] * strides[to_index(dim)] : 1;
  shape.insert(shape.begin() + d, 1);
  strides.insert(strides.begin() + d, stride);
  return op("aten.unsqueeze.default", {x}, nlohmann::json::array({dim}),
            {with_strides(meta_of(in.dtype, shape), strides)});
}

Value ProgramBuilder::squeeze(Value x, int dim) {
  const TensorMeta& in = meta(x);
  Shape shape = in.shape;
  Shape strides = in.all_strides();
  shape.erase(shape.begin() + dim);
  strides.erase(strides.begin() + dim);
  return op("aten.squeeze.dim", {x}, nlohmann::json::array({dim}),
            {with_strides(meta_of(in.dtype, shape), strides)});
}

Value ProgramBuilder::expand(Value x, Shape shape) {
  const TensorMeta& in = meta(x);
  Shape strides = in.all_strides();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (in.shape[d] != shape[d]) strides[d] = 0;
  }
  nlohmann::json args = extents_json(shape);
  return op("aten.expand.default", {x}, std::move(args),
            {with_strides(meta_of(in.dtype, std::move(shape)), std::move(strides))});
}

Value ProgramBuilder::mm(Value a, Value b) {
  return op(kMm, {a, b}, nlohmann::json::array(),
            {meta_of(meta(a).dtype, {meta(a).shape[0], meta(b).shape[1]})});
}

Value ProgramBuilder::unary(std::string_view name, Value x, nlohmann::json args) {
  TensorMeta out = meta_of(meta(x).dtype, meta(x).shape);
  return op(name, {x}, std::move(args), {out});
}

Value ProgramBuilder::binary(std::string_view name, Value a, Value b) {
  const Shape& left = meta(a).shape;
  const Shape& right = meta(b).shape;
  Shape shape = left.size() >= right.size() ? left : right;
  const Shape& other = left.size() >= right.size() ? right : left;
  for (std::size_t i = 0; i < other.size(); ++i) {
    std::int64_t& extent = shape[shape.size() - 1 - i];
    extent = std::max(extent, other[other.size() - 1 - i]);
  }
  return op(name, {a, b}, nlohmann::json::array(), {meta_of(meta(a).dtype, std::move(shape))});
}

Value ProgramBuilder::reduce(std::string_view name, Value x, const std::vector<int>& dims) {
  Shape shape = meta(x).shape;
  for (const int dim : dims) shape[to_index(dim)] = 1;
  return op(name, {x}, nlohmann::json::array({dims, true}),
            {meta_of(meta(x).dtype, std::move(shape))});
}

Value ProgramBuilder::clone(Value x) { return unary("aten.clone.default", x); }

void ProgramBuilder::returns(Value value, NodeKind kind, Value partner) {
  traced_.returned.push_back({value, kind, partner.node});
}

TracedProgram ProgramBuilder::build() && { return std::move(traced_); }

// -- Einsums ----------------------------------------------------------------------------------

namespace {

// The pass over a traced program that turns products into einsums.
class EinsumPass {
 public:
  explicit EinsumPass(TracedProgram& traced)
      : traced_(traced), nodes_(traced.program.nodes), graph_(graph_of(traced.program)) {}

  void run() {
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (nodes_[node].op != kMm) continue;
      if (!rewrite_product(node)) rewrite_weight_gradient(node);
    }
  }

 private:
  [[nodiscard]] const TensorMeta& meta(Value value) const {
    return nodes_[value.node].outputs[value.output];
  }
  [[nodiscard]] Value input(std::size_t node, std::size_t i) const {
    return nodes_[node].inputs[i].values[0];
  }

  // The tensor of three or more dims of which `matrix` is a view as a matrix whose columns are the
  // tensor's last dim; nothing if `matrix` is not such a view.
  [[nodiscard]] std::optional<Value> flattened(Value matrix) const {
    if (nodes_[matrix.node].op != kView) return std::nullopt;
    const Value whole = input(matrix.node, 0);
    const Shape& from = meta(whole).shape;
    const Shape& to = meta(matrix).shape;
    if (from.size() < 3 || to.size() != 2 || from.back() != to[1]) return std::nullopt;
    return whole;
  }
  [[nodiscard]] std::optional<std::size_t> only_user(std::size_t node) const {
    const std::vector<std::uint32_t> users = users_of(graph_, static_cast<std::uint32_t>(node));
    return users.size() == 1 ? std::optional<std::size_t>(users[0]) : std::nullopt;
  }
  [[nodiscard]] bool is_transpose(std::size_t node) const {
    return nodes_[node].op == kPermute && nodes_[node].args == nlohmann::json::parse("[[1, 0]]");
  }

  // The letters of the batch dims, "ab" for a tensor of three dims. The letters k and n are kept
  // for the matrices.
  static std::string batch_letters(std::size_t ndim) {
    constexpr std::string_view kLetters = "abcdefghij";
    return std::string(kLetters.substr(0, ndim - 1));
  }

  // Replaces `node`, the view or transpose in which the product is used, by the einsum.
  void replace(std::size_t node, const std::string& equation, Value a, Value b) {
    ProgramNode& einsum = nodes_[node];
    einsum.name = fresh_name(traced_.names, "einsum_default");
    einsum.op = "aten.einsum.default";
    einsum.inputs = {{{a, b}, true}};
    einsum.args = nlohmann::json::array({equation});
  }

  bool rewrite_product(std::size_t node) {
    const std::optional<Value> x = flattened(input(node, 0));
    const std::optional<std::size_t> user = only_user(node);
    if (!x || !user || nodes_[*user].op != kView) return false;
    Shape shape = meta(*x).shape;
    shape.back() = meta({node, 0}).shape[1];
    if (nodes_[*user].outputs[0].shape != shape) return false;
    const std::string batch = batch_letters(shape.size());
    replace(*user, batch + "k,kn->" + batch + "n", *x, input(node, 1));
    return true;
  }

  bool rewrite_weight_gradient(std::size_t node) {
    const std::size_t left = input(node, 0).node;
    if (!is_transpose(left)) return false;
    const std::optional<Value> g = flattened(input(left, 0));
    const std::optional<Value> x = flattened(input(node, 1));
    const std::optional<std::size_t> user = only_user(node);
    if (!g || !x || !user || !is_transpose(*user)) return false;
    const Shape& rows = meta(*g).shape;
    if (rows.size() != meta(*x).shape.size() ||
        !std::equal(rows.begin(), rows.end() - 1, meta(*x).shape.begin())) {
      return false;
    }
    const std::string batch = batch_letters(rows.size());
    replace(*user, batch + "n," + batch + "k->kn", *g, *x);
    return true;
  }

  TracedProgram& traced_;
  std::vector<ProgramNode>& nodes_;
  ProgramGraph graph_;
};

// Drops ops that nothing reads, from the last to the first.
void drop_unread(TracedProgram& traced) {
  std::vector<ProgramNode>& nodes = traced.program.nodes;
  std::vector<int> readers(nodes.size(), 0);
  for (const TracedProgram::Returned& returned : traced.returned) ++readers[returned.value.node];
  const auto count = [&](const ProgramNode& node, int change) {
    for (const Value& value : values_read(node)) readers[value.node] += change;
  };
  for (const ProgramNode& node : nodes) count(node, 1);
  std::vector<std::size_t> position(nodes.size(), 0);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (readers[i] > 0 || !nodes[i].computes()) continue;
    count(nodes[i], -1);
    readers[i] = -1;
  }
  std::vector<ProgramNode> kept;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    position[i] = kept.size();
    if (readers[i] < 0) continue;
    kept.push_back(std::move(nodes[i]));
    for (ProgramInput& input : kept.back().inputs) {
      for (Value& value : input.values) value.node = position[value.node];
    }
  }
  nodes = std::move(kept);
  for (TracedProgram::Returned& returned : traced.returned) {
    returned.value.node = position[returned.value.node];
    returned.partner = position[returned.partner];
  }
}

}  // namespace

TracedProgram with_einsums(TracedProgram traced) {
  EinsumPass(traced).run();
  drop_unread(traced);
  return traced;
}

// -- Aliases ----------------------------------------------------------------------------------

Program with_aliases(TracedProgram traced) {
  Program& old = traced.program;
  const ProgramGraph graph = graph_of(old);
  const std::size_t count = old.nodes.size();
  std::vector<int> users(count, 0);
  std::vector<std::vector<std::size_t>> aliases_before(
      count);  // by the node that reads them first: the values to alias
  std::vector<std::vector<std::size_t>> returned_of(count);
  for (std::size_t r = 0; r < traced.returned.size(); ++r) {
    returned_of[traced.returned[r].value.node].push_back(r);
  }
  std::vector<std::string> alias_names(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::uint32_t> readers = users_of(graph, static_cast<std::uint32_t>(i));
    users[i] = static_cast<int>(readers.size()) + (returned_of[i].empty() ? 0 : 1);
    if (users[i] < 2 || old.nodes[i].outputs.size() != 1) continue;
    alias_names[i] = fresh_name(traced.names, "alias_default");
    if (!readers.empty()) aliases_before[readers.front()].push_back(i);
  }
  std::vector<std::string> returned_names;
  for (std::size_t r = 0; r < traced.returned.size(); ++r) {
    returned_names.push_back(fresh_name(traced.names, "alias_default"));
  }

  Program program;
  program.name = std::move(old.name);
  program.source = std::move(old.source);
  std::vector<std::size_t> position(count,
                                    0);  // where the node is at first; later, where its alias is
  std::vector<std::size_t> source_position(count, 0);
  std::vector<std::size_t> returned_position(traced.returned.size(), 0);
  const auto add_alias = [&](std::size_t of, std::string name, NodeKind kind, Phase phase) {
    ProgramNode alias;
    alias.name = std::move(name);
    alias.label = program.nodes[position[of]].label;
    alias.kind = kind;
    alias.phase = phase;
    alias.op = kAlias;
    alias.inputs = {{{{position[of], 0}}, false}};
    alias.outputs = program.nodes[position[of]].outputs;
    program.nodes.push_back(std::move(alias));
    return program.nodes.size() - 1;
  };
  const auto add_returned = [&](std::size_t node) {
    for (const std::size_t r : returned_of[node]) {
      const Phase phase = program.nodes[position[node]].phase;
      returned_position[r] = add_alias(node, returned_names[r], traced.returned[r].kind, phase);
    }
  };
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::size_t of : aliases_before[i]) {
      position[of] =
          add_alias(of, alias_names[of], NodeKind::kOp, program.nodes[position[of]].phase);
      add_returned(of);
    }
    program.nodes.push_back(std::move(old.nodes[i]));
    for (ProgramInput& input : program.nodes.back().inputs) {
      for (Value& value : input.values) value.node = position[value.node];
    }
    position[i] = source_position[i] = program.nodes.size() - 1;
    if (alias_names[i].empty()) add_returned(i);
  }
  std::vector<std::pair<std::size_t, std::size_t>> outputs;
  for (std::size_t r = 0; r < traced.returned.size(); ++r) {
    const TracedProgram::Returned& returned = traced.returned[r];
    const std::size_t partner = source_position[returned.partner];
    if (returned.kind == NodeKind::kGradient) {
      program.pairs.emplace_back(partner, returned_position[r]);
    } else {
      outputs.emplace_back(returned_position[r], partner);
    }
  }
  program.pairs.insert(program.pairs.end(), outputs.begin(), outputs.end());
  return program;
}

}  // namespace shardlab
