// Starts `shardlab measure` for tests, with a given environment, and finds its processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/process.h"

namespace shardlab::testing_support {

using Words = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;
namespace fs = std::filesystem;

// Clears the variables that a launcher may have set where the tests run.
inline Variables bare_environment() {
  return {{"SHARDLAB_CONFIGS", ""},     {"RANK", ""},         {"WORLD_SIZE", ""},
          {"OMPI_COMM_WORLD_RANK", ""}, {"SLURM_PROCID", ""}, {"MASTER_ADDR", ""},
          {"MASTER_PORT", ""}};
}

// Runs this program with these variables, and without those of the launcher above.
inline ProcessResult run_measure_of(Words command, const Words& options, const Variables& variables,
                                    const fs::path& folder) {
  command.insert(command.end(), options.begin(), options.end());
  Variables environment = bare_environment();
  for (const auto& variable : variables) {
    std::erase_if(environment, [&](const auto& other) { return other.first == variable.first; });
    environment.push_back(variable);
  }
  return run_process(command, {.folder = folder, .environment = environment, .timeout_s = 60});
}

inline std::string all_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// The processes whose command line contains this word.
inline std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (all_text(entry.path() / "cmdline").find(word) == std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    if (pid != getpid()) found.push_back(pid);
  }
  return found;
}

// The process of this rank in a launch that has this word on its command line; 0 when there is
// none.
inline pid_t process_of_rank(const std::string& word, int rank) {
  const std::string variable = "SHARDLAB_RANK=" + std::to_string(rank);
  for (const pid_t pid : processes_with(word)) {
    const std::string environment = all_text("/proc/" + std::to_string(pid) + "/environ");
    if (('\0' + environment).find('\0' + variable + '\0') != std::string::npos) return pid;
  }
  return 0;
}

// Whether the launch has got so far that its ranks talk to each other.
inline bool is_underway(pid_t pid) {
  int sockets = 0;
  std::error_code ignored;
  for (const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", ignored)) {
    const std::string target = fs::read_symlink(entry.path(), ignored).string();
    sockets += target.starts_with("socket:") ? 1 : 0;
  }
  return sockets >= 3;
}

inline std::string unique_id(const std::string& name) {
  return "test-" + name + "-" + std::to_string(getpid());
}

struct Disturbed {
  ProcessResult result;
  double seconds_after = 0.0;  // seconds from the signal to the end of the launch
  std::size_t left = 0;        // processes that still ran after the launch
};

// Starts 4 ranks with more to do than they can, and sends one of them a signal.
inline Disturbed disturb_launch(const std::function<ProcessResult(const Words&)>& run_measure,
                                int signal, const std::string& id, const Words& more) {
  Words options = {"--ranks", "4", "--verify-plans", "1000000", "--id", id};
  options.insert(options.end(), more.begin(), more.end());
  auto running = std::async(std::launch::async, [&] { return run_measure(options); });
  const auto start = std::chrono::steady_clock::now();
  pid_t victim = 0;
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    victim = process_of_rank(id, 2);
    if (victim != 0 && is_underway(victim)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_NE(victim, 0) << "rank 2 never came";
  const auto sent = std::chrono::steady_clock::now();
  if (victim != 0) kill(victim, signal);
  Disturbed out;
  out.result = running.get();
  out.seconds_after =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - sent).count();
  out.left = processes_with(id).size();
  return out;
}

}  // namespace shardlab::testing_support
