// Which nodes are at the same place of repeated layers, and regions whose strategies the program
// lists.
#include "strategies/programs/repeated_regions.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/base/error.h"
#include "strategies/programs/program_strategies.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace repeated_regions_test {

using testing_support::message_of;
using Ties = std::map<std::string, std::string>;

Program program_of(const nlohmann::json& nodes) {
  return Program::from_json({{"schema", "shardlab/program/1"}, {"name", "p"}, {"nodes", nodes}},
                            {"p.json", ""});
}
nlohmann::json outputs() {
  return nlohmann::json::array({{{"dtype", "bf16"}, {"shape", {8, 8}}, {"stride", {8, 1}}}});
}
nlohmann::json source(const std::string& name) {
  return {{"name", name}, {"kind", "parameter"}, {"outputs", outputs()}};
}
nlohmann::json op(const std::string& name, const std::string& op,
                  const std::vector<std::string>& inputs, const std::string& trace) {
  return {{"name", name}, {"op", op}, {"inputs", inputs}, {"trace", trace}, {"outputs", outputs()}};
}

Ties ties_of(const nlohmann::json& nodes) {
  const Program program = program_of(nodes);
  const DeviceMesh mesh = DeviceMesh::parse("2");
  const std::vector<std::uint32_t> roots =
      repeated_regions(program, enumerate_strategies(program, mesh, {}));
  Ties ties;
  for (std::size_t n = 0; n < roots.size(); ++n) {
    if (roots[n] != n) ties[program.nodes[n].name] = program.nodes[roots[n]].name;
  }
  return ties;
}

// Layers of a product and what comes after it, each reading the one before.
nlohmann::json layers(int count, const std::string& after = "aten.relu.default") {
  nlohmann::json nodes = nlohmann::json::array({source("x")});
  for (int i = 0; i < count; ++i) nodes.push_back(source("w" + std::to_string(i)));
  nodes.push_back(op("in", "aten.alias.default", {"x"}, "model.py:1"));
  std::string last = "in";
  for (int i = 0; i < count; ++i) {
    const std::string own = std::to_string(i);
    nodes.push_back(op("mm" + own, "aten.mm.default", {last, "w" + own}, "model.py:2"));
    nodes.push_back(op("end" + own, after, {"mm" + own}, "model.py:3"));
    nodes.push_back(op("name" + own, "aten.alias.default", {"end" + own}, "model.py:4"));
    last = "name" + own;
  }
  return nodes;
}

TEST(RepeatedRegions, NodesAtTheSamePlaceOfALayerAreTiedToThoseOfTheFirst) {
  EXPECT_EQ(ties_of(layers(3)), (Ties{{"mm1", "mm0"},
                                      {"mm2", "mm0"},
                                      {"end1", "end0"},
                                      {"end2", "end0"},
                                      {"name1", "name0"},
                                      {"name2", "name0"}}));
  EXPECT_EQ(ties_of(layers(1)), Ties());
}

TEST(RepeatedRegions, NodesOfOtherLinesAreNotTied) {
  nlohmann::json nodes = layers(2);
  nodes.back()["trace"] = "model.py:9";
  // The last layer's end has no counterpart behind it now, but is still alike the first layer's.
  EXPECT_EQ(ties_of(nodes), (Ties{{"mm1", "mm0"}, {"end1", "end0"}}));
  for (nlohmann::json& node : nodes) {
    if (node.contains("trace")) node["trace"] = node["name"];
  }
  EXPECT_EQ(ties_of(nodes), Ties());
}

TEST(RepeatedRegions, RegionsStayInOnePassOfTheStep) {
  nlohmann::json nodes = layers(2);
  for (nlohmann::json& node : nodes) {
    if (node["name"] == "mm1" || node["name"] == "end1" || node["name"] == "name1") {
      node["phase"] = "backward";
    }
  }
  EXPECT_EQ(ties_of(nodes), Ties());
}

TEST(RepeatedRegions, ANodeAloneIsNoRegion) {
  nlohmann::json nodes = {source("x"), source("w")};
  nodes.push_back(op("a", "aten.relu.default", {"x"}, "model.py:1"));
  nodes.push_back(op("b", "aten.relu.default", {"w"}, "model.py:1"));
  EXPECT_EQ(ties_of(nodes), Ties());
}

// The args of a region with one strategy.
nlohmann::json listing(const std::vector<std::string>& layouts) {
  nlohmann::json args = {{"positional", nlohmann::json::array()}};
  args["positional"].push_back(layouts);
  return args;
}

TEST(ListedOps, HaveTheStrategiesThatTheProgramLists) {
  nlohmann::json nodes = nlohmann::json::array({source("x")});
  nodes.push_back(op("y", "autoparallel.local_map", {"x"}, ""));
  nodes.back()["args"] = listing({"S(0)", "S(1)"});
  nodes.push_back(op("z", "aten.relu.default", {"y"}, ""));
  const auto strategies_of = [](const nlohmann::json& of) {
    return enumerate_strategies(program_of(of), DeviceMesh::parse("2"), {});
  };
  const ProgramStrategies all = strategies_of(nodes);
  ASSERT_EQ(all.of(1).strategies, 1);
  EXPECT_EQ(all.strategy_text(all.of(1), 0), "S(0)<-S(1)");
  EXPECT_TRUE(all.notes.empty());

  nodes[1]["args"] = listing({"S(0)"});
  EXPECT_EQ(
      message_of<InputError>([&] { static_cast<void>(strategies_of(nodes)); }),
      "node y: autoparallel.local_map: args.positional: found [\"S(0)\"]; valid: a list of at "
      "least one strategy, each a list of 2 layouts on the mesh 2, of the node's outputs and "
      "then of its inputs");
  nodes[1]["args"] = listing({"S(0)", "S(7)"});
  EXPECT_EQ(message_of<InputError>([&] { static_cast<void>(strategies_of(nodes)); }),
            "node y: args.positional: found \"S(7)\"; valid: a layout of bf16[8,8] on the mesh 2");
}

}  // namespace repeated_regions_test
}  // namespace shardlab
