// The rule sets that a stack can name, and the releases of PyTorch.
//
// DTensor has one rule set for each release of PyTorch; the other rule sets have no releases. A
// rule says in which sets it holds, and mentions a release only if that release changed it:
//
//   {.op = "aten.flip.default", ...}  // holds in every release, and in shardlab
//   {.op = "aten.neg.default", .sets = until(Release::k2_13) | kShardlab, ...}
//   {.op = "aten.neg.default", .sets = since(Release::k2_14), ...}       // what 2.14 does instead
//
//   find_op_rule("aten.neg.default", Release::k2_14)                     // op_rule.h
//
// README.md in this folder says what to do when PyTorch releases a new version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/base/enum_names.h"

namespace shardlab {

// The releases, oldest first. `since` and `until` rely on this order.
enum class Release : std::uint8_t { k2_13, k2_14, k2_15 };

struct ReleaseEntry {
  Release release;
  std::string_view rule_set;  // its name in the "rules" of a stack and in --rule-set
  std::string_view torch;     // the version whose source was read and whose figures were recorded
};
// One entry for each release, in the order of the enumeration.
inline constexpr std::array kReleases = {ReleaseEntry{Release::k2_13, "dtensor-2.13", "2.13.0"},
                                         ReleaseEntry{Release::k2_14, "dtensor-2.14", "2.14.1"},
                                         ReleaseEntry{Release::k2_15, "dtensor-2.15", "2.15.0"}};

[[nodiscard]] constexpr std::string_view torch_version(Release release) {
  return kReleases[static_cast<std::size_t>(release)].torch;
}

inline constexpr Release kNewestRelease = kReleases.back().release;
// The release that rule sets without releases refer to: AutoParallel borrows its rules, and
// decompositions use its rules for their steps. It does not change when a newer release is added,
// so that those sets do not change either.
inline constexpr Release kReferenceRelease = Release::k2_13;

// One rule set. A release stands for DTensor's rules of that release.
class RuleSet {
 public:
  constexpr RuleSet() : RuleSet(kNewestRelease) {}
  constexpr RuleSet(Release release)  // NOLINT: find_op_rule("aten.mm.default", Release::k2_13)
      : number_(static_cast<std::uint8_t>(kFirstOfDTensor + static_cast<std::uint8_t>(release))) {}

  enum class Unversioned : std::uint8_t {
    kDTensorLegacy,
    kShardlab,
    kAutoParallel,
    kAutoParallel2_15
  };
  constexpr explicit RuleSet(Unversioned set) : number_(static_cast<std::uint8_t>(set)) {}

  // The release; nothing for a rule set without releases.
  [[nodiscard]] constexpr std::optional<Release> release() const {
    if (number_ < kFirstOfDTensor) return std::nullopt;
    return static_cast<Release>(number_ - kFirstOfDTensor);
  }
  friend constexpr bool operator==(RuleSet, RuleSet) = default;

 private:
  friend class RuleSets;
  static constexpr std::uint8_t kFirstOfDTensor = 4;  // smaller numbers are those of Unversioned

  std::uint8_t number_;
};

// How DTensor expressed the rules of a few ops before 2.13: pointwise ops follow one argument, and
// products of matrices do not pass partial sums on. It is kept for comparison and is not a release.
inline constexpr RuleSet kDTensorLegacy{RuleSet::Unversioned::kDTensorLegacy};
// Our own rules: every op has rows, and every row that is sound is listed.
inline constexpr RuleSet kShardlab{RuleSet::Unversioned::kShardlab};
// What AutoParallel lists for the nodes of a program. It has rules of its own for few ops.
inline constexpr RuleSet kAutoParallel{RuleSet::Unversioned::kAutoParallel};
// The same under PyTorch 2.15, whose rules it borrows where it has none of its own.
inline constexpr RuleSet kAutoParallel2_15{RuleSet::Unversioned::kAutoParallel2_15};

// The rule sets in which a rule, or one row of a rule, holds: kDTensor | kShardlab.
class RuleSets {
 public:
  constexpr RuleSets(RuleSet set)  // NOLINT: one set is a set of sets
      : bits_(bit_of(set)) {}

  [[nodiscard]] constexpr bool contains(RuleSet set) const { return (bits_ & bit_of(set)) != 0; }
  [[nodiscard]] constexpr bool intersects(RuleSets other) const {
    return (bits_ & other.bits_) != 0;
  }
  [[nodiscard]] constexpr RuleSets united(RuleSets other) const {
    return Bits{bits_ | other.bits_};
  }
  // The sets that are in both.
  [[nodiscard]] constexpr RuleSets among(RuleSets others) const {
    return Bits{bits_ & others.bits_};
  }
  friend constexpr bool operator==(RuleSets, RuleSets) = default;

  // DTensor's rule sets from a release on, or up to a release. Both include that release.
  [[nodiscard]] static constexpr RuleSets since(Release first) {
    return Bits{~(bit_of(first) - 1U)};
  }
  [[nodiscard]] static constexpr RuleSets until(Release last) {
    return Bits{((bit_of(last) << 1U) - 1U) & ~(bit_of(Release{}) - 1U)};
  }
  [[nodiscard]] static constexpr RuleSets none() { return Bits{0}; }

 private:
  struct Bits {
    std::uint32_t value;
  };
  constexpr RuleSets(Bits bits) : bits_(bits.value) {}  // NOLINT: private
  static constexpr std::uint32_t bit_of(RuleSet set) { return std::uint32_t{1} << set.number_; }

  std::uint32_t bits_;
};
constexpr RuleSets operator|(RuleSets a, RuleSets b) { return a.united(b); }
static_assert(kReleases.size() < 28, "every rule set has a bit");

constexpr RuleSets since(Release first) { return RuleSets::since(first); }
constexpr RuleSets until(Release last) { return RuleSets::until(last); }
// DTensor's rule sets of every release, future ones included.
inline constexpr RuleSets kDTensor = since(Release{});

inline constexpr RuleSets kNoRuleSet = RuleSets::none();
// AutoParallel's rule sets.
inline constexpr RuleSets kAutoParallels = kAutoParallel | kAutoParallel2_15;
inline constexpr RuleSets kEveryRuleSet = kDTensor | kDTensorLegacy | kShardlab | kAutoParallels;

// The newest release comes first.
template <>
struct EnumNames<RuleSet> {
  static constexpr std::string_view kKind = "rule set";
  static constexpr auto kNames = [] {
    std::array<Named<RuleSet>, kReleases.size() + 4> names{};
    std::size_t count = kReleases.size();
    for (const ReleaseEntry& entry : kReleases) names[--count] = {entry.release, entry.rule_set};
    names[kReleases.size()] = {kDTensorLegacy, "dtensor-legacy"};
    names[kReleases.size() + 1] = {kShardlab, "shardlab"};
    names[kReleases.size() + 2] = {kAutoParallel, "autoparallel"};
    names[kReleases.size() + 3] = {kAutoParallel2_15, "autoparallel-2.15"};
    return names;
  }();
};
[[nodiscard]] constexpr std::string_view to_string(RuleSet set) { return name_of(set); }

}  // namespace shardlab
