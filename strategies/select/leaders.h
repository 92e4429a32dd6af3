// The candidates that compete for the least total, and the best total of the others.
//
//   const Leaders leaders(totals);
//   leaders.indices()                           // these may tie: ties_at_minimum() decides
//
// All totals are read once, to find the least of each block of 64. Only blocks whose least total is
// near the least of all are read again, so that a choice among thousands of candidates costs little
// more than one pass.
#pragma once

#include <limits>
#include <span>
#include <vector>

namespace shardlab {

class Leaders {
 public:
  explicit Leaders(std::span<const double> totals);

  [[nodiscard]] const std::vector<std::size_t>& indices() const { return indices_; }  // ascending
  [[nodiscard]] double others() const { return others_; }  // infinity where there are no others

 private:
  std::vector<std::size_t> indices_;
  double others_ = std::numeric_limits<double>::infinity();
};

}  // namespace shardlab
