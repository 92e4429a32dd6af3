// The processes of one measurement meet, and pass small messages: a star of TCP connections around
// the process of rank 0.
//
//   Rendezvous meeting = Rendezvous::join(place, deadline_in(60));
//   const std::string id = meeting.broadcast(meeting.rank() == 0 ? make_id() : "");
//   const std::vector<std::string> all = meeting.all_gather(mine);      // by rank
//
// Calls are collective: every process makes the same calls in the same order. If a process leaves
// or the time limit passes, a call ends with an EnvironmentError, which names the process.
// Connections that do not speak the protocol (a port scanner's, say) are dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runner/launch/place.h"
#include "runner/launch/socket.h"

namespace shardlab {

class Rendezvous {
 public:
  // A world of one process.
  Rendezvous() = default;
  // Waits until all have come. Throws EnvironmentError if a rank is missing or comes twice, if
  // processes disagree about their number, or if the port is in use. `deadline` holds for all calls
  // to come, `patience_s` for the meeting itself.
  [[nodiscard]] static Rendezvous join(const LaunchPlace& place, double patience_s,
                                       Deadline deadline);

  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  // This host's address as the others reach it.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] Deadline deadline() const { return deadline_; }

  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine);
  [[nodiscard]] std::string broadcast(const std::string& of_rank_0);
  void barrier();

  // A process whose connection is closed, "rank 2"; "" when there is none. Another thread may be in
  // one of the other calls meanwhile. Rank 0 notices when any rank leaves; the others notice only
  // when rank 0 does.
  [[nodiscard]] std::string who_left() const;

 private:
  void send_text(const Socket& socket, std::int64_t to, std::string_view text) const;
  [[nodiscard]] std::string receive_text(const Socket& socket, std::int64_t from) const;

  std::int64_t rank_ = 0;
  std::int64_t size_ = 1;
  std::string address_ = "127.0.0.1";
  Deadline deadline_ = Deadline::max();
  std::vector<Socket> peers_;  // rank 0 has one per rank; the others have only rank 0, first
};

}  // namespace shardlab
