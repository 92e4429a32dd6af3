#include "runner/launch/guests.h"

#include <optional>
#include <utility>
#include <vector>

namespace shardlab {
namespace {

// A connection that has not introduced itself yet.
struct Guest {
  Socket socket;
  Deadline until;
  std::vector<std::byte> hello;
  std::size_t received = 0;

  [[nodiscard]] bool has_spoken() const { return received == hello.size(); }
  // Reads what has arrived so far. False: the guest has left.
  [[nodiscard]] bool hear() {
    const auto count = receive_now(socket, std::span(hello).subspan(received));
    if (count) received += *count;
    return count.has_value();
  }
};

}  // namespace

bool hear_guests(const Socket& listener, std::size_t hello_bytes, Deadline deadline,
                 const JudgeGuest& judge) {
  std::vector<Guest> guests;
  while (true) {
    Deadline next = deadline;
    std::vector<const Socket*> waited = {&listener};
    for (const Guest& guest : guests) {
      waited.push_back(&guest.socket);
      next = std::min(next, guest.until);
    }
    wait_for_any(waited, next);
    const Deadline now = std::chrono::steady_clock::now();
    for (Socket peer = accept_from(listener, now); peer.is_open();
         peer = accept_from(listener, now)) {
      if (guests.size() == kMaxGuests) guests.erase(guests.begin());
      guests.push_back(
          {std::move(peer), deadline_in(kHelloLimit), std::vector<std::byte>(hello_bytes), 0});
    }
    std::vector<Guest> silent;
    for (Guest& guest : guests) {
      if (!guest.hear()) continue;
      if (guest.has_spoken()) {
        if (judge(std::move(guest.socket), guest.hello)) return true;
      } else if (guest.until > now) {
        silent.push_back(std::move(guest));
      }
    }
    guests = std::move(silent);
    if (milliseconds_until(deadline) == 0) return false;
  }
}

}  // namespace shardlab
