#include "costmodel/base/dtype.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace shardlab {
namespace dtype_test {

struct DTypeCase {
  std::string name;
  int itemsize;
  bool floating_point;
};
void PrintTo(const DTypeCase& c, std::ostream* out) { *out << c.name; }

class DTypeTable : public testing::TestWithParam<DTypeCase> {};

TEST_P(DTypeTable, HasItsNameSizeAndKind) {
  const auto dtype = dtype_from_name(GetParam().name);
  ASSERT_TRUE(dtype.has_value());
  EXPECT_EQ(to_string(*dtype), GetParam().name);
  EXPECT_EQ(itemsize(*dtype), GetParam().itemsize);
  EXPECT_EQ(is_floating_point(*dtype), GetParam().floating_point);
}

INSTANTIATE_TEST_SUITE_P(All, DTypeTable,
                         testing::Values(DTypeCase{"f64", 8, true}, DTypeCase{"f32", 4, true},
                                         DTypeCase{"f16", 2, true}, DTypeCase{"bf16", 2, true},
                                         DTypeCase{"f8e4m3", 1, true}, DTypeCase{"f8e5m2", 1, true},
                                         DTypeCase{"i64", 8, false}, DTypeCase{"i32", 4, false},
                                         DTypeCase{"i16", 2, false}, DTypeCase{"i8", 1, false},
                                         DTypeCase{"u8", 1, false}, DTypeCase{"b8", 1, false},
                                         DTypeCase{"u64", 8, false}, DTypeCase{"c64", 8, false}),
                         [](const auto& test) { return test.param.name; });

TEST(DType, TheListOfNamesHasEveryDTypeInOrder) {
  std::istringstream words{std::string(kDTypeNames)};
  std::string word;
  int count = 0;
  while (words >> word) {
    const auto dtype = dtype_from_name(word);
    ASSERT_TRUE(dtype.has_value()) << word;
    EXPECT_EQ(static_cast<int>(*dtype), count) << word;
    ++count;
  }
  EXPECT_EQ(count, 14);
}

TEST(DType, BoolIsReadAsB8) { EXPECT_EQ(dtype_from_name("bool"), DType::kB8); }

TEST(DType, NamesOfPyTorchAreRead) {
  EXPECT_EQ(dtype_from_name("bfloat16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("torch.float32"), DType::kF32);
  for (const char* name : {"float32", "float", "fp32", "f32", "torch.f32"}) {
    EXPECT_EQ(dtype_from_name(name), DType::kF32) << name;
  }
  EXPECT_EQ(dtype_from_name("half"), DType::kF16);
  EXPECT_EQ(dtype_from_name("torch.bool"), DType::kB8);
}

TEST(DType, OtherSpellingsAreUnknown) {
  for (const char* name :
       {"", "torch", "torch.", "F32", "Float32", "f32 ", "f8", "bf16x", "complex128"}) {
    EXPECT_FALSE(dtype_from_name(name).has_value()) << name;
  }
}

}  // namespace dtype_test
}  // namespace shardlab
