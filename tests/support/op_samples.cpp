#include "tests/support/op_samples.h"

#include <map>
#include <string>

#include "strategies/op_rule.h"
#include "tests/support/random_source.h"

namespace shardlab::testing_support {
namespace {

// Shapes of a call: one tensor list, or tensors.
struct Sample {
  std::vector<std::string> tensors;
  bool is_list = false;
  std::string args = "[]";
};

const std::map<std::string, std::vector<Sample>> kSamples = {
    {"aten.mm.default", {{{"f32[8,4]", "f32[4,16]"}}}},
    {"aten.bmm.default", {{{"f32[4,8,4]", "f32[4,4,8]"}}}},
    {"aten.mv.default", {{{"f32[8,4]", "f32[4]"}}}},
    {"aten.dot.default", {{{"f32[8]", "f32[8]"}}}},
    {"aten.addmm.default",
     {{{"f32[16]", "f32[8,4]", "f32[4,16]"}}, {{"f32[8,1]", "f32[8,4]", "f32[4,16]"}}}},
    {"aten.baddbmm.default",
     {{{"f32[4,8,8]", "f32[4,8,4]", "f32[4,4,8]"}}, {{"f32[8]", "f32[4,8,4]", "f32[4,4,8]"}}}},
    {"aten.einsum.default",
     {{{"f32[4,8,4]", "f32[4,16]"}, false, R"(["bsk,kn->bsn"])"},
      {{"f32[4,8]"}, false, R"(["ij->ji"])"}}},
    {"aten.cat.default",
     {{{"f32[4,8]", "f32[4,8]"}, true, "[0]"}, {{"f32[4,8,2]", "f32[4,4,2]"}, true, "[-2]"}}},
    {"aten.stack.default",
     {{{"f32[4,8]", "f32[4,8]"}, true, "[0]"}, {{"f32[4,8]", "f32[4,8]"}, true, "[-1]"}}},
};

std::vector<Sample> samples_of(std::string_view op) {
  const std::string name(op);
  if (const auto it = kSamples.find(name); it != kSamples.end()) return it->second;
  if (name.find("softmax") != std::string::npos) {
    return {{{"f32[4,8,4]"}, false, "[1, false]"}, {{"f32[4,8,4]"}, false, "[-1, false]"}};
  }
  for (const char* reduction :
       {".amax", ".amin", ".max.", ".min.", ".mean", ".sum", ".prod", ".nansum"}) {
    if (name.find(reduction) != std::string::npos) {
      return {{{"f32[4,8,4]"}, false, "[]"},
              {{"f32[4,8,4]"}, false, "[[1]]"},
              {{"f32[4,8,4]"}, false, "[[-1, 0], true]"}};
    }
  }
  // Pointwise: one, two or three operands (with another rank), the out tensor last.
  if (name.ends_with("out")) {
    return {{{"f32[4,8]", "f32[4,8]", "f32[4,8]"}}, {{"f32[4,8]", "f32[4,8]"}}};
  }
  if (OpRule{.op = op}.is_in_place()) return {{{"f32[4,8]"}}, {{"f32[4,8]", "f32[8]"}}};
  return {{{"f32[4,8]"}},
          {{"f32[]"}},
          {{"f32[4,8]", "f32[8]"}},
          {{"f32[4,1]", "f32[4,8]"}},
          {{"f32[4,8]", "f32[1,8]", "f32[4,8]"}}};
}

}  // namespace

std::vector<OpCall> sample_calls(std::string_view op, int mesh_ndim) {
  Random random(101);
  std::vector<OpCall> calls;
  for (const Sample& sample : samples_of(op)) {
    for (int variant = 0; variant < 6; ++variant) {
      OpCall call{.op = std::string(op), .inputs = {}, .args = nlohmann::json::parse(sample.args)};
      TensorArg list{.tensors = {}, .is_list = true};
      for (const std::string& text : sample.tensors) {
        TensorSpec spec{TensorMeta::parse(text), Layout::replicated(mesh_ndim)};
        Placements placements = spec.layout.placements;
        for (Placement& p : placements) {
          const int kind = variant == 0 ? 0 : random.below(5);
          const int rank = spec.meta.ndim();
          if (kind == 1 && rank > 0) p = Placement::shard(random.below(rank));
          if (kind == 2) p = Placement::partial(ReduceOp::kSum);
          if (kind == 3) p = Placement::partial(ReduceOp::kAvg);
          if (kind == 4 && rank > 0 && variant > 3) {
            p = Placement::strided_shard(random.below(rank), 2);
          }
        }
        spec.layout = Layout(placements);
        (sample.is_list ? list : call.inputs.emplace_back()).tensors.push_back(spec);
      }
      if (sample.is_list) call.inputs.push_back(list);
      calls.push_back(call);
    }
  }
  return calls;
}

}  // namespace shardlab::testing_support
