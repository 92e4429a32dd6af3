#include "runner/base/interrupt.h"

namespace shardlab {
namespace {

// A handler may only touch what is lock-free.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_interrupt(int) { interrupted = true; }

}  // namespace

Interrupt::Interrupt() {
  interrupted = false;
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  action.sa_flags =
      static_cast<int>(SA_RESETHAND | SA_RESTART);  // a second signal does what it did before
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &before_, nullptr); }

const std::atomic<bool>* Interrupt::flag() const { return &interrupted; }

}  // namespace shardlab
