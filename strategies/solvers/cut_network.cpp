// Runs arc consistency by sweeps over the edges, with a memo of revisions, and then cuts the
// tables.
#include "strategies/solvers/cut_network.h"

#include <algorithm>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/solvers/key_index.h"

namespace shardlab {
namespace {

constexpr int kIdBits = 21;  // bits for the number of a set or a table in a memo key

std::uint64_t memo_key(int table, int a, int b) {
  SHARDLAB_CHECK((table | a | b) >> kIdBits == 0, "ids ", table, " ", a, " ", b);
  return (static_cast<std::uint64_t>(table) << 2 * kIdBits) |
         (static_cast<std::uint64_t>(a) << kIdBits) | static_cast<std::uint64_t>(b);
}

}  // namespace

// Stores ascending sets of values, each set once.
class ValueSets {
 public:
  int id(std::span<const int> values) {
    std::uint64_t hash = values.size();
    for (const int value : values) hash = hash * 0x100000001b3U + static_cast<std::uint64_t>(value);
    for (;; ++hash) {  // if the hash belongs to another set, try the next number
      int& known = ids_[hash];
      if (known < 0) {
        known = static_cast<int>(sets.size());
        sets.emplace_back(values.begin(), values.end());
        return known;
      }
      if (std::ranges::equal(sets[to_index(known)], values)) return known;
    }
  }
  std::vector<std::vector<int>> sets;

 private:
  KeyIndex ids_;
};

namespace {

// The values of one side of a table that the other side's values allow.
void supported(const CostTable& table, bool rows, const std::vector<int>& own,
               const std::vector<int>& other, std::vector<int>& out) {
  out.clear();
  for (const int x : own) {
    const bool any = std::any_of(other.begin(), other.end(), [&](int y) {
      return (rows ? table.at(x, y) : table.at(y, x)) < kForbidden;
    });
    if (any) out.push_back(x);
  }
}

}  // namespace

void CutNetwork::make_consistent(const CostNetwork& network, ValueSets& sets) {
  const std::vector<CostEdge>& edges = network.edges();
  KeyIndex memo[2];  // by side
  std::vector<int> kept;
  // For each node: the step in which it last changed. An edge is revised again after either of its
  // ends has changed.
  std::vector<int> changed(set_of_.size(), 0);
  std::vector<int> seen(edges.size(), -1);
  const auto revise = [&](const CostEdge& edge, int side) {
    const int own = side == 0 ? edge.first : edge.second;
    const int other = side == 0 ? edge.second : edge.first;
    int& known = memo[side][memo_key(edge.table, set_of_[to_index(own)], set_of_[to_index(other)])];
    if (known < 0) {
      supported(network.tables()[to_index(edge.table)], side == 0,
                sets.sets[to_index(set_of_[to_index(own)])],
                sets.sets[to_index(set_of_[to_index(other)])], kept);
      known = sets.id(kept);
    }
    if (known == set_of_[to_index(own)]) return false;
    set_of_[to_index(own)] = known;
    if (sets.sets[to_index(known)].empty()) wiped_out_ = own;
    return true;
  };
  int step = 0;  // counts the edges that were revised, so that "changed since" is one comparison
  for (bool again = true; again;) {
    again = false;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < edges.size(); ++i) {
        const std::size_t e = pass == 0 ? i : edges.size() - 1 - i;
        const CostEdge& edge = edges[e];
        if (std::max(changed[to_index(edge.first)], changed[to_index(edge.second)]) <= seen[e])
          continue;
        ++step;
        for (int side = 0; side < 2; ++side) {
          if (!revise(edge, side)) continue;
          if (wiped_out_ >= 0) return;
          changed[to_index(side == 0 ? edge.first : edge.second)] = step;
          again = true;
        }
        // The edge is consistent now, except for its first side where the second one changed after
        // it.
        if (changed[to_index(edge.second)] == step) {
          if (revise(edge, 0)) changed[to_index(edge.first)] = step;
          if (wiped_out_ >= 0) return;
        }
        seen[e] = step;
      }
    }
  }
}

template <class At>
CutNetwork::CutTable CutNetwork::add_table(std::span<const int> rows, std::span<const int> columns,
                                           At&& cost) {
  const std::size_t entries = rows.size() * columns.size();
  const CutTable table{pool_.size(), pool_.size() + entries};
  pool_.resize(pool_.size() + 2 * entries);
  double* row_major = pool_.data() + table.row_major;
  double* column_major = pool_.data() + table.column_major;
  for (std::size_t x = 0; x < rows.size(); ++x) {
    for (std::size_t y = 0; y < columns.size(); ++y) {
      const double value = cost(rows[x], columns[y]);
      row_major[x * columns.size() + y] = value;
      column_major[y * rows.size() + x] = value;
    }
  }
  return table;
}

void CutNetwork::add_edge(int a, int b, const CutTable& a_major) {
  const std::size_t a_values = values(a).size();
  const std::size_t b_values = values(b).size();
  edges_.push_back({.a = a,
                    .b = b,
                    .a_values = static_cast<int>(a_values),
                    .b_values = static_cast<int>(b_values),
                    .a_major = a_major.row_major,
                    .b_major = a_major.column_major,
                    .a_message = messages_,
                    .b_message = messages_ + a_values});
  messages_ += a_values + b_values;
}

void CutNetwork::cut_tables(const CostNetwork& network) {
  KeyIndex ids;
  std::vector<CutTable> cuts;
  edges_.reserve(network.edges().size());
  for (const CostEdge& edge : network.edges()) {
    int& id =
        ids[memo_key(edge.table, set_of_[to_index(edge.first)], set_of_[to_index(edge.second)])];
    if (id < 0) {
      id = static_cast<int>(cuts.size());
      const CostTable& table = network.tables()[to_index(edge.table)];
      cuts.push_back(add_table(values(edge.first), values(edge.second),
                               [&](int x, int y) { return table.at(x, y); }));
    }
    const CutTable& cut = cuts[to_index(id)];
    if (edge.first < edge.second) {
      add_edge(edge.first, edge.second, cut);
    } else {
      add_edge(edge.second, edge.first, {cut.column_major, cut.row_major});
    }
  }
}

void CutNetwork::list_edges() {
  for (Lists* lists : {&earlier_, &later_}) {
    lists->begin.assign(set_of_.size() + 1, 0);
    const auto end = [&](const CutEdge& edge) {
      return to_index(lists == &earlier_ ? edge.b : edge.a);
    };
    for (const CutEdge& edge : edges_) ++lists->begin[end(edge) + 1];
    std::partial_sum(lists->begin.begin(), lists->begin.end(), lists->begin.begin());
    std::vector<int> next(lists->begin.begin(), lists->begin.end() - 1);
    lists->edges.resize(edges_.size());
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      lists->edges[to_index(next[end(edges_[e])]++)] = static_cast<int>(e);
    }
  }
}

CutNetwork::CutNetwork(const CostNetwork& network, std::span<const Restriction> restrictions) {
  ValueSets sets;
  std::vector<int> finite;
  for (int v = 0; v < network.variables(); ++v) {
    finite.clear();
    const std::span<const double> costs = network.costs(v);
    for (std::size_t x = 0; x < costs.size(); ++x) {
      if (costs[x] < kForbidden) finite.push_back(static_cast<int>(x));
    }
    set_of_.push_back(sets.id(finite));
    if (finite.empty()) wiped_out_ = v;
  }
  for (const Restriction& restriction : restrictions) {
    const std::vector<int> before = sets.sets[to_index(set_of_[to_index(restriction.variable)])];
    finite.clear();
    std::ranges::set_intersection(before, restriction.allowed, std::back_inserter(finite));
    set_of_[to_index(restriction.variable)] = sets.id(finite);
    if (finite.empty()) wiped_out_ = restriction.variable;
  }
  if (wiped_out_ < 0) make_consistent(network, sets);
  if (wiped_out_ >= 0) return;
  sets_ = std::move(sets.sets);
  first_.reserve(set_of_.size() + 1);
  for (int v = 0; v < network.variables(); ++v) {
    first_.push_back(costs_.size());
    const std::span<const double> costs = network.costs(v);
    for (const int x : values(v)) costs_.push_back(costs[to_index(x)]);
  }
  first_.push_back(costs_.size());
  cut_tables(network);
  list_edges();
}

CutNetwork::CutNetwork(const CutNetwork& whole, std::span<const std::vector<int>> kept) {
  // Sets of positions have their own numbers, which distinguish the new tables made from the same
  // old table.
  ValueSets positions;
  ValueSets sets;
  std::vector<int> positions_of;
  std::vector<int> own;
  for (int v = 0; v < whole.nodes(); ++v) {
    const std::span<const int> values = whole.values(v);
    own.clear();
    first_.push_back(costs_.size());
    for (const int x : kept[to_index(v)]) {
      own.push_back(values[to_index(x)]);
      costs_.push_back(whole.costs_[whole.first(v) + to_index(x)]);
    }
    positions_of.push_back(positions.id(kept[to_index(v)]));
    set_of_.push_back(sets.id(own));
  }
  first_.push_back(costs_.size());
  sets_ = std::move(sets.sets);
  KeyIndex tables;  // by the offset where the old table begins
  KeyIndex ids;
  int count = 0;
  std::vector<CutTable> cuts;
  edges_.reserve(whole.edges_.size());
  for (const CutEdge& edge : whole.edges_) {
    int& table = tables[edge.a_major];
    if (table < 0) table = count++;
    int& id = ids[memo_key(table, positions_of[to_index(edge.a)], positions_of[to_index(edge.b)])];
    if (id < 0) {
      id = static_cast<int>(cuts.size());
      const double* costs = whole.pool() + edge.a_major;
      cuts.push_back(add_table(kept[to_index(edge.a)], kept[to_index(edge.b)], [&](int x, int y) {
        return costs[to_index(x) * to_index(edge.b_values) + to_index(y)];
      }));
    }
    add_edge(edge.a, edge.b, cuts[to_index(id)]);
  }
  list_edges();
}

CutNetwork::CutNetwork(const CutNetwork& whole, std::span<const int> nodes,
                       std::span<const CutEdge> edges)
    : sets_(whole.sets_), pool_(whole.pool_) {
  for (const int v : nodes) {
    first_.push_back(costs_.size());
    set_of_.push_back(whole.set_of_[to_index(v)]);
    const auto begin = whole.costs_.begin() + static_cast<std::ptrdiff_t>(whole.first(v));
    costs_.insert(costs_.end(), begin, begin + static_cast<std::ptrdiff_t>(whole.values(v).size()));
  }
  first_.push_back(costs_.size());
  edges_.reserve(edges.size());
  for (const CutEdge& edge : edges) {
    if (edge.a < edge.b) {
      add_edge(edge.a, edge.b, {edge.a_major, edge.b_major});
    } else {
      add_edge(edge.b, edge.a, {edge.b_major, edge.a_major});
    }
  }
  list_edges();
}

double CutNetwork::cost(std::span<const int> positions, std::span<const double> extra) const {
  double sum = 0.0;
  for (int v = 0; v < nodes(); ++v) {
    const std::size_t offset = first(v) + to_index(positions[to_index(v)]);
    sum += costs_[offset] + (extra.empty() ? 0.0 : extra[offset]);
  }
  for (const CutEdge& edge : edges_) {
    sum += pool_[edge.a_major + to_index(positions[to_index(edge.a)]) * to_index(edge.b_values) +
                 to_index(positions[to_index(edge.b)])];
  }
  return sum;
}

}  // namespace shardlab
