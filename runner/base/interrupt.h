// Ctrl-C as a wish to get what is there: while an Interrupt lives, the first SIGINT only sets a
// flag that a long computation looks at. A second one ends the program as usual.
//
//   const Interrupt interrupt;
//   solver.solve({.patience = {.takes_gap = true, .stop = interrupt.flag()}});
//   if (interrupt.came()) ...
//
// There may be one at a time. Its end puts the earlier reaction to SIGINT back.
#pragma once

#include <atomic>
#include <csignal>

namespace shardlab {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] const std::atomic<bool>* flag() const;
  [[nodiscard]] bool came() const { return flag()->load(); }

 private:
  struct sigaction before_ = {};
};

}  // namespace shardlab
