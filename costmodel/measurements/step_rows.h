// Published step times of training runs: tokens per second per GPU, with the model, the GPUs, the
// parallelism and the precision of each run.
//
//   const std::vector<StepRow> rows = read_step_rows(text, "rows.csv");
//   rows[0].id, rows[0].tokens_per_s_per_gpu, rows[0].memory_gib
//
// The file is CSV (RFC 4180) with a line of column names. Columns may stand in any order; `id`,
// `model`, `gpu`, `gpus`, `seq`, `micro_batch` and `tokens_per_s_per_gpu` are required, other
// columns of the data may be absent, and columns of other names are ignored, which the caller is
// told. An empty field is not known. The columns are described in configs/steptimes/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

struct StepRow {
  std::string id;
  std::string source;  // the repository that published the row
  std::string framework;
  std::string software;
  std::string model;
  std::string family;
  std::string gpu;
  std::string inter_host;
  std::string sharding;
  std::string precision;
  std::string compile;  // "yes", "no", "unknown" or empty
  std::string act_ckpt;
  std::string async_tp;  // "yes", "no", "unknown" or empty
  std::string task;
  std::string kernels;       // "eager", "compiled", "library" or empty
  std::string no_sync;       // "yes", "no", "unknown" or empty
  std::string reduce_dtype;  // "bf16", "f32" or empty
  std::string unknown;       // settings that the source leaves open
  // Sizes of the network, where they are given.
  std::optional<std::int64_t> layers, d_model, heads, kv_heads, ffn, vocab;
  std::optional<double> params_b;
  std::optional<std::int64_t> gpus_per_host, dp_replicate, fsdp, tp, pp, vp, cp, ep;
  std::optional<std::int64_t> seq, micro_batch, grad_accum, global_batch;
  std::int64_t gpus = 1;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> memory_gib;
  int line = 0;  // line number in the file
};

// Throws ConfigError with the line, what was found and what is valid. Columns without a meaning are
// added to `ignored`: `"act_chkpt" (did you mean "act_ckpt"?)`.
[[nodiscard]] std::vector<StepRow> read_step_rows(std::string_view text, std::string_view file,
                                                  std::vector<std::string>* ignored = nullptr);

}  // namespace shardlab
