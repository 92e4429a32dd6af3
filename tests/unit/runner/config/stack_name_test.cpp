// Names of stacks that a live PyTorch answers.
#include "runner/config/stack_name.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "costmodel/base/printable.h"

namespace shardlab {
namespace stack_name_test {

TEST(LiveStackName, ReadsAnInterpreterAndItsPartsInAnyOrder) {
  const auto name = LiveStackName::parse(
      "torch:./venv+patch=a.py+overlay=../pr-branch+patch=b+c.py+rules=r.py+cost=x.py:price");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->python, "./venv");
  EXPECT_EQ(name->overlay, "../pr-branch");
  EXPECT_EQ(name->patches, (std::vector<std::string>{"a.py", "b+c.py"}));
  EXPECT_EQ(name->rules, (std::vector<std::string>{"r.py"}));
  EXPECT_EQ(name->cost, "x.py:price");
}

TEST(LiveStackName, NeedsNoInterpreter) {
  EXPECT_EQ(LiveStackName::parse("torch")->python, "");
  EXPECT_EQ(LiveStackName::parse("torch+rules=r.py")->rules.size(), 1U);
}

TEST(LiveStackName, LeavesNamesOfOtherStacksAlone) {
  for (const char* name : {"dtensor-v3", "torchlike", "./torch.json", "", "my+torch"}) {
    EXPECT_FALSE(LiveStackName::parse(name).has_value()) << name;
  }
}

TEST(LiveStackName, MayBeAStackOfOurOwnWithACostFunction) {
  const auto name = LiveStackName::parse("./stacks/a+b.json+cost=mine.py:price");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->base, "./stacks/a+b.json");
  EXPECT_EQ(name->cost, "mine.py:price");
}

// The system reads such names up to the NUL: another interpreter would run than the one that is
// named.
TEST(LiveStackName, HasNoNul) {
  for (const std::string& text :
       {std::string("torch:python3\0.12", 17), std::string("torch+rules=r.py\0", 17),
        std::string("dtensor-v3+cost=a.py\0:f", 23)}) {
    try {
      static_cast<void>(LiveStackName::parse(text));
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()),
                "stack \"" + printable(text) + "\": found a NUL; valid: names without one");
    }
  }
}

struct BadName {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const BadName& bad, std::ostream* out) { *out << bad.name; }
class BadNames : public testing::TestWithParam<BadName> {};

TEST_P(BadNames, SayWhatWasFoundAndWhatIsValid) {
  try {
    static_cast<void>(LiveStackName::parse(GetParam().text));
    FAIL() << GetParam().text;
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadNames,
    testing::Values(
        BadName{"NoInterpreter", "torch:", "found nothing after torch:; valid: an interpreter"},
        BadName{"NoInterpreterBeforeAPart", "torch:+patch=a.py", "found nothing after torch:"},
        BadName{"UnknownPart", "torch+pach=a.py", "found \"+pach=a.py\"; valid: +overlay=DIR"},
        BadName{"EmptyPart", "torch+overlay=", "found nothing after +overlay="},
        BadName{"NoStackBeforeACost", "+cost=a.py:f", "found no stack in front of +cost=a.py:f"},
        BadName{"PatchOfAStackOfOurOwn", "dtensor-v3+patch=a.py+cost=a.py:f",
                "found +patch= after dtensor-v3; valid: +cost=FILE.py:FUNCTION"},
        BadName{"RulesOfAStackOfOurOwn", "dtensor-v3+rules=a.py",
                "found +rules= after dtensor-v3; valid: +cost=FILE.py:FUNCTION, or a stack that "
                "begins with torch"},
        BadName{"TwoOverlays", "torch+overlay=a+overlay=b", "found +overlay twice; valid: once"},
        BadName{"TwoCosts", "torch+cost=a.py:f+cost=b.py:f", "found +cost twice; valid: once"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace stack_name_test
}  // namespace shardlab
