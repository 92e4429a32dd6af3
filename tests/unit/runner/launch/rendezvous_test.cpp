// Tests the rendezvous and the watchdog with threads that stand for processes.
#include "runner/launch/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "costmodel/base/error.h"
#include "runner/launch/watchdog.h"

namespace shardlab {
namespace rendezvous_test {

LaunchPlace place_of(std::int64_t rank, std::int64_t world, int port) {
  return {.launcher = "test",
          .rank = rank,
          .world = world,
          .local_rank = rank,
          .address = "127.0.0.1",
          .port = port,
          .listening_fd = -1,
          .secret = {}};
}

int free_port() { return port_of(listen_on("127.0.0.1", 0)); }

// Runs the work on all ranks. Returns each rank's result, or the message of its error. Ranks that
// are not in `ranks` never come.
template <class Work>
std::vector<std::string> run_ranks(std::int64_t world, const std::vector<std::int64_t>& ranks,
                                   Work&& work, double patience_s = 20.0,
                                   const std::string& secret = "") {
  const int port = free_port();
  std::vector<std::future<std::string>> futures;
  for (const std::int64_t rank : ranks) {
    futures.push_back(std::async(std::launch::async, [&, rank] {
      try {
        LaunchPlace place = place_of(rank, world, port);
        place.secret = secret;
        Rendezvous meeting = Rendezvous::join(place, patience_s, deadline_in(30.0));
        return work(meeting);
      } catch (const EnvironmentError& error) {
        return std::string(error.what());
      }
    }));
  }
  std::vector<std::string> results;
  for (auto& future : futures) results.push_back(future.get());
  return results;
}

TEST(Rendezvous, AllRanksGetWhatEachSays) {
  const auto results = run_ranks(4, {3, 1, 0, 2}, [](Rendezvous& meeting) {
    std::string text;
    for (int round = 0; round < 3; ++round) {
      const std::string mine = std::to_string(meeting.rank()) + std::string(60000, 'x');
      for (const std::string& each : meeting.all_gather(mine)) text += each.substr(0, 1);
      text += meeting.broadcast("of " + std::to_string(meeting.rank()));
      meeting.barrier();
    }
    return text;
  });
  for (const std::string& text : results) EXPECT_EQ(text, "0123of 00123of 00123of 0");
}

TEST(Rendezvous, NamesWhoIsMissing) {
  const auto nothing = [](Rendezvous&) { return std::string("met"); };
  const auto results = run_ranks(4, {0, 2}, nothing, 0.5);
  for (const std::string& text : results) {
    EXPECT_EQ(text, "rendezvous: 2 of 4 ranks came within 0.5 s; missing: 1, 3");
  }
}

// A guest that knows the secret is one of our ranks, so the missing one will never come.
TEST(Rendezvous, ARankThatComesTwiceEndsTheMeeting) {
  const auto nothing = [](Rendezvous&) { return std::string("met"); };
  const auto results = run_ranks(3, {0, 1, 1}, nothing, 5.0, "our secret");
  for (const std::string& text : results) EXPECT_EQ(text, "rendezvous: rank 1 joined twice");
}

// Without a secret a guest may be anyone: it is refused, and the others go on.
TEST(Rendezvous, AClaimWithoutASecretEndsNothing) {
  const int port = free_port();
  auto first = std::async(std::launch::async, [&] {
    Rendezvous meeting = Rendezvous::join(place_of(0, 3, port), 20.0, deadline_in(30.0));
    return meeting.broadcast("welcome");
  });
  auto second = std::async(std::launch::async, [&] {
    Rendezvous meeting = Rendezvous::join(place_of(1, 3, port), 20.0, deadline_in(30.0));
    return meeting.broadcast("");
  });
  for (const std::int64_t world : {5, 2}) {
    try {
      (void)Rendezvous::join(place_of(1, world, port), 5.0, deadline_in(10.0));
      FAIL() << "joined a world of another size";
    } catch (const EnvironmentError& error) {
      EXPECT_EQ(error.what(), "rendezvous: rank 1 expects " + std::to_string(world) +
                                  " ranks, but rank 0 expects 3");
    }
  }
  Rendezvous third = Rendezvous::join(place_of(2, 3, port), 20.0, deadline_in(30.0));
  EXPECT_EQ(third.broadcast(""), "welcome");
  EXPECT_EQ(first.get(), "welcome");
  EXPECT_EQ(second.get(), "welcome");
}

TEST(Rendezvous, AGuestWithAnotherSecretIsRefused) {
  const int port = free_port();
  LaunchPlace ours = place_of(1, 2, port);
  ours.secret = "our secret";
  auto first = std::async(std::launch::async, [&] {
    LaunchPlace place = ours;
    place.rank = 0;
    Rendezvous meeting = Rendezvous::join(place, 20.0, deadline_in(30.0));
    return meeting.broadcast("welcome");
  });
  LaunchPlace theirs = ours;
  for (const char* secret : {"", "our secre", "our secret!", "another"}) {
    theirs.secret = secret;
    EXPECT_THROW((void)Rendezvous::join(theirs, 5.0, deadline_in(10.0)), EnvironmentError)
        << secret;
  }
  Rendezvous second = Rendezvous::join(ours, 20.0, deadline_in(30.0));
  EXPECT_EQ(second.broadcast(""), "welcome");
  EXPECT_EQ(first.get(), "welcome");
}

// Sixty of them would delay a meeting that hears one after another by two minutes.
TEST(Rendezvous, SilentGuestsDelayNobody) {
  const int port = free_port();
  auto first = std::async(std::launch::async, [&] {
    Rendezvous meeting = Rendezvous::join(place_of(0, 2, port), 20.0, deadline_in(30.0));
    return meeting.broadcast("welcome");
  });
  std::vector<Socket> silent;
  for (int i = 0; i < 60; ++i) silent.push_back(connect_to("127.0.0.1", port, deadline_in(10.0)));
  Rendezvous second = Rendezvous::join(place_of(1, 2, port), 20.0, deadline_in(30.0));
  EXPECT_EQ(second.broadcast(""), "welcome");
  EXPECT_EQ(first.get(), "welcome");
}

// A rank may not make another one wait for, or make room for, more than it expects.
TEST(Rendezvous, AMessageIsNoLongerThanWhatIsExpected) {
  const auto results = run_ranks(2, {0, 1}, [](Rendezvous& meeting) {
    return meeting.all_gather(std::string(meeting.rank() == 1 ? 101 : 100, 'x'), 100)[0];
  });
  EXPECT_EQ(results[0], "rendezvous: rank 1 sends a message of 101 bytes; valid: at most 100");
}

// Whoever knows another address of this host does not reach rank 0.
TEST(Rendezvous, ListensAtItsAddressAlone) {
  const int port = free_port();
  LaunchPlace place = place_of(0, 2, port);
  place.address = "127.0.0.2";
  auto first = std::async(std::launch::async, [place] {
    Rendezvous meeting = Rendezvous::join(place, 20.0, deadline_in(30.0));
    return meeting.broadcast("welcome");
  });
  EXPECT_THROW((void)connect_to("127.0.0.1", port, deadline_in(0.5)), EnvironmentError);
  place.rank = 1;
  Rendezvous second = Rendezvous::join(place, 20.0, deadline_in(30.0));
  EXPECT_EQ(second.broadcast(""), "welcome");
  EXPECT_EQ(first.get(), "welcome");
  place.rank = 0;
  place.address = "192.0.2.1";  // of no host: RFC 5737
  try {
    (void)Rendezvous::join(place, 1.0, deadline_in(5.0));
    FAIL() << "listens at an address of another host";
  } catch (const EnvironmentError& error) {
    EXPECT_EQ(std::string(error.what()),
              "rendezvous: 192.0.2.1 is no address of this host; valid: MASTER_ADDR of the host on "
              "which rank 0 runs");
  }
}

TEST(Rendezvous, AStrangerIsDropped) {
  const int port = free_port();
  auto first = std::async(std::launch::async, [&] {
    Rendezvous meeting = Rendezvous::join(place_of(0, 2, port), 20.0, deadline_in(30.0));
    return meeting.broadcast("welcome");
  });
  const Socket stranger = connect_to("127.0.0.1", port, deadline_in(10.0));
  const std::string noise = "GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: all\r\n\r\n";
  send_all(stranger, std::as_bytes(std::span(noise)), deadline_in(5.0), "rank 0");
  Rendezvous second = Rendezvous::join(place_of(1, 2, port), 20.0, deadline_in(30.0));
  EXPECT_EQ(second.broadcast(""), "welcome");
  EXPECT_EQ(first.get(), "welcome");
}

TEST(Rendezvous, ARankThatLeavesIsNamed) {
  const auto results = run_ranks(3, {0, 1, 2}, [](Rendezvous& meeting) {
    if (meeting.rank() == 2) return std::string("gone");
    if (meeting.rank() == 1) {
      try {
        meeting.barrier();
      } catch (const EnvironmentError& error) {
        return std::string(error.what());
      }
    }
    (void)meeting.all_gather("still here");
    return std::string("all came");
  });
  EXPECT_EQ(results[0], "rank 2 left: its connection closed");
  EXPECT_EQ(results[1], "rank 0 left: its connection closed");
}

TEST(Rendezvous, APortInUseIsNamed) {
  const Socket taken = listen_on("127.0.0.1", 0);
  const int port = port_of(taken);
  try {
    (void)Rendezvous::join(place_of(0, 2, port), 1.0, deadline_in(5.0));
    FAIL() << "joined on a port in use";
  } catch (const EnvironmentError& error) {
    EXPECT_EQ(error.what(), "rendezvous: port " + std::to_string(port) +
                                " is in use; choose another (--port, or MASTER_PORT)");
  }
}

std::string trouble_of(const Rendezvous& meeting, const WatchdogLimits& limits) {
  std::promise<std::string> said;
  std::future<std::string> reason = said.get_future();
  Watchdog watchdog(meeting, limits, [&](const std::string& text) { said.set_value(text); });
  watchdog.step("all_reduce of 1 KiB");
  return reason.wait_for(std::chrono::seconds(10)) == std::future_status::ready ? reason.get() : "";
}

TEST(Watchdog, ReportsAHang) {
  const Rendezvous alone;
  EXPECT_EQ(trouble_of(alone, {.stall_s = 0.3}),
            "a hang: rank 0 made no progress for 0.3 s in all_reduce of 1 KiB");
}

TEST(Watchdog, ReportsTheTimeLimit) {
  const Rendezvous alone;
  EXPECT_EQ(trouble_of(alone, {.whole = deadline_in(0.2), .whole_s = 0.2}),
            "the time limit of 0.2 s passed in all_reduce of 1 KiB");
}

TEST(Watchdog, ReportsARankThatLeft) {
  const auto results = run_ranks(2, {0, 1}, [](Rendezvous& meeting) {
    return meeting.rank() == 1 ? std::string("gone") : trouble_of(meeting, {});
  });
  EXPECT_EQ(results[0], "rank 1 left: its connection closed, in all_reduce of 1 KiB");
}

TEST(Watchdog, IsQuietWhileThereAreSteps) {
  const Rendezvous alone;
  bool spoke = false;
  {
    Watchdog watchdog(alone, {.stall_s = 0.5}, [&](const std::string&) { spoke = true; });
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(80));
      watchdog.step("step");
    }
  }
  EXPECT_FALSE(spoke);
}

}  // namespace rendezvous_test
}  // namespace shardlab
