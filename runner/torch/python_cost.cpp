#include "runner/torch/python_cost.h"

#include <bit>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"

namespace shardlab {
namespace {

// So many answers take some 100 MB.
constexpr std::size_t kMostKept = 1'000'000;

std::size_t combine(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15U + (seed << 6U) + (seed >> 2U));
}

// Answers by question, shared between threads. Answers that are forgotten are asked anew.
template <class Key, class Value, class Hash>
class Memo {
 public:
  template <class Ask>
  Value get(const Key& key, Ask&& ask) const {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = known_.find(key); found != known_.end()) return found->second;
    }
    const Value value = ask();
    const std::lock_guard lock(mutex_);
    if (known_.size() >= kMostKept) known_.clear();
    known_.emplace(key, value);
    return value;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::unordered_map<Key, Value, Hash> known_;
};

// The answer to one question about a price. Throws ConfigError where the function failed.
nlohmann::json ask_price(const AskPrice& ask, const std::string& text, nlohmann::json question) {
  const nlohmann::json answer = ask(std::move(question));
  if (answer.contains("error")) throw ConfigError(text, "", describe_python_error(answer["error"]));
  return answer.at("ok");
}

struct Transition {
  Placement from;
  Placement to;
  int mesh_dim;
  std::uint64_t bytes;  // the bits of the number, so that equal keys are equal to the last digit
  friend bool operator==(const Transition&, const Transition&) = default;
};
struct HashTransition {
  std::size_t operator()(const Transition& key) const {
    const auto hash = [](const Placement& p) {
      return combine(
          combine(static_cast<std::size_t>(p.kind()), static_cast<std::size_t>(p.dim()) + 1),
          combine(static_cast<std::size_t>(p.split_factor()), std::hash<double>()(p.norm())) +
              static_cast<std::size_t>(p.reduce_op()));
    };
    return combine(combine(hash(key.from), hash(key.to)),
                   combine(static_cast<std::size_t>(key.mesh_dim), key.bytes));
  }
};

class PythonTransitions final : public TransitionFunction {
 public:
  PythonTransitions(AskPrice ask, std::string text)
      : ask_(std::move(ask)), text_(std::move(text)) {}

  [[nodiscard]] std::shared_ptr<const OnMesh> on(const DeviceMesh& mesh,
                                                 std::int64_t domain_devices) const override {
    const std::string text = mesh.text();  // with the names of mesh dims, which may have prices
    const std::lock_guard lock(mutex_);
    auto& known = meshes_[{text, domain_devices}];
    if (!known) known = std::make_shared<PricesOnMesh>(ask_, text_, text, domain_devices);
    return known;
  }

 private:
  class PricesOnMesh final : public OnMesh {
   public:
    PricesOnMesh(AskPrice ask, std::string text, std::string mesh, std::int64_t domain_devices)
        : ask_(std::move(ask)),
          text_(std::move(text)),
          mesh_(std::move(mesh)),
          domain_devices_(domain_devices) {}

    [[nodiscard]] Result price(const Placement& from, const Placement& to, int mesh_dim,
                               Bytes bytes) const override {
      return memo_.get({from, to, mesh_dim, std::bit_cast<std::uint64_t>(bytes)}, [&] {
        const nlohmann::json answer = ask_price(ask_, text_,
                                                {{"from", from.text()},
                                                 {"to", to.text()},
                                                 {"mesh", mesh_},
                                                 {"devices_per_host", domain_devices_},
                                                 {"mesh_dim", mesh_dim},
                                                 {"gib", bytes / kBytesPerGiB}});
        const nlohmann::json& us = answer.at("us");
        return Result{Micros(us.is_null() ? kInfinity : us.get<double>()),
                      answer.at("gib").get<double>() * kBytesPerGiB};
      });
    }

   private:
    AskPrice ask_;
    std::string text_;
    std::string mesh_;
    std::int64_t domain_devices_;
    Memo<Transition, Result, HashTransition> memo_;
  };

  AskPrice ask_;
  std::string text_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::string, std::int64_t>, std::shared_ptr<const OnMesh>> meshes_;
};

struct CollectiveKey {
  Collective kind;
  std::uint64_t bytes;
  std::int64_t ranks;
  std::int64_t hosts;
  std::int64_t ranks_per_host;
  friend bool operator==(const CollectiveKey&, const CollectiveKey&) = default;
};
struct HashCollective {
  std::size_t operator()(const CollectiveKey& key) const {
    const std::size_t hosts =
        combine(static_cast<std::size_t>(key.hosts), static_cast<std::size_t>(key.ranks_per_host));
    return combine(combine(static_cast<std::size_t>(key.kind), key.bytes),
                   combine(static_cast<std::size_t>(key.ranks), hosts));
  }
};

class PythonCollectives final : public CollectiveFunction {
 public:
  PythonCollectives(AskPrice ask, std::string text)
      : ask_(std::move(ask)), text_(std::move(text)) {}

  [[nodiscard]] const std::string& text() const override { return text_; }
  [[nodiscard]] Micros price(const CollectiveQuery& query) const override {
    const CollectiveKey key{query.kind, std::bit_cast<std::uint64_t>(query.full_bytes),
                            query.group.ranks, query.group.hosts, query.group.ranks_per_host};
    return memo_.get(key, [&] {
      const nlohmann::json answer = ask_price(ask_, text_,
                                              {{"collective", to_string(query.kind)},
                                               {"bytes", query.full_bytes},
                                               {"ranks", query.group.ranks},
                                               {"hosts", query.group.hosts},
                                               {"ranks_per_host", query.group.ranks_per_host}});
      return Micros(answer.at("us").get<double>());
    });
  }

 private:
  AskPrice ask_;
  std::string text_;
  Memo<CollectiveKey, Micros, HashCollective> memo_;
};

}  // namespace

AskPrice price_asker(std::shared_ptr<TorchWorker> worker) {
  return [worker = std::move(worker)](nlohmann::json question) {
    nlohmann::json answer;
    worker->ask({{"do", "prices"}, {"transitions", nlohmann::json::array({std::move(question)})}},
                1, [&](std::size_t, const nlohmann::json& message) { answer = message; });
    return answer;
  };
}

std::shared_ptr<const TransitionFunction> python_transitions(AskPrice ask, std::string text) {
  return std::make_shared<PythonTransitions>(std::move(ask), std::move(text));
}

std::shared_ptr<const CollectiveFunction> python_collectives(AskPrice ask, std::string text) {
  return std::make_shared<PythonCollectives>(std::move(ask), std::move(text));
}

}  // namespace shardlab
