#include "strategies/proof/choice_proof.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "costmodel/base/error.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/proof/op_sample.h"
#include "strategies/proof/rule_proof.h"
#include "strategies/proof/sample_execution.h"

namespace shardlab {
namespace {

constexpr std::int64_t kRanks = 2;
constexpr std::int64_t kLargestKept = 8;

// The small extents that stand for those of a call. What the ranks of a mesh dim divide evenly, the
// ranks of the proof do, too.
class SmallExtents {
 public:
  SmallExtents(const OpCall& call, std::int64_t mesh_size) {
    std::set<std::int64_t> large;
    for (const TensorSpec* tensor : call.tensors()) {
      for (const std::int64_t extent : tensor->meta.shape) {
        if (extent > kLargestKept) large.insert(extent);
      }
    }
    std::int64_t even = kLargestKept + 2;
    std::int64_t odd = kLargestKept + 1;
    for (const std::int64_t extent : large) {
      std::int64_t& next = extent % mesh_size == 0 ? even : odd;
      small_[extent] = std::exchange(next, next + kRanks);
    }
  }

  [[nodiscard]] std::int64_t of(std::int64_t extent) const {
    const auto found = small_.find(extent);
    return found == small_.end() ? extent : found->second;
  }
  // Whether a number, or one in a list, may stand for one of the extents that change.
  [[nodiscard]] bool are_named_by(const nlohmann::json& argument) const {
    if (argument.is_array()) {
      return std::ranges::any_of(argument, [&](const auto& one) { return are_named_by(one); });
    }
    return argument.is_number_integer() && argument.get<std::int64_t>() > kLargestKept;
  }

 private:
  std::map<std::int64_t, std::int64_t> small_;
};

// Which values the tensors have in the op's own sample calls. Nothing if they are indices.
std::optional<std::vector<SampleCall::Values>> values_for(const OpCall& call) {
  const std::size_t tensors = call.tensors().size();
  for (const SampleCall& sample : sample_calls_of(call.op, 1)) {
    if (sample.values.size() != tensors) continue;
    const bool has_indices = std::ranges::any_of(sample.values, [](const auto& values) {
      return values.kind == SampleValues::kBelow || values.kind == SampleValues::kUnique;
    });
    if (has_indices) return std::nullopt;
    return sample.values;
  }
  return std::vector<SampleCall::Values>(tensors);
}

// The call on small replicated tensors; nothing if it cannot be made small.
std::optional<SampleCall> small_call(const OpCall& call, const SmallExtents& extents) {
  if (extents.are_named_by(call.args)) return std::nullopt;
  auto values = values_for(call);
  if (!values) return std::nullopt;
  SampleCall sample{.call = call, .values = *std::move(values)};
  for (TensorArg& argument : sample.call.inputs) {
    for (TensorSpec& tensor : argument.tensors) {
      for (std::int64_t& extent : tensor.meta.shape) extent = extents.of(extent);
      tensor.meta.strides.clear();
      tensor.layout = Layout(Placements(1, Placement::replicate()));
    }
  }
  return sample;
}

bool is_plain(const Placement& p) {
  return p.is_replicate() || p.is_shard() || p.kind() == Placement::Kind::kPartial;
}

// The placements of one mesh dim; nothing if one of them cannot be proved.
std::optional<Combination> on_mesh_dim(const std::vector<Placements>& all, int mesh_dim) {
  Combination row;
  for (const Placements& placements : all) {
    row.push_back(placements[static_cast<std::size_t>(mesh_dim)]);
    if (!is_plain(row.back())) return std::nullopt;
  }
  return row;
}

// Whether the shards of the small tensors are as even as those of the call.
bool are_as_even(const OpCall& call, const Combination& inputs, std::int64_t mesh_size,
                 const SmallExtents& extents) {
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!inputs[i].is_shard()) continue;
    const std::int64_t extent = tensors[i]->meta.shape[static_cast<std::size_t>(inputs[i].dim())];
    if ((extent % mesh_size == 0) != (extents.of(extent) % kRanks == 0)) return false;
  }
  return true;
}

std::string row_fault(SampleExecution& execution, const Combination& inputs,
                      const Combination& outputs) {
  if (outputs.size() != execution.outputs().size()) return "";
  const auto replicated = [](const Combination& row) {
    return Combination(row.size(), Placement::replicate());
  };
  // A kernel that is not right on replicated tensors proves nothing.
  if (!execution.fault(replicated(inputs), replicated(outputs)).empty()) return "";
  const std::string fault = execution.fault(inputs, outputs);
  if (fault.empty()) return "";
  return row_text(outputs, inputs) + ": " + execution.text() + " on " + std::to_string(kRanks) +
         " ranks: " + fault;
}

}  // namespace

std::string fault_of_choice(const OpCall& call, const DeviceMesh& mesh,
                            const std::vector<Placements>& inputs,
                            const std::vector<Placements>& outputs) {
  if (find_op_kernel(call.op) == nullptr || inputs.size() != call.tensors().size()) return "";
  for (int m = 0; m < mesh.ndim(); ++m) {
    const SmallExtents extents(call, mesh.size(m));
    const std::optional<SampleCall> sample = small_call(call, extents);
    const std::optional<Combination> in = on_mesh_dim(inputs, m);
    const std::optional<Combination> out = on_mesh_dim(outputs, m);
    if (!sample || !in || !out || !are_as_even(call, *in, mesh.size(m), extents)) continue;
    try {
      SampleExecution execution(*sample, kRanks, RuleProofOptions().data_sets);
      const std::string fault = row_fault(execution, *in, *out);
      if (!fault.empty()) return "mesh dim " + std::to_string(m) + ", " + fault;
    } catch (const InputError&) {  // the kernel refuses the small call
    }
  }
  return "";
}

}  // namespace shardlab
