// The record of one redistribution: the JSON that `plan` prints, with who holds what between the
// steps, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/price_basis.h"
#include "reports/records/run_header.h"

namespace shardlab {
namespace reports {

inline constexpr std::string_view kPlanKind = "plan";
inline constexpr std::string_view kLocalStep = "local";  // a collective that sends nothing

struct PlannedParts {
  std::optional<double> latency_us, transfer_us, compute_us, straggler_us;
};

// A way to run the collective of a step that the model weighed.
struct PlannedAlternative {
  std::string algorithm, protocol;
  std::optional<double> price_us;
  PlannedParts parts;
};

struct PlannedStep {
  std::string collective;
  std::vector<std::int64_t> mesh_dims;
  std::string from, to;
  std::vector<std::int64_t> logical_shape;
  double full_bytes = 0.0;
  std::optional<double> price_us;
  std::optional<double> low_us = {}, high_us = {};
  PlannedParts parts;
  std::string flattened_mesh;  // "" if the step is not merged
  std::optional<std::int64_t> avg_scale;
  std::vector<PlannedAlternative> alternatives;
};

struct PlanWarning {
  std::string reason;
  std::vector<std::int64_t> mesh_dims;
  std::int64_t steps = 0;
};

struct PlannedBounds {
  std::optional<double> volume_ratio, time_ratio, memory_ratio;
};

// Indices of one tensor dim that a device holds, from `begin` to before `end`.
struct HeldRange {
  std::int64_t dim = 0, begin = 0, end = 0;
};

struct HoldingDevice {
  std::int64_t rank = 0;
  std::int64_t part = 0, parts = 1;
  std::string label;    // "part 3", "all" or "none"
  std::string partial;  // "sum 2/4"; "" if the values are final
  std::string slice;    // "[0:4096, :]"
  std::vector<HeldRange> ranges;
};

struct HeldLayout {
  std::string layout;
  std::string holds;
  std::vector<HoldingDevice> devices;
};

// What happens between two layouts, beside what the step says.
struct PlannedMove {
  std::string along;
  bool along_row_dim = false, along_column_dim = false;
  std::int64_t groups = 1, group_size = 1;
  std::vector<std::int64_t> first_group;
  std::optional<std::int64_t> bytes_moved;
};

// The devices of a mesh, or of a slice of it, as a grid.
struct PlanDrawing {
  std::vector<std::int64_t> shape;
  std::int64_t rows = 1, columns = 1;
  std::string row_name, column_name;
  std::string left_out;
  std::vector<HeldLayout> layouts;
  std::vector<PlannedMove> moves;
};

struct ComparedStep {
  std::string collective, from, to;
  std::optional<double> price_us;
};

// The plan of another stack or planner, priced by the stack that was asked first.
struct ComparedPlan {
  std::string name;
  std::string path;
  std::optional<double> price_us;  // by its own stack
  std::optional<double> here_us;
  std::int64_t collectives = 0;
  std::optional<std::int64_t> bytes_moved;
  std::string impossible, unexecutable;
  std::vector<ComparedStep> steps;
  std::optional<bool> runs_unpriced = {};  // as in PlanRecord

  [[nodiscard]] bool has_no_plan() const { return !impossible.empty() && !runs_unpriced; }
};

struct PlanRecord : ResultRecord {
  std::string stack, topology, mesh, tensor, from, to, path;
  std::vector<PlannedStep> steps;
  std::optional<double> price_us;
  PlannedParts parts;
  double transition_us = 0.0;
  std::optional<double> executed_us;
  std::string impossible, unexecutable;
  // True if the plan runs although the stack has no finite price for it; otherwise nothing.
  std::optional<bool> runs_unpriced = {};
  double optimal_paths = 0.0;
  std::vector<PlanWarning> warnings;
  PlannedBounds bounds;
  PlanDrawing drawing;
  std::vector<ComparedPlan> against;
  std::optional<PriceBasis> basis;  // nothing: the stack's model of collectives has no rows
  // The 95 % interval of executed_us, if the stack's model of collectives knows its error.
  std::optional<double> low_us = {}, high_us = {};

  // Whether there are no steps that take the tensor to its layout.
  [[nodiscard]] bool has_no_plan() const { return !impossible.empty() && !runs_unpriced; }
  [[nodiscard]] std::int64_t collectives() const;
  // Between all devices; empty if a step has too many ranks to count.
  [[nodiscard]] std::optional<std::int64_t> bytes_moved() const;
};

// Throws ConfigError, which names `file` and a JSON pointer that begins with /result.
[[nodiscard]] PlanRecord read_plan_record(ResultRecord record, std::string_view file);

}  // namespace reports

template <>
struct Fields<reports::PlannedParts> {
  using Self = reports::PlannedParts;
  static constexpr std::string_view kName = "planned_parts";
  static constexpr std::string_view kMeaning =
      "the parts of a price, in microseconds; null: impossible";
  static constexpr auto kList = std::tuple(
      field("latency", &Self::latency_us, ""), field("transfer", &Self::transfer_us, ""),
      field("compute", &Self::compute_us, ""), field("straggler", &Self::straggler_us, ""));
};

template <>
struct Fields<reports::PlannedAlternative> {
  using Self = reports::PlannedAlternative;
  static constexpr std::string_view kName = "planned_alternative";
  static constexpr auto kList =
      std::tuple(field("algorithm", &Self::algorithm, ""), field("protocol", &Self::protocol, ""),
                 field("price_us", &Self::price_us, ""), field("parts_us", &Self::parts, ""));
};

template <>
struct Fields<reports::PlannedStep> {
  using Self = reports::PlannedStep;
  static constexpr std::string_view kName = "planned_step";
  static constexpr auto kList = std::tuple(
      field("collective", &Self::collective, "all_gather and others; local: nothing is sent"),
      field("mesh_dims", &Self::mesh_dims, "one, or several for a merged step"),
      field("from", &Self::from, "the placement on these mesh dims before"),
      field("to", &Self::to, ""), field("logical_shape", &Self::logical_shape, ""),
      field("full_bytes", &Self::full_bytes, "the larger of one rank's two buffers", kAmount),
      field("price_us", &Self::price_us, "null: impossible"), field("parts_us", &Self::parts, ""),
      optional_field("low_us", &Self::low_us,
                     "with high_us: where 95 of 100 clusters lie that are like those fitted to"),
      optional_field("high_us", &Self::high_us, ""),
      optional_field("flattened_mesh", &Self::flattened_mesh, "of a merged step"),
      optional_field("avg_scale", &Self::avg_scale, "of a merged step"),
      optional_field("alternatives", &Self::alternatives,
                     "what the model weighed, the cheapest first"));
};

template <>
struct Fields<reports::PlanWarning> {
  using Self = reports::PlanWarning;
  static constexpr std::string_view kName = "plan_warning";
  static constexpr std::string_view kMeaning = "steps that could not be merged";
  static constexpr auto kList =
      std::tuple(field("reason", &Self::reason, ""), field("mesh_dims", &Self::mesh_dims, ""),
                 field("steps", &Self::steps, ""));
};

template <>
struct Fields<reports::PlannedBounds> {
  using Self = reports::PlannedBounds;
  static constexpr std::string_view kName = "planned_bounds";
  static constexpr std::string_view kMeaning =
      "the plan over the lower bound; null: no bound, or too many ranks";
  static constexpr auto kList = std::tuple(field("volume_ratio", &Self::volume_ratio, ""),
                                           field("time_ratio", &Self::time_ratio, ""),
                                           field("memory_ratio", &Self::memory_ratio, ""));
};

template <>
struct Fields<reports::HeldRange> {
  using Self = reports::HeldRange;
  static constexpr std::string_view kName = "held_range";
  static constexpr auto kList =
      std::tuple(field("dim", &Self::dim, "of the tensor"), field("begin", &Self::begin, ""),
                 field("end", &Self::end, "the first index that is not held"));
};

template <>
struct Fields<reports::HoldingDevice> {
  using Self = reports::HoldingDevice;
  static constexpr std::string_view kName = "holding_device";
  static constexpr auto kList =
      std::tuple(field("rank", &Self::rank, ""), field("part", &Self::part, "from 0"),
                 field("parts", &Self::parts, "how many the layout makes", {.min = 1}),
                 field("label", &Self::label, "part 3, all or none"),
                 field("partial", &Self::partial, "sum 2/4; empty: the values are final"),
                 field("slice", &Self::slice, "of the global tensor: [0:4096, :]"),
                 field("ranges", &Self::ranges, "the same as numbers, tensor dim by tensor dim"));
};

template <>
struct Fields<reports::HeldLayout> {
  using Self = reports::HeldLayout;
  static constexpr std::string_view kName = "held_layout";
  static constexpr auto kList =
      std::tuple(field("layout", &Self::layout, ""), field("holds", &Self::holds, "in words"),
                 field("devices", &Self::devices, "those of the grid, row by row"));
};

template <>
struct Fields<reports::PlannedMove> {
  using Self = reports::PlannedMove;
  static constexpr std::string_view kName = "planned_move";
  static constexpr auto kList = std::tuple(
      field("along", &Self::along, "the mesh dims, in words"),
      field("along_row_dim", &Self::along_row_dim, "whether devices of one column communicate"),
      field("along_column_dim", &Self::along_column_dim, "whether devices of one row do"),
      field("groups", &Self::groups, "", {.min = 1}),
      field("group_size", &Self::group_size, "", {.min = 1}),
      field("first_group", &Self::first_group, "the first ranks of the first group"),
      field("bytes_moved", &Self::bytes_moved, "between all devices; null: too many to count"));
};

template <>
struct Fields<reports::PlanDrawing> {
  using Self = reports::PlanDrawing;
  static constexpr std::string_view kName = "plan_drawing";
  static constexpr std::string_view kMeaning =
      "which device of the mesh, or of a slice of it, holds what between the steps";
  static constexpr auto kList = std::tuple(
      field("shape", &Self::shape, "of the global tensor"),
      field("rows", &Self::rows, "", {.min = 1}), field("columns", &Self::columns, "", {.min = 1}),
      field("row_name", &Self::row_name, "the mesh dim along which rows go; empty: one row"),
      field("column_name", &Self::column_name, "empty: one column"),
      field("left_out", &Self::left_out, "which devices are not drawn; empty: none"),
      field("layouts", &Self::layouts, "before the first step and after each of them"),
      field("moves", &Self::moves, "one for each step"));
  static std::optional<Contradiction> contradiction(const reports::PlanDrawing& drawing);
};

template <>
struct Fields<reports::ComparedStep> {
  using Self = reports::ComparedStep;
  static constexpr std::string_view kName = "compared_step";
  static constexpr auto kList =
      std::tuple(field("collective", &Self::collective, ""), field("from", &Self::from, ""),
                 field("to", &Self::to, ""), field("price_us", &Self::price_us, ""));
};

template <>
struct Fields<reports::ComparedPlan> {
  using Self = reports::ComparedPlan;
  static constexpr std::string_view kName = "compared_plan";
  static constexpr std::string_view kMeaning =
      "the plan of another stack or planner, its steps priced by the stack that was asked first";
  static constexpr auto kList = std::tuple(
      field("name", &Self::name, "the stack, or the planner"), field("path", &Self::path, ""),
      field("price_us", &Self::price_us, "by its own stack; null: there is none"),
      field("here_us", &Self::here_us, "by the stack that was asked first"),
      field("collectives", &Self::collectives, ""),
      field("bytes_moved", &Self::bytes_moved, "between all devices; null: too many to count"),
      nullable_text("impossible", &Self::impossible, ""),
      nullable_text("unexecutable", &Self::unexecutable, ""), field("steps", &Self::steps, ""),
      optional_field("runs_unpriced", &Self::runs_unpriced, "true: it runs without a price"));
};

// The part of the record that is under "result".
template <>
struct Fields<reports::PlanRecord> {
  using Self = reports::PlanRecord;
  static constexpr std::string_view kName = "plan";
  static constexpr std::string_view kMeaning = "the steps that take a tensor to another layout";
  static constexpr auto kList = std::tuple(
      field("stack", &Self::stack, ""), field("topology", &Self::topology, ""),
      field("mesh", &Self::mesh, ""), field("tensor", &Self::tensor, ""),
      field("from", &Self::from, ""), field("to", &Self::to, ""), field("path", &Self::path, ""),
      field("steps", &Self::steps, ""), field("price_us", &Self::price_us, "null: there is none"),
      field("parts_us", &Self::parts, ""),
      field("transition_us", &Self::transition_us, "what selection adds"),
      field("executed_us", &Self::executed_us, "the sum of the steps"),
      nullable_text("impossible", &Self::impossible, "why there is no price"),
      nullable_text("unexecutable", &Self::unexecutable, "why it cannot run"),
      field("optimal_paths", &Self::optimal_paths, "how many share the price; 0: not counted"),
      field("warnings", &Self::warnings, ""), field("bounds", &Self::bounds, ""),
      field("drawing", &Self::drawing, ""),
      optional_field("against", &Self::against, "other plans for the same redistribution"),
      optional_field("runs_unpriced", &Self::runs_unpriced,
                     "true: it runs, although `impossible` says why the stack has no price for it"),
      optional_field("rests_on", &Self::basis, "of the steps of the plan"),
      optional_field("low_us", &Self::low_us,
                     "with high_us: where 95 of 100 clusters lie that are like those fitted to"),
      optional_field("high_us", &Self::high_us, ""));
};

}  // namespace shardlab
