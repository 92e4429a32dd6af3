// Lower bounds of a cost-function network by dual ascent, with the reparametrisation that proves them.
//
// A message is one number per value of one end of an edge: what the edge hands to that end. Costs move,
// their sum stays: edge costs less both messages plus value costs plus all messages of the edges there
// price every assignment as before. So the least cost of every node and edge, summed, is a bound.
// A sweep visits the nodes in order: each takes what its edges can give (no cost of an edge becomes
// negative), then hands equal shares of its excess over its least cost to the edges ahead. Bounds
// never fall. Equal to the linear relaxation over the local polytope only where the ascent
// does not stall; the exact solver does not depend on it.
//
//   DualAscent dual(cut);
//   dual.sweep(); dual.sweep();           // forwards, backwards
//   dual.bound(); dual.excess();          // of each value: bound + excess bounds what it takes part in
//
// A sweep reads every table once: about 0.5 ns a cost. Not thread safe.
//
// Source: sequential reweighted message passing: Kolmogorov, "A new look at reweighted message
// passing", IEEE TPAMI 37 (2015).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strategies/solvers/cut_network.h"

namespace shardlab {

// Costs as messages leave them. All but `bound` is at least zero.
struct Reparametrisation {
  double bound = 0.0;          // what every assignment costs at least, constant left out
  std::vector<double> node;    // of each value, above its node's least
  std::vector<double> excess;  // bound + excess: what an assignment with the value costs at least
  std::vector<double> edge;    // edge -> its least cost
  std::vector<double> own;     // by message: the part of an excess that comes from that edge
  std::vector<double> messages;
};

class DualAscent {
 public:
  // Keeps a reference. `extra`: added to the cost of each value (empty: nothing), as budgets are priced.
  explicit DualAscent(const CutNetwork& cut, std::span<const double> extra = {});

  enum class Decoding : std::uint8_t { kNo, kYes };

  // One sweep, forwards and backwards in turn. Returns the bound, constant left out.
  double sweep(Decoding decoding = Decoding::kYes);
  [[nodiscard]] double bound() const { return bound_; }
  // The assignment (positions in the sets) that the last sweep decoded to. Empty when it did
  // not decode, or ran into a forbidden pair.
  [[nodiscard]] const std::vector<int>& decoded() const { return decoded_; }

  [[nodiscard]] Reparametrisation reparametrised() const;
  [[nodiscard]] const std::vector<double>& messages() const { return messages_; }
  // Starts from known messages: any are valid.
  void set_messages(std::vector<double> messages);

 private:
  void collect(const CutEdge& edge, bool to_b);

  const CutNetwork& cut_;
  std::vector<double> costs_;
  std::vector<double> messages_;
  std::vector<double> theta_;  // of one node
  std::vector<double> choice_;
  std::vector<int> decoded_;
  bool forwards_ = true;
  bool fresh_ = true;
  double bound_ = 0.0;
};

}  // namespace shardlab
