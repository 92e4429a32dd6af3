// Finds the layers by colours, sweeps a network without most of the layers, and copies its messages
// to all layers.
#include "strategies/solvers/repeated_layers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <tuple>

#include "costmodel/base/index.h"
#include "strategies/solvers/dual_ascent.h"
#include "strategies/solvers/key_index.h"

namespace shardlab {
namespace {

// How many steps around a node its colour depends on. Status: assumed; a few steps distinguish the
// ops of a layer.
constexpr int kRounds = 8;
// How many layers are kept. Status: measured on LLaMA3-8B with 32 layers: 3, 4 and 6 leave the same
// bound, and each layer adds to the time of a sweep.
constexpr int kLayersKept = 4;
// In a network with fewer layers than this, leaving layers out is not worthwhile. Status: assumed;
// twice as many as are kept.
constexpr int kLeastLayers = 8;
// The most sweeps of the small network, and how many sweeps lie between two checks of its bound.
// Status: assumed; LLaMA3-8B takes 16 (einsum), 112 (native) and 144 (einsum on 2x8x8).
constexpr int kMostSweeps = 512;
constexpr int kSweepsPerLook = 8;
// A bound that rises by a smaller share than this is tight enough. Status: assumed; the sweeps of
// the whole network go on from there.
constexpr double kTight = 1e-6;

std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
  return KeyIndex::mixed(seed ^ (value + 0x9e3779b97f4a7c15U + (seed << 6U) + (seed >> 2U)));
}

// -- Classes of nodes that look alike -----------------------------------------------------------

std::vector<std::uint64_t> colours(const CutNetwork& cut) {
  std::vector<std::uint64_t> colour;
  for (int v = 0; v < cut.nodes(); ++v) {
    const std::span<const int> values = cut.values(v);
    std::uint64_t own = values.size();
    for (const int value : values) own = mix(own, static_cast<std::uint64_t>(value));
    for (std::size_t x = 0; x < values.size(); ++x) {
      own = mix(own, std::bit_cast<std::uint64_t>(cut.costs()[cut.first(v) + x]));
    }
    colour.push_back(own);
  }
  std::vector<std::uint64_t> next(colour.size());
  std::vector<std::uint64_t> around;
  for (int round = 0; round < kRounds; ++round) {
    for (int v = 0; v < cut.nodes(); ++v) {
      around.clear();
      for (const bool ahead : {false, true}) {
        for (const int e : ahead ? cut.later(v) : cut.earlier(v)) {
          const CutEdge& edge = cut.edges()[to_index(e)];
          const std::uint64_t other = colour[to_index(ahead ? edge.b : edge.a)];
          around.push_back(mix(mix(edge.a_major, ahead ? 1U : 0U), other));
        }
      }
      std::ranges::sort(around);
      next[to_index(v)] = std::accumulate(around.begin(), around.end(), colour[to_index(v)], mix);
    }
    colour.swap(next);
  }
  return colour;
}

// A class of counterparts, in the order of the layers. A class with k nodes in each layer becomes k
// columns.
struct Column {
  std::vector<int> nodes;
  bool aligned = false;
  int sign = 1;  // nodes[i] is in layer shift + sign * i
  int shift = 0;

  [[nodiscard]] int layer(int rank) const { return shift + sign * rank; }
  [[nodiscard]] int lowest() const {
    return std::min(layer(0), layer(static_cast<int>(nodes.size()) - 1));
  }
  [[nodiscard]] int highest() const {
    return std::max(layer(0), layer(static_cast<int>(nodes.size()) - 1));
  }
};

std::vector<Column> columns(const CutNetwork& cut) {
  const std::vector<std::uint64_t> colour = colours(cut);
  KeyIndex ids;
  std::vector<std::vector<int>> classes;
  for (int v = 0; v < cut.nodes(); ++v) {
    int& id = ids[colour[to_index(v)]];
    if (id < 0) {
      id = static_cast<int>(classes.size());
      classes.emplace_back();
    }
    classes[to_index(id)].push_back(v);
  }
  // The number of layers is the most frequent class size, counted by nodes.
  std::vector<std::size_t> nodes_by_count;
  for (const std::vector<int>& nodes : classes) {
    if (nodes.size() < to_index(kLeastLayers)) continue;
    nodes_by_count.resize(std::max(nodes_by_count.size(), nodes.size() + 1));
    nodes_by_count[nodes.size()] += nodes.size();
  }
  std::vector<Column> out;
  if (nodes_by_count.empty()) return out;
  const auto layers =
      static_cast<std::size_t>(std::ranges::max_element(nodes_by_count) - nodes_by_count.begin());
  for (const std::vector<int>& nodes : classes) {
    const std::size_t per_layer = (nodes.size() + layers / 2) / layers;
    if (nodes.size() < to_index(kLeastLayers) || per_layer == 0 || nodes.size() % per_layer != 0)
      continue;
    for (std::size_t k = 0; k < per_layer; ++k) {
      Column& column = out.emplace_back();
      for (std::size_t i = k; i < nodes.size(); i += per_layer) column.nodes.push_back(nodes[i]);
    }
  }
  return out;
}

// An edge between two columns, given by the ranks of its ends in them.
struct Link {
  int from = 0;
  int to = 0;
  std::size_t table = 0;  // the links of one table all span equally many layers
  int from_rank = 0;
  int to_rank = 0;

  [[nodiscard]] auto group() const { return std::tuple(from, to, table); }
};

// Gives a column the layers under which all its links to an aligned column span equally many;
// returns false if there are none.
bool align(Column& column, const Column& known, std::span<const Link> links) {
  for (const int sign : {1, -1}) {
    const auto shift = [&](const Link& link) {
      return known.layer(link.from_rank) - sign * link.to_rank;
    };
    const int first = shift(links.front());
    if (!std::ranges::all_of(links, [&](const Link& link) { return shift(link) == first; }))
      continue;
    column.aligned = true;
    column.sign = sign;
    column.shift = first;
    return true;
  }
  return false;
}

void align_columns(const CutNetwork& cut, std::vector<Column>& columns) {
  std::vector<int> column_of(to_index(cut.nodes()), -1);
  std::vector<int> rank_of(to_index(cut.nodes()), 0);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    for (std::size_t i = 0; i < columns[c].nodes.size(); ++i) {
      column_of[to_index(columns[c].nodes[i])] = static_cast<int>(c);
      rank_of[to_index(columns[c].nodes[i])] = static_cast<int>(i);
    }
  }
  std::vector<Link> links;
  for (const CutEdge& edge : cut.edges()) {
    const int a = column_of[to_index(edge.a)];
    const int b = column_of[to_index(edge.b)];
    if (a < 0 || b < 0 || a == b) continue;
    links.push_back({a, b, edge.a_major, rank_of[to_index(edge.a)], rank_of[to_index(edge.b)]});
    links.push_back({b, a, edge.b_major, rank_of[to_index(edge.b)], rank_of[to_index(edge.a)]});
  }
  std::ranges::stable_sort(
      links, [](const Link& one, const Link& other) { return one.group() < other.group(); });
  std::vector<std::size_t> begin(columns.size() + 1, links.size());
  for (std::size_t i = links.size(); i-- > 0;) begin[to_index(links[i].from)] = i;
  for (std::size_t c = columns.size(); c-- > 0;) begin[c] = std::min(begin[c], begin[c + 1]);
  columns.front().aligned = true;
  std::vector<int> queue = {0};
  for (std::size_t done = 0; done < queue.size(); ++done) {
    const int from = queue[done];
    for (std::size_t i = begin[to_index(from)]; i < begin[to_index(from) + 1];) {
      std::size_t end = i;
      while (end < begin[to_index(from) + 1] && links[end].group() == links[i].group()) ++end;
      Column& to = columns[to_index(links[i].to)];
      if (!to.aligned && align(to, columns[to_index(from)], {links.data() + i, end - i})) {
        queue.push_back(links[i].to);
      }
      i = end;
    }
  }
}

// -- The network without most layers ------------------------------------------------------------

class FewLayers {
 public:
  FewLayers(const CutNetwork& whole, const RepeatedLayers& repeated);
  [[nodiscard]] std::vector<double> messages() const;

 private:
  // The counterpart of a node `by` layers further on; kNone if there is none.
  [[nodiscard]] int moved(int node, int by) const {
    const int layer = repeated_.layer[to_index(node)] + by;
    if (layer < 0 || layer >= repeated_.layers) return RepeatedLayers::kNone;
    return node_at_[to_index(repeated_.key[to_index(node)]) * to_index(repeated_.layers) +
                    to_index(layer)];
  }
  [[nodiscard]] bool is_inside(int node) const {
    return repeated_.layer[to_index(node)] != RepeatedLayers::kNone;
  }
  [[nodiscard]] bool is_left_out(int node) const {
    return is_inside(node) && repeated_.layer[to_index(node)] >= cut_at_ &&
           repeated_.layer[to_index(node)] < cut_at_ + left_out_;
  }
  static std::uint64_t pair_key(int a, int b) {
    return (static_cast<std::uint64_t>(a) << 32U) | static_cast<std::uint64_t>(b);
  }
  // The kept edge from which an edge takes its messages; kNone if there is none.
  [[nodiscard]] int counterpart(const CutEdge& edge) const;

  const CutNetwork& whole_;
  const RepeatedLayers& repeated_;
  int cut_at_ = 0;    // the first layer that is left out
  int left_out_ = 0;  // how many layers are left out
  std::vector<int> node_at_;
  // An edge of the whole network that stays. If one end was in a layer that is left out, it now
  // ends behind the gap.
  struct Source {
    int edge = 0;
    bool turned = false;  // whether its ends are in the other order now
  };
  std::vector<Source> sources_;
  KeyIndex edge_of_;  // index in sources_, by both ends of the edge in the whole
  std::optional<CutNetwork> small_;
};

FewLayers::FewLayers(const CutNetwork& whole, const RepeatedLayers& repeated)
    : whole_(whole),
      repeated_(repeated),
      cut_at_(kLayersKept / 2),
      left_out_(repeated.layers - kLayersKept),
      node_at_(to_index(repeated.keys) * to_index(repeated.layers), RepeatedLayers::kNone) {
  std::vector<int> kept;
  std::vector<int> number_in_small(to_index(whole.nodes()), RepeatedLayers::kNone);
  for (int v = 0; v < whole.nodes(); ++v) {
    if (is_inside(v)) {
      node_at_[to_index(repeated.key[to_index(v)]) * to_index(repeated.layers) +
               to_index(repeated.layer[to_index(v)])] = v;
    }
    if (is_left_out(v)) continue;
    number_in_small[to_index(v)] = static_cast<int>(kept.size());
    kept.push_back(v);
  }
  std::vector<CutEdge> edges;
  for (std::size_t e = 0; e < whole.edges().size(); ++e) {
    CutEdge edge = whole.edges()[e];
    const bool skips = is_left_out(edge.a) || is_left_out(edge.b);
    if (skips) {
      int& outer = is_left_out(edge.a) ? edge.a : edge.b;
      const int inner = is_left_out(edge.a) ? edge.b : edge.a;
      if (!is_inside(inner) || repeated.layer[to_index(inner)] >= cut_at_) continue;
      outer = moved(outer, left_out_);
      if (outer == RepeatedLayers::kNone || is_left_out(outer)) continue;
    }
    edge_of_[pair_key(whole.edges()[e].a, whole.edges()[e].b)] = static_cast<int>(sources_.size());
    edge.a = number_in_small[to_index(edge.a)];
    edge.b = number_in_small[to_index(edge.b)];
    edges.push_back(edge);
    sources_.push_back({.edge = static_cast<int>(e), .turned = edge.b < edge.a});
  }
  small_.emplace(whole, kept, edges);
}

int FewLayers::counterpart(const CutEdge& edge) const {
  if (const int same = edge_of_.find(pair_key(edge.a, edge.b)); same >= 0) return same;
  int lowest = repeated_.layers;
  for (const int end : {edge.a, edge.b}) {
    if (is_inside(end)) lowest = std::min(lowest, repeated_.layer[to_index(end)]);
  }
  const int by = cut_at_ - 1 - lowest;
  const int a = is_inside(edge.a) ? moved(edge.a, by) : edge.a;
  const int b = is_inside(edge.b) ? moved(edge.b, by) : edge.b;
  if (a == RepeatedLayers::kNone || b == RepeatedLayers::kNone) return RepeatedLayers::kNone;
  return edge_of_.find(pair_key(a, b));
}

std::vector<double> FewLayers::messages() const {
  DualAscent dual(*small_);
  double last = -kForbidden;
  for (int sweeps = 0; sweeps < kMostSweeps; sweeps += kSweepsPerLook) {
    for (int i = 0; i < kSweepsPerLook; ++i) dual.sweep(DualAscent::Decoding::kNo);
    if (dual.bound() - last <= kTight * std::abs(dual.bound())) break;
    last = dual.bound();
  }
  std::vector<double> out(whole_.messages(), 0.0);
  for (const CutEdge& to : whole_.edges()) {
    const int e = counterpart(to);
    if (e == RepeatedLayers::kNone) continue;
    const CutEdge& from = small_->edges()[to_index(e)];
    const auto [source, turned] = sources_[to_index(e)];
    if (whole_.edges()[to_index(source)].a_major != to.a_major)
      continue;  // the edge has another table or other values
    const double* messages = dual.messages().data();
    std::copy_n(messages + (turned ? from.b_message : from.a_message), to.a_values,
                out.data() + to.a_message);
    std::copy_n(messages + (turned ? from.a_message : from.b_message), to.b_values,
                out.data() + to.b_message);
  }
  return out;
}

}  // namespace

RepeatedLayers find_repeated_layers(const CutNetwork& cut) {
  RepeatedLayers repeated;
  repeated.layer.assign(to_index(cut.nodes()), RepeatedLayers::kNone);
  repeated.key.assign(to_index(cut.nodes()), RepeatedLayers::kNone);
  std::vector<Column> found = columns(cut);
  if (found.empty()) return repeated;
  align_columns(cut, found);
  std::erase_if(found, [](const Column& column) { return !column.aligned; });
  // The layers that every column has.
  int first = found.front().lowest();
  int last = found.front().highest();
  for (const Column& column : found) {
    first = std::max(first, column.lowest());
    last = std::min(last, column.highest());
  }
  if (last - first + 1 < kLeastLayers) return repeated;
  repeated.layers = last - first + 1;
  repeated.keys = static_cast<int>(found.size());
  for (std::size_t c = 0; c < found.size(); ++c) {
    for (std::size_t i = 0; i < found[c].nodes.size(); ++i) {
      const int layer = found[c].layer(static_cast<int>(i)) - first;
      if (layer < 0 || layer >= repeated.layers) continue;
      repeated.layer[to_index(found[c].nodes[i])] = layer;
      repeated.key[to_index(found[c].nodes[i])] = static_cast<int>(c);
    }
  }
  return repeated;
}

std::vector<double> repeated_layer_messages(const CutNetwork& cut) {
  const RepeatedLayers repeated = find_repeated_layers(cut);
  if (repeated.layers == 0) return {};
  return FewLayers(cut, repeated).messages();
}

}  // namespace shardlab
