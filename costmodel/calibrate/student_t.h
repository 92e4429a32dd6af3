// The width of a 95 % interval in standard errors, which grows when the error is estimated from few
// rows.
//
//   half_width = student_t_95(rows - parameters) * standard_error;
//
// Source: Student's t distribution of Boost.Math.
#pragma once

namespace shardlab {

// The 97.5 % quantile of the standard normal distribution: student_t_95 of infinitely many rows.
inline constexpr double kNormal95 = 1.959963984540054;

// The 97.5 % quantile of Student's t distribution: 12.71 at one degree of freedom, 4.30 at two,
// 1.96 in the limit. Fewer than one degree of freedom count as one: without it the rows say nothing
// about their own error.
[[nodiscard]] double student_t_95(double degrees_of_freedom);

}  // namespace shardlab
