// The record of a predicted training step: the JSON that `step` prints, with the timeline and what
// was assumed, checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/run_header.h"

namespace shardlab {
namespace reports {

inline constexpr std::string_view kStepKind = "step";

struct StepMemoryParts {
  double parameters = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double activations = 0.0;
  double gathered = 0.0;
  double temporary = 0.0;
};

struct PredictedMemory {
  double peak_bytes = 0.0;
  double device_bytes = 0.0;
  bool fits = false;
  StepMemoryParts parts;
};

struct StepTimes {
  double gemm = 0.0;
  double attention = 0.0;
  double other = 0.0;
  std::map<std::string, double> exposed;  // by kind of collective
  double bubble = 0.0;
  double host = 0.0;
};

// One bar of the picture: a task, or several that follow each other.
struct PicturedTask {
  std::string stream;
  std::string name;
  std::int64_t tasks = 1;
  double start_ms = 0.0;
  double end_ms = 0.0;
};

// A fact that the prediction rests on.
struct StepSetting {
  std::string name;
  std::string value;
};

// A term of the stack that applied.
struct AppliedTerm {
  std::string factor;
  std::string help;
  std::string when;  // "gpu h100, execution eager"
  double value = 1.0;
  std::optional<double> low;  // 95 %, if it was fitted
  std::optional<double> high;
};

struct AssumedOfStep {
  std::string stack;
  std::string title;
  std::string source;
  std::vector<StepSetting> settings;
  std::vector<AppliedTerm> terms;
};

struct StepRecord : ResultRecord {
  std::string model;
  std::string topology;
  std::string mesh;
  std::int64_t ranks = 1;
  double tokens_per_s_per_gpu = 0.0;
  double step_ms = 0.0;
  double mfu_percent = 0.0;
  double tokens_per_step = 0.0;
  std::string recompute;
  PredictedMemory memory;
  StepTimes times;
  std::vector<PicturedTask> timeline;
  AssumedOfStep assumed;
};

// Throws ConfigError, which names `file` and a JSON pointer that begins with /result.
[[nodiscard]] StepRecord read_step_record(ResultRecord record, std::string_view file);

}  // namespace reports

template <>
struct Fields<reports::StepMemoryParts> {
  using Self = reports::StepMemoryParts;
  static constexpr std::string_view kName = "step_memory_parts";
  static constexpr std::string_view kMeaning = "bytes on one device";
  static constexpr auto kList =
      std::tuple(field("parameters", &Self::parameters, "", kAmount),
                 field("gradients", &Self::gradients,
                       "those that are kept; without accumulation less the activations, which go "
                       "while gradients come",
                       kAmount),
                 field("optimizer", &Self::optimizer, "", kAmount),
                 field("activations", &Self::activations, "", kAmount),
                 field("gathered", &Self::gathered,
                       "weights that were gathered, and the gradients of one unit that are about "
                       "to be reduced",
                       kAmount),
                 field("temporary", &Self::temporary, "", kAmount));
};

template <>
struct Fields<reports::PredictedMemory> {
  using Self = reports::PredictedMemory;
  static constexpr std::string_view kName = "predicted_memory";
  static constexpr auto kList =
      std::tuple(field("peak_bytes", &Self::peak_bytes, "", kAmount),
                 field("device_bytes", &Self::device_bytes, "", kAmount),
                 field("fits", &Self::fits, ""), field("parts", &Self::parts, ""));
};

template <>
struct Fields<reports::StepTimes> {
  using Self = reports::StepTimes;
  static constexpr std::string_view kName = "step_times";
  static constexpr std::string_view kMeaning = "where a step's time goes, in milliseconds";
  static constexpr auto kList = std::tuple(
      field("gemm", &Self::gemm, ""), field("attention", &Self::attention, ""),
      field("other", &Self::other, ""),
      field("exposed", &Self::exposed, "in which nothing but communication runs, by its kind"),
      field("bubble", &Self::bubble, "of the pipeline"), field("host", &Self::host, ""));
};

template <>
struct Fields<reports::PicturedTask> {
  using Self = reports::PicturedTask;
  static constexpr std::string_view kName = "pictured_task";
  static constexpr auto kList =
      std::tuple(field("stream", &Self::stream, ""), field("name", &Self::name, ""),
                 field("tasks", &Self::tasks, "how many the bar stands for"),
                 field("start_ms", &Self::start_ms, ""), field("end_ms", &Self::end_ms, ""));
};

template <>
struct Fields<reports::StepSetting> {
  using Self = reports::StepSetting;
  static constexpr std::string_view kName = "step_setting";
  static constexpr auto kList =
      std::tuple(field("name", &Self::name, ""), field("value", &Self::value, ""));
};

template <>
struct Fields<reports::AppliedTerm> {
  using Self = reports::AppliedTerm;
  static constexpr std::string_view kName = "applied_term";
  static constexpr std::string_view kMeaning = "a fitted term of the stack that holds for the run";
  static constexpr auto kList = std::tuple(
      field("factor", &Self::factor, ""), field("help", &Self::help, "what the factor is"),
      field("when", &Self::when, "the runs that it is for; empty: all"),
      field("value", &Self::value, ""), field("low", &Self::low, "95 %; null: it was not fitted"),
      field("high", &Self::high, ""));
};

template <>
struct Fields<reports::AssumedOfStep> {
  using Self = reports::AssumedOfStep;
  static constexpr std::string_view kName = "assumed_of_step";
  static constexpr auto kList =
      std::tuple(field("stack", &Self::stack, ""), field("title", &Self::title, ""),
                 field("source", &Self::source, "of the stack's prices and terms"),
                 field("settings", &Self::settings, ""), field("terms", &Self::terms, ""));
};

// The part of the record that is under "result".
template <>
struct Fields<reports::StepRecord> {
  using Self = reports::StepRecord;
  static constexpr std::string_view kName = "step_prediction";
  static constexpr std::string_view kMeaning = "a predicted training step";
  static constexpr auto kList =
      std::tuple(field("model", &Self::model, "the model or the program"),
                 field("topology", &Self::topology, ""), field("mesh", &Self::mesh, ""),
                 field("ranks", &Self::ranks, ""),
                 field("tokens_per_s_per_gpu", &Self::tokens_per_s_per_gpu,
                       "an image or a video of a program counts as one"),
                 field("step_ms", &Self::step_ms, ""),
                 field("mfu_percent", &Self::mfu_percent, "of the peak rate in bf16"),
                 field("tokens_per_step", &Self::tokens_per_step, "of all ranks"),
                 field("recompute", &Self::recompute, "what the backward pass computes again"),
                 field("memory", &Self::memory, ""), field("breakdown_ms", &Self::times, ""),
                 field("timeline", &Self::timeline,
                       "one micro-batch of one rank; in a pipeline, of the first stage"),
                 field("assumed", &Self::assumed, ""));
};

}  // namespace shardlab
