#include "runner/session/long_loop.h"

#include <utility>

namespace shardlab {

LongLoop::LongLoop(Session& session, std::string what, std::size_t total)
    : LongLoop(session, std::move(what), total, session.quiet) {}

LongLoop::LongLoop(Session& session, std::string what, std::size_t total, bool quiet)
    : session_(session), what_(std::move(what)), total_(total), progress_(what_, total, quiet) {
  if (session.takes_interrupts) interrupt_.emplace();
}

LongLoop::~LongLoop() {
  if (!was_left()) return;
  session_.interruption = interruption();
}

std::string LongLoop::interruption() const {
  return "interrupted after " + std::to_string(done_) + " of " + std::to_string(total_) + " " +
         what_;
}

void LongLoop::advance(std::size_t by) {
  done_ += by;
  progress_.advance(by);
}

void LongLoop::skip(std::size_t done) {
  done_ += done;
  progress_.skip(done);
}

const std::atomic<bool>* LongLoop::stop() const {
  return interrupt_ ? interrupt_->flag() : nullptr;
}

bool LongLoop::was_left() const { return interrupt_ && interrupt_->came() && done_ < total_; }

}  // namespace shardlab
