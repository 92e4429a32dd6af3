// Sharding rules: which placements of its inputs an op accepts on one mesh dim, and what its
// outputs then are.
//
//   {.op = "aten.flip.default", .outputs = flip_outputs, .rows = flip_rows}  // families/tensor.cpp
//   const OpRule& rule = find_op_rule("aten.flip", Release::k2_13);
//   Rows rows = rule.rows(call, rule);    // ?0|?0, P(sum)|P(sum), ..., where dim 1 is flipped
//
// Most rules give rows for one mesh dim, written outputs|inputs; expansion.h expands them to any
// mesh. An entry of a row is a placement, or the placeholder ?d: a shard of tensor dim d, of any
// kind that occurs among the inputs. The row that replicates everything is implied and comes first.
// Other rules derive whole layouts from those of the inputs ("follow" rules). In every release of
// PyTorch these are views and stack; in 2.13.0 they are also copies, slices, selections, splits,
// cat, scans, reductions, softmax and losses.
//
// README.md in this folder says how to add an op and how to add a release of PyTorch.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/compute_model.h"
#include "sim/placement.h"
#include "strategies/rules/op_call.h"
#include "strategies/rules/rule_set.h"

namespace shardlab {

struct OpRule;
class RuleSource;

class RowEntry {
 public:
  constexpr RowEntry() = default;
  constexpr RowEntry(Placement placement) : placement_(placement) {}  // NOLINT: rows read as text
  [[nodiscard]] static constexpr RowEntry any_shard(int dim) {
    RowEntry entry(Placement::shard(dim));
    entry.any_shard_ = true;
    return entry;
  }
  [[nodiscard]] constexpr bool is_any_shard() const { return any_shard_; }
  [[nodiscard]] constexpr const Placement& placement() const { return placement_; }
  [[nodiscard]] constexpr int dim() const { return placement_.dim(); }
  friend constexpr bool operator==(const RowEntry&, const RowEntry&) = default;

 private:
  Placement placement_;
  bool any_shard_ = false;
};

// A row's entries: first the outputs, then the inputs. The inputs are the tensor arguments in
// order, with lists flattened and an `out=` tensor last.
using Row = boost::container::small_vector<RowEntry, 5>;
using Rows = boost::container::small_vector<Row, 12>;

// One candidate of a follow rule: whole layouts, in the default shard order.
struct FollowCandidate {
  std::vector<Placements> outputs = {};
  std::vector<Placements> inputs = {};
  // Whether inputs that have these placements already keep their own shard order.
  bool keeps_order = false;
};

// A partial row of a pointwise class, e.g. sum|sum R. It serves calls with as many tensors as it
// has inputs.
struct PartialRow {
  std::array<Placement, 4> entries;  // the output, then the inputs
  std::size_t size;                  // entries in use
  RuleSets sets = kEveryRuleSet;
};

// A function of a rule: one of our own, or a question to the source that the rule comes from
// (rule_source.h). Null where the rule has no such function.
template <class Signature>
class RuleFunction;
template <class Result, class... Args>
class RuleFunction<Result(Args...)> {
 public:
  using Own = Result (*)(Args...);
  using Question = Result (*)(RuleSource&, Args...);

  constexpr RuleFunction() = default;
  constexpr RuleFunction(std::nullptr_t) {}       // NOLINT: .rows = nullptr
  constexpr RuleFunction(Own own) : own_(own) {}  // NOLINT: .rows = flip_rows
  // The source must outlive the function.
  constexpr RuleFunction(RuleSource& source, Question question)
      : source_(&source), question_(question) {}

  Result operator()(Args... args) const {
    return source_ == nullptr ? own_(args...) : question_(*source_, args...);
  }
  friend constexpr bool operator==(const RuleFunction& function, std::nullptr_t) {
    return function.own_ == nullptr && function.source_ == nullptr;
  }
  friend constexpr bool operator==(const RuleFunction&, const RuleFunction&) = default;

 private:
  Own own_ = nullptr;
  RuleSource* source_ = nullptr;
  Question question_ = nullptr;
};

struct OpRule {
  std::string_view op;
  RuleSets sets = kDTensor | kShardlab;
  RuleSet resolved_for = {};  // the set that was asked for; a RuleTable sets it in its copies
  // The shapes and dtypes of the outputs. Throws InputError when the op can't take the inputs.
  RuleFunction<std::vector<TensorMeta>(const OpCall&)> outputs = nullptr;
  // A rule has one of these two functions.
  RuleFunction<Rows(const OpCall&, const OpRule&)> rows = nullptr;
  RuleFunction<std::vector<FollowCandidate>(const OpCall&, const DeviceMesh&)> follow = nullptr;
  // Whether the op can run on inputs in these layouts, those of one candidate. It drops candidates
  // that `rows`, which sees one mesh dim at a time, can't rule out.
  bool (*filter)(const OpCall&, std::span<const Placements> inputs, const DeviceMesh&) = nullptr;
  std::span<const PartialRow> partial_rows = {};
  // The sets in which an input may have empty shards if it already has the placements of the
  // candidate: `.uneven_in = since(Release::k2_14)`.
  RuleSets uneven_in = kNoRuleSet;
  // Why a combination is not listed although it computes the op; empty when there is no reason. The
  // proof asks for it (strategies/proof/rule_proof.h), with rows that have no placeholders.
  std::string_view (*excuse)(const OpCall&, const Row&) = nullptr;
  // How many of the last inputs are tensors that the outputs are written to. 0 means one for an op
  // whose name ends in "out", and none for other ops (written_outputs).
  std::size_t out_tensors = 0;
  // Whether each element of the outputs depends on the inputs' elements at the same place alone, so
  // that registered placements may pass through (registered_rows.h).
  bool is_pointwise = false;
  // Which kernel one rank runs, and its floating point operations.
  Kernel kernel = Kernel::kElementwise;
  RuleFunction<double(std::span<const Shape> local_inputs, const OpCall&)> flops = nullptr;
  // Writes the shape of the product or of the attention (KernelQuery::gemm, ::attention), for
  // models that price by shape, and KernelQuery::tf32 of a convolution. Null for other kernels.
  RuleFunction<void(std::span<const Shape> local_inputs, const OpCall&, KernelQuery&)> shape =
      nullptr;
  std::string_view equation = {};  // mk,kn->mn; only products of matrices have one

  // The same rule for these sets: followed("aten.cumsum.default").in(until(Release::k2_13)).
  [[nodiscard]] constexpr OpRule in(RuleSets these) const {
    OpRule rule = *this;
    rule.sets = these;
    return rule;
  }

  // Whether an input may have empty shards in the set that the rule was asked for.
  [[nodiscard]] constexpr bool allows_uneven() const { return uneven_in.contains(resolved_for); }

  // These functions read PyTorch's way of naming ops: add_, mul.out, _fused_adam_.
  [[nodiscard]] bool is_in_place() const;
  [[nodiscard]] bool is_out_variant() const { return written_outputs() > 0; }
  [[nodiscard]] std::size_t written_outputs() const;
};

struct OpRuleFamily {
  std::span<const OpRule> rules;
};

// All families, sorted by file name.
[[nodiscard]] std::span<const OpRuleFamily* const> all_op_rules();
// The rule of an op in a rule set. `op` may leave out "aten." and the overload ("mm", "aten.mm",
// "aten::mm"), which then is "default" or else the first of that name; "softmax" is read as
// "_softmax". Where autoparallel has no rule of its own, it takes DTensor's (kReferenceRelease), or
// shardlab's where only that has rows. The look-up is a binary search (rule_table.h). Throws
// InputError for an unknown op (and names the nearest word), or where that set has no rule.
[[nodiscard]] const OpRule& find_op_rule(std::string_view op, RuleSet set);
// The same rule, or null if the set has none. Throws InputError for a name that several ops share.
[[nodiscard]] const OpRule* op_rule_or_null(std::string_view op, RuleSet set);
// Every op that some rule set has. Names are sorted, and each is listed once.
[[nodiscard]] std::vector<std::string_view> all_op_names();

// Writes what the rule knows of the kernel's work on local inputs of these shapes: its operations
// and its shape.
inline void set_work(KernelQuery& query, const OpRule& rule, std::span<const Shape> local_inputs,
                     const OpCall& call) {
  if (rule.flops != nullptr) query.flops = rule.flops(local_inputs, call);
  if (rule.shape != nullptr) rule.shape(local_inputs, call, query);
}

}  // namespace shardlab

#define OP_RULES(id)                       \
  extern const OpRuleFamily op_rules_##id; \
  constinit const OpRuleFamily op_rules_##id
