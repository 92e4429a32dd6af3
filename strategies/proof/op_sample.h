// Sample calls of the ops, on which sharding rules are proved (rule_proof.h) and tests run:
//
//   for (const SampleCall& sample : sample_calls_of("aten.mm.default", 1)) { ... sample.call ... }
//
// To add samples, add rows to samples/<family>.cpp: small extents (2 to 6), at least one sample
// whose extents are divisible by 2 and by 3, one that is uneven (5), and every argument that
// changes the rule's rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

struct OpSample {
  std::string_view op;  // "aten.mm.default"
  // The tensor arguments, separated by "|": "f32[4,6] | [f32[6,5]; f32[6,2]] | none". The values of
  // a tensor are small multiples of 1/4 other than 0 (small whole numbers where it holds integers,
  // zeros and ones where it holds b8), unless a word follows it:
  //   i64[5] below 7     whole numbers from 0 to 6
  //   i64[5] unique 7    whole numbers from 0 to 6, all different along the last dim
  //   f32[5] distinct    whole numbers, all different
  //   f32[5] few         -1, 0 and 1: zeros and equal elements
  //   f32[5] positive    whole numbers from 1 to 8
  //   f32[5] unit        multiples of 1/64 in (-1, 1)
  std::string_view inputs;
  std::string_view args = "[]";  // JSON, like OpCall::args
};

struct OpSampleFamily {
  std::span<const OpSample> samples;
};

// All families, sorted by file name.
[[nodiscard]] std::span<const OpSampleFamily* const> all_op_samples();

enum class SampleValues : std::uint8_t {
  kWhole,
  kBelow,
  kUnique,
  kDistinct,
  kFew,
  kPositive,
  kUnit
};
template <>
struct EnumNames<SampleValues> {
  static constexpr std::string_view kKind = "values";
  // Values of kind kWhole have no word.
  static constexpr std::array kNames = {
      Named{SampleValues::kBelow, "below"},       Named{SampleValues::kUnique, "unique"},
      Named{SampleValues::kDistinct, "distinct"}, Named{SampleValues::kFew, "few"},
      Named{SampleValues::kPositive, "positive"}, Named{SampleValues::kUnit, "unit"}};
};

// A sample after it is read: the call on replicated tensors, and which values each tensor has.
struct SampleCall {
  OpCall call;
  struct Values {
    SampleValues kind = SampleValues::kWhole;
    std::int64_t limit = 0;
  };
  std::vector<Values> values;  // by tensor, lists flattened
};

// Throws InputError or TextError for a sample that can't be read.
[[nodiscard]] SampleCall read_sample(const OpSample& sample, int mesh_ndim);
// The samples of one op, in the order of its family. A pointwise op without samples of its own gets
// those that are common to pointwise ops.
[[nodiscard]] std::vector<SampleCall> sample_calls_of(std::string_view op, int mesh_ndim);

}  // namespace shardlab

#define OP_SAMPLES(id)                         \
  extern const OpSampleFamily op_samples_##id; \
  constinit const OpSampleFamily op_samples_##id
