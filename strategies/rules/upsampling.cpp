#include "strategies/rules/upsampling.h"

#include "costmodel/base/error.h"
#include "costmodel/base/json_reader.h"
#include "strategies/rules/tensor_args.h"
#include "strategies/rules/window.h"

namespace shardlab {

Upsampling::Upsampling(const OpCall& call) {
  const std::string_view base = split_op_name(call.op).base;
  spatial = spatial_dims_of(call.op);
  is_backward = base.ends_with("_backward");
  takes_nearest = base.find("nearest") != std::string_view::npos;
  extents = by_spatial_dim(call, {0, spatial, {}, 1});
  std::size_t next = 1;
  if (is_backward) input_shape = required_shape(call, next++);
  aligns_corners = !takes_nearest && call.boolean_arg(next++, false);
  for (std::size_t i = 0; i < spatial; ++i) {
    const bool is_given = call.args.size() > next + i && !call.args[next + i].is_null();
    scales.push_back(is_given ? call.number_arg(next + i, 0.0) : 0.0);
    if (is_given && !(scales.back() > 0.0)) {
      throw InputError(call.op + ": argument " + std::to_string(next + i) + " of --args: found " +
                       describe_json(call.args[next + i]) +
                       "; valid: a scale factor above 0, or null");
    }
  }
}

}  // namespace shardlab
