#include "strategies/rules/output_mask.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "costmodel/base/error.h"
#include "strategies/rules/op_schemas.h"

namespace shardlab {
namespace {

// Attention's backward reads the last boolean of its mask alone.
constexpr std::string_view kMask = "output_mask";
constexpr std::string_view kMaskOfAttention = "grad_input_mask";

// An argument that a call may lack, and which result is its gradient.
struct Optional {
  std::string_view name;
  std::size_t result;
};
constexpr std::array<Optional, 4> kOptionals = {
    {{"weight", 1}, {"bias", 2}, {"bias_sizes", 2}, {"attn_bias", 3}}};

// Where autograd calls the op, the extents of a bias that is not given are [0].
bool lists_extents(const nlohmann::json& arg) {
  return arg.is_array() && !arg.empty() && arg != nlohmann::json::array({0});
}

std::size_t count_of(const std::vector<bool>& returned) {
  return static_cast<std::size_t>(std::count(returned.begin(), returned.end(), true));
}

}  // namespace

std::vector<bool> returned_results(const OpCall& call, std::size_t outputs) {
  const std::optional<OpSchema> schema = find_op_schema(call.op);
  if (!schema || outputs >= schema->results) return {};
  std::vector<bool> asked(schema->results, true);
  std::vector<bool> given(schema->results, true);
  bool is_masked = false;
  std::size_t tensors = 0;
  std::size_t others = 0;
  for (const SchemaArgument& argument : schema->arguments) {
    const bool is_tensor = argument.is_tensor();
    const std::size_t i = is_tensor ? tensors++ : others++;
    const auto* const optional =
        std::find_if(kOptionals.begin(), kOptionals.end(),
                     [&](const Optional& each) { return each.name == argument.name; });
    if (optional != kOptionals.end() && optional->result < given.size()) {
      given[optional->result] = is_tensor ? i < call.inputs.size() && !call.inputs[i].is_absent()
                                          : i < call.args.size() && lists_extents(call.args[i]);
    }
    if (argument.name != kMask && argument.name != kMaskOfAttention) continue;
    is_masked = true;
    if (i >= call.args.size() || !call.args[i].is_array()) continue;
    const nlohmann::json& mask = call.args[i];
    const std::size_t first = argument.name == kMaskOfAttention ? asked.size() - 1 : 0;
    for (std::size_t r = first; r < std::min(asked.size(), mask.size()); ++r) {
      asked[r] = mask[r] != false;
    }
  }
  if (!is_masked) return {};
  // Some ops return what is asked for, others that of what is given: a batch norm returns the
  // gradient of a weight that it does not have, and a layer norm does not.
  if (count_of(asked) == outputs) return asked;
  for (std::size_t r = 0; r < asked.size(); ++r) asked[r] = asked[r] && given[r];
  return count_of(asked) == outputs ? asked : std::vector<bool>();
}

void refuse_mixed_none(const OpCall& call, const DeviceMesh& mesh, std::size_t position,
                       const std::string& found, const std::string& valid) {
  throw InputError(call.op + ": found " + found + " on the mesh " + mesh.text() +
                   "; valid: " + valid + "; PyTorch since 2.14 says that strategy position " +
                   std::to_string(position) + " mixes None with placements across mesh dims");
}

}  // namespace shardlab
