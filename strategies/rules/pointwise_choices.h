// Rows of the rule set shardlab that a pointwise op's numbers or dtypes decide: 2 * x keeps a
// maximum, -2 * x turns it into a minimum.
//
// Not for ops whose rows hold whatever the numbers are: those are listed (pointwise.h).
#pragma once

#include "strategies/rules/pointwise.h"

namespace shardlab {

// Linear in a tensor, or in both.
[[nodiscard]] Rows added_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows subtracted_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows subtracted_from_rows(const OpCall& call, const OpRule& rule);  // rsub
[[nodiscard]] Rows scaled_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows divided_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows lerp_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows added_product_rows(const OpCall& call, const OpRule& rule);   // addcmul
[[nodiscard]] Rows added_quotient_rows(const OpCall& call, const OpRule& rule);  // addcdiv
// Monotone for some numbers.
[[nodiscard]] Rows power_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows xlogy_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows xlog1py_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows threshold_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows leaky_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows elu_rows(const OpCall& call, const OpRule& rule);
// Of truth values; of numbers none.
[[nodiscard]] Rows any_of_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows all_of_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows negated_rows(const OpCall& call, const OpRule& rule);
// Others.
[[nodiscard]] Rows masked_fill_rows(const OpCall& call, const OpRule& rule);
// Partials that the cast to the dtype that is the first argument commutes with, in PyTorch's order.
[[nodiscard]] Rows cast_rows(const OpCall& call, const OpRule& rule);

[[nodiscard]] Rows logit_rows(const OpCall& call, const OpRule& rule);

// Why rows with partials that the proof finds right are not listed (OpRule::excuse).
[[nodiscard]] std::string_view where_defined(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view of_finite_values(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view but_for_zero(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view of_what_is_overwritten(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view without_drawing(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view for_some_values(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view of_whole_parameters(const OpCall& call, const Row& row);

}  // namespace shardlab
