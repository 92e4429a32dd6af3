#include "runner/launch/rendezvous.h"

#include <array>
#include <cstring>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 30U;
constexpr std::array<char, 16> kMagic = {'s', 'h', 'a', 'r', 'd', 'l', 'a', 'b',
                                         '-', 'm', 'e', 'e', 't', 'i', 'n', '1'};

// The first message of a process that joins the rendezvous.
struct Hello {
  std::array<char, 16> magic = kMagic;
  std::int64_t rank = 0;
  std::int64_t world = 0;
};

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
    return "rendezvous: " + rank_name(hello.rank) + " expects " + std::to_string(hello.world) +
           " ranks, but rank 0 expects " + std::to_string(world);
  }
  if (hello.rank < 1 || hello.rank >= world) {
    return "rendezvous: found rank " + std::to_string(hello.rank) + " among " +
           std::to_string(world) + " ranks; valid: 1 to " + std::to_string(world - 1);
  }
  if (peers[to_index(hello.rank)].is_open()) {
    return "rendezvous: " + rank_name(hello.rank) + " joined twice";
  }
  return "";
}

}  // namespace

void Rendezvous::send_text(const Socket& socket, std::int64_t to, std::string_view text) const {
  const std::uint64_t size = text.size();
  send_all(socket, readable_bytes_of(size), deadline_, rank_name(to));
  send_all(socket, std::as_bytes(std::span(text)), deadline_, rank_name(to));
}

std::string Rendezvous::receive_text(const Socket& socket, std::int64_t from) const {
  std::uint64_t size = 0;
  receive_all(socket, writable_bytes_of(size), deadline_, rank_name(from));
  if (size > kMaxMessage) {
    throw EnvironmentError("rendezvous: " + rank_name(from) + " sends a message of " +
                           std::to_string(size) + " bytes; valid: at most " +
                           std::to_string(kMaxMessage));
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
  if (place.world == 1) return out;
  const Deadline meeting = std::min(deadline, deadline_in(patience_s));
  if (place.rank != 0) {
    out.peers_.push_back(connect_to(place.address, place.port, meeting));
    out.address_ = local_address(out.peers_[0]);
    const Hello hello = {.rank = place.rank, .world = place.world};
    send_all(out.peers_[0], readable_bytes_of(hello), meeting, rank_name(0));
    // Rank 0 answers once all ranks have joined.
    out.deadline_ = std::min(deadline, meeting + std::chrono::seconds(2));
    const std::string answer = out.receive_text(out.peers_[0], 0);
    if (!answer.empty()) throw EnvironmentError(answer);
    out.deadline_ = deadline;
    return out;
  }
  const bool here = place.address.starts_with("127.");
  const Socket listener = place.listening_fd >= 0
                              ? Socket(place.listening_fd)
                              : listen_on(here ? place.address : "0.0.0.0", place.port);
  out.peers_.resize(static_cast<std::size_t>(place.world));
  std::int64_t came = 1;
  const auto give_up = [&](const std::string& reason) {
    for (std::size_t r = 1; r < out.peers_.size(); ++r) {
      if (out.peers_[r].is_open()) {
        out.send_text(out.peers_[r], static_cast<std::int64_t>(r), reason);
      }
    }
    throw EnvironmentError(reason);
  };
  while (came < place.world) {
    Socket peer = accept_from(listener, meeting);
    if (!peer.is_open()) {
      give_up("rendezvous: " + std::to_string(came) + " of " + std::to_string(place.world) +
              " ranks came within " + format_double(patience_s) +
              " s; missing: " + missing_ranks(out.peers_));
    }
    Hello hello;
    try {
      receive_all(peer, writable_bytes_of(hello), std::min(meeting, deadline_in(2.0)), "a guest");
    } catch (const EnvironmentError&) {
      continue;  // the peer sent nothing, or too little
    }
    if (hello.magic != kMagic) continue;
    if (const std::string reason = objection(hello, place.world, out.peers_); !reason.empty()) {
      out.send_text(peer, hello.rank, reason);
      give_up(reason);
    }
    out.address_ = local_address(peer);
    out.peers_[to_index(hello.rank)] = std::move(peer);
    ++came;
  }
  for (std::int64_t r = 1; r < place.world; ++r) {
    out.send_text(out.peers_[to_index(r)], r, "");
  }
  return out;
}

std::vector<std::string> Rendezvous::all_gather(const std::string& mine) {
  std::vector<std::string> all(static_cast<std::size_t>(size_));
  all[to_index(rank_)] = mine;
  if (size_ == 1) return all;
  if (rank_ != 0) {
    send_text(peers_[0], 0, mine);
    for (std::string& text : all) text = receive_text(peers_[0], 0);
    return all;
  }
  for (std::size_t r = 1; r < all.size(); ++r) {
    all[r] = receive_text(peers_[r], static_cast<std::int64_t>(r));
  }
  for (std::size_t r = 1; r < all.size(); ++r) {
    for (const std::string& text : all) send_text(peers_[r], static_cast<std::int64_t>(r), text);
  }
  return all;
}

std::string Rendezvous::broadcast(const std::string& of_rank_0) {
  if (rank_ != 0) return receive_text(peers_[0], 0);
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
