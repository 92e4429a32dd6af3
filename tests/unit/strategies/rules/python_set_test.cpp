#include "strategies/rules/python_set.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace shardlab {
namespace {

// Reads placements with blanks between them.
PythonSet set_of(const std::string& placements) {
  PythonSet set;
  std::istringstream words(placements);
  for (std::string word; words >> word;) set.add(Placement::parse(word));
  return set;
}

std::string order_of(const PythonSet& set) {
  std::string text;
  for (const Placement& p : set.in_order()) text += (text.empty() ? "" : " ") + p.text();
  return text;
}

struct Order {
  const char* added;
  const char* walked;
};
void PrintTo(const Order& c, std::ostream* out) { *out << c.added; }
class PythonSetOrders : public testing::TestWithParam<Order> {};

// What list({...}) of the placements gives, recorded from PyTorch 2.13.0 on CPython 3.11 with
// PYTHONHASHSEED=0.
TEST_P(PythonSetOrders, AreThoseOfPython) {
  EXPECT_EQ(order_of(set_of(GetParam().added)), GetParam().walked);
}

INSTANTIATE_TEST_SUITE_P(
    All, PythonSetOrders,
    testing::Values(Order{"R S(0)", "S(0) R"}, Order{"R S(6) S(0)", "S(0) R S(6)"},
                    Order{"S(3) _S(1,8)", "_S(1,8) S(3)"},
                    Order{"P(sum) _S(3,4) _S(3,3)", "P(sum) _S(3,3) _S(3,4)"},
                    Order{"S(1) S(7) S(2)", "S(1) S(2) S(7)"},
                    Order{"_S(1,2) _S(3,3) _S(0,8) _S(2,3)", "_S(2,3) _S(0,8) _S(1,2) _S(3,3)"},
                    Order{"_S(0,3) _S(3,4) S(5) S(2)", "S(2) S(5) _S(0,3) _S(3,4)"},
                    Order{"_S(1,2) R P(avg) _S(3,8) _S(0,3)", "_S(3,8) _S(1,2) _S(0,3) P(avg) R"},
                    Order{"_S(0,4) _S(2,2) _S(3,3) R _S(2,8)", "_S(0,4) _S(3,3) _S(2,2) R _S(2,8)"},
                    Order{"_S(0,8) S(7) _S(3,2) _S(3,4) S(6) _S(1,8)",
                          "_S(3,4) S(6) S(7) _S(1,8) _S(3,2) _S(0,8)"},
                    Order{"P(min) S(2) P(avg) S(9) R _S(3,8) _S(3,4) _S(2,3)",
                          "S(2) P(min) _S(3,8) _S(3,4) S(9) _S(2,3) P(avg) R"},
                    Order{"_S(1,4) R P(avg) _S(0,3) _S(2,4) S(5) _S(0,4) _S(3,2) P(max) _S(1,3)",
                          "P(max) _S(2,4) _S(0,4) S(5) _S(0,3) _S(1,4) P(avg) _S(3,2) _S(1,3) R"},
                    Order{"S(6) _S(3,3) _S(0,8) _S(1,2) _S(1,4) P(min) _S(0,2) _S(3,4) _S(2,4) "
                          "_S(3,2) P(avg) S(8) R _S(0,4)",
                          "_S(2,4) _S(1,2) P(min) _S(3,4) S(6) _S(0,4) S(8) _S(3,2) _S(1,4) "
                          "_S(0,2) _S(3,3) P(avg) _S(0,8) R"}));

// set(other) of a set that has grown walks a smaller table.
TEST(PythonSet, ACopyMayHaveAnotherOrder) {
  PythonSet copy;
  copy.add_all(set_of("_S(0,4) _S(2,2) _S(3,3) R _S(2,8)"));
  EXPECT_EQ(order_of(set_of("_S(0,4) _S(2,2) _S(3,3) R _S(2,8)")),
            "_S(0,4) _S(3,3) _S(2,2) R _S(2,8)");
  EXPECT_EQ(order_of(copy), "_S(3,3) _S(0,4) _S(2,2) R _S(2,8)");
}

}  // namespace
}  // namespace shardlab
