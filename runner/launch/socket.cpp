#include "runner/launch/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

constexpr auto kRetry = std::chrono::milliseconds(50);

std::string place_of(const std::string& address, int port) {
  return address + ":" + std::to_string(port);
}

[[noreturn]] void fail(const std::string& what, int error) {
  throw EnvironmentError(what + ": " + std::strerror(error));
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    throw EnvironmentError("rendezvous: " + place_of(address, port) + ": " + gai_strerror(code));
  }
  return {found, &freeaddrinfo};
}

Socket make_socket() {
  Socket out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out.is_open()) fail("socket", errno);
  return out;
}

void without_delay(const Socket& socket) {
  const int one = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

[[noreturn]] void fail_of_peer(const std::string& peer) {
  throw EnvironmentError(peer + std::string(kLeft));
}

[[noreturn]] void fail_of_time(const std::string& peer) {
  throw EnvironmentError(peer + " did not answer within the time limit");
}

bool is_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// Sends or receives a part of what is left. Returns false if no byte could be moved.
bool send_some(const Socket& socket, std::span<const std::byte>& left, const std::string& peer) {
  const ssize_t count = send(socket.fd(), left.data(), left.size(), MSG_NOSIGNAL);
  if (count > 0) {
    left = left.subspan(static_cast<std::size_t>(count));
    return true;
  }
  if (count < 0 && !is_later(errno)) fail_of_peer(peer);
  return false;
}

bool receive_some(const Socket& socket, std::span<std::byte>& left, const std::string& peer) {
  const ssize_t count = recv(socket.fd(), left.data(), left.size(), 0);
  if (count > 0) {
    left = left.subspan(static_cast<std::size_t>(count));
    return true;
  }
  if (count == 0 || !is_later(errno)) fail_of_peer(peer);
  return false;
}

void wait_for(std::span<pollfd> waiting, Deadline deadline, const std::string& peer) {
  const int left = milliseconds_until(deadline);
  if (left == 0) fail_of_time(peer);
  if (poll(waiting.data(), waiting.size(), left) < 0 && errno != EINTR) fail("poll", errno);
}

}  // namespace

Deadline deadline_in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

std::string rank_name(std::int64_t rank) { return "rank " + std::to_string(rank); }

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3600 * 1000));
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Socket::~Socket() { close(); }

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Socket listen_on(const std::string& address, int port) {
  const Addresses addresses = resolve(address, port);
  Socket out = make_socket();
  const int one = 1;
  setsockopt(out.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(out.fd(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      listen(out.fd(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) {
      throw EnvironmentError("rendezvous: port " + std::to_string(port) +
                             " is in use; choose another (--port, or MASTER_PORT)");
    }
    if (errno == EADDRNOTAVAIL) {
      throw EnvironmentError("rendezvous: " + address +
                             " is no address of this host; valid: MASTER_ADDR of the host on which "
                             "rank 0 runs");
    }
    fail("rendezvous: can't listen on " + place_of(address, port), errno);
  }
  return out;
}

int port_of(const Socket& listener) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  if (getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    fail("getsockname", errno);
  }
  return ntohs(name.sin_port);
}

std::string local_address(const Socket& connection) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  if (getsockname(connection.fd(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    fail("getsockname", errno);
  }
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &name.sin_addr, text.data(), text.size());
  return text.data();
}

Socket connect_to(const std::string& address, int port, Deadline deadline) {
  const Addresses addresses = resolve(address, port);
  while (true) {
    Socket out = make_socket();
    int error = 0;
    if (connect(out.fd(), addresses->ai_addr, addresses->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        pollfd waiting{out.fd(), POLLOUT, 0};
        poll(&waiting, 1, milliseconds_until(deadline));
        socklen_t size = sizeof error;
        if (waiting.revents == 0) {
          error = ETIMEDOUT;
        } else if (getsockopt(out.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
          error = errno;
        }
      }
    }
    if (error == 0) {
      without_delay(out);
      return out;
    }
    if (milliseconds_until(deadline) <= kRetry.count()) {
      throw EnvironmentError("rendezvous: nobody answers at " + place_of(address, port) + ": " +
                             std::strerror(error));
    }
    std::this_thread::sleep_for(kRetry);
  }
}

Socket accept_from(const Socket& listener, Deadline deadline) {
  while (true) {
    pollfd waiting{listener.fd(), POLLIN, 0};
    const int left = milliseconds_until(deadline);
    if (poll(&waiting, 1, left) < 0 && errno != EINTR) fail("poll", errno);
    Socket out(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (out.is_open()) {
      without_delay(out);
      return out;
    }
    if (!is_later(errno) && errno != ECONNABORTED) fail("accept", errno);
    if (left == 0) return out;
  }
}

std::optional<std::size_t> receive_now(const Socket& socket, std::span<std::byte> bytes) {
  if (bytes.empty()) return 0;
  const ssize_t count = recv(socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0) return static_cast<std::size_t>(count);
  if (count < 0 && is_later(errno)) return 0;
  return std::nullopt;
}

void wait_for_any(std::span<const Socket* const> sockets, Deadline deadline) {
  std::vector<pollfd> waiting;
  for (const Socket* socket : sockets) waiting.push_back({socket->fd(), POLLIN, 0});
  if (poll(waiting.data(), waiting.size(), milliseconds_until(deadline)) < 0 && errno != EINTR) {
    fail("poll", errno);
  }
}

void send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline,
              const std::string& peer) {
  while (!bytes.empty()) {
    if (send_some(socket, bytes, peer)) continue;
    pollfd waiting{socket.fd(), POLLOUT, 0};
    wait_for({&waiting, 1}, deadline, peer);
  }
}

void receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline,
                 const std::string& peer) {
  while (!bytes.empty()) {
    if (receive_some(socket, bytes, peer)) continue;
    pollfd waiting{socket.fd(), POLLIN, 0};
    wait_for({&waiting, 1}, deadline, peer);
  }
}

void exchange(const Socket& to, std::span<const std::byte> out, const std::string& receiver,
              const Socket& from, std::span<std::byte> in, const std::string& sender,
              Deadline deadline) {
  while (!out.empty() || !in.empty()) {
    const bool sent = !out.empty() && send_some(to, out, receiver);
    const bool received = !in.empty() && receive_some(from, in, sender);
    if (sent || received) continue;
    std::array<pollfd, 2> waiting{};
    std::size_t count = 0;
    if (!out.empty()) waiting[count++] = {to.fd(), POLLOUT, 0};
    if (!in.empty()) waiting[count++] = {from.fd(), POLLIN, 0};
    wait_for(std::span(waiting).first(count), deadline, in.empty() ? receiver : sender);
  }
}

bool has_hung_up(const Socket& socket) {
  if (!socket.is_open()) return false;
  pollfd waiting{socket.fd(), POLLRDHUP, 0};
  return poll(&waiting, 1, 0) > 0 && (waiting.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace shardlab
