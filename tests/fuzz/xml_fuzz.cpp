// A topology XML of NCCL is refused with a ConfigError, or it is read into a topology whose JSON
// reads back as the same, and on which the model nccl has prices.
#include "costmodel/base/error.h"
#include "costmodel/measurements/topology_xml.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/reference_topology.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const std::vector<Topology> known = {topology_with(8)};
  try {
    const Topology topology = topology_of_nccl_xml(text, "f.xml", known).topology;
    const nlohmann::json json = topology.to_json();
    FUZZ_CHECK(Topology::from_json(json, {"f.json", ""}).to_json() == json, json.dump());
    const auto model = collective_model("nccl", topology);
    for (const std::int64_t ranks : {2, 3, 64}) {
      const std::int64_t hosts = (ranks - 1) / topology.devices_per_host() + 1;
      const Price price = model->price({Collective::kAllReduce,
                                        1e6,
                                        {.ranks = ranks,
                                         .hosts = hosts,
                                         .domains = hosts,
                                         .ranks_per_host = ranks / hosts,
                                         .extent = ranks}});
      FUZZ_CHECK(price.total.value() >= 0, json.dump());
    }
  } catch (const ConfigError&) {
  }
  return 0;
}
