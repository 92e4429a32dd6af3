// Errors, bands and the hardware of a set, compared with values that were worked out by hand.
#include "runner/evaluation/validation.h"

#include <gtest/gtest.h>

#include <limits>

#include "costmodel/base/error.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace validation_test {

using testing_support::shipped;
using testing_support::shipped_stack;

MeasurementSet set_of(const std::string& gpu, std::int64_t hosts, std::int64_t ranks) {
  MeasurementSet set;
  set.name = "run";
  set.gpu = gpu;
  set.hosts = hosts;
  set.ranks = ranks;
  set.gpus_per_host = ranks / hosts;
  set.rows.push_back(
      {.collective = Collective::kAllGather, .dtype = "f32", .bytes = 64e6, .time_us = 500.0});
  return set;
}

TEST(Validation, ErrorsAreSignedAndRelativeToTheMeasuredTime) {
  const RowPrediction low{.bytes = 1.0, .measured_us = 200.0, .predicted_us = 150.0};
  const RowPrediction high{.bytes = 1.0, .measured_us = 200.0, .predicted_us = 500.0};
  EXPECT_EQ(low.error_percent(), -25.0);
  EXPECT_EQ(high.error_percent(), 150.0);
}

TEST(Validation, SummariesOfKnownErrors) {
  // The absolute errors are 10, 20, 30, 40 and 100.
  const std::vector<double> errors = {-10.0, 20.0, -30.0, 40.0, 100.0};
  const ErrorSummary summary = summarize_errors(errors);
  EXPECT_EQ(summary.points, 5U);
  EXPECT_EQ(summary.median_ape_percent, 30.0);
  EXPECT_DOUBLE_EQ(*summary.p90_ape_percent, 76.0);  // 40 + 0.6 (100 - 40), at 0.9 * 4 = 3.6
  EXPECT_EQ(summary.mean_ape_percent, 40.0);
  EXPECT_EQ(summary.bias_percent, 24.0);
}

// A product that rounded to TF32 is priced at the rate of TF32, if the topology states one.
TEST(Validation, MeasuredProductsOfTf32NeedItsRate) {
  const auto predicted_us = [](const std::string& gpu, const std::string& dtype) {
    MeasurementSet set = set_of(gpu, 1, 1);
    set.kernels.push_back({.kernel = "gemm",
                           .dtype = dtype,
                           .rows = 8192,
                           .columns = 8192,
                           .inner = 8192,
                           .bytes = 3.0 * 8192 * 8192 * 4,
                           .flops = 2.0 * 8192 * 8192 * 8192,
                           .time_us = 3000.0});
    const auto topology_of = [&](const MeasurementSet&) { return shipped().topology(gpu); };
    const std::vector<KernelPrediction> kernels =
        predict_kernels(shipped_stack("kernels"), topology_of, std::span(&set, 1));
    return kernels.at(0).predicted_us;
  };
  ASSERT_TRUE(predicted_us("h100", "tf32") && predicted_us("h100", "f32"));
  EXPECT_LT(*predicted_us("h100", "tf32"), 0.2 * *predicted_us("h100", "f32"));
  EXPECT_TRUE(predicted_us("mi300x", "f32").has_value());
  EXPECT_FALSE(predicted_us("mi300x", "tf32").has_value());
}

TEST(Validation, RowsWithoutAPriceAreCountedApart) {
  std::vector<RowPrediction> rows(2);
  rows[0].measured_us = 10.0;
  rows[0].predicted_us = 11.0;
  rows[1].measured_us = 10.0;
  rows[1].predicted_us = std::numeric_limits<double>::infinity();
  rows[1].impossible = "no such collective";
  const ErrorSummary summary = summarize(rows);
  EXPECT_EQ(summary.points, 1U);
  EXPECT_EQ(summary.unpriced, 1U);
  EXPECT_DOUBLE_EQ(*summary.median_ape_percent, 10.0);
  EXPECT_EQ(summarize({}).median_ape_percent, std::nullopt);
}

TEST(Validation, BandsAreDecimal) {
  EXPECT_EQ(size_band(999999.0), "<1MB");
  EXPECT_EQ(size_band(1e6), "1-64MB");
  EXPECT_EQ(size_band(64e6 - 1), "1-64MB");
  EXPECT_EQ(size_band(64e6), ">=64MB");
}

TEST(Validation, TheGpuNamesTheTopology) {
  EXPECT_EQ(topology_of_gpu("A100-SXM4-40GB"), "a100-40");
  EXPECT_EQ(topology_of_gpu("A100-SXM4-80GB"), "a100");
  EXPECT_EQ(topology_of_gpu("NVIDIA B300 SXM6 AC"), "b300");
  EXPECT_EQ(topology_of_gpu("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(topology_of_gpu("H200-SXM-141GB"), "h200");
  EXPECT_EQ(topology_of_gpu("B200 (GCP A4)"), "b200");
  EXPECT_EQ(topology_of_gpu("NVIDIA GB200"), "gb200");
  EXPECT_EQ(topology_of_gpu("GB300"), "gb300");
  EXPECT_EQ(topology_of_gpu("AMD Instinct MI300X"), "mi300x");
  EXPECT_EQ(topology_of_gpu("MI308X"), "");
  EXPECT_EQ(topology_of_gpu("MI325X"), "mi300x");
  EXPECT_EQ(topology_of_gpu("MI350X"), "mi355x");
  EXPECT_EQ(topology_of_gpu("MI355X"), "mi355x");
  EXPECT_EQ(topology_of_gpu("MI250X (each GCD a GPU)"), "");
  EXPECT_EQ(topology_of_gpu("GH200-96GB"), "");  // contains "H200", but is not one
  EXPECT_EQ(topology_of_gpu("V100-SXM2-16GB"), "");
}

TEST(Validation, ATopologyIsOfItsGpuAndOfItsVariantsWithoutATopologyOfTheirOwn) {
  const ConfigStore store = shipped();
  const auto is_of = [&](const char* topology, const char* gpu) {
    return is_topology_of(store.topology(topology), gpu);
  };
  EXPECT_TRUE(is_of("h100", "NVIDIA H100 80GB HBM3"));
  EXPECT_TRUE(is_of("h100-roce", "NVIDIA H100 80GB HBM3"));
  EXPECT_TRUE(is_of("h100-hbm2e", "NVIDIA H100 80GB HBM2e"));
  EXPECT_TRUE(is_of("a100-40", "NVIDIA A100-SXM4-40GB"));
  EXPECT_FALSE(is_of("a100", "NVIDIA A100-SXM4-40GB"));
  EXPECT_FALSE(is_of("a100-40", "NVIDIA A100-SXM4-80GB"));
  EXPECT_FALSE(is_of("h200", "NVIDIA H100 80GB HBM3"));
  EXPECT_FALSE(is_of("h100", "NVIDIA H100 PCIe"));
  EXPECT_FALSE(is_of("h100", "Tesla V100"));
  EXPECT_TRUE(has_own_topology("NVIDIA GB300"));
  EXPECT_FALSE(has_own_topology("NVIDIA H100 PCIe"));
  EXPECT_FALSE(has_own_topology("Tesla V100"));
}

TEST(Validation, ASetDecidesTheDevicesOfAHost) {
  const ConfigStore store = shipped();
  const TopologyChoice a100 = topology_for(store, "", set_of("A100-SXM4-40GB", 2, 8));
  EXPECT_EQ(a100.topology.name(), "a100-40");
  EXPECT_EQ(a100.topology.devices_per_host(), 4);
  EXPECT_EQ(a100.warning, "");
  const TopologyChoice v100 = topology_for(store, "", set_of("V100", 2, 16));
  EXPECT_EQ(v100.topology.name(), "h100");
  EXPECT_EQ(v100.warning, "no topology of the GPU \"V100\" is shipped; h100 is used instead");
  EXPECT_EQ(topology_for(store, "", set_of("", 2, 16)).warning,
            "the measurements do not name their GPU; h100 is used");
  const TopologyChoice named = topology_for(store, "b200", set_of("V100", 2, 16));
  EXPECT_EQ(named.topology.name(), "b200");
  EXPECT_EQ(named.warning, "");
  // A rack that is one NVLink domain stays one.
  const MeasurementSet rack = set_of("GB200", 18, 72);
  const Topology gb200 = topology_for(store, "", rack).topology;
  EXPECT_EQ(gb200.domain_devices(), 72);
  EXPECT_EQ(span_on(rack, gb200).domains, 1);
  EXPECT_EQ(span_on(set_of("GB200", 36, 144), gb200).domains, 2);
}

TEST(Validation, AGpuThatOnlyResemblesAShippedOneIsNamed) {
  const ConfigStore store = shipped();
  const std::pair<const char*, const char*> kStandIns[] = {{"NVIDIA H100 PCIe", "h100"},
                                                           {"NVIDIA H100 NVL", "h100"},
                                                           {"H200-NVL", "h200"},
                                                           {"A100-PCIe-80GB", "a100"},
                                                           {"H800", "h100"},
                                                           {"NVIDIA A800-SXM4-80GB", "a100"},
                                                           {"NVIDIA A100-PCIE-40GB", "a100-40"},
                                                           {"AMD Instinct MI325X", "mi300x"},
                                                           {"AMD Instinct MI350X", "mi355x"}};
  for (const auto& [gpu, topology] : kStandIns) {
    const TopologyChoice choice = topology_for(store, "", set_of(gpu, 1, 8));
    EXPECT_EQ(choice.topology.name(), topology) << gpu;
    EXPECT_EQ(choice.warning, "no topology of the GPU \"" + std::string(gpu) + "\" is shipped; " +
                                  topology + " is used instead");
    EXPECT_EQ(topology_for(store, topology, set_of(gpu, 1, 8)).warning, "") << gpu;
  }
  for (const char* gpu : {"NVIDIA H100 80GB HBM3", "NVIDIA GB200 NVL72", "NVIDIA B300 SXM6 AC",
                          "H100-SXM5 (NVLink)"}) {
    EXPECT_EQ(topology_for(store, "", set_of(gpu, 1, 4)).warning, "") << gpu;
  }
}

// What a user sets replaces what the source states.
TEST(Validation, ChangesOfTheNetworkComeAfterWhatTheSourceStates) {
  MeasurementSet set = set_of("H100-SXM5-80GB", 2, 16);
  set.inter = "EFA, 32 x 100 Gb/s per node";
  const auto network_under = [&](std::vector<Override> changes) {
    const ConfigStore store(configs_root(), std::move(changes));
    return topology_for(store, "", set).topology.links().back();
  };
  EXPECT_EQ(network_under({}).bandwidth.value(), 50);
  const LinkLevel changed = network_under({Override::parse("links.network.bandwidth_gb_per_s=5")});
  EXPECT_EQ(changed.bandwidth.value(), 5);
  EXPECT_EQ(changed.latency.value(), network_under({}).latency.value());
}

TEST(Validation, ASourceThatNamesSharpHasANetworkThatReduces) {
  const ConfigStore store = shipped();
  MeasurementSet set = set_of("A100-SXM4-80GB", 4, 32);
  const auto reduces = [&](const std::string& inter, const std::string& named = "") {
    set.inter = inter;
    return topology_for(store, named, set).topology.links().back().reduces;
  };
  EXPECT_TRUE(reduces("InfiniBand HDR with SHARP"));
  EXPECT_FALSE(reduces("InfiniBand HDR"));
  EXPECT_FALSE(reduces("InfiniBand HDR with SHARP", "a100")) << "the named topology says";
}

TEST(Validation, PredictsWhatTheStacksModelPrices) {
  const ConfigStore store = shipped();
  std::vector<MeasurementSet> sets = {set_of("H100", 1, 8), set_of("H100", 2, 16)};
  sets[1].rows.push_back(sets[1].rows[0]);
  sets[1].rows[1].collective = Collective::kAllReduce;
  const auto on_h100 = [&](const MeasurementSet& set) {
    return topology_for(store, "", set).topology;
  };
  const auto rows = predict(shipped_stack("alpha-beta"), on_h100, sets);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].set, 0U);
  EXPECT_EQ(rows[2].set, 1U);
  EXPECT_EQ(rows[2].row, 1U);
  // A ring all-gather on one host: 7 steps of 0.6 us and 7/8 of the bytes at 450 GB/s, and a launch
  // where the model counts one.
  const auto model =
      make_collective_model(shipped_stack("alpha-beta").collective_model, store.topology("h100"));
  EXPECT_EQ(rows[0].predicted_us,
            model->price({Collective::kAllGather, 64e6, sets[0].span()}).total.value());
  EXPECT_GT(rows[0].predicted_us, 64e6 * 7 / 8 / 450e3);
  EXPECT_GT(rows[1].predicted_us, rows[0].predicted_us);
  EXPECT_GT(rows[2].predicted_us, rows[1].predicted_us);
}

}  // namespace validation_test
}  // namespace shardlab
