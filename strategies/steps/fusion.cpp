#include "strategies/steps/fusion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// How often the search for pairs is repeated, and how many partners of an operator are tried for
// each tensor that they share. Source: PyTorch 2.13, torch/_inductor: fuse_nodes() in scheduler.py,
// config.max_fusion_buffer_group_pairwise_attempts.
constexpr int kMostRounds = 10;
constexpr std::size_t kMostPartners = 64;
// A pair that shares this many times the bytes comes first, whatever its kind. Source: FusionScore
// in choices.py.
constexpr double kMuchMore = 16.0;

[[nodiscard]] std::string op_name(std::size_t op) { return "operator " + std::to_string(op); }

[[nodiscard]] bool is_amount(double value) { return std::isfinite(value) && value >= 0.0; }

// The operators with what follows from their tensors: which share memory, and which wait for which.
class Graph {
 public:
  Graph(std::span<const FusionOp> ops, std::span<const FusionTensor> tensors)
      : ops_(ops), tensors_(tensors) {
    check();
    find_roots();
    find_readers();
    find_order();
  }

  [[nodiscard]] std::span<const FusionOp> ops() const { return ops_; }
  [[nodiscard]] const FusionOp& op(int n) const { return ops_[to_index(n)]; }
  [[nodiscard]] bool is_view(int n) const { return op(n).kind == FusionKind::kView; }
  [[nodiscard]] int root(int tensor) const { return roots_[to_index(tensor)]; }
  [[nodiscard]] double root_bytes(int root) const { return tensors_[to_index(root)].bytes; }
  // The bytes behind a tensor: those of a broadcast view are those of what it views.
  [[nodiscard]] double bytes(int tensor) const { return bytes_[to_index(tensor)]; }
  [[nodiscard]] bool stays(int root) const { return stays_[to_index(root)]; }
  // The operators of each root that are no views, in ascending order.
  [[nodiscard]] const std::vector<int>& readers(int root) const { return readers_[to_index(root)]; }
  [[nodiscard]] const std::vector<int>& writers(int root) const { return writers_[to_index(root)]; }
  // The operators that have to run before one that is no view.
  [[nodiscard]] const std::set<int>& before(int n) const { return before_[to_index(n)]; }
  // How many operators that are no views come before one.
  [[nodiscard]] int place(int n) const { return places_[to_index(n)]; }
  [[nodiscard]] std::size_t tensors() const { return tensors_.size(); }

  [[nodiscard]] std::set<int> roots_read(int n) const { return roots_of(op(n).reads); }
  [[nodiscard]] std::set<int> roots_written(int n) const { return roots_of(op(n).writes); }

 private:
  [[nodiscard]] std::set<int> roots_of(const std::vector<int>& tensors) const {
    std::set<int> found;
    for (const int tensor : tensors) found.insert(root(tensor));
    return found;
  }

  void check() const {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (is_amount(tensors_[t].bytes)) continue;
      throw InputError("tensor " + std::to_string(t) +
                       ": its bytes must be a finite number that is not negative");
    }
    for (std::size_t n = 0; n < ops_.size(); ++n) {
      const FusionOp& own = ops_[n];
      for (const std::vector<int>* list : {&own.reads, &own.writes}) {
        for (const int tensor : *list) {
          if (tensor >= 0 && to_index(tensor) < tensors_.size()) continue;
          throw InputError(op_name(n) + ": there is no tensor " + std::to_string(tensor));
        }
      }
      if (!is_amount(own.elements)) {
        throw InputError(op_name(n) +
                         ": its elements must be a finite number that is not negative");
      }
      const bool has_row = std::isfinite(own.row) && own.row >= 1.0 && own.row <= own.elements;
      if (own.kind == FusionKind::kReduction && own.elements > 0.0 && !has_row) {
        throw InputError(op_name(n) +
                         ": the row of a reduction must be between 1 and its elements");
      }
      if (own.kind == FusionKind::kView && own.reads.empty()) {
        throw InputError(op_name(n) + ": a view must read the tensor that it views");
      }
    }
  }

  void find_roots() {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      roots_.push_back(static_cast<int>(t));
      bytes_.push_back(tensors_[t].bytes);
      stays_.push_back(tensors_[t].stays);
    }
    for (const FusionOp& own : ops_) {
      if (own.kind != FusionKind::kView) continue;
      const std::size_t from = to_index(own.reads[0]);
      for (const int tensor : own.writes) {
        const std::size_t to = to_index(tensor);
        roots_[to] = roots_[from];
        bytes_[to] = std::min(bytes_[to], bytes_[from]);
        if (stays_[to]) stays_[to_index(roots_[to])] = true;
      }
    }
  }

  void find_readers() {
    readers_.resize(tensors_.size());
    writers_.resize(tensors_.size());
    int place = 0;
    for (int n = 0; n < static_cast<int>(ops_.size()); ++n) {
      places_.push_back(place);
      if (is_view(n)) continue;
      ++place;
      for (const int root : roots_read(n)) readers_[to_index(root)].push_back(n);
      for (const int root : roots_written(n)) writers_[to_index(root)].push_back(n);
    }
  }

  void find_order() {
    before_.resize(ops_.size());
    std::vector<int> writer(tensors_.size(), -1);
    std::vector<std::vector<int>> since(tensors_.size());  // readers since the last write
    for (int n = 0; n < static_cast<int>(ops_.size()); ++n) {
      if (is_view(n)) continue;
      std::set<int>& before = before_[to_index(n)];
      for (const int root : roots_read(n)) {
        if (writer[to_index(root)] >= 0) before.insert(writer[to_index(root)]);
        since[to_index(root)].push_back(n);
      }
      for (const int root : roots_written(n)) {
        if (writer[to_index(root)] >= 0) before.insert(writer[to_index(root)]);
        before.insert(since[to_index(root)].begin(), since[to_index(root)].end());
        writer[to_index(root)] = n;
        since[to_index(root)].clear();
      }
      before.erase(n);
    }
  }

  std::span<const FusionOp> ops_;
  std::span<const FusionTensor> tensors_;
  std::vector<int> roots_;     // by tensor: the one whose memory it shares
  std::vector<double> bytes_;  // by tensor
  std::vector<bool> stays_;    // by tensor; of a root, whether it or a view of it stays
  std::vector<std::vector<int>> readers_;
  std::vector<std::vector<int>> writers_;
  std::vector<std::set<int>> before_;
  std::vector<int> places_;
};

// A kernel that is still growing.
struct Group {
  std::vector<int> ops;
  bool is_barrier = false;
  bool has_reduction = false;
  bool is_split = false;  // a reduction in two phases
  double elements = 0.0;  // how many elements the whole space has
  double row = 1.0;
  int dims = 0;
  int first = 0, last = 0;  // places of its first and last operator
  std::set<int> reads, writes;
  std::set<int> before, after;  // groups

  [[nodiscard]] double results() const { return elements / row; }
};

// A pair of groups that may become one.
struct Pair {
  int a = 0, b = 0;
  bool are_alike = false;
  double shared = 0.0;
  int distance = 0;
};

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : graph_(graph) { add_groups(); }

  // The operators without views of each group that is left, in the order of issue.
  std::vector<std::vector<int>> run() && {
    for (int round = 0; round < kMostRounds; ++round) {
      if (!fuse_once()) break;
    }
    return in_order();
  }

 private:
  void add_groups() {
    const int count = static_cast<int>(graph_.ops().size());
    groups_.resize(to_index(count));
    for (int n = 0; n < count; ++n) {
      now_.push_back(n);
      order_.push_back(n);
      position_.push_back(n);
      if (graph_.is_view(n)) continue;
      const FusionOp& op = graph_.op(n);
      const bool reduces = op.kind == FusionKind::kReduction && op.elements > 0.0;
      groups_[to_index(n)] = {
          .ops = {n},
          .is_barrier = op.kind == FusionKind::kBarrier,
          .has_reduction = reduces,
          .is_split = reduces && op.row > kLongRow && op.elements / op.row < kFewResults,
          .elements = op.elements,
          .row = reduces ? op.row : 1.0,
          .dims = reduces ? op.dims : 0,
          .first = graph_.place(n),
          .last = graph_.place(n),
          .reads = graph_.roots_read(n),
          .writes = graph_.roots_written(n),
          .before = graph_.before(n),
          .after = {}};
      for (const int before : graph_.before(n)) groups_[to_index(before)].after.insert(n);
    }
  }

  [[nodiscard]] int now(int group) {
    while (now_[to_index(group)] != group) {
      now_[to_index(group)] = now_[to_index(now_[to_index(group)])];
      group = now_[to_index(group)];
    }
    return group;
  }
  [[nodiscard]] Group& at(int group) { return groups_[to_index(group)]; }

  [[nodiscard]] static int distance(const Group& a, const Group& b) {
    return std::max(std::abs(a.first - b.last), std::abs(b.first - a.last));
  }

  [[nodiscard]] double shared_bytes(const Group& a, const Group& b) const {
    std::set<int> of_b = b.reads;
    of_b.insert(b.writes.begin(), b.writes.end());
    double bytes = 0.0;
    for (const int root : of_b) {
      if (a.reads.contains(root) || a.writes.contains(root)) bytes += graph_.root_bytes(root);
    }
    return bytes;
  }

  // Whether only `reader` reads what `group` writes.
  [[nodiscard]] bool is_read_by_alone(const Group& group, int reader) {
    return std::ranges::all_of(group.writes, [&](int root) {
      return !graph_.stays(root) && graph_.writers(root).size() == 1 &&
             !graph_.readers(root).empty() &&
             std::ranges::all_of(graph_.readers(root), [&](int op) { return now(op) == reader; });
    });
  }

  [[nodiscard]] bool spaces_fit(int a, int b) {
    const Group& one = at(a);
    const Group& two = at(b);
    if (one.has_reduction && two.has_reduction) {
      return one.elements == two.elements && one.row == two.row && one.dims == two.dims;
    }
    if (one.has_reduction || two.has_reduction) {
      const Group& reduction = one.has_reduction ? one : two;
      const Group& pointwise = one.has_reduction ? two : one;
      if (pointwise.elements == reduction.elements || pointwise.elements == reduction.results()) {
        return true;
      }
    } else if (one.elements == two.elements) {
      return true;
    }
    // A smaller space that is broadcast into the only reader.
    const auto is_inside = [&](int maker, int reader) {
      return !at(maker).has_reduction && at(maker).after.contains(reader) &&
             at(maker).elements < at(reader).elements && is_read_by_alone(at(maker), reader);
    };
    return is_inside(a, b) || is_inside(b, a);
  }

  [[nodiscard]] bool can_fuse(int a, int b) {
    const Group& one = at(a);
    const Group& two = at(b);
    if (one.is_barrier || two.is_barrier) return false;
    const bool is_forward = one.after.contains(b);
    const bool is_backward = two.after.contains(a);
    if ((is_forward && one.is_split) || (is_backward && two.is_split)) return false;
    if (!is_forward && !is_backward) {
      if (distance(one, two) > kFarthestOps) return false;
      if (shared_bytes(one, two) < kLeastSharedBytes) return false;
    }
    return spaces_fit(a, b);
  }

  // The groups that come after `from` and before `to` in the order, and that wait for `from`;
  // nothing if `to` waits for one of them. Only groups between the two can be on a path between
  // them.
  [[nodiscard]] std::optional<std::set<int>> waiting_between(int from, int to) {
    const int end = position_[to_index(to)];
    std::set<int> found;
    std::vector<int> left = {from};
    while (!left.empty()) {
      const int group = left.back();
      left.pop_back();
      for (const int next : at(group).after) {
        if (next == to && group != from) return std::nullopt;
        if (position_[to_index(next)] < end && found.insert(next).second) left.push_back(next);
      }
    }
    return found;
  }

  // Makes one group of two, unless a third would have to run between them. The order of the groups
  // stays one in which each comes after all that it waits for: what waits for the first moves
  // behind the second.
  bool join(int a, int b) {
    if (position_[to_index(a)] > position_[to_index(b)]) std::swap(a, b);
    const std::optional<std::set<int>> waiting = waiting_between(a, b);
    if (!waiting) return false;
    const int begin = position_[to_index(a)];
    const int end = position_[to_index(b)];
    std::vector<int> order;
    for (int p = begin + 1; p < end; ++p) {
      const int group = order_[to_index(p)];
      if (group >= 0 && !waiting->contains(group)) order.push_back(group);
    }
    const int first = std::min(a, b);
    order.push_back(first);
    for (int p = begin + 1; p < end; ++p) {
      const int group = order_[to_index(p)];
      if (group >= 0 && waiting->contains(group)) order.push_back(group);
    }
    for (int p = begin; p <= end; ++p) {
      const std::size_t i = to_index(p - begin);
      order_[to_index(p)] = i < order.size() ? order[i] : -1;
      if (i < order.size()) position_[to_index(order[i])] = p;
    }
    merge(first, std::max(a, b));
    return true;
  }

  void merge(int a, int b) {
    Group& one = at(a);
    Group two = std::move(at(b));
    at(b) = {};
    now_[to_index(b)] = a;
    const bool takes_space =
        (two.has_reduction && !one.has_reduction) ||
        (two.has_reduction == one.has_reduction && two.elements > one.elements);
    if (takes_space) {
      one.elements = two.elements;
      one.row = two.row;
      one.dims = two.dims;
    }
    one.has_reduction = one.has_reduction || two.has_reduction;
    one.is_split = one.is_split || two.is_split;
    one.first = std::min(one.first, two.first);
    one.last = std::max(one.last, two.last);
    one.ops.insert(one.ops.end(), two.ops.begin(), two.ops.end());
    one.reads.insert(two.reads.begin(), two.reads.end());
    one.writes.insert(two.writes.begin(), two.writes.end());
    for (const int before : two.before) {
      at(before).after.erase(b);
      if (before == a) continue;
      at(before).after.insert(a);
      one.before.insert(before);
    }
    for (const int after : two.after) {
      at(after).before.erase(b);
      if (after == a) continue;
      at(after).before.insert(a);
      one.after.insert(after);
    }
  }

  [[nodiscard]] std::vector<Pair> pairs() {
    std::vector<Pair> found;
    std::set<std::pair<int, int>> seen;
    for (int root = 0; root < static_cast<int>(graph_.tensors()); ++root) {
      std::vector<int> touching;
      for (const std::vector<int>* list : {&graph_.writers(root), &graph_.readers(root)}) {
        for (const int op : *list) {
          if (!at(now(op)).is_barrier) touching.push_back(now(op));
        }
      }
      std::sort(touching.begin(), touching.end());
      touching.erase(std::unique(touching.begin(), touching.end()), touching.end());
      for (std::size_t i = 0; i < touching.size(); ++i) {
        const std::size_t end = std::min(touching.size(), i + 1 + kMostPartners);
        for (std::size_t j = i + 1; j < end; ++j) {
          const int a = touching[i];
          const int b = touching[j];
          if (!seen.insert({a, b}).second || !can_fuse(a, b)) continue;
          found.push_back({.a = a,
                           .b = b,
                           .are_alike = at(a).has_reduction == at(b).has_reduction,
                           .shared = shared_bytes(at(a), at(b)),
                           .distance = distance(at(a), at(b))});
        }
      }
    }
    return found;
  }

  // The best pairs first. The comparison by 16 times the bytes is not transitive, so each pair's
  // bytes are rounded down to a power of 16 for it.
  static void sort_best_first(std::vector<Pair>& pairs) {
    const auto magnitude = [](const Pair& pair) {
      return pair.shared < 1.0 ? -1.0 : std::floor(std::log(pair.shared) / std::log(kMuchMore));
    };
    std::sort(pairs.begin(), pairs.end(), [&](const Pair& x, const Pair& y) {
      const double of_x = magnitude(x);
      const double of_y = magnitude(y);
      if (of_x != of_y) return of_x > of_y;
      if (x.are_alike != y.are_alike) return x.are_alike;
      if (x.shared != y.shared) return x.shared > y.shared;
      if (x.distance != y.distance) return x.distance < y.distance;
      return std::pair(x.a, x.b) < std::pair(y.a, y.b);
    });
  }

  bool fuse_once() {
    std::vector<Pair> candidates = pairs();
    sort_best_first(candidates);
    bool has_fused = false;
    for (const Pair& pair : candidates) {
      const int a = now(pair.a);
      const int b = now(pair.b);
      if (a == b || !can_fuse(a, b)) continue;
      if (join(a, b)) has_fused = true;
    }
    return has_fused;
  }

  // Each group after those that it waits for; of those that may be next, the one that begins first.
  [[nodiscard]] std::vector<std::vector<int>> in_order() {
    std::vector<std::vector<int>> order;
    std::vector<std::size_t> waits(groups_.size(), 0);
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> next;
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
      waits[to_index(g)] = at(g).before.size();
      if (!at(g).ops.empty() && at(g).before.empty()) next.emplace(at(g).first, g);
    }
    while (!next.empty()) {
      const int group = next.top().second;
      next.pop();
      std::sort(at(group).ops.begin(), at(group).ops.end());
      order.push_back(at(group).ops);
      for (const int after : at(group).after) {
        if (--waits[to_index(after)] == 0) next.emplace(at(after).first, after);
      }
    }
    return order;
  }

  const Graph& graph_;
  std::vector<Group> groups_;  // by its first operator; without operators: part of another
  std::vector<int> now_;       // by group: the one that it is part of
  std::vector<int> order_;     // groups, each after all that it waits for; -1: none any more
  std::vector<int> position_;  // by group: its place in order_
};

// Bytes that one operator moves by itself.
struct Moved {
  double read = 0.0;
  double written = 0.0;
};

// The bytes of some tensors, where views of one tensor count as its bytes at most.
[[nodiscard]] std::map<int, double> bytes_by_root(const Graph& graph,
                                                  const std::set<int>& tensors) {
  std::map<int, double> bytes;
  for (const int tensor : tensors) {
    const int root = graph.root(tensor);
    bytes[root] = std::min(graph.root_bytes(root), bytes[root] + graph.bytes(tensor));
  }
  return bytes;
}

[[nodiscard]] double sum(const std::map<int, double>& bytes) {
  double total = 0.0;
  for (const auto& [root, each] : bytes) total += each;
  return total;
}

[[nodiscard]] Moved moved_alone(const Graph& graph, int n) {
  if (graph.is_view(n)) return {};
  const FusionOp& op = graph.op(n);
  return {sum(bytes_by_root(graph, {op.reads.begin(), op.reads.end()})),
          sum(bytes_by_root(graph, {op.writes.begin(), op.writes.end()}))};
}

// What a kernel of several operators moves. A kernel with reductions runs through its rows in
// loops: what needs the result of a reduction comes in a later loop than the reduction, and what it
// needs beside, it computes again in its own loop.
class KernelBytes {
 public:
  KernelBytes(const Graph& graph, const std::vector<int>& ops) : graph_(graph), ops_(ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const FusionOp& op = graph.op(ops[i]);
      if (op.kind != FusionKind::kReduction || op.elements <= 0.0) continue;
      space_ = op.elements;
      row_ = op.row;
    }
    find_makers();
    find_loops();
  }

  [[nodiscard]] FusedKernel run() const {
    FusedKernel kernel{.ops = ops_};
    double alone = 0.0;
    for (const int n : ops_) {
      const Moved moved = moved_alone(graph_, n);
      alone += moved.read + moved.written;
    }
    std::set<int> kept;
    for (const int n : ops_) {
      for (const int tensor : graph_.op(n).writes) {
        if (!graph_.is_view(n) && written_.contains(graph_.root(tensor))) kept.insert(tensor);
      }
    }
    kernel.bytes_written = sum(bytes_by_root(graph_, kept));
    std::set<int> tensors;
    std::map<int, std::set<int>> loops;  // by root that comes from outside
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const int tensor : outside_[i]) {
        tensors.insert(tensor);
        if (is_whole(i)) loops[graph_.root(tensor)].insert(loops_[i].begin(), loops_[i].end());
      }
    }
    const std::map<int, double> bytes = bytes_by_root(graph_, tensors);
    double in_rows = 0.0;
    for (const auto& [root, each] : loops) in_rows += bytes.at(root);
    const bool is_cached = space_ <= 0.0 || in_rows * row_ / space_ <= kCachedRowBytes;
    for (const auto& [root, each] : bytes) {
      const auto found = loops.find(root);
      const std::size_t times = is_cached || found == loops.end() ? 1 : found->second.size();
      kernel.bytes_read += each * static_cast<double>(std::max<std::size_t>(times, 1));
    }
    kernel.bytes_read = std::min(kernel.bytes_read, alone - kernel.bytes_written);
    return kernel;
  }

 private:
  // Whether an operator runs over the whole space, not over the results of the reduction or over
  // what is broadcast.
  [[nodiscard]] bool is_whole(std::size_t i) const {
    return space_ > 0.0 && graph_.op(ops_[i]).elements == space_;
  }

  [[nodiscard]] bool reduces(std::size_t i) const {
    return graph_.op(ops_[i]).kind == FusionKind::kReduction;
  }

  void find_makers() {
    std::map<int, std::size_t> maker;  // by root
    makers_.resize(ops_.size());
    outside_.resize(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const int tensor : graph_.op(ops_[i]).reads) {
        const auto found = maker.find(graph_.root(tensor));
        if (found == maker.end()) {
          outside_[i].insert(tensor);
        } else {
          makers_[i].insert(found->second);
        }
      }
      for (const int root : graph_.roots_written(ops_[i])) maker[root] = i;
    }
    const std::set<int> own(ops_.begin(), ops_.end());
    const auto is_outside = [&](int op) { return !own.contains(op); };
    for (const auto& [root, i] : maker) {
      if (graph_.stays(root) || graph_.readers(root).empty() ||
          std::ranges::any_of(graph_.readers(root), is_outside) ||
          std::ranges::any_of(graph_.writers(root), is_outside)) {
        written_.insert(root);
      }
    }
  }

  // Which loop each operator of the whole space runs in, and in which it is computed again.
  void find_loops() {
    std::vector<int> own(ops_.size(), 0);   // the first loop that can run the operator
    std::vector<int> done(ops_.size(), 0);  // the first loop that can use its result
    loops_.resize(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const std::size_t maker : makers_[i]) own[i] = std::max(own[i], done[maker]);
      done[i] = own[i] + (reduces(i) ? 1 : 0);
    }
    // From the last operator to the first: in which loops its readers need it.
    for (std::size_t i = ops_.size(); i-- > 0;) {
      if (!is_whole(i)) continue;
      const bool is_written = std::ranges::any_of(
          graph_.roots_written(ops_[i]), [&](int root) { return written_.contains(root); });
      if (reduces(i) || is_written || loops_[i].empty()) loops_[i].insert(own[i]);
      for (const std::size_t maker : makers_[i]) {
        if (!reduces(maker)) loops_[maker].insert(loops_[i].begin(), loops_[i].end());
      }
    }
  }

  const Graph& graph_;
  const std::vector<int>& ops_;
  double space_ = 0.0;  // elements of the space of its reductions; 0: it has none
  double row_ = 0.0;
  std::vector<std::set<std::size_t>>
      makers_;                          // by operator: those of the kernel that it reads from
  std::vector<std::set<int>> outside_;  // by operator: the tensors from outside that it reads
  std::vector<std::set<int>> loops_;    // by operator of the whole space
  std::set<int> written_;               // roots
};

// Puts each view into the kernel that makes what it views, or else into the first that reads it.
void add_views(const Graph& graph, std::vector<FusedKernel>& kernels) {
  const int count = static_cast<int>(graph.ops().size());
  const int nowhere = static_cast<int>(kernels.size());
  std::vector<int> kernel_of(to_index(count), nowhere);
  for (int k = 0; k < nowhere; ++k) {
    for (const int n : kernels[to_index(k)].ops) kernel_of[to_index(n)] = k;
  }
  std::vector<int> first_reader(graph.tensors(), nowhere);
  for (int n = count - 1; n >= 0; --n) {
    const FusionOp& op = graph.op(n);
    int needed = kernel_of[to_index(n)];
    if (graph.is_view(n)) {
      for (const int tensor : op.writes) {
        needed = std::min(needed, first_reader[to_index(tensor)]);
      }
      kernel_of[to_index(n)] = needed;
    }
    for (const int tensor : op.reads) {
      first_reader[to_index(tensor)] = std::min(first_reader[to_index(tensor)], needed);
    }
  }
  std::vector<int> made_by(graph.tensors(),
                           -1);  // by tensor: the kernel of its view, or of its root
  std::vector<FusedKernel> alone;
  for (int n = 0; n < count; ++n) {
    const FusionOp& op = graph.op(n);
    int place = kernel_of[to_index(n)];
    if (!graph.is_view(n)) {
      for (const int root : graph.roots_written(n)) made_by[to_index(root)] = place;
      continue;
    }
    // A view of a view that was made before its root changed in place comes after both.
    const int maker =
        std::max(made_by[to_index(op.reads[0])], made_by[to_index(graph.root(op.reads[0]))]);
    if (maker >= 0) place = maker;
    for (const int tensor : op.writes) made_by[to_index(tensor)] = place;
    if (place < nowhere) {
      kernels[to_index(place)].ops.push_back(n);
    } else {
      alone.push_back({.ops = {n}});
    }
  }
  for (FusedKernel& kernel : kernels) std::sort(kernel.ops.begin(), kernel.ops.end());
  kernels.insert(kernels.end(), alone.begin(), alone.end());
}

}  // namespace

std::vector<FusedKernel> fuse(std::span<const FusionOp> ops,
                              std::span<const FusionTensor> tensors) {
  const Graph graph(ops, tensors);
  std::vector<FusedKernel> kernels;
  for (const std::vector<int>& group : Fuser(graph).run()) {
    if (graph.op(group[0]).kind == FusionKind::kBarrier) {
      const Moved moved = moved_alone(graph, group[0]);
      kernels.push_back({.ops = group, .bytes_read = moved.read, .bytes_written = moved.written});
    } else {
      kernels.push_back(KernelBytes(graph, group).run());
    }
  }
  add_views(graph, kernels);
  return kernels;
}

std::vector<FusedKernel> unfused(std::span<const FusionOp> ops,
                                 std::span<const FusionTensor> tensors) {
  const Graph graph(ops, tensors);
  std::vector<FusedKernel> kernels;
  for (int n = 0; n < static_cast<int>(ops.size()); ++n) {
    const Moved moved = moved_alone(graph, n);
    kernels.push_back({.ops = {n}, .bytes_read = moved.read, .bytes_written = moved.written});
  }
  return kernels;
}

}  // namespace shardlab
