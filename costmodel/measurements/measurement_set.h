// Measured times of collectives and kernels, and on which system they were measured.
//
//   MeasurementSet set = MeasurementSet::from_json(json, {"configs/measurements/x.json", ""});
//   model.price({set.rows[0].collective, set.rows[0].bytes, set.span()}).total   // to compare
//
// The format is shardlab/measurements/1 (configs/schema/measurements.schema.json). Other formats
// are read by nccl_tests_reader.h, kineto_trace.h and chakra_trace.h; health.h judges whether a run
// is healthy.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/json_reader.h"
#include "costmodel/base/units.h"
#include "costmodel/collective.h"
#include "costmodel/compute_model.h"

namespace shardlab {

// The limits of a measurement: a file with a time outside them, or with more bytes, is damaged.
inline constexpr double kMinTimeUs = 1e-6;
inline constexpr double kMaxTimeUs = 1e15;
inline constexpr double kMaxBytes = 1e18;
inline constexpr double kMaxFlops = 1e30;
// The largest extent of a kernel's dim.
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 50;

// Whether a run's times show what its hardware can do. Models are fitted only to healthy runs.
enum class Health : std::uint8_t { kHealthy, kUnhealthy, kUnknown };

template <>
struct EnumNames<Health> {
  static constexpr std::string_view kKind = "health";
  static constexpr std::array kNames = {
      Named{Health::kHealthy, "healthy"}, Named{Health::kUnhealthy, "unhealthy"},
      Named{Health::kUnknown, "unknown"},
      // Other words for the same, which collections of logs use.
      Named{Health::kHealthy, "normal"}, Named{Health::kUnhealthy, "suspect"}};
};
[[nodiscard]] std::string_view to_string(Health health);
[[nodiscard]] std::optional<Health> health_from_name(std::string_view name);

struct MeasuredRow {
  Collective collective = Collective::kLocal;
  std::string dtype;  // f32, bf16, ... (dtype.h), or u32, u64
  // The full_bytes of collective.h, which is what nccl-tests prints as `size` for every collective.
  Bytes bytes = 0.0;
  double time_us = 0.0;  // mean over the iterations, out of place
  std::optional<double> in_place_time_us = {};
  std::optional<std::int64_t> iterations = {};
  std::optional<double> p50_us = {};
  std::optional<double> p95_us = {};
  std::optional<double> p5_us = {};
  std::optional<double> wait_us = {};           // median wait for other ranks; not part of time_us
  std::optional<double> nccl_estimate_us = {};  // NCCL's own estimate, from ncclGroupSimulateEnd
  std::string algorithm = {};  // the algorithm as NCCL's log names it: RING, TREE, ...
  std::string protocol = {};   // the protocol as NCCL's log names it: LL, LL128, SIMPLE
  int line = 0;                // line in the row's file; 0 if the file has no lines

  friend bool operator==(const MeasuredRow&, const MeasuredRow&) = default;
};

// One kernel on one device. `shardlab measure` launches it many times on data that is in no cache;
// kernels of a profile ran as the program launched them.
struct MeasuredKernel {
  std::string kernel;        // a word of kMeasuredKernels
  std::string dtype;         // f32, bf16, ..., or tf32 (f32 inputs rounded by the tensor cores)
  std::int64_t batch = 1;    // how many products a GEMM computes
  std::int64_t rows = 0;     // rows of the matrix; m of a GEMM
  std::int64_t columns = 0;  // columns of the matrix; n of a GEMM
  std::int64_t inner = 0;    // k of a GEMM; for a reshuffle, the columns of one contiguous piece
  // GemmShape::row_multiple of a GEMM whose layout in memory is known. 0: it is not, and the rows
  // are taken to be n and k elements long.
  std::int64_t row_multiple = 0;
  std::optional<AttentionShape> attention = {};  // set for attention, and for it alone
  Bytes bytes = 0.0;                             // read plus written
  double flops = 0.0;
  double time_us = 0.0;  // mean of the launches; of a profile, the median of its calls
  std::optional<std::int64_t> iterations = {};
  std::optional<double> p5_us = {};
  std::optional<double> p50_us = {};
  std::optional<double> p95_us = {};

  friend bool operator==(const MeasuredKernel&, const MeasuredKernel&) = default;
};
// The kernels that `shardlab measure` launches. Profiles have attention as well.
inline constexpr std::string_view kLaunchedKernels =
    "gemm copy reshuffle elementwise reduction launch";
inline constexpr std::string_view kMeasuredKernels =
    "gemm copy reshuffle elementwise reduction launch attention";

// The shape of a kernel: "96 of 8192x4096x1024" (batch, m, n, k) of a GEMM, with ", rows of 2" if
// its rows in memory are multiples of two elements and not of 16 bytes; "8192x4096" of another
// matrix, "16x32x4096x128 on 8x4096, causal" (batch, heads, queries, head dim; heads of the keys,
// keys) of attention; "none" where it is not known.
[[nodiscard]] std::string kernel_shape_text(const MeasuredKernel& kernel);

// How many plans, run on the measured system, gave the results of the fake process group.
struct VerifiedPlans {
  std::int64_t plans = 0;
  std::int64_t bit_equal = 0;
  std::int64_t within_bound = 0;  // floating-point sums that differ by rounding alone
  std::int64_t failed = 0;
  std::int64_t seed = 0;
  std::string first_failure = {};

  friend bool operator==(const VerifiedPlans&, const VerifiedPlans&) = default;
};

// A row that was read, but that cannot be used as a measurement of speed.
struct RefusedRow {
  int line = 0;  // line in the row's file; 0 if the file has no lines
  std::string reason;
  std::string pointer = {};  // the place in a JSON file, such as "/results/1"

  friend bool operator==(const RefusedRow&, const RefusedRow&) = default;
};

struct MeasurementSet {
  std::string name;
  std::string source;
  std::string date;
  std::string gpu;
  std::int64_t gpus_per_host = 1;  // GPUs that take part
  std::int64_t hosts = 1;
  std::int64_t ranks = 1;
  // GPUs that one process drives, 0 if the source does not say. Calls of one process that drives
  // several take longer to launch than those of PyTorch, whose processes drive one each.
  std::int64_t gpus_per_process = 0;
  std::string intra;
  std::string inter;
  std::string nccl_version;
  std::string driver;
  std::string clocks;
  std::string settings;  // what was tuned or forced, as the source states it
  std::string notes;
  Health health = Health::kUnknown;
  std::string health_reason;
  std::vector<MeasuredRow> rows;
  std::vector<MeasuredKernel> kernels;
  std::optional<VerifiedPlans> verified_plans;
  // What the reader noticed; to_json leaves them out.
  std::vector<RefusedRow> refused;
  std::vector<std::string> warnings;

  // All ranks as one group, spread evenly over the hosts. Each host counts as an NVLink domain of
  // its own, although a topology may have larger domains.
  [[nodiscard]] GroupSpan span() const;

  // 16 hexadecimal digits that tell the times of two runs apart, whatever the names of their files.
  // The order of the rows does not matter, nor do the ranks, which an option may have corrected.
  // Source: FNV-1a of 64 bits.
  [[nodiscard]] std::string digest() const;

  // Reads shardlab/measurements/1. A document without a name gets that of its file. Throws
  // ConfigError.
  [[nodiscard]] static MeasurementSet from_json(const nlohmann::json& json, const JsonPlace& place);
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

inline constexpr std::string_view kMeasurementsSchema = "shardlab/measurements/1";
inline constexpr std::int64_t kMaxRanks = std::int64_t{1} << 40;

// The name of a set that a file holds: "run-1" for "a/b/run-1.json" and "run-1.json.gz", "run.0"
// for "run.0.et" and "run.0.et.json".
[[nodiscard]] std::string set_name_of(std::string_view file_name);

}  // namespace shardlab
