// What every registered placement owes to the rest of the library, whoever registered it.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "sim/executor.h"
#include "sim/placement_text.h"
#include "sim/registered_placement.h"
#include "sim/traffic.h"
#include "strategies/proof/rule_proof.h"
#include "strategies/rules/rule_table.h"
#include "tests/support/reference_redistribution.h"

namespace shardlab {
namespace registered_placement_contract_test {

using namespace testing_support;

// Calls check(entry, placement, shape, mesh) for every sample of every entry.
template <class Check>
void for_each_sample(Check&& check) {
  for (const PlacementEntry* entry : registered_entries()) {
    EXPECT_TRUE(entry->samples(Shape{}, 2).empty()) << entry->name << ": a tensor without dims";
    int samples = 0;
    for (const char* size : {"1", "2", "3", "4"}) {
      const DeviceMesh mesh = DeviceMesh::parse(size);
      for (const Shape& shape : {Shape{6}, Shape{4, 6}, Shape{5, 2, 3}, Shape{1, 7}}) {
        for (const Placement& p : entry->samples(shape, mesh.size())) {
          EXPECT_LE(p.dim() + p.registered().dims(), static_cast<int>(shape.size())) << p.text();
          ++samples;
          check(*entry, p, shape, mesh);
        }
      }
    }
    EXPECT_GT(samples, 0) << entry->name;
  }
}

TEST(RegisteredPlacementContract, EntriesAreComplete) {
  EXPECT_GE(registered_entries().size(), 1U);
  for (const PlacementEntry* entry : registered_entries()) {
    EXPECT_FALSE(entry->name.empty() || entry->form.empty() || entry->summary.empty() ||
                 entry->source.empty())
        << entry->name;
    ASSERT_TRUE(entry->parse != nullptr && entry->samples != nullptr) << entry->name;
    const Placement example = Placement::parse(entry->example);
    EXPECT_EQ(&example.registered().entry(), entry);
    EXPECT_EQ(example.text(), entry->example) << "the example is written as it is printed";
    for (const std::string_view opening : entry->openings) {
      EXPECT_THROW((void)Placement::parse(std::string(opening)), TextError) << opening;
    }
    EXPECT_EQ(find_placement_entry(entry->name), entry);
  }
}

TEST(RegisteredPlacementContract, TextsAreReadBack) {
  for_each_sample([](const PlacementEntry&, const Placement& p, const Shape&, const DeviceMesh&) {
    EXPECT_EQ(Placement::parse(p.text()), p) << p.text();
    EXPECT_EQ(Placement::parse(torch_text(p)), p) << torch_text(p);
    const Layout beside = Layout::parse("R" + p.text() + p.text() + "S(0)", 4);
    EXPECT_EQ(beside[1], p) << beside.text();
    EXPECT_EQ(beside[2], p) << beside.text();
  });
}

TEST(RegisteredPlacementContract, EveryRowHasOneHolder) {
  for_each_sample(
      [](const PlacementEntry&, const Placement& p, const Shape& shape, const DeviceMesh& mesh) {
        const RegisteredPlacement& own = p.registered();
        const std::int64_t extent = extent_of(own, shape);
        ASSERT_EQ(own.why_not(extent, mesh.size()), "") << p.text();
        std::vector<int> holders(static_cast<std::size_t>(extent), 0);
        bool contiguous = true;
        for (std::int64_t i = 0; i < mesh.size(); ++i) {
          std::int64_t last = -1;
          const std::vector<RowRange> rows = own.rows(extent, mesh.size(), i);
          contiguous = contiguous && rows.size() <= 1;
          for (const RowRange& range : rows) {
            EXPECT_LT(range.begin, range.end) << p.text();
            EXPECT_LE(last, range.begin) << p.text() << ": rows ascend";
            last = range.end;
            for (std::int64_t row = range.begin; row < range.end; ++row) {
              ++holders.at(static_cast<std::size_t>(row));
            }
          }
        }
        EXPECT_EQ(holders, std::vector<int>(holders.size(), 1)) << p.text();
        EXPECT_TRUE(contiguous || !own.is_contiguous()) << p.text();
      });
}

// Shares are what the parts of a long dim tend to.
TEST(RegisteredPlacementContract, SharesAreThoseOfLongDims) {
  for_each_sample([](const PlacementEntry&, const Placement& p, const Shape&,
                     const DeviceMesh& mesh) {
    const RegisteredPlacement& own = p.registered();
    constexpr std::int64_t kLong = std::int64_t{5040} * 11 * 13;
    const RegisteredPlacement::Shares shares = own.shares(mesh.size());
    EXPECT_GT(shares.largest, 0.0);
    EXPECT_GE(shares.largest, shares.smallest);
    EXPECT_GE(shares.smallest, 0.0);
    if (!own.why_not(kLong, mesh.size()).empty()) return;
    double most = 0.0;
    double least = 1.0;
    for (std::int64_t i = 0; i < mesh.size(); ++i) {
      const double share = static_cast<double>(count_rows(own.rows(kLong, mesh.size(), i))) / kLong;
      most = std::max(most, share);
      least = std::min(least, share);
    }
    EXPECT_NEAR(shares.largest, most, 1e-3) << p.text();
    EXPECT_NEAR(shares.smallest, least, 1e-3) << p.text();
  });
}

// From a sample to every kind of placement and back, each plan runs and moves the bytes that shapes
// say.
TEST(RegisteredPlacementContract, PlansRunOnVirtualRanks) {
  for_each_sample([](const PlacementEntry& entry, const Placement& p, const Shape& shape,
                     const DeviceMesh& mesh) {
    Bench bench({.mesh = mesh.text()});
    const Executor executor(mesh, bench.topology(), {.reduction = {.divide_last = true}});
    TensorMeta meta;
    meta.shape = shape;
    std::vector<Placement> others = {Placement::replicate(), Placement::partial(),
                                     Placement::partial(ReduceOp::kMax)};
    for (int d = 0; d < meta.ndim(); ++d) others.push_back(Placement::shard(d));
    for (const Placement& other : entry.samples(shape, mesh.size())) others.push_back(other);
    for (const Placement& other : others) {
      for (const auto& [from, to] : {std::pair(p, other), std::pair(other, p)}) {
        const Plan plan = bench.redistributor().plan(meta, Layout(Placements(1, from)),
                                                     Layout(Placements(1, to)));
        const std::string what = meta.text() + " " + plan.path() + " on " + mesh.text();
        ASSERT_EQ(plan.impossible + plan.unexecutable, "") << what;
        DistributedTensor tensor = executor.distribute(meta, plan.start, {.seed = 3});
        const ExecutionResult result = executor.run(plan, tensor);
        EXPECT_TRUE(result.executed && result.verified) << what << ": " << result.mismatch;
        EXPECT_EQ(result.max_abs_error, 0.0) << what;
        Layout before = plan.start;
        for (std::size_t s = 0; s < plan.steps.size(); ++s) {
          EXPECT_EQ(bytes_moved(plan.steps[s], before, meta, mesh), result.steps[s].bytes_moved)
              << what;
          before = plan.steps[s].after;
        }
        EXPECT_EQ(bench.redistributor().cost_us(meta, plan.from, plan.to),
                  plan.price.total.value());
      }
    }
  });
}

TEST(RegisteredPlacementContract, PassThePointwiseOpsThatTheyNameSoundly) {
  RuleProofOptions options;
  for (const PlacementEntry* entry : registered_entries()) options.registered.push_back(entry);
  for (const char* op : {"aten.add.Tensor", "aten.mul_.Tensor", "aten.neg.out", "aten.relu.default",
                         "aten.where.self", "aten.add.Scalar", "aten._foreach_add.List"}) {
    const OpRule& rule = find_op_rule(op, kShardlab);
    const RuleProof plain = prove_rule(rule, {});
    const RuleProof proof = prove_rule(rule, options);
    for (const RuleFinding& finding : proof.unsound)
      ADD_FAILURE() << op << ": " << finding.row << finding.detail;
    for (const RuleFinding& finding : proof.missing)
      ADD_FAILURE() << op << " lacks " << finding.row << " in " << finding.call;
    EXPECT_TRUE(proof.accepted > plain.accepted || !rule.is_pointwise) << op;
  }
}

}  // namespace registered_placement_contract_test
}  // namespace shardlab
