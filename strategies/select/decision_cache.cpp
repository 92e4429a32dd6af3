#include "strategies/select/decision_cache.h"

#include <cstring>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

constexpr std::size_t kMostEntries = 1U << 16U;

class Hash {
 public:
  void add(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 29U;
  }
  void add(std::string_view text) {
    add(text.size());
    while (text.size() >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data(), 8);
      add(word);
      text.remove_prefix(8);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, text.data(), text.size());
    add(rest);
  }
  void add(const Placement& p) {
    add(static_cast<std::uint64_t>(p.kind()) | static_cast<std::uint64_t>(p.reduce_op()) << 8U |
        static_cast<std::uint64_t>(p.dim() & 0xff) << 16U |
        static_cast<std::uint64_t>(p.split_factor()) << 32U);
  }
  void add(const TensorSpec& tensor) {
    add(static_cast<std::uint64_t>(tensor.meta.dtype));
    for (const std::int64_t extent : tensor.meta.shape) add(static_cast<std::uint64_t>(extent));
    for (const Placement& p : tensor.layout.placements) add(p);
  }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3ULL;
};

// Arguments that are not tensors are compared, but only their number is hashed.
std::uint64_t hash_of(const OpCall& call, const DeviceMesh& mesh) {
  Hash hash;
  hash.add(call.op);
  for (const TensorArg& arg : call.inputs) {
    hash.add(arg.tensors.size());
    for (const TensorSpec& tensor : arg.tensors) hash.add(tensor);
  }
  hash.add(call.args.size());
  for (int m = 0; m < mesh.ndim(); ++m) hash.add(static_cast<std::uint64_t>(mesh.size(m)));
  return hash.value();
}

}  // namespace

const Decision& DecisionCache::of(const OpCall& call, const DeviceMesh& mesh) {
  const std::uint64_t key = hash_of(call, mesh);
  const auto [begin, end] = entries_.equal_range(key);
  for (auto entry = begin; entry != end; ++entry) {
    const Entry& known = entry->second;
    if (known.call == call && known.mesh == mesh && known.mesh.same_registry(mesh)) {
      return known.decision;
    }
  }
  const OpRule& rule = find_op_rule(call.op, evaluator_.stack().rules);
  const Expansion expansion = expand(rule, call, mesh);
  if (!expansion.in_place_error().empty()) throw InputError(expansion.in_place_error());
  if (expansion.size() == 0) {
    throw InputError(call.op + ": no sharding candidate is left for " + call.text());
  }
  const Pricing pricing = evaluator_.price(expansion, &rule, call, mesh);
  Decision decision = evaluator_.decide(expansion, pricing, &rule, call, mesh);
  if (entries_.size() >= kMostEntries) entries_.clear();
  return entries_.emplace(key, Entry{call, mesh, std::move(decision)})->second.decision;
}

}  // namespace shardlab
