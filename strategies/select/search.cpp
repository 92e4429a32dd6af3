#include "strategies/select/search.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_set>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/units.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_schemas.h"

namespace shardlab {
namespace {

// The most steps that a search may take. An op of many tensors whose inputs are far from every row
// has more layouts on the way than memory can hold.
constexpr std::uint64_t kMostSteps = 250'000;

struct Entry {
  double cost = 0.0;
  std::uint64_t counter = 0;
  std::vector<Placements> inputs;
  std::vector<double> input_us;
  std::vector<double> bytes;

  // The cheapest entry comes first; of equally cheap ones, the one that was added first.
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.cost > b.cost || (a.cost == b.cost && a.counter > b.counter);
  }
};

std::string key_of(const std::vector<Placements>& inputs) {
  std::string key;
  for (const Placements& placements : inputs) {
    for (const Placement& p : placements) {
      key += static_cast<char>(p.kind());
      key += static_cast<char>(p.reduce_op());
      key += static_cast<char>(p.dim());
    }
  }
  return key;
}

class Search {
 public:
  Search(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
         const TransitionPricer& pricer, SearchOptions options)
      : rule_(rule),
        call_(call),
        tensors_(call.tensors()),
        mesh_(mesh),
        pricer_(pricer),
        options_(options),
        outputs_(rule.outputs(call).size()),
        rows_(fill_rows(rule.rows(call, rule), outputs_, call)),
        allowed_(tensors_.size()) {
    for (const Row& row : rows_) {
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const Placement& p = row[outputs_ + i].placement();
        if (p.is_replicate()) continue;
        if (std::find(allowed_[i].begin(), allowed_[i].end(), p) == allowed_[i].end()) {
          allowed_[i].push_back(p);
        }
      }
    }
  }

  std::optional<SearchResult> run() {
    Entry start;
    for (const TensorSpec* tensor : tensors_) {
      start.inputs.push_back(tensor->layout.placements);
      start.input_us.push_back(0.0);
      start.bytes.push_back(tensor->meta.bytes() / static_cast<double>(num_shards(
                                                       tensor->layout.placements, mesh_, false)));
    }
    initial_ = start;
    std::optional<SearchResult> found;
    std::vector<std::vector<Placements>> matches;
    queue_.push(start);
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (!visited_.insert(key_of(entry.inputs)).second) continue;
      if (auto outputs = match(entry.inputs)) {
        if (options_.exhaustive) matches.push_back(entry.inputs);
        if (!found) {
          found = SearchResult{.inputs = entry.inputs,
                               .outputs = std::move(*outputs),
                               .input_us = entry.input_us,
                               .total_us = entry.cost,
                               .states_visited = visited_.size(),
                               .prices_asked = prices_asked_,
                               .all_matches = {}};
        }
        if (!options_.exhaustive) return found;
      }
      push_neighbours(entry);
      if (counter_ > kMostSteps && !options_.exhaustive) {
        gave_up_ = true;
        return std::nullopt;
      }
    }
    if (found) {
      found->all_matches = std::move(matches);
      found->states_visited = visited_.size();
      found->prices_asked = prices_asked_;
    }
    return found;
  }

  // Whether the search stopped because it would take more than kMostSteps.
  [[nodiscard]] bool gave_up() const { return gave_up_; }

 private:
  // The outputs of the first row that matches, on every mesh dim; nothing where none matches.
  [[nodiscard]] std::optional<std::vector<Placements>> match(
      const std::vector<Placements>& inputs) const {
    std::vector<Placements> outputs(outputs_);
    for (int m = 0; m < mesh_.ndim(); ++m) {
      const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          if (r[outputs_ + i].placement() != inputs[i][to_index(m)]) return false;
        }
        return true;
      });
      if (row == rows_.end()) return std::nullopt;
      for (std::size_t o = 0; o < outputs_; ++o) outputs[o].push_back((*row)[o].placement());
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_shardable(tensors_[i]->meta.shape, inputs[i], mesh_) &&
          !(rule_.allows_uneven() && inputs[i] == tensors_[i]->layout.placements)) {
        return std::nullopt;
      }
    }
    // A state that full enumeration would drop is not an answer here either.
    if (std::any_of(inputs.begin(), inputs.end(), has_mixed_partials) ||
        std::any_of(outputs.begin(), outputs.end(), has_mixed_partials) ||
        (rule_.filter != nullptr && !rule_.filter(call_, inputs, mesh_))) {
      return std::nullopt;
    }
    return outputs;
  }

  void push_neighbours(const Entry& entry) {
    for (int m = 0; m < mesh_.ndim(); ++m) {
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const Placement now = entry.inputs[i][to_index(m)];
        const auto is_free = [&](const Placement& p) {
          return !options_.nesting_guard || !sharded_right_of(entry.inputs[i], m, p.dim());
        };
        if (now.is_replicate()) {
          for (const Placement& p : allowed_[i]) {
            if (p.is_shard() && is_free(p)) push(entry, i, m, p);
          }
          for (const Placement& p : allowed_[i]) {
            if (p.is_partial()) push(entry, i, m, p);
          }
        } else if (now.is_shard()) {
          if (!is_free(now)) continue;
          push(entry, i, m, Placement::replicate());
          for (const Placement& p : allowed_[i]) {
            if (p.is_shard() && p != now && is_free(p)) push(entry, i, m, p);
          }
        } else {
          push(entry, i, m, Placement::replicate());
          for (const Placement& p : allowed_[i]) {
            if (p.is_shard() && is_free(p)) push(entry, i, m, p);
          }
        }
      }
    }
  }

  static bool sharded_right_of(const Placements& placements, int mesh_dim, int dim) {
    for (std::size_t i = static_cast<std::size_t>(mesh_dim) + 1; i < placements.size(); ++i) {
      if (placements[i].is_shard_like() && placements[i].dim() == dim) return true;
    }
    return false;
  }

  void push(const Entry& entry, std::size_t input, int mesh_dim, const Placement& next) {
    const auto m = static_cast<std::size_t>(mesh_dim);
    Entry moved = entry;
    moved.inputs[input][m] = next;
    if (visited_.contains(key_of(moved.inputs))) return;
    const DType dtype = tensors_[input]->meta.dtype;
    // The runtime will plan the net change, so that change must be possible.
    ++prices_asked_;
    const PricedTransition net =
        pricer_.price(initial_.inputs[input][m], next, mesh_dim, initial_.bytes[input], dtype);
    if (!net.price.is_possible()) return;
    ++prices_asked_;
    const PricedTransition step =
        pricer_.price(entry.inputs[input][m], next, mesh_dim, entry.bytes[input], dtype);
    if (step.price.total.value() == kInfinity) return;
    moved.input_us[input] += step.price.total.value();
    moved.bytes[input] = step.bytes_after;
    moved.cost = std::accumulate(moved.input_us.begin(), moved.input_us.end(), 0.0);
    moved.counter = ++counter_;
    queue_.push(std::move(moved));
  }

  const OpRule& rule_;
  const OpCall& call_;
  boost::container::small_vector<const TensorSpec*, 4> tensors_;
  const DeviceMesh& mesh_;
  const TransitionPricer& pricer_;
  SearchOptions options_;
  std::size_t outputs_;
  Rows rows_;
  std::vector<std::vector<Placement>> allowed_;  // by input: placements other than R
  Entry initial_;
  std::priority_queue<Entry> queue_;
  std::unordered_set<std::string> visited_;
  std::uint64_t counter_ = 0;
  std::size_t prices_asked_ = 0;
  bool gave_up_ = false;
};

}  // namespace

SearchOutcome search_rows(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
                          const TransitionPricer& pricer, SearchOptions options) {
  if (rule.rows == nullptr) return {std::nullopt, "the op has no rows"};
  for (const TensorArg& arg : call.inputs) {
    if (arg.is_list) return {std::nullopt, "the op takes a tensor list"};
  }
  if (rule.is_out_variant() || rule.is_in_place()) {
    return {std::nullopt, "the op writes to one of its tensors"};
  }
  for (const TensorSpec* tensor : call.tensors()) {
    if (tensor->layout.has_strided()) return {std::nullopt, "an input is a strided shard"};
    if (tensor->layout.has_registered()) {
      return {std::nullopt, "an input has a registered placement"};
    }
  }
  expect_arguments_of_schema(call);
  Search search(rule, call, mesh, pricer, options);
  auto result = search.run();
  if (search.gave_up()) {
    return {std::nullopt, "no row is found within " + std::to_string(kMostSteps) + " steps"};
  }
  if (!result) return {std::nullopt, "no reachable layout matches a row"};
  return {std::move(result), ""};
}

}  // namespace shardlab
