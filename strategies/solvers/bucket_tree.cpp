#include "strategies/solvers/bucket_tree.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "costmodel/base/index.h"
#include "costmodel/base/units.h"

namespace shardlab {
namespace {}  // namespace

BucketTree::BucketTree(const SmallNetwork& network, double most_work) : network_(network) {
  find_order(most_work);
}

void BucketTree::find_order(double most_work) {
  const int nodes = network_.nodes();
  std::vector<std::vector<int>> near(to_index(nodes));
  for (const SmallNetwork::Edge& edge : network_.edges) {
    near[to_index(edge.a)].push_back(edge.b);
    near[to_index(edge.b)].push_back(edge.a);
  }
  std::vector<double> logs;
  for (int v = 0; v < nodes; ++v) logs.push_back(std::log(network_.values(v)));
  const auto weight = [&](int v) {
    double log = logs[to_index(v)];
    for (const int u : near[to_index(v)]) log += logs[to_index(u)];
    return log;
  };
  struct Entry {
    double weight;
    int node;
    bool operator>(const Entry& other) const {
      return weight != other.weight ? weight > other.weight : node > other.node;
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<double> current(to_index(nodes));
  const auto push = [&](int v) {
    current[to_index(v)] = weight(v);
    queue.push({current[to_index(v)], v});
  };
  for (int v = 0; v < nodes; ++v) {
    std::ranges::sort(near[to_index(v)]);
    near[to_index(v)].erase(std::unique(near[to_index(v)].begin(), near[to_index(v)].end()),
                            near[to_index(v)].end());
    push(v);
  }
  position_.assign(to_index(nodes), -1);
  std::vector<int> joined;
  while (!queue.empty()) {
    const Entry entry = queue.top();
    queue.pop();
    const int v = entry.node;
    if (position_[to_index(v)] >= 0 || entry.weight != current[to_index(v)]) continue;
    position_[to_index(v)] = static_cast<int>(buckets_.size());
    const std::vector<int> scope = near[to_index(v)];
    double entries = network_.values(v);
    for (const int u : scope) entries *= network_.values(u);
    work_ += entries;
    if (work_ > most_work) return;
    for (const int u : scope) {
      std::vector<int>& list = near[to_index(u)];
      joined.clear();
      std::ranges::set_union(list, scope, std::back_inserter(joined));
      std::erase_if(joined, [&](int w) { return w == u || w == v; });
      list = joined;
    }
    for (const int u : scope) push(u);
    buckets_.push_back({.node = v, .scope = scope, .edges = {}, .children = {}});
  }
  std::size_t entries = 0;
  for (Bucket& bucket : buckets_) {
    std::ranges::sort(bucket.scope, {}, [&](int u) { return position_[to_index(u)]; });
    bucket.message = entries;
    for (const int u : bucket.scope) bucket.size *= to_index(network_.values(u));
    entries += bucket.size;
    if (!bucket.scope.empty()) {
      buckets_[to_index(position_[to_index(bucket.scope[0])])].children.push_back(bucket.node);
    }
  }
  for (std::size_t e = 0; e < network_.edges.size(); ++e) {
    const SmallNetwork::Edge& edge = network_.edges[e];
    const int first = std::min(position_[to_index(edge.a)], position_[to_index(edge.b)]);
    buckets_[to_index(first)].edges.push_back(static_cast<int>(e));
  }
}

// Adds costs to the bucket's joint table. Their dims are some of the bucket's dims (its node first,
// then its scope), in that order.
void BucketTree::add(const Bucket& bucket, std::span<const int> dims, const double* costs,
                     std::vector<double>& table) const {
  const std::size_t ndim = bucket.scope.size() + 1;
  const auto dim = [&](std::size_t d) { return d == 0 ? bucket.node : bucket.scope[d - 1]; };
  std::vector<std::size_t> extent(ndim);
  std::vector<std::size_t> stride(ndim, 0);
  std::size_t step = 1;
  for (std::size_t d = ndim, left = dims.size(); d-- > 0;) {
    extent[d] = to_index(network_.values(dim(d)));
    if (left > 0 && dims[left - 1] == dim(d)) {
      stride[d] = step;
      step *= extent[d];
      --left;
    }
  }
  std::vector<std::size_t> digits(ndim, 0);
  const std::size_t inner = extent[ndim - 1];
  const std::size_t inner_stride = stride[ndim - 1];
  std::size_t from = 0;
  for (double* out = table.data(); out != table.data() + table.size(); out += inner) {
    if (inner_stride == 1) {
      for (std::size_t i = 0; i < inner; ++i) out[i] += costs[from + i];
    } else {
      const double cost = costs[from];
      for (std::size_t i = 0; i < inner; ++i) out[i] += cost;
    }
    for (std::size_t d = ndim - 1; d-- > 0;) {
      from += stride[d];
      if (++digits[d] < extent[d]) break;
      from -= stride[d] * extent[d];
      digits[d] = 0;
    }
  }
}

// The joint costs of a bucket: those of its node and its edges, and its children's messages.
void BucketTree::join(const Bucket& bucket, std::vector<double>& table) const {
  const int v = bucket.node;
  table.assign(bucket.size * to_index(network_.values(v)), 0.0);
  const int own[] = {v};
  add(bucket, own, network_.costs.data() + network_.first[to_index(v)], table);
  std::vector<double> turned;
  for (const int e : bucket.edges) {
    const SmallNetwork::Edge& edge = network_.edges[to_index(e)];
    const double* costs = network_.tables.data() + edge.table;
    const int other = edge.a == v ? edge.b : edge.a;
    if (edge.a != v) {
      const std::size_t rows = to_index(network_.values(other));
      const std::size_t columns = to_index(network_.values(v));
      turned.resize(rows * columns);
      for (std::size_t y = 0; y < rows; ++y) {
        for (std::size_t x = 0; x < columns; ++x) turned[x * rows + y] = costs[y * columns + x];
      }
      costs = turned.data();
    }
    const int dims[] = {v, other};
    add(bucket, dims, costs, table);
  }
  for (const int child : bucket.children) {
    const Bucket& from = buckets_[to_index(bucket_of(child))];
    add(bucket, from.scope, messages_.data() + from.message, table);
  }
}

void BucketTree::run() {
  std::size_t entries = 0;
  for (const Bucket& bucket : buckets_) entries += bucket.size;
  messages_.resize(entries);
  minimum_ = 0.0;
  std::vector<double> table;
  for (const Bucket& bucket : buckets_) {
    join(bucket, table);
    double* out = messages_.data() + bucket.message;
    std::copy_n(table.data(), bucket.size, out);
    for (std::size_t from = bucket.size; from < table.size(); from += bucket.size) {
      for (std::size_t i = 0; i < bucket.size; ++i) {
        out[i] = table[from + i] < out[i] ? table[from + i] : out[i];
      }
    }
    if (bucket.scope.empty()) minimum_ += out[0];
  }
}

std::size_t BucketTree::entry(const Bucket& bucket, std::span<const int> values) const {
  std::size_t index = 0;
  for (const int u : bucket.scope) {
    index = index * to_index(network_.values(u)) + to_index(values[to_index(u)]);
  }
  return index;
}

void BucketTree::local(const Bucket& bucket, std::span<const int> values,
                       std::vector<double>& costs) const {
  const int v = bucket.node;
  const std::size_t count = to_index(network_.values(v));
  const double* own = network_.costs.data() + network_.first[to_index(v)];
  costs.assign(own, own + count);
  for (const int e : bucket.edges) {
    const SmallNetwork::Edge& edge = network_.edges[to_index(e)];
    const double* table = network_.tables.data() + edge.table;
    const std::size_t other = to_index(values[to_index(edge.a == v ? edge.b : edge.a)]);
    const std::size_t b_values = to_index(network_.values(edge.b));
    for (std::size_t x = 0; x < count; ++x) {
      costs[x] += edge.a == v ? table[x * b_values + other] : table[other * b_values + x];
    }
  }
  // v is the first node of each child's scope, so its values are a constant stride apart.
  for (const int child : bucket.children) {
    const Bucket& from = buckets_[to_index(bucket_of(child))];
    std::size_t index = 0;
    for (std::size_t d = 1; d < from.scope.size(); ++d) {
      index = index * to_index(network_.values(from.scope[d])) +
              to_index(values[to_index(from.scope[d])]);
    }
    const std::size_t stride = from.size / count;
    for (std::size_t x = 0; x < count; ++x) {
      costs[x] += messages_[from.message + x * stride + index];
    }
  }
}

// Gives the nodes of the buckets before `from` their best values, the latest bucket first. Assumes
// that all later nodes have values.
void BucketTree::complete(std::size_t from, std::vector<int>& values,
                          std::vector<double>& scratch) const {
  for (std::size_t i = from; i-- > 0;) {
    local(buckets_[i], values, scratch);
    values[to_index(buckets_[i].node)] =
        static_cast<int>(std::ranges::min_element(scratch) - scratch.begin());
  }
}

SmallSolution BucketTree::best() const {
  SmallSolution solution{.cost = minimum_, .values = std::vector<int>(position_.size(), 0)};
  std::vector<double> scratch;
  complete(buckets_.size(), solution.values, scratch);
  return solution;
}

std::vector<double> BucketTree::min_marginals() const {
  std::vector<double> out(network_.costs.size(), kInfinity);
  // For each entry of a bucket's message: the least cost of everything outside the bucket's
  // subtree.
  std::vector<std::vector<double>> outside(buckets_.size());
  std::vector<double> belief;
  double roots = 0.0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.scope.empty()) roots += messages_[bucket.message];
  }
  for (std::size_t i = buckets_.size(); i-- > 0;) {
    const Bucket& bucket = buckets_[i];
    const int v = bucket.node;
    join(bucket, belief);
    if (bucket.scope.empty()) outside[i] = {roots - messages_[bucket.message]};
    add(bucket, bucket.scope, outside[i].data(), belief);
    const std::size_t count = to_index(network_.values(v));
    for (std::size_t x = 0; x < count; ++x) {
      out[network_.first[to_index(v)] + x] =
          *std::min_element(belief.begin() + static_cast<std::ptrdiff_t>(x * bucket.size),
                            belief.begin() + static_cast<std::ptrdiff_t>((x + 1) * bucket.size));
    }
    for (const int child : bucket.children) {
      const Bucket& to = buckets_[to_index(bucket_of(child))];
      // The least belief over the dims that the child does not have, minus the child's own
      // contribution.
      std::vector<double>& least = outside[to_index(bucket_of(child))];
      least.assign(to.size, kInfinity);
      const std::size_t ndim = bucket.scope.size() + 1;
      std::vector<std::size_t> extent(ndim);
      std::vector<std::size_t> stride(ndim, 0);
      std::size_t step = 1;
      for (std::size_t d = ndim, left = to.scope.size(); d-- > 0;) {
        const int dim = d == 0 ? v : bucket.scope[d - 1];
        extent[d] = to_index(network_.values(dim));
        if (left > 0 && to.scope[left - 1] == dim) {
          stride[d] = step;
          step *= extent[d];
          --left;
        }
      }
      std::vector<std::size_t> digits(ndim, 0);
      std::size_t index = 0;
      for (const double cost : belief) {
        least[index] = std::min(least[index], cost);
        for (std::size_t d = ndim; d-- > 0;) {
          index += stride[d];
          if (++digits[d] < extent[d]) break;
          index -= stride[d] * extent[d];
          digits[d] = 0;
        }
      }
      for (std::size_t k = 0; k < to.size; ++k) {
        const double inside = messages_[to.message + k];
        least[k] = inside < kInfinity ? least[k] - inside : kInfinity;
      }
    }
    outside[i] = {};
  }
  return out;
}

std::vector<SmallSolution> BucketTree::cheapest(std::size_t count, double limit) const {
  std::vector<SmallSolution> found;
  if (!(minimum_ <= limit) || count == 0) return found;
  // The solutions that agree with an earlier one on all buckets after this one, and that have
  // `value` at this one.
  struct Branch {
    double cost;
    std::size_t parent;
    std::size_t bucket;
    int value;
    bool operator>(const Branch& other) const {
      if (cost != other.cost) return cost > other.cost;
      if (parent != other.parent) return parent > other.parent;
      if (bucket != other.bucket) return bucket > other.bucket;
      return value > other.value;
    }
  };
  std::priority_queue<Branch, std::vector<Branch>, std::greater<>> queue;
  std::vector<double> scratch;
  const auto split = [&](std::size_t parent, std::size_t end) {
    const SmallSolution& solution = found[parent];
    for (std::size_t i = end; i-- > 0;) {
      local(buckets_[i], solution.values, scratch);
      const int taken = solution.values[to_index(buckets_[i].node)];
      for (int x = 0; x < static_cast<int>(scratch.size()); ++x) {
        const double cost = solution.cost + (scratch[to_index(x)] - scratch[to_index(taken)]);
        if (x != taken && cost <= limit) queue.push({cost, parent, i, x});
      }
    }
  };
  found.push_back(best());
  split(0, buckets_.size());
  while (found.size() < count && !queue.empty()) {
    const Branch branch = queue.top();
    queue.pop();
    SmallSolution next{.cost = branch.cost, .values = found[branch.parent].values};
    next.values[to_index(buckets_[branch.bucket].node)] = branch.value;
    complete(branch.bucket, next.values, scratch);
    found.push_back(std::move(next));
    split(found.size() - 1, branch.bucket);
  }
  return found;
}

}  // namespace shardlab
