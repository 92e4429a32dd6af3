#include "strategies/proof/output_judge.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "costmodel/base/text.h"
#include "sim/partial_values.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

// The flat index in the whole tensor of the element that has index `local` on a rank.
std::size_t index_in_whole(const RowLists& rows, const Shape& whole_shape, std::size_t local) {
  std::size_t whole = 0;
  std::size_t stride = 1;
  for (std::size_t d = rows.size(); d-- > 0;) {
    const std::size_t extent = rows[d].size();
    whole += static_cast<std::size_t>(rows[d][local % extent]) * stride;
    local /= extent;
    stride *= static_cast<std::size_t>(whole_shape[d]);
  }
  return whole;
}

}  // namespace

OutputJudge::OutputJudge(const DeviceMesh& mesh, const WholeOutput& expected,
                         std::span<const LocalResult> results, std::size_t output)
    : mesh_(mesh), expected_(expected) {
  for (const LocalResult& result : results) {
    shapes_.push_back(result.outputs[output].shape());
    locals_.push_back(as_doubles(result.outputs[output]));
    if (result.mask.data() != nullptr) masks_.push_back(as_doubles(result.mask));
  }
}

std::string OutputJudge::verdict(const Placement& p) const {
  const std::optional<Fault> found = fault(p);
  if (!found) return "";
  const auto expected = [&] { return ", expected " + format_double(found->wanted); };
  switch (found->kind) {
    case Fault::Kind::kShape:
      return wrong_shape(found->rank, found->shape);
    case Fault::Kind::kNoMask:
      return "found no mask of the lookup; expected one on every rank";
    case Fault::Kind::kReduction:
      return "element " + std::to_string(found->element) + ": reduces to " +
             format_double(found->found) + expected();
    case Fault::Kind::kElement:
      break;
  }
  return "rank " + std::to_string(found->rank) + ", element " + std::to_string(found->element) +
         ": found " + format_double(found->found) + expected();
}

std::optional<OutputJudge::Fault> OutputJudge::fault(const Placement& p) const {
  if (p.is_partial()) return reduced_fault(p);
  const Layout layout(Placements(1, p));
  for (std::size_t r = 0; r < locals_.size(); ++r) {
    const Coordinate coordinate(1, static_cast<std::int64_t>(r));
    const Shape shape = local_shape(expected_.meta.shape, layout, mesh_, coordinate);
    if (shape != shapes_[r]) return Fault{.kind = Fault::Kind::kShape, .rank = r, .shape = shape};
    const Shape viewed = viewed_shape(expected_.meta.shape, layout.placements);
    const RowLists rows =
        p.is_replicate() ? RowLists() : rows_of(expected_.meta, layout, mesh_, coordinate);
    for (std::size_t i = 0; i < locals_[r].size(); ++i) {
      const std::size_t whole = p.is_replicate() ? i : index_in_whole(rows, viewed, i);
      const double want = expected_.values[whole];
      if (!is_close(locals_[r][i], want, std::abs(want))) {
        return Fault{.kind = Fault::Kind::kElement,
                     .rank = r,
                     .element = whole,
                     .found = locals_[r][i],
                     .wanted = want};
      }
    }
  }
  return std::nullopt;
}

std::string OutputJudge::wrong_shape(std::size_t rank, const Shape& wanted) const {
  const auto text = [&](const Shape& shape) {
    return TensorMeta{.dtype = expected_.meta.dtype, .shape = shape, .strides = {}}.text();
  };
  return "rank " + std::to_string(rank) + ": found " + text(shapes_[rank]) + ", expected " +
         text(wanted);
}

std::optional<OutputJudge::Fault> OutputJudge::reduced_fault(const Placement& p) const {
  for (std::size_t r = 0; r < locals_.size(); ++r) {
    if (shapes_[r] != expected_.meta.shape) {
      return Fault{.kind = Fault::Kind::kShape, .rank = r, .shape = expected_.meta.shape};
    }
  }
  if (p.kind() == Placement::Kind::kMaskPartial && masks_.size() != locals_.size()) {
    return Fault{.kind = Fault::Kind::kNoMask};
  }
  for (std::size_t i = 0; i < expected_.values.size(); ++i) {
    double magnitude = 0.0;
    const double found = reduced(p, i, magnitude);
    const double want = expected_.values[i];
    if (!is_close(found, want, std::max(magnitude, std::abs(want)))) {
      return Fault{.kind = Fault::Kind::kReduction, .element = i, .found = found, .wanted = want};
    }
  }
  return std::nullopt;
}

double OutputJudge::reduced(const Placement& p, std::size_t i, double& magnitude) const {
  const auto ranks = static_cast<double>(locals_.size());
  std::optional<double> total;
  for (std::size_t r = 0; r < locals_.size(); ++r) {
    double x = locals_[r][i];
    if (p.kind() == Placement::Kind::kMaskPartial) {
      const Doubles& mask = masks_[r];
      if (!mask.empty() && mask[i * mask.size() / locals_[r].size()] != 0.0) x = 0.0;
    }
    if (p.kind() == Placement::Kind::kNormPartial) x = std::pow(std::abs(x), p.norm());
    if (std::isfinite(x)) magnitude += std::abs(x);
    total = total ? joined(p.reduce_op(), *total, x) : x;
  }
  if (p.kind() == Placement::Kind::kNormPartial) {
    // The power and the root round as well, which the factor 4 allows for.
    magnitude = std::pow(magnitude, 1.0 / p.norm()) * 4.0;
    return std::pow(*total, 1.0 / p.norm());
  }
  return p.reduce_op() == ReduceOp::kAvg ? *total / ranks : *total;
}

double OutputJudge::joined(ReduceOp op, double a, double b) const {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (expected_.meta.dtype == DType::kB8 && op == ReduceOp::kSum) op = ReduceOp::kMax;
  switch (op) {
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

bool OutputJudge::is_close(double found, double want, double magnitude) const {
  if (found == want || (std::isnan(found) && std::isnan(want))) return true;
  if (!std::isfinite(found) || !std::isfinite(want)) return false;
  const DType dtype = expected_.meta.dtype;
  if (!is_floating_point(dtype)) return false;
  const double n = static_cast<double>(locals_.size()) + 2.0;
  return std::abs(found - want) <= n * (unit_roundoff(dtype) * magnitude + underflow_error(dtype));
}

}  // namespace shardlab
