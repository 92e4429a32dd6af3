// Collectives among virtual ranks are compared with results worked out by hand, and with a simple
// twin that knows only rows and sums.
#include "sim/fake_group.h"

#include <gtest/gtest.h>

#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "sim/tensor_kernels.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace fake_group_test {

using namespace testing_support;

class FakeGroupTest : public testing::Test {
 protected:
  HostTensor tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
    HostTensor out = HostTensor::make(*memory_, dtype, shape);
    for (std::size_t i = 0; i < values.size(); ++i) {
      set_element(out, static_cast<std::int64_t>(i), values[i]);
    }
    return out;
  }
  static std::vector<double> values(const HostTensor& tensor) {
    std::vector<double> out;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      out.push_back(element_as_double(tensor, i));
    }
    return out;
  }
  FakeGroup group(int ranks, const ReductionOptions& options = {}) {
    return {*memory_, options, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 0)};
  }
  // A tensor with the elements 0, 1, 2, ... in this shape.
  HostTensor counting(DType dtype, const Shape& shape) {
    HostTensor out = HostTensor::make(*memory_, dtype, shape);
    for (std::int64_t i = 0; i < out.elements(); ++i) set_element(out, i, static_cast<double>(i));
    return out;
  }

  std::shared_ptr<HostMemory> memory_ = HostMemory::make(std::int64_t{1} << 30U);
};

using V = std::vector<double>;

TEST_F(FakeGroupTest, ScatterGivesChunksThatAreShortOrEmptyAtTheEnd) {
  const auto shards = group(4).scatter(counting(DType::kI32, {5}), {.dim = 0, .extent = 5});
  EXPECT_EQ(values(shards[0]), (V{0, 1}));
  EXPECT_EQ(values(shards[1]), (V{2, 3}));
  EXPECT_EQ(values(shards[2]), (V{4}));
  EXPECT_EQ(shards[3].shape(), (Shape{0}));
}

TEST_F(FakeGroupTest, BroadcastSharesTheRootsBytes) {
  const std::vector<HostTensor> tensors = {counting(DType::kI32, {2}), counting(DType::kI32, {3})};
  EXPECT_TRUE(group(2).broadcast(tensors, 1).shares_bytes_with(tensors[1]));
}

TEST_F(FakeGroupTest, StridedShardsAreChunksOfChunks) {
  const auto shards =
      group(4).scatter(counting(DType::kI32, {9}), {.dim = 0, .extent = 9, .factor = 2});
  EXPECT_EQ(values(shards[0]), (V{0, 1, 5}));
  EXPECT_EQ(values(shards[1]), (V{2, 3, 6}));
  EXPECT_EQ(values(shards[2]), (V{4, 7}));
  EXPECT_EQ(values(shards[3]), (V{8}));
}

// This holds for every sharding of every dim.
TEST_F(FakeGroupTest, GatherUndoesScatterAndAllToAllLeadsBetweenShardings) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const FakeGroup members = group(ranks);
    for (const std::int64_t extent : {1, 2, 5, 8, 13}) {
      const HostTensor whole = counting(DType::kF64, {extent, 3, extent});
      std::vector<DimSharding> shardings;
      for (const int dim : {0, 2}) {
        for (const std::int64_t factor : {1, 2, 3}) shardings.push_back({dim, extent, factor});
      }
      shardings.push_back({1, 3, 1});
      for (const DimSharding& from : shardings) {
        const auto shards = members.scatter(whole, from);
        EXPECT_TRUE(members.all_gather(shards, from).same_bits(whole));
        for (const DimSharding& to : shardings) {
          const auto moved = members.all_to_all(shards, from, to);
          const auto expected = members.scatter(whole, to);
          for (std::size_t i = 0; i < moved.size(); ++i) {
            ASSERT_TRUE(moved[i].same_bits(expected[i]))
                << ranks << " ranks, extent " << extent << ", dim " << from.dim << " factor "
                << from.factor << " to dim " << to.dim << " factor " << to.factor;
          }
        }
      }
    }
  }
}

// 5 rows on 4 ranks make nested chunks of 2, 1, 1 and 1 rows on a mesh 2x2, but flat chunks of 2,
// 2, 1 and 0 rows (pytorch/pytorch#194457).
TEST_F(FakeGroupTest, GatherCutsByChunkSizesWhateverTheShardsHold) {
  const HostTensor rows = tensor(DType::kI64, {5}, {1, 2, 3, 4, 5});
  const std::vector<HostTensor> nested = {rows.narrow_rows(0, 2), rows.narrow_rows(2, 1),
                                          rows.narrow_rows(3, 1), rows.narrow_rows(4, 1)};
  EXPECT_EQ(values(group(4).all_gather(nested, {.dim = 0, .extent = 5})), (V{1, 2, 3, 0, 4}));
}

struct OpCase {
  ReduceOp op;
  DType dtype;
  V first;
  V second;
  V expected;
};

TEST_F(FakeGroupTest, ReducesEveryOp) {
  const std::vector<OpCase> cases = {
      {ReduceOp::kSum, DType::kF32, {1, -2, 0.5}, {2, 2, 0.25}, {3, 0, 0.75}},
      {ReduceOp::kAvg, DType::kF32, {1, -2, 5}, {2, 2, 6}, {1.5, 0, 5.5}},
      {ReduceOp::kMax, DType::kBF16, {1, -2, 5}, {2, -3, 4}, {2, -2, 5}},
      {ReduceOp::kMin, DType::kF16, {1, -2, 5}, {2, -3, 4}, {1, -3, 4}},
      {ReduceOp::kProduct, DType::kF64, {1, -2, 5}, {2, -3, 0}, {2, 6, 0}},
      {ReduceOp::kSum, DType::kU8, {250, 1, 0}, {10, 2, 0}, {4, 3, 0}},  // modulo 256
      {ReduceOp::kSum, DType::kI8, {127, 1, -1}, {1, 2, 1}, {-128, 3, 0}},
      {ReduceOp::kAvg, DType::kI32, {7, -7, 1}, {2, -2, 0}, {4, -4, 0}},  // towards zero
      {ReduceOp::kMax, DType::kI64, {7, -7, 1}, {2, -2, 0}, {7, -2, 1}},
      {ReduceOp::kMin, DType::kI16, {7, -7, 1}, {2, -2, 0}, {2, -7, 0}},
      {ReduceOp::kProduct, DType::kI32, {7, -7, 1}, {2, -2, 0}, {14, 14, 0}},
      {ReduceOp::kBand, DType::kI32, {6, 1, -1}, {3, 2, 9}, {2, 0, 9}},
      {ReduceOp::kBor, DType::kU8, {6, 1, 0}, {3, 2, 9}, {7, 3, 9}},
      {ReduceOp::kBxor, DType::kI64, {6, 1, -1}, {3, 1, 0}, {5, 0, -1}},
      {ReduceOp::kSum, DType::kB8, {1, 0, 1}, {1, 0, 0}, {1, 0, 1}},
      {ReduceOp::kProduct, DType::kB8, {1, 0, 1}, {1, 0, 0}, {1, 0, 0}},
      {ReduceOp::kBxor, DType::kB8, {1, 0, 1}, {1, 0, 0}, {0, 0, 1}},
  };
  for (const OpCase& one : cases) {
    const std::vector<HostTensor> contributions = {tensor(one.dtype, {3}, one.first),
                                                   tensor(one.dtype, {3}, one.second)};
    const std::string what =
        std::string(to_string(one.op)) + " of " + std::string(to_string(one.dtype));
    EXPECT_EQ(values(group(2).all_reduce(contributions, one.op)), one.expected) << what;
    const auto shards = group(2).reduce_scatter(contributions, one.op, {.dim = 0, .extent = 3});
    V joined = values(shards[0]);
    const V second = values(shards[1]);
    joined.insert(joined.end(), second.begin(), second.end());
    EXPECT_EQ(joined, one.expected) << what;
  }
}

TEST_F(FakeGroupTest, RefusesReductionsThatDoNotExist) {
  const std::vector<HostTensor> floats(2, tensor(DType::kF32, {1}, {1}));
  EXPECT_THROW_MSG((void)group(2).all_reduce(floats, ReduceOp::kBand), InputError,
                   "all_reduce: band of f32 does not exist");
  const std::vector<HostTensor> bools(2, tensor(DType::kB8, {1}, {1}));
  EXPECT_THROW_MSG((void)group(2).reduce_scatter(bools, ReduceOp::kAvg, {.dim = 0, .extent = 1}),
                   InputError, "reduce_scatter: avg of b8 does not exist");
}

// In bf16, which has 8 significant bits, 256 + 1 is 256 and 256 + 2 is 258, so the order shows.
TEST_F(FakeGroupTest, SumsInTheOrderOfTheAlgorithm) {
  const std::vector<HostTensor> x = {tensor(DType::kBF16, {1}, {256}),
                                     tensor(DType::kBF16, {1}, {1}), tensor(DType::kBF16, {1}, {1}),
                                     tensor(DType::kBF16, {1}, {-256})};
  const auto sum = [&](ReductionOrder order, bool domains_first,
                       std::vector<std::int64_t> domains) {
    const FakeGroup members(*memory_, {.order = order, .domains_first = domains_first},
                            std::move(domains));
    return values(members.all_reduce(x, ReduceOp::kSum))[0];
  };
  const std::vector<std::int64_t> one = {0, 0, 0, 0};
  EXPECT_EQ(sum(ReductionOrder::kFlat, false, one), 0);  // ((256+1)+1)-256
  EXPECT_EQ(sum(ReductionOrder::kTree, false, one), 1);  // (256+1)+(1-256) = 256-255
  EXPECT_EQ(sum(ReductionOrder::kRing, false, one), 2);  // chunk 0: ((1+1)-256)+256
  EXPECT_EQ(sum(ReductionOrder::kFlat, true, one), 0);
  EXPECT_EQ(sum(ReductionOrder::kFlat, true, {0, 0, 1, 1}), 1);  // (256+1)+(1-256)
  EXPECT_EQ(sum(ReductionOrder::kFlat, true, {0, 1, 1, 0}), 2);  // (256-256)+(1+1)
}

// The sum of chunk c begins with the rank after c, so every chunk of a reduce_scatter has an order
// of its own.
TEST_F(FakeGroupTest, ARingRotatesItsOrderByChunk) {
  const std::vector<HostTensor> x = {tensor(DType::kBF16, {3}, {256, 256, 256}),
                                     tensor(DType::kBF16, {3}, {1, 1, 1}),
                                     tensor(DType::kBF16, {3}, {1, 1, 1})};
  const V expected = {258, 256, 256};  // (1+1)+256, (1+256)+1, (256+1)+1
  EXPECT_EQ(values(group(3).all_reduce(x, ReduceOp::kSum)), expected);
  const auto shards = group(3).reduce_scatter(x, ReduceOp::kSum, {.dim = 0, .extent = 3});
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(values(shards[r]), (V{expected[r]}));
}

TEST_F(FakeGroupTest, AnAverageMultipliesFirstUnlessAskedToDivideLast) {
  // 1/10 is 0.10009765625 in bf16, and ten times that is not 1.
  const std::vector<HostTensor> ones(10, tensor(DType::kBF16, {1}, {1}));
  EXPECT_NE(values(group(10).all_reduce(ones, ReduceOp::kAvg))[0], 1);
  EXPECT_EQ(values(group(10, {.divide_last = true}).all_reduce(ones, ReduceOp::kAvg))[0], 1);
}

TEST_F(FakeGroupTest, PartitionOfIntegersKeepsTheRemainder) {
  const HostTensor seven = tensor(DType::kI32, {1}, {7});
  const FakeGroup members = group(3);
  V parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    parts.push_back(values(members.partition(seven, Placement::partial(), i))[0]);
  }
  EXPECT_EQ(parts, (V{7, 0, 0}));
  EXPECT_EQ(values(members.partition(tensor(DType::kF32, {1}, {6}), Placement::partial(), 2)),
            (V{2}));
  EXPECT_EQ(values(members.partition(seven, Placement::partial(ReduceOp::kMax), 2)), (V{7}));
}

// This holds for every dtype, every order and all domains.
TEST_F(FakeGroupTest, EveryOrderSumsEveryMemberOnce) {
  Random random(77);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(200); ++i) {
    const int ranks = static_cast<int>(random.between(1, 17));
    std::vector<std::int64_t> domains;
    for (int r = 0; r < ranks; ++r) domains.push_back(random.between(0, 3));
    const ReductionOptions options{
        .order = random.pick(
            std::vector{ReductionOrder::kRing, ReductionOrder::kTree, ReductionOrder::kFlat}),
        .domains_first = random.percent(50)};
    const FakeGroup members(*memory_, options, domains);
    const std::int64_t rows = random.between(1, 9);
    const std::int64_t columns = random.between(1, 700);
    std::vector<HostTensor> contributions;
    V expected(static_cast<std::size_t>(rows * columns), 0.0);
    for (int r = 0; r < ranks; ++r) {
      HostTensor one = HostTensor::make(*memory_, DType::kF64, {rows, columns});
      for (std::int64_t e = 0; e < one.elements(); ++e) {
        const auto value = static_cast<double>(random.between(-1000, 1000));
        set_element(one, e, value);
        expected[to_index(e)] += value;
      }
      contributions.push_back(std::move(one));
    }
    EXPECT_EQ(values(members.all_reduce(contributions, ReduceOp::kSum)), expected);
    for (const DimSharding& sharding :
         {DimSharding{0, rows, 1}, DimSharding{1, columns, 1}, DimSharding{1, columns, 3}}) {
      const auto shards = members.reduce_scatter(contributions, ReduceOp::kSum, sharding);
      EXPECT_EQ(values(members.all_gather(shards, sharding)), expected);
    }
  }
}

}  // namespace fake_group_test
}  // namespace shardlab
