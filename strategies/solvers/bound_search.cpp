// Each round sweeps, looks for an assignment and tries to close the gap. If it cannot, it drops the
// values that are too expensive.
#include "strategies/solvers/bound_search.h"

#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// Sweeps in one round. Status: measured; LLaMA3-8B takes 16 to 24 at 2 to 32 layers.
constexpr int kSweepsOfBound = 8;
// When looking for an assignment, each tolerance is this many times the one before it.
constexpr double kStep = 5.0;
// How many joint costs an elimination may take in the first round, for each cost that a sweep
// reads.
constexpr double kWorkPerCost = 0.5;
// Values are dropped, and elimination is tried again, only when at most this share of them is left.
constexpr double kWorthDropping = 0.7;
// Joint costs that elimination goes through in a second. Status: assumed, as kMostWork is.
constexpr double kWorkPerSecond = 1e8;

std::size_t values_left(const Reparametrisation& costs, double tolerance) {
  return static_cast<std::size_t>(
      std::ranges::count_if(costs.excess, [&](double excess) { return excess <= tolerance; }));
}

double mean_of_positive(const std::vector<double>& values) {
  double sum = 0.0;
  double count = 0.0;
  for (const double value : values) {
    if (value <= 0.0) continue;
    sum += value;
    count += 1.0;
  }
  return count > 0.0 ? sum / count : 0.0;
}

}  // namespace

double Patience::seconds_left() const {
  if (stop != nullptr && *stop) return 0.0;
  if (!until) return kForbidden;
  const std::chrono::duration<double> left = *until - std::chrono::steady_clock::now();
  return std::max(left.count(), 0.0);
}

double Patience::work_left() const { return kWorkPerSecond * seconds_left(); }

BoundSearch::BoundSearch(const CutNetwork& cut, std::vector<double> extra)
    : whole_(cut),
      whole_extra_(std::move(extra)),
      position_in_whole_(to_index(cut.nodes())),
      extra_(whole_extra_) {
  for (int v = 0; v < cut.nodes(); ++v) {
    for (std::size_t x = 0; x < cut.values(v).size(); ++x) {
      position_in_whole_[to_index(v)].push_back(static_cast<int>(x));
    }
  }
}

std::vector<int> BoundSearch::positions(const std::vector<int>& small) const {
  std::vector<int> out = tied_->positions(small);
  for (std::size_t v = 0; v < out.size(); ++v) out[v] = position_in_whole_[v][to_index(out[v])];
  return out;
}

void BoundSearch::offer(const std::vector<int>& positions) {
  const double cost = current().cost(positions, extra_);
  if (!(cost < upper_)) return;
  upper_ = cost;
  best_ = positions;
  for (std::size_t v = 0; v < best_.size(); ++v)
    best_[v] = position_in_whole_[v][to_index(best_[v])];
  // The tolerance is relative to the sum of the terms' sizes, so that costs of both signs may
  // cancel, and it is larger than the rounding error of the largest term. Its least value, 1e-12
  // us, is negligible as a time.
  double terms = 0.0;
  double most = 0.0;
  const auto term = [&](double value) {
    terms += std::abs(value);
    most = std::max(most, std::abs(value));
  };
  const CutNetwork& cut = current();
  for (int v = 0; v < cut.nodes(); ++v) {
    const std::size_t offset = cut.first(v) + to_index(positions[to_index(v)]);
    term(cut.costs()[offset] + (extra_.empty() ? 0.0 : extra_[offset]));
  }
  for (const CutEdge& edge : cut.edges()) {
    term(cut.pool()[edge.a_major + to_index(positions[to_index(edge.a)]) * to_index(edge.b_values) +
                    to_index(positions[to_index(edge.b)])]);
  }
  tolerance_ = std::max({1e-9 * terms, 1e-11 * most, 1e-12});
}

BoundSearch::Attempt BoundSearch::eliminate(const Reparametrisation& costs, double tolerance,
                                            double most_work) {
  Attempt attempt;
  attempt.part.emplace(current(), costs, tolerance);
  if (attempt.part->empty()) return attempt;
  BucketTree tree(attempt.part->network(), most_work);
  if (tree.work() > most_work) {
    attempt.part.reset();
    return attempt;
  }
  attempt.part->fill(current(), costs);
  tree.run();
  attempt.minimum = tree.minimum();
  if (attempt.minimum < kForbidden) offer(attempt.part->positions(tree.best().values));
  return attempt;
}

// Tries larger and larger tolerances, until one leaves an assignment, or leaves too much to go
// through.
void BoundSearch::find_upper(const Reparametrisation& costs, double most_work) {
  if (confirmed_ || costs.excess.empty()) return;
  const double before = upper_;
  const double start = found_at_ >= 0.0 ? found_at_ / kStep : 1e-3 * mean_of_positive(costs.excess);
  const double most = *std::ranges::max_element(costs.excess);
  double tolerance = start;
  for (int tries = 0; tries < 12; ++tries, tolerance *= kStep) {
    if (upper_ - costs.bound <= tolerance) return;
    const Attempt attempt = eliminate(costs, tolerance, most_work);
    if (!attempt.part) return;
    if (attempt.minimum < kForbidden) {
      confirmed_ = found_at_ >= 0.0 && upper_ == before;
      found_at_ = tolerance;
      return;
    }
    if (tolerance >= most) return;
  }
}

// Goes through everything that may cost less than the best assignment, if that is little enough.
// Returns whether the search is finished.
bool BoundSearch::close(const Reparametrisation& costs, double most_work) {
  double gap = upper_ - costs.bound + tolerance_;
  if (upper_ == kForbidden) gap = kForbidden;
  const std::size_t left = values_left(costs, gap);
  if (refused_ > 0 && static_cast<double>(left) > kWorthDropping * static_cast<double>(refused_)) {
    return false;
  }
  Attempt attempt = eliminate(costs, gap, most_work);
  if (!attempt.part) {
    refused_ = left;
    return false;
  }
  if (upper_ == kForbidden) return true;  // the network is infeasible
  tighten(costs);
  return true;
}

// Assumes that the minimum is known. Drops everything that costs more and continues to sweep over
// the little that is left, to make the proof and the part that ties with the minimum small.
void BoundSearch::tighten(Reparametrisation costs) {
  constexpr int kRounds = 12;
  double last = 0.0;
  for (int round = 0;; ++round) {
    const double limit = upper_ - costs.bound + tolerance_;
    tied_.emplace(current(), costs, limit);
    SHARDLAB_CHECK(!tied_->empty(), "the optimum was dropped at ", limit);
    const double work = BucketTree(tied_->network()).work();
    // Nothing more can be gained: the work is a thousandth of a sweep, or no smaller than before.
    if (round == kRounds || work < 1e3 || (round > 0 && work > 0.9 * last)) break;
    last = work;
    drop_all_but(tied_->kept(), costs);
    for (int i = 0; i < 2 * kSweepsOfBound; ++i) dual_->sweep(DualAscent::Decoding::kNo);
    costs = dual_->reparametrised();
  }
  tied_->fill(current(), costs);
  tied_bound_ = costs.bound;
  proof_.threshold = upper_ + tolerance_;
}

void BoundSearch::keep_messages(const std::vector<double>& messages) {
  if (!own_) {
    messages_ = messages;
    return;
  }
  for (std::size_t e = 0; e < whole_.edges().size(); ++e) {
    const CutEdge& to = whole_.edges()[e];
    const CutEdge& from = own_->edges()[e];
    for (int x = 0; x < from.a_values; ++x) {
      messages_[to.a_message + to_index(position_in_whole_[to_index(to.a)][to_index(x)])] =
          messages[from.a_message + to_index(x)];
    }
    for (int y = 0; y < from.b_values; ++y) {
      messages_[to.b_message + to_index(position_in_whole_[to_index(to.b)][to_index(y)])] =
          messages[from.b_message + to_index(y)];
    }
  }
}

void BoundSearch::note_stage() {
  BoundProof::Stage stage;
  const CutNetwork& cut = current();
  stage.values.reserve(to_index(cut.nodes()));
  for (int v = 0; v < cut.nodes(); ++v) {
    stage.values.emplace_back(cut.values(v).begin(), cut.values(v).end());
  }
  stage.messages = dual_->messages();
  keep_messages(stage.messages);
  proof_.stages.push_back(std::move(stage));
}

// Drops the values that cannot take part in an assignment as cheap as the best one, once there are
// many of them.
void BoundSearch::shrink(const Reparametrisation& costs) {
  if (upper_ == kForbidden) return;
  const double gap = upper_ - costs.bound + tolerance_;
  const Restricted part(current(), costs, gap);
  SHARDLAB_CHECK(!part.empty(), "the best assignment was dropped at ", gap);
  std::size_t left = 0;
  for (const std::vector<int>& values : part.kept()) left += values.size();
  if (static_cast<double>(left) > kWorthDropping * static_cast<double>(current().values())) return;
  drop_all_but(part.kept(), costs);
}

void BoundSearch::drop_all_but(const std::vector<std::vector<int>>& left,
                               const Reparametrisation& costs) {
  const CutNetwork& cut = current();
  note_stage();
  auto next = std::make_unique<CutNetwork>(cut, left);
  std::vector<double> extra;
  std::vector<double> messages(next->messages());
  for (int v = 0; v < cut.nodes(); ++v) {
    for (const int x : left[to_index(v)]) {
      if (!extra_.empty()) extra.push_back(extra_[cut.first(v) + to_index(x)]);
    }
  }
  for (std::size_t e = 0; e < cut.edges().size(); ++e) {
    const CutEdge& from = cut.edges()[e];
    const CutEdge& to = next->edges()[e];
    for (int x = 0; x < to.a_values; ++x) {
      messages[to.a_message + to_index(x)] =
          costs.messages[from.a_message + to_index(left[to_index(to.a)][to_index(x)])];
    }
    for (int y = 0; y < to.b_values; ++y) {
      messages[to.b_message + to_index(y)] =
          costs.messages[from.b_message + to_index(left[to_index(to.b)][to_index(y)])];
    }
  }
  for (std::size_t v = 0; v < position_in_whole_.size(); ++v) {
    std::vector<int> places;
    for (const int x : left[v]) places.push_back(position_in_whole_[v][to_index(x)]);
    position_in_whole_[v] = std::move(places);
  }
  own_ = std::move(next);
  extra_ = std::move(extra);
  dual_.emplace(*own_, extra_);
  dual_->set_messages(std::move(messages));
}

void BoundSearch::give_up() {
  note_stage();
  proof_.threshold = upper_ + tolerance_;
  proof_.eliminates = false;
}

void BoundSearch::run(std::vector<double> messages, const Patience& patience,
                      const std::vector<int>& known) {
  dual_.emplace(whole_, extra_);
  messages_.assign(whole_.messages(), 0.0);
  if (!messages.empty()) dual_->set_messages(std::move(messages));
  double reads = 0.0;  // how many costs a sweep reads
  double most = 0.0;   // an upper bound on the cost of any allowed assignment
  for (const CutEdge& edge : whole_.edges()) {
    reads += static_cast<double>(edge.a_values) * edge.b_values;
  }
  most = (reads + static_cast<double>(whole_.values()) + 1.0) * CostNetwork::kMaxCost;
  if (!known.empty()) offer(known);
  double last = -kForbidden;
  for (double most_work = 1e5 + kWorkPerCost * reads;;) {
    for (int i = 1; i < kSweepsOfBound; ++i) dual_->sweep(DualAscent::Decoding::kNo);
    dual_->sweep();
    sweeps_ += kSweepsOfBound;
    if (dual_->bound() > most) break;  // the network is infeasible
    if (!dual_->decoded().empty()) offer(dual_->decoded());
    const Reparametrisation costs = dual_->reparametrised();
    const bool is_near = is_feasible() && upper_ - costs.bound <= patience.gap * std::abs(upper_);
    if (patience.takes_gap && patience.gap > 0.0 && is_near) return give_up();
    const double seconds_left = patience.seconds_left();
    // The time limit does not count until an assignment is known, since there would be nothing to
    // return.
    const double possible_work =
        is_feasible() ? std::min(most_work, patience.work_left()) : most_work;
    find_upper(costs, possible_work);
    if (close(costs, possible_work)) break;
    if (seconds_left <= 0.0 && patience.takes_gap && is_feasible()) return give_up();
    const bool stalls =
        costs.bound - last <= 1e-3 * (upper_ < kForbidden ? upper_ - costs.bound : 1.0);
    if (stalls) {
      if (most_work >= kMostWork) {
        if (patience.takes_gap && is_feasible()) return give_up();
        throw LimitError(
            "the network is too entangled to be solved: more than 1e9 joint costs are left "
            "after its bounds have dropped what they can");
      }
      most_work = std::min(4.0 * most_work, kMostWork);
      refused_ = 0;
      confirmed_ = false;
    }
    last = costs.bound;
    shrink(costs);
  }
  if (is_feasible()) note_stage();
}

}  // namespace shardlab
