#include "costmodel/measurements/measurement_set.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "costmodel/base/dtype.h"
#include "costmodel/base/text.h"
#include "costmodel/kernel_work.h"

namespace shardlab {
namespace {

using nlohmann::json;

// The value of an optional key, whose null means absent.
const json* find_value(ObjectReader& reader, std::string_view key) {
  const json* found = reader.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string text_of(ObjectReader& reader, std::string_view key) {
  const json* found = find_value(reader, key);
  return found == nullptr ? std::string() : json_text(*found, reader.place(key));
}

std::optional<double> time_of(ObjectReader& reader, std::string_view key) {
  const json* found = find_value(reader, key);
  if (found == nullptr) return std::nullopt;
  return json_number(*found, reader.place(key), {.min = kMinTimeUs, .max = kMaxTimeUs});
}

bool is_known_dtype(std::string_view name) {
  return from_name<DType>(name).has_value() || name == "u32";
}

bool is_word_of(std::string_view word, std::string_view words) {
  if (word.empty() || word.find(' ') != std::string_view::npos) return false;
  return (" " + std::string(words) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

nlohmann::ordered_json whole_or_double(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const bool is_exact = std::floor(value) == value && std::abs(value) < kExact;
  if (is_exact) return static_cast<std::int64_t>(value);
  return value;
}

// A wait may be 0, unlike a time.
std::optional<double> wait_of(ObjectReader& reader, std::string_view key) {
  const json* found = find_value(reader, key);
  if (found == nullptr) return std::nullopt;
  return json_number(*found, reader.place(key), {.min = 0.0, .max = kMaxTimeUs});
}

std::optional<std::int64_t> iterations_of(ObjectReader& reader) {
  const json* found = find_value(reader, "iterations");
  if (found == nullptr) return std::nullopt;
  return json_integer(*found, reader.place("iterations"), 1, std::int64_t{1} << 40);
}

MeasuredRow read_row(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  MeasuredRow row;
  const std::string collective = reader.text("collective");
  const auto kind = collective_from_name(collective);
  if (!kind || *kind == Collective::kLocal) {
    std::vector<std::string_view> measurable = all_names<Collective>();
    std::erase(measurable, name_of(Collective::kLocal));
    reader.place("collective")
        .fail("found \"" + collective + "\"; valid: " + join(measurable, " "));
  }
  row.collective = *kind;
  row.dtype = reader.text("dtype");
  if (!is_known_dtype(row.dtype)) {
    reader.place("dtype").fail("found \"" + row.dtype + "\"; valid: " + std::string(kDTypeNames) +
                               " u32");
  }
  row.bytes = reader.number("bytes", {.min = 1.0, .max = kMaxBytes});
  row.time_us = reader.number("time_us", {.min = kMinTimeUs, .max = kMaxTimeUs});
  row.in_place_time_us = time_of(reader, "in_place_time_us");
  row.iterations = iterations_of(reader);
  row.p50_us = time_of(reader, "p50_us");
  row.p95_us = time_of(reader, "p95_us");
  row.p5_us = time_of(reader, "p5_us");
  row.wait_us = wait_of(reader, "wait_us");
  row.nccl_estimate_us = time_of(reader, "nccl_estimate_us");
  row.algorithm = text_of(reader, "algorithm");
  row.protocol = text_of(reader, "protocol");
  reader.finish();
  return row;
}

AttentionShape read_attention(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  const auto extent = [&](std::string_view key) {
    return static_cast<double>(reader.integer(key, 1, kMaxExtent));
  };
  AttentionShape shape;
  shape.batch = extent("batch");
  shape.heads = extent("heads");
  shape.kv_heads = extent("kv_heads");
  shape.queries = extent("queries");
  shape.keys = extent("keys");
  shape.key_dim = extent("key_dim");
  shape.value_dim = extent("value_dim");
  shape.window = static_cast<double>(reader.integer_or("window", 0, 0, kMaxExtent));
  shape.causal = reader.boolean_or("causal", false);
  shape.backward = reader.boolean_or("backward", false);
  if (const json* kernel = reader.find("kernel")) {
    shape.kernel = json_name<AttentionKernel>(*kernel, reader.place("kernel"), " ");
  }
  reader.finish();
  return shape;
}

nlohmann::ordered_json attention_json(const AttentionShape& shape) {
  nlohmann::ordered_json out = {
      {"batch", whole_or_double(shape.batch)},        {"heads", whole_or_double(shape.heads)},
      {"kv_heads", whole_or_double(shape.kv_heads)},  {"queries", whole_or_double(shape.queries)},
      {"keys", whole_or_double(shape.keys)},          {"key_dim", whole_or_double(shape.key_dim)},
      {"value_dim", whole_or_double(shape.value_dim)}};
  if (shape.window > 0) out["window"] = whole_or_double(shape.window);
  if (shape.causal) out["causal"] = true;
  if (shape.backward) out["backward"] = true;
  out["kernel"] = name_of(shape.kernel);
  return out;
}

MeasuredKernel read_kernel(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  MeasuredKernel row;
  row.kernel = reader.text("kernel");
  if (!is_word_of(row.kernel, kMeasuredKernels)) {
    reader.place("kernel").fail("found \"" + row.kernel +
                                "\"; valid: " + std::string(kMeasuredKernels));
  }
  row.dtype = reader.text("dtype");
  if (!from_name<DType>(row.dtype).has_value() && row.dtype != "tf32") {
    reader.place("dtype").fail("found \"" + row.dtype + "\"; valid: " + std::string(kDTypeNames) +
                               " tf32");
  }
  row.batch = reader.integer_or("batch", 1, 1, kMaxExtent);
  row.rows = reader.integer_or("rows", 0, 0, kMaxExtent);
  row.columns = reader.integer_or("columns", 0, 0, kMaxExtent);
  row.inner = reader.integer_or("inner", 0, 0, kMaxExtent);
  row.row_multiple = reader.integer_or("row_multiple", 0, 0, kMostRowMultiple);
  if (row.row_multiple > 0 && !std::has_single_bit(static_cast<std::uint64_t>(row.row_multiple))) {
    reader.place("row_multiple")
        .fail("found " + std::to_string(row.row_multiple) + "; valid: 0 or a power of two up to " +
              std::to_string(kMostRowMultiple));
  }
  if (row.kernel == "attention") {
    row.attention = read_attention(reader.value("attention"), reader.place("attention"));
  }
  row.bytes = reader.number_or("bytes", 0.0, {.min = 0.0, .max = kMaxBytes});
  row.flops = reader.number_or("flops", 0.0, {.min = 0.0, .max = kMaxFlops});
  row.time_us = reader.number("time_us", {.min = kMinTimeUs, .max = kMaxTimeUs});
  row.iterations = iterations_of(reader);
  row.p5_us = time_of(reader, "p5_us");
  row.p50_us = time_of(reader, "p50_us");
  row.p95_us = time_of(reader, "p95_us");
  reader.finish();
  return row;
}

VerifiedPlans read_verified(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  VerifiedPlans out;
  out.plans = reader.integer("plans", 0, kMost);
  out.bit_equal = reader.integer("bit_equal", 0, out.plans);
  out.within_bound = reader.integer("within_bound", 0, out.plans);
  out.failed = reader.integer("failed", 0, out.plans);
  out.seed = reader.integer_or("seed", 0, 0, std::numeric_limits<std::int64_t>::max());
  out.first_failure = text_of(reader, "first_failure");
  reader.finish();
  return out;
}

std::string attention_text(const AttentionShape& shape) {
  const auto extent = [](double value) { return std::to_string(static_cast<std::int64_t>(value)); };
  std::string text = extent(shape.batch) + "x" + extent(shape.heads) + "x" + extent(shape.queries) +
                     "x" + extent(shape.key_dim) + " on " + extent(shape.kv_heads) + "x" +
                     extent(shape.keys);
  if (shape.causal) text += ", causal";
  if (shape.window > 0) text += ", window " + extent(shape.window);
  return text + (shape.backward ? ", backward" : "");
}

void expect_ranks_on_hosts(const MeasurementSet& set, const JsonPlace& place) {
  if ((set.ranks - 1) / set.hosts < set.gpus_per_host) return;
  place.fail("found " + std::to_string(set.ranks) + " ranks for gpus_per_host " +
             std::to_string(set.gpus_per_host) + " and hosts " + std::to_string(set.hosts) +
             "; valid: at most " + std::to_string(set.gpus_per_host * set.hosts) +
             ", gpus_per_host times hosts");
}

}  // namespace

std::string kernel_shape_text(const MeasuredKernel& kernel) {
  if (kernel.attention) return attention_text(*kernel.attention);
  if (kernel.rows <= 0) return "none";
  std::string text = kernel.batch > 1 ? std::to_string(kernel.batch) + " of " : "";
  text += std::to_string(kernel.rows) + "x" + std::to_string(kernel.columns);
  if (kernel.inner > 0) text += "x" + std::to_string(kernel.inner);
  constexpr int kAlignmentBytes = 16;
  const std::optional<DType> dtype = dtype_from_name(kernel.dtype);
  const bool is_unaligned =
      kernel.row_multiple > 0 && dtype && kernel.row_multiple * itemsize(*dtype) < kAlignmentBytes;
  return is_unaligned ? text + ", rows of " + std::to_string(kernel.row_multiple) : text;
}

std::string_view to_string(Health health) { return name_of(health); }
std::optional<Health> health_from_name(std::string_view name) { return from_name<Health>(name); }

std::string set_name_of(std::string_view file_name) {
  if (const std::size_t slash = file_name.rfind('/'); slash != std::string_view::npos) {
    file_name = file_name.substr(slash + 1);
  }
  constexpr std::string_view kGzip = ".gz";
  if (file_name.ends_with(kGzip)) file_name.remove_suffix(kGzip.size());
  // Chakra's two forms of one trace have the same name.
  constexpr std::string_view kJson = ".json";
  if (file_name.ends_with(".et.json")) file_name.remove_suffix(kJson.size());
  const std::size_t dot = file_name.rfind('.');
  if (dot != std::string_view::npos && dot > 0) file_name = file_name.substr(0, dot);
  return std::string(file_name);
}

GroupSpan MeasurementSet::span() const {
  return {.ranks = ranks, .hosts = hosts, .domains = hosts, .extent = ranks, .walk = ranks};
}

std::string MeasurementSet::digest() const {
  std::vector<std::string> lines;
  for (const MeasuredRow& row : rows) {
    lines.push_back(std::string(to_string(row.collective)) + " " + row.dtype + " " +
                    format_double(row.bytes) + " " + format_double(row.time_us));
  }
  for (const MeasuredKernel& kernel : kernels) {
    lines.push_back(kernel.kernel + " " + kernel.dtype + " " + kernel_shape_text(kernel) + " " +
                    format_double(kernel.bytes) + " " + format_double(kernel.time_us));
  }
  std::sort(lines.begin(), lines.end());
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::string& line : lines) {
    for (const char c : line + "\n") {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(hash >> shift) & 0xfU];
  return text;
}

MeasurementSet MeasurementSet::from_json(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  reader.expect_schema(kMeasurementsSchema);
  MeasurementSet set;
  set.name = text_of(reader, "name");
  if (set.name.empty()) set.name = set_name_of(place.file);
  set.source = reader.text("source");
  set.date = text_of(reader, "date");
  set.gpu = reader.text("gpu");
  set.ranks = reader.integer("ranks", 1, kMaxRanks);
  set.hosts = reader.integer("hosts", 1, kMaxRanks);
  if (set.hosts > set.ranks) {
    reader.place("hosts").fail("found " + std::to_string(set.hosts) + " hosts for " +
                               std::to_string(set.ranks) +
                               " ranks; valid: at most one host per rank");
  }
  set.gpus_per_host = reader.integer("gpus_per_host", 1, kMaxRanks);
  expect_ranks_on_hosts(set, reader.place("ranks"));
  if (const json* found = find_value(reader, "gpus_per_process")) {
    set.gpus_per_process = json_integer(*found, reader.place("gpus_per_process"), 1, set.ranks);
  }
  set.intra = text_of(reader, "intra");
  set.inter = text_of(reader, "inter");
  set.nccl_version = text_of(reader, "nccl_version");
  set.driver = text_of(reader, "driver");
  set.clocks = text_of(reader, "clocks");
  set.settings = text_of(reader, "settings");
  set.notes = text_of(reader, "notes");
  if (const std::string health = text_of(reader, "health"); !health.empty()) {
    set.health = json_name<Health>(health, reader.place("health"));
  }
  set.health_reason = text_of(reader, "health_reason");
  const json& rows = reader.array("rows");
  if (const json* kernels = find_value(reader, "kernels")) {
    const JsonPlace kernels_place = reader.place("kernels");
    for (const json& row : json_array(*kernels, kernels_place)) {
      set.kernels.push_back(read_kernel(row, kernels_place.at(set.kernels.size())));
    }
  }
  if (const json* verified = find_value(reader, "verified_plans")) {
    set.verified_plans = read_verified(*verified, reader.place("verified_plans"));
  }
  if (rows.empty() && set.kernels.empty() && !set.verified_plans) {
    reader.place("rows").fail("found no rows; valid: at least one row, or kernels");
  }
  set.rows.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    set.rows.push_back(read_row(rows[i], reader.place("rows").at(i)));
  }
  reader.finish();
  return set;
}

nlohmann::ordered_json MeasurementSet::to_json() const {
  nlohmann::ordered_json out;
  out["schema"] = kMeasurementsSchema;
  const auto text = [&](const char* key, const std::string& value) {
    if (!value.empty()) out[key] = value;
  };
  text("name", name);
  out["source"] = source;
  text("date", date);
  out["gpu"] = gpu;
  out["gpus_per_host"] = gpus_per_host;
  out["hosts"] = hosts;
  out["ranks"] = ranks;
  if (gpus_per_process > 0) out["gpus_per_process"] = gpus_per_process;
  text("intra", intra);
  text("inter", inter);
  text("nccl_version", nccl_version);
  text("driver", driver);
  text("clocks", clocks);
  text("settings", settings);
  text("notes", notes);
  out["health"] = to_string(health);
  text("health_reason", health_reason);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MeasuredRow& row : rows) {
    nlohmann::ordered_json item;
    item["collective"] = shardlab::to_string(row.collective);
    item["dtype"] = row.dtype;
    item["bytes"] = whole_or_double(row.bytes);
    item["time_us"] = row.time_us;
    if (row.in_place_time_us) item["in_place_time_us"] = *row.in_place_time_us;
    if (row.iterations) item["iterations"] = *row.iterations;
    if (row.p50_us) item["p50_us"] = *row.p50_us;
    if (row.p95_us) item["p95_us"] = *row.p95_us;
    if (row.p5_us) item["p5_us"] = *row.p5_us;
    if (row.wait_us) item["wait_us"] = *row.wait_us;
    if (row.nccl_estimate_us) item["nccl_estimate_us"] = *row.nccl_estimate_us;
    if (!row.algorithm.empty()) item["algorithm"] = row.algorithm;
    if (!row.protocol.empty()) item["protocol"] = row.protocol;
    list.push_back(std::move(item));
  }
  out["rows"] = std::move(list);
  if (verified_plans) {
    const VerifiedPlans& verified = *verified_plans;
    out["verified_plans"] = {{"plans", verified.plans},
                             {"bit_equal", verified.bit_equal},
                             {"within_bound", verified.within_bound},
                             {"failed", verified.failed},
                             {"seed", verified.seed}};
    if (!verified.first_failure.empty()) {
      out["verified_plans"]["first_failure"] = verified.first_failure;
    }
  }
  if (kernels.empty()) return out;
  list = nlohmann::ordered_json::array();
  for (const MeasuredKernel& row : kernels) {
    nlohmann::ordered_json item;
    item["kernel"] = row.kernel;
    item["dtype"] = row.dtype;
    if (row.batch > 1) item["batch"] = row.batch;
    if (row.rows > 0) item["rows"] = row.rows;
    if (row.columns > 0) item["columns"] = row.columns;
    if (row.inner > 0) item["inner"] = row.inner;
    if (row.row_multiple > 0) item["row_multiple"] = row.row_multiple;
    if (row.attention) item["attention"] = attention_json(*row.attention);
    if (row.bytes > 0) item["bytes"] = whole_or_double(row.bytes);
    if (row.flops > 0) item["flops"] = whole_or_double(row.flops);
    item["time_us"] = row.time_us;
    if (row.iterations) item["iterations"] = *row.iterations;
    if (row.p5_us) item["p5_us"] = *row.p5_us;
    if (row.p50_us) item["p50_us"] = *row.p50_us;
    if (row.p95_us) item["p95_us"] = *row.p95_us;
    list.push_back(std::move(item));
  }
  out["kernels"] = std::move(list);
  return out;
}

}  // namespace shardlab
