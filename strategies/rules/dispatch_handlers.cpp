#include "strategies/rules/dispatch_handlers.h"

#include "strategies/rules/op_call.h"

namespace shardlab {

std::string dispatch_note(std::string_view op, bool moves) {
  const std::string_view base = split_op_name(op).base;
  const std::string begin = "PyTorch dispatches " + std::string(op) + " to ";
  if (base == "convolution" && moves) {
    return begin +
           "convolution_handler (_tp_conv.py), which runs on the shards as they are: it makes none "
           "of the moves that the strategy asks for, so that its result is wrong or an error";
  }
  if (base == "convolution_backward") {
    return begin +
           "convolution_backward_handler (_tp_conv.py), which moves the gradient to the input's "
           "layout, whatever the strategy asks for, and no other tensor";
  }
  if ((base == "argmax" || base == "argmin") && moves) {
    return begin +
           "argminmax_handler (_nonlinear_redux.py), which gathers the best value and its index of "
           "each rank in place of the input, so that less is moved than the strategy's price says";
  }
  return "";
}

}  // namespace shardlab
