#include "strategies/select/exact_search.h"

#include <algorithm>
#include <array>
#include <queue>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/units.h"
#include "strategies/select/selection.h"

namespace shardlab {
namespace {

using RowIndex = std::uint16_t;
using RowPath = std::array<RowIndex, kMaxMeshDims>;

class ExactSearch {
 public:
  explicit ExactSearch(const ExactSearchInput& input)
      : input_(input),
        space_(input.space),
        ndim_(input.mesh.ndim()),
        tensors_(input.call.tensors()),
        rows_(space_.rows()),
        shardable_(tensors_.size()) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) add_bounds(i);
    list_rows();
  }

  ExactSearchResult run(ExactSearchOrder order) {
    Node root;
    root.codes.assign(tensors_.size(), 0U);
    root.bound = bound_of(root);
    if (order == ExactSearchOrder::kDepthFirst) {
      descend(root);
    } else {
      best_first(root);
    }
    return result();
  }

 private:
  struct Node {
    double bound = 0.0;
    int mesh_dims = 0;
    RowPath path{};
    std::vector<std::uint32_t> codes;  // by input: its code on the first mesh dims
  };
  // A complete candidate. Paths are ordered as a full enumeration lists them.
  struct Leaf {
    double total;
    double compute;
    RowPath path;
    std::vector<std::uint32_t> codes;
  };
  struct Later {
    bool operator()(const std::pair<double, std::size_t>& a,
                    const std::pair<double, std::size_t>& b) const {
      return a > b;
    }
  };

  // Finds the least price over all layouts that begin with a code, for each number of mesh dims
  // that the code covers.
  void add_bounds(std::size_t i) {
    const std::size_t radix = space_.digits(i).size();
    std::vector<std::vector<double>> levels(static_cast<std::size_t>(ndim_) + 1);
    levels.back() = input_.by_code[i];
    for (std::size_t level = levels.size() - 1; level-- > 0;) {
      const std::vector<double>& longer = levels[level + 1];
      std::vector<double>& shorter = levels[level];
      for (std::size_t begin = 0; begin < longer.size(); begin += radix) {
        const auto first = longer.begin() + static_cast<std::ptrdiff_t>(begin);
        shorter.push_back(*std::min_element(first, first + static_cast<std::ptrdiff_t>(radix)));
      }
    }
    bounds_.push_back(std::move(levels));
  }

  // Finds the digits of every row, and the rows that each mesh dim may take: an op keeps the
  // placements of what it writes to.
  void list_rows() {
    const std::size_t outputs = space_.outputs();
    for (const Row& row : rows_) {
      std::vector<std::uint32_t>& digits = digits_.emplace_back();
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const auto entries = space_.digits(i);
        const auto digit = std::find(entries.begin(), entries.end(), row[outputs + i].placement());
        digits.push_back(static_cast<std::uint32_t>(digit - entries.begin()));
      }
    }
    const bool writes_first = input_.rule.is_in_place() && !tensors_.empty();
    std::size_t written =
        input_.rule.written_outputs();  // how many outputs the op writes into its last tensors
    if (written > std::min(outputs, tensors_.size())) written = 0;
    for (int m = 0; m < ndim_; ++m) {
      std::vector<RowIndex>& allowed = allowed_.emplace_back();
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        const auto is_at = [&](std::size_t entry, const TensorSpec& tensor) {
          return rows_[r][entry].placement() == tensor.layout[m];
        };
        bool keeps =
            !writes_first || (is_at(outputs, *tensors_.front()) && is_at(0, *tensors_.front()));
        for (std::size_t o = 0; o < written; ++o) {
          keeps = keeps && is_at(o, *tensors_[tensors_.size() - written + o]);
        }
        if (!keeps) continue;
        allowed.push_back(static_cast<RowIndex>(r));
      }
    }
  }

  // The inputs' prices are summed in the order of the inputs, so that rounding never puts a bound
  // above the total of a candidate.
  [[nodiscard]] double bound_of(const Node& node) const {
    double bound = 0.0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      bound += bounds_[i][to_index(node.mesh_dims)][node.codes[i]];
    }
    return bound;
  }

  [[nodiscard]] Node child_of(const Node& node, RowIndex row) {
    Node child = node;
    child.path[to_index(node.mesh_dims)] = row;
    ++child.mesh_dims;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      child.codes[i] =
          node.codes[i] * static_cast<std::uint32_t>(space_.digits(i).size()) + digits_[row][i];
    }
    child.bound = bound_of(child);
    ++states_;
    return child;
  }

  // Candidates above the second best total do not matter.
  [[nodiscard]] bool is_pruned(double bound) const { return bound > second_; }

  void descend(const Node& node) {
    if (node.mesh_dims == ndim_) {
      add_leaf(node);
      return;
    }
    std::vector<Node> children;
    for (const RowIndex row : allowed_[to_index(node.mesh_dims)]) {
      Node child = child_of(node, row);
      if (!is_pruned(child.bound)) children.push_back(std::move(child));
    }
    std::stable_sort(children.begin(), children.end(),
                     [](const Node& a, const Node& b) { return a.bound < b.bound; });
    for (const Node& child : children) {
      if (is_pruned(child.bound)) return;
      descend(child);
    }
  }

  void best_first(const Node& root) {
    std::vector<Node> nodes = {root};
    std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>,
                        Later>
        queue;
    queue.emplace(root.bound, 0);
    while (!queue.empty()) {
      const auto [bound, index] = queue.top();
      queue.pop();
      if (is_pruned(bound)) return;
      const Node node = std::move(nodes[index]);
      if (node.mesh_dims == ndim_) {
        add_leaf(node);
        continue;
      }
      for (const RowIndex row : allowed_[to_index(node.mesh_dims)]) {
        Node child = child_of(node, row);
        if (is_pruned(child.bound)) continue;
        queue.emplace(child.bound, nodes.size());
        nodes.push_back(std::move(child));
      }
    }
  }

  [[nodiscard]] std::vector<Placements> inputs_of(const Leaf& leaf) const {
    std::vector<Placements> inputs;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      inputs.push_back(space_.input_layout(i, leaf.codes[i]).placements);
    }
    return inputs;
  }
  [[nodiscard]] std::vector<Placements> outputs_of(const Leaf& leaf) const {
    std::vector<Placements> outputs(space_.outputs());
    for (int m = 0; m < ndim_; ++m) {
      const Row& row = rows_[leaf.path[to_index(m)]];
      for (std::size_t o = 0; o < outputs.size(); ++o) outputs[o].push_back(row[o].placement());
    }
    return outputs;
  }

  void add_leaf(const Node& node) {
    Leaf leaf{.total = node.bound, .compute = 0.0, .path = node.path, .codes = node.codes};
    const std::vector<Placements> inputs = inputs_of(leaf);
    const std::vector<Placements> outputs = outputs_of(leaf);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_shardable_input(i, leaf.codes[i], inputs[i])) return;
    }
    if (std::any_of(inputs.begin(), inputs.end(), has_mixed_partials) ||
        std::any_of(outputs.begin(), outputs.end(), has_mixed_partials)) {
      return;
    }
    if (input_.rule.filter != nullptr && !input_.rule.filter(input_.call, inputs, input_.mesh)) {
      return;
    }
    if (input_.compute_us && leaf.total < kInfinity) {
      leaf.compute = input_.compute_us(inputs, outputs);
      leaf.total += leaf.compute;
    }
    if (leaf.total > second_) return;
    leaves_.push_back(std::move(leaf));
    update_bests();
  }

  [[nodiscard]] bool is_shardable_input(std::size_t i, std::uint32_t code,
                                        const Placements& placements) {
    if (input_.rule.allows_uneven() && code == space_.current_code(i)) return true;
    std::vector<Verdict>& known = shardable_[i];
    if (known.empty()) known.assign(input_.by_code[i].size(), Verdict::kUnknown);
    Verdict& verdict = known[code];
    if (verdict == Verdict::kUnknown) {
      verdict = is_shardable(tensors_[i]->meta.shape, placements, input_.mesh) ? Verdict::kYes
                                                                               : Verdict::kNo;
    }
    return verdict == Verdict::kYes;
  }

  void update_bests() {
    const double total = leaves_.back().total;
    if (total < best_ && !is_same_total(best_, total)) {
      second_ = best_;
      best_ = total;
    } else if (is_same_total(total, best_)) {
      best_ = std::min(best_, total);
    } else {
      second_ = std::min(second_, total);
    }
  }

  ExactSearchResult result() {
    ExactSearchResult result;
    result.states = states_;
    std::vector<double> totals;
    for (const Leaf& leaf : leaves_) totals.push_back(leaf.total);
    std::vector<std::size_t> ties = ties_at_minimum(totals);
    std::sort(ties.begin(), ties.end(),
              [&](std::size_t a, std::size_t b) { return leaves_[a].path < leaves_[b].path; });
    for (const std::size_t t : ties) {
      const Leaf& leaf = leaves_[t];
      ExactSearchResult::Found found{.inputs = inputs_of(leaf),
                                     .outputs = outputs_of(leaf),
                                     .redistribute_us = {},
                                     .compute_us = leaf.compute,
                                     .total_us = leaf.total};
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        found.redistribute_us.push_back(input_.by_code[i][leaf.codes[i]]);
      }
      result.tied.push_back(std::move(found));
    }
    result.margin_us = margin_us(totals);
    return result;
  }

  enum class Verdict : std::uint8_t { kUnknown, kYes, kNo };

  const ExactSearchInput& input_;
  const Expansion& space_;
  int ndim_;
  boost::container::small_vector<const TensorSpec*, 4> tensors_;
  const Rows& rows_;
  std::vector<std::vector<std::uint32_t>> digits_;        // by row and input
  std::vector<std::vector<RowIndex>> allowed_;            // by mesh dim
  std::vector<std::vector<std::vector<double>>> bounds_;  // by input, mesh dims covered, code
  std::vector<std::vector<Verdict>> shardable_;           // by input and code
  std::vector<Leaf> leaves_;  // all leaves at the minimum, and some others
  double best_ = kInfinity;
  double second_ = kInfinity;  // the best total that differs from best_
  std::size_t states_ = 0;
};

}  // namespace

ExactSearchResult exact_search(const ExactSearchInput& input, ExactSearchOrder order) {
  SHARDLAB_CHECK(input.by_code.size() == input.call.tensors().size(), input.call.op);
  return ExactSearch(input).run(order);
}

}  // namespace shardlab
