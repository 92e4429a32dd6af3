#include "runner/simulate/drawn_plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "reports/number_text.h"
#include "sim/traffic.h"

namespace shardlab {
namespace {

// The fewest equal rows of a text grid that are folded.
constexpr std::int64_t kLeastRowsFolded = 3;
constexpr std::size_t kMostRanges = 4;    // how many ranges of a tensor dim a text lists
constexpr std::size_t kMostSlices = 8;    // how many slices stand below a text grid
constexpr std::size_t kMostColumns = 98;  // width of a line of text

std::string dim_name(int mesh_dim, const DeviceMesh& mesh) {
  const std::string name = "mesh dim " + std::to_string(mesh_dim);
  return mesh.names().empty() ? name : name + " (" + mesh.names()[to_index(mesh_dim)] + ")";
}

// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return out;
}

// The mesh dims of a grid, ascending: those along which devices communicate come first, then those
// that steps change without, then those that tell devices apart, then the innermost ones.
std::vector<int> dims_to_draw(const Plan& plan, const DeviceMesh& mesh) {
  std::vector<int> dims;
  for (int m = 0; m < mesh.ndim(); ++m) {
    if (mesh.size(m) > 1) dims.push_back(m);
  }
  const auto rank_of = [&](int m) {
    int kind = plan.start[m].is_replicate() ? 3 : 2;
    for (const PlanStep& step : plan.steps) {
      const auto found = std::find(step.mesh_dims.begin(), step.mesh_dims.end(), m);
      if (found == step.mesh_dims.end()) continue;
      kind = std::min(kind, step.collective == Collective::kLocal ? 1 : 0);
    }
    return std::pair(kind, kind < 2 ? m : -m);
  };
  std::sort(dims.begin(), dims.end(), [&](int a, int b) { return rank_of(a) < rank_of(b); });
  if (dims.size() > 2) dims.resize(2);
  std::sort(dims.begin(), dims.end());
  return dims;
}

std::string left_out_text(const DrawnPlan& drawn, const DeviceMesh& mesh) {
  const std::int64_t shown = drawn.rows * drawn.columns;
  if (shown == mesh.size()) return {};
  std::vector<std::string> fixed;
  std::vector<std::string> which;
  for (int m = 0; m < mesh.ndim(); ++m) {
    const bool is_drawn = m == drawn.row_dim || m == drawn.column_dim;
    if (!is_drawn && mesh.size(m) > 1) fixed.push_back(dim_name(m, mesh));
    if (is_drawn && mesh.size(m) > kMostDrawn) {
      which.push_back("the first " + std::to_string(kMostDrawn) + " of " +
                      reports::grouped(mesh.size(m)) + " along " + dim_name(m, mesh));
    }
  }
  if (!fixed.empty()) {
    which.insert(which.begin(), "those with coordinate 0 on " + listed(fixed));
  }
  return "Only " + reports::counted(shown, "device", "devices") + " of " +
         reports::grouped(mesh.size()) + " are drawn: " + listed(which) + ".";
}

// What partial values of this reduction are called: "partial sums".
std::string partials_name(const std::vector<HeldPart::Summand>& summands) {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"sum", "partial sums"},          {"avg", "partial averages"},     {"max", "partial maxima"},
      {"min", "partial minima"},        {"product", "partial products"}, {"norm", "partial norms"},
      {"mask", "masked parts of a sum"}};
  const auto found = summands.size() == 1 ? kNames.find(summands.front().of) : kNames.end();
  return found == kNames.end() ? "partial results" : found->second;
}

// The shape of what a device holds: its indices along each tensor dim. Empty if they are not
// listed.
std::optional<Shape> shape_of(const HeldPart& held) {
  if (!held.is_listed) return std::nullopt;
  Shape shape;
  for (const std::vector<HeldPart::Range>& ranges : held.ranges) {
    std::int64_t size = 0;
    for (const HeldPart::Range& range : ranges) size += range.end - range.begin;
    shape.push_back(size);
  }
  return shape;
}

// " of bf16[4096,1024]", or " of at most ..." if the parts of the devices differ.
std::string pieces_text(const std::vector<DrawnDevice>& devices, DType dtype) {
  const std::optional<Shape> first = shape_of(devices.front().held);
  if (!first) return {};
  Shape largest = *first;  // the first device's, except for registered placements
  for (const DrawnDevice& one : devices) {
    const Shape shape = shape_of(one.held).value_or(largest);
    if (element_count(shape) > element_count(largest)) largest = shape;
  }
  const bool all_same = std::all_of(devices.begin(), devices.end(), [&](const DrawnDevice& one) {
    return shape_of(one.held) == first;
  });
  return (all_same ? " of " : " of at most ") +
         TensorMeta{.dtype = dtype, .shape = largest, .strides = {}}.text();
}

std::string holds_text(const HeldPart& first, std::int64_t devices, const std::string& pieces) {
  std::int64_t summands = 1;
  for (const HeldPart::Summand& one : first.summands) {
    summands = saturating_product(summands, one.count);
  }
  const std::int64_t copies = std::max<std::int64_t>(devices / first.parts / summands, 1);
  if (summands > 1) {
    const std::string what = reports::grouped(summands) + " " + partials_name(first.summands);
    const std::string of =
        first.parts > 1 ? what + " of each of " + reports::grouped(first.parts) + " parts" + pieces
                        : what + " of the whole tensor";
    return of + (copies > 1 ? ", each held by " + reports::counted(copies, "device", "devices")
                            : ", one for each device");
  }
  if (first.parts == 1) {
    return devices == 1 ? "the device holds all of it" : "every device holds all of it";
  }
  return reports::grouped(first.parts) + " parts" + pieces + ", " +
         (copies > 1 ? "each held by " + reports::counted(copies, "device", "devices")
                     : std::string("one for each device"));
}

DrawnLayout drawn_layout(const Layout& layout, const DrawnPlan& drawn, const Plan& plan,
                         const DeviceMesh& mesh) {
  DrawnLayout out;
  out.layout = layout;
  std::vector<std::int64_t> coordinate(to_index(mesh.ndim()), 0);
  for (std::int64_t row = 0; row < drawn.rows; ++row) {
    for (std::int64_t column = 0; column < drawn.columns; ++column) {
      if (drawn.row_dim) coordinate[to_index(*drawn.row_dim)] = row;
      if (drawn.column_dim) coordinate[to_index(*drawn.column_dim)] = column;
      std::int64_t index = 0;
      for (int m = 0; m < mesh.ndim(); ++m) index = index * mesh.size(m) + coordinate[to_index(m)];
      out.devices.push_back({mesh.rank(index), held_part(plan.meta, layout, mesh, coordinate)});
    }
  }
  out.holds =
      holds_text(out.devices.front().held, mesh.size(), pieces_text(out.devices, plan.meta.dtype));
  return out;
}

std::optional<std::int64_t> moved(const PlanStep& step, const Layout& before, const Plan& plan,
                                  const DeviceMesh& mesh) {
  try {
    return bytes_moved(step, before, plan.meta, mesh);
  } catch (const LimitError&) {
    return std::nullopt;  // too many ranks would have to be counted one by one
  }
}

DrawnMove drawn_move(const PlanStep& step, const Layout& before, const Plan& plan,
                     const DeviceMesh& mesh) {
  DrawnMove move;
  move.bytes_moved = moved(step, before, plan, mesh);
  if (step.collective == Collective::kLocal) {
    move.groups = mesh.size();
    return move;
  }
  for (const int m : step.mesh_dims) move.group_size *= mesh.size(m);
  move.groups = mesh.size() / move.group_size;
  for (std::int64_t member = 0; member < std::min(move.group_size, kMostDrawn); ++member) {
    std::vector<std::int64_t> coordinate(to_index(mesh.ndim()), 0);
    std::int64_t rest = member;
    for (std::size_t i = step.mesh_dims.size(); i-- > 0;) {
      coordinate[to_index(step.mesh_dims[i])] = rest % mesh.size(step.mesh_dims[i]);
      rest /= mesh.size(step.mesh_dims[i]);
    }
    std::int64_t index = 0;
    for (int m = 0; m < mesh.ndim(); ++m) index = index * mesh.size(m) + coordinate[to_index(m)];
    move.first_group.push_back(mesh.rank(index));
  }
  return move;
}

// -- Text ----------------------------------------------------------------------------------------

// How many rows from this one on hold, device by device, what this one holds.
std::int64_t equal_rows(const DrawnPlan& drawn, const DrawnLayout& layout, std::int64_t row) {
  const auto label_at = [&](std::int64_t r, std::int64_t column) {
    const HeldPart& held = layout.devices[to_index(r * drawn.columns + column)].held;
    return std::pair(part_label(held), partial_label(held));
  };
  std::int64_t rows = 1;
  for (; row + rows < drawn.rows; ++rows) {
    for (std::int64_t column = 0; column < drawn.columns; ++column) {
      if (label_at(row, column) != label_at(row + rows, column)) return rows;
    }
  }
  return rows;
}

// The devices of a layout, row by row, where equal rows are one. Where values are partial, the line
// below says which contribution each device holds.
std::string grid_text(const DrawnPlan& drawn, const DrawnLayout& layout) {
  const bool is_partial = !layout.devices.front().held.summands.empty();
  std::vector<std::string> first;
  std::vector<std::string> second;
  std::size_t rank_width = 0;
  for (const DrawnDevice& device : layout.devices) {
    rank_width = std::max(rank_width, std::to_string(device.rank).size());
  }
  std::size_t width = 0;
  for (const DrawnDevice& device : layout.devices) {
    const std::string rank = std::to_string(device.rank);
    first.push_back(std::string(rank_width - rank.size(), ' ') + rank + ": " +
                    part_label(device.held));
    second.push_back(std::string(rank_width + 2, ' ') + partial_label(device.held));
    width = std::max({width, first.back().size(), second.back().size()});
  }
  const auto line = [&](const std::vector<std::string>& cells, std::size_t from) {
    std::string out = "   ";
    for (std::size_t i = from; i < from + to_index(drawn.columns); ++i) {
      out += " " + cells[i];
      if (i + 1 < from + to_index(drawn.columns)) {
        out += std::string(width - cells[i].size() + 1, ' ');
      }
    }
    return out + "\n";
  };
  std::string out;
  for (std::int64_t row = 0; row < drawn.rows;) {
    const auto from = to_index(row * drawn.columns);
    const std::int64_t rows = equal_rows(drawn, layout, row);
    out += line(first, from);
    if (is_partial) out += line(second, from);
    const bool is_folded = rows >= kLeastRowsFolded;
    if (is_folded) {
      const auto last = to_index((row + rows) * drawn.columns - 1);
      out += "    and " + std::to_string(rows - 1) + " more rows that hold the same, up to rank " +
             std::to_string(layout.devices[last].rank) + "\n";
    }
    row += is_folded ? rows : 1;
  }
  return out;
}

// "part 1 is [0:4096, :], part 2 is [4096:8192, :]", in lines that fit a terminal.
std::string slices_text(const DrawnLayout& layout, const TensorMeta& meta) {
  std::map<std::int64_t, std::string> parts;
  for (const DrawnDevice& device : layout.devices) {
    parts.emplace(device.held.part, "part " + std::to_string(device.held.part + 1) + " is " +
                                        slice_text(meta, device.held));
  }
  if (layout.devices.front().held.parts == 1) return {};
  std::string out;
  std::string line = "   ";
  std::size_t count = 0;
  for (const auto& [part, text] : parts) {
    if (count == kMostSlices) break;
    const std::string word = " " + text + (++count < parts.size() ? "," : "");
    if (line.size() + word.size() > kMostColumns) {
      out += line + "\n";
      line = "   ";
    }
    line += word;
  }
  if (count < parts.size()) line += " and so on";
  return out + line + "\n";
}

std::string move_text(const DrawnMove& move, const PlanStep& step, const DeviceMesh& mesh,
                      const LayoutNames& names) {
  std::string out = std::string(to_string(step.collective)) + " " +
                    names.change(step.from, step.to) + " along " +
                    mesh_dims_name(step.mesh_dims, mesh) + ": ";
  if (step.collective == Collective::kLocal) {
    out += "each device keeps or makes its part, and nothing is sent";
    if (step.price.total.value() == 0.0) return out;
  } else {
    out += reports::counted(move.groups, "group", "groups") + " of " +
           reports::counted(move.group_size, "device", "devices");
    if (move.bytes_moved) {
      out += ", " + reports::bytes_text(static_cast<double>(*move.bytes_moved)) + " moved";
    }
  }
  return out + (step.price.is_possible() ? ", " + reports::duration_text(step.price.total.value())
                                         : std::string(", impossible"));
}

}  // namespace

std::string part_label(const HeldPart& held) {
  if (held.is_empty()) return "none";
  if (held.parts == 1) return "all";
  return "part " + std::to_string(held.part + 1);
}

std::string partial_label(const HeldPart& held) {
  std::string out;
  for (const HeldPart::Summand& one : held.summands) {
    out += (out.empty() ? "" : " ") + one.of + " " + std::to_string(one.index + 1) + "/" +
           std::to_string(one.count);
  }
  return out;
}

std::string slice_text(const TensorMeta& meta, const HeldPart& held) {
  if (held.joins_dims) return "elements of several dims together";
  if (!held.is_listed) return "too many pieces to list";
  std::string out;
  for (int d = 0; d < meta.ndim(); ++d) {
    const std::vector<HeldPart::Range>& ranges = held.ranges[to_index(d)];
    const std::int64_t extent = meta.shape[to_index(d)];
    out += d == 0 ? "" : ", ";
    if (ranges.empty()) out += extent == 0 ? ":" : "none";
    if (ranges.size() == 1 && ranges[0] == HeldPart::Range{0, extent}) {
      out += ":";
      continue;
    }
    for (std::size_t i = 0; i < std::min(ranges.size(), kMostRanges); ++i) {
      out += (i > 0 ? " and " : "") + std::to_string(ranges[i].begin) + ":" +
             std::to_string(ranges[i].end);
    }
    if (ranges.size() > kMostRanges) out += " and so on";
  }
  return "[" + out + "]";
}

std::string mesh_dims_name(const MeshDims& dims, const DeviceMesh& mesh) {
  if (dims.size() == 1) return dim_name(dims[0], mesh);
  std::vector<std::string> words;
  for (const int m : dims) {
    words.push_back(std::to_string(m) +
                    (mesh.names().empty() ? "" : " (" + mesh.names()[to_index(m)] + ")"));
  }
  return "mesh dims " + listed(words);
}

DrawnPlan drawn_plan(const Plan& plan, const DeviceMesh& mesh) {
  DrawnPlan drawn;
  drawn.tensor = plan.meta.text();
  const std::vector<int> dims = dims_to_draw(plan, mesh);
  if (dims.size() == 2) drawn.row_dim = dims.front();
  if (!dims.empty()) drawn.column_dim = dims.back();
  if (drawn.row_dim) {
    drawn.row_name = dim_name(*drawn.row_dim, mesh);
    drawn.rows = std::min(mesh.size(*drawn.row_dim), kMostDrawn);
  }
  if (drawn.column_dim) {
    drawn.column_name = dim_name(*drawn.column_dim, mesh);
    drawn.columns = std::min(mesh.size(*drawn.column_dim), kMostDrawn);
  }
  drawn.left_out = left_out_text(drawn, mesh);
  drawn.layouts.push_back(drawn_layout(plan.start, drawn, plan, mesh));
  for (const PlanStep& step : plan.steps) {
    drawn.moves.push_back(drawn_move(step, drawn.layouts.back().layout, plan, mesh));
    drawn.layouts.push_back(drawn_layout(step.after, drawn, plan, mesh));
  }
  return drawn;
}

std::string drawn_text(const DrawnPlan& drawn, const Plan& plan, const DeviceMesh& mesh,
                       const LayoutNames& names) {
  if (plan.is_impossible()) return "nothing is drawn: the plan is impossible\n";
  std::string out = "Each entry is a rank and the part of " + drawn.tensor + " that it holds";
  if (drawn.row_dim) {
    out += "; rows go along " + drawn.row_name + ", columns along " + drawn.column_name;
  } else if (drawn.column_dim) {
    out += "; columns go along " + drawn.column_name;
  }
  out += ".\n" + (drawn.left_out.empty() ? "" : drawn.left_out + "\n");
  for (std::size_t i = 0; i < drawn.layouts.size(); ++i) {
    const DrawnLayout& layout = drawn.layouts[i];
    if (i > 0) {
      out += "      |\n      |  step " + std::to_string(i) + ", " +
             move_text(drawn.moves[i - 1], plan.steps[i - 1], mesh, names) + "\n      v\n";
    }
    out += "  " + names.of(layout.layout) + ": " + layout.holds + "\n" + grid_text(drawn, layout) +
           slices_text(layout, plan.meta);
  }
  return out;
}

nlohmann::json drawing_json(const DrawnPlan& drawn, const Plan& plan, const DeviceMesh& mesh) {
  nlohmann::json layouts = nlohmann::json::array();
  for (const DrawnLayout& layout : drawn.layouts) {
    nlohmann::json devices = nlohmann::json::array();
    for (const DrawnDevice& device : layout.devices) {
      nlohmann::json areas = nlohmann::json::array();
      for (std::size_t d = 0; d < device.held.ranges.size(); ++d) {
        for (const HeldPart::Range& range : device.held.ranges[d]) {
          areas.push_back({{"dim", d}, {"begin", range.begin}, {"end", range.end}});
        }
      }
      devices.push_back({{"rank", device.rank},
                         {"part", device.held.part},
                         {"parts", device.held.parts},
                         {"label", part_label(device.held)},
                         {"partial", partial_label(device.held)},
                         {"slice", slice_text(plan.meta, device.held)},
                         {"ranges", std::move(areas)}});
    }
    layouts.push_back({{"layout", layout.layout.text(true)},
                       {"holds", layout.holds},
                       {"devices", std::move(devices)}});
  }
  nlohmann::json moves = nlohmann::json::array();
  for (std::size_t i = 0; i < drawn.moves.size(); ++i) {
    const DrawnMove& move = drawn.moves[i];
    const MeshDims& dims = plan.steps[i].mesh_dims;
    const auto joins = [&](const std::optional<int>& dim) {
      return dim && std::find(dims.begin(), dims.end(), *dim) != dims.end();
    };
    moves.push_back({{"along", mesh_dims_name(dims, mesh)},
                     {"along_row_dim", joins(drawn.row_dim)},
                     {"along_column_dim", joins(drawn.column_dim)},
                     {"groups", move.groups},
                     {"group_size", move.group_size},
                     {"first_group", move.first_group},
                     {"bytes_moved", move.bytes_moved ? nlohmann::json(*move.bytes_moved)
                                                      : nlohmann::json(nullptr)}});
  }
  return {{"shape", std::vector<std::int64_t>(plan.meta.shape.begin(), plan.meta.shape.end())},
          {"rows", drawn.rows},
          {"columns", drawn.columns},
          {"row_name", drawn.row_name},
          {"column_name", drawn.column_name},
          {"left_out", drawn.left_out},
          {"layouts", std::move(layouts)},
          {"moves", std::move(moves)}};
}

PlanTraffic plan_traffic(const Plan& plan, const DeviceMesh& mesh) {
  PlanTraffic traffic;
  Layout before = plan.start;
  for (const PlanStep& step : plan.steps) {
    if (step.collective != Collective::kLocal) ++traffic.collectives;
    const std::optional<std::int64_t> bytes = moved(step, before, plan, mesh);
    if (bytes && traffic.bytes_moved) {
      constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
      *traffic.bytes_moved += std::min(*bytes, kMost - *traffic.bytes_moved);
    } else {
      traffic.bytes_moved.reset();
    }
    before = step.after;
  }
  return traffic;
}

}  // namespace shardlab
