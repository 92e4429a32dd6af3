// Finds the exact minimum of a cut network, guided by bounds. Sweeps of dual ascent raise the
// bound; then exact elimination goes through what the bound leaves. If too much is left, more
// sweeps over that part follow.
//
// Suppose that messages prove the bound LB and that some assignment costs UB. Then every assignment
// with a value whose excess is above UB - LB costs more than UB, so the cheapest assignment over
// the other values is an optimum, however wide the gap is. The quality of the ascent only affects
// how much is left to eliminate.
//
//   BoundSearch search(cut, {});
//   search.run();
//   search.is_feasible(); search.minimum(); search.tied();
//
// Throws LimitError if the bounds stall while elimination would still take more than kMostWork. A
// caller that is content with a gap gets the best assignment so far instead, with a proof of how
// much an optimum may be below it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/base/index.h"
#include "strategies/solvers/restricted.h"

namespace shardlab {

// What proves a minimum, stage by stage. The messages of each stage drop values and pairs of values
// that only occur in assignments that cost more than `threshold`. The final elimination goes
// through what the last stage leaves.
struct BoundProof {
  struct Stage {
    std::vector<std::vector<int>> values;  // by node: the values that the messages refer to
    // By edge: one message for each value of its first end, then one for each of its second.
    std::vector<double> messages;
  };
  std::vector<Stage> stages;
  double threshold = 0.0;
  // Whether the proof ends with elimination. Without it, the messages of the last stage bound what
  // is left.
  bool eliminates = true;
};

// How long a search may go on before it takes the best assignment that it has.
struct Patience {
  bool takes_gap = false;  // whether it may end without the minimum at all
  double gap = 0.0;        // a gap with which it ends at once, relative to the best assignment
  std::optional<std::chrono::steady_clock::time_point> until = {};
  // Once this is true, time is up. Null if nothing sets it; else it outlives the search.
  const std::atomic<bool>* stop = nullptr;

  // How many seconds are left: zero or more, infinite without a limit.
  [[nodiscard]] double seconds_left() const;
  // How many joint costs an elimination may go through in that time.
  [[nodiscard]] double work_left() const;
};

class BoundSearch {
 public:
  static constexpr double kMostWork =
      1e9;  // joint costs. Status: assumed; at most ten seconds and 8 GiB

  // Keeps a reference to `cut`. `extra` is added to the costs of the values; if it is empty,
  // nothing is added.
  BoundSearch(const CutNetwork& cut, std::vector<double> extra);

  // Starts from these messages of the same cut network, and from an assignment that is known, as
  // positions in the cut network's value sets; either may be empty. Where time is up, the search
  // goes on until it has any assignment.
  void run(std::vector<double> messages = {}, const Patience& patience = {},
           const std::vector<int>& known = {});

  // Whether minimum() is only the cost of the best assignment that was found. tied() has nothing
  // then.
  [[nodiscard]] bool gave_up() const { return !proof_.eliminates; }
  [[nodiscard]] bool is_feasible() const { return upper_ < kForbidden; }
  [[nodiscard]] double minimum() const { return upper_; }
  // The best assignment, by node, as positions in the cut network's value sets.
  [[nodiscard]] const std::vector<int>& best() const { return best_; }
  // Costs that are at most this far apart count as equal: 1e-9 of the sum of the minimum's terms.
  [[nodiscard]] double tolerance() const { return tolerance_; }
  // The part of the network that contains every assignment of cost at most minimum() + tolerance().
  [[nodiscard]] const Restricted& tied() const { return *tied_; }
  // A value of tied(), and a solution of tied(), as positions in the value sets of `cut`.
  [[nodiscard]] int position(int node, int tied_position) const {
    return position_in_whole_[to_index(node)][to_index(tied_position)];
  }
  [[nodiscard]] std::vector<int> positions(const std::vector<int>& small) const;
  [[nodiscard]] double tied_bound() const {
    return tied_bound_;
  }  // cost = this + tied().base() + the cost in tied()

  [[nodiscard]] const BoundProof& proof() const { return proof_; }
  // The messages of the whole cut network, from which a later search may start.
  [[nodiscard]] const std::vector<double>& messages() const { return messages_; }
  [[nodiscard]] int sweeps() const { return sweeps_; }

 private:
  struct Attempt {
    std::optional<Restricted> part;
    double minimum = kForbidden;
  };
  Attempt eliminate(const Reparametrisation& costs, double tolerance, double most_work);
  void find_upper(const Reparametrisation& costs, double most_work);
  bool close(const Reparametrisation& costs, double most_work);
  void tighten(Reparametrisation costs);
  void shrink(const Reparametrisation& costs);
  void drop_all_but(const std::vector<std::vector<int>>& left, const Reparametrisation& costs);
  void offer(const std::vector<int>& positions);
  void note_stage();
  void give_up();
  void keep_messages(const std::vector<double>& messages);
  [[nodiscard]] const CutNetwork& current() const { return own_ ? *own_ : whole_; }

  const CutNetwork& whole_;
  std::vector<double> whole_extra_;
  std::unique_ptr<CutNetwork>
      own_;  // the part of the network that is left, once values were dropped
  std::vector<std::vector<int>> position_in_whole_;  // by node, then by value of current()
  std::vector<double> extra_;
  std::optional<DualAscent> dual_;
  double upper_ = kForbidden;
  std::vector<int> best_;
  double tolerance_ = 0.0;
  double found_at_ = -1.0;   // the tolerance that last gave an assignment; -1 where none has
  bool confirmed_ = false;   // whether a second search found no better assignment
  std::size_t refused_ = 0;  // how many values were left when elimination was last too much work
  std::optional<Restricted> tied_;
  double tied_bound_ = 0.0;
  BoundProof proof_;
  std::vector<double> messages_;
  int sweeps_ = 0;
};

}  // namespace shardlab
