// Curves fitted to measurements, one per collective and group: a latency floor, a bend, a plateau,
// and kinks where the protocol changes.
//
//   rows: {"collective", "ranks", "hosts", "latency_us", "bandwidth_gb_per_s", "sharpness",
//          "kinks": [[bytes, factor], ...]}
//   a collective and group with a row   the curve of costmodel/curve.h
//   other collectives and groups        the mean of ln t over the curves on the same side of the
//                                       host boundary, carried over and weighed by
//                                       costmodel/curve_relation.h
//   no curve on that side               alpha_beta on the topology
// Source: fitted by `calibrate`. Valid: for sizes and groups near those measured. Status: fitted.
#include <algorithm>
#include <cmath>
#include <optional>

#include "costmodel/curve.h"
#include "costmodel/curve_relation.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

struct Row {
  CurveGroup group;
  TabulatedCurve curve;
  std::optional<MeasuredRange> measured;  // `calibrate` writes a kink for every measured size
};

Row read_row(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  const std::string name = reader.text("collective");
  const std::optional<Collective> kind = collective_from_name(name);
  if (!kind || *kind == Collective::kLocal) {
    reader.place("collective")
        .fail("found \"" + name + "\"; valid: " + valid_names<Collective>(" "));
  }
  const std::int64_t ranks = reader.integer("ranks", 2, std::int64_t{1} << 40);
  const std::int64_t hosts = reader.integer("hosts", 1, std::int64_t{1} << 40);
  Curve curve;
  curve.latency_us = reader.number("latency_us", {.min = 1e-6, .max = 1e12});
  curve.bytes_per_us = 1e3 * reader.number("bandwidth_gb_per_s", {.min = 1e-9, .max = 1e9});
  curve.sharpness = reader.number("sharpness", {.min = 0.05, .max = 20.0});
  const nlohmann::json& kinks = reader.array("kinks");
  for (std::size_t i = 0; i < kinks.size(); ++i) {
    const JsonPlace kink_place = reader.place("kinks").at(i);
    const bool pair = kinks[i].is_array() && kinks[i].size() == 2 && kinks[i][0].is_number() &&
                      kinks[i][1].is_number();
    if (!pair) kink_place.fail("found " + describe_json(kinks[i]) + "; valid: [bytes, factor]");
    const Kink kink{kinks[i][0].get<double>(), kinks[i][1].get<double>()};
    const bool rises = curve.kinks.empty() || kink.bytes > curve.kinks.back().bytes;
    if (!(kink.bytes >= 0.0) || !(kink.factor > 0.0) || kink.bytes > 1e18 || !rises) {
      kink_place.fail("found " + kinks[i].dump() +
                      "; valid: bytes that rise from pair to pair, and factors above 0");
    }
    curve.kinks.push_back(kink);
  }
  reader.finish();
  std::optional<MeasuredRange> measured;
  if (!curve.kinks.empty()) {
    measured = {*kind, ranks, hosts, curve.kinks.front().bytes, curve.kinks.back().bytes};
  }
  return {{*kind, ranks, hosts}, TabulatedCurve(*kind, curve), measured};
}

class Piecewise final : public CostModel {
 public:
  explicit Piecewise(const ModelInput& input) : topology_(input.topology) {
    for (std::size_t i = 0; i < input.rows.size(); ++i) {
      Row row = read_row(input.rows[i], input.rows_place.at(i));
      for (const Row& other : rows_) {
        if (other.group == row.group) {
          input.rows_place.at(i).fail(
              "found a second row of the same collective, ranks and hosts; valid: at most one");
        }
      }
      rows_.push_back(std::move(row));
    }
    const ModelEntry* alpha_beta = find_cost_model("alpha_beta");
    const ModelChoice choice{.entry = alpha_beta, .place = {}};
    unmeasured_ = make_collective_model(choice, input.topology);
  }

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal || query.group.ranks <= 1) return {};
    const CurveGroup group{query.kind, query.group.ranks, query.group.hosts,
                           static_cast<double>(query.group.ranks_per_host)};
    for (const Row& row : rows_) {
      if (row.group == group) return split(row.curve.us(query.full_bytes), row.curve.us(0.0));
    }
    double log_us = 0.0;
    double log_floor = 0.0;
    double weights = 0.0;
    for (const Row& row : rows_) {
      const double weight = relation_weight(row.group, group);
      if (weight == 0.0) continue;
      log_us += weight * std::log(scaled(row, group, query.full_bytes));
      log_floor += weight * std::log(scaled(row, group, 0.0));
      weights += weight;
    }
    if (weights > 0.0) return split(std::exp(log_us / weights), std::exp(log_floor / weights));
    return unmeasured_->price(query);
  }

  [[nodiscard]] std::vector<MeasuredRange> measured() const override {
    std::vector<MeasuredRange> ranges;
    for (const Row& row : rows_) {
      if (row.measured) ranges.push_back(*row.measured);
    }
    return ranges;
  }

 private:
  [[nodiscard]] static Price split(double us, double floor) {
    const double latency = std::min(us, floor);
    Price price = Price::of(Micros(latency), Micros(us - latency));
    price.total = Micros(us);
    return price;
  }
  [[nodiscard]] double scaled(const Row& row, const CurveGroup& group, Bytes bytes) const {
    const double latency = latency_factor(group) / latency_factor(row.group);
    double volume = volume_factor(row.group) / volume_factor(group);
    if (group.hosts <= 1) volume *= host_gbps(group) / host_gbps(row.group);
    return latency * row.curve.us(bytes / (latency * volume));
  }
  [[nodiscard]] double host_gbps(const CurveGroup& group) const {
    return topology_.bandwidth(topology_.host_link(), group.kind, group.ranks).value();
  }

  Topology topology_;
  std::vector<Row> rows_;
  std::unique_ptr<CostModel> unmeasured_;
};

constexpr ContractExemption kExemptions[] = {
    {"all_reduce_within_reduce_scatter_and_all_gather", "measured curves need not follow the rule"},
    {"reduce_scatter_within_all_reduce", "measured curves need not follow the rule"},
};

}  // namespace

COST_MODEL(piecewise){
    .name = "piecewise",
    .summary = "curves fitted to measurements: latency floor, bend, plateau, protocol kinks",
    .formula = "(a^p + (S/b)^p)^(1/p) * shape * kinks, by collective and group",
    .source = "fitted by `calibrate`; the shape is fitted to configs/measurements",
    .valid_range = "sizes and groups near those measured; elsewhere ring scaling, then alpha_beta",
    .exemptions = kExemptions,
    .reads_rows = true,
    .fits_curves = true,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<Piecewise>(input);
    },
};

}  // namespace shardlab
