// Prices from a table of measured or published points, with straight lines between them.
//
//   rows: {"collective", "ranks", "hosts" (optional), "bytes", "time_us"}
//   between two points of a group             linear in bytes
//   below the first point                     its time
//   above the last point                      along the slope of the last two points, if that is
//                                             not negative; a single point keeps its bytes per us
//   below first / reach, above last * reach   impossible
// Source: that of the rows. Valid: for collectives and groups that have rows; every other query is
// impossible. Status: that of the rows.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "costmodel/registry.h"

namespace shardlab {
namespace {

struct Point {
  double bytes;
  double time_us;
};

constexpr std::int64_t kAnyHosts = MeasuredRange::kAnyHosts;
constexpr double kAnySize = 1e18;

class TableModel final : public CostModel {
 public:
  explicit TableModel(const ModelInput& input) : reach_(input.params["reach"]) {
    for (std::size_t i = 0; i < input.rows.size(); ++i) {
      ObjectReader row(input.rows[i], input.rows_place.at(i));
      const auto kind =
          json_name<Collective>(row.value("collective"), row.place("collective"), " ");
      const std::int64_t ranks = row.integer("ranks", 1, std::int64_t{1} << 40);
      const std::int64_t hosts = row.integer_or("hosts", kAnyHosts, 1, std::int64_t{1} << 40);
      const Point point{row.number("bytes", {.min = 0, .max = 1e18}),
                        row.number("time_us", {.min = 0, .max = 1e15})};
      row.finish();
      curves_[{kind, ranks, hosts}].push_back(point);
    }
    for (auto& [key, points] : curves_) {
      std::sort(points.begin(), points.end(),
                [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
      for (std::size_t i = 1; i < points.size(); ++i) {
        if (points[i].bytes == points[i - 1].bytes) {
          input.rows_place.fail(
              "found two rows of the same collective, group and size; valid: at most one");
        }
      }
    }
  }

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal || query.group.ranks <= 1) return {};
    auto it = curves_.find({query.kind, query.group.ranks, query.group.hosts});
    if (it == curves_.end()) it = curves_.find({query.kind, query.group.ranks, kAnyHosts});
    if (it == curves_.end()) {
      return Price::make_impossible("the table has no row for this collective and group");
    }
    const std::vector<Point>& points = it->second;
    const Point& first = points.front();
    const bool near = query.full_bytes >= first.bytes / reach_ &&
                      query.full_bytes <= points.back().bytes * reach_;
    if (!near && reach_ < kAnySize) {
      return Price::make_impossible("the table has no row near this size");
    }
    if (query.full_bytes <= first.bytes) return Price::of(Micros(first.time_us), Micros());
    const double time = points.size() > 1   ? interpolate(points, query.full_bytes)
                        : first.bytes > 0.0 ? first.time_us * query.full_bytes / first.bytes
                                            : first.time_us;
    return Price::of(Micros(first.time_us), Micros(time - first.time_us));
  }

  [[nodiscard]] std::vector<MeasuredRange> measured() const override {
    std::vector<MeasuredRange> ranges;
    for (const auto& [key, points] : curves_) {
      const auto [kind, ranks, hosts] = key;
      ranges.push_back({kind, ranks, hosts, points.front().bytes, points.back().bytes});
    }
    return ranges;
  }

 private:
  static double interpolate(const std::vector<Point>& points, double bytes) {
    auto upper = std::lower_bound(points.begin(), points.end(), bytes,
                                  [](const Point& p, double b) { return p.bytes < b; });
    const bool beyond = upper == points.end();
    if (beyond) --upper;
    const auto lower = upper - 1;
    double slope = (upper->time_us - lower->time_us) / (upper->bytes - lower->bytes);
    if (beyond) {
      slope =
          std::max(slope, 0.0);  // falling times are noise; extrapolation must not go below zero
      return upper->time_us + slope * (bytes - upper->bytes);
    }
    return lower->time_us + slope * (bytes - lower->bytes);
  }

  double reach_;
  std::map<std::tuple<Collective, std::int64_t, std::int64_t>, std::vector<Point>> curves_;
};

constexpr ParamSpec kParams[] = {
    {"reach", kAnySize, 1.0, kAnySize,
     "factor by which a size may lie outside the sizes of its rows and still have a price"},
};

constexpr ContractExemption kExemptions[] = {
    {"all_queries_have_a_price", "a table answers only for the collectives and groups of its rows"},
    {"never_falls_with_bytes", "a table repeats its rows, whose times may fall as sizes grow"},
    {"all_reduce_within_reduce_scatter_and_all_gather",
     "a table repeats its rows, which need not follow the rule"},
    {"reduce_scatter_within_all_reduce",
     "a table repeats its rows, which need not follow the rule"},
};

}  // namespace

COST_MODEL(table){
    .name = "table",
    .summary = "linear interpolation in a table of measured or published points",
    .formula = "linear in bytes between the rows of one collective and group",
    .source = "that of the rows",
    .valid_range = "collectives and groups that have rows",
    .params = kParams,
    .exemptions = kExemptions,
    .reads_rows = true,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<TableModel>(input);
    },
};

}  // namespace shardlab
