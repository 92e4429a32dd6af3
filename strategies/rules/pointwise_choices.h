// Rows of pointwise ops in the rule set shardlab that depend on the call's numbers or dtypes: 2 * x
// keeps a maximum, -2 * x turns it into a minimum.
//
// Ops whose rows hold for all numbers are listed in families/pointwise.cpp instead.
#pragma once

#include "strategies/rules/pointwise.h"

namespace shardlab {

// Ops that are linear in one tensor, or in both.
[[nodiscard]] Rows added_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows subtracted_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows subtracted_from_rows(const OpCall& call, const OpRule& rule);  // rsub
[[nodiscard]] Rows scaled_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows divided_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows lerp_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows added_product_rows(const OpCall& call, const OpRule& rule);   // addcmul
[[nodiscard]] Rows added_quotient_rows(const OpCall& call, const OpRule& rule);  // addcdiv
// Ops that are monotone for some numbers.
[[nodiscard]] Rows power_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows xlogy_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows xlog1py_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows threshold_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows leaky_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows elu_rows(const OpCall& call, const OpRule& rule);
// Ops on truth values. Only boolean inputs have these partial rows; numbers have none.
[[nodiscard]] Rows any_of_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows all_of_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows negated_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows logit_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows masked_fill_rows(const OpCall& call, const OpRule& rule);
// The partials that may be cast before they are reduced, in PyTorch's order. The first argument
// names the dtype of the result.
[[nodiscard]] Rows cast_rows(const OpCall& call, const OpRule& rule);

// Excuses (OpRule::excuse): why rows with partials are not listed although the proof finds them
// right.
[[nodiscard]] std::string_view where_defined(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view of_finite_values(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view but_for_zero(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view of_what_is_overwritten(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view without_drawing(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view for_some_values(const OpCall& call, const Row& row);
[[nodiscard]] std::string_view of_whole_parameters(const OpCall& call, const Row& row);

}  // namespace shardlab
