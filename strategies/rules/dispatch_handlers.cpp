#include "strategies/rules/dispatch_handlers.h"

namespace shardlab {

std::string dispatch_note(std::string_view op, bool moves) {
  const std::string begin = "PyTorch dispatches " + std::string(op) + " to ";
  if (op == "aten.convolution.default" && moves) {
    return begin +
           "convolution_handler (_tp_conv.py), which runs on the shards as they are: it makes none "
           "of the moves that the strategy asks for, so that its result is wrong or an error";
  }
  if (op == "aten.convolution_backward.default") {
    return begin +
           "convolution_backward_handler (_tp_conv.py), which moves the gradient to the input's "
           "layout, whatever the strategy asks for, and no other tensor";
  }
  if ((op == "aten.argmax.default" || op == "aten.argmin.default") && moves) {
    return begin +
           "argminmax_handler (_nonlinear_redux.py), which gathers the best value and its index of "
           "each rank in place of the input, so that less is moved than the strategy's price says";
  }
  return "";
}

}  // namespace shardlab
