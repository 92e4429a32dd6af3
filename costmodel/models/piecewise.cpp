// Curves fitted to measurements: latency floor, bend, plateau and protocol kinks, by collective and
// group.
//
//   rows: {"collective", "ranks", "hosts", "latency_us", "bandwidth_gb_per_s", "sharpness",
//          "kinks": [[bytes, factor], ...]}
//   t of the row's own group: costmodel/curve.h. Of another collective or group:
//   t(S) = k t0(S / (k v)), k = latency / latency0, v = volume0 / volume
//   volume: ring factors (collective.h) inside a host; between hosts the bytes that cross one of
//   the g network links of a host: all_gather, reduce_scatter (n-1)/n/g, all_reduce twice that,
//   all_to_all (n-g)/n, broadcast and scatter 1/g, send_recv 1
//   latency: c (n-1)^e, kLatencies below
//   Rows on the same side of the host boundary are averaged in ln t with the weight 1 / distance^2,
//   distance^2 = ln(n/n0)^2 + ln(hosts/hosts0)^2 + the collectives' distance^2; without any,
//   alpha_beta on the topology.
// Source: fitted by `calibrate`; kLatencies to the medians of messages of up to 16 KiB in
// configs/measurements, by ratios within one system. Valid: sizes and groups near those measured.
// Status: rows and latencies fitted, distances assumed.
#include <algorithm>
#include <cmath>

#include "costmodel/curve.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

// The latency floor of n ranks against that of 2, and of the collectives against all_gather.
struct Latency {
  double inside, exponent_inside;    // c, e of a group in one host
  double between, exponent_between;  // of a group over several
};
Latency latency_of(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return {0.9, 0.5, 0.9, 0.5};
    case Collective::kAllToAll:
      return {1.6, 0.58, 4.0, 1.0};
    case Collective::kBroadcast:
    case Collective::kScatter:
      return {1.0, 0.5, 1.0, 0.5};
    case Collective::kSendRecv:
      return {1.0, 0.0, 1.0, 0.0};
    default:
      return {1.0, 0.58, 1.0, 1.0};
  }
}

double latency_factor(Collective kind, std::int64_t ranks, std::int64_t hosts) {
  const Latency latency = latency_of(kind);
  const double steps = static_cast<double>(ranks - 1);
  return hosts > 1 ? latency.between * std::pow(steps, latency.exponent_between)
                   : latency.inside * std::pow(steps, latency.exponent_inside);
}

double volume_factor(Collective kind, std::int64_t ranks, std::int64_t hosts) {
  const double ring = ring_volume_factor(kind, ranks);
  if (hosts <= 1) return ring;
  const auto n = static_cast<double>(ranks);
  const double g = std::max(1.0, n / static_cast<double>(hosts));
  if (kind == Collective::kAllToAll) return (n - g) / n;
  if (kind == Collective::kSendRecv) return 1.0;
  return ring / g;
}

// How little the rows of one collective say about another.
double distance(Collective a, Collective b) {
  const auto rank = [](Collective kind) {
    switch (kind) {
      case Collective::kAllGather:
      case Collective::kReduceScatter:
        return 0;
      case Collective::kAllReduce:
      case Collective::kBroadcast:
      case Collective::kScatter:
        return 1;
      default:
        return 2;
    }
  };
  if (a == b) return 0.0;
  if (rank(a) == 0 && rank(b) == 0) return 0.3;
  return rank(a) == 2 || rank(b) == 2 ? 2.0 : 1.0;
}

struct Row {
  Collective kind;
  std::int64_t ranks;
  std::int64_t hosts;
  TabulatedCurve curve;
};

Row read_row(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  const std::string name = reader.text("collective");
  const std::optional<Collective> kind = collective_from_name(name);
  if (!kind || *kind == Collective::kLocal) {
    reader.place("collective")
        .fail("found \"" + name + "\"; valid: " + std::string(kCollectiveNames));
  }
  const std::int64_t ranks = reader.integer("ranks", 2, std::int64_t{1} << 40);
  const std::int64_t hosts = reader.integer("hosts", 1, std::int64_t{1} << 40);
  Curve curve;
  curve.latency_us = reader.number("latency_us", {.min = 1e-6, .max = 1e12});
  curve.bytes_per_us = 1e3 * reader.number("bandwidth_gb_per_s", {.min = 1e-9, .max = 1e9});
  curve.sharpness = reader.number("sharpness", {.min = 0.05, .max = 20.0});
  const nlohmann::json& kinks = reader.array("kinks");
  for (std::size_t i = 0; i < kinks.size(); ++i) {
    const JsonPlace at = reader.place("kinks").at(i);
    const bool pair = kinks[i].is_array() && kinks[i].size() == 2 && kinks[i][0].is_number() &&
                      kinks[i][1].is_number();
    if (!pair) at.fail("valid: [bytes, factor]");
    const Kink kink{kinks[i][0].get<double>(), kinks[i][1].get<double>()};
    const bool rises = curve.kinks.empty() || kink.bytes > curve.kinks.back().bytes;
    if (!(kink.bytes >= 0.0) || !(kink.factor > 0.0) || kink.bytes > 1e18 || !rises) {
      at.fail("valid: bytes that rise from pair to pair, factors above 0");
    }
    curve.kinks.push_back(kink);
  }
  reader.finish();
  return {*kind, ranks, hosts, TabulatedCurve(*kind, curve)};
}

class Piecewise final : public CostModel {
 public:
  explicit Piecewise(const ModelInput& input) {
    for (std::size_t i = 0; i < input.rows.size(); ++i) {
      Row row = read_row(input.rows[i], input.rows_place.at(i));
      for (const Row& other : rows_) {
        if (other.kind == row.kind && other.ranks == row.ranks && other.hosts == row.hosts) {
          input.rows_place.at(i).fail("a second row for one collective and group");
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
    for (const Row& row : rows_) {
      if (row.kind == query.kind && row.ranks == query.group.ranks &&
          row.hosts == query.group.hosts) {
        return split(row.curve.us(query.full_bytes), row.curve.us(0.0));
      }
    }
    double log_us = 0.0;
    double log_floor = 0.0;
    double weights = 0.0;
    for (const Row& row : rows_) {
      if ((row.hosts > 1) != (query.group.hosts > 1)) continue;
      const double ranks = std::log(ratio(query.group.ranks, row.ranks));
      const double hosts = std::log(ratio(query.group.hosts, row.hosts));
      const double kinds = distance(row.kind, query.kind);
      const double weight = 1.0 / (ranks * ranks + hosts * hosts + kinds * kinds + 1e-6);
      log_us += weight * std::log(scaled(row, query, query.full_bytes));
      log_floor += weight * std::log(scaled(row, query, 0.0));
      weights += weight;
    }
    if (weights > 0.0) return split(std::exp(log_us / weights), std::exp(log_floor / weights));
    return unmeasured_->price(query);
  }

 private:
  [[nodiscard]] static double ratio(std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  }
  [[nodiscard]] static Price split(double us, double floor) {
    const double latency = std::min(us, floor);
    Price price = Price::of(Micros(latency), Micros(us - latency));
    price.total = Micros(us);
    return price;
  }
  [[nodiscard]] double scaled(const Row& row, const CollectiveQuery& query, Bytes bytes) const {
    const double latency = latency_factor(query.kind, query.group.ranks, query.group.hosts) /
                           latency_factor(row.kind, row.ranks, row.hosts);
    const double volume = volume_factor(row.kind, row.ranks, row.hosts) /
                          volume_factor(query.kind, query.group.ranks, query.group.hosts);
    return latency * row.curve.us(bytes / (latency * volume));
  }

  std::vector<Row> rows_;
  std::unique_ptr<CostModel> unmeasured_;
};

constexpr ContractExemption kExemptions[] = {
    {"all_reduce_within_reduce_scatter_and_all_gather", "measured curves need not keep it"},
    {"reduce_scatter_within_all_reduce", "measured curves need not keep it"},
};

}  // namespace

COST_MODEL(piecewise){
    .name = "piecewise",
    .summary = "curves fitted to measurements: latency floor, bend, plateau, protocol kinks",
    .formula = "(a^p + (S/b)^p)^(1/p) * shape * kinks, by collective and group",
    .source = "fitted by `calibrate`; the shape to configs/measurements",
    .valid_range = "sizes and groups near those measured; elsewhere ring scaling, then alpha_beta",
    .exemptions = kExemptions,
    .reads_rows = true,
    .fits_curves = true,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<Piecewise>(input);
    },
};

}  // namespace shardlab
