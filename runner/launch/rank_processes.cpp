#include "runner/launch/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "runner/base/env.h"
#include "runner/base/terminal.h"
#include "runner/launch/socket.h"

extern char** environ;

namespace shardlab {
namespace {

constexpr int kListenerInChild = 3;
constexpr auto kPeriod = std::chrono::milliseconds(20);
// Seconds that ranks get after the time limit: each rank notices the limit by itself, and says what
// it was doing.
constexpr double kGraceOfLimit = 2.0;
// Seconds to wait after the first failed rank: the rank that caused its failure may end a little
// later.
constexpr double kGraceOfCause = 0.3;
constexpr double kGraceOfTerm = 0.5;
constexpr std::size_t kMostText = std::size_t{1} << 16U;

struct Process {
  std::int64_t rank = 0;
  pid_t pid = -1;
  Socket err = {};  // our end of a pipe
  std::string text = {};
  std::optional<int> status = {};  // the status from waitpid, once the process has ended
  int order = 0;                   // position among the processes, in the order in which they ended

  [[nodiscard]] bool failed() const { return status && *status != 0; }
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// 128 bits from the kernel, in hexadecimal digits.
std::string make_secret() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw EnvironmentError(std::string("getrandom: ") + std::strerror(errno));
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::vector<std::string> environment_of(std::int64_t rank, const RankLaunch& launch, int port,
                                        const std::string& secret) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  const auto add = [&](const char* name, const std::string& value) {
    const std::string start = std::string(name) + "=";
    std::erase_if(all, [&](const std::string& text) { return text.starts_with(start); });
    all.push_back(start + value);
  };
  add("SHARDLAB_RANK", std::to_string(rank));
  add("SHARDLAB_LOCAL_RANK", std::to_string(rank));
  add("SHARDLAB_WORLD_SIZE", std::to_string(launch.ranks));
  add("SHARDLAB_PORT", std::to_string(port));
  add("SHARDLAB_RENDEZVOUS_FD", std::to_string(kListenerInChild));
  add("SHARDLAB_PARENT", std::to_string(getpid()));
  add("SHARDLAB_SECRET", secret);
  return all;
}

void expect_zero(int code, const char* call) {
  if (code != 0) throw EnvironmentError(std::string(call) + ": " + std::strerror(code));
}

Process start(std::int64_t rank, const RankLaunch& launch, const Socket& listener,
              const std::string& secret) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) expect_zero(errno, "pipe2");
  Process process{.rank = rank, .err = Socket(ends[0])};
  const Socket write_end(ends[1]);
  std::vector<std::string> words = launch.arguments;
  words.insert(words.begin(), "shardlab");
  std::vector<std::string> environment = environment_of(rank, launch, port_of(listener), secret);
  posix_spawn_file_actions_t actions;
  expect_zero(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.fd(), STDERR_FILENO);
  if (rank == 0) posix_spawn_file_actions_adddup2(&actions, listener.fd(), kListenerInChild);
  const int code = posix_spawn(&process.pid, "/proc/self/exe", &actions, nullptr,
                               pointers(words).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  expect_zero(code, "posix_spawn");
  fcntl(process.err.fd(), F_SETFL, O_NONBLOCK);
  return process;
}

// All processes of one launch. The destructor ends those that are still running.
class Processes {
 public:
  Processes() = default;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes() { end_all(); }

  void add(Process process) { all_.push_back(std::move(process)); }
  [[nodiscard]] const std::vector<Process>& all() const { return all_; }

  // Reads what the processes wrote, and notes which of them have ended.
  void look() {
    for (Process& process : all_) {
      read_text(process);
      if (process.status) continue;
      int status = 0;
      if (waitpid(process.pid, &status, WNOHANG) == process.pid) {
        process.status = status;
        process.order = ++ended_;
        read_text(process);
      }
    }
  }

  [[nodiscard]] bool all_ended() const { return ended_ == static_cast<int>(all_.size()); }

  // The process whose failure was the cause: one that was ended by a signal, or else the first
  // whose message does not blame another rank.
  [[nodiscard]] const Process* first_failed() const {
    const Process* found = nullptr;
    const auto order_of = [](const Process& p) {
      const int blame = p.text.find(kLeft) == std::string::npos ? 1 : 2;
      return std::pair(WIFSIGNALED(*p.status) ? 0 : blame, p.order);
    };
    for (const Process& process : all_) {
      if (!process.failed()) continue;
      if (found == nullptr || order_of(process) < order_of(*found)) found = &process;
    }
    return found;
  }

  void end_all() {
    for (const int signal : {SIGTERM, SIGKILL}) {
      bool any = false;
      for (const Process& process : all_) {
        if (process.status) continue;
        any = true;
        kill(process.pid, signal);
        // A stopped process does not act on any other signal until it is continued.
        kill(process.pid, SIGCONT);
      }
      if (!any) return;
      const Deadline end = deadline_in(signal == SIGTERM ? kGraceOfTerm : 10.0);
      while (!all_ended() && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(kPeriod);
        look();
      }
    }
  }

 private:
  void read_text(Process& process) {
    std::array<char, 4096> buffer{};
    while (process.err.is_open()) {
      const ssize_t count = read(process.err.fd(), buffer.data(), buffer.size());
      if (count < 0) return;
      if (count == 0) {
        process.err.close();
        return;
      }
      process.text.append(buffer.data(), static_cast<std::size_t>(count));
      if (process.rank == 0) pass_on(process);
      if (process.text.size() > kMostText) process.text.erase(0, process.text.size() - kMostText);
    }
  }

  // Prints the complete lines of rank 0, except error messages, which are kept for the end.
  static void pass_on(Process& process) {
    std::string kept;
    std::size_t begin = 0;
    while (true) {
      const std::size_t end = process.text.find('\n', begin);
      if (end == std::string::npos) break;
      const std::string line = process.text.substr(begin, end + 1 - begin);
      begin = end + 1;
      if (line.starts_with("shardlab: ")) {
        kept += line;
      } else {
        std::cerr << line;
      }
    }
    process.text = kept + process.text.substr(begin);
  }

  std::vector<Process> all_;
  int ended_ = 0;
};

std::string last_message(const Process& process) {
  const std::string start = "shardlab: ";
  const std::size_t found = process.text.rfind(start);
  if (found == std::string::npos) return "rank " + std::to_string(process.rank) + " failed";
  std::string text = process.text.substr(found + start.size());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

void end_with_parent() {
  const std::string parent = read_env("SHARDLAB_PARENT");
  if (parent.empty()) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the call above.
  if (std::to_string(getppid()) != parent) _exit(1);
}

int run_rank_processes(const RankLaunch& launch) {
  const Socket listener = listen_on("127.0.0.1", launch.port);
  const std::string secret = make_secret();
  Processes processes;
  std::cout.flush();
  for (std::int64_t rank = 0; rank < launch.ranks; ++rank) {
    processes.add(start(rank, launch, listener, secret));
  }
  const Deadline limit = deadline_in(launch.limit_s + kGraceOfLimit);
  while (true) {
    std::this_thread::sleep_for(kPeriod);
    processes.look();
    if (processes.all_ended() || processes.first_failed() != nullptr) break;
    if (std::chrono::steady_clock::now() < limit) continue;
    processes.end_all();
    throw EnvironmentError("measure: the time limit of " + format_double(launch.limit_s) +
                           " s passed; all " + std::to_string(launch.ranks) + " ranks were ended");
  }
  if (processes.first_failed() != nullptr) {
    const Deadline cause = deadline_in(kGraceOfCause);
    while (!processes.all_ended() && std::chrono::steady_clock::now() < cause) {
      std::this_thread::sleep_for(kPeriod);
      processes.look();
    }
  }
  const Process* failed = processes.first_failed();
  if (failed == nullptr) {
    for (const Process& process : processes.all()) std::cerr << process.text;
    return 0;
  }
  const Process cause{.rank = failed->rank, .text = failed->text, .status = failed->status};
  processes.end_all();
  if (WIFSIGNALED(*cause.status)) {
    const int signal = WTERMSIG(*cause.status);
    throw EnvironmentError("measure: rank " + std::to_string(cause.rank) + " was ended by signal " +
                           std::to_string(signal) + " (" + strsignal(signal) +
                           "); the other ranks were ended");
  }
  const int code = WEXITSTATUS(*cause.status);
  // Exit code 1 means that a check failed, and the rank has already printed why.
  if (code == 1) return code;
  const std::string message = last_message(cause);
  std::cerr << "shardlab: " << printable(message) << "\n";
  return code;
}

}  // namespace shardlab
