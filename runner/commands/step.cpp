// shardlab step: predicts how long a training step takes.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/json_enum.h"
#include "runner/base/read_file.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/base/write_file.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/config/read_json.h"
#include "runner/evaluation/measured_groups.h"
#include "runner/evaluation/validation.h"
#include "runner/session/run_reports.h"
#include "runner/steps/predicted_step.h"
#include "runner/steps/profile_comparison.h"
#include "runner/steps/program_step.h"
#include "runner/steps/published_run.h"
#include "runner/steps/step_report.h"
#include "runner/steps/steps_answers.h"

namespace shardlab {
namespace {

// A prediction holds some kilobyte for each block, so that it stays below 100 MB.
constexpr std::uint64_t kMostLayers = std::uint64_t{1} << 16U;
constexpr std::uint64_t kMostOfASize = std::uint64_t{1} << 24U;

struct StepArguments {
  std::string model;
  std::string mesh;
  std::string stack{kStepStack};
  std::optional<std::int64_t> seq;
  std::int64_t micro_batch = 1;
  std::int64_t grad_accum = 1;
  std::string precision = "bf16";
  std::string recompute = "none";
  std::string sharding;
  std::string schedule;
  std::int64_t loss_chunks = 1;
  std::int64_t chunks = 1;
  bool compile = false;
  bool library = false;
  bool async_tp = false;
  bool cuda_graphs = false;
  bool no_sync = false;
  std::string reduce_dtype;
  std::string optimizer = "fused";
  double load_imbalance = 1.0;
  std::string attention = "flash";
  std::string source;
  std::string software;
  std::optional<std::int64_t> layers, width, heads, kv_heads, head_dim, ffn, vocabulary, experts,
      experts_per_token;
  std::string trace;
  std::string profile;
  std::vector<CommandOption> of_models;  // options that a program does not take
};

// Whether the model is named by a file, and so is a program.
bool is_program(const StepArguments& arguments) {
  return find_model_shape(arguments.model) == nullptr &&
         (arguments.model.ends_with(".json") || arguments.model.find('/') != std::string::npos);
}

// The heads of latent attention have sizes of their own, which no option changes.
void expect_plain_heads(const StepArguments& arguments, const ModelShape& shape) {
  if (!shape.latent) return;
  for (const auto& [given, name] :
       {std::pair(arguments.kv_heads, "--kv-heads"), std::pair(arguments.head_dim, "--head-dim")}) {
    if (!given) continue;
    throw InputError(std::string(name) + ": " + shape.name +
                     " has latent attention, which keeps one latent for the keys and values of all "
                     "heads; valid: without it");
  }
}

ModelShape shape_of(const StepArguments& arguments) {
  const ModelShape* known = find_model_shape(arguments.model);
  if (known == nullptr) {
    const std::vector<std::string> names = model_shape_names();
    const std::vector<std::string_view> views(names.begin(), names.end());
    throw InputError("step: unknown model \"" + arguments.model + "\"" +
                     did_you_mean(arguments.model, views) + "; valid: " + join(views));
  }
  ModelShape shape = *known;
  const auto set = [](const std::optional<std::int64_t>& given, std::int64_t& size) {
    if (given) size = *given;
  };
  set(arguments.layers, shape.layers);
  set(arguments.width, shape.width);
  set(arguments.heads, shape.heads);
  set(arguments.kv_heads, shape.kv_heads);
  set(arguments.ffn, shape.experts ? shape.experts->ffn : shape.ffn);
  set(arguments.vocabulary, shape.vocabulary);
  if (arguments.experts || arguments.experts_per_token) {
    if (!shape.experts) throw InputError("--experts: " + shape.name + " has no experts");
    set(arguments.experts, shape.experts->count);
    set(arguments.experts_per_token, shape.experts->per_token);
  }
  if (arguments.layers && shape.hybrid) {
    throw InputError("--layers: the blocks of " + shape.name +
                     " are of several kinds, so their number is fixed");
  }
  expect_plain_heads(arguments, shape);
  shape.head_dim = arguments.head_dim.value_or(head_dim_of(shape, *known));
  if (shape.head_dim == 0 && !shape.latent) {
    throw InputError("--heads: " + std::to_string(shape.heads) + " does not divide the width, " +
                     std::to_string(shape.width) + "; valid: a divisor, or with --head-dim");
  }
  return shape;
}

// The bytes that AdamW's step moves for each parameter, all in f32. Source: the operators of
// torch/optim/adamw.py in PyTorch 2.13.0. The fused kernel reads weight, gradient and two moments,
// and writes all but the gradient. The foreach form runs eight operators: the decay of the weights
// and the two moments' updates (8, 12, 8 and 12 bytes), square root, bias correction and epsilon (8
// each), and the update of the weights (16).
double update_bytes_of(std::string_view optimizer) { return optimizer == "fused" ? 28.0 : 80.0; }

// Nothing for auto.
std::optional<Recomputation> recomputation_of(const StepArguments& arguments) {
  if (arguments.recompute == "auto") return std::nullopt;
  return parse_option("--recompute", [&] { return Recomputation::parse(arguments.recompute); });
}

// Refuses --no-sync for runs that reduce their gradients once in any case.
void expect_sync(const TrainingRun& run) {
  const auto refuse = [](const std::string& found, const std::string& valid) {
    throw InputError("--no-sync: found " + found +
                     ", which reduces gradients once a step in any case; valid: " + valid);
  };
  if (!run.shards_weights()) {
    refuse("--sharding " + std::string(name_of(run.sharding)), "full or kept-weights");
  }
  if (run.spread.pp > 1) refuse("a mesh with a pipeline", "with pp=1");
  if (run.grad_accum == 1) refuse("a step of one micro-batch", "with --grad-accum above 1");
}

TrainingRun run_of(const StepArguments& arguments) {
  TrainingRun run;
  run.shape = shape_of(arguments);
  run.spread = parse_option("--mesh", [&] { return Spread::parse(arguments.mesh); });
  run.seq = arguments.seq.value_or(run.seq);
  run.micro_batch = arguments.micro_batch;
  run.grad_accum = arguments.grad_accum;
  run.precision = *from_name<Precision>(arguments.precision);
  run.recompute = recomputation_of(arguments);
  if (!arguments.sharding.empty()) {
    run.sharding = *from_name<Sharding>(arguments.sharding);
  } else {
    run.sharding = run.spread.fsdp > 1 ? Sharding::kFull : Sharding::kOptimizer;
  }
  if (arguments.compile && arguments.library) {
    throw InputError("--compile, --library: found both; valid: at most one of them");
  }
  run.execution = arguments.compile   ? Execution::kCompiled
                  : arguments.library ? Execution::kLibrary
                                      : Execution::kEager;
  run.chunks = arguments.chunks;
  run.loss_chunks = arguments.loss_chunks;
  if (arguments.compile) run.fused_loss = true;
  if (!arguments.schedule.empty()) {
    run.schedule = *from_name<PipelineSchedule>(arguments.schedule);
  } else if (run.chunks > 1) {
    run.schedule = PipelineSchedule::kInterleaved;
  }
  if (run.chunks > 1 && run.schedule != PipelineSchedule::kInterleaved) {
    throw InputError("--chunks: only the interleaved schedule has several stages on a rank");
  }
  if (!arguments.schedule.empty() && run.spread.pp == 1) {
    throw InputError("--schedule: found " + arguments.schedule +
                     " for a mesh without a pipeline; valid: with pp above 1");
  }
  if (run.schedule == PipelineSchedule::kInterleaved && run.chunks == 1) {
    throw InputError(
        "--schedule: found interleaved with one stage on each rank; valid: with --chunks above 1");
  }
  if (arguments.async_tp && run.spread.tp == 1) {
    throw InputError("--async-tp: found a mesh without tensor parallelism; valid: with tp above 1");
  }
  run.async_tp = arguments.async_tp;
  run.graphs = arguments.cuda_graphs;
  run.no_sync = arguments.no_sync;
  if (run.no_sync) expect_sync(run);
  run.update_bytes = update_bytes_of(arguments.optimizer);
  run.load_imbalance = arguments.load_imbalance;
  if (run.load_imbalance != 1.0 && !run.shape.experts) {
    throw InputError("--load-imbalance: " + run.shape.name + " has no experts");
  }
  run.flash_attention = arguments.attention == "flash";
  if (arguments.library) {
    run.fused_loss = true;
    run.copies_weights = false;
    run.gradient_bytes = 2.0;
  }
  if (!arguments.reduce_dtype.empty()) {
    run.gradient_bytes = itemsize(*from_name<DType>(arguments.reduce_dtype));
  }
  expect_valid(run);
  return run;
}

RunTraits traits_of(const StepArguments& arguments, const TrainingRun& run,
                    const Topology& topology) {
  return {{"gpu", topology.gpu()},
          {"source", arguments.source},
          {"software", arguments.software},
          {"execution", std::string(name_of(run.execution))},
          {"graphs", run.graphs ? "full" : "none"},
          {"model", run.shape.experts ? "experts" : "dense"},
          {"attention", arguments.attention},
          {"context", run.spread.cp > 1 ? "ring" : "whole"},
          {"precision", std::string(precision_trait(run.precision))}};
}

// What the command says, for a model or for a program.
struct PredictedStep {
  StepSubject subject;
  StepPrediction prediction;
  StepAssumptions assumed;
  std::vector<std::string> not_measured = {};  // see GapNotes
  std::string notes = {};                      // on the model and its mesh, a line each
};

// Refuses a source or software of which no term holds for this run: it would change nothing.
void expect_fitted(const StepTerms& terms, const std::string& option, const std::string& trait,
                   const RunTraits& traits) {
  const std::string& found = traits.at(trait);
  if (found.empty()) return;
  std::vector<std::string> known;
  for (const StepTerm& term : terms.terms) {
    const auto value = term.when.find(trait);
    if (value == term.when.end()) continue;
    if (value->second == found && term.holds(traits)) return;
    RunTraits other = traits;
    other[trait] = value->second;
    if (!term.holds(other)) continue;
    if (std::ranges::find(known, value->second) == known.end()) known.push_back(value->second);
  }
  throw InputError(option + ": found \"" + found +
                   "\", to which no term that holds for this run is fitted; valid: " +
                   (known.empty() ? "without it" : join(std::span<const std::string>(known))));
}

// A device without a rate for a dtype runs its products in another one. GPUs whose products scale
// blocks of elements, as mxfp8 and nvfp4 need, are those that have products in 4 bits.
void expect_precision(Precision precision, const Topology& topology) {
  if (precision == Precision::kBF16) return;
  const bool has_8_bits = topology.device().peak_tflops.contains("f8e4m3");
  const bool has_4_bits = topology.device().peak_tflops.contains("f4e2m1");
  const bool scales_blocks = precision == Precision::kMXFP8 || precision == Precision::kNVFP4;
  if (scales_blocks ? has_4_bits : has_8_bits) return;
  throw InputError(
      "--precision: found " + std::string(name_of(precision)) + ", but topology " +
      topology.name() + " states no rate of " +
      (scales_blocks ? "f4e2m1 (device.peak_tflops), which each GPU has whose products "
                       "scale blocks of elements"
                     : "f8e4m3 (device.peak_tflops)") +
      "; valid: bf16" + (has_8_bits ? ", fp8-tensorwise, fp8-rowwise, fp8-blockwise" : "") +
      ", or a GPU that has it");
}

// cuDNN runs on NVIDIA's GPUs. PyTorch gives AMD's gfx942 and gfx950 the capabilities 9.4 and 9.5,
// which no GPU of NVIDIA has.
void expect_attention(const std::string& attention, const Topology& topology) {
  const std::int64_t capability = topology.device().compute_capability.value_or(0);
  if (attention != "cudnn" || (capability != 94 && capability != 95)) return;
  throw InputError("--attention: found cudnn, but topology " + topology.name() +
                   " has a GPU of AMD (device.compute_capability " + std::to_string(capability) +
                   "), on which cuDNN does not run; valid: flash");
}

// Says how wide heads are whose width follows from --width or --heads.
std::string heads_note(const StepArguments& arguments, const ModelShape& shape) {
  const ModelShape& known = *find_model_shape(arguments.model);
  if (arguments.head_dim || shape.latent || shape.head_dim == known.head_dim) return "";
  return "  note: a head is " + std::to_string(shape.head_dim) + " wide, the width of " +
         std::to_string(shape.width) + " over " + std::to_string(shape.heads) +
         " heads; --head-dim says otherwise\n";
}

// Says that what is sharded over fsdp alone has no ranks to be sharded over.
std::string replicas_note(const TrainingRun& run) {
  const DataGroups groups = data_groups(run);
  const bool shards_experts = run.shape.experts && groups.expert_shards > 1;
  if (groups.shards > 1 || groups.replicas == 1 || shards_experts) return "";
  return "  note: " + std::string(name_of(run.sharding)) +
         " shards nothing here, since the ranks of dp are replicas; fsdp=" +
         std::to_string(groups.replicas) + " in place of dp=" + std::to_string(groups.replicas) +
         " shards over them\n";
}

PredictedStep predict_model(const StepArguments& arguments, const Stack& stack,
                            const Topology& topology, bool with_timeline) {
  const TrainingRun run = run_of(arguments);
  expect_precision(run.precision, topology);
  expect_attention(arguments.attention, topology);
  const auto collectives =
      stack.straggler.decorate(make_collective_model(stack.collective_model, topology));
  const auto kernels = make_compute_model(stack.compute_model, topology);
  const RunTraits traits = traits_of(arguments, run, topology);
  expect_fitted(step_terms_of(stack), "--source", "source", traits);
  expect_fitted(step_terms_of(stack), "--software", "software", traits);
  const StepFactors factors = step_terms_of(stack).factors(traits);
  const GapNotes noted(*collectives);
  const StepModel model{noted, *kernels, topology, factors};
  const double device_bytes = topology.device().memory_gib * kBytesPerGiB;
  StepPrediction prediction = run.recompute
                                  ? predict_step(StepWork(run, device_bytes), model, with_timeline)
                                  : predict_fitting_step(run, model, with_timeline);
  return {subject_of(run),
          std::move(prediction),
          {stack, traits, settings_of(run)},
          noted.not_measured(),
          heads_note(arguments, run.shape) + replicas_note(run)};
}

// Why the step may be longer than that of DDP or FSDP.
std::string batch_norms_note(const ProgramStep& step) {
  if (!step.joins_batch_norms) return "";
  return "  note: batch norms take their statistics from the whole batch here, as the program "
         "does, and move activations for them; in DDP and FSDP each rank takes its own and moves "
         "nothing, so that their step is shorter\n";
}

PredictedStep predict_program(const StepArguments& arguments, const ConfigStore& store,
                              const Stack& stack, const Topology& topology, bool with_timeline) {
  for (const CommandOption& option : arguments.of_models) {
    if (!option.is_given()) continue;
    throw InputError("step: " + option.name() +
                     " is for a built-in model, but a program's file says it; valid: without it");
  }
  ProgramRun run{.program = arguments.model,
                 .spread = parse_option("--mesh", [&] { return Spread::parse(arguments.mesh); }),
                 .grad_accum = arguments.grad_accum,
                 .sharding = {},
                 .recompute = recomputation_of(arguments),
                 .compiled = arguments.compile};
  if (!arguments.sharding.empty()) run.sharding = *from_name<Sharding>(arguments.sharding);
  ProgramStep step = predict_program_step(run, store, stack, topology, with_timeline);
  const std::string notes = batch_norms_note(step);
  return {std::move(step.subject),
          std::move(step.prediction),
          {stack,
           std::move(step.traits),
           {{"program", arguments.model},
            {"recipe", step.recipe},
            {"micro-batches between two optimizer steps", std::to_string(run.grad_accum)},
            {"kernels", run.compiled ? "compiled" : "eager"}},
           std::move(step.blocks)},
          {},
          notes};
}

// A stack without terms that were fitted to training steps, such as one that `calibrate` made of a
// log, prices kernels as its models do, which is faster than they run.
std::string terms_note(const StepAssumptions& assumed) {
  const StepTerms terms = step_terms_of(assumed.stack);
  const auto holds = [&](const StepTerm& term) { return term.holds(assumed.traits); };
  if (std::any_of(terms.terms.begin(), terms.terms.end(), holds)) return "";
  return "  note: " + printable(assumed.stack.name) +
         " has no terms fitted to training steps, so kernels and transfers take what its models "
         "say; `calibrate --steps published --stack " +
         printable(assumed.stack.name) + " --out FILE` fits them\n";
}

// A topology whose GPU no term is fitted to takes the terms of all GPUs.
std::string fitted_gpus_note(const StepAssumptions& assumed, bool is_known) {
  const std::string& gpu = assumed.traits.at("gpu");
  std::set<std::string> fitted;
  for (const StepTerm& term : step_terms_of(assumed.stack).terms) {
    const auto of = term.when.find("gpu");
    if (of != term.when.end()) fitted.insert(of->second);
  }
  if (fitted.empty() || fitted.contains(gpu)) return "";
  const std::vector<std::string> names(fitted.begin(), fitted.end());
  return "  note: " + printable(assumed.stack.name) + " has no terms fitted to the GPU " +
         printable(gpu) + " and takes those of all GPUs" +
         (is_known ? "\n"
                   : "; if it is one of " + join(std::span<const std::string>(names)) +
                         ", --set device.gpu=NAME says so\n");
}

// Why an eager step of a program may be longer than that of a built-in model.
std::string kernels_note(const StepArguments& arguments) {
  if (!is_program(arguments) || arguments.compile) return "";
  return "  note: each operator of the program is a kernel of its own, as it was traced; where the "
         "model's modules run fused kernels, its other kernels take less. --compile fuses them\n";
}

// A profile of another GPU than the prediction's shows how the GPUs differ, and not how far it is
// off.
std::string gpu_note(const StepProfile& profile, const Topology& topology) {
  const std::string shipped(topology_of_gpu(profile.gpu));
  if (shipped.empty() || is_topology_of(topology, profile.gpu)) return "";
  const std::string advice = has_own_topology(profile.gpu)
                                 ? "--topology " + shipped + " predicts the profiled GPU"
                                 : "no topology of the profiled GPU is shipped, and " + shipped +
                                       " is that of the most similar one";
  return "  note: the profile is of " + printable(profile.gpu) + ", and the prediction of " +
         printable(topology.name()) + "; " + advice + "\n";
}

std::string groups_note(const PredictedStep& step) {
  if (step.not_measured.empty()) return "";
  return "  note: prices of collectives are " + carried_over_text(step.not_measured) + "\n";
}

// Why a change may change nothing of a step.
std::string unread_reason(const Override& change, const std::string& stack) {
  if (change.target == "stack") {
    return "nothing that the step consists of reads it, or it is what the stack says already";
  }
  return "its ranks do not use it, or the models of the stack " + printable(stack) +
         " do not read it";
}

using Predictor = std::function<PredictedStep(const Stack&, const Topology&)>;

// The changes of the topology and of the stack that leave the whole answer as it is: `predict`
// predicts the step under a stack and on a topology. Without its change one of them may be refused,
// so that the change matters.
std::vector<Override> unread_changes(const Session& session, const std::string& stack,
                                     const PredictedStep& step, const Predictor& predict) {
  const ConfigStore store = session.store();
  const nlohmann::json with_all =
      step_json(step.subject, step.prediction, store.topology(session.topology));
  std::vector<Override> unread;
  for (std::size_t i = 0; i < store.overrides().size(); ++i) {
    std::vector<Override> others = store.overrides();
    const Override change = others[i];
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    try {
      const ConfigStore unchanged(configs_root(), others);
      const Stack by = unchanged.stack(stack);
      expect_step_prices(by, stack);
      const Topology topology = unchanged.topology(session.topology);
      const PredictedStep without = predict(by, topology);
      if (step_json(without.subject, without.prediction, topology) != with_all) continue;
    } catch (const ConfigError&) {
      continue;  // without the change there is no step, so that it is read
    } catch (const InputError&) {
      continue;
    }
    unread.push_back(change);
  }
  return unread;
}

std::string unread_changes_note(const std::vector<Override>& unread, const std::string& stack) {
  std::string note;
  for (const Override& change : unread) {
    note += "  note: --set " + printable(change.text) +
            " changes nothing of this step: " + unread_reason(change, stack) + "\n";
  }
  return note;
}

std::optional<StepProfile> profile_of(const StepArguments& arguments) {
  if (arguments.profile.empty()) return std::nullopt;
  const nlohmann::json json = parse_json(read_text_file(arguments.profile), arguments.profile);
  return read_step_profile(json, {arguments.profile, ""});
}

void run_step(const StepArguments& arguments, Session& session) {
  const StopWatch watch;
  prepare_out(session);
  const std::optional<StepProfile> profile = profile_of(arguments);
  if (profile && writes_report(session)) {
    throw InputError(
        "--profile: a report does not show the comparison; valid: without --out and --summary");
  }
  const ConfigStore store = session.store();
  const Stack stack = store.stack(arguments.stack);
  expect_step_prices(stack, arguments.stack);
  const Topology topology = store.topology(session.topology);
  const bool with_timeline = !arguments.trace.empty() || writes_report(session);
  const Predictor predict = [&](const Stack& by, const Topology& on) {
    return is_program(arguments) ? predict_program(arguments, store, by, on, with_timeline)
                                 : predict_model(arguments, by, on, with_timeline);
  };
  const PredictedStep step = predict(stack, topology);
  if (!arguments.trace.empty()) {
    expect_no_input("--trace", arguments.trace);
    write_file(arguments.trace,
               [&](std::ostream& out) { write_step_trace(out, step.subject, step.prediction); });
  }
  if (writes_report(session)) {
    reports::RunHeader header = header_of(session);
    header.configuration.topology = topology.to_json();
    header.configuration.stacks = {stack.to_json()};
    write_run(session,
              {.kind = reports::kStepKind,
               .header = std::move(header),
               .result = step_record_json(step.subject, step.prediction, topology, step.assumed),
               .wall_ms = watch.ms()});
  }
  if (session.json()) {
    nlohmann::json json = step_json(step.subject, step.prediction, topology);
    if (!step.not_measured.empty()) json["not_measured"] = step.not_measured;
    for (const Override& change : unread_changes(session, arguments.stack, step, predict)) {
      json["unread_changes"].push_back(change.text);
    }
    if (profile) {
      json["profile"] =
          comparison_json(compared_parts(step.prediction, *profile), *profile, arguments.profile);
    }
    session.print(json);
  } else if (!session.summary) {
    const std::vector<std::string> shipped = store.names(ConfigKind::kTopology);
    // A shipped topology's GPU is known, and none of those that have terms.
    const bool is_known = std::ranges::find(shipped, topology.gpu()) != shipped.end();
    std::string text = step_text(step.subject, step.prediction, topology, session.style());
    if (profile) {
      text += comparison_text(compared_parts(step.prediction, *profile), *profile,
                              arguments.profile, session.style()) +
              gpu_note(*profile, topology);
    }
    session.print(text + step.notes + terms_note(step.assumed) +
                  fitted_gpus_note(step.assumed, is_known) + kernels_note(arguments) +
                  groups_note(step) +
                  unread_changes_note(unread_changes(session, arguments.stack, step, predict),
                                      step.assumed.stack.name) +
                  report_line(session));
  }
}

}  // namespace

void add_step_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<StepArguments>();
  const Command command = root.subcommand(
      "step",
      "predict how long a training step takes, what memory it needs and where the time goes\n  "
      "shardlab step llama3-8b --topology h100 --mesh fsdp=8 --seq 8192 --micro-batch 2 --compile\n"
      "  shardlab step llama3-405b --mesh dp=128,tp=8,pp=16 --seq 8192 --grad-accum 128 "
      "--recompute full --library");
  command
      .option("model", arguments->model,
              "the path of a shardlab/program/1, or a model: " +
                  join(std::span<const std::string>(model_shape_names())))
      .required();
  command
      .option("--mesh", arguments->mesh,
              "ranks of each kind of parallelism: dp (replicas), fsdp (shards), tp, pp, cp, ep "
              "(experts, among the others)")
      .required();
  add_topology_option(command, session);
  command.option("--stack", arguments->stack, "shipped name or path").show_default();
  command.option("--seq", arguments->seq, "tokens of a sequence; default: 4096")
      .check(integer_from(1, 1 << 24));
  command
      .option("--micro-batch", arguments->micro_batch,
              "sequences of each data-parallel rank in one forward pass")
      .check(integer_from(1, 1 << 20))
      .show_default();
  command
      .option("--grad-accum", arguments->grad_accum,
              "forward passes between two optimizer steps; with a pipeline, its micro-batches")
      .check(integer_from(1, 1 << 16))
      .show_default();
  command.flag("--no-sync", arguments->no_sync,
               "sum up the whole gradients of a rank and reduce them with the last micro-batch "
               "alone, as FSDP2 does under set_requires_gradient_sync(False)");
  command
      .option("--reduce-dtype", arguments->reduce_dtype,
              "dtype in which gradients are reduced, as reduce_dtype of FSDP2's "
              "MixedPrecisionPolicy; default: f32, or bf16 with --library")
      .check(one_of({"bf16", "f32"}));
  command
      .option("--precision", arguments->precision, "number format in which linear layers compute")
      .check(one_of<Precision>())
      .show_default();
  command
      .option(
          "--recompute", arguments->recompute,
          "what the backward pass computes again: none, full, selective, either for the first N "
          "blocks (full:N), every:N, or auto (the shortest step that fits; of a program, none, "
          "selective or full)")
      .show_default();
  command
      .option("--sharding", arguments->sharding,
              "what data-parallel ranks share: full (FSDP), kept-weights (ZeRO-2), optimizer "
              "(ZeRO-1) or none (DDP); default: full if fsdp is above 1, otherwise optimizer, or "
              "none for a program")
      .check(one_of<Sharding>());
  command.flag("--compile", arguments->compile, "fuse kernels as torch.compile does");
  command.flag("--library", arguments->library,
               "hand-written kernels for norms, activations and losses, as in Megatron");
  command
      .option("--attention", arguments->attention,
              "FlashAttention-2, or the kernels that cuDNN has for the GPU")
      .check(one_of({"flash", "cudnn"}))
      .show_default();
  command.flag("--async-tp", arguments->async_tp,
               "cut up tensor parallelism's collectives and run them beside the matmuls");
  command.flag(
      "--cuda-graphs", arguments->cuda_graphs,
      "replay the step's kernels from CUDA graphs, so that the host launches none of them");
  command.option("--source", arguments->source,
                 "use the terms that `calibrate --steps` fitted to runs of this source_repo, such "
                 "as your own");
  command.option("--software", arguments->software,
                 "use the terms that were fitted to runs of this software");
  command
      .option("--optimizer", arguments->optimizer,
              "AdamW in one fused kernel, or as PyTorch's foreach operators")
      .check(one_of({"fused", "foreach"}))
      .show_default();
  command
      .option("--load-imbalance", arguments->load_imbalance,
              "tokens of the busiest expert's rank, divided by the mean of all ranks")
      .check(number_from(1.0, 1e6))
      .show_default();
  command
      .option("--schedule", arguments->schedule,
              "order in which the pipeline's ranks run their passes; default: 1f1b, or interleaved "
              "with --chunks")
      .check(one_of<PipelineSchedule>());
  command.option("--chunks", arguments->chunks, "stages that each rank of the pipeline holds")
      .check(integer_from(1, 1 << 10))
      .show_default();
  command
      .option("--loss-chunks", arguments->loss_chunks,
              "parts of the tokens for which logits and loss are computed in turn")
      .check(integer_from(1, 1 << 16))
      .show_default();
  const std::vector<std::tuple<std::string, std::optional<std::int64_t>*, std::string>> sizes = {
      {"--layers", &arguments->layers,
       "number of blocks; the default of this option and of those below comes from the model"},
      {"--width", &arguments->width, "width of the residual stream"},
      {"--heads", &arguments->heads, "attention heads"},
      {"--kv-heads", &arguments->kv_heads, "heads of keys and values"},
      {"--head-dim", &arguments->head_dim,
       "width of a head; default: the width over the heads, where the model's own heads make up "
       "its width"},
      {"--ffn", &arguments->ffn, "width of the feed-forward layer, or of an expert"},
      {"--vocabulary", &arguments->vocabulary, "tokens in the vocabulary"},
      {"--experts", &arguments->experts, "experts of a layer"},
      {"--experts-per-token", &arguments->experts_per_token, "experts that each token goes to"}};
  for (const auto& [name, size, help] : sizes) {
    const bool counts_blocks = size == &arguments->layers;
    command.option(name, *size, help)
        .check(integer_from(1, counts_blocks ? kMostLayers : kMostOfASize));
  }
  command.option("--trace", arguments->trace,
                 "write the timeline of one micro-batch as a trace for ui.perfetto.dev");
  command.option("--profile", arguments->profile,
                 "compare the prediction with a trace of this step, which PyTorch's profiler wrote "
                 "on one rank");
  add_report_options(command, session);
  add_common_options(command, session, {.sets = true, .digits = true});
  for (const char* name : {"--seq",
                           "--micro-batch",
                           "--no-sync",
                           "--reduce-dtype",
                           "--precision",
                           "--library",
                           "--attention",
                           "--source",
                           "--software",
                           "--async-tp",
                           "--cuda-graphs",
                           "--optimizer",
                           "--chunks",
                           "--schedule",
                           "--loss-chunks",
                           "--load-imbalance",
                           "--layers",
                           "--width",
                           "--heads",
                           "--kv-heads",
                           "--head-dim",
                           "--ffn",
                           "--vocabulary",
                           "--experts",
                           "--experts-per-token"}) {
    arguments->of_models.push_back(command.declared(name));
  }
  command.runs([arguments, &session] { run_step(*arguments, session); });
}

}  // namespace shardlab
