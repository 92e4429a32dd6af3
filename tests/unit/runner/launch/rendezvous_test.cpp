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
          .port = port};
}

int free_port() { return port_of(listen_on("127.0.0.1", 0)); }

// Runs the work on all ranks. Returns each rank's result, or the message of its error. Ranks that
// are not in `ranks` never come.
template <class Work>
std::vector<std::string> run_ranks(std::int64_t world, const std::vector<std::int64_t>& ranks,
                                   Work&& work, double patience_s = 20.0) {
  const int port = free_port();
  std::vector<std::future<std::string>> futures;
  for (const std::int64_t rank : ranks) {
    futures.push_back(std::async(std::launch::async, [&, rank] {
      try {
        Rendezvous meeting =
            Rendezvous::join(place_of(rank, world, port), patience_s, deadline_in(30.0));
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
      const std::string mine = std::to_string(meeting.rank()) + std::string(100000, 'x');
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

TEST(Rendezvous, TurnsAwayARankThatComesTwice) {
  const auto nothing = [](Rendezvous&) { return std::string("met"); };
  const auto results = run_ranks(3, {0, 1, 1}, nothing, 5.0);
  for (const std::string& text : results) EXPECT_EQ(text, "rendezvous: rank 1 joined twice");
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
