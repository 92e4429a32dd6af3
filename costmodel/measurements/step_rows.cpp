#include "costmodel/measurements/step_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <set>

#include "costmodel/base/csv.h"
#include "costmodel/base/error.h"
#include "costmodel/base/lower_case.h"
#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr std::string_view kRequired[] = {
    "id", "model", "gpu", "gpus", "seq", "micro_batch", "tokens_per_s_per_gpu"};

// What configs/steptimes/README.md describes. Some columns are for readers alone.
constexpr std::string_view kColumns[] = {"id",
                                         "source_repo",
                                         "source_commit",
                                         "source_path",
                                         "source_line",
                                         "framework",
                                         "model",
                                         "family",
                                         "params_b",
                                         "layers",
                                         "d_model",
                                         "heads",
                                         "kv_heads",
                                         "ffn",
                                         "vocab",
                                         "gpu",
                                         "gpus_per_host",
                                         "inter_host",
                                         "gpus",
                                         "dp_replicate",
                                         "fsdp",
                                         "tp",
                                         "pp",
                                         "vp",
                                         "cp",
                                         "ep",
                                         "sharding",
                                         "seq",
                                         "micro_batch",
                                         "grad_accum",
                                         "global_batch",
                                         "precision",
                                         "compile",
                                         "act_ckpt",
                                         "async_tp",
                                         "task",
                                         "tokens_per_s_per_gpu",
                                         "model_tflops_per_gpu",
                                         "mfu_percent",
                                         "memory_gib",
                                         "step_s",
                                         "software",
                                         "unknown",
                                         "kernels",
                                         "no_sync",
                                         "reduce_dtype"};

// Products of two counts fit into 64 bits.
constexpr double kMost = 1e9;

class RowReader {
 public:
  RowReader(const CsvTable& table, const CsvRecord& record, std::string_view file)
      : table_(table), record_(record), file_(file) {}

  [[nodiscard]] StepRow read() const {
    StepRow row;
    row.line = record_.line;
    row.id = text("id");
    row.source = text("source_repo");
    row.framework = text("framework");
    row.software = text("software");
    row.model = text("model");
    row.family = text("family");
    row.gpu = text("gpu");
    row.inter_host = text("inter_host");
    row.sharding = text("sharding");
    row.precision = text("precision");
    row.compile = yes_or_no("compile");
    row.act_ckpt = text("act_ckpt");
    row.async_tp = yes_or_no("async_tp");
    row.task = text("task");
    row.kernels = choice("kernels", {"eager", "compiled", "library"});
    row.no_sync = yes_or_no("no_sync");
    row.reduce_dtype = choice("reduce_dtype", {"bf16", "f32"});
    row.unknown = text("unknown");
    row.layers = count("layers");
    row.d_model = count("d_model");
    row.heads = count("heads");
    row.kv_heads = count("kv_heads");
    row.ffn = count("ffn");
    row.vocab = count("vocab");
    row.params_b = number("params_b");
    row.gpus_per_host = count("gpus_per_host");
    row.dp_replicate = count("dp_replicate");
    row.fsdp = count("fsdp");
    row.tp = count("tp");
    row.pp = count("pp");
    row.vp = count("vp");
    row.cp = count("cp");
    row.ep = count("ep");
    row.grad_accum = count("grad_accum");
    row.global_batch = count("global_batch");
    row.gpus = required_count("gpus");
    row.seq = count("seq");
    row.micro_batch = count("micro_batch");
    row.tokens_per_s_per_gpu = number("tokens_per_s_per_gpu");
    if (row.tokens_per_s_per_gpu && *row.tokens_per_s_per_gpu <= 0) {
      fail("tokens_per_s_per_gpu", "a number above 0, or nothing");
    }
    row.memory_gib = number("memory_gib");
    if (row.memory_gib && *row.memory_gib <= 0) fail("memory_gib", "a number above 0, or nothing");
    for (const std::string_view name : {"id", "model", "gpu"}) {
      if (text(name).empty()) fail(name, "a name");
    }
    return row;
  }

 private:
  [[noreturn]] void fail(std::string_view column, std::string_view valid) const {
    throw ConfigError(file_, "line " + std::to_string(record_.line),
                      "column " + std::string(column) + ": found \"" + printable(text(column)) +
                          "\"; valid: " + std::string(valid));
  }

  [[nodiscard]] std::string text(std::string_view column) const {
    return std::string(table_.field(record_, column));
  }

  // "yes", "no", "unknown" or nothing, of any usual spelling. A remark in parentheses may follow.
  [[nodiscard]] std::string yes_or_no(std::string_view column) const {
    const std::string field = lower_case(text(column));
    const std::string_view word = trimmed(std::string_view(field).substr(0, field.find('(')));
    if (field.empty()) return "";
    for (const std::string_view yes : {"yes", "true", "1", "y", "on"}) {
      if (word == yes) return "yes";
    }
    for (const std::string_view no : {"no", "false", "0", "n", "off"}) {
      if (word == no) return "no";
    }
    if (word == "unknown") return "unknown";
    fail(column, "yes, no, true, false, 1, 0, on, off, unknown, or nothing");
  }

  // One of these words, or nothing.
  [[nodiscard]] std::string choice(std::string_view column,
                                   std::initializer_list<std::string_view> words) const {
    std::string field = text(column);
    if (!field.empty() && std::ranges::find(words, field) == words.end()) {
      fail(column, join(std::vector<std::string_view>(words)) + ", or nothing");
    }
    return field;
  }

  [[nodiscard]] std::optional<double> number(std::string_view column) const {
    const std::string field = text(column);
    if (field.empty()) return std::nullopt;
    double value = 0.0;
    const char* end = field.data() + field.size();
    const auto result = std::from_chars(field.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value) || value < 0) {
      fail(column, "a number that is not negative, or nothing");
    }
    return value;
  }

  [[nodiscard]] std::optional<std::int64_t> count(std::string_view column) const {
    const std::optional<double> value = number(column);
    if (!value) return std::nullopt;
    if (*value < 1 || *value > kMost || *value != std::floor(*value)) {
      fail(column, "a whole number from 1 to 10^9, or nothing");
    }
    return static_cast<std::int64_t>(*value);
  }

  [[nodiscard]] std::int64_t required_count(std::string_view column) const {
    const std::optional<std::int64_t> value = count(column);
    if (!value) fail(column, "a whole number from 1 to 10^9");
    return *value;
  }

  const CsvTable& table_;
  const CsvRecord& record_;
  std::string_view file_;
};

}  // namespace

std::vector<StepRow> read_step_rows(std::string_view text, std::string_view file,
                                    std::vector<std::string>* ignored) {
  const CsvTable table = read_csv(text, file);
  for (const std::string_view name : kRequired) {
    if (!table.columns.contains(std::string(name))) {
      throw ConfigError(
          file, "line 1",
          "there is no column \"" + std::string(name) + "\"; required: " + join(kRequired));
    }
  }
  for (const std::string& name : table.header) {
    if (ignored == nullptr || std::ranges::find(kColumns, name) != std::end(kColumns)) continue;
    ignored->push_back("\"" + name + "\"" + did_you_mean(name, kColumns));
  }
  std::vector<StepRow> rows;
  std::set<std::string> ids;
  for (const CsvRecord& record : table.records) {
    rows.push_back(RowReader(table, record, file).read());
    if (!ids.insert(rows.back().id).second) {
      throw ConfigError(file, "line " + std::to_string(record.line),
                        "the id \"" + rows.back().id + "\" stands there twice");
    }
  }
  return rows;
}

}  // namespace shardlab
