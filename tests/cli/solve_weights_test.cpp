// shardlab solve and step on programs whose weights are made of parameters of several blocks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace solve_weights_test {

using nlohmann::json;

json tensor_of(std::int64_t rows, std::int64_t columns) {
  return json::array({{{"dtype", "f32"}, {"shape", {rows, columns}}}});
}

// x @ (w0 @ w1) @ w0, where w0 is read by name alone for the product: "alias" belongs to the block
// of w0, and the product to that of w1, which the step reads first.
json product_of_weights() {
  return {
      {"schema", "shardlab/program/1"},
      {"name", "product-of-weights"},
      {"nodes",
       {{{"name", "w0"},
         {"label", "layers.0.w"},
         {"kind", "parameter"},
         {"outputs", tensor_of(16, 4)}},
        {{"name", "w1"},
         {"label", "layers.1.w"},
         {"kind", "parameter"},
         {"outputs", tensor_of(4, 16)}},
        {{"name", "x"}, {"kind", "input"}, {"outputs", tensor_of(8, 16)}},
        {{"name", "alias"},
         {"op", "aten.alias.default"},
         {"inputs", {"w0"}},
         {"outputs", tensor_of(16, 4)}},
        {{"name", "product"},
         {"op", "aten.mm.default"},
         {"inputs", {"alias", "w1"}},
         {"outputs", tensor_of(16, 16)}},
        {{"name", "y"},
         {"op", "aten.mm.default"},
         {"inputs", {"x", "product"}},
         {"outputs", tensor_of(8, 16)}},
        {{"name", "z"},
         {"op", "aten.mm.default"},
         {"inputs", {"y", "w0"}},
         {"outputs", tensor_of(8, 4)}},
        {{"name", "out"}, {"kind", "output"}, {"inputs", {"z"}}, {"outputs", tensor_of(8, 4)}}}}};
}

// Once the weights are gathered by blocks, the alias has to run with the block that is read first.
TEST(SolveWeights, MayBeMadeOfParametersOfSeveralBlocks) {
  const TemporaryFolder folder;
  folder.write("program.json", product_of_weights().dump());
  for (const char* recipe : {"", "fsdp", "dp"}) {
    std::vector<std::string> words = {"solve", "program.json", "--mesh", "2x2", "--format", "json"};
    if (*recipe != '\0') words.insert(words.end(), {"--recipe", recipe});
    const ProcessResult result = run_shardlab(words, folder.path());
    ASSERT_EQ(result.exit_code, 0) << recipe << result.err;
    const json solved = json::parse(result.out);
    // Each product is a kernel of the step, whichever unit runs it.
    EXPECT_GE(solved["step_us"].get<double>(), 3 * 7.0) << recipe;
  }
  const ProcessResult step =
      run_shardlab({"step", "program.json", "--mesh", "fsdp=2"}, folder.path());
  EXPECT_EQ(step.exit_code, 0) << step.err;
}

}  // namespace solve_weights_test
}  // namespace shardlab::testing_support
