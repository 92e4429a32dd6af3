// The quantiles of Student's t agree with the printed tables of statistics books.
#include "costmodel/calibrate/student_t.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace student_t_test {

TEST(StudentT, IsThatOfTheTables) {
  EXPECT_NEAR(student_t_95(1), 12.706, 0.0005);
  EXPECT_NEAR(student_t_95(2), 4.303, 0.0005);
  EXPECT_NEAR(student_t_95(3), 3.182, 0.0005);
  EXPECT_NEAR(student_t_95(10), 2.228, 0.0005);
  EXPECT_NEAR(student_t_95(120), 1.980, 0.0005);
}

TEST(StudentT, IsNormalInTheLimit) {
  EXPECT_NEAR(student_t_95(1e9), 1.960, 0.0005);
  EXPECT_NEAR(student_t_95(1e9), kNormal95, 1e-8);
}

TEST(StudentT, CountsFewerThanOneDegreeOfFreedomAsOne) {
  EXPECT_EQ(student_t_95(0), student_t_95(1));
  EXPECT_EQ(student_t_95(-2), student_t_95(1));
}

}  // namespace student_t_test
}  // namespace shardlab
