#include "strategies/select/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "costmodel/base/error.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace selection_test {

using testing_support::Random;
using testing_support::random_cases;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct SelectCase {
  const char* name;
  std::vector<double> totals;
  std::vector<std::uint8_t> keeps;
  std::size_t first_listed;
  std::size_t keep_input;
  bool flips_first_listed;
  bool flips_keep_input;
};
void PrintTo(const SelectCase& c, std::ostream* out) { *out << c.name; }
class SelectTable : public testing::TestWithParam<SelectCase> {};

TEST_P(SelectTable, EachPolicyChooses) {
  const SelectCase& c = GetParam();
  EXPECT_EQ(select(Policy::kFirstListed, {c.totals, c.keeps}), c.first_listed);
  EXPECT_EQ(select(Policy::kKeepInput, {c.totals, c.keeps}), c.keep_input);
}

TEST_P(SelectTable, EachPolicyFlipsOrNot) {
  const SelectCase& c = GetParam();
  EXPECT_EQ(flips_with_order(Policy::kFirstListed, {c.totals, c.keeps}), c.flips_first_listed);
  EXPECT_EQ(flips_with_order(Policy::kKeepInput, {c.totals, c.keeps}), c.flips_keep_input);
}

INSTANTIATE_TEST_SUITE_P(
    All, SelectTable,
    testing::Values(SelectCase{"One", {5}, {0}, 0, 0, false, false},
                    SelectCase{"TheLeast", {5, 3, 4}, {0, 0, 0}, 1, 1, false, false},
                    SelectCase{"TheFirstOfTheLeast", {5, 3, 3}, {0, 0, 0}, 1, 1, true, true},
                    SelectCase{"R25LegacyChunksAndCurrentKeeps", {0, 0}, {0, 1}, 0, 1, true, false},
                    SelectCase{
                        "R25TheLastThatChangesNothing", {0, 0, 0}, {0, 1, 1}, 0, 2, true, true},
                    SelectCase{"R25ElseTheFirstZero", {3, 0, 0}, {0, 0, 0}, 1, 1, true, true},
                    SelectCase{"KeepingDoesNotBeatCheaper", {2, 1}, {1, 0}, 1, 1, false, false},
                    SelectCase{"KeepingWithAPriceIsNoExcuse", {1, 1}, {0, 1}, 0, 0, true, true},
                    SelectCase{"ANegativeTotalFirst", {0, -1, 0}, {1, 0, 1}, 1, 1, false, false},
                    SelectCase{"TheLeastNegative", {-1, -2, 0}, {0, 0, 1}, 1, 1, false, false},
                    SelectCase{"AllImpossible", {kInf, kInf}, {0, 0}, 0, 0, true, true},
                    SelectCase{"FiniteBeforeImpossible", {kInf, 7}, {1, 0}, 1, 1, false, false}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Select, SelectingFromNoCandidatesIsABug) {
  EXPECT_THROW(static_cast<void>(select(Policy::kKeepInput, {})), ContractError);
}

TEST(Ties, AreTheCandidatesAtTheMinimum) {
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(ties_at_minimum(std::vector<double>{3, 1, 2, 1}), (Indices{1, 3}));
  EXPECT_EQ(ties_at_minimum(std::vector<double>{kInf, kInf}), (Indices{0, 1}));
  EXPECT_EQ(ties_at_minimum(std::vector<double>{0, 0, 1e-300}), (Indices{0, 1}));
}

TEST(Ties, SumsInAnotherOrderAreEqual) {
  EXPECT_EQ(ties_at_minimum(std::vector<double>{0.1 + 0.2, 0.3}).size(), 2U);
  EXPECT_EQ(ties_at_minimum(std::vector<double>{1.0, 1.0 + 1e-11}).size(), 1U);
}

TEST(Margin, IsTheDistanceToTheNextTotal) {
  EXPECT_EQ(margin_us(std::vector<double>{3, 1, 2, 1}), 1.0);
  EXPECT_EQ(margin_us(std::vector<double>{1, 1.5, kInf}), 0.5);
  EXPECT_EQ(margin_us(std::vector<double>{0.1 + 0.2, 0.3, 1.0}), 1.0 - 0.3);
}

TEST(Margin, IsAbsentWithoutAnother) {
  EXPECT_FALSE(margin_us(std::vector<double>{1}).has_value());
  EXPECT_FALSE(margin_us(std::vector<double>{1, 1}).has_value());
  EXPECT_FALSE(margin_us(std::vector<double>{1, kInf}).has_value());
  EXPECT_FALSE(margin_us(std::vector<double>{kInf, kInf}).has_value());
}

// The definition itself: some order of the candidates makes the policy choose another one.
bool some_order_chooses_another(Policy policy, const std::vector<double>& totals,
                                const std::vector<std::uint8_t>& keeps) {
  std::vector<std::size_t> order(totals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::set<std::size_t> chosen;
  do {
    std::vector<double> t;
    std::vector<std::uint8_t> k;
    for (const std::size_t i : order) {
      t.push_back(totals[i]);
      k.push_back(keeps[i]);
    }
    chosen.insert(order[select(policy, {t, k})]);
  } while (std::next_permutation(order.begin(), order.end()));
  return chosen.size() > 1;
}

TEST(FlipsWithOrder, EqualsTryingAllPermutationsOfAllSmallLists) {
  const std::vector<double> values = {-1, 0, 2, kInf};
  for (std::size_t size = 1; size <= 3; ++size) {
    std::vector<std::size_t> digits(size, 0);
    const std::size_t choices = values.size() * 2;
    std::size_t total = 1;
    for (std::size_t i = 0; i < size; ++i) total *= choices;
    for (std::size_t n = 0; n < total; ++n) {
      std::vector<double> totals;
      std::vector<std::uint8_t> keeps;
      std::string text;
      for (std::size_t i = 0, rest = n; i < size; ++i, rest /= choices) {
        totals.push_back(values[rest % choices / 2]);
        keeps.push_back(static_cast<std::uint8_t>(rest % 2));
        text += std::to_string(totals.back()) + (keeps.back() != 0 ? " keeps, " : ", ");
      }
      for (const Policy policy : {Policy::kFirstListed, Policy::kKeepInput}) {
        EXPECT_EQ(flips_with_order(policy, {totals, keeps}),
                  some_order_chooses_another(policy, totals, keeps))
            << to_string(policy) << ": " << text;
      }
    }
  }
}

TEST(FlipsWithOrder, EqualsTryingAllPermutationsOfRandomLists) {
  Random random(81);
  SHARDLAB_TRACE_SEED();
  const std::vector<double> values = {-2, 0, 0, 0, 1, 1, 3, kInf};
  for (int i = 0; i < random_cases(400); ++i) {
    std::vector<double> totals;
    std::vector<std::uint8_t> keeps;
    for (int n = 4 + random.below(3); n > 0; --n) {
      totals.push_back(random.pick(values));
      keeps.push_back(random.percent(30) ? 1 : 0);
    }
    for (const Policy policy : {Policy::kFirstListed, Policy::kKeepInput}) {
      EXPECT_EQ(flips_with_order(policy, {totals, keeps}),
                some_order_chooses_another(policy, totals, keeps))
          << to_string(policy) << " " << testing::PrintToString(totals)
          << testing::PrintToString(keeps);
    }
  }
}

TEST(CandidateOrder, PrintsWhatItParses) {
  for (const char* text : {"listed", "reversed", "shuffled:0", "shuffled:9223372036854775807"}) {
    EXPECT_EQ(CandidateOrder::parse(text).text(), text);
  }
}

TEST(CandidateOrder, ErrorsNameWhatIsValid) {
  EXPECT_THROW_MSG(CandidateOrder::parse("random"), TextError,
                   "order \"random\": at position 0: expected listed, reversed or shuffled:SEED");
  EXPECT_THROW_MSG(CandidateOrder::parse("shuffled"), TextError,
                   "order \"shuffled\": at position 8: expected \":\" and a seed");
  EXPECT_THROW_MSG(CandidateOrder::parse("shuffled:-1"), TextError,
                   "order \"shuffled:-1\": at position 9: expected a seed from 0 to "
                   "9223372036854775807");
  EXPECT_THROW_MSG(CandidateOrder::parse("listed:3"), TextError,
                   "order \"listed:3\": at position 6: expected the end of the order");
}

TEST(CandidateOrder, ListsReversesAndShuffles) {
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(CandidateOrder::parse("listed").permutation(3), (Indices{0, 1, 2}));
  EXPECT_EQ(CandidateOrder::parse("reversed").permutation(3), (Indices{2, 1, 0}));
  EXPECT_TRUE(CandidateOrder::parse("shuffled:1").permutation(0).empty());
}

TEST(CandidateOrder, AShuffleIsAPermutationThatItsSeedFixes) {
  std::set<std::vector<std::size_t>> different;
  for (int seed = 0; seed < 50; ++seed) {
    const CandidateOrder order = CandidateOrder::parse("shuffled:" + std::to_string(seed));
    std::vector<std::size_t> shuffled = order.permutation(8);
    EXPECT_EQ(order.permutation(8), shuffled);
    different.insert(shuffled);
    std::sort(shuffled.begin(), shuffled.end());
    EXPECT_EQ(shuffled, CandidateOrder().permutation(8));
  }
  EXPECT_GT(different.size(), 45U);
}

TEST(CandidateOrder, AShuffleIsTheSameOnEveryMachine) {
  // The expected order is Fisher-Yates over std::mt19937_64(1), whose first numbers the standard
  // fixes.
  EXPECT_EQ(CandidateOrder::parse("shuffled:1").permutation(6),
            (std::vector<std::size_t>{1, 3, 0, 4, 5, 2}));
}

// The policies that look beyond prices, with four candidates at the minimum and one that is dearer.
class ListedTies final : public TieBreaker {
 public:
  double collectives(std::size_t candidate) override {
    return std::vector<double>{3, 1, 2, 1, 0}[candidate];
  }
  double bytes(std::size_t candidate) override {
    return std::vector<double>{100, 400, 50, 400, 0}[candidate];
  }
  double compute_us(std::size_t candidate) override {
    return std::vector<double>{7.5, 9, 9, 2, 0}[candidate];
  }
  std::string text(std::size_t candidate) override {
    return std::vector<std::string>{"S(1)", "S(0)", "R", "P(sum)", "P(avg)"}[candidate];
  }
};

TEST(Policies, TiesAreBrokenByWhatThePolicyIsNamedAfter) {
  const std::vector<double> totals = {5, 5, 5, 5, 6};
  const std::vector<std::uint8_t> keeps = {0, 0, 0, 0, 1};
  ListedTies ties;
  const PricedCandidates candidates{totals, keeps, &ties};
  EXPECT_EQ(select(Policy::kFewestCollectives, candidates),
            3U);  // two need one collective; the first text decides
  EXPECT_EQ(select(Policy::kLeastBytes, candidates), 2U);
  EXPECT_EQ(select(Policy::kComputeTime, candidates), 3U);
  EXPECT_EQ(select(Policy::kLexicographic, candidates), 3U);
  for (const Policy policy : {Policy::kFewestCollectives, Policy::kLeastBytes, Policy::kComputeTime,
                              Policy::kLexicographic}) {
    EXPECT_FALSE(flips_with_order(policy, candidates)) << to_string(policy);
  }
}

TEST(Policies, EveryNameIsReadBack) {
  for (const Policy policy : {Policy::kFirstListed, Policy::kKeepInput, Policy::kFewestCollectives,
                              Policy::kLeastBytes, Policy::kComputeTime, Policy::kLexicographic}) {
    EXPECT_EQ(from_name<Policy>(name_of(policy)), policy);
  }
  EXPECT_FALSE(from_name<Policy>("cheapest").has_value());
}

}  // namespace selection_test
}  // namespace shardlab
