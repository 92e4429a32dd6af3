#include "costmodel/measurements/nccl_tests_names.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/measurement_set.h"
#include "costmodel/measurements/nccl_tests_reader.h"

namespace shardlab {
namespace {

struct DtypeName {
  std::string_view theirs;
  std::string_view ours;
};
// The older and newer spellings in nccl-tests: test_typenames of src/common.cu.
constexpr std::array<DtypeName, 18> kDtypes = {{{"float", "f32"},
                                                {"double", "f64"},
                                                {"half", "f16"},
                                                {"bfloat16", "bf16"},
                                                {"int8", "i8"},
                                                {"uint8", "u8"},
                                                {"int32", "i32"},
                                                {"uint32", "u32"},
                                                {"int64", "i64"},
                                                {"uint64", "u64"},
                                                {"f8e4m3", "f8e4m3"},
                                                {"f8e5m2", "f8e5m2"},
                                                {"fp8_e4m3", "f8e4m3"},
                                                {"fp8_e5m2", "f8e5m2"},
                                                {"fp8e4m3", "f8e4m3"},
                                                {"fp8e5m2", "f8e5m2"},
                                                {"char", "i8"},
                                                {"int", "i32"}}};

// The name in lower case, without separators and without the suffix of the program: "allreduce" for
// "AllReduce", "all_reduce_perf" and "all-reduce".
std::string plain_name(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) {
    name = name.substr(slash + 1);
  }
  std::string plain;
  for (const char c : name) {
    if (c == '_' || c == '-' || c == ' ') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const std::string_view suffix : {"perfmpi", "perf"}) {
    if (plain.size() > suffix.size() && plain.ends_with(suffix)) {
      plain.resize(plain.size() - suffix.size());
    }
  }
  return plain;
}

struct CollectiveName {
  std::string_view plain;
  Collective kind;
};
// Longer names come first, since "reducescatter" holds "scatter".
constexpr std::array<CollectiveName, 7> kCollectives = {
    {{"reducescatter", Collective::kReduceScatter},
     {"allreduce", Collective::kAllReduce},
     {"allgather", Collective::kAllGather},
     {"alltoall", Collective::kAllToAll},
     {"broadcast", Collective::kBroadcast},
     {"sendrecv", Collective::kSendRecv},
     {"scatter", Collective::kScatter}}};

bool is_time(double us) { return us >= kMinTimeUs && us <= kMaxTimeUs; }

}  // namespace

std::string_view our_dtype(std::string_view theirs) {
  for (const DtypeName& name : kDtypes) {
    if (name.theirs == theirs) return name.ours;
  }
  return {};
}

std::string dtype_list() {
  std::vector<std::string_view> names;
  for (const DtypeName& name : kDtypes) names.push_back(name.theirs);
  return join(names);
}

std::int64_t itemsize_of(std::string_view ours) {
  if (ours == "u32") return 4;
  if (ours == "u64") return 8;
  const auto dtype = dtype_from_name(ours);
  return dtype ? itemsize(*dtype) : 1;
}

std::optional<Collective> collective_within(std::string_view text) {
  std::string plain = plain_name(text);
  std::optional<Collective> found;
  for (const CollectiveName& name : kCollectives) {
    for (std::size_t at = plain.find(name.plain); at != std::string::npos;
         at = plain.find(name.plain)) {
      if (found && *found != name.kind) return std::nullopt;
      found = name.kind;
      plain.replace(at, name.plain.size(), "|");
    }
  }
  return found;
}

std::optional<Collective> nccl_collective_from_name(std::string_view name) {
  const std::string plain = plain_name(name);
  for (const CollectiveName& each : kCollectives) {
    if (each.plain == plain) return each.kind;
  }
  return collective_from_name(name) == Collective::kAllToAll ? collective_from_name(name)
                                                             : std::nullopt;
}

std::string version_of_code(std::int64_t code) {
  const bool is_old = code < 10000;
  const std::int64_t major = code / (is_old ? 1000 : 10000);
  const std::int64_t minor = (is_old ? code % 1000 : code % 10000) / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::string out = "\"" + std::string(text.substr(0, kShown)) + "\"";
  if (text.size() > kShown) out.insert(out.size() - 1, "...");
  return out;
}

bool is_not_available(std::string_view text) { return text == "N/A" || text == "nan"; }

std::string time_reason(const std::optional<double>& time_us) {
  if (!time_us) return "found no out-of-place time";
  if (is_time(*time_us)) return "";
  return "found an out-of-place time of " + format_double(*time_us) + " us";
}

std::string in_place_time_reason(const std::optional<double>& time_us) {
  if (!time_us || *time_us == 0.0 || is_time(*time_us)) return "";
  return "in place: found a time of " + format_double(*time_us) + " us";
}

std::string percentile_reason(std::string_view key, const std::optional<double>& time_us) {
  if (!time_us || is_time(*time_us)) return "";
  return "found " + format_double(*time_us) + " us as " + std::string(key);
}

std::string size_reason(double bytes) {
  if (bytes <= kMaxBytes) return "";
  return "found " + format_double(bytes) + " bytes; valid: at most " + format_double(kMaxBytes);
}

std::string root_reason(double root) {
  if (root >= -1.0 && root <= std::numeric_limits<int>::max() && std::floor(root) == root) {
    return "";
  }
  return "found the root " + format_double(root) + "; valid: a rank, or -1 where there is none";
}

std::string wrong_reason(double value, std::string_view dtype) {
  if (value >= 1.0 && std::floor(value) == value) {
    return "found " + format_double(value) + " wrong elements (#wrong)";
  }
  const double accepted = dtype == "f64"                      ? 1e-12
                          : dtype == "f32"                    ? 1e-5
                          : dtype == "f16" || dtype == "bf16" ? 1e-2
                                                              : 0.0;
  if (value <= accepted) return "";
  return "results are wrong by " + format_double(value) + " (error), more than " +
         format_double(accepted);
}

std::string odd_reduction(Collective kind, std::string_view redop) {
  if (redop.empty() || kind == Collective::kSendRecv) return "";
  const bool reduces = kind == Collective::kAllReduce || kind == Collective::kReduceScatter;
  if (reduces == (redop != "none")) return "";
  return "found the redop " + in_quotes(redop) + ", but the file calls the collective " +
         std::string(to_string(kind)) + ", which " + (reduces ? "has one" : "has none") +
         "; valid: a file name, command or line \"# collective: NAME\" that names the collective "
         "of the table";
}

std::string contradiction(double bytes, double time_us, double algbw) {
  const double expected = bytes / time_us / 1e3;
  if (std::abs(algbw - expected) <= 0.006 + 0.01 * expected) return "";
  return "columns contradict each other: " + format_double(bytes) + " B in " +
         format_double(time_us) + " us is " + format_fixed(expected, 2) +
         " GB/s, but the algbw column says " + format_double(algbw);
}

}  // namespace shardlab
