#include "strategies/rules/registered_rows.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/base/index.h"
#include "sim/registered_placement.h"
#include "sim/tensor_spec.h"
#include "strategies/rules/expansion.h"

namespace shardlab {
namespace {

// What a tensor has where the result has the placement `p`; nothing if its local part can't be
// broadcast to the result's.
std::optional<Placement> operand_placement(const Shape& own, const Shape& result,
                                           const Placement& p) {
  const RegisteredPlacement& cut = p.registered();
  const int behind = static_cast<int>(result.size()) - cut.dim() - cut.dims();
  const int missing = static_cast<int>(result.size()) - static_cast<int>(own.size());
  if (static_cast<int>(own.size()) <= behind) return Placement::replicate();
  const bool has_dims =
      missing == 0 && std::equal(own.begin() + cut.dim(), own.begin() + cut.dim() + cut.dims(),
                                 result.begin() + cut.dim());
  if (has_dims) return p;
  const int dim = cut.dim() - missing;
  if (cut.dims() == 1 && (dim < 0 || own[to_index(dim)] == 1)) return Placement::replicate();
  return std::nullopt;
}

// Appends the row whose outputs have the placement `p`, if there is one.
void add_row(const Placement& p, std::span<const TensorMeta> outputs,
             std::span<const TensorSpec* const> tensors, Rows& rows) {
  const Shape& result = outputs.front().shape;
  const RegisteredPlacement& cut = p.registered();
  if (cut.dim() + cut.dims() > static_cast<int>(result.size())) return;
  std::vector<RowEntry> entries;
  for (const TensorMeta& output : outputs) {
    if (output.shape != result) return;
    entries.emplace_back(p);
  }
  for (const TensorSpec* tensor : tensors) {
    const std::optional<Placement> placement = operand_placement(tensor->meta.shape, result, p);
    if (!placement) return;
    entries.emplace_back(*placement);
  }
  rows.emplace_back(entries.begin(), entries.end());
}

}  // namespace

bool has_registered(const OpCall& call) {
  for (const TensorSpec* tensor : call.tensors()) {
    if (tensor->layout.has_registered()) return true;
  }
  return false;
}

OpCall without_registered(const OpCall& call) {
  OpCall plain = call;
  for (TensorArg& arg : plain.inputs) {
    for (TensorSpec& tensor : arg.tensors) {
      for (Placement& p : tensor.layout.placements) {
        if (p.is_registered()) p = Placement::replicate();
      }
    }
  }
  return plain;
}

void expect_registered(const OpCall& call, const DeviceMesh& mesh) {
  for (const TensorSpec* tensor : call.tensors()) {
    expect_registered(tensor->meta, tensor->layout, mesh);
  }
}

Rows registered_rows(const OpRule& rule, const OpCall& call) {
  Rows rows;
  if (!rule.is_pointwise) return rows;
  const auto tensors = call.tensors();
  std::vector<TensorMeta> outputs;
  std::vector<Placement> done;
  for (const TensorSpec* tensor : tensors) {
    for (const Placement& p : tensor->layout.placements) {
      if (!p.is_registered() || !p.registered().entry().passes_pointwise) continue;
      if (std::find(done.begin(), done.end(), p) != done.end()) continue;
      done.push_back(p);
      if (outputs.empty()) outputs = rule.outputs(without_registered(call));
      if (outputs.empty()) return rows;
      add_row(p, outputs, {tensors.data(), tensors.size()}, rows);
    }
  }
  return rows;
}

Rows rows_of_call(const OpRule& rule, const OpCall& call, std::size_t outputs) {
  if (!has_registered(call)) return fill_rows(rule.rows(call, rule), outputs, call);
  const OpCall plain = without_registered(call);
  Rows rows = fill_rows(rule.rows(plain, rule), outputs, plain);
  for (const Row& row : registered_rows(rule, call)) rows.push_back(row);
  return rows;
}

}  // namespace shardlab
