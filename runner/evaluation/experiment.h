// Experiments: suites x stacks x topologies, as files that `sweep` reads.
//
//   {"schema": "shardlab/experiment/1",
//    "topologies": ["h100", "../topologies/b200.json"],
//    "suites": ["ops-small"],
//    "stacks": ["dtensor-v3", {"base": "alpha-beta", "name": "slow-start", "transition_us": 1}],
//    "reference": "alpha-beta", "seed": 7}
//
// A name is a shipped one, or a path relative to the file. A stack may also be written out, based
// on another one. `reference` judges the choices (default: alpha-beta). `seed` replaces the seeds
// of generated suites, so that they draw other questions; without it each suite uses its own seed.
// A --set of stacks changes all of `stacks`, whose names then end in "+set", and not `reference`.
// A --set of topologies changes all of `topologies`, whose names then end in "+set".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/config/configs.h"

namespace shardlab {

struct Experiment {
  std::string name;
  std::vector<Topology> topologies;
  std::vector<Suite> suites;
  std::vector<Stack> stacks;
  Stack reference;
  std::optional<std::uint64_t> seed;

  // Reads a shipped name or a path. Throws ConfigError for wrong keys, wrong types and names that
  // occur twice, and InputError if there is no such experiment.
  [[nodiscard]] static Experiment read(const ConfigStore& store, const std::string& name);
  // Number of questions, over all pairs of a suite and a topology.
  [[nodiscard]] std::size_t questions() const;
  // A digest of everything that the rows depend on: all configurations, the questions, the seed,
  // and this build.
  [[nodiscard]] std::string digest() const;
};

}  // namespace shardlab
