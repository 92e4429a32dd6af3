#include "reports/live_stacks.h"

#include <gtest/gtest.h>

namespace shardlab::reports {
namespace live_stacks_test {

using nlohmann::json;

json checked(const char* stack, int asked, int equal) {
  return {{"stack", stack}, {"verified", {{"asked", asked}, {"equal", equal}}}};
}

TEST(LiveStackNotes, NameEachStackOfWhichASampleDiffers) {
  RunHeader header;
  EXPECT_TRUE(live_stack_notes(header).empty());
  header.provenance = json::object({{"torch", checked("torch:one", 20, 20)}});
  EXPECT_TRUE(live_stack_notes(header).empty());
  const json several = json::array({checked("torch:one", 20, 14), json::object({{"stack", "mine"}}),
                                    checked("torch:two", 2, 1)});
  header.provenance = json::object({{"torch", several}});
  EXPECT_EQ(live_stack_notes(header),
            (std::vector<std::string>{
                "6 of the 20 decisions of torch:one that were asked as a check differ from what "
                "its rules and prices gave, so that PyTorch decided everything",
                "1 of the 2 decisions of torch:two that were asked as a check differs from what "
                "its rules and prices gave, so that PyTorch decided everything"}));
}

}  // namespace live_stacks_test
}  // namespace shardlab::reports
