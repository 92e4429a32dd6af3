// Our copies of AutoParallel's cost models return its golden values, to 1e-12 relative: for
// collectives and the parts of their prices, for the edges of a graph, and for kernels. Source:
// meta-pytorch/autoparallel at a54c252; the header of each file says what it holds. A sample of
// each is in tests/golden/autoparallel (thinned by scripts/thin_autoparallel_golden.py). The whole
// files are read where they are.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "costmodel/models/ap_nccl.h"
#include "costmodel/registry.h"
#include "runner/config/read_json.h"
#include "sim/redistribute.h"
#include "strategies/rules/rule_table.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace autoparallel_test {

using nlohmann::json;
using testing_support::collective_model;
using testing_support::compute_model;
using testing_support::topology_with;

// Counts equal values and keeps the first differences.
class Tally {
 public:
  void compare(double expected, double found, const std::function<std::string()>& what) {
    ++compared_;
    if (expected == found || std::abs(found - expected) <= 1e-12 * std::abs(expected)) return;
    ++different_;
    if (different_ <= 5) {
      shown_ +=
          what() + ": " + std::to_string(found) + ", golden " + std::to_string(expected) + "\n";
    }
  }
  void finish(std::size_t least) const {
    EXPECT_EQ(different_, 0U) << "of " << compared_ << "\n" << shown_;
    EXPECT_GE(compared_, least);
    testing::Test::RecordProperty("compared", std::to_string(compared_));
  }

 private:
  std::size_t compared_ = 0;
  std::size_t different_ = 0;
  std::string shown_;
};

double number_or_infinity(const json& value) {
  return value.is_null() ? kInfinity : value.get<double>();
}

class ApGolden : public testing::TestWithParam<bool> {
 protected:
  // The sample, whose rows a reviewer can read, or the whole file.
  static json read(const std::string& name) {
    return read_json_file(
        GetParam() ? SHARDLAB_GOLDEN_DIR "/autoparallel/autoparallel_" + name + "_cost.json"
                   : SHARDLAB_SOURCE_DIR "/tests/golden/autoparallel/" + name + ".json");
  }
};

double capability(const std::string& name) {
  if (name == "AMPERE" || name == "A100") return 80;
  return name == "HOPPER" || name == "H100" ? 90 : 100;
}

json nccl_choice(const json& config) {
  json params = {{"architecture", capability(config["arch"])},
                 {"gpus_per_node", config["gpus_per_node"]},
                 {"intra_bandwidth_gb_per_s", config["bw_intra"]},
                 {"inter_bandwidth_gb_per_s", config["bw_inter"]},
                 {"nvswitch", config["has_nvswitch"].get<bool>() ? 1 : 0},
                 {"collnet", config["has_collnet"].get<bool>() ? 1 : 0},
                 {"net_latency_us", config["net_latency"]}};
  if (!config["num_channels"].is_null()) params["channels"] = config["num_channels"];
  return {{"name", "ap_nccl"}, {"params", params}};
}

ap_nccl::Config nccl_config(const json& config, double channels) {
  const double arch = capability(config["arch"]);
  return {.architecture = arch == 80   ? ApArchitecture::kAmpere
                          : arch == 90 ? ApArchitecture::kHopper
                                       : ApArchitecture::kBlackwell,
          .gpus_per_node = config["gpus_per_node"],
          .intra = config["bw_intra"],
          .inter = config["bw_inter"],
          .channels = channels,
          .nvswitch = config["has_nvswitch"],
          .collnet = config["has_collnet"],
          .net_latency = config["net_latency"]};
}

// What AutoParallel assumes where its config says nothing.
double channels_of(const json& config) {
  if (!config["num_channels"].is_null()) return config["num_channels"];
  return config["arch"] == "AMPERE" ? 12 : 16;
}

GroupSpan span_of(const json& mesh, int dim) {
  return DeviceMesh::make(mesh.get<std::vector<std::int64_t>>()).span(dim, topology_with(8));
}

TEST_P(ApGolden, CollectivesHaveTheGoldenPrices) {
  const json file = read("nccl");
  const std::array kinds = {Collective::kAllGather, Collective::kReduceScatter,
                            Collective::kAllReduce, Collective::kAllToAll};
  std::vector<std::unique_ptr<CostModel>> models;
  for (const json& config : file["configs"]) {
    models.push_back(collective_model(nccl_choice(config), topology_with(8)));
  }
  std::map<std::pair<std::size_t, int>, GroupSpan> spans;
  Tally tally;
  for (const json& point : file["points"]) {
    const std::size_t mesh = point[1];
    const int dim = point[2];
    auto [it, is_new] = spans.try_emplace({mesh, dim});
    if (is_new) it->second = span_of(file["meshes"][mesh], dim);
    const CollectiveQuery query{kinds[point[3].get<std::size_t>()], point[4], it->second};
    const CostModel& model = *models[point[0].get<std::size_t>()];
    const Price price = model.price(query);
    tally.compare(number_or_infinity(point[5]), price.total.value(), [&] { return point.dump(); });
    const std::vector<Alternative> all = model.alternatives(query);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.front().price.total, price.total);
  }
  tally.finish(GetParam() ? 21432 : 2000);
}

TEST_P(ApGolden, MeshDimsMakeTheGoldenGroups) {
  const json file = read("nccl");
  Tally tally;
  for (const json& row : file["topologies"]) {
    const json& golden = file["configs"][row["config"].get<std::size_t>()];
    const ap_nccl::Config config = nccl_config(golden, channels_of(golden));
    const GroupSpan span = span_of(file["meshes"][row["mesh"].get<std::size_t>()], row["dim"]);
    const ap_nccl::Group group = ap_nccl::group_of(config, span);
    const auto what = [&] { return row.dump(); };
    tally.compare(row["n_ranks"], static_cast<double>(group.ranks), what);
    tally.compare(row["n_nodes"], static_cast<double>(group.nodes), what);
    tally.compare(row["ppn"], static_cast<double>(group.ppn), what);
    tally.compare(row["bw_intra"], config.intra / config.channels, what);
    tally.compare(row["bw_inter"], config.inter / config.channels, what);
    tally.compare(row["n_channels"], config.channels, what);
  }
  tally.finish(434 * 6);
}

TEST_P(ApGolden, AlgorithmsAndProtocolsHaveTheGoldenTimes) {
  const json file = read("nccl");
  Tally tally;
  for (const json& row : file["internals"]) {
    const json& golden = file["configs"][row["config"].get<std::size_t>()];
    const ap_nccl::Config config = nccl_config(golden, channels_of(golden));
    const ap_nccl::Group group =
        ap_nccl::group_of(config, span_of(row["mesh_shape"], row["mesh_dim"]));
    const bool all_reduce = row["func"] == "ALLREDUCE";
    const auto algorithm =
        from_name<ap_nccl::Algorithm>(row["algo"].get_ref<const std::string&>()).value();
    const auto protocol =
        from_name<ap_nccl::Protocol>(row["proto"].get_ref<const std::string&>()).value();
    const auto what = [&] { return row.dump(); };
    tally.compare(row["eligible"].get<bool>() ? 1 : 0,
                  ap_nccl::is_eligible(config, group, all_reduce, algorithm, protocol) ? 1 : 0,
                  what);
    tally.compare(row["lat_us"], ap_nccl::latency(config, group, all_reduce, algorithm, protocol),
                  what);
    tally.compare(row["bw_gbps"],
                  ap_nccl::bandwidth(config, group, all_reduce, algorithm, protocol), what);
    for (const auto& [bytes, us] : row["time_us"].items()) {
      tally.compare(
          number_or_infinity(us),
          ap_nccl::loop_time(config, group, all_reduce, algorithm, protocol, std::stoll(bytes))
              .total,
          what);
    }
  }
  tally.finish(GetParam() ? 972 * 8 : 150 * 8);
}

TEST_P(ApGolden, SizeCorrectionsAreTheGoldenOnes) {
  const json file = read("nccl");
  const std::map<std::string, ap_nccl::SizeTable> tables = {
      {"ring_correction", ap_nccl::ring_correction(1)},
      {"ring_correction_depth8", ap_nccl::ring_correction(8)},
      {"ring_correction_depth32", ap_nccl::ring_correction(32)},
      {"nvls_tree_ramp", ap_nccl::nvls_tree_ramp()},
      {"table_ring_full_mesh_ramp", ap_nccl::full_mesh_ramp()}};
  Tally tally;
  for (const json& row : file["interp_points"]) {
    tally.compare(row[2], ap_nccl::interpolate(tables.at(row[0]), row[1]),
                  [&] { return row.dump(); });
  }
  for (const auto& [nodes, golden] : file["depth_scaled_ring_correction"].items()) {
    const ap_nccl::SizeTable table = ap_nccl::ring_correction(std::stoll(nodes));
    for (std::size_t i = 0; i < table.size(); ++i) {
      tally.compare(golden[i], table[i], [&, at = nodes] { return at + " nodes"; });
    }
  }
  tally.finish(120 + 8 * 24);
}

// Parses a layout like Layout::parse, but takes any mix of partials.
Layout layout_of(const std::string& text) {
  Placements placements;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && (text[end] == '(' || text[end - 1] == '_')) {
      end = text[end] == '(' ? text.find(')', end) + 1 : end + 1;
    }
    placements.push_back(Placement::parse(text.substr(begin, end - begin)));
    begin = end;
  }
  return Layout(placements);
}

DType dtype_of(const std::string& name) {
  static const std::map<std::string, DType> kNames = {{"bfloat16", DType::kBF16},
                                                      {"float32", DType::kF32},
                                                      {"int64", DType::kI64},
                                                      {"complex64", DType::kF64},
                                                      {"uint64", DType::kI64}};  // of the same size
  return kNames.at(name);
}

TEST_P(ApGolden, EdgesHaveTheGoldenPrices) {
  const json file = read("redistribute");
  struct Priced {
    std::unique_ptr<CostModel> collectives;
    std::unique_ptr<ComputeModel> kernels;
    std::unique_ptr<Redistributor> redistributor;
  };
  std::map<std::string, Priced> all;
  Tally tally;
  for (const json& point : file["points"]) {
    const json params = {{"architecture", capability(point[0])}};
    Priced& priced = all[point[0].dump() + point[1].dump() + point[2].dump()];
    if (!priced.redistributor) {
      const Topology topology = topology_with(8);
      priced.kernels = compute_model({{"name", "ap_roofline"}, {"params", params}}, topology);
      priced.collectives =
          point[1] == "nccl" ? collective_model({{"name", "ap_nccl"}, {"params", params}}, topology)
                             : collective_model("ap_default", topology);
      priced.redistributor = std::make_unique<Redistributor>(
          DeviceMesh::parse(point[2].get<std::string>()), topology,
          RedistributionOptions{.semantics = edge_semantics("autoparallel")}, *priced.collectives,
          *priced.kernels);
    }
    TensorMeta meta;
    meta.dtype = dtype_of(point[5]);
    for (const json& extent : point[3]) meta.shape.push_back(extent);
    for (const json& stride : point[4]) meta.strides.push_back(stride);
    const double us = priced.redistributor->cost_us(meta, layout_of(point[6]), layout_of(point[7]));
    tally.compare(number_or_infinity(point[8]), us, [&] { return point.dump(); });
  }
  tally.finish(GetParam() ? 12111 : 1400);
}

TEST_P(ApGolden, MemoryTimesAreTheGoldenOnes) {
  const json file = read("redistribute");
  Tally tally;
  for (const json& row : file["read_write"]) {
    const auto model =
        compute_model({{"name", "ap_roofline"}, {"params", {{"architecture", capability(row[0])}}}},
                      topology_with(8));
    tally.compare(row[2], model->price({.bytes = row[1]}).total.value(),
                  [&] { return row.dump(); });
  }
  tally.finish(36);
}

// The names that our rules have for AutoParallel's operators, where they differ.
std::string op_of(const std::string& name) {
  const bool casts =
      name == "prims.convert_element_type.default" || name == "autoparallel.dtype_cast.default";
  return casts ? "aten._to_copy.default" : name;
}

const OpRule& rule_of(const std::string& op) {
  for (const RuleSet set : {RuleSet(Release::k2_13), kShardlab}) {
    for (const OpRule& rule : rule_table(set).rules()) {
      if (rule.op == op) return rule;
    }
  }
  throw std::runtime_error("no rule of " + op);
}

TEST_P(ApGolden, KernelsHaveTheGoldenTimes) {
  const json file = read("compute");
  std::map<std::string, std::unique_ptr<ComputeModel>> models;
  for (const char* device : {"H100", "A100", "B200"}) {
    models[device] =
        compute_model({{"name", "ap_roofline"}, {"params", {{"architecture", capability(device)}}}},
                      topology_with(8));
  }
  Tally tally;
  for (const json& point : file["points"]) {
    const OpRule& rule = rule_of(op_of(point[0]));
    OpCall call;
    call.op = rule.op;
    std::vector<Shape> shapes;
    KernelQuery query{.kind = rule.kernel, .dtype = dtype_of(point[1][0][2])};
    for (const json& tensor : point[1]) {
      TensorSpec spec;
      spec.meta.dtype = dtype_of(tensor[2]);
      for (const json& extent : tensor[0]) spec.meta.shape.push_back(extent);
      query.bytes += spec.meta.bytes();
      shapes.push_back(spec.meta.shape);
      call.inputs.push_back({.tensors = {spec}});
    }
    for (const json& tensor : point[3]) {
      TensorMeta meta;
      meta.dtype = dtype_of(tensor[2]);
      for (const json& extent : tensor[0]) meta.shape.push_back(extent);
      query.bytes += meta.bytes();
    }
    call.args = point[2];
    if (rule.flops != nullptr &&
        (rule.kernel == Kernel::kGemm || rule.kernel == Kernel::kAttention)) {
      query.flops = rule.flops(shapes, call);
    }
    const auto what = [&] { return point[0].dump() + point[1].dump(); };
    tally.compare(point[4], query.flops, what);
    tally.compare(point[5], query.bytes, what);
    tally.compare(point[6], models["H100"]->price(query).total.value(), what);
    tally.compare(point[7], models["A100"]->price(query).total.value(), what);
    tally.compare(point[8], models["B200"]->price(query).total.value(), what);
  }
  tally.finish(5 * (GetParam() ? 832 : 200));
}

TEST_P(ApGolden, ViewsCostNothing) {
  const json file = read("compute");
  const auto model = compute_model("ap_roofline", topology_with(8));
  // Our graphs have no ops for these: a part of a tuple, and views of complex numbers.
  const std::set<std::string> absent = {"<built-in function getitem>", "aten._conj.default",
                                        "aten.view_as_complex.default",
                                        "aten.view_as_real.default"};
  for (const json& op : file["header"]["zero_cost_ops"]) {
    if (absent.contains(op)) continue;
    const Kernel kernel = rule_of(op).kernel;
    EXPECT_EQ(model->price({.kind = kernel, .bytes = 1e9}).total.value(), 0.0) << op;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ApGolden, testing::Bool(),
                         [](const auto& test) { return test.param ? "Whole" : "Sample"; });

}  // namespace autoparallel_test
}  // namespace shardlab
