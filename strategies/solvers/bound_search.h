// The exact minimum of a cut network, guided by bounds: sweeps of dual ascent, exact elimination of
// what the bound leaves, and again with what is left where that was too much.
//
// With messages that prove bound LB and any assignment of cost UB, an assignment with a value whose
// excess is above UB - LB costs more than UB. So the cheapest assignment over the other values is an
// optimum, whatever the gap; the ascent only decides how much is left to eliminate.
//
//   BoundSearch search(cut, {});
//   search.run();
//   search.is_feasible(); search.minimum(); search.tied();
//
// Throws LimitError where bounds stall and elimination takes more than kMostWork.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/base/index.h"
#include "strategies/solvers/restricted.h"

namespace shardlab {

// What proves a minimum, stage by stage: each stage's messages drop values and pairs that only occur in
// assignments dearer than `threshold`; the last leaves what the final elimination goes through.
struct BoundProof {
  struct Stage {
    std::vector<std::vector<int>> values;  // node -> the values that the messages are for
    std::vector<double> messages;  // edge after edge: the first end's values, then the second's
  };
  std::vector<Stage> stages;
  double threshold = 0.0;
};

class BoundSearch {
 public:
  static constexpr double kMostWork = 1e9;  // assumed: ten seconds and 8 GiB at most

  // Keeps references to `cut`. `extra`: added to the cost of each value; empty: nothing.
  BoundSearch(const CutNetwork& cut, std::vector<double> extra);

  // From known messages, when there are any (of the same cut network).
  void run(std::vector<double> messages = {});

  [[nodiscard]] bool is_feasible() const { return upper_ < kForbidden; }
  [[nodiscard]] double minimum() const { return upper_; }
  // Positions in the cut network's sets.
  [[nodiscard]] const std::vector<int>& best() const { return best_; }
  // Costs this near are equal: 1e-9 of the terms of the minimum.
  [[nodiscard]] double tolerance() const { return tolerance_; }
  // Everything that costs at most minimum() + tolerance(), and the positions in `cut` of its values.
  [[nodiscard]] const Restricted& tied() const { return *tied_; }
  [[nodiscard]] int position(int node, int tied_position) const {
    return place_[to_index(node)][to_index(tied_position)];
  }
  [[nodiscard]] std::vector<int> positions(const std::vector<int>& small) const;
  [[nodiscard]] double tied_bound() const { return tied_bound_; }  // + base() + small cost = cost

  [[nodiscard]] const BoundProof& proof() const { return proof_; }
  // Messages of the whole cut network, to start from again.
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
  void keep_messages(const std::vector<double>& messages);
  [[nodiscard]] const CutNetwork& current() const { return own_ ? *own_ : whole_; }

  const CutNetwork& whole_;
  std::vector<double> whole_extra_;
  std::unique_ptr<CutNetwork> own_;      // once values were dropped
  std::vector<std::vector<int>> place_;  // node -> positions in whole_ of the values of own_
  std::vector<double> extra_;
  std::optional<DualAscent> dual_;
  double upper_ = kForbidden;
  std::vector<int> best_;
  double tolerance_ = 0.0;
  double step_ = -1.0;       // the tolerance that last gave an assignment
  bool confirmed_ = false;   // and gave the same one as before
  std::size_t refused_ = 0;  // values that were left when elimination last took too much
  std::optional<Restricted> tied_;
  double tied_bound_ = 0.0;
  BoundProof proof_;
  std::vector<double> messages_;
  int sweeps_ = 0;
};

}  // namespace shardlab
