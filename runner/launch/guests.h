// The guests at a door: hears all connections to a listener at once, and gives each of them
// kHelloLimit to introduce itself.
//
//   const bool all_came = hear_guests(listener, sizeof(Hello), deadline,
//                                     [&](Socket guest, std::span<const std::byte> hello) {
//                                       ...           // keep the socket, or let it close
//                                       return came == world;
//                                     });
//
// A silent guest delays nobody: it is dropped when its time is over, or when more than kMaxGuests
// are waiting and it has waited longest.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "runner/launch/socket.h"

namespace shardlab {

// How long a guest may take to introduce itself, in seconds.
inline constexpr double kHelloLimit = 2.0;
inline constexpr std::size_t kMaxGuests = 256;

// Is given a guest with its whole hello; returns whether nobody else is expected.
using JudgeGuest = std::function<bool(Socket guest, std::span<const std::byte> hello)>;

// Returns false if the deadline passes before `judge` returns true.
[[nodiscard]] bool hear_guests(const Socket& listener, std::size_t hello_bytes, Deadline deadline,
                               const JudgeGuest& judge);

}  // namespace shardlab
