#include "runner/launch/rendezvous.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/launch/guests.h"

namespace shardlab {
namespace {

constexpr std::array<char, 16> kMagic = {'s', 'h', 'a', 'r', 'd', 'l', 'a', 'b',
                                         '-', 'm', 'e', 'e', 't', 'i', 'n', '2'};

// The first message of a process that joins the rendezvous.
struct Hello {
  std::array<char, 16> magic = kMagic;
  std::int64_t rank = 0;
  std::int64_t world = 0;
  std::array<char, kMaxSecret> secret = {};  // filled up with zeros
};

std::array<char, kMaxSecret> padded(const std::string& secret) {
  std::array<char, kMaxSecret> bytes{};
  std::copy(secret.begin(), secret.end(), bytes.begin());
  return bytes;
}

// Takes as long for any two secrets, so that its time tells nothing about them.
bool are_equal(const std::array<char, kMaxSecret>& a, const std::array<char, kMaxSecret>& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  }
  return difference == 0;
}

template <class T>
std::span<const std::byte> readable_bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::string missing_ranks(const std::vector<Socket>& peers) {
  std::string out;
  int named = 0;
  for (std::size_t r = 1; r < peers.size(); ++r) {
    if (peers[r].is_open()) continue;
    if (++named > 8) return out + ", ...";
    out += (out.empty() ? "" : ", ") + std::to_string(r);
  }
  return out;
}

// Why a process must not join; "" if it may.
std::string objection(const Hello& hello, std::int64_t world, const std::vector<Socket>& peers) {
  if (hello.world != world) {
    return rank_name(hello.rank) + " expects " + std::to_string(hello.world) +
           " ranks, but rank 0 expects " + std::to_string(world);
  }
  if (hello.rank < 1 || hello.rank >= world) {
    return "found rank " + std::to_string(hello.rank) + " among " + std::to_string(world) +
           " ranks; valid: 1 to " + std::to_string(world - 1);
  }
  if (peers[to_index(hello.rank)].is_open()) {
    return rank_name(hello.rank) + " joined twice";
  }
  return "";
}

}  // namespace

void Rendezvous::send_text(const Socket& socket, std::int64_t to, std::string_view text) const {
  const std::uint64_t size = text.size();
  send_all(socket, readable_bytes_of(size), deadline_, rank_name(to));
  send_all(socket, std::as_bytes(std::span(text)), deadline_, rank_name(to));
}

std::string Rendezvous::receive_text(const Socket& socket, std::int64_t from,
                                     std::size_t most) const {
  std::uint64_t size = 0;
  receive_all(socket, writable_bytes_of(size), deadline_, rank_name(from));
  if (size > most) {
    throw EnvironmentError("rendezvous: " + rank_name(from) + " sends a message of " +
                           std::to_string(size) + " bytes; valid: at most " + std::to_string(most));
  }
  std::string text(size, '\0');
  receive_all(socket, std::as_writable_bytes(std::span(text)), deadline_, rank_name(from));
  return text;
}

Rendezvous Rendezvous::join(const LaunchPlace& place, double patience_s, Deadline deadline) {
  Rendezvous out;
  out.rank_ = place.rank;
  out.size_ = place.world;
  out.deadline_ = deadline;
  out.secret_ = place.secret;
  if (place.world == 1) return out;
  const Deadline meeting = std::min(deadline, deadline_in(patience_s));
  if (place.rank == 0) {
    out.welcome_all(place, patience_s, meeting);
    return out;
  }
  out.peers_.push_back(connect_to(place.address, place.port, meeting));
  out.address_ = local_address(out.peers_[0]);
  const Hello hello = {.rank = place.rank, .world = place.world, .secret = padded(place.secret)};
  send_all(out.peers_[0], readable_bytes_of(hello), meeting, rank_name(0));
  // Rank 0 answers once all ranks have joined.
  out.deadline_ = std::min(deadline, meeting + std::chrono::seconds(2));
  const std::string answer = out.receive_text(out.peers_[0], 0, kSmallMessage);
  if (!answer.empty()) throw EnvironmentError(answer);
  out.deadline_ = deadline;
  return out;
}

void Rendezvous::welcome_all(const LaunchPlace& place, double patience_s, Deadline meeting) {
  const Socket listener =
      place.listening_fd >= 0 ? Socket(place.listening_fd) : listen_on(place.address, place.port);
  peers_.resize(static_cast<std::size_t>(place.world));
  std::int64_t came = 1;
  std::string refused;  // the last reason that a guest was given
  const auto tell = [&](const Socket& socket, const std::string& reason) {
    try {
      send_text(socket, 0, reason);
    } catch (const EnvironmentError&) {  // it has left already
    }
  };
  const auto give_up = [&](const std::string& reason) {
    for (const Socket& peer : peers_) {
      if (peer.is_open()) tell(peer, reason);
    }
    throw EnvironmentError(reason);
  };
  const auto judge = [&](Socket guest, std::span<const std::byte> bytes) {
    Hello hello;
    std::memcpy(&hello, bytes.data(), sizeof hello);
    if (hello.magic != kMagic) return false;
    if (!are_equal(hello.secret, padded(place.secret))) {
      refused = "it has another SHARDLAB_SECRET than rank 0";
      tell(guest, "rendezvous: rank 0 has another SHARDLAB_SECRET");
      return false;
    }
    if (const std::string reason = objection(hello, place.world, peers_); !reason.empty()) {
      tell(guest, "rendezvous: " + reason);
      if (!place.secret.empty()) give_up("rendezvous: " + reason);
      refused = reason;
      return false;
    }
    address_ = local_address(guest);
    peers_[to_index(hello.rank)] = std::move(guest);
    return ++came == place.world;
  };
  if (!hear_guests(listener, sizeof(Hello), meeting, judge)) {
    give_up("rendezvous: " + std::to_string(came) + " of " + std::to_string(place.world) +
            " ranks came within " + format_double(patience_s) + " s; missing: " +
            missing_ranks(peers_) + (refused.empty() ? "" : "; a guest was refused: " + refused));
  }
  for (std::int64_t r = 1; r < place.world; ++r) send_text(peers_[to_index(r)], r, "");
}

std::vector<std::string> Rendezvous::all_gather(const std::string& mine, std::size_t most) {
  std::vector<std::string> all(static_cast<std::size_t>(size_));
  all[to_index(rank_)] = mine;
  if (size_ == 1) return all;
  if (rank_ != 0) {
    send_text(peers_[0], 0, mine);
    for (std::string& text : all) text = receive_text(peers_[0], 0, most);
    return all;
  }
  for (std::size_t r = 1; r < all.size(); ++r) {
    all[r] = receive_text(peers_[r], static_cast<std::int64_t>(r), most);
  }
  for (std::size_t r = 1; r < all.size(); ++r) {
    for (const std::string& text : all) send_text(peers_[r], static_cast<std::int64_t>(r), text);
  }
  return all;
}

std::string Rendezvous::broadcast(const std::string& of_rank_0, std::size_t most) {
  if (rank_ != 0) return receive_text(peers_[0], 0, most);
  for (std::size_t r = 1; r < peers_.size(); ++r) {
    send_text(peers_[r], static_cast<std::int64_t>(r), of_rank_0);
  }
  return of_rank_0;
}

void Rendezvous::barrier() { (void)all_gather(""); }

std::string Rendezvous::who_left() const {
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (has_hung_up(peers_[r])) return rank_name(static_cast<std::int64_t>(r));
  }
  return "";
}

}  // namespace shardlab
