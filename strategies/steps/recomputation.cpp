#include "strategies/steps/recomputation.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

bool multiplies_matrices(std::string_view op) {
  return op.starts_with("aten.mm.") || op.starts_with("aten.bmm.") ||
         op.starts_with("aten.addmm.") || op.starts_with("aten.baddbmm.") ||
         op.starts_with("aten.einsum.") || op.starts_with("aten.linear.") ||
         op.starts_with("aten._grouped_mm.");
}

bool attends(std::string_view op) {
  return op.find("scaled_dot_product") != std::string_view::npos;
}

// The nodes that may run again, block by block.
class CandidateFinder {
 public:
  CandidateFinder(const Program& program, const ModelBlocks& blocks, const Recomputation& policy)
      : program_(program), blocks_(blocks), policy_(policy) {}

  void run() {
    candidates.assign(program_.nodes.size(), false);
    held = candidates;
    std::map<int, int> products;  // by block: how many matrix products it has had
    for (std::size_t n = 0; n < candidates.size(); ++n) {
      const ProgramNode& node = program_.nodes[n];
      if (!node.computes() || blocks_.pass[n] != Phase::kForward || blocks_.is_weight[n]) continue;
      const int block = blocks_.block[n];
      candidates[n] = block != ModelBlocks::kOutside && is_for(block);
      if (!candidates[n] || policy_.kind != Recomputation::Kind::kSelective) continue;
      const bool keeps_product = multiplies_matrices(node.op) && products[block]++ % 2 == 0;
      if (!keeps_product && !attends(node.op)) continue;
      candidates[n] = false;
      held[n] = true;
    }
    // What another block reads in the forward pass is kept.
    for (std::size_t n = 0; n < candidates.size(); ++n) {
      const ProgramNode& reader = program_.nodes[n];
      if (blocks_.pass[n] != Phase::kForward) continue;
      for (const ValueRef& value : values_read(reader)) {
        if (reader.leaves() || blocks_.block[value.node] != blocks_.block[n]) {
          candidates[value.node] = false;
        }
      }
    }
  }

  std::vector<bool> candidates;  // by node: whether it may run again
  std::vector<bool> held;        // by node: whether the policy holds its result

 private:
  [[nodiscard]] bool is_for(int block) const {
    switch (policy_.kind) {
      case Recomputation::Kind::kNone:
        return false;
      case Recomputation::Kind::kEvery:
        return block % policy_.every == 0;
      case Recomputation::Kind::kFull:
      case Recomputation::Kind::kSelective:
        return policy_.first_blocks < 0 || block < policy_.first_blocks;
    }
    return false;
  }

  const Program& program_;
  const ModelBlocks& blocks_;
  const Recomputation& policy_;
};

// The unit whose weights the forward pass reads last.
int last_unit(const Program& program, const ModelBlocks& blocks) {
  int unit = -1;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    if (!node.computes() || blocks.pass[n] != Phase::kForward || blocks.is_weight[n]) continue;
    for (const ValueRef& value : values_read(node)) {
      if (blocks.is_weight[value.node]) unit = blocks.unit[value.node];
    }
  }
  return unit;
}

}  // namespace

Recomputation Recomputation::parse(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view word = text.substr(0, colon);
  const bool is_numbered = colon < text.size();
  int number = 0;
  bool is_valid = !is_numbered;
  if (is_numbered) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    is_valid = error == std::errc() && end == digits.data() + digits.size() && number >= 1;
  }
  Recomputation policy;
  if (is_valid && word == "none" && !is_numbered) return policy;
  if (is_valid && (word == "full" || word == "selective")) {
    policy.kind = word == "full" ? Kind::kFull : Kind::kSelective;
    if (is_numbered) policy.first_blocks = number;
    return policy;
  }
  if (is_valid && word == "every" && is_numbered) {
    policy.kind = Kind::kEvery;
    policy.every = number;
    return policy;
  }
  throw TextError(
      "recomputation", text, 0,
      "none, full, selective, auto, every:N (every N-th block), full:N, selective:N (the first N "
      "blocks), with N at least 1");
}

std::string Recomputation::text() const {
  const std::string blocks = first_blocks < 0 ? "" : ":" + std::to_string(first_blocks);
  switch (kind) {
    case Kind::kNone:
      return "none";
    case Kind::kFull:
      return "full" + blocks;
    case Kind::kSelective:
      return "selective" + blocks;
    case Kind::kEvery:
      return "every:" + std::to_string(every);
  }
  return "";
}

std::vector<bool> recomputed_nodes(const Program& program, const ModelBlocks& blocks,
                                   const Recomputation& policy) {
  CandidateFinder finder(program, blocks, policy);
  finder.run();
  std::vector<bool> candidates = std::move(finder.candidates);
  if (policy.reshards_weights) {
    const int kept = last_unit(program, blocks);
    for (std::size_t n = 0; n < candidates.size(); ++n) {
      if (blocks.is_weight[n] && program.nodes[n].computes() && blocks.pass[n] == Phase::kForward &&
          blocks.unit[n] != kept) {
        candidates[n] = true;
      }
    }
  }
  // Of these, the ones that the backward pass needs, directly or by way of others that run again.
  std::vector<bool> again(candidates.size(), false);
  for (std::size_t n = candidates.size(); n-- > 0;) {
    const ProgramNode& node = program.nodes[n];
    const bool reads_in_backward = blocks.pass[n] == Phase::kBackward && !node.is_source();
    if (!reads_in_backward && !again[n]) continue;
    for (const ValueRef& value : values_read(node)) {
      if (candidates[value.node]) again[value.node] = true;
    }
  }
  return again;
}

std::vector<int> runs_under(const Program& program, const ModelBlocks& blocks,
                            const Recomputation& policy) {
  std::vector<int> runs;
  for (const bool again : recomputed_nodes(program, blocks, policy)) runs.push_back(again ? 2 : 1);
  return runs;
}

std::vector<bool> held_nodes(const Program& program, const ModelBlocks& blocks,
                             const Recomputation& policy) {
  CandidateFinder finder(program, blocks, policy);
  finder.run();
  return std::move(finder.held);
}

}  // namespace shardlab
