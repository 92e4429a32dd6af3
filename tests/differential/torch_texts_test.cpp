// What PyTorch prints is read. scripts/record_torch_texts.py recorded it under each release,
// together with shardlab's text of the same value.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "costmodel/base/dtype.h"
#include "costmodel/base/error.h"
#include "sim/mesh.h"
#include "sim/placement_text.h"
#include "sim/tensor_spec.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {
namespace torch_texts_test {

using nlohmann::json;

class TorchTexts : public testing::TestWithParam<const char*> {
 protected:
  // Calls judge(text, expected) for what repr() and str() print, and for the expression itself if
  // that is something that people write in a layout. `expected` is "" for a value that shardlab
  // refuses.
  template <class Judge>
  void for_each(const char* kind, const std::vector<const char*>& forms, const Judge& judge) {
    const std::filesystem::path file = std::filesystem::path(SHARDLAB_SOURCE_DIR) / "tests" /
                                       "differential" / "golden" / GetParam() / "texts.json";
    std::ifstream in(file);
    const json recorded = json::parse(in);
    ASSERT_TRUE(recorded.at("torch").get<std::string>().starts_with(GetParam()));
    ASSERT_FALSE(recorded.at(kind).empty());
    for (const json& row : recorded.at(kind)) {
      const std::string expected =
          row["shardlab"].is_null() ? "" : row["shardlab"].get<std::string>();
      for (const char* form : forms) {
        SCOPED_TRACE(row[form].get<std::string>());
        judge(row[form].get<std::string>(), expected);
      }
    }
  }
};

template <class Read>
void expect_text(const std::string& expected, const Read& read) {
  if (expected.empty()) {
    EXPECT_ANY_THROW(static_cast<void>(read()));
  } else {
    EXPECT_EQ(read(), expected);
  }
}

TEST_P(TorchTexts, OfPlacementsAreRead) {
  for_each("placements", {"repr", "str"}, [](const std::string& text, const std::string& expected) {
    expect_text(expected, [&] { return Placement::parse(text).text(); });
  });
}

TEST_P(TorchTexts, OfPlacementsAreWrittenAsReprDoes) {
  for_each("placements", {"repr"}, [](const std::string& text, const std::string& expected) {
    if (expected.empty()) return;
    const std::string written = torch_text(Placement::parse(expected));
    // Of an embedding's shape, a mask keeps the extent of its own dim alone.
    if (text.find("torch.Size") == std::string::npos) {
      EXPECT_EQ(written, text);
    }
    EXPECT_EQ(Placement::parse(written), Placement::parse(text));
  });
}

TEST_P(TorchTexts, OfLayoutsAreReadWithDimsThatCountFromTheLast) {
  for_each("layouts", {"repr", "str", "python"},
           [](const std::string& text, const std::string& expected) {
             expect_text(expected, [&] { return parse_layout_of(text, 2, 3).text(); });
           });
}

TEST_P(TorchTexts, OfSpecsAreRead) {
  for_each("specs", {"repr", "str"}, [](const std::string& text, const std::string& expected) {
    expect_text(expected, [&] { return TensorSpec::parse(text, 2).text(); });
  });
}

TEST_P(TorchTexts, OfMeshesAreReadUnlessTheMeshIsASlice) {
  for_each("meshes", {"repr", "str"}, [](const std::string& text, const std::string& expected) {
    expect_text(expected, [&] { return DeviceMesh::parse(text).text(); });
  });
}

TEST_P(TorchTexts, OfDtypesAreReadInTensors) {
  for_each("dtypes", {"repr", "python"}, [](const std::string& text, const std::string& expected) {
    expect_text(expected,
                [&] { return std::string(to_string(TensorMeta::parse(text + "[2]").dtype)); });
    EXPECT_EQ(dtype_from_name(text).has_value(), !expected.empty());
  });
}

TEST_P(TorchTexts, OfOpsAreReadUnlessTheOverloadIsAmbiguous) {
  for_each("ops", {"str"}, [](const std::string& text, const std::string& expected) {
    expect_text(expected, [&] { return std::string(find_op_rule(text, Release::k2_13).op); });
  });
  EXPECT_EQ(find_op_rule("torch.ops.aten.mm.default", Release::k2_13).op, "aten.mm.default");
}

INSTANTIATE_TEST_SUITE_P(OfRelease, TorchTexts, testing::Values("2.13", "2.14", "2.15"),
                         [](const auto& test) {
                           return "Release2_" + std::string(test.param).substr(2);
                         });

}  // namespace torch_texts_test
}  // namespace shardlab
