#include "strategies/rules/composite_ops.h"

#include <algorithm>
#include <array>

#include "strategies/rules/op_call.h"

namespace shardlab {
namespace {

struct Composite {
  std::string_view op;
  std::string_view runs;
};
constexpr auto kComposites = std::to_array<Composite>({
    {"absolute", "aten.abs.default"},
    {"arccos", "aten.acos.default"},
    {"batch_norm", "aten.native_batch_norm.default"},
    {"broadcast_to", "aten.expand.default"},
    {"chunk", "aten.split.Tensor"},
    {"concat", "aten.cat.default"},
    {"concatenate", "aten.cat.default"},
    {"conv1d", "aten.convolution.default"},
    {"conv2d", "aten.convolution.default"},
    {"conv3d", "aten.convolution.default"},
    {"conv_transpose1d", "aten.convolution.default"},
    {"conv_transpose2d", "aten.convolution.default"},
    {"conv_transpose3d", "aten.convolution.default"},
    {"cross_entropy_loss", "aten._log_softmax.default, aten.nll_loss_forward.default"},
    {"diff", "aten.slice.Tensor, aten.sub.Tensor"},
    {"divide", "aten.div.Tensor"},
    {"dropout", "aten.native_dropout.default"},
    {"dstack", "aten.unsqueeze.default, aten.cat.default"},
    {"expand_as", "aten.expand.default"},
    {"flatten", "aten.view.default"},
    {"group_norm", "aten.native_group_norm.default"},
    {"hsplit", "aten.slice.Tensor"},
    {"hstack", "aten.cat.default"},
    {"instance_norm", "aten.view.default, aten.native_batch_norm.default"},
    {"layer_norm", "aten.native_layer_norm.default"},
    {"linalg_norm", "aten.linalg_vector_norm.default"},
    {"linear", "aten.t.default, aten.mm.default, aten.addmm.default"},
    {"log_sigmoid", "aten.log_sigmoid_forward.default"},
    {"mT", "aten.transpose.int"},
    {"matmul",
     "aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default, aten.expand.default, "
     "aten.view.default, aten._unsafe_view.default"},
    {"max_pool2d", "aten.max_pool2d_with_indices.default"},
    {"moveaxis", "aten.permute.default"},
    {"movedim", "aten.permute.default"},
    {"multiply", "aten.mul.Tensor"},
    {"narrow", "aten.slice.Tensor"},
    {"negative", "aten.neg.default"},
    {"nll_loss", "aten.nll_loss_forward.default"},
    {"numpy_T", "aten.permute.default"},
    {"outer", "aten.view.default, aten.mul.Tensor"},
    {"pad", "aten.constant_pad_nd.default"},
    {"ravel", "aten.view.default"},
    {"repeat_interleave",
     "aten.unsqueeze.default, aten.expand.default, aten.clone.default, aten.view.default"},
    {"reshape_as", "aten.view.default"},
    {"rms_norm", "aten._fused_rms_norm.default"},
    {"scaled_dot_product_attention",
     "aten._scaled_dot_product_flash_attention.default, "
     "aten._scaled_dot_product_efficient_attention.default, "
     "aten._scaled_dot_product_cudnn_attention.default"},
    {"subtract", "aten.sub.Tensor"},
    {"swapaxes", "aten.transpose.int"},
    {"swapdims", "aten.transpose.int"},
    {"tensor_split", "aten.slice.Tensor"},
    {"tile", "aten.repeat.default"},
    {"type_as", "aten._to_copy.default"},
    {"unflatten", "aten.view.default"},
    {"view_as", "aten.view.default"},
    {"vstack", "aten.cat.default"},
});
static_assert(std::ranges::is_sorted(kComposites, {}, &Composite::op));

}  // namespace

std::string_view ops_in_place_of(std::string_view op) {
  const OpName name = split_op_name(op);
  // repeat_interleave.Tensor is an operator of its own.
  const bool is_own = name.base == "repeat_interleave" && name.overload == "Tensor";
  if (is_own || name.overload.ends_with("out")) return {};
  const auto it = std::ranges::lower_bound(kComposites, name.base, {}, &Composite::op);
  return it != kComposites.end() && it->op == name.base ? it->runs : std::string_view();
}

std::vector<std::string_view> composite_op_names() {
  std::vector<std::string_view> names;
  for (const Composite& composite : kComposites) names.push_back(composite.op);
  return names;
}

}  // namespace shardlab
