#include "runner/base/interrupt.h"

#include <mutex>

namespace shardlab {
namespace {

// A handler may only touch what is lock-free.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

std::mutex lock;
int living = 0;           // how many Interrupts there are
struct sigaction before;  // what SIGINT did before the first of them
std::atomic<void (*)(int)> handler_before{nullptr};
static_assert(std::atomic<void (*)(int)>::is_always_lock_free);

void note_interrupt(int signal) {
  interrupted = true;
  if (const auto handler = handler_before.load()) handler(signal);
}

bool has_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler != SIG_DFL &&
         action.sa_handler != SIG_IGN;
}

}  // namespace

Interrupt::Interrupt() {
  const std::lock_guard guard(lock);
  if (living++ > 0) return;
  interrupted = false;
  sigaction(SIGINT, nullptr, &before);
  handler_before = has_handler(before) ? before.sa_handler : nullptr;
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  // Without a handler before it, a second signal does what it did before.
  action.sa_flags =
      handler_before.load() != nullptr ? SA_RESTART : static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

Interrupt::~Interrupt() {
  const std::lock_guard guard(lock);
  if (--living == 0) sigaction(SIGINT, &before, nullptr);
}

const std::atomic<bool>* Interrupt::flag() const { return &interrupted; }

}  // namespace shardlab
