// Experiments: suites x stacks x topologies, as files that `sweep` reads.
//
//   {"schema": "shardlab/experiment/1",
//    "topologies": ["h100", "../topologies/b200.json"],
//    "suites": ["ops-small"],
//    "stacks": ["dtensor-v3", {"base": "alpha-beta", "name": "slow-start", "transition_us": 1}],
//    "reference": "alpha-beta", "seed": 7}
//
// Names are shipped ones, or paths relative to the file. A stack may be written out, upon a base.
// `reference`
// judges the choices (default: alpha-beta). `seed` makes generated suites draw other questions;
// without it they
// draw their own.
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

  // Reads a shipped name or a path. Throws ConfigError for bad keys, kinds, and names that stand
  // twice; InputError where there is no such experiment.
  [[nodiscard]] static Experiment read(const ConfigStore& store, const std::string& name);
  [[nodiscard]] std::size_t questions() const;  // over all suites and topologies
  // A digest of everything that decides the rows: configurations in full, questions, the seed, and
  // this build.
  [[nodiscard]] std::string digest() const;
};

}  // namespace shardlab
