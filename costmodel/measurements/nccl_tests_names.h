// The names and figures of nccl-tests in our terms: dtypes, collectives, versions, and what its
// columns say about wrong results.
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

// Our name for a type of nccl-tests; "" for a type that it does not have.
[[nodiscard]] std::string_view our_dtype(std::string_view theirs);
[[nodiscard]] std::string dtype_list();                         // nccl-tests' own names
[[nodiscard]] std::int64_t itemsize_of(std::string_view ours);  // bytes

// The collective whose name a longer text, such as a file's name, contains. Nothing if it contains
// several.
[[nodiscard]] std::optional<Collective> collective_within(std::string_view text);

// The version of an NCCL_VERSION_CODE, such as "2.29.3". Since 2.9 the code has two digits for each
// part; before, it had one digit for the minor version.
[[nodiscard]] std::string version_of_code(std::int64_t code);

[[nodiscard]] std::string in_quotes(std::string_view text);  // "abc...", at most 60 characters
[[nodiscard]] bool is_not_available(std::string_view text);  // "N/A", "nan"

// What is wrong with an out-of-place time (us), which must be present and within kMinTimeUs and
// kMaxTimeUs. "" when nothing is wrong, as below.
[[nodiscard]] std::string time_reason(const std::optional<double>& time_us);
// What is wrong with an in-place time (us). It may be absent or 0 if the tool measured none.
[[nodiscard]] std::string in_place_time_reason(const std::optional<double>& time_us);
// What is wrong with a percentile of the iterations' times (us), which has the name `key`.
[[nodiscard]] std::string percentile_reason(std::string_view key,
                                            const std::optional<double>& time_us);
// What is wrong with the column size, which may be at most kMaxBytes.
[[nodiscard]] std::string size_reason(double bytes);
// What is wrong with the column root, which holds an int of C.
[[nodiscard]] std::string root_reason(double root);

// What a verification column says: the number of wrong elements, or, before 2.13, the largest
// relative error, which nccl-tests accepts up to a bound. "" when the results are right.
[[nodiscard]] std::string wrong_reason(double value, std::string_view dtype);

// Why the column redop cannot be that of a table of this collective, as where a file has a wrong
// name; "" if it can, or if it is blank. Sends have the column, but do not use it.
[[nodiscard]] std::string odd_reduction(Collective kind, std::string_view redop);

// Why the columns size, time and bandwidth (GB/s) contradict each other; "" when they agree within
// the rounding of a bandwidth of two digits after the point, or fewer in later versions. They
// contradict each other if two lines ran together, or if a figure was retyped wrongly.
[[nodiscard]] std::string contradiction(double bytes, double time_us, double algbw);

}  // namespace shardlab
