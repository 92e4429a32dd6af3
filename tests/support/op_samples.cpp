#include "tests/support/op_samples.h"

#include "sim/fake_group.h"
#include "tests/support/random_source.h"

namespace shardlab::testing_support {

std::vector<OpCall> sample_calls(std::string_view op, int mesh_ndim) {
  std::vector<OpCall> calls;
  for (SampleCall& sample : sample_calls_with_values(op, mesh_ndim)) {
    calls.push_back(std::move(sample.call));
  }
  return calls;
}

std::vector<SampleCall> sample_calls_with_values(std::string_view op, int mesh_ndim) {
  Random random(101);
  std::vector<SampleCall> calls;
  for (const SampleCall& sample : sample_calls_of(op, mesh_ndim)) {
    for (int variant = 0; variant < 6; ++variant) {
      OpCall call = sample.call;
      for (TensorArg& arg : call.inputs) {
        for (TensorSpec& spec : arg.tensors) {
          Placements placements = spec.layout.placements;
          for (Placement& p : placements) {
            const int kind = variant == 0 ? 0 : random.below(5);
            const int rank = spec.meta.ndim();
            if (kind == 1 && rank > 0) p = Placement::shard(random.below(rank));
            const ReduceOp linear = kind == 3 ? ReduceOp::kAvg : ReduceOp::kSum;
            if ((kind == 2 || kind == 3) && reduces(linear, spec.meta.dtype)) {
              p = Placement::partial(linear);
            }
            if (kind == 4 && rank > 0 && variant > 3) {
              p = Placement::strided_shard(random.below(rank), 2);
            }
          }
          spec.layout = Layout(placements);
        }
      }
      calls.push_back({std::move(call), sample.values});
    }
  }
  return calls;
}

}  // namespace shardlab::testing_support
