// Ctrl-C as a wish to get what is there: while an Interrupt lives, SIGINT sets a flag that a long
// computation looks at.
//
//   const Interrupt interrupt;
//   solver.solve({.patience = {.takes_gap = true, .stop = interrupt.flag()}});
//   if (interrupt.came()) ...
//
// A signal sets the flags of all Interrupts that live, in whichever thread. A new one has seen
// nothing, unless it lives within another one of its thread that has. The end of the last one puts
// the earlier reaction to SIGINT back.
//
// In the program, where SIGINT would end the process, a second signal does so. If the process has a
// handler of its own, as Python has, each signal calls that handler too, and ends nothing. Where
// SIGINT is ignored, the signals do no more than set the flags.
#pragma once

#include <atomic>
#include <cstddef>

namespace shardlab {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] const std::atomic<bool>* flag() const;
  [[nodiscard]] bool came() const { return flag()->load(); }
  // Whether the process already handled SIGINT when the first Interrupt began.
  [[nodiscard]] bool found_a_handler() const;

 private:
  std::size_t slot_;
};

}  // namespace shardlab
