// Shipped files and paths are found, bases are merged, and --set is applied.
#include "runner/config/configs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "costmodel/base/error.h"
#include "runner/config/program_stack.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace configs_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing_support::message_of;

const fs::path kRoot = SHARDLAB_SOURCE_DIR "/configs";

// A folder of its own for each test.
class Configs : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / ("shardlab_configs_test_" + std::string(test->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const json& value) {
    const fs::path path = folder_ / name;
    std::ofstream(path) << value.dump();
    return path.string();
  }
  static ConfigStore store(const std::vector<std::string>& sets = {}) {
    std::vector<Override> overrides;
    for (const std::string& text : sets) overrides.push_back(Override::parse(text));
    return ConfigStore(kRoot, overrides);
  }

  fs::path folder_;
};

using Overrides = Configs;

// -- Finding --------------------------------------------------------------------------------------

TEST_F(Configs, WhatShardlabMeasuredItselfLiesInAFolderOfItsOwn) {
  fs::create_directories(folder_ / "measurements" / "own");
  write("measurements/public.json", {{"from", "elsewhere"}});
  const std::string own = write("measurements/own/h200.json", {{"from", "here"}});
  const ConfigStore store(folder_);
  EXPECT_EQ(store.names(ConfigKind::kMeasurement),
            (std::vector<std::string>{"own/h200", "public"}));
  EXPECT_EQ(store.find(ConfigKind::kMeasurement, "own/h200"), own);
}

TEST_F(Configs, AShippedNameIsFound) {
  EXPECT_EQ(store().find(ConfigKind::kStack, "dtensor-v3"), kRoot / "stacks/dtensor-v3.json");
  EXPECT_EQ(store().find(ConfigKind::kTopology, "h100"), kRoot / "topologies/h100.json");
  EXPECT_EQ(store().stack("dtensor-v3").name, "dtensor-v3");
}

TEST_F(Configs, APathIsFound) {
  json value = store().stack_json("dtensor-v3");
  value["name"] = "mine";
  const std::string path = write("mine.json", value);
  EXPECT_EQ(store().find(ConfigKind::kStack, path), path);
  EXPECT_EQ(store().stack(path).name, "mine");
}

TEST_F(Configs, ARelativePathStartsFromTheFolderGiven) {
  write("mine.json", store().stack_json("dtensor-v3"));
  EXPECT_EQ(store().find(ConfigKind::kStack, "./mine.json", folder_).lexically_normal(),
            folder_ / "mine.json");
}

TEST_F(Configs, AnUnknownNameListsTheShippedOnes) {
  const std::string message =
      message_of<InputError>([] { static_cast<void>(store().stack("dtensor-v33")); });
  EXPECT_THAT(message, testing::StartsWith("unknown stack \"dtensor-v33\" (did you mean "
                                           "\"dtensor-v3\"?); valid: a path, or alpha-beta, "));
  EXPECT_THAT(message, testing::HasSubstr(", dtensor-v3-rp, "));
  EXPECT_THAT(message_of<InputError>([] { static_cast<void>(store().topology("h1000")); }),
              testing::StartsWith("unknown topology \"h1000\" (did you mean \"h100\"?); valid: a "
                                  "path, or a100, a100-40, b200, b300, gb200, gb300, h100, "
                                  "h100-hbm2e, h100-roce, h200"));
}

TEST_F(Configs, APathWithoutAFileSaysSo) {
  EXPECT_THROW_MSG(
      store().stack("/nowhere/x.json"), InputError,
      "stack \"/nowhere/x.json\": no such file; valid: a path, or a name of `shardlab list "
      "stacks`");
  EXPECT_THROW_MSG(
      store().stack("x.json"), InputError,
      "stack \"x.json\": no such file; valid: a path, or a name of `shardlab list stacks`");
  EXPECT_THROW(static_cast<void>(store().stack("")), InputError);
}

TEST_F(Configs, StacksOfPythonCodeAreNoFiles) {
  for (const std::string name :
       {"torch", "torch:./venv", "torch+patch=a.py", "dtensor-2.13+cost=mine.py:price"}) {
    EXPECT_THROW_MSG(store().stack(name), InputError,
                     "stack \"" + name +
                         "\": Python code can't answer here; valid: a path, or a name of `shardlab "
                         "list stacks`; in an experiment also a file of choices, which `shardlab "
                         "record` writes");
  }
}

TEST_F(Configs, NamesAreSortedAndHaveNoSuffix) {
  const auto names = store().names(ConfigKind::kTopology);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, testing::Contains("h100"));
  EXPECT_TRUE(ConfigStore(folder_).names(ConfigKind::kStack).empty());
}

TEST_F(Configs, ATopologyMayBeAskedForOtherHosts) {
  const Topology one = store().topology("gb200", 1);
  EXPECT_EQ(one.devices_per_host(), 1);
  EXPECT_EQ(one.domain_devices(), 1);
  EXPECT_EQ(store().topology("gb200").domain_devices(), 72);
}

// Blocks of 4 of 8 devices: hosts of 2 lie in one block, hosts of 6 fill none.
TEST_F(Configs, BlocksOfAHostFollowItsDevices) {
  json value = json::parse(std::ifstream(kRoot / "topologies/h100.json"));
  value["links"].insert(value["links"].begin(), json{{"name", "switch"},
                                                     {"joins", "pcie"},
                                                     {"devices", 4},
                                                     {"latency_us", 1.0},
                                                     {"bandwidth_gb_per_s", 25.0}});
  const std::string path = write("blocks.json", value);
  EXPECT_EQ(store().topology(path, 8).links().front().devices, 4);
  EXPECT_EQ(store().topology(path, 2).links().front().devices, 2);
  EXPECT_EQ(store().topology(path, 6).links().front().name, "nvlink");
}

TEST_F(Configs, ProgramsTakeTheStackOfTheTopologysGpu) {
  const auto stack_on = [&](const std::string& topology, const std::vector<std::string>& sets) {
    const ConfigStore configs = store(sets);
    return program_stack(configs, "", configs.topology(topology)).name;
  };
  EXPECT_EQ(stack_on("h100", {}), "calibrated-h100");
  EXPECT_EQ(stack_on("h100-roce", {}), "calibrated-h100") << "its device.gpu";
  EXPECT_EQ(stack_on("h100", {"name=mine"}), "alpha-beta");
  EXPECT_EQ(stack_on("h100", {"name=mine", "device.gpu=h100"}), "calibrated-h100");
}

TEST_F(Configs, ErrorsInAFileNameTheFile) {
  json value = store().stack_json("dtensor-v3");
  value["planner"] = "astar";
  const std::string path = write("bad.json", value);
  EXPECT_THROW_MSG(store().stack(path), ConfigError,
                   path + ":/planner: found \"astar\"; valid: greedy, graph");
}

// -- Bases ----------------------------------------------------------------------------------------

TEST_F(Configs, ABaseIsAShippedNameOrAFileBeside) {
  const std::string first =
      write("first.json", {{"base", "dtensor-v3"}, {"planner", "graph"}, {"title", "first"}});
  const std::string second = write("second.json", {{"base", "first.json"}, {"transition_us", 2}});
  const Stack stack = store().stack(second);
  EXPECT_EQ(stack.name, "second");
  EXPECT_EQ(stack.title, "first.json with other transition_us");
  EXPECT_EQ(stack.redistribution.planner, PlannerKind::kGraph);
  EXPECT_EQ(stack.redistribution.semantics->name(), "v3");
  EXPECT_EQ(stack.transition_us, 2.0);
  EXPECT_EQ(store().stack(first).name, "first");
}

TEST_F(Configs, ABaseThatIsTheFileItselfIsAnError) {
  const std::string path = write("loop.json", {{"base", "loop.json"}});
  EXPECT_THROW_MSG(store().stack(path), ConfigError,
                   path + ":/base: found \"loop.json\", which has this stack as its own base");
}

TEST_F(Configs, BasesInACircleAreAnError) {
  const std::string a = write("a.json", {{"base", "b.json"}});
  write("b.json", {{"base", "a.json"}});
  EXPECT_THAT(message_of<ConfigError>([&] { static_cast<void>(store().stack(a)); }),
              testing::HasSubstr("which has this stack as its own base"));
}

TEST_F(Configs, ABaseThatIsNoStackIsAnError) {
  write("list.json", json::array());
  const std::string path = write("x.json", {{"base", "list.json"}});
  EXPECT_THROW_MSG(store().stack(path), ConfigError,
                   path + ":/base: found \"list.json\", which is not a stack");
  const std::string unknown = write("y.json", {{"base", "dtensor-v9"}});
  EXPECT_THAT(message_of<ConfigError>([&] { static_cast<void>(store().stack(unknown)); }),
              testing::StartsWith(unknown + ":/base: unknown stack \"dtensor-v9\""));
}

// -- --set ----------------------------------------------------------------------------------------

struct OverrideCase {
  const char* name;
  const char* text;
  const char* target;
  std::vector<std::string> keys;
  json value;
};
void PrintTo(const OverrideCase& c, std::ostream* out) { *out << c.text; }
class OverrideText : public testing::TestWithParam<OverrideCase> {};

TEST_P(OverrideText, HasATargetAPathAndAValue) {
  const Override change = Override::parse(GetParam().text);
  EXPECT_EQ(change.target, GetParam().target);
  EXPECT_EQ(change.keys, GetParam().keys);
  EXPECT_EQ(change.value, GetParam().value);
  EXPECT_EQ(change.text, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All, OverrideText,
    testing::Values(
        OverrideCase{
            "BareIsTheTopology", "devices_per_host=1", "topology", {"devices_per_host"}, 1},
        OverrideCase{"Stack", "stack.transition_us=1.5", "stack", {"transition_us"}, 1.5},
        OverrideCase{"Topology",
                     "topology.links.0.latency_us=1",
                     "topology",
                     {"links", "0", "latency_us"},
                     1},
        OverrideCase{"Experiment", "experiment.seed=7", "experiment", {"seed"}, 7},
        OverrideCase{"Text", "stack.planner=graph", "stack", {"planner"}, "graph"},
        OverrideCase{"QuotedText", "stack.name=\"7\"", "stack", {"name"}, "7"},
        OverrideCase{"Object",
                     R"(stack.straggler={"name": "none"})",
                     "stack",
                     {"straggler"},
                     json{{"name", "none"}}},
        OverrideCase{"EmptyText", "stack.title=", "stack", {"title"}, ""},
        OverrideCase{"EqualsInTheValue", "stack.title=a=b", "stack", {"title"}, "a=b"},
        OverrideCase{"OnlyAWholeWordIsATarget", "stacks.x=1", "topology", {"stacks", "x"}, 1}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(OverrideErrors, NameTheForm) {
  for (const char* text : {"devices_per_host", "=1", "stack.=1", "a..b=1", "stack..x=1", ""}) {
    EXPECT_EQ(message_of<TextError>([&] { static_cast<void>(Override::parse(text)); }),
              "--set \"" + std::string(text) +
                  "\": at position 0: expected PATH=VALUE, such as devices_per_host=1 or "
                  "stack.collective_model.params.latency_us=3");
  }
}

TEST_F(Overrides, ReachTheTopology) {
  EXPECT_EQ(store({"devices_per_host=2"}).topology("h100").devices_per_host(), 2);
  EXPECT_EQ(store({"topology.device.launch_us=3"}).topology("h100").device().launch.value(), 3.0);
}

TEST_F(Overrides, ReachAListElementByNameOrPosition) {
  EXPECT_EQ(
      store({"links.network.bandwidth_gb_per_s=25"}).topology("h100").links()[1].bandwidth.value(),
      25.0);
  EXPECT_EQ(store({"links.0.latency_us=9"}).topology("h100").links()[0].latency.value(), 9.0);
}

TEST_F(Overrides, OfAnElementThatIsNotThereListTheElements) {
  EXPECT_THROW_MSG(store({"links.netwrk.latency_us=1"}).topology("h100"), InputError,
                   "--set links.netwrk.latency_us=1: no element \"netwrk\" there (did you mean "
                   "\"network\"?); valid: nvlink, network");
  EXPECT_THROW_MSG(store({"links.2.latency_us=1"}).topology("h100"), InputError,
                   "--set links.2.latency_us=1: no element \"2\" there; valid: nvlink, network");
}

TEST_F(Overrides, ReachTheStackAndItsModelsParameters) {
  const Stack stack =
      store({"stack.planner=graph", "stack.collective_model.params.base_latency_us=1"})
          .stack("dtensor-v3");
  EXPECT_EQ(stack.redistribution.planner, PlannerKind::kGraph);
  EXPECT_EQ(stack.collective_model.params["base_latency_us"], 1);
}

TEST_F(Overrides, ReachIntoAModelThatIsWrittenAsItsNameAlone) {
  // "compute_model": "none", "transitions": "v3"
  const Stack stack =
      store({"stack.compute_model.name=roofline", "stack.compute_model.params.launch_us=1"})
          .stack("dtensor-v3");
  EXPECT_EQ(stack.compute_model.entry->name, "roofline");
  EXPECT_EQ(stack.compute_model.params["launch_us"], 1);
}

TEST_F(Overrides, ApplyInTheirOrder) {
  EXPECT_EQ(store({"devices_per_host=2", "devices_per_host=4"}).topology("h100").devices_per_host(),
            4);
}

TEST_F(Overrides, OfAStackLeaveTheTopologyAlone) {
  EXPECT_EQ(store({"stack.transition_us=1"}).topology("h100"), store().topology("h100"));
  EXPECT_EQ(store({"devices_per_host=1"}).stack("dtensor-v3").to_json(),
            store().stack("dtensor-v3").to_json());
}

TEST_F(Overrides, WithAnUnknownKeyAreTheCommandLinesFault) {
  EXPECT_THAT(message_of<InputError>(
                  [] { static_cast<void>(store({"device_per_host=1"}).topology("h100")); }),
              testing::AllOf(testing::StartsWith("--set device_per_host=1: "),
                             testing::HasSubstr("did you mean \"devices_per_host\"?")));
  EXPECT_THAT(message_of<InputError>(
                  [] { static_cast<void>(store({"stack.planner=astar"}).stack("dtensor-v3")); }),
              testing::HasSubstr("/planner: found \"astar\"; valid: greedy, graph"));
}

TEST_F(Overrides, OfAGoodValueDoNotHideABadFile) {
  json value = store().stack_json("dtensor-v3");
  value["merge"] = "maybe";
  const std::string path = write("bad.json", value);
  EXPECT_THROW_MSG(store({"stack.planner=graph"}).stack(path), ConfigError,
                   path + ":/merge: found \"maybe\"; valid: off, execute, price");
}

TEST_F(Overrides, ThroughANumberAreAnError) {
  EXPECT_THROW_MSG(store({"devices_per_host.x=1"}).topology("h100"), InputError,
                   "--set devices_per_host.x=1: found 8 before \"x\"; valid: an object");
}

TEST_F(Overrides, ApplyToAnAskedNumberOfDevicesLast) {
  EXPECT_EQ(store({"devices_per_host=2"}).topology("h100", 1).devices_per_host(), 2);
}

}  // namespace configs_test
}  // namespace shardlab
