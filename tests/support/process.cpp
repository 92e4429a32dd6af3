#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

extern char** environ;

namespace shardlab::testing_support {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void expect_zero(int code, const char* call) {
  if (code != 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(code));
}

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) expect_zero(errno, "pipe2");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(std::size_t i) {
    if (ends[i] >= 0) close(ends[i]);
    ends[i] = -1;
  }
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_with(const ProcessOptions& options) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool is_given = false;
    for (const auto& [name, unused] : options.environment) {
      is_given = is_given || text.rfind(name + "=", 0) == 0;
    }
    if (!is_given) all.push_back(text);
  }
  for (const auto& [name, value] : options.environment) all.push_back(name + "=" + value);
  return all;
}

pid_t start(const std::vector<std::string>& command, const ProcessOptions& options, Pipe& out,
            Pipe& err) {
  posix_spawn_file_actions_t actions;
  expect_zero(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  if (!options.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  }
  std::vector<std::string> words = command;
  std::vector<std::string> environment = environment_with(options);
  pid_t pid = -1;
  const int code = posix_spawn(&pid, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                               pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  expect_zero(code, command[0].c_str());
  out.close_end(1);
  err.close_end(1);
  return pid;
}

// Reads both pipes until both are closed. Returns false if the time is up before that.
bool read_all(Pipe& out, Pipe& err, ProcessResult& result, Clock::time_point end) {
  std::array<char, 1 << 16> buffer;
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    std::array<pollfd, 2> waiting = {pollfd{out.ends[0], POLLIN, 0},
                                     pollfd{err.ends[0], POLLIN, 0}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR) {
      expect_zero(errno, "poll");
    }
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const ssize_t count = read(waiting[i].fd, buffer.data(), buffer.size());
      if (count > 0) {
        (i == 0 ? result.out : result.err).append(buffer.data(), static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        (i == 0 ? out : err).close_end(0);
      }
    }
  }
  return true;
}

// Sanitized programs take several times as long, as tests/CMakeLists.txt allows for.
#ifdef SHARDLAB_SANITIZED
constexpr int kSlowdown = 5;
#else
constexpr int kSlowdown = 1;
#endif

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, const ProcessOptions& options) {
  Pipe out;
  Pipe err;
  ProcessResult result;
  const pid_t pid = start(command, options, out, err);
  const auto end = Clock::now() + kSlowdown * std::chrono::seconds(options.timeout_s);
  result.timed_out = !read_all(out, err, result, end);
  if (result.timed_out) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "shardlab-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) expect_zero(errno, "mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

fs::path TemporaryFolder::write(const std::string& name, const std::string& text) const {
  const fs::path path = path_ / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

}  // namespace shardlab::testing_support
