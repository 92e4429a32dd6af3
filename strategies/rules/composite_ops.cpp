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
    {"arccosh", "aten.acosh.default"},
    {"arcsin", "aten.asin.default"},
    {"arcsinh", "aten.asinh.default"},
    {"arctan", "aten.atan.default"},
    {"arctan2", "aten.atan2.default"},
    {"arctanh", "aten.atanh.default"},
    {"argsort", "aten.sort.default"},
    {"avg_pool1d", "aten.unsqueeze.default, aten.avg_pool2d.default, aten.squeeze.dim"},
    {"batch_norm", "aten.native_batch_norm.default"},
    {"broadcast_to", "aten.expand.default"},
    {"chunk", "aten.split.Tensor"},
    {"column_stack", "aten.cat.default"},
    {"concat", "aten.cat.default"},
    {"concatenate", "aten.cat.default"},
    {"conv1d", "aten.convolution.default"},
    {"conv2d", "aten.convolution.default"},
    {"conv3d", "aten.convolution.default"},
    {"conv_transpose1d", "aten.convolution.default"},
    {"conv_transpose2d", "aten.convolution.default"},
    {"conv_transpose3d", "aten.convolution.default"},
    {"cosine_similarity",
     "aten.linalg_vector_norm.default, aten.clone.default, aten.scalar_tensor.default, "
     "aten.clamp_min_.Tensor, aten.div.Tensor, aten.mul.Tensor, aten.sum.dim_IntList"},
    {"cross", "aten.linalg_cross.default"},
    {"cross_entropy_loss", "aten._log_softmax.default, aten.nll_loss_forward.default"},
    {"det", "aten._linalg_det.default"},
    {"diff", "aten.slice.Tensor, aten.sub.Tensor"},
    {"divide", "aten.div.Tensor"},
    {"dropout", "aten.native_dropout.default"},
    {"dsplit", "aten.slice.Tensor"},
    {"dstack", "aten.unsqueeze.default, aten.cat.default"},
    {"embedding_backward", "aten.embedding_dense_backward.default"},
    {"expand_as", "aten.expand.default"},
    {"fix", "aten.trunc.default"},
    {"flatten", "aten.view.default"},
    {"fliplr", "aten.flip.default"},
    {"flipud", "aten.flip.default"},
    {"gather_backward", "aten.new_zeros.default, aten.scatter_add.default"},
    {"ger", "aten.view.default, aten.mul.Tensor"},
    {"greater", "aten.gt.Tensor"},
    {"greater_equal", "aten.ge.Tensor"},
    {"group_norm", "aten.native_group_norm.default"},
    {"hsplit", "aten.slice.Tensor"},
    {"hstack", "aten.cat.default"},
    {"inner", "aten.permute.default, aten.view.default, aten.mm.default"},
    {"instance_norm", "aten.view.default, aten.native_batch_norm.default"},
    {"kl_div", "aten.mul.Tensor, aten.xlogy.Tensor, aten.sub.Tensor, aten.mean.default"},
    {"kron", "aten._unsafe_view.default, aten.mul.Tensor"},
    {"layer_norm", "aten.native_layer_norm.default"},
    {"less", "aten.lt.Tensor"},
    {"less_equal", "aten.le.Tensor"},
    {"linalg_norm", "aten.linalg_vector_norm.default"},
    {"linalg_vecdot", "aten.mul.Tensor, aten.sum.dim_IntList"},
    {"linear", "aten.t.default, aten.mm.default, aten.addmm.default"},
    {"log_sigmoid", "aten.log_sigmoid_forward.default"},
    {"mT", "aten.transpose.int"},
    {"matmul",
     "aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default, aten.expand.default, "
     "aten.view.default, aten._unsafe_view.default"},
    {"matrix_exp", "aten.linalg_matrix_exp.default"},
    {"max_pool1d",
     "aten.unsqueeze.default, aten.max_pool2d_with_indices.default, aten.squeeze.dim"},
    {"max_pool2d", "aten.max_pool2d_with_indices.default"},
    {"meshgrid", "aten.view.default, aten.expand.default"},
    {"moveaxis", "aten.permute.default"},
    {"movedim", "aten.permute.default"},
    {"msort", "aten.sort.default"},
    {"multiply", "aten.mul.Tensor"},
    {"narrow", "aten.slice.Tensor"},
    {"negative", "aten.neg.default"},
    {"nll_loss", "aten.nll_loss_forward.default"},
    {"nll_loss2d", "aten.nll_loss2d_forward.default"},
    {"nll_loss_nd", "aten.nll_loss_forward.default"},
    {"not_equal", "aten.ne.Tensor"},
    {"numpy_T", "aten.permute.default"},
    {"outer", "aten.view.default, aten.mul.Tensor"},
    {"pad", "aten.constant_pad_nd.default"},
    {"prelu", "aten.view.default, aten._prelu_kernel.default"},
    {"ravel", "aten.view.default"},
    {"repeat_interleave",
     "aten.unsqueeze.default, aten.expand.default, aten.clone.default, aten.view.default"},
    {"reshape_as", "aten.view.default"},
    {"rms_norm", "aten._fused_rms_norm.default"},
    {"row_stack", "aten.cat.default"},
    {"scaled_dot_product_attention",
     "aten._scaled_dot_product_flash_attention.default, "
     "aten._scaled_dot_product_efficient_attention.default, "
     "aten._scaled_dot_product_cudnn_attention.default"},
    {"special_expit", "aten.sigmoid.default"},
    {"special_log_softmax", "aten._log_softmax.default"},
    {"special_logsumexp", "aten.logsumexp.default"},
    {"special_softmax", "aten._softmax.default"},
    {"subtract", "aten.sub.Tensor"},
    {"sum_to_size", "aten.sum.dim_IntList"},
    {"swapaxes", "aten.transpose.int"},
    {"swapdims", "aten.transpose.int"},
    {"take_along_dim", "aten.expand.default, aten.remainder.Scalar, aten.gather.default"},
    {"tensor_split", "aten.slice.Tensor"},
    {"tensordot", "aten.permute.default, aten.view.default, aten.mm.default"},
    {"tile", "aten.repeat.default"},
    {"trace_backward",
     "aten.zeros.default, aten.arange.start_step, aten.index_fill.int_Tensor, aten.view.default"},
    {"type_as", "aten._to_copy.default"},
    {"unflatten", "aten.view.default"},
    {"value_selecting_reduction_backward",
     "aten.unsqueeze.default, aten.new_zeros.default, aten.scatter.src"},
    {"view_as", "aten.view.default"},
    {"vsplit", "aten.slice.Tensor"},
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
