// The pass forward is walked first, in the program's order. What it found out about weights decides
// the gradients, and then the pass backward is walked.
#include "strategies/programs/model_roles.h"

#include <algorithm>
#include <string_view>

#include "costmodel/base/index.h"
#include "strategies/programs/batched_nodes.h"
#include "strategies/programs/parameter_products.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace model_roles_walk {
namespace {

enum class Flow : std::uint8_t { kNone, kStream, kPartial, kInner };

// How a layer multiplies by a weight.
enum class LinearKind : std::uint8_t { kNotYetKnown, kColumn, kRow, kRouter };

// What is known of a node besides its roles.
struct Walked {
  Flow flow = Flow::kNone;
  bool from_inputs = false;    // some input or tangent decides it
  bool is_scale = false;       // one over a root: what a norm multiplies by
  bool is_normalized = false;  // a value times such a scale, perhaps times a norm's weight
  std::int64_t features = 0;   // how many features the layer of an inner value made
  // The dim of output features that a product with a weight has, and so do its copies and reshapes.
  int feature_dim = kNoDim;
  LinearKind result_of = LinearKind::kNotYetKnown;
};

std::int64_t elements_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

bool has_text(std::string_view op, std::string_view part) {
  return op.find(part) != std::string_view::npos;
}
bool is_backward_op(const ProgramNode& node) { return has_text(node.op, "backward"); }
bool is_norm(const ProgramNode& node) {
  return !is_backward_op(node) &&
         (has_text(node.op, "layer_norm") || has_text(node.op, "batch_norm") ||
          has_text(node.op, "group_norm") || has_text(node.op, "rms_norm"));
}
bool is_lookup(const ProgramNode& node) {
  return node.op == "aten.embedding.default" || node.op.starts_with("aten._embedding_bag.") ||
         node.op.starts_with("aten._embedding_bag_forward_only.");
}
bool is_fused_attention(const ProgramNode& node) { return has_text(node.op, "scaled_dot_product"); }
bool chooses_experts(const ProgramNode& node) {
  return node.op == "aten.topk.default" || node.op == "aten.argmax.default";
}
bool adds(const ProgramNode& node) {
  return node.op == "aten.add.Tensor" || node.op == "aten.sub.Tensor";
}
bool multiplies(const ProgramNode& node) { return node.op.starts_with("aten.mul."); }
bool divides(const ProgramNode& node) { return node.op.starts_with("aten.div."); }
// Whether an op of one tensor keeps a sum that is spread over ranks a sum of the same kind.
bool is_linear_in_one(const ProgramNode& node) {
  return multiplies(node) || divides(node) || node.op == "aten.neg.default" ||
         node.op.starts_with("aten.sum.");
}
bool reduces(const ProgramNode& node) {
  return node.op.starts_with("aten.mean.") || node.op.starts_with("aten.sum.") ||
         node.op.starts_with("aten.var.") || node.op.starts_with("aten.var_mean.");
}

class RoleFinder {
 public:
  explicit RoleFinder(const Program& program)
      : program_(program),
        views_(parameter_views(program)),
        walked_(program.nodes.size()),
        roles_(program.nodes.size()),
        linear_(program.nodes.size(), LinearKind::kNotYetKnown),
        computes_gradient_(program.nodes.size(), false) {
    products_.reserve(program.nodes.size());
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
      products_.push_back(parameter_product(program, views_, n));
    }
  }

  std::vector<NodeRoles> run() {
    find_routers();
    for (std::size_t n = 0; n < walked_.size(); ++n) {
      if (node(n).phase == Phase::kForward && node(n).kind != NodeKind::kTangent) visit(n);
    }
    find_weight_gradients();
    for (std::size_t n = 0; n < walked_.size(); ++n) {
      if (node(n).phase == Phase::kBackward || node(n).kind == NodeKind::kTangent) visit(n);
    }
    add_flow_roles();
    add_table_dims();
    add_sequence_dims();
    return std::move(roles_);
  }

 private:
  [[nodiscard]] const ProgramNode& node(std::size_t n) const { return program_.nodes[n]; }
  [[nodiscard]] const Shape& shape(const ValueRef& value) const {
    return node(value.node).outputs[value.output].shape;
  }
  [[nodiscard]] const Shape& shape(std::size_t n) const { return node(n).outputs[0].shape; }

  // -- Before the walk --------------------------------------------------------------------------

  // Marks the weights whose product a topk or an argmax reads, through ops that multiply by no
  // other weight. The product has fewer features than its input: the logits of a language model
  // have more, so that a program that ends with the best token has no router.
  void find_routers() {
    std::vector<bool> seen(walked_.size(), false);
    for (std::size_t n = 0; n < walked_.size(); ++n) {
      if (!node(n).computes() || !chooses_experts(node(n))) continue;
      std::vector<std::size_t> open = {n};
      while (!open.empty()) {
        const std::size_t at = open.back();
        open.pop_back();
        for (const ValueRef& value : values_read(node(at))) {
          const std::size_t from = value.node;
          if (seen[from] || !node(from).computes()) continue;
          seen[from] = true;
          if (const auto& product = products_[from]) {
            const Shape& weight = shape(product->parameter);
            if (weight[to_index(product->out_dim)] < weight[to_index(product->in_dim)]) {
              linear_[product->parameter] = LinearKind::kRouter;
            }
          } else if (!is_product(node(from)) && !is_norm(node(from)) && !is_lookup(node(from))) {
            open.push_back(from);
          }
        }
      }
    }
  }

  // -- The walk ---------------------------------------------------------------------------------

  void visit(std::size_t n) {
    if (node(n).outputs.empty()) return;
    Walked& here = walked_[n];
    if (node(n).is_source()) {
      visit_source(n);
      return;
    }
    const std::vector<ValueRef> values = values_read(node(n));
    for (const ValueRef& value : values) {
      here.from_inputs = here.from_inputs || walked_[value.node].from_inputs;
      if (walked_[value.node].flow == Flow::kInner) {
        here.features = std::max(here.features, walked_[value.node].features);
      }
    }
    if (node(n).leaves()) {
      if (!values.empty()) {
        here = walked_[values[0].node];
        mark_result(n);
      }
      return;
    }
    if (computes_gradient_[n] || !here.from_inputs) {
      mark_tables(n, values);
      return;
    }
    here.flow = flow_of(n, values);
    if (here.flow != Flow::kInner) here.features = 0;
    follow_result(n, values);
    if (node(n).phase == Phase::kForward) follow_norm(n, values);
  }

  void visit_source(std::size_t n) {
    Walked& here = walked_[n];
    if (node(n).kind == NodeKind::kInput) {
      here.from_inputs = true;
      if (is_floating_point(node(n).outputs[0].dtype)) here.flow = Flow::kStream;
    } else if (node(n).kind == NodeKind::kTangent) {
      here.from_inputs = true;
      here.flow = Flow::kStream;
      for (const auto& [first, second] : program_.pairs) {
        if (first != n && second != n) continue;
        const Walked& output = walked_[first == n ? second : first];
        here.flow = output.flow;
        here.features = output.features;
      }
    }
  }

  [[nodiscard]] Flow flow_of(std::size_t n, const std::vector<ValueRef>& values) {
    if (products_[n]) return flow_of_layer(n, *products_[n]);
    if (is_product(node(n))) return flow_of_product(n);
    if (is_lookup(node(n))) return flow_of_lookup(n, values);
    if (is_fused_attention(node(n))) {
      roles_[n].add(ModelRole::kAttention);
      return Flow::kInner;
    }
    if (is_norm(node(n)) && !values.empty()) return flow_of_norm(n, values);
    if (reduces(node(n)) && values.size() == 1 && needs_all_features(n, values[0])) {
      return Flow::kStream;
    }
    if (adds(node(n)) && values.size() == 2) return flow_of_sum(values[0], values[1]);
    if ((multiplies(node(n)) || divides(node(n))) && values.size() == 2) {
      // A norm's scale that is made of all features makes the whole value one of the stream.
      for (const ValueRef& value : values) {
        if (walked_[value.node].is_scale && walked_[value.node].flow == Flow::kStream) {
          return Flow::kStream;
        }
      }
    }
    return flow_of_others(n, values);
  }

  [[nodiscard]] Flow flow_of_layer(std::size_t n, const ParameterProduct& product) {
    LinearKind& kind = linear_[product.parameter];
    const Walked& activation = walked_[product.activation.node];
    const bool backward = node(n).phase == Phase::kBackward;
    if (kind == LinearKind::kNotYetKnown) {
      if (backward) return flow_of_others(n, {product.activation});
      kind = activation.flow == Flow::kInner ? LinearKind::kRow : LinearKind::kColumn;
    }
    if (backward) return kind == LinearKind::kRow ? Flow::kInner : Flow::kPartial;
    const ModelRole role = kind == LinearKind::kRouter ? ModelRole::kRouter
                           : kind == LinearKind::kRow  ? ModelRole::kRowLinear
                                                       : ModelRole::kColumnLinear;
    const std::int64_t features = shape(n)[to_index(product.feature_dim)];
    NodeRoles& weight = roles_[product.parameter];
    weight.add(role);
    weight.set(RoleDim::kOut, product.out_dim);
    weight.set(RoleDim::kIn, product.in_dim);
    weight.set(RoleDim::kExpert, product.expert_dim);
    if (product.expert_dim != kNoDim) {
      weight.add(ModelRole::kExpert);
      roles_[n].add(ModelRole::kExpert);
    }
    if (kind != LinearKind::kRouter) {
      widths_.push_back(
          kind == LinearKind::kRow ? features : shape(product.parameter)[to_index(product.in_dim)]);
    }
    if (product.bias) mark_bias(*product.bias, kind);
    Walked& here = walked_[n];
    here.feature_dim = product.feature_dim;
    here.result_of = kind;
    mark_result(n);
    if (kind == LinearKind::kRouter) return Flow::kStream;
    if (kind == LinearKind::kRow) return Flow::kPartial;
    here.features = features;
    return Flow::kInner;
  }

  // A product of two values neither of which holds a parameter.
  [[nodiscard]] Flow flow_of_product(std::size_t n) {
    const std::vector<ValueRef> factors = factors_of(node(n));
    const bool inner = std::ranges::any_of(
        factors, [&](const ValueRef& value) { return walked_[value.node].flow == Flow::kInner; });
    if (!inner) return Flow::kStream;
    if (node(n).phase == Phase::kForward) roles_[n].add(ModelRole::kAttention);
    return Flow::kInner;
  }

  [[nodiscard]] Flow flow_of_lookup(std::size_t n, const std::vector<ValueRef>& values) {
    mark_tables(n, values);
    return Flow::kStream;
  }

  [[nodiscard]] Flow flow_of_norm(std::size_t n, const std::vector<ValueRef>& values) {
    roles_[n].add(ModelRole::kNorm);
    for (const ValueRef& value : values) {
      if (views_[value.node]) roles_[views_[value.node]->parameter].add(ModelRole::kNorm);
    }
    const Walked& from = walked_[values[0].node];
    if (from.flow != Flow::kInner) return Flow::kStream;
    const nlohmann::json& args = node(n).args;
    if (args.empty() || !args[0].is_array()) return Flow::kInner;
    std::int64_t count = 1;
    for (const nlohmann::json& extent : args[0]) {
      if (extent.is_number_integer()) count *= extent.get<std::int64_t>();
    }
    return count == from.features ? Flow::kStream : Flow::kInner;
  }

  // Whether an op reduces an inner value over the dim that has all features of its layer.
  [[nodiscard]] bool needs_all_features(std::size_t n, const ValueRef& value) const {
    const Walked& from = walked_[value.node];
    const Shape& before = shape(value);
    const nlohmann::json& args = node(n).args;
    if (from.flow != Flow::kInner || before.empty() || before.back() != from.features ||
        args.empty() || !args[0].is_array()) {
      return false;
    }
    return std::ranges::any_of(args[0], [&](const nlohmann::json& dim) {
      return dim.is_number_integer() &&
             (dim.get<std::int64_t>() == -1 || dim.get<std::int64_t>() + 1 == std::ssize(before));
    });
  }

  [[nodiscard]] Flow flow_of_sum(const ValueRef& left, const ValueRef& right) const {
    const Flow first = walked_[left.node].flow;
    const Flow second = walked_[right.node].flow;
    if (first == second) return first;
    if (first == Flow::kNone) return second;
    if (second == Flow::kNone) return first;
    const bool inner = first == Flow::kInner || second == Flow::kInner;
    // A sum with the stream returns to it; a bias or mask that is repeated does not.
    const bool repeats = elements_of(shape(left)) != elements_of(shape(right));
    return inner && repeats ? Flow::kInner : Flow::kStream;
  }

  [[nodiscard]] Flow flow_of_others(std::size_t n, const std::vector<ValueRef>& values) {
    bool stream = false;
    bool partial = false;
    bool others = false;
    bool inner = false;
    for (const ValueRef& value : values) {
      const Flow flow = walked_[value.node].flow;
      inner = inner || flow == Flow::kInner;
      stream = stream || flow == Flow::kStream;
      partial = partial || flow == Flow::kPartial;
      others = others || flow == Flow::kNone;
    }
    if (inner) {
      scale_features(n, values);
      return Flow::kInner;
    }
    if (stream) return Flow::kStream;
    if (!partial) return Flow::kNone;
    const bool moves = only_copies(node(n)) || node(n).op == kGetItem ||
                       dims_after(program_, node(n), dims_of(values[0])).has_value() ||
                       node(n).op == "aten.cat.default" || node(n).op == "aten.stack.default" ||
                       (values.size() == 1 && is_linear_in_one(node(n)));
    return moves && !others ? Flow::kPartial : Flow::kStream;
  }

  // If a value is cut into parts, each part has a part of the features.
  void scale_features(std::size_t n, const std::vector<ValueRef>& values) {
    if (!node(n).op.starts_with("aten.split") && node(n).op != "aten.slice.Tensor" &&
        node(n).op != "aten.chunk.default" && node(n).op != "aten.select.int") {
      return;
    }
    const std::int64_t before = elements_of(shape(values[0]));
    if (before > 0) walked_[n].features = walked_[n].features * elements_of(shape(n)) / before;
  }

  [[nodiscard]] std::vector<int> dims_of(const ValueRef& value) const {
    std::vector<int> dims(shape(value).size());
    for (std::size_t dim = 0; dim < dims.size(); ++dim) dims[dim] = static_cast<int>(dim);
    return dims;
  }

  // -- What belongs to a layer ------------------------------------------------------------------

  void mark_tables(std::size_t n, const std::vector<ValueRef>& values) {
    if (!is_lookup(node(n)) || values.empty() || !views_[values[0].node]) return;
    roles_[n].add(ModelRole::kEmbedding);
    const ParameterView& view = *views_[values[0].node];
    roles_[view.parameter].add(ModelRole::kEmbedding);
    if (view.dims.size() == 2) tables_.push_back(&view);
  }

  void mark_bias(const ValueRef& value, LinearKind kind) {
    if (!views_[value.node] || kind == LinearKind::kRouter) return;
    NodeRoles& bias = roles_[views_[value.node]->parameter];
    bias.add(kind == LinearKind::kRow ? ModelRole::kRowBias : ModelRole::kColumnBias);
    const ParameterView& view = *views_[value.node];
    if (!view.dims.empty()) bias.set(RoleDim::kOut, view.dims.back());
  }

  // Gives a product, or what follows from it, the role of its layer.
  void mark_result(std::size_t n) {
    const Walked& here = walked_[n];
    if (here.feature_dim == kNoDim || node(n).phase != Phase::kForward) return;
    if (here.result_of == LinearKind::kColumn) roles_[n].add(ModelRole::kColumnLinear);
    if (here.result_of == LinearKind::kRow) roles_[n].add(ModelRole::kRowLinear);
    if (here.result_of == LinearKind::kRouter) roles_[n].add(ModelRole::kRouter);
    roles_[n].set(RoleDim::kOut, here.feature_dim);
  }

  // A copy or a reshape of a layer's result, in which the output features are still one dim, is
  // that result. So is a column-wise result with the layer's bias.
  void follow_result(std::size_t n, const std::vector<ValueRef>& values) {
    Walked& here = walked_[n];
    if (here.feature_dim != kNoDim || values.empty() || node(n).phase != Phase::kForward) return;
    if (adds(node(n)) && values.size() == 2) {
      follow_bias(n, values[0], values[1]);
      follow_bias(n, values[1], values[0]);
      return;
    }
    const Walked& from = walked_[values[0].node];
    if (from.feature_dim == kNoDim || values.size() != 1) return;
    const auto dims = dims_after(program_, node(n), dims_of(values[0]));
    if (!dims) return;
    const std::int64_t extent = shape(values[0])[to_index(from.feature_dim)];
    for (std::size_t dim = 0; dim < dims->size(); ++dim) {
      if ((*dims)[dim] != from.feature_dim || shape(n)[dim] != extent) continue;
      here.feature_dim = static_cast<int>(dim);
      here.result_of = from.result_of;
      mark_result(n);
      return;
    }
  }

  void follow_bias(std::size_t n, const ValueRef& result, const ValueRef& added) {
    const Walked& from = walked_[result.node];
    if (from.feature_dim == kNoDim || !views_[added.node]) return;
    if (elements_of(shape(added)) != shape(result)[to_index(from.feature_dim)]) return;
    mark_bias(added, from.result_of);
    if (from.result_of != LinearKind::kColumn) return;
    walked_[n].feature_dim = from.feature_dim;
    walked_[n].result_of = from.result_of;
    mark_result(n);
  }

  // A norm that is written out: a value times one over a root, then times a weight of the norm,
  // then plus its bias.
  void follow_norm(std::size_t n, const std::vector<ValueRef>& values) {
    Walked& here = walked_[n];
    if (node(n).op == "aten.rsqrt.default" || node(n).op == "aten.sqrt.default") {
      here.is_scale = true;
      return;
    }
    if (values.size() == 1) {
      if (dims_after(program_, node(n), dims_of(values[0]))) {
        here.is_scale = walked_[values[0].node].is_scale;
        here.is_normalized = walked_[values[0].node].is_normalized;
      }
      return;
    }
    if (values.size() != 2 || !(multiplies(node(n)) || divides(node(n)) || adds(node(n)))) return;
    for (std::size_t side = 0; side < 2; ++side) {
      const ValueRef& value = values[side];
      const ValueRef& other = values[1 - side];
      if (!adds(node(n)) && walked_[other.node].is_scale) here.is_normalized = true;
      if (!walked_[value.node].is_normalized || divides(node(n)) || !views_[other.node]) continue;
      if (elements_of(shape(other)) != shape(n).back()) continue;
      roles_[views_[other.node]->parameter].add(ModelRole::kNorm);
      roles_[n].add(ModelRole::kNorm);
      here.is_normalized = !adds(node(n));
    }
  }

  // -- After the walk ---------------------------------------------------------------------------

  // Follows each gradient back to the op that computes it, through copies, casts and reshapes, and
  // through sums of the gradients of a parameter that is used twice.
  void find_weight_gradients() {
    std::vector<std::size_t> open;
    for (const auto& [parameter, gradient] : program_.pairs) {
      if (node(parameter).kind != NodeKind::kParameter || shape(parameter).size() < 2) continue;
      for (const ValueRef& value : values_read(node(gradient))) open.push_back(value.node);
      while (!open.empty()) {
        const std::size_t at = open.back();
        open.pop_back();
        if (node(at).is_source() || computes_gradient_[at]) continue;
        const std::vector<ValueRef> values = values_read(node(at));
        const bool moves = values.size() == 1 && node(at).op != kGetItem &&
                           dims_after(program_, node(at), dims_of(values[0])).has_value() &&
                           elements_of(shape(values[0])) == elements_of(shape(at));
        if (moves || (adds(node(at)) && values.size() == 2)) {
          for (const ValueRef& value : values) open.push_back(value.node);
          continue;
        }
        computes_gradient_[at] = true;
        if (!roles_[parameter].has(ModelRole::kExpert)) {
          roles_[at].add(ModelRole::kWeightGradient);
        }
      }
    }
  }

  void add_flow_roles() {
    for (std::size_t n = 0; n < walked_.size(); ++n) {
      if (node(n).outputs.empty() || !is_floating_point(node(n).outputs[0].dtype)) continue;
      if (walked_[n].flow == Flow::kStream) roles_[n].add(ModelRole::kStream);
      if (walked_[n].flow == Flow::kInner) roles_[n].add(ModelRole::kInner);
    }
  }

  // If a table is the head's weight too, the dims are those of the head.
  void add_table_dims() {
    for (const ParameterView* view : tables_) {
      roles_[view->parameter].set(RoleDim::kOut, view->dims[1]);
      roles_[view->parameter].set(RoleDim::kIn, view->dims[0]);
    }
  }

  void add_sequence_dims() {
    const std::vector<bool> batched = batched_nodes(program_);
    const auto is_tokens = [&](std::size_t n) {
      if (!batched[n] || !roles_[n].has(ModelRole::kStream)) return false;
      const std::int64_t width = shape(n).back();
      return width == 1 || std::ranges::find(widths_, width) != widths_.end();
    };
    bool has_sequences = false;
    for (std::size_t n = 0; n < walked_.size(); ++n) {
      has_sequences = has_sequences || (is_tokens(n) && shape(n).size() == 3);
    }
    const std::size_t ndim = has_sequences ? 3 : 2;
    for (std::size_t n = 0; n < walked_.size(); ++n) {
      if (!is_tokens(n) || shape(n).size() != ndim) continue;
      roles_[n].set(RoleDim::kSequence, has_sequences ? 1 : 0);
    }
  }

  const Program& program_;
  std::vector<std::optional<ParameterView>> views_;
  std::vector<std::optional<ParameterProduct>> products_;
  std::vector<Walked> walked_;
  std::vector<NodeRoles> roles_;
  std::vector<LinearKind> linear_;  // by parameter
  // Whether the gradient of each parameter with two or more dims is computed.
  std::vector<bool> computes_gradient_;
  std::vector<const ParameterView*> tables_;
  std::vector<std::int64_t> widths_;  // features of the stream where layers read and write it
};

}  // namespace
}  // namespace model_roles_walk

std::vector<NodeRoles> model_roles(const Program& program) {
  return model_roles_walk::RoleFinder(program).run();
}

}  // namespace shardlab
