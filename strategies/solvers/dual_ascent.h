// Lower bounds of a cost-function network by dual ascent, with the reparametrisation that proves
// them.
//
// A message holds one number for each value of one end of an edge: the cost that the edge hands to
// that end. Costs move, but their sum stays the same. Edges cost less by both of their messages,
// and values cost more by the messages that they get, so every assignment costs what it did before.
// So the least costs of all nodes and edges sum to a bound. A sweep visits the nodes in order: each
// node takes what its edges can give (no cost of an edge becomes negative), then hands equal shares
// of its excess over its least cost to the edges ahead. Bounds never fall. They reach the linear
// relaxation over the local polytope only where the ascent does not stall; the exact solver does
// not depend on it.
//
//   DualAscent dual(cut);
//   dual.sweep(); dual.sweep();           // forwards, backwards
//   dual.bound();                         // no assignment costs less
//   dual.reparametrised().excess;   // an assignment with a value costs at least bound + its excess
//
// A sweep reads every table once, which takes about 0.5 ns for each cost. Not thread safe.
//
// Source: sequential reweighted message passing: Kolmogorov, "A new look at reweighted message
// passing", IEEE TPAMI 37 (2015).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strategies/solvers/cut_network.h"

namespace shardlab {

// The costs after the messages have moved them. All figures except `bound` are at least zero.
struct Reparametrisation {
  double bound = 0.0;  // the least cost of any assignment is at least this, without the constant
  std::vector<double> node;  // by value: its cost above the least of its node
  std::vector<double>
      excess;  // by value: an assignment that has the value costs at least bound + excess
  std::vector<double> edge;  // by edge: its least cost
  std::vector<double> own;   // by message: how much its edge adds to the excess of the value
  std::vector<double> messages;
};

class DualAscent {
 public:
  // Keeps a reference to `cut`. `extra` is added to the cost of each value, as the charges for
  // budgets are; empty adds nothing.
  explicit DualAscent(const CutNetwork& cut, std::span<const double> extra = {});

  enum class Decoding : std::uint8_t { kNo, kYes };

  // One sweep, forwards and backwards in turn. Returns the bound, without the constant.
  double sweep(Decoding decoding = Decoding::kYes);
  [[nodiscard]] double bound() const { return bound_; }
  // The assignment that the last sweep decoded, as positions in the value sets. Empty when the
  // sweep did not decode or ran into a forbidden pair.
  [[nodiscard]] const std::vector<int>& decoded() const { return decoded_; }

  [[nodiscard]] Reparametrisation reparametrised() const;
  [[nodiscard]] const std::vector<double>& messages() const { return messages_; }
  // Starts from these messages; any numbers are valid.
  void set_messages(std::vector<double> messages);

 private:
  void collect(const CutEdge& edge, bool to_b);

  const CutNetwork& cut_;
  std::vector<double> costs_;
  std::vector<double> messages_;
  std::vector<double> theta_;  // costs of one node's values
  std::vector<double> choice_;
  std::vector<int> decoded_;
  bool forwards_ = true;
  bool fresh_ = true;  // whether no sweep has collected from the messages yet
  double bound_ = 0.0;
};

}  // namespace shardlab
