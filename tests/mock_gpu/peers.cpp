#include "tests/mock_gpu/peers.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace shardlab::mock_gpu {
namespace {

[[noreturn]] void fail(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

// An abstract name, which leaves nothing in the file system.
struct Address {
  sockaddr_un name{};
  socklen_t size = 0;

  Address(const std::string& key, int rank) {
    const std::string text = "shardlab-mock-" + key + "-" + std::to_string(rank);
    name.sun_family = AF_UNIX;
    if (text.size() + 1 > sizeof name.sun_path) {
      errno = ENAMETOOLONG;
      fail("bind");
    }
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

int open_socket() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  return fd;
}

bool write_all(int fd, const void* data, std::size_t size) {
  const char* begin = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::send(fd, begin, size, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    begin += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

bool read_all(int fd, void* data, std::size_t size) {
  char* begin = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t done = recv(fd, begin, size, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    begin += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

bool write_message(int fd, std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  return write_all(fd, &size, sizeof size) && write_all(fd, bytes.data(), bytes.size());
}

std::optional<std::vector<std::byte>> read_message(int fd) {
  std::uint64_t size = 0;
  if (!read_all(fd, &size, sizeof size)) return std::nullopt;
  std::vector<std::byte> bytes(size);
  if (!read_all(fd, bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int connect_to(const Address& address) {
  constexpr auto kPause = std::chrono::milliseconds(2);
  while (true) {
    const int fd = open_socket();
    if (connect(fd, address.get(), address.size) == 0) return fd;
    close(fd);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

// What a peer sent. Its reader takes messages off the socket as they come, so that no sender waits
// for a receiver.
struct Peers::Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::vector<std::byte>> messages;
  bool is_gone = false;

  void put(std::optional<std::vector<std::byte>> message) {
    const std::lock_guard lock(mutex);
    if (message) {
      messages.push_back(std::move(*message));
    } else {
      is_gone = true;
    }
    changed.notify_all();
  }
};

void Peers::join(int peer, int socket, const std::string& card) {
  const auto at = static_cast<std::size_t>(peer);
  cards_[at] = card;
  sockets_[at] = socket;
  std::thread([socket, inbox = inboxes_[at]] {
    bool is_there = true;
    while (is_there) {
      auto message = read_message(socket);
      is_there = message.has_value();
      inbox->put(std::move(message));
    }
    close(socket);
  }).detach();
}

std::shared_ptr<Peers> Peers::meet(const std::string& key, int rank, int size,
                                   const std::string& card) {
  std::shared_ptr<Peers> peers(new Peers());
  peers->rank_ = rank;
  peers->sockets_.assign(static_cast<std::size_t>(size), -1);
  peers->cards_.assign(static_cast<std::size_t>(size), card);
  for (int i = 0; i < size; ++i) peers->inboxes_.push_back(std::make_shared<Inbox>());
  const int listener = open_socket();
  const Address mine(key, rank);
  if (bind(listener, mine.get(), mine.size) != 0) fail("bind");
  if (listen(listener, size) != 0) fail("listen");
  const std::string hello = std::to_string(rank) + " " + card;
  const std::span<const std::byte> hello_bytes(reinterpret_cast<const std::byte*>(hello.data()),
                                               hello.size());
  for (int i = 0; i + 1 < size; ++i) {
    // A rank connects to those before it, and those after it connect to it.
    const int fd = i < rank ? connect_to(Address(key, i)) : accept(listener, nullptr, nullptr);
    if (fd < 0) fail("accept");
    const bool is_said = write_message(fd, hello_bytes);
    const std::optional<std::vector<std::byte>> answer = read_message(fd);
    if (!is_said || !answer) fail("hello");
    const std::string text = text_of(*answer);
    const std::size_t blank = text.find(' ');
    peers->join(std::stoi(text.substr(0, blank)), fd, text.substr(blank + 1));
  }
  close(listener);
  return peers;
}

Peers::~Peers() {
  for (const int socket : sockets_) {
    if (socket >= 0) shutdown(socket, SHUT_RDWR);
  }
}

void Peers::send(int peer, std::span<const std::byte> bytes) {
  const auto at = static_cast<std::size_t>(peer);
  if (peer == rank_) {
    inboxes_[at]->put(std::vector<std::byte>(bytes.begin(), bytes.end()));
  } else {
    (void)write_message(sockets_[at], bytes);  // receive() notices who is gone
  }
}

std::optional<std::vector<std::byte>> Peers::receive(int peer) {
  Inbox& inbox = *inboxes_[static_cast<std::size_t>(peer)];
  std::unique_lock lock(inbox.mutex);
  inbox.changed.wait(lock, [&] { return !inbox.messages.empty() || inbox.is_gone; });
  if (inbox.messages.empty()) return std::nullopt;
  std::vector<std::byte> message = std::move(inbox.messages.front());
  inbox.messages.pop_front();
  return message;
}

}  // namespace shardlab::mock_gpu
