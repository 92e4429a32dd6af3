// Which device of a mesh holds which part of a tensor before, between and after the steps of a
// plan, as `plan --draw` prints it and its report draws it.
//
//   const DrawnPlan drawn = drawn_plan(plan, mesh);
//   drawn_text(drawn, plan, mesh, names)   // grids of "rank: part", with the steps between them
//   drawing_json(drawn, plan, mesh)        // PlanRecord::drawing
//
// A grid has two mesh dims and at most kMostDrawn devices along each. Of a larger mesh a slice is
// drawn: two mesh dims, first of all those along which steps communicate, with coordinate 0 on all
// others. DrawnPlan::left_out then says which devices are missing.
// Tested by tests/unit/runner/simulate/drawn_plan_test.cpp.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runner/session/layout_names.h"
#include "sim/held_part.h"
#include "sim/plan.h"

namespace shardlab {

inline constexpr std::int64_t kMostDrawn = 8;

struct DrawnDevice {
  std::int64_t rank = 0;
  HeldPart held;
};

struct DrawnLayout {
  Layout layout;
  std::string holds;                 // "2 parts of bf16[8,4], each held by 4 devices"
  std::vector<DrawnDevice> devices;  // row by row
};

// What happens between two layouts.
struct DrawnMove {
  std::int64_t groups = 1, group_size = 1;
  std::vector<std::int64_t>
      first_group;  // the ranks of the first group, at most kMostDrawn of them
  std::optional<std::int64_t> bytes_moved;  // between all devices; empty: too many ranks to count
};

struct DrawnPlan {
  std::string tensor;
  std::optional<int> row_dim, column_dim;  // mesh dims; empty: one row, or one column
  std::string row_name, column_name;       // "mesh dim 1 (tp)"; "" for a dim that is empty
  std::int64_t rows = 1, columns = 1;
  std::string left_out;  // a sentence; "" if all devices are drawn
  std::vector<DrawnLayout> layouts;
  std::vector<DrawnMove> moves;  // one for each step
};

[[nodiscard]] DrawnPlan drawn_plan(const Plan& plan, const DeviceMesh& mesh);

// "part 3", "all" or "none".
[[nodiscard]] std::string part_label(const HeldPart& held);
// "sum 2/4", or "" for values that are final.
[[nodiscard]] std::string partial_label(const HeldPart& held);
// Where the part lies, as an index of the global tensor: "[0:4096, :]".
[[nodiscard]] std::string slice_text(const TensorMeta& meta, const HeldPart& held);

// "mesh dim 1 (tp)", or "mesh dims 0 and 1" for several.
[[nodiscard]] std::string mesh_dims_name(const MeshDims& dims, const DeviceMesh& mesh);

[[nodiscard]] std::string drawn_text(const DrawnPlan& drawn, const Plan& plan,
                                     const DeviceMesh& mesh, const LayoutNames& names);
[[nodiscard]] nlohmann::json drawing_json(const DrawnPlan& drawn, const Plan& plan,
                                          const DeviceMesh& mesh);

// The bytes that all steps of a plan move between devices, and how many steps communicate.
struct PlanTraffic {
  std::int64_t collectives = 0;
  std::optional<std::int64_t> bytes_moved = 0;
};
[[nodiscard]] PlanTraffic plan_traffic(const Plan& plan, const DeviceMesh& mesh);

}  // namespace shardlab
