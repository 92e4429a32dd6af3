// Which operators share a kernel under torch.compile, and what the kernel moves.
#include "strategies/steps/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "costmodel/base/error.h"

namespace shardlab {
namespace fusion_test {

constexpr double kTokens = 8192.0;
constexpr double kHidden = 4096.0;
constexpr double kAll = kTokens * kHidden;

// A list of operators under construction; tensors are named by their index.
struct List {
  std::vector<FusionOp> ops;
  std::vector<FusionTensor> tensors;

  int tensor(double bytes, bool stays = false) {
    tensors.push_back({bytes, stays});
    return static_cast<int>(tensors.size()) - 1;
  }
  int pointwise(double elements, std::vector<int> reads, double bytes, bool stays = false) {
    const int out = tensor(bytes, stays);
    ops.push_back({.kind = FusionKind::kPointwise,
                   .elements = elements,
                   .reads = std::move(reads),
                   .writes = {out}});
    return out;
  }
  int reduction(double elements, double row, std::vector<int> reads, double bytes, int dims = 0) {
    const int out = tensor(bytes);
    ops.push_back({.kind = FusionKind::kReduction,
                   .elements = elements,
                   .row = row,
                   .reads = std::move(reads),
                   .writes = {out},
                   .dims = dims});
    return out;
  }
  int view(int of, double bytes) {
    const int out = tensor(bytes);
    ops.push_back({.kind = FusionKind::kView, .reads = {of}, .writes = {out}});
    return out;
  }
  int barrier(std::vector<int> reads, double bytes) {
    const int out = tensor(bytes);
    ops.push_back({.kind = FusionKind::kBarrier, .reads = std::move(reads), .writes = {out}});
    return out;
  }
  [[nodiscard]] std::vector<FusedKernel> fused() const { return fuse(ops, tensors); }
};

// RMSNorm of bf16 as LLaMA computes it: cast, pow, mean, add, rsqrt, mul, cast, mul.
int rms_norm(List& list, int x, int weight, bool stays = false) {
  const int wide = list.pointwise(kAll, {x}, 4.0 * kAll);
  const int square = list.pointwise(kAll, {wide}, 4.0 * kAll);
  const int mean = list.reduction(kAll, kHidden, {square}, 4.0 * kTokens);
  const int with_eps = list.pointwise(kTokens, {mean}, 4.0 * kTokens);
  const int scale = list.pointwise(kTokens, {with_eps}, 4.0 * kTokens);
  const int broadcast = list.view(scale, 4.0 * kAll);
  const int scaled = list.pointwise(kAll, {wide, broadcast}, 4.0 * kAll);
  const int narrow = list.pointwise(kAll, {scaled}, 2.0 * kAll);
  return list.pointwise(kAll, {narrow, weight}, 2.0 * kAll, stays);
}

TEST(Fusion, RmsNormIsOneKernelThatReadsAndWritesOnce) {
  List list;
  const int x = list.tensor(2.0 * kAll);
  const int weight = list.tensor(2.0 * kHidden);
  rms_norm(list, x, weight);
  const std::vector<FusedKernel> kernels = list.fused();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].ops.size(), 9U);
  EXPECT_EQ(kernels[0].bytes_read, 2.0 * kAll + 2.0 * kHidden);
  EXPECT_EQ(kernels[0].bytes_written, 2.0 * kAll);
}

TEST(Fusion, EagerRunsEachOperatorByItself) {
  List list;
  const int x = list.tensor(2.0 * kAll);
  rms_norm(list, x, list.tensor(2.0 * kHidden));
  const std::vector<FusedKernel> kernels = unfused(list.ops, list.tensors);
  ASSERT_EQ(kernels.size(), 9U);
  double bytes = 0.0;
  for (const FusedKernel& kernel : kernels) bytes += kernel.bytes_read + kernel.bytes_written;
  // Over the whole space, in bytes an element: cast 2 + 4, pow 4 + 4, mean 4, mul 4 + 4, cast 4 + 2
  // and mul 2 + 2. Over the rows: 4 bytes written by the mean, and read and written by add and
  // rsqrt, and read by mul, although it reads a broadcast view.
  EXPECT_EQ(bytes, 36.0 * kAll + 6.0 * 4.0 * kTokens + 2.0 * kHidden);
  EXPECT_EQ(kernels[5].bytes_read + kernels[5].bytes_written, 0.0);  // the view
}

TEST(Fusion, SwiGluIsOneKernel) {
  List list;
  const int gate = list.tensor(2.0 * kAll);
  const int up = list.tensor(2.0 * kAll);
  const int wide = list.pointwise(kAll, {gate}, 4.0 * kAll);
  const int sigmoid = list.pointwise(kAll, {wide}, 4.0 * kAll);
  const int silu = list.pointwise(kAll, {wide, sigmoid}, 4.0 * kAll);
  const int narrow = list.pointwise(kAll, {silu}, 2.0 * kAll);
  list.pointwise(kAll, {narrow, up}, 2.0 * kAll);
  const std::vector<FusedKernel> kernels = list.fused();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].bytes_read, 4.0 * kAll);
  EXPECT_EQ(kernels[0].bytes_written, 2.0 * kAll);
}

TEST(Fusion, AGemmSeparatesWhatItReadsFromWhatReadsIt) {
  List list;
  const int x = list.tensor(2.0 * kAll);
  const int weight = list.tensor(2.0 * kHidden * kHidden);
  const int before = list.pointwise(kAll, {x}, 2.0 * kAll);
  const int normed = rms_norm(list, before, list.tensor(2.0 * kHidden));
  const int product = list.barrier({normed, weight}, 2.0 * kAll);
  const int after = list.pointwise(kAll, {product, before}, 2.0 * kAll);  // the residual stream
  list.pointwise(kAll, {after}, 2.0 * kAll);
  const std::vector<FusedKernel> kernels = list.fused();
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels[0].ops.size(), 10U);
  // The residual stream and the norm are both written, since both are read later.
  EXPECT_EQ(kernels[0].bytes_written, 4.0 * kAll);
  EXPECT_EQ(kernels[1].ops, std::vector<int>{10});
  EXPECT_EQ(kernels[1].bytes_read, 2.0 * kAll + 2.0 * kHidden * kHidden);
  EXPECT_EQ(kernels[2].ops, (std::vector<int>{11, 12}));
  EXPECT_EQ(kernels[2].bytes_read, 4.0 * kAll);
}

TEST(Fusion, WhatStaysIsWritten) {
  List list;
  const int x = list.tensor(2.0 * kAll);
  const int saved = list.pointwise(kAll, {x}, 4.0 * kAll, true);
  list.pointwise(kAll, {saved}, 2.0 * kAll);
  const std::vector<FusedKernel> kernels = list.fused();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].bytes_written, 6.0 * kAll);
  EXPECT_EQ(kernels[0].bytes_read, 2.0 * kAll);
}

TEST(Fusion, OperatorsThatShareReadsRunTogether) {
  List list;
  const int x = list.tensor(2.0 * kAll);
  const int y = list.tensor(2.0 * kAll);
  list.pointwise(kAll, {x}, 2.0 * kAll);
  list.pointwise(kAll, {x}, 2.0 * kAll);
  list.pointwise(kAll, {y}, 2.0 * kAll);  // shares nothing
  const std::vector<FusedKernel> kernels = list.fused();
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].ops, (std::vector<int>{0, 1}));
  EXPECT_EQ(kernels[0].bytes_read, 2.0 * kAll);
}

TEST(Fusion, DistantOperatorsThatShareReadsStayApart) {
  for (const int between : {kFarthestOps - 1, kFarthestOps}) {
    List list;
    const int x = list.tensor(2.0 * kAll);
    list.pointwise(kAll, {x}, 2.0 * kAll);
    for (int n = 0; n < between; ++n) list.barrier({}, 1.0);
    list.pointwise(kAll, {x}, 2.0 * kAll);
    const bool are_one = between + 1 <= kFarthestOps;
    EXPECT_EQ(list.fused().size(), static_cast<std::size_t>(between) + (are_one ? 1 : 2));
  }
}

TEST(Fusion, RowsAndColumnsOfASquareAreTwoKernels) {
  const double side = 4096.0;
  for (const int dims : {0, 1}) {
    List list;
    const int x = list.tensor(4.0 * side * side);
    list.reduction(side * side, side, {x}, 4.0 * side, 0);
    list.reduction(side * side, side, {x}, 4.0 * side, dims);
    EXPECT_EQ(list.fused().size(), dims == 0 ? 1U : 2U);
  }
}

TEST(Fusion, AReductionInTwoPhasesEndsItsKernel) {
  List list;
  const int x = list.tensor(4.0 * kAll);
  const int square = list.pointwise(kAll, {x}, 4.0 * kAll);
  const int norm = list.reduction(kAll, kAll, {square}, 4.0);
  const int factor = list.pointwise(1.0, {norm}, 4.0);
  list.pointwise(kAll, {x, factor}, 4.0 * kAll);
  const std::vector<FusedKernel> kernels = list.fused();
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].ops, (std::vector<int>{0, 1}));
  EXPECT_EQ(kernels[0].bytes_read, 4.0 * kAll);
  EXPECT_EQ(kernels[0].bytes_written, 4.0);
  EXPECT_EQ(kernels[1].bytes_read, 4.0 * kAll + 4.0);
}

// log_softmax over a vocabulary: the greatest value, the sum of exponentials, and the result are
// one loop each over rows that do not fit the cache.
TEST(Fusion, LongRowsAreReadOncePerLoop) {
  for (const double vocabulary : {4096.0, 128256.0}) {
    List list;
    const double all = kTokens * vocabulary;
    const int logits = list.tensor(2.0 * all);
    const int wide = list.pointwise(all, {logits}, 4.0 * all);
    const int greatest = list.reduction(all, vocabulary, {wide}, 4.0 * kTokens);
    const int less = list.pointwise(all, {wide, greatest}, 4.0 * all);
    const int exponential = list.pointwise(all, {less}, 4.0 * all);
    const int total = list.reduction(all, vocabulary, {exponential}, 4.0 * kTokens);
    const int log = list.pointwise(kTokens, {total}, 4.0 * kTokens);
    list.pointwise(all, {less, log}, 4.0 * all);
    const std::vector<FusedKernel> kernels = list.fused();
    ASSERT_EQ(kernels.size(), 1U);
    const bool fits = 2.0 * vocabulary <= kCachedRowBytes;
    EXPECT_EQ(kernels[0].bytes_read, (fits ? 1.0 : 3.0) * 2.0 * all);
    EXPECT_EQ(kernels[0].bytes_written, 4.0 * all);
  }
}

TEST(Fusion, ACastOfABroadcastWeightIsComputedInItsOnlyReader) {
  for (const bool is_alone : {true, false}) {
    List list;
    const int x = list.tensor(2.0 * kAll);
    const int weight = list.tensor(4.0 * kHidden);
    const int cast = list.pointwise(kHidden, {weight}, 2.0 * kHidden);
    const int broadcast = list.view(cast, 2.0 * kAll);
    const int y = list.pointwise(kAll, {x, broadcast}, 2.0 * kAll);
    if (!is_alone) list.barrier({y, cast}, 2.0);
    EXPECT_EQ(list.fused().size(), is_alone ? 1U : 3U);
  }
}

TEST(Fusion, ViewsOfOneTensorCountAsItsBytesAtMost) {
  List list;
  const int x = list.tensor(2.0 * kAll);
  const int half = list.view(x, kAll);
  const int other = list.view(x, kAll);
  list.pointwise(kAll / 2.0, {half, other}, kAll);
  const int flat = list.view(x, 2.0 * kAll);
  list.pointwise(kAll, {flat, x}, 2.0 * kAll);
  const std::vector<FusedKernel> kernels = list.fused();
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].ops, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(kernels[0].bytes_read, 2.0 * kAll);
  EXPECT_EQ(kernels[1].bytes_read, 2.0 * kAll);
}

TEST(Fusion, AnUnreadViewHasAKernelWithoutBytes) {
  List list;
  const int x = list.tensor(8.0);
  list.view(x, 8.0);
  const std::vector<FusedKernel> kernels = list.fused();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].ops, std::vector<int>{0});
  EXPECT_EQ(kernels[0].bytes_read + kernels[0].bytes_written, 0.0);
  EXPECT_TRUE(fuse({}, {}).empty());
}

TEST(Fusion, RefusesWhatMakesNoSense) {
  const std::vector<FusionTensor> tensors = {{8.0}, {8.0}};
  const auto refused = [&](const FusionOp& op) {
    EXPECT_THROW((void)fuse({{op}}, tensors), InputError);
    EXPECT_THROW((void)unfused({{op}}, tensors), InputError);
  };
  refused({.kind = FusionKind::kPointwise, .elements = 4.0, .reads = {2}, .writes = {}});
  refused({.kind = FusionKind::kPointwise, .elements = 4.0, .reads = {}, .writes = {-1}});
  refused({.kind = FusionKind::kPointwise, .elements = -4.0, .reads = {}, .writes = {}});
  refused({.kind = FusionKind::kReduction, .elements = 4.0, .row = 0.0, .reads = {}, .writes = {}});
  refused({.kind = FusionKind::kReduction, .elements = 4.0, .row = 8.0, .reads = {}, .writes = {}});
  refused({.kind = FusionKind::kView, .elements = 4.0, .reads = {}, .writes = {1}});
  const std::vector<FusionTensor> endless = {{std::numeric_limits<double>::infinity()}};
  EXPECT_THROW((void)fuse({}, endless), InputError);
}

// -- Random lists ---------------------------------------------------------------------------------

List random_list(std::mt19937& random) {
  const auto pick = [&](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  List list;
  const std::vector<std::pair<double, double>> spaces = {
      {kAll, kHidden}, {kAll, kTokens}, {64.0 * kAll, kAll}, {kTokens * 128256.0, 128256.0}};
  const int inputs = 1 + pick(4);
  for (int i = 0; i < inputs; ++i) list.tensor(std::pow(4.0, pick(14)), pick(2) == 0);
  const int count = 1 + pick(60);
  for (int n = 0; n < count; ++n) {
    const auto [elements, row] = spaces[static_cast<std::size_t>(pick(4) * pick(2))];
    std::vector<int> reads;
    const int most = static_cast<int>(list.tensors.size());
    for (int i = 0; i <= pick(3); ++i) reads.push_back(std::max(0, most - 1 - pick(8)));
    switch (pick(8)) {
      case 0:
        list.barrier(reads, 2.0 * elements);
        break;
      case 1:
        list.view(reads[0], pick(2) == 0 ? elements : 16.0 * elements);
        break;
      case 2:
      case 3:
        list.reduction(elements, row, reads, 4.0 * elements / row, pick(2));
        break;
      case 4:
        list.pointwise(elements / row, reads, 4.0 * elements / row);
        break;
      default:
        list.pointwise(elements, reads, 2.0 * elements, pick(8) == 0);
        break;
    }
    // Some change what they read in place.
    if (pick(10) == 0 && list.ops.back().kind == FusionKind::kPointwise) {
      list.ops.back().writes.push_back(reads[0]);
    }
  }
  return list;
}

TEST(Fusion, RandomListsKeepTheirOrderAndMoveNoMoreBytes) {
  std::mt19937 random(20);
  std::size_t shared = 0;
  for (int round = 0; round < 2000; ++round) {
    const List list = random_list(random);
    const std::vector<FusedKernel> kernels = list.fused();
    const std::vector<FusedKernel> each = unfused(list.ops, list.tensors);
    // Every operator belongs to one kernel.
    std::vector<int> place(list.ops.size(), -1);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      ASSERT_TRUE(std::ranges::is_sorted(kernels[k].ops));
      double alone = 0.0;
      bool has_barrier = false;
      std::size_t launched = 0;
      for (const int op : kernels[k].ops) {
        const std::size_t n = static_cast<std::size_t>(op);
        ASSERT_EQ(place[n], -1);
        place[n] = static_cast<int>(k);
        alone += each[n].bytes_read + each[n].bytes_written;
        has_barrier = has_barrier || list.ops[n].kind == FusionKind::kBarrier;
        launched += list.ops[n].kind == FusionKind::kView ? 0U : 1U;
      }
      ASSERT_LE(kernels[k].bytes_read + kernels[k].bytes_written, alone * (1.0 + 1e-12));
      ASSERT_GE(kernels[k].bytes_read, 0.0);
      if (has_barrier) {
        ASSERT_EQ(launched, 1U);
      }
      shared += launched > 1 ? 1U : 0U;
    }
    ASSERT_EQ(std::ranges::count(place, -1), 0);
    // What an operator reads was written by an earlier kernel or by its own, before it.
    std::map<int, int> root;
    std::map<int, std::size_t> writer;
    std::map<int, std::vector<std::size_t>> readers;
    const auto root_of = [&](int tensor) {
      return root.contains(tensor) ? root.at(tensor) : tensor;
    };
    const auto comes_first = [&](std::size_t a, std::size_t b) {
      EXPECT_LE(place[a], place[b]) << "round " << round << ", operators " << a << " and " << b;
    };
    for (std::size_t n = 0; n < list.ops.size(); ++n) {
      const FusionOp& op = list.ops[n];
      for (const int tensor : op.reads) {
        if (writer.contains(root_of(tensor))) comes_first(writer.at(root_of(tensor)), n);
        if (writer.contains(tensor)) comes_first(writer.at(tensor), n);
      }
      for (const int tensor : op.writes) {
        if (op.kind == FusionKind::kView) {
          root[tensor] = root_of(op.reads[0]);
          writer[tensor] = n;
          continue;
        }
        if (writer.contains(root_of(tensor))) comes_first(writer.at(root_of(tensor)), n);
        for (const std::size_t reader : readers[root_of(tensor)]) comes_first(reader, n);
        writer[root_of(tensor)] = n;
        readers[root_of(tensor)].clear();
      }
      if (op.kind == FusionKind::kView) continue;
      for (const int tensor : op.reads) readers[root_of(tensor)].push_back(n);
    }
    // No kernel has what reads the result of a reduction in two phases.
    for (std::size_t n = 0; n < list.ops.size(); ++n) {
      const FusionOp& op = list.ops[n];
      const bool is_split = op.kind == FusionKind::kReduction && op.row > kLongRow &&
                            op.elements / op.row < kFewResults;
      if (!is_split) continue;
      for (std::size_t reader = n + 1; reader < list.ops.size(); ++reader) {
        if (list.ops[reader].kind == FusionKind::kView) continue;
        for (const int tensor : list.ops[reader].reads) {
          if (root_of(tensor) == op.writes[0]) {
            EXPECT_NE(place[n], place[reader]) << "round " << round;
          }
        }
      }
    }
  }
  EXPECT_GT(shared, 2000U);  // kernels of several operators, so that the checks above checked some
}

}  // namespace fusion_test
}  // namespace shardlab
