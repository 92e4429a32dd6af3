// Keeps the decisions of one stack, so that each is computed once.
//
//   DecisionCache decisions(evaluator);
//   const Decision& d = decisions.of(call, mesh);     // computed once, then looked up
//
// Two questions are the same when everything that an answer depends on is the same: the op; every
// tensor's dtype, shape, strides and layout; the other arguments; and the mesh with its flattened
// meshes. (PyTorch's cache once left out static arguments, and gave stale answers: #134050,
// #153603.)
#pragma once

#include <cstdint>
#include <unordered_map>

#include "strategies/select/evaluator.h"

namespace shardlab {

class DecisionCache {
 public:
  // Keeps a reference to the evaluator. Assumes that its prices do not change.
  explicit DecisionCache(StackEvaluator& evaluator) : evaluator_(evaluator) {}

  // The decision, valid until the next call. Throws what StackEvaluator::select throws; errors are
  // not kept.
  [[nodiscard]] const Decision& of(const OpCall& call, const DeviceMesh& mesh);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    OpCall call;
    DeviceMesh mesh;
    Decision decision;
  };

  StackEvaluator& evaluator_;
  std::unordered_multimap<std::uint64_t, Entry> entries_;  // by hash; cleared when it is full
};

}  // namespace shardlab
