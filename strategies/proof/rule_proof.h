// Proof of an op's sharding rules on virtual ranks: which combinations of placements of its inputs
// and outputs compute the op, and which of them the rules list.
//
//   RuleProof proof = prove_rule(find_op_rule("aten.mm.default", kShardlab), {});
//   proof.unsound     rows that compute something else, each with a witness
//   proof.missing     combinations that compute the op and are no row
//
// On one mesh dim, every sample call of the op (op_sample.h) is run in every combination of R, S(d)
// and P(sum, avg, max, min, product) of its tensors: made-up shards and contributions go through the
// reference kernel (op_kernel.h) rank by rank, and what comes out is compared with the kernel on the
// whole tensors, for every placement that the outputs could have. A combination is right when it is
// right for all data sets. What the rules list is what expand() keeps for inputs that already have
// these placements, so filters and follow rules count too.
//
// Values are small multiples of 1/4, so that sums, averages and products of contributions are exact;
// what a kernel rounds is allowed for: (n + 2) u M by element, as in op_execution.h. The idea of
// checking rules both ways is that of PyTorch 2.13.0's _ops/strategy_validation.py (pull requests
// #174798 to #174800).
//
// A sum of truth values (b8) is their disjunction, as PyTorch's and NCCL's collectives have it.
//
// Not counted as missing:
//   - outputs P(avg), P(max), P(min) where R is right as well, and inputs R where the rules list P(avg),
//     P(max) or P(min): R is each of these as it stands;
//   - shards of fewer rows than ranks: rules propose them only for inputs that have them already;
//   - combinations that an op excuses (OpRule::excuse), and P(product), which only prod makes: both
//     are listed as known omissions, with the reason.
// Calls of so many tensors that there are more than kMaxRuleCombinations combinations: partials of
// integers, then P(product), P(min), P(avg) and P(max) of inputs are left out until they fit; if
// they never do, the combinations that differ from a listed row in at most two tensors are tried.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/proof/op_sample.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

inline constexpr std::size_t kMaxRuleCombinations = 30'000;

struct RuleProofOptions {
  std::vector<std::int64_t> mesh_sizes = {2, 3};
  // Every combination must pass; small outputs get more, until 96 of their elements were seen.
  int data_sets = 6;
};

struct RuleFinding {
  std::string row;          // "P(sum) | S(1), S(0)": outputs | inputs
  std::string reason = {};  // of an omission
  std::size_t calls = 1;    // sample calls, each on each mesh, in which it shows
  // The smallest of them.
  std::string call;
  std::int64_t mesh = 0;
  // Of an unsound row: where, found, expected; the locals of small calls.
  std::string detail = {};
  std::int64_t elements = 0;
};

struct RuleProof {
  std::string op;
  std::size_t calls = 0;         // sample calls times meshes
  std::size_t combinations = 0;  // that were tried
  std::size_t accepted = 0;      // distinct rows that the rules list
  // By text of the row.
  std::vector<RuleFinding> unsound;
  std::vector<RuleFinding> missing;
  std::vector<RuleFinding> known_omissions;
};

// Throws InputError: an op without kernel or samples, or samples that it can't take.
[[nodiscard]] RuleProof prove_rule(const OpRule& rule, const RuleProofOptions& options);

// Whether the op has what a proof needs: a reference kernel and samples.
[[nodiscard]] bool is_provable(const OpRule& rule);

}  // namespace shardlab
