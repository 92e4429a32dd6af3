// Ctrl-C as a wish to get what is there: while an Interrupt lives, the first SIGINT only sets a
// flag that a long computation looks at. A second one ends the program as usual.
//
//   const Interrupt interrupt;
//   solver.solve({.patience = {.takes_gap = true, .stop = interrupt.flag()}});
//   if (interrupt.came()) ...
//
// The process has one flag: if several Interrupts live, in one thread or in several, a signal stops
// the work of all. The end of the last one puts the earlier reaction to SIGINT back. If the process
// had a handler of its own, as Python has, that handler is called for each signal too, and a second
// signal ends nothing.
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
};

}  // namespace shardlab
