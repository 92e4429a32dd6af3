#include "strategies/rules/pointwise_choices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "costmodel/base/error.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace {

using namespace partial_rows;
using PartialRows = std::span<const PartialRow>;

std::size_t operands_of(const OpCall& call) { return pointwise_operands(call).size(); }

bool is_fractional(const OpCall& call) {
  const auto tensors = pointwise_operands(call);
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorSpec* tensor) {
    return is_floating_point(tensor->meta.dtype);
  });
}

// Norm partials of the input pass through if the factor is not negative, since 2 * |x|_p = |2 *
// x|_p.
void add_norm_partials(Rows& rows, const OpCall& call) {
  Placements seen;
  for (const Placement& p : call.tensors()[0]->layout.placements) {
    if (p.kind() != Placement::Kind::kNormPartial) continue;
    if (std::find(seen.begin(), seen.end(), p) != seen.end()) continue;
    seen.push_back(p);
    Row row(1 + call.tensors().size(), RowEntry(p));
    rows.push_back(row);
  }
}

// The rows of x times a number.
Rows scaled_by(const OpCall& call, double factor) {
  if (factor < 0.0) return pointwise_rows(call, PartialRows(kNegation));
  Rows rows = pointwise_rows(call, PartialRows(kPreserveUnary));
  add_norm_partials(rows, call);
  return rows;
}

Rows monotone(const OpCall& call, bool non_decreasing, bool non_increasing) {
  if (non_decreasing) return pointwise_rows(call, PartialRows(kNonDecreasing));
  if (non_increasing) return pointwise_rows(call, PartialRows(kNonIncreasing));
  return pointwise_rows(call, PartialRows());
}

}  // namespace

Rows added_rows(const OpCall& call, const OpRule&) {
  if (operands_of(call) == 1) return pointwise_rows(call, PartialRows(kShifted));
  const bool falls = call.number_arg(0, 1.0) < 0.0;
  return pointwise_rows(call, falls ? PartialRows(kDifference) : PartialRows(kSumOfTwo));
}

Rows subtracted_rows(const OpCall& call, const OpRule&) {
  if (operands_of(call) == 1) return pointwise_rows(call, PartialRows(kShifted));
  const bool falls = call.number_arg(0, 1.0) >= 0.0;
  return pointwise_rows(call, falls ? PartialRows(kDifference) : PartialRows(kSumOfTwo));
}

Rows subtracted_from_rows(const OpCall& call, const OpRule&) {
  const bool falls = call.number_arg(1, 1.0) >= 0.0;
  return pointwise_rows(call, falls ? PartialRows(kReflected) : PartialRows(kShifted));
}

Rows scaled_rows(const OpCall& call, const OpRule&) {
  if (operands_of(call) > 1) return pointwise_rows(call, PartialRows(kMultiplicative));
  return scaled_by(call, call.number_arg(0, 1.0));
}

// A quotient that is rounded keeps the order of its operands but not their sums.
Rows divided_rows(const OpCall& call, const OpRule&) {
  const bool two = operands_of(call) > 1;
  const bool rounds =
      call.op.find("_mode") != std::string::npos && !call.text_arg(two ? 0 : 1, "").empty();
  if (two) return pointwise_rows(call, rounds ? PartialRows() : PartialRows(kDivision));
  const double divisor = call.number_arg(0, 1.0);
  if (rounds) return monotone(call, divisor > 0.0, divisor < 0.0);
  if (divisor == 0.0) return pointwise_rows(call, PartialRows());
  return scaled_by(call, divisor);
}

Rows lerp_rows(const OpCall& call, const OpRule&) {
  if (operands_of(call) == 2) {
    const double weight = call.number_arg(0, 0.0);
    if (weight < 0.0) {
      constexpr PartialRow kPast[] = {{{kSum, kSum, kSum}, 3}, {{kAvg, kAvg, kAvg}, 3},
                                      {{kAvg, kAvg, kR}, 3},   {{kAvg, kR, kAvg}, 3},
                                      {{kMax, kMax, kR}, 3},   {{kMin, kMin, kR}, 3},
                                      {{kMin, kR, kMax}, 3},   {{kMax, kR, kMin}, 3}};
      return pointwise_rows(call, PartialRows(kPast));
    }
    if (weight > 1.0) {
      constexpr PartialRow kBeyond[] = {{{kSum, kSum, kSum}, 3}, {{kAvg, kAvg, kAvg}, 3},
                                        {{kAvg, kAvg, kR}, 3},   {{kAvg, kR, kAvg}, 3},
                                        {{kMin, kMax, kR}, 3},   {{kMax, kMin, kR}, 3},
                                        {{kMax, kR, kMax}, 3},   {{kMin, kR, kMin}, 3}};
      return pointwise_rows(call, PartialRows(kBeyond));
    }
    return pointwise_rows(call, PartialRows(kSumOfTwo));
  }
  constexpr PartialRow kRows[] = {{{kSum, kSum, kSum, kR}, 4},
                                  {{kAvg, kAvg, kAvg, kR}, 4},
                                  {{kAvg, kAvg, kR, kR}, 4},
                                  {{kAvg, kR, kAvg, kR}, 4},
                                  {{kAvg, kR, kR, kAvg}, 4}};
  return pointwise_rows(call, PartialRows(kRows));
}

Rows added_product_rows(const OpCall& call, const OpRule&) {
  constexpr PartialRow kRows[] = {
      {{kSum, kSum, kSum, kR}, 4}, {{kSum, kSum, kR, kSum}, 4}, {{kAvg, kAvg, kAvg, kR}, 4},
      {{kAvg, kAvg, kR, kAvg}, 4}, {{kAvg, kAvg, kR, kR}, 4},   {{kAvg, kR, kAvg, kR}, 4},
      {{kAvg, kR, kR, kAvg}, 4},   {{kMax, kMax, kR, kR}, 4},   {{kMin, kMin, kR, kR}, 4}};
  return pointwise_rows(call, PartialRows(kRows));
}

Rows added_quotient_rows(const OpCall& call, const OpRule&) {
  constexpr PartialRow kRows[] = {{{kSum, kSum, kSum, kR}, 4}, {{kAvg, kAvg, kAvg, kR}, 4},
                                  {{kAvg, kAvg, kR, kR}, 4},   {{kAvg, kR, kAvg, kR}, 4},
                                  {{kMax, kMax, kR, kR}, 4},   {{kMin, kMin, kR, kR}, 4}};
  return pointwise_rows(call, PartialRows(kRows));
}

// base ** x is monotone for a positive base, and x ** n for an odd n.
Rows power_rows(const OpCall& call, const OpRule&) {
  if (operands_of(call) > 1) return pointwise_rows(call, PartialRows());
  const bool of_number = (call.op.find("pow.Scalar") != std::string::npos ||
                          call.op.find("power.Scalar") != std::string::npos) &&
                         call.op.find("_foreach_pow.Scalar") == std::string::npos;
  const double number = call.number_arg(0, 0.0);
  if (of_number || call.op.ends_with("ScalarAndTensor")) {
    if (!is_fractional(call)) return pointwise_rows(call, PartialRows());
    return monotone(call, number >= 1.0, number > 0.0);
  }
  if (number != std::floor(number)) {  // defined for positive numbers only
    return pointwise_rows(call, number > 0.0 ? PartialRows(kRisingWhereDefined)
                                             : PartialRows(kDecreasingWherePositive));
  }
  if (number == 1.0) return pointwise_rows(call, PartialRows(kPreserveUnary));
  if (number == 0.0) return pointwise_rows(call, PartialRows(kShifted));
  return monotone(call, number > 0.0 && std::fmod(number, 2.0) == 1.0, false);
}

Rows xlogy_rows(const OpCall& call, const OpRule&) {
  const bool by_number = call.op.find("Scalar_Other") != std::string::npos;
  const double number = by_number ? call.number_arg(0, 0.0) : 0.0;
  if (!(number > 0.0)) return pointwise_rows(call, PartialRows());
  return scaled_by(call, std::log(number));
}

Rows xlog1py_rows(const OpCall& call, const OpRule&) {
  const bool by_number = call.op.find("other_scalar") != std::string::npos;
  const double number = by_number ? call.number_arg(0, -1.0) : -1.0;
  if (!(number > -1.0)) return pointwise_rows(call, PartialRows());
  return scaled_by(call, std::log1p(number));
}

Rows threshold_rows(const OpCall& call, const OpRule&) {
  return monotone(call, call.number_arg(1, 0.0) <= call.number_arg(0, 0.0), false);
}

Rows leaky_rows(const OpCall& call, const OpRule&) {
  return monotone(call, call.number_arg(0, 0.01) >= 0.0, false);
}

Rows elu_rows(const OpCall& call, const OpRule&) {
  bool rises = true;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    rises = rises && call.number_arg(i, 1.0) >= 0.0;
  }
  return monotone(call, rises, false);
}

namespace {

bool is_truth(const OpCall& call) {
  const auto tensors = pointwise_operands(call);
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorSpec* tensor) { return tensor->meta.dtype == DType::kB8; });
}

}  // namespace

Rows any_of_rows(const OpCall& call, const OpRule&) {
  return pointwise_rows(call, is_truth(call) ? PartialRows(kMaxPreserving) : PartialRows());
}
Rows all_of_rows(const OpCall& call, const OpRule&) {
  return pointwise_rows(call, is_truth(call) ? PartialRows(kMinPreserving) : PartialRows());
}
Rows negated_rows(const OpCall& call, const OpRule&) {
  return monotone(call, false, is_truth(call));
}

// Every rank fills in the same value, so a sum stays right only if that value is 0.
Rows masked_fill_rows(const OpCall& call, const OpRule&) {
  constexpr PartialRow kZero[] = {
      {{kSum, kSum, kR}, 3}, {{kAvg, kAvg, kR}, 3}, {{kMax, kMax, kR}, 3}, {{kMin, kMin, kR}, 3}};
  const bool zero = call.number_arg(0, 0.0) == 0.0;
  return pointwise_rows(call, PartialRows(kZero).subspan(zero ? 0 : 1));
}

Rows cast_rows(const OpCall& call, const OpRule&) {
  const DType from = call.required_tensor(0).meta.dtype;
  const DType to = named_dtype(call, 0, from);
  std::vector<PartialRow> rows;
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    const bool ordered = op == ReduceOp::kMin || op == ReduceOp::kMax;
    const bool truncates = is_floating_point(from) && !is_floating_point(to);
    if (from != to && (to == DType::kB8 || (!ordered && truncates))) continue;
    const Placement partial = Placement::partial(op);
    rows.push_back({{partial, partial}, 2});
  }
  return pointwise_rows(call, PartialRows(rows));
}

// The function rises between eps and 1 - eps and is constant outside. Without eps it is undefined
// outside of 0 to 1.
Rows logit_rows(const OpCall& call, const OpRule&) {
  const double eps = call.number_arg(0, 0.0);
  return monotone(call, eps > 0.0 && eps <= 0.5, false);
}

namespace {

std::string_view if_partial(const Row& row, std::string_view reason) {
  const bool partial = std::any_of(
      row.begin(), row.end(), [](const RowEntry& entry) { return entry.placement().is_partial(); });
  return partial ? reason : std::string_view();
}

}  // namespace

std::string_view where_defined(const OpCall&, const Row& row) {
  return if_partial(row,
                    "the op may be undefined for a rank's contribution even where it is defined "
                    "for the whole value");
}
std::string_view of_finite_values(const OpCall&, const Row& row) {
  return if_partial(
      row,
      "the row holds only for finite values, but the op exists to find values that are not finite");
}
std::string_view but_for_zero(const OpCall&, const Row& row) {
  return if_partial(row, "a maximum or minimum does not keep the sign of a zero");
}
std::string_view of_what_is_overwritten(const OpCall&, const Row& row) {
  return if_partial(
      row, "the op overwrites the first tensor without reading it, so that need not be partial");
}
std::string_view without_drawing(const OpCall&, const Row& row) {
  return if_partial(row, "the row holds only outside training, where no random numbers are drawn");
}
std::string_view for_some_values(const OpCall&, const Row& row) {
  return if_partial(row, "the row holds only for some values of the tensors or numbers");
}
std::string_view of_whole_parameters(const OpCall&, const Row& row) {
  return if_partial(row, "optimizers keep parameters and moments whole or in shards");
}

}  // namespace shardlab
