#include "runner/measure/table.h"

#include <array>
#include <cstdio>

#include "costmodel/base/dtype.h"
#include "runner/base/text_table.h"

namespace shardlab {
namespace {

// The names of dtypes in nccl-tests.
std::string type_name(const std::string& dtype) {
  constexpr std::array<std::array<const char*, 2>, 10> kNames = {{{"f64", "double"},
                                                                  {"f32", "float"},
                                                                  {"f16", "half"},
                                                                  {"bf16", "bfloat16"},
                                                                  {"f8e4m3", "f8e4m3"},
                                                                  {"f8e5m2", "f8e5m2"},
                                                                  {"i64", "int64"},
                                                                  {"i32", "int32"},
                                                                  {"i8", "int8"},
                                                                  {"u8", "uint8"}}};
  for (const auto& [ours, theirs] : kNames) {
    if (dtype == ours) return theirs;
  }
  return dtype;
}

std::string line_of(const char* format, auto... values) {
  std::array<char, 256> buffer{};
  const int size = std::snprintf(buffer.data(), buffer.size(), format, values...);
  return {buffer.data(), static_cast<std::size_t>(size)};
}

struct Speed {
  double algorithm_gbps;
  double bus_gbps;
};
Speed speed_of(const MeasuredRow& row, double time_us, std::int64_t ranks) {
  const double algorithm = row.bytes / time_us * 1e-3;  // bytes per microsecond are MB/s
  return {algorithm, algorithm * ring_volume_factor(row.collective, ranks)};
}

std::string row_line(const MeasuredRow& row, std::int64_t ranks) {
  const bool reduces =
      row.collective == Collective::kAllReduce || row.collective == Collective::kReduceScatter;
  const auto dtype = dtype_from_name(row.dtype);
  const double count = row.bytes / (dtype ? itemsize(*dtype) : 1);
  const Speed apart = speed_of(row, row.time_us, ranks);
  std::string line = line_of("%12.0f %12.0f %9s %7s %6d %8.2f %7.2f %7.2f     N/A", row.bytes,
                             count, type_name(row.dtype).c_str(), reduces ? "sum" : "none",
                             row.collective == Collective::kBroadcast ? 0 : -1, row.time_us,
                             apart.algorithm_gbps, apart.bus_gbps);
  if (row.in_place_time_us) {
    const Speed in_place = speed_of(row, *row.in_place_time_us, ranks);
    line += line_of(" %8.2f %7.2f %7.2f     N/A", *row.in_place_time_us, in_place.algorithm_gbps,
                    in_place.bus_gbps);
  }
  return line + "\n";
}

}  // namespace

std::string nccl_tests_table(const MeasurementSet& set) {
  std::string text = "# gpu: " + set.gpu + "\n# nodes: " + std::to_string(set.hosts) +
                     "\n# gpus_per_node: " + std::to_string(set.gpus_per_host) +
                     "\n# ranks: " + std::to_string(set.ranks) + "\n";
  if (!set.nccl_version.empty()) text += "# nccl_version: " + set.nccl_version + "\n";
  if (!set.notes.empty()) text += "# notes: " + set.notes + "\n";
  Collective last = Collective::kLocal;
  for (const MeasuredRow& row : set.rows) {
    if (row.collective != last) {
      text += "# collective: " + std::string(to_string(row.collective)) + "\n";
      const bool both = row.in_place_time_us.has_value();
      text += "#       size        count      type   redop   root     time   algbw   busbw  #wrong";
      text += both ? "     time   algbw   busbw  #wrong\n" : "\n";
      text += "#        (B)   (elements)                              (us)  (GB/s)  (GB/s)";
      text += both ? "             (us)  (GB/s)  (GB/s)\n" : "\n";
      last = row.collective;
    }
    text += row_line(row, set.ranks);
  }
  return text;
}

std::string kernel_table(const MeasurementSet& set, const TextStyle& style) {
  TextTable table(style, {"kernel", "dtype", "shape", "us", "p5", "p95", "GB/s", "TFLOP/s"});
  for (const MeasuredKernel& row : set.kernels) {
    table.add({row.kernel, row.dtype, kernel_shape_text(row), style.figure(row.time_us),
               style.figure(row.p5_us.value_or(row.time_us)),
               style.figure(row.p95_us.value_or(row.time_us)),
               style.figure(row.bytes / row.time_us * 1e-3),
               style.figure(row.flops / row.time_us * 1e-6)});
  }
  return table.text();
}

}  // namespace shardlab
