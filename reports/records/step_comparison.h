// What a change of stack does to the training step of a program, in a comparison's record: time and
// peak memory of the step under the baseline's decisions and under a candidate's, both priced by
// the reference, and what each flipped decision changes alone. Times are in microseconds, sizes in
// bytes. strategies/steps/eager_step.h says how they come about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/fields.h"
#include "reports/records/flattened_meshes.h"

namespace shardlab {
namespace reports {

struct StepPair {
  double baseline = 0.0;
  std::optional<double> candidate;  // nothing if the candidate's decisions can't run
  friend bool operator==(const StepPair&, const StepPair&) = default;
};

struct StepFlip {
  std::string node;        // the first node that is decided so
  std::int64_t count = 1;  // how many nodes are
  std::string op;
  std::vector<std::string> inputs;
  std::string baseline;
  std::string candidate;
  double delta_step_us = 0.0;
  double delta_peak_bytes = 0.0;
  // Nothing in older records.
  std::optional<double> delta_local_us = {}, delta_sum_us = {};
  std::optional<std::int64_t> followers = {};
  friend bool operator==(const StepFlip&, const StepFlip&) = default;
};

struct StepComparison {
  std::string program;
  std::string mesh;
  std::string sources;     // where the layouts of parameters and inputs come from
  std::string candidate;   // the stack
  std::string cannot_run;  // why the candidate's decisions can't run; "" if they can
  StepPair step_us;
  StepPair peak_bytes;
  std::optional<double> device_bytes;  // what a device has; nothing in older records
  std::vector<StepFlip> flips;         // the largest change of the step's time first
  // Under the decisions of the baseline, and of the candidate if it can run; empty if nobody asked.
  std::vector<FlattenedMeshes> flattened_meshes = {};
  friend bool operator==(const StepComparison&, const StepComparison&) = default;
};

}  // namespace reports

template <>
struct Fields<reports::StepPair> {
  using Self = reports::StepPair;
  static constexpr std::string_view kName = "step_pair";
  static constexpr auto kList =
      std::tuple(field("baseline", &Self::baseline, ""),
                 field("candidate", &Self::candidate, "null: it can't run"));
};

template <>
struct Fields<reports::StepFlip> {
  using Self = reports::StepFlip;
  static constexpr std::string_view kName = "step_flip";
  static constexpr std::string_view kMeaning =
      "a decision that flips: what the step changes if it alone is taken, wherever it is made";
  static constexpr auto kList = std::tuple(
      field("node", &Self::node, "the first node that is decided so"),
      field("count", &Self::count, "how many nodes of the program are", {.min = 1}),
      field("op", &Self::op, "aten.mm.default, or redistribute"),
      field("inputs", &Self::inputs, ""), field("baseline", &Self::baseline, "choice and paths"),
      field("candidate", &Self::candidate, "choice and paths"),
      field("delta_step_us", &Self::delta_step_us, "negative: the step becomes shorter"),
      field("delta_peak_bytes", &Self::delta_peak_bytes, "negative: the step takes less memory"),
      optional_field("delta_local_us", &Self::delta_local_us,
                     "of these nodes alone: their kernels and what brings their inputs there"),
      optional_field("delta_sum_us", &Self::delta_sum_us,
                     "of all kernels and moves of the step, with what follows from the flip"),
      optional_field("followers", &Self::followers,
                     "how many other nodes take other layouts because of it"));
};

template <>
struct Fields<reports::StepComparison> {
  using Self = reports::StepComparison;
  static constexpr std::string_view kName = "step_comparison";
  static constexpr std::string_view kMeaning =
      "the training step of a program under the baseline's decisions and under a candidate's";
  static constexpr auto kList = std::tuple(
      field("program", &Self::program, ""), field("mesh", &Self::mesh, "2x4"),
      field("sources", &Self::sources, "where the layouts of parameters and inputs come from"),
      field("candidate", &Self::candidate, "the stack that is compared with the baseline"),
      nullable_text("cannot_run", &Self::cannot_run,
                    "why the candidate's decisions can't run; null: they can"),
      field("step_us", &Self::step_us, "simulated, priced by the reference"),
      field("peak_bytes", &Self::peak_bytes, "of one device"),
      optional_field("device_bytes", &Self::device_bytes, "the memory of one device", kAmount),
      field("flips", &Self::flips, "the largest change of the step's time first"),
      optional_field("flattened_meshes", &Self::flattened_meshes,
                     "with --advise-flattened: of the baseline, then of the candidate"));
};

}  // namespace shardlab
