// Lets the processes of one measurement meet and exchange small messages, through a star of TCP
// connections around the process of rank 0.
//
//   Rendezvous meeting = Rendezvous::join(place, 60.0, deadline_in(300));
//   const std::string id = meeting.broadcast(meeting.rank() == 0 ? make_id() : "");
//   const std::vector<std::string> all = meeting.all_gather(mine);      // by rank
//
// Calls are collective: every process must make the same calls in the same order. If a process
// leaves, or the time limit passes, a call throws an EnvironmentError that names the process.
//
// Rank 0 listens at the address of the place alone, and hears all guests at once (guests.h). A
// guest that does not speak the protocol (a port scanner), or that does not know the place's
// secret, is dropped; the others never notice it. A guest that claims a rank which is taken, or
// another number of ranks, is told so. If the secret says that it is one of ours, nobody can begin
// any more, and all ranks are told the reason; without a secret it may be anyone, so the others go
// on waiting. The secret travels as it is: it keeps strangers out, and does not hide what is said
// from those who can listen on the network.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runner/launch/place.h"
#include "runner/launch/socket.h"

namespace shardlab {

// What a message of all_gather and broadcast may have if the caller does not expect more, in bytes.
inline constexpr std::size_t kSmallMessage = std::size_t{1} << 16U;

class Rendezvous {
 public:
  // A world with only this process.
  Rendezvous() = default;
  // Waits until all ranks have joined. Throws EnvironmentError if a rank is missing or joins twice,
  // if processes disagree about their number, if the port is in use, or if the place's address is
  // none of this host's. `deadline` limits all later calls, `patience_s` limits the wait for the
  // ranks.
  [[nodiscard]] static Rendezvous join(const LaunchPlace& place, double patience_s,
                                       Deadline deadline);

  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  // The address under which the other hosts reach this one.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] Deadline deadline() const { return deadline_; }

  // The same on all processes; "" if they share none.
  [[nodiscard]] const std::string& secret() const { return secret_; }

  // A message of more than `most` bytes ends the call with an EnvironmentError before room is made
  // for it.
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine,
                                                    std::size_t most = kSmallMessage);
  [[nodiscard]] std::string broadcast(const std::string& of_rank_0,
                                      std::size_t most = kSmallMessage);
  void barrier();

  // A process whose connection is closed, such as "rank 2"; "" if there is none. It may be called
  // while another thread is in one of the other calls. Rank 0 notices when any rank leaves; the
  // others notice only when rank 0 leaves.
  [[nodiscard]] std::string who_left() const;

 private:
  void send_text(const Socket& socket, std::int64_t to, std::string_view text) const;
  [[nodiscard]] std::string receive_text(const Socket& socket, std::int64_t from,
                                         std::size_t most) const;
  void welcome_all(const LaunchPlace& place, double patience_s, Deadline meeting);

  std::int64_t rank_ = 0;
  std::int64_t size_ = 1;
  std::string address_ = "127.0.0.1";
  std::string secret_;
  Deadline deadline_ = Deadline::max();
  std::vector<Socket> peers_;  // for rank 0, one per rank; for the others only rank 0's
};

}  // namespace shardlab
