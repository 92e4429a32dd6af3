// The ranks of one communicator of the mock. They meet by a key, in processes or threads of one
// host, and pass messages through sockets.
//
//   auto peers = Peers::meet(key, rank, size, "what the others should know of me");
//   peers->send(1, bytes);                       // never blocks for long
//   if (auto bytes = peers->receive(1)) ...      // in order; empty if rank 1 is gone
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shardlab::mock_gpu {

class Peers {
 public:
  // Waits until all have come, for ever if need be. Throws std::system_error where there are no
  // sockets.
  [[nodiscard]] static std::shared_ptr<Peers> meet(const std::string& key, int rank, int size,
                                                   const std::string& card);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  ~Peers();

  [[nodiscard]] const std::vector<std::string>& cards() const { return cards_; }  // by rank
  void send(int peer, std::span<const std::byte> bytes);
  [[nodiscard]] std::optional<std::vector<std::byte>> receive(int peer);

 private:
  struct Inbox;
  Peers() = default;
  void join(int peer, int socket, const std::string& card);

  int rank_ = 0;
  std::vector<int> sockets_;  // by peer; -1 for this rank itself
  std::vector<std::shared_ptr<Inbox>> inboxes_;
  std::vector<std::string> cards_;
};

}  // namespace shardlab::mock_gpu
