#include "runner/steps/published_run.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/lower_case.h"
#include "costmodel/base/text.h"
#include "runner/base/read_file.h"
#include "runner/config/read_json.h"
#include "runner/evaluation/validation.h"

namespace shardlab {
namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Whether a text says nothing: it is empty, or says that the page does not tell.
bool is_open(const std::string& text) {
  return text.empty() || text.starts_with("unknown") || text.starts_with("not said");
}

// The topology of a row's GPU, and the name under which terms know the GPU.
struct RowGpu {
  std::string topology;
  std::string trait;
};

// The GPUs to which the terms of `steps` are fitted.
constexpr std::string_view kGpus[] = {"a100",  "a100-40", "b200", "b300",
                                      "gb200", "gb300",   "h100", "h200"};

RowGpu gpu_of(const StepRow& row) {
  const std::string topology(topology_of_gpu(row.gpu));
  if (std::find(std::begin(kGpus), std::end(kGpus), topology) == std::end(kGpus)) {
    throw InputError(
        "the GPU \"" + row.gpu +
        "\" is not known; valid: names with A100, H100, H200, B200, B300, GB200 or GB300");
  }
  const std::string text = lower_case(row.gpu);
  // PCIe cards have HBM2e too, but H100 PCIe is not the GPU of that topology.
  if (topology == "h100" && has_own_topology(row.gpu) && has(text, "hbm2e")) {
    return {"h100-hbm2e", "h100-hbm2e"};
  }
  if (topology == "b200" && has(text, "b200 power")) return {topology, "b200-limited"};
  return {topology, topology};
}

Precision precision_of(const StepRow& row) {
  const std::string text = lower_case(row.precision);
  if (has(text, "nvfp4") || has(text, "fp4")) return Precision::kNVFP4;
  if (has(text, "mxfp8") || has(text, "fp8-mx")) {
    // Some pages give two recipes, the second in parentheses; the figure is the first one's.
    if (!text.starts_with("fp8-cs")) return Precision::kMXFP8;
  }
  if (has(text, "rowwise")) return Precision::kFP8Rowwise;
  if (has(text, "blockwise") || has(text, "fp8-sc")) return Precision::kFP8Blockwise;
  if (has(text, "fp8") || has(text, "float8")) return Precision::kFP8;
  if (text.empty() || has(text, "bf16") || has(text, "fp16") || has(text, "amp")) {
    return Precision::kBF16;
  }
  throw InputError("the precision \"" + row.precision +
                   "\" is not known; valid: bf16, fp16, fp8, mxfp8, nvfp4 and their spellings");
}

ModelShape shape_of(const StepRow& row) {
  const ModelShape* known = find_model_shape(row.model);
  ModelShape shape;
  if (known != nullptr) {
    shape = *known;
  } else {
    if (!row.layers || !row.d_model || !row.heads || !row.ffn || !row.vocab) {
      throw InputError(
          "the model \"" + row.model +
          "\" is not known, and its sizes (layers, d_model, heads, ffn, vocab) are not given");
    }
    const std::string family = lower_case(row.family);
    if (family != "dense" && family != "moe" && !is_open(family)) {
      throw InputError("the family \"" + row.family +
                       "\" is not known; valid: dense, moe, unknown, or nothing");
    }
    if (family == "moe") {
      throw InputError("the model \"" + row.model +
                       "\" is not known, and the columns do not say the sizes of its experts");
    }
    shape.name = row.model;
    shape.kv_heads = *row.heads;
    // A gated feed-forward layer is as wide as makes it as large as one of four times the width.
    shape.gated = *row.ffn != 4 * *row.d_model;
    if (!shape.gated) {
      shape.norm = Norm::kLayer;
      shape.position = Position::kLearned;
      shape.biases = true;
    }
  }
  // A model with experts has its own meaning of `ffn`.
  if (row.layers && !shape.hybrid) shape.layers = *row.layers;
  if (row.d_model) shape.width = *row.d_model;
  if (row.heads) shape.heads = *row.heads;
  if (row.kv_heads) shape.kv_heads = *row.kv_heads;
  if (row.ffn && !shape.experts) shape.ffn = *row.ffn;
  if (row.vocab) shape.vocabulary = *row.vocab;
  shape.head_dim = head_dim_of(shape, known == nullptr ? ModelShape{} : *known);
  return shape;
}

// Throws InputError for words that none of the frameworks has.
Sharding sharding_of(const StepRow& row) {
  const std::string text = lower_case(row.sharding);
  if (const std::optional<Sharding> named = from_name<Sharding>(text)) return *named;
  if (has(text, "shard_grad_op") || has(text, "zero-2") || has(text, "zero2")) {
    return Sharding::kKeptWeights;
  }
  for (const std::string_view full :
       {"full_shard", "hybrid_shard", "fsdp", "hsdp", "zero-3", "zero3"}) {
    if (has(text, full)) return Sharding::kFull;
  }
  if (has(text, "distributed optimizer") || has(text, "zero-1") || has(text, "zero1")) {
    return Sharding::kOptimizer;
  }
  if (has(text, "ddp") || has(text, "none") || has(text, "no_shard")) return Sharding::kNone;
  if (!is_open(text)) {
    throw InputError(
        "the sharding \"" + row.sharding +
        "\" is not known; valid: FSDP, FULL_SHARD, HYBRID_SHARD, SHARD_GRAD_OP, ZeRO-1, "
        "ZeRO-2, ZeRO-3, distributed optimizer, DDP, NO_SHARD, not said, or nothing");
  }
  if (row.fsdp.value_or(1) > 1) return Sharding::kFull;
  return Sharding::kOptimizer;
}

// What a project's steps do unless a row or its recipe says otherwise.
struct Project {
  std::string_view part;  // a part of the row's framework and source, in lower case
  Execution execution = Execution::kEager;
  bool flash_attention = true;  // or cuDNN's kernels
  bool fused_loss = false;
  bool overlap_tp = false;          // TP's collectives run beside products
  bool copies_weights = true;       // FSDP copies what it gathered out of a flat buffer
  bool gathers_fp8 = false;         // weights travel in the precision of the products
  double gradient_bytes = 4.0;      // bytes of each gradient element that is reduced
  std::string_view recompute = {};  // empty if it is left open
};
// The first row that matches counts. Megatron's projects run Transformer Engine and fused
// operators, and reduce gradients in bf16. Sources: the projects' default configurations, at the
// commits that configs/steptimes/published.csv names.
constexpr Project megatron(std::string_view part) {
  return {.part = part,
          .execution = Execution::kLibrary,
          .flash_attention = false,
          .fused_loss = true,
          .overlap_tp = true,
          .copies_weights = false,
          .gathers_fp8 = true,
          .gradient_bytes = 2.0};
}
constexpr Project automodel() {
  Project project = megatron("automodel");
  project.copies_weights = true;
  return project;
}
constexpr Project kProjects[] = {
    automodel(),
    megatron("megatron"),
    megatron("nemo 2"),
    megatron("neox"),
    {.part = "torchtitan", .recompute = "selective"},
    {.part = "foundry", .fused_loss = true, .copies_weights = false},
    {.part = "composer", .fused_loss = true, .copies_weights = false},
    {.part = "llm.c", .execution = Execution::kLibrary},
    // Projects that compile every step.
    {.part = "jax", .execution = Execution::kCompiled},
    {.part = "maxtext", .execution = Execution::kCompiled},
    {.part = "xla", .execution = Execution::kCompiled},
    {.part = "levanter", .execution = Execution::kCompiled},
    {.part = "paxml", .execution = Execution::kCompiled},
};

Project project_of(const StepRow& row) {
  const std::string name = lower_case(row.framework + " " + row.source);
  const auto* found = std::find_if(std::begin(kProjects), std::end(kProjects),
                                   [&](const Project& each) { return has(name, each.part); });
  return found == std::end(kProjects) ? Project() : *found;
}

// What a recipe says of a run.
class RunRecipe {
 public:
  RunRecipe(const RecipeBook& book, const CsvRecord* record) : book_(book), record_(record) {}
  // Empty if there is no recipe.
  [[nodiscard]] std::string_view operator[](std::string_view column) const {
    return record_ == nullptr ? std::string_view() : book_.field(*record_, column);
  }

 private:
  const RecipeBook& book_;
  const CsvRecord* record_;
};

// The recipe of the same source and model that agrees with the row in the most important columns.
RunRecipe best_recipe(const StepRow& row, const RecipeBook& book) {
  const CsvRecord* best = nullptr;
  int most = -1;
  for (const CsvRecord& line : book.records) {
    const auto same = [&](std::string_view column, std::string_view value) {
      return book.field(line, column) == value;
    };
    if (!same("source_repo", row.source) || !same("model", row.model)) continue;
    int score = 0;
    if (same("gpu", row.gpu)) score += 64;
    if (same("software", row.software)) score += 32;
    if (same("gpus", std::to_string(row.gpus))) score += 16;
    if (same("task", row.task)) score += 8;
    if (same("precision", row.precision)) score += 4;
    if (same("pp", std::to_string(row.pp.value_or(1)))) score += 2;
    if (same("ep", std::to_string(row.ep.value_or(1)))) score += 1;
    if (score > most) {
      most = score;
      best = &line;
    }
  }
  return {book, best};
}

// What the column act_ckpt says, such as "no", "selective (op)" or "every 2nd layer", in the words
// of Recomputation. Empty if it leaves the question open; as it is if its words are not known.
std::string stated_recompute(const StepRow& row) {
  std::string text = lower_case(row.act_ckpt);
  if (is_open(text)) return "";
  std::string word(trimmed(std::string_view(text).substr(0, text.find('('))));
  for (const std::string_view none : {"none", "no", "off", "false", "0"}) {
    if (word == none) return "none";
  }
  for (const std::string_view full : {"full", "yes", "on", "true", "1"}) {
    if (word == full) return "full";
  }
  if (const std::size_t at = text.find("every"); at != std::string::npos) {
    if (has(text, "second") || has(text, "other")) return "every:2";
    const std::size_t digit = std::min(text.find_first_of("0123456789", at), text.size());
    const std::size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
    if (digit < end) return "every:" + text.substr(digit, end - digit);
  }
  if (has(word, ":")) return word;
  if (has(text, "selective")) return "selective";
  return text;
}

std::optional<Recomputation> recompute_of(const StepRow& row, const Project& project,
                                          const RunRecipe& recipe) {
  if (const std::string stated = stated_recompute(row); !stated.empty()) {
    try {
      return Recomputation::parse(stated);
    } catch (const TextError&) {
      throw InputError(
          "the act_ckpt \"" + row.act_ckpt +
          "\" is not known; valid: none, selective, full, every:N, selective:N, full:N, "
          "unknown, or nothing; words in parentheses may follow");
    }
  }
  if (!recipe["recompute"].empty()) return Recomputation::parse(recipe["recompute"]);
  if (!project.recompute.empty()) return Recomputation::parse(project.recompute);
  return std::nullopt;
}

Spread spread_of(const StepRow& row) {
  Spread spread{.fsdp = row.fsdp.value_or(1),
                .tp = row.tp.value_or(1),
                .pp = row.pp.value_or(1),
                .cp = row.cp.value_or(1),
                .ep = row.ep.value_or(1)};
  // The ranks that are left for replicas; 0 if the other degrees do not divide the GPUs.
  std::int64_t left = row.gpus;
  for (const std::int64_t ranks : {spread.fsdp, spread.tp, spread.pp, spread.cp}) {
    left = left % ranks == 0 ? left / ranks : 0;
  }
  spread.dp = row.dp_replicate.value_or(left);
  if (left == 0 || spread.dp != left) {
    spread.dp = std::max<std::int64_t>(1, spread.dp);
    throw InputError("dp_replicate * fsdp * tp * pp * cp (" + spread.text() +
                     ") is not the number of GPUs, " + std::to_string(row.gpus));
  }
  return spread;
}

// The global batch tells how many micro-batches a pipeline has, which some pages do not call
// accumulation.
std::int64_t grad_accum_of(const StepRow& row, const Spread& spread) {
  if (!row.global_batch) return row.grad_accum.value_or(1);
  const std::int64_t batch = *row.global_batch;
  const std::int64_t of_pass = *row.micro_batch * spread.dp * spread.fsdp;
  if (batch % of_pass != 0) {
    throw InputError("global_batch, " + std::to_string(batch) +
                     ", is no multiple of the sequences of one forward pass, micro_batch * "
                     "dp_replicate * fsdp, " +
                     std::to_string(of_pass));
  }
  const std::int64_t passes = batch / of_pass;
  const std::int64_t said = row.grad_accum.value_or(passes);
  if (spread.pp == 1 && said != passes) {
    throw InputError("global_batch, " + std::to_string(batch) +
                     ", is not micro_batch * dp_replicate * fsdp * grad_accum, " +
                     std::to_string(of_pass) + " * " + std::to_string(said));
  }
  return passes;
}

Task task_of(const StepRow& row) {
  const std::string text = lower_case(row.task);
  if (text == "lora") return Task::kLora;
  for (const std::string_view whole :
       {"pretrain", "pretraining", "sft", "finetuning", "fine-tuning"}) {
    if (text == whole) return Task::kPretrain;
  }
  if (is_open(text)) return Task::kPretrain;
  throw InputError("the task \"" + row.task +
                   "\" is not known; valid: pretrain, SFT, fine-tuning, LoRA, unknown, or nothing");
}

Execution execution_of(const StepRow& row, const Project& project) {
  const bool compiles = row.compile == "yes";
  if (!row.kernels.empty()) {
    const Execution said = *from_name<Execution>(row.kernels);
    if (compiles == (said == Execution::kCompiled) || is_open(row.compile)) return said;
    throw InputError(
        "compile is \"" + row.compile + "\", but kernels is \"" + row.kernels +
        "\"; valid: compile \"yes\" with kernels \"compiled\" alone, or one of the two");
  }
  if (compiles) return Execution::kCompiled;
  // Whatever runs Transformer Engine has its fused operators.
  return has(lower_case(row.software), "te +") ? Execution::kLibrary : project.execution;
}

double gradient_bytes_of(const StepRow& row, const Project& project) {
  if (!row.reduce_dtype.empty()) return itemsize(*from_name<DType>(row.reduce_dtype));
  // Composer's MP mode PURE reduces gradients in bf16, DEFAULT in f32.
  return has(row.unknown, "PURE") ? 2.0 : project.gradient_bytes;
}

void apply_defaults(const StepRow& row, const Project& project, TrainingRun& run) {
  run.execution = execution_of(row, project);
  run.flash_attention = project.flash_attention;
  run.fused_loss = project.fused_loss;
  run.overlap_tp = project.overlap_tp && run.precision != Precision::kNVFP4;
  run.copies_weights = project.copies_weights;
  run.gathers_fp8 = project.gathers_fp8 &&
                    (run.precision == Precision::kFP8 || run.precision == Precision::kMXFP8);
  if (project.part == "torchtitan" && run.execution == Execution::kCompiled) {
    // Since 2025 it compiles the loss too.
    run.compiled_loss = !has(row.software, "2024");
    run.fused_loss = run.compiled_loss;
  }
  run.gradient_bytes = gradient_bytes_of(row, project);
}

}  // namespace

std::string_view precision_trait(Precision precision) {
  return precision == Precision::kFP8 ? "fp8" : name_of(precision);
}

RecipeBook read_recipe_book(const std::filesystem::path& configs) {
  const std::filesystem::path path = configs / "steptimes" / "recipes.csv";
  return read_csv(read_text_file(path), path.filename().string());
}

PublishedRun published_run(const StepRow& row, const RecipeBook& book) {
  PublishedRun out;
  if (!row.tokens_per_s_per_gpu) throw InputError("tokens_per_s_per_gpu is not given");
  if (!row.seq) throw InputError("the length of the sequence (seq) is not given");
  if (!row.micro_batch) throw InputError("micro_batch is not given");
  const RowGpu gpu = gpu_of(row);
  out.topology = gpu.topology;
  out.devices_per_host = row.gpus_per_host.value_or(8);
  out.network = stated_network(row.inter_host, out.devices_per_host);
  const bool has_unknown_rate = !out.network.bandwidth_of_device;
  if (has_unknown_rate && gpu.topology == "h100" && has(lower_case(row.inter_host), "roce")) {
    out.topology = "h100-roce";
  }

  TrainingRun& run = out.run;
  run.shape = shape_of(row);
  run.spread = spread_of(row);
  run.sharding = sharding_of(row);
  run.seq = *row.seq;
  run.micro_batch = *row.micro_batch;
  run.grad_accum = grad_accum_of(row, run.spread);
  run.precision = precision_of(row);
  run.chunks = run.spread.pp > 1 ? row.vp.value_or(1) : 1;
  run.schedule = run.chunks > 1 ? PipelineSchedule::kInterleaved : PipelineSchedule::k1F1B;
  run.async_tp = row.async_tp == "yes";
  run.task = task_of(row);
  run.no_sync = row.no_sync == "yes";
  const Project project = project_of(row);
  apply_defaults(row, project, run);
  const RunRecipe recipe = best_recipe(row, book);
  run.recompute = recompute_of(row, project, recipe);
  run.graphs = recipe["cuda_graphs"] == "full";
  run.overlap_experts = recipe["experts_overlap"] == "yes";
  run.sends_once = !recipe["dispatcher"].empty() && recipe["dispatcher"] != "alltoall";
  if (recipe["mtp"] == "1") run.shape.predicted_tokens = 1;
  out.traits = {
      {"gpu", gpu.trait},
      {"source", row.source},
      {"software", row.software},
      {"execution", std::string(name_of(run.execution))},
      {"graphs", recipe["cuda_graphs"].empty() ? "none" : std::string(recipe["cuda_graphs"])},
      {"model", run.shape.experts ? "experts" : "dense"},
      {"attention", run.flash_attention ? "flash" : "cudnn"},
      {"precision", std::string(precision_trait(run.precision))}};
  expect_valid(run);
  return out;
}

}  // namespace shardlab
