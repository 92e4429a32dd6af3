// Which of a program's values are batched.
#include "strategies/programs/batched_nodes.h"

#include <gtest/gtest.h>

#include "strategies/programs/built_in_programs.h"

namespace shardlab {
namespace batched_nodes_test {

Program program_of(const char* name, MatmulForm matmul, std::int64_t batch, std::int64_t seqlen) {
  return find_built_in_program(name)->make(
      {.layers = 1, .batch = batch, .seqlen = seqlen, .matmul = matmul});
}

constexpr MatmulForm kForms[] = {MatmulForm::kEinsum, MatmulForm::kNative};

// Where no width equals the number of rows of the batch, the first dim alone tells.
TEST(BatchedNodes, HaveTheBatchsRows) {
  for (const MatmulForm form : kForms) {
    const Program program = program_of("llama3-8b", form, 16, 1024);
    const std::vector<bool> batched = batched_nodes(program);
    std::size_t count = 0;
    for (std::size_t n = 0; n < batched.size(); ++n) {
      const ProgramNode& node = program.nodes[n];
      const Shape& shape = node.outputs[0].shape;
      const bool rows = shape.size() > 1 && (shape[0] == 16 || shape[0] == 16 * 1024);
      EXPECT_EQ(batched[n], rows) << node.name;
      count += batched[n] ? 1U : 0U;
    }
    EXPECT_GT(count, program.nodes.size() / 2);
  }
}

struct Sizes {
  const char* program;
  std::int64_t batch;
  std::int64_t seqlen;
};

// Where there are as many tokens, or sequences, as a weight has rows, the same nodes are batched as
// with other numbers.
TEST(BatchedNodes, AreTheSameWhereAWidthHasTheBatchsRows) {
  for (const Sizes& sizes :
       {Sizes{"llama3-8b", 8, 512}, Sizes{"llama3-8b", 8, 128}, Sizes{"llama3-8b", 8, 1792},
        Sizes{"gpt2-xl", 8, 200}, Sizes{"gpt2-xl", 64, 100}, Sizes{"moe-1.3b-64e", 8, 256}}) {
    for (const MatmulForm form : kForms) {
      const Program program = program_of(sizes.program, form, sizes.batch, sizes.seqlen);
      const Program other = program_of(sizes.program, form, 24, 56);
      const std::vector<bool> batched = batched_nodes(program);
      const std::vector<bool> expected = batched_nodes(other);
      ASSERT_EQ(batched.size(), expected.size());
      for (std::size_t n = 0; n < batched.size(); ++n) {
        EXPECT_EQ(batched[n], expected[n])
            << sizes.program << " " << sizes.batch << " x " << sizes.seqlen << ": "
            << program.nodes[n].name << " " << program.nodes[n].outputs[0].text();
      }
    }
  }
}

}  // namespace batched_nodes_test
}  // namespace shardlab
