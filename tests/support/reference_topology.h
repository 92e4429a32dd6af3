// Topologies and models for tests, made from the few figures that matter.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/registry.h"
#include "costmodel/topology.h"

namespace shardlab::testing_support {

// The shipped h100's figures: NVLink 450 GB/s and 0.6 us in a host, network 50 GB/s and 2.7 us,
// launch 7 us.
inline nlohmann::json topology_json(std::int64_t devices_per_host) {
  return {
      {"schema", "shardlab/topology/1"},
      {"name", "test"},
      {"source", "tests"},
      {"devices_per_host", devices_per_host},
      {"links",
       {{{"name", "nvlink"}, {"joins", "host"}, {"latency_us", 0.6}, {"bandwidth_gb_per_s", 450.0}},
        {{"name", "network"},
         {"joins", "all"},
         {"latency_us", 2.7},
         {"bandwidth_gb_per_s", 50.0}}}},
      {"device",
       {{"memory_bandwidth_gb_per_s", 3350.0},
        {"memory_gib", 74.5},
        {"launch_us", 7.0},
        {"peak_tflops", {{"default", 67.0}, {"bf16", 989.0}}}}}};
}

inline Topology topology_with(std::int64_t devices_per_host) {
  return Topology::from_json(topology_json(devices_per_host), {"test.json", ""});
}

// Hosts of 4 devices in NVLink domains of `domain` devices, as gb200 has them.
inline Topology domain_topology(std::int64_t domain) {
  nlohmann::json json = topology_json(4);
  json["domain_devices"] = domain;
  json["links"][0]["joins"] = "domain";
  return Topology::from_json(json, {"test.json", ""});
}

// Hosts of 8 GPUs that links join pairwise, as mi300x has them: 64 GB/s each, 448 together.
inline Topology pairwise_topology() {
  nlohmann::json json = topology_json(8);
  json["links"][0].merge_patch(
      {{"kind", "nvlink"}, {"pairwise", true}, {"bandwidth_gb_per_s", 448.0}});
  return Topology::from_json(json, {"test.json", ""});
}

inline std::unique_ptr<CostModel> collective_model(const nlohmann::json& choice,
                                                   const Topology& topology) {
  return make_collective_model(read_model_choice(choice, {"test.json", "/model"}), topology);
}

inline std::unique_ptr<ComputeModel> compute_model(const nlohmann::json& choice,
                                                   const Topology& topology) {
  return make_compute_model(read_model_choice(choice, {"test.json", "/model"}), topology);
}

}  // namespace shardlab::testing_support
