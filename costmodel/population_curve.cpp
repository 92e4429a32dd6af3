#include "costmodel/population_curve.h"

#include <algorithm>
#include <cmath>

#include "costmodel/physical_curve.h"

namespace shardlab {
namespace {

constexpr double kMaxBend = 100.0;

PopulationPoint read_point(const nlohmann::json& json, const JsonPlace& place) {
  const bool triple = json.is_array() && json.size() == 3 && json[0].is_number() &&
                      json[1].is_number() && json[2].is_number();
  if (!triple) {
    place.fail("found " + describe_json(json) + "; valid: [bend, factor, standard deviation]");
  }
  const PopulationPoint point{json[0].get<double>(), json[1].get<double>(), json[2].get<double>()};
  const bool sane = std::abs(point.bend) <= kMaxBend && point.factor >= 1e-6 &&
                    point.factor <= 1e6 && point.log_error >= 0.0 && point.log_error <= 20.0;
  if (!sane) {
    place.fail("found " + json.dump() +
               "; valid: a bend from -100 to 100, a factor from 1e-6 to 1e6, and a standard "
               "deviation from 0 to 20");
  }
  return point;
}

// The value of `figure` at a bend, linear between the points and level beyond them.
template <class Figure>
double interpolate(const std::vector<PopulationPoint>& points, double bend, const Figure& figure) {
  if (bend <= points.front().bend) return figure(points.front());
  if (bend >= points.back().bend) return figure(points.back());
  const auto upper =
      std::upper_bound(points.begin(), points.end(), bend,
                       [](double x, const PopulationPoint& point) { return x < point.bend; });
  const PopulationPoint& right = *upper;
  const PopulationPoint& left = *(upper - 1);
  const double part = (bend - left.bend) / (right.bend - left.bend);
  return figure(left) + part * (figure(right) - figure(left));
}

}  // namespace

double launch_of(const CollectiveQuery& query) {
  return query.gpus_per_process > 1 ? std::log(static_cast<double>(query.gpus_per_process)) : 0.0;
}

PopulationCurve PopulationCurve::from_json(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  PopulationCurve curve;
  curve.kind = json_name<Collective>(reader.value("collective"), reader.place("collective"), " ");
  if (curve.kind == Collective::kLocal) {
    reader.place("collective").fail("found \"local\"; valid: a collective that communicates");
  }
  curve.ranks = reader.integer("ranks", 2, std::int64_t{1} << 40);
  curve.domains = reader.integer("domains", 1, std::int64_t{1} << 40);
  const nlohmann::json& points = reader.array("points");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const JsonPlace at = reader.place("points").at(i);
    curve.points.push_back(read_point(points[i], at));
    if (i > 0 && curve.points[i].bend <= curve.points[i - 1].bend) {
      at.fail("found " + points[i].dump() + "; valid: bends that rise from point to point");
    }
  }
  if (curve.points.empty()) reader.place("points").fail("found no points; valid: at least one");
  if (const nlohmann::json* range = reader.find("measured")) {
    const JsonPlace at = reader.place("measured");
    if (!range->is_array() || range->size() != 3) {
      at.fail("found " + describe_json(*range) + "; valid: [hosts, smallest bytes, largest bytes]");
    }
    const std::int64_t hosts =
        json_integer((*range)[0], at.at(std::size_t{0}), 1, std::int64_t{1} << 40);
    const double smallest =
        json_number((*range)[1], at.at(std::size_t{1}), {.min = 0, .max = 1e18});
    const double largest =
        json_number((*range)[2], at.at(std::size_t{2}), {.min = smallest, .max = 1e18});
    curve.measured = {curve.kind, curve.ranks, hosts, smallest, largest};
  }
  if (reader.find("network_delay") != nullptr) {
    curve.network_delay = reader.number("network_delay", {.min = 1e-3, .max = 1e3});
  }
  if (const nlohmann::json* by_launch = reader.find("by_launch")) {
    const JsonPlace at = reader.place("by_launch");
    if (!by_launch->is_array() || by_launch->size() != 2) {
      at.fail("found " + describe_json(*by_launch) + "; valid: [launch, rise of ln of the floor]");
    }
    curve.launch = json_number((*by_launch)[0], at.at(std::size_t{0}), {.min = -40, .max = 40});
    curve.floor_by_launch =
        json_number((*by_launch)[1], at.at(std::size_t{1}), {.min = -10, .max = 10});
  }
  reader.finish();
  return curve;
}

nlohmann::json PopulationCurve::to_json() const {
  // Four digits are far below the errors of the prices, and keep the files small.
  const auto rounded = [](double value) {
    if (value == 0.0) return 0.0;
    const double scale = std::pow(10.0, 3.0 - std::floor(std::log10(std::abs(value))));
    return std::round(value * scale) / scale;
  };
  nlohmann::json triples = nlohmann::json::array();
  for (const PopulationPoint& point : points) {
    // Bends of neighbouring sizes may be close, and must stay apart.
    triples.push_back(
        {std::round(point.bend * 1e6) / 1e6, rounded(point.factor), rounded(point.log_error)});
  }
  nlohmann::json out = {{"collective", to_string(kind)},
                        {"ranks", ranks},
                        {"domains", domains},
                        {"points", std::move(triples)}};
  if (measured) out["measured"] = {measured->hosts, measured->smallest, measured->largest};
  if (network_delay) out["network_delay"] = rounded(*network_delay);
  if (rounded(floor_by_launch) != 0.0) out["by_launch"] = {launch, rounded(floor_by_launch)};
  return out;
}

double PopulationCurve::log_launched(double asked_launch, double bend) const {
  return floor_by_launch * (asked_launch - launch) * (1.0 - PhysicalCurve::plateau_share(bend));
}

double PopulationCurve::log_factor(double bend) const {
  return interpolate(points, bend,
                     [](const PopulationPoint& point) { return std::log(point.factor); });
}

double PopulationCurve::log_error(double bend) const {
  return std::sqrt(interpolate(points, bend, [](const PopulationPoint& point) {
    return point.log_error * point.log_error;
  }));
}

}  // namespace shardlab
