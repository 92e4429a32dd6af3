#include "costmodel/calibrate/contradictions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "costmodel/base/error.h"
#include "costmodel/base/percentile.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr double kContradiction =
    1.5;  // how many times the shortest time of one question the longest may be

using Question = std::tuple<int, Collective, std::int64_t, std::int64_t, double>;

Question question_of(const Observation& row) {
  return {row.set, row.query.kind, row.query.group.ranks, row.query.group.hosts,
          row.query.full_bytes};
}

}  // namespace

std::string observation_text(const Observation& row) {
  return std::string(to_string(row.query.kind)) + " of " + format_double(row.query.full_bytes) +
         " B among " + std::to_string(row.query.group.ranks) + " ranks on " +
         std::to_string(row.query.group.hosts) +
         (row.query.group.hosts == 1 ? " host: " : " hosts: ") + format_double(row.time_us) + " us";
}

std::vector<RefusedObservation> contradictions(std::span<const Observation> rows) {
  std::map<Question, std::vector<std::size_t>> repeated;
  for (std::size_t i = 0; i < rows.size(); ++i) repeated[question_of(rows[i])].push_back(i);
  std::vector<RefusedObservation> refused;
  for (const auto& [question, members] : repeated) {
    if (members.size() < 2) continue;
    std::vector<double> times;
    for (const std::size_t i : members) times.push_back(rows[i].time_us);
    const double median = percentile(times, 0.5);
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    if (*most <= *least * kContradiction) continue;
    for (const std::size_t i : members) {
      const double distance = std::abs(std::log(rows[i].time_us / median));
      if (members.size() > 2 && distance <= std::log(kContradiction)) continue;
      refused.push_back({i, observation_text(rows[i]) +
                                ", while rows for the same collective, size and group range from " +
                                format_double(*least) + " to " + format_double(*most) + " us"});
    }
  }
  return refused;
}

std::vector<Observation> rows_kept(std::span<const Observation> rows,
                                   std::span<const RefusedObservation> refused) {
  std::vector<bool> is_refused(rows.size(), false);
  for (const RefusedObservation& each : refused) is_refused[each.row] = true;
  std::vector<Observation> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!is_refused[i]) kept.push_back(rows[i]);
  }
  if (kept.empty()) throw InputError("calibrate: every row contradicts another row");
  return kept;
}

}  // namespace shardlab
