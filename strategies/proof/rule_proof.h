// Proof of an op's sharding rules on virtual ranks: which combinations of placements of its inputs
// and outputs compute the op, and which of them the rules list.
//
//   RuleProof proof = prove_rule(find_op_rule("aten.mm.default", kShardlab), {});
//   proof.unsound     // rows that compute something else, each with a witness
//   proof.missing     // combinations that compute the op but are not listed
//
// Every sample call of the op (op_sample.h) is run on a mesh of one dim, with its inputs in every
// combination of R, S(d) and P(sum, avg, max, min, product), and judged for every placement that
// the outputs could have (sample_execution.h). What is right is compared with what the rules list
// (rule_combinations.h). PyTorch 2.13.0 checks its rules both ways as well:
// _ops/strategy_validation.py, pull requests #174798 to #174800.
//
// A combination that is right but not listed is not counted as missing
//   - where an output is P(avg), P(max) or P(min) and R is right as well, or an input is R and the
//     rules list P(avg), P(max) or P(min): a replicated tensor is already each of these;
//   - where a sharded dim has fewer rows than ranks: rules propose such shards only for inputs that
//     have them already;
//   - where the op excuses it (OpRule::excuse), or where it has a P(product), which only prod
//     makes: both are listed as known omissions, with the reason.
//
// Some calls have so many tensors that there are more than kMaxRuleCombinations combinations. Then
// partials of the inputs are left out until the combinations are few enough: first those of
// integers, then P(product), P(min), P(avg) and P(max). Where there are still too many, only the
// combinations that differ from a listed row in at most two tensors are tried.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/registered_placement.h"
#include "strategies/proof/op_sample.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

inline constexpr std::size_t kMaxRuleCombinations = 30'000;

struct RuleProofOptions {
  std::vector<std::int64_t> mesh_sizes = {2, 3};
  // A combination must be right for all of these data sets. Small outputs get more
  // (sample_execution.h).
  int data_sets = 6;
  // Pointwise ops are proved with samples of these registered placements as well.
  std::vector<const PlacementEntry*> registered = {};
  // Once this is set, no further sample call is looked at; null means that nothing stops the proof.
  const std::atomic<bool>* stop = nullptr;
};

struct RuleFinding {
  std::string row;          // "P(sum) | S(1), S(0)": outputs | inputs
  std::string reason = {};  // why a known omission is left out
  std::size_t calls = 1;    // how many sample calls show it; each counts once per mesh
  // The smallest of the calls that show it.
  std::string call;
  std::int64_t mesh = 0;  // ranks in the mesh
  // What is wrong with an unsound row; for small calls also what the ranks hold.
  std::string detail = {};
  std::int64_t elements = 0;  // elements of all inputs of that call
};

struct RuleProof {
  std::string op;
  bool complete = true;          // false if the proof was stopped
  std::size_t calls = 0;         // sample calls times meshes
  std::size_t combinations = 0;  // how many were tried
  std::size_t accepted = 0;      // how many distinct rows the rules list
  // The findings of each kind, sorted by the text of the row.
  std::vector<RuleFinding> unsound;
  std::vector<RuleFinding> missing;
  std::vector<RuleFinding> known_omissions;
};

// Throws InputError for an op without kernel or samples, and for an op that accepts none of its
// samples.
[[nodiscard]] RuleProof prove_rule(const OpRule& rule, const RuleProofOptions& options);

// Whether the op has what a proof needs: a reference kernel and samples.
[[nodiscard]] bool is_provable(const OpRule& rule);

}  // namespace shardlab
