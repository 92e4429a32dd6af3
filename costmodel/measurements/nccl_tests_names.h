// nccl-tests' names and figures in our words: dtypes, collectives, versions, and what its columns say
// about wrong results.
//
//   our_dtype("bfloat16")                       "bf16"
//   collective_within("all_reduce_2x8.txt")     all_reduce
//
// Source: NVIDIA/nccl-tests, src/common.cu (test_typenames, deltaMaxValue); nccl.h (NCCL_VERSION).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/collective.h"

namespace shardlab {

// "" for a type that nccl-tests does not have.
[[nodiscard]] std::string_view our_dtype(std::string_view theirs);
[[nodiscard]] std::string dtype_list();  // nccl-tests' own names
[[nodiscard]] std::int64_t itemsize_of(std::string_view ours);

// A collective in a longer text, such as a file's name.
[[nodiscard]] std::optional<Collective> collective_within(std::string_view text);

// "2.29.3" of NCCL_VERSION_CODE: two digits a part since 2.9, one for the minor version before.
[[nodiscard]] std::string version_of_code(std::int64_t code);

[[nodiscard]] std::string in_quotes(std::string_view text);  // "abc...", short and on one line
[[nodiscard]] bool is_not_available(std::string_view text);  // "N/A", "nan"

// What is wrong with a time (us) out of place: absent, or not above zero. "" when nothing is.
[[nodiscard]] std::string time_reason(const std::optional<double>& time_us);
// In place: absent or 0 where the tool measures none; wrong below.
[[nodiscard]] std::string in_place_time_reason(const std::optional<double>& time_us);

// What a verification column says: a count of wrong elements, or, before 2.13, the largest relative
// error, of which nccl-tests accepts some. "" when results are right.
[[nodiscard]] std::string wrong_reason(double value, std::string_view dtype);

// Columns that contradict each other come from two lines in one, or were retyped. The bandwidth is
// printed with two digits behind the point, later fewer. "" when they agree.
[[nodiscard]] std::string contradiction(double bytes, double time_us, double algbw);

}  // namespace shardlab
