#include "runner/evaluation/population.h"

#include <algorithm>

#include "costmodel/base/text.h"
#include "costmodel/calibrate/next_sizes.h"
#include "costmodel/calibrate/population_calibration.h"
#include "runner/evaluation/observations.h"
#include "runner/evaluation/validation.h"

namespace shardlab {

std::string source_of(const MeasurementSet& set) {
  std::string_view text = set.source;
  constexpr std::string_view kHttps = "https://";
  if (text.starts_with(kHttps)) text.remove_prefix(kHttps.size());
  if (text.empty() || text.find("name unknown") != std::string_view::npos) return set.name;
  if (text.starts_with("github.com/") || text.starts_with("gist.github.com/")) {
    const bool gist = text.starts_with("gist.");
    std::size_t end = text.find('/');
    for (int part = gist ? 1 : 0; part < 2 && end != std::string_view::npos; ++part) {
      end = text.find('/', end + 1);
    }
    return std::string(trimmed(text.substr(0, std::min(end, text.find_first_of(" ,(")))));
  }
  return std::string(trimmed(text.substr(0, text.find_first_of(",("))));
}

bool is_in_population(const MeasurementSet& set) {
  const std::string model = gpu_model(set.gpu);
  return !model.empty() && model != "v100";
}

std::vector<PopulationLog> population_logs(const ConfigStore& store,
                                           std::span<const MeasurementSet> sets) {
  std::vector<PopulationLog> logs;
  for (const MeasurementSet& set : sets) {
    if (set.health != Health::kHealthy || !is_in_population(set)) continue;
    Topology topology = topology_for(store, "", set).topology;
    std::vector<Observation> rows;
    for (const Observation& row : observations_of({&set, 1}, topology).rows) {
      if (row.query.full_bytes > 0.0) rows.push_back(row);
    }
    if (rows.empty()) continue;
    logs.push_back({source_of(set), {gpu_model(set.gpu), std::move(topology)}, std::move(rows)});
  }
  return logs;
}

ModelChoice population_choice(const PopulationPosterior& posterior,
                              std::span<const Observation> known,
                              std::span<const Observation> asked) {
  nlohmann::json rows = nlohmann::json::array();
  for (const CollectiveQuery& curve : groups_of(asked)) {
    std::vector<Observation> own;
    for (const Observation& row : known) {
      const bool same = row.query.kind == curve.kind && row.query.group == curve.group;
      if (same) own.push_back(row);
    }
    rows.push_back(population_curve(posterior, curve, own).to_json());
  }
  return {.entry = find_cost_model("population"), .rows = std::move(rows), .place = {}};
}

PopulationPriors::PopulationPriors(const ConfigStore& store, std::span<const MeasurementSet> sets)
    : all_(population_logs(store, sets)) {}

const PopulationFit& PopulationPriors::without(const std::string& source) {
  const auto known = without_.find(source);
  if (known != without_.end()) return known->second;
  return without_.emplace(source, all_.without({&source, 1})).first->second;
}

}  // namespace shardlab
