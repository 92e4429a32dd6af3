// Sample calls of the ops: what sharding rules are proved on (rule_proof.h) and tests ask about.
//
// To add samples: rows in op_samples/<family>.cpp. Small extents (2 to 6), at least one sample whose
// extents divide by 2 and by 3, one that is uneven (5), and every argument that changes the rows.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

struct OpSample {
  std::string_view op;  // "aten.mm.default"
  // The tensor arguments, separated by "|": "f32[4,6] | [f32[6,5]; f32[6,2]] | none". A tensor's
  // values are small multiples of 1/4 other than 0 (integers: small whole numbers; b8: zeros and ones)
  // unless a word follows it:
  //   i64[5] below 7     whole numbers from 0 to 6
  //   i64[5] unique 7    the same, all different along the last dim
  //   f32[5] distinct    whole numbers, all different
  //   f32[5] few         -1, 0 and 1: zeros and equal elements
  //   f32[5] positive    whole numbers from 1 to 8
  //   f32[5] unit        multiples of 1/64 in (-1, 1)
  std::string_view inputs;
  std::string_view args = "[]";  // JSON, as of OpCall
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

// A sample that was read: the call, every tensor replicated, and the values of each tensor.
struct SampleCall {
  OpCall call;
  struct Values {
    SampleValues kind = SampleValues::kWhole;
    std::int64_t limit = 0;
  };
  std::vector<Values> values;  // by tensor, lists flattened
};

// Throws InputError or TextError: a sample that can't be read.
[[nodiscard]] SampleCall read_sample(const OpSample& sample, int mesh_ndim);
// Of one op, in the order of its family. Pointwise ops without samples of their own get common ones.
[[nodiscard]] std::vector<SampleCall> sample_calls_of(std::string_view op, int mesh_ndim);

}  // namespace shardlab

#define OP_SAMPLES(id)                         \
  extern const OpSampleFamily op_samples_##id; \
  constinit const OpSampleFamily op_samples_##id
