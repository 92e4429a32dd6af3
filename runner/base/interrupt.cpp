#include "runner/base/interrupt.h"

#include <array>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

// A handler may only touch what is lock-free, and may still run when an Interrupt ends. So the
// flags live as long as the process.
struct Slot {
  std::atomic<bool> is_taken{false};
  std::atomic<bool> came{false};
  std::thread::id owner;
};
static_assert(std::atomic<bool>::is_always_lock_free);
constexpr std::size_t kMostInterrupts = 64;
std::array<Slot, kMostInterrupts> slots;

std::mutex lock;          // guards `living`, `before` and the choice of a slot
int living = 0;           // how many Interrupts there are
struct sigaction before;  // what SIGINT did before the first of them

bool has_handler(const struct sigaction& action) {
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction != nullptr;
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// `before` does not change while this handler is installed.
void note_interrupt(int signal, siginfo_t* info, void* context) {
  for (Slot& slot : slots) {
    if (slot.is_taken) slot.came = true;
  }
  if (!has_handler(before)) return;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else {
    before.sa_handler(signal);
  }
}

void install() {
  sigaction(SIGINT, nullptr, &before);
  struct sigaction action = {};
  action.sa_sigaction = note_interrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  const bool ends_process = !has_handler(before) && before.sa_handler == SIG_DFL;
  if (ends_process) action.sa_flags |= static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  const std::lock_guard guard(lock);
  bool came = false;
  slot_ = kMostInterrupts;
  for (std::size_t i = kMostInterrupts; i-- > 0;) {
    if (!slots[i].is_taken) slot_ = i;
    came = came ||
           (slots[i].is_taken && slots[i].owner == std::this_thread::get_id() && slots[i].came);
  }
  if (slot_ == kMostInterrupts) {
    throw LimitError("more than " + std::to_string(kMostInterrupts) +
                     " searches run at the same time in one process");
  }
  slots[slot_].owner = std::this_thread::get_id();
  slots[slot_].came = came;
  slots[slot_].is_taken = true;
  if (living++ == 0) install();
}

Interrupt::~Interrupt() {
  const std::lock_guard guard(lock);
  slots[slot_].is_taken = false;
  if (--living == 0) sigaction(SIGINT, &before, nullptr);
}

const std::atomic<bool>* Interrupt::flag() const { return &slots[slot_].came; }

bool Interrupt::found_a_handler() const {
  const std::lock_guard guard(lock);
  return has_handler(before);
}

}  // namespace shardlab
