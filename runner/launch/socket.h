// TCP sockets with time limits, for the rendezvous and for the CPU backend.
//
//   Socket listener = listen_on("127.0.0.1", 0);            // any free port
//   Socket peer = connect_to("127.0.0.1", port_of(listener), deadline);
//   send_all(peer, bytes, deadline, rank_name(1));
//   receive_all(peer, answer, deadline, rank_name(1));
//
// All calls give up at their deadline. They throw EnvironmentError, which names the call, the error
// and the address.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardlab {

using Deadline = std::chrono::steady_clock::time_point;
[[nodiscard]] Deadline deadline_in(double seconds);
// Milliseconds until the deadline, in the form that poll() takes; 0 after the deadline.
[[nodiscard]] int milliseconds_until(Deadline deadline);

// How messages name another process: "rank 3".
[[nodiscard]] std::string rank_name(std::int64_t rank);

// The end of a message that blames another process: "rank 2 left: its connection closed".
inline constexpr std::string_view kLeft = " left: its connection closed";

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// Port 0 means any free port. If the port is in use, the error says so.
[[nodiscard]] Socket listen_on(const std::string& address, int port);
[[nodiscard]] int port_of(const Socket& listener);
// The address of this end of a connection.
[[nodiscard]] std::string local_address(const Socket& connection);
// Tries again until the deadline, because the other end may start later.
[[nodiscard]] Socket connect_to(const std::string& address, int port, Deadline deadline);
// Returns a socket that is not open if the deadline passes first.
[[nodiscard]] Socket accept_from(const Socket& listener, Deadline deadline);

// What has arrived already, at most as many bytes as there is room for; nothing if the other end
// has closed.
[[nodiscard]] std::optional<std::size_t> receive_now(const Socket& socket,
                                                     std::span<std::byte> bytes);
// Returns when one of the sockets can be read, or at the deadline.
void wait_for_any(std::span<const Socket* const> sockets, Deadline deadline);

// `peer` names the other end in messages.
void send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline,
              const std::string& peer);
void receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline,
                 const std::string& peer);
// Sends to one peer and receives from another at the same time, so that neither waits for the
// other.
void exchange(const Socket& to, std::span<const std::byte> out, const std::string& receiver,
              const Socket& from, std::span<std::byte> in, const std::string& sender,
              Deadline deadline);
// Whether the other end has closed.
[[nodiscard]] bool has_hung_up(const Socket& socket);

}  // namespace shardlab
