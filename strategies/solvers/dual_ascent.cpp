// The inner loops run over consecutive doubles of a table and of a message, and no iteration
// depends on another, so that compilers turn them into vector code.
#include "strategies/solvers/dual_ascent.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

constexpr double lower(double a, double b) { return a < b ? a : b; }

// Code for wider vectors is chosen at load time if the processor has them: subtractions and minima
// give the same bits at any width. Sanitizer builds do without, because sanitizers start only after
// that choice.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SHARDLAB_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define SHARDLAB_WIDE_VECTORS
#endif

// out[x] = min over y of table[y][x] - message[y]. Taking four rows at a time spares most of the
// reads and writes of `out`.
SHARDLAB_WIDE_VECTORS void least(const double* __restrict table, const double* __restrict message,
                                 int outer, int inner, double* __restrict out) {
  for (int x = 0; x < inner; ++x) out[x] = table[x] - message[0];
  table += inner;
  int y = 1;
  for (; y + 4 <= outer; y += 4, table += 4 * to_index(inner)) {
    const double* __restrict second = table + inner;
    const double* __restrict third = second + inner;
    const double* __restrict fourth = third + inner;
    const double* m = message + y;
    for (int x = 0; x < inner; ++x) {
      const double a = lower(second[x] - m[1], table[x] - m[0]);
      const double b = lower(fourth[x] - m[3], third[x] - m[2]);
      out[x] = lower(lower(b, a), out[x]);
    }
  }
  for (; y < outer; ++y, table += inner) {
    for (int x = 0; x < inner; ++x) out[x] = lower(table[x] - message[y], out[x]);
  }
}

// Several minima are kept side by side: with one alone, each comparison would wait for the one
// before.
double least_of(const double* costs, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double low[kLanes];
  std::fill_n(low, kLanes, costs[0]);
  std::size_t x = 0;
  for (; x + kLanes <= count; x += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) low[i] = lower(costs[x + i], low[i]);
  }
  for (; x < count; ++x) low[0] = lower(costs[x], low[0]);
  return *std::min_element(low, low + kLanes);
}

// The offset of the messages to the a side of an edge, or to its b side.
std::size_t own_message(const CutEdge& edge, bool a_side) {
  return a_side ? edge.a_message : edge.b_message;
}

}  // namespace

DualAscent::DualAscent(const CutNetwork& cut, std::span<const double> extra)
    : cut_(cut), costs_(cut.costs()), messages_(cut.messages(), 0.0) {
  for (std::size_t i = 0; i < extra.size(); ++i) costs_[i] += extra[i];
  std::size_t most = 0;
  for (int v = 0; v < cut.nodes(); ++v) most = std::max(most, cut.values(v).size());
  theta_.resize(most);
  choice_.resize(most);
}

void DualAscent::set_messages(std::vector<double> messages) {
  messages_ = std::move(messages);
  forwards_ = true;
  fresh_ = true;
}

void DualAscent::collect(const CutEdge& edge, bool to_b) {
  double* a = messages_.data() + edge.a_message;
  double* b = messages_.data() + edge.b_message;
  if (to_b) {
    least(cut_.pool() + edge.a_major, a, edge.a_values, edge.b_values, b);
  } else {
    least(cut_.pool() + edge.b_major, b, edge.b_values, edge.a_values, a);
  }
}

double DualAscent::sweep(Decoding decoding) {
  const std::vector<CutEdge>& edges = cut_.edges();
  const double* pool = cut_.pool();
  double bound = 0.0;
  bool decodes = decoding == Decoding::kYes;
  const int nodes = cut_.nodes();
  if (decodes) decoded_.assign(to_index(nodes), 0);
  for (int i = 0; i < nodes; ++i) {
    const int v = forwards_ ? i : nodes - 1 - i;
    const std::span<const int> behind = forwards_ ? cut_.earlier(v) : cut_.later(v);
    const std::span<const int> ahead = forwards_ ? cut_.later(v) : cut_.earlier(v);
    const std::size_t count = cut_.values(v).size();
    double* theta = theta_.data();
    std::copy_n(costs_.data() + cut_.first(v), count, theta);
    // The messages of the edges ahead are those that the sweep the other way collected, except in
    // the very first sweep.
    for (const int e : ahead) {
      if (fresh_) collect(edges[to_index(e)], !forwards_);
      const double* own = messages_.data() + own_message(edges[to_index(e)], forwards_);
      for (std::size_t x = 0; x < count; ++x) theta[x] += own[x];
    }
    if (decodes) std::copy_n(theta, count, choice_.data());
    for (const int e : behind) {
      collect(edges[to_index(e)], forwards_);
      const double* own = messages_.data() + own_message(edges[to_index(e)], !forwards_);
      for (std::size_t x = 0; x < count; ++x) theta[x] += own[x];
    }
    if (decodes) {
      double* choice = choice_.data();
      for (const int e : behind) {
        const CutEdge& edge = edges[to_index(e)];
        const int taken = decoded_[to_index(forwards_ ? edge.a : edge.b)];
        const double* row =
            pool + (forwards_ ? edge.a_major : edge.b_major) + to_index(taken) * count;
        for (std::size_t x = 0; x < count; ++x) choice[x] += row[x];
      }
      const auto best = std::min_element(choice, choice + count) - choice;
      decodes = choice[best] < kForbidden;
      decoded_[to_index(v)] = static_cast<int>(best);
    }
    const double low = least_of(theta, count);
    bound += low;
    if (ahead.empty()) continue;
    const double share = 1.0 / static_cast<double>(std::max(behind.size(), ahead.size()));
    for (std::size_t x = 0; x < count; ++x) theta[x] = share * (theta[x] - low);
    for (const int e : ahead) {
      double* own = messages_.data() + own_message(edges[to_index(e)], forwards_);
      for (std::size_t x = 0; x < count; ++x) own[x] -= theta[x];
    }
  }
  if (!decodes) decoded_.clear();
  fresh_ = false;
  forwards_ = !forwards_;
  bound_ = bound;
  return bound;
}

Reparametrisation DualAscent::reparametrised() const {
  Reparametrisation out;
  out.node = costs_;
  out.messages = messages_;
  for (const CutEdge& edge : cut_.edges()) {
    double* a = out.node.data() + cut_.first(edge.a);
    for (int x = 0; x < edge.a_values; ++x) a[x] += messages_[edge.a_message + to_index(x)];
    double* b = out.node.data() + cut_.first(edge.b);
    for (int y = 0; y < edge.b_values; ++y) b[y] += messages_[edge.b_message + to_index(y)];
  }
  for (int v = 0; v < cut_.nodes(); ++v) {
    double* own = out.node.data() + cut_.first(v);
    const std::size_t count = cut_.values(v).size();
    const double low = least_of(own, count);
    for (std::size_t x = 0; x < count; ++x) own[x] -= low;
    out.bound += low;
  }
  out.excess = out.node;
  out.own.resize(messages_.size());
  out.edge.reserve(cut_.edges().size());
  for (const CutEdge& edge : cut_.edges()) {
    double low = kForbidden;
    for (const bool to_b : {false, true}) {
      const int outer = to_b ? edge.a_values : edge.b_values;
      const int inner = to_b ? edge.b_values : edge.a_values;
      const std::size_t offset = to_b ? edge.b_message : edge.a_message;
      double* own = out.own.data() + offset;
      least(cut_.pool() + (to_b ? edge.a_major : edge.b_major),
            messages_.data() + (to_b ? edge.a_message : edge.b_message), outer, inner, own);
      for (int x = 0; x < inner; ++x) own[x] -= messages_[offset + to_index(x)];
      if (!to_b) low = least_of(own, to_index(inner));
      double* sum = out.excess.data() + cut_.first(to_b ? edge.b : edge.a);
      for (int x = 0; x < inner; ++x) {
        own[x] -= low;
        sum[x] += own[x];
      }
    }
    out.edge.push_back(low);
    out.bound += low;
  }
  return out;
}

}  // namespace shardlab
