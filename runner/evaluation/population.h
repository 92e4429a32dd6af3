// The shipped logs as the population that clusters are drawn from (population_fit.h).
//
//   const PopulationFit fit(population_logs(store, healthy_measurements(store)));
//   calibrate_population(fit, {gpu_model(set.gpu), topology}, observations)
//
// A set takes part if it is healthy and its GPU is one of NVIDIA's data-centre GPUs from A100 on,
// or AMD's MI300X, MI325X, MI350X or MI355X. GH200, which has no topology of its own, is taken for
// an H100. The networks are those that the sources state (stated_network.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/calibrate/population_fit.h"
#include "costmodel/gpu_model.h"
#include "costmodel/measurements/measurement_set.h"
#include "runner/config/configs.h"

namespace shardlab {

// Who published a set: "github.com/owner/name" for what lies in a repository, else the text of the
// source up to its first comma or parenthesis; the set's name if its source names no repository.
// All sets of one source are left out together.
[[nodiscard]] std::string source_of(const MeasurementSet& set);

// Whether the population has logs of that GPU, so that it can be a prior for it.
[[nodiscard]] bool is_in_population(const MeasurementSet& set);

[[nodiscard]] std::vector<PopulationLog> population_logs(const ConfigStore& store,
                                                         std::span<const MeasurementSet> sets);

// What `calibrate` makes of the known rows of a cluster, for the collectives and groups of the
// asked rows alone, so that a log is predicted without a table of all others.
[[nodiscard]] ModelChoice population_choice(const PopulationPosterior& posterior,
                                            std::span<const Observation> known,
                                            std::span<const Observation> asked);

// Fits that have not seen some sources, to judge predictions of the logs of these sources.
class PopulationPriors {
 public:
  // Assumes that the sets are from at least two sources of the population.
  PopulationPriors(const ConfigStore& store, std::span<const MeasurementSet> sets);

  // Fits are kept for single sources. Not for use by several threads at once.
  [[nodiscard]] const PopulationFit& without(const std::string& source);
  [[nodiscard]] PopulationFit without(std::span<const std::string> sources) const {
    return all_.without(sources);
  }

 private:
  PopulationFit all_;
  std::map<std::string, PopulationFit> without_;
};

}  // namespace shardlab
