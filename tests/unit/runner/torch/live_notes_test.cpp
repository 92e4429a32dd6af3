#include "runner/torch/live_notes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shardlab {
namespace live_notes_test {

using nlohmann::json;

json ignored(const char* op, const char* table) {
  return {{"op", op}, {"table", table}, {"found_in", "op_single_dim_strategy_funcs"}};
}

TEST(LiveNotes, AreNoneWhereEveryChangeTakesPart) {
  EXPECT_TRUE(live_notes({{"ignored_registrations", json::array()}}, {}, "dtensor-2.15").empty());
}

TEST(LiveNotes, NameTheFirstOpsOfEachTableThatPyTorchIgnores) {
  const std::vector<std::string> notes =
      live_notes({{"ignored_registrations",
                   {ignored("aten.mm.default", "op_strategy_funcs"),
                    ignored("aten.add.Tensor", "op_strategy_funcs"),
                    ignored("aten.neg.default", "op_to_rules"),
                    ignored("aten.bmm.default", "op_strategy_funcs"),
                    ignored("aten.sin.default", "op_strategy_funcs")}}},
                 {}, "dtensor-2.15");
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_TRUE(notes[0].starts_with(
      "PyTorch ignores what is registered in op_strategy_funcs for aten.add.Tensor, "
      "aten.bmm.default, aten.mm.default and 1 more, since it finds them in "
      "op_single_dim_strategy_funcs first; "))
      << notes[0];
  EXPECT_TRUE(notes[1].starts_with(
      "PyTorch ignores what is registered in op_to_rules for aten.neg.default, since it finds the "
      "op in op_single_dim_strategy_funcs first; "))
      << notes[1];
}

TEST(LiveNotes, NameChangesOfTheDispatchThatTakePartInNoAnswer) {
  MachineryChanges changes;
  changes.add("_sharding_prop.ShardingPropagator.propagate");
  changes.add("_dispatch.OpDispatcher._custom_op_handlers[aten.relu.default]");
  EXPECT_TRUE(changes.others.empty());
  const std::vector<std::string> notes = live_notes(json::object(), changes, "dtensor-2.15");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0],
            "found a change from dtensor-2.15 in _sharding_prop.ShardingPropagator.propagate and "
            "_dispatch.OpDispatcher._custom_op_handlers[aten.relu.default], which take part in no "
            "answer: PyTorch runs them when it dispatches an op, and shardlab asks only which "
            "placements the propagator decides on");
}

}  // namespace live_notes_test
}  // namespace shardlab
