#include "runner/torch/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <future>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"
#include "runner/base/lined_error.h"
#include "runner/config/read_json.h"

extern char** environ;

namespace shardlab {
namespace {

// The worker's own answers are shorter than this; a longer line is garbage.
constexpr std::size_t kMostLine = std::size_t{1} << 28U;
constexpr std::size_t kMostText = std::size_t{1} << 14U;  // bytes of stderr that are kept
constexpr std::size_t kShownLines = 12;
constexpr int kGraceMs = 500;

// The last lines of a text, indented.
std::string last_lines(const std::string& text) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  std::string out;
  const std::size_t first = lines.size() > kShownLines ? lines.size() - kShownLines : 0;
  for (std::size_t i = first; i < lines.size(); ++i) out += "\n  " + printable(lines[i]);
  return out;
}

// A mistake in a file of the user's is bad input; anything else that keeps a worker from starting
// is missing on this machine.
[[noreturn]] void throw_start_error(const std::string& name, const nlohmann::json& error) {
  std::string text = printable(describe_python_error(error));
  if (const auto lines = error.find("traceback"); lines != error.end()) {
    for (const nlohmann::json& line : *lines) {
      if (line.is_string()) text += "\n  " + printable(line.get<std::string>());
    }
  }
  if (error.value("of_user", false)) throw LinedConfigError(name, text);
  throw LinedEnvironmentError(name + ": " + text);
}

// Waits until the descriptor is ready for `events` or has hung up; false when time is up.
bool wait_for(const Socket& end, short events, Deadline deadline) {
  while (true) {
    pollfd waiting{.fd = end.fd(), .events = events, .revents = 0};
    const int ready = poll(&waiting, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno == EINTR) continue;
    return false;
  }
}

// While a write to a pipe that nobody reads would end this process, SIGPIPE is held back.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() {
    const timespec now{};
    sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace

std::string describe_python_error(const nlohmann::json& error) {
  std::string text = error.value("type", "an error") + ": " + error.value("message", "");
  if (error.contains("file") && error["file"].is_string()) {
    text += " (" + error["file"].get<std::string>();
    if (error.contains("line") && error["line"].is_number()) {
      text += ", line " + error["line"].dump();
    }
    text += ")";
  }
  return text;
}

TorchWorker::TorchWorker(TorchLaunch launch) : launch_(std::move(launch)) {
  try {
    start_process();
    nlohmann::json request = launch_.start;
    request["do"] = "start";
    request["id"] = ++last_id_;
    send(request.dump() + "\n", deadline_in(launch_.start_s));
    const nlohmann::json answer = receive_answer(last_id_, launch_.start_s);
    if (answer.contains("error")) {
      throw_start_error(printable(launch_.name), answer["error"]);
    }
    hello_ = answer.at("ok");
  } catch (...) {
    end_process();
    throw;
  }
}

TorchWorker::~TorchWorker() { end_process(); }

TorchWorker::Pipe TorchWorker::make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw EnvironmentError(std::string("pipe2: ") + std::strerror(errno));
  }
  return {Socket(ends[0]), Socket(ends[1])};
}

// Starts the interpreter with its stdin, stdout and stderr at the pipes.
pid_t TorchWorker::spawn(const Pipe& in, const Pipe& out, const Pipe& errors) const {
  std::vector<std::string> words = {launch_.python, "-u", launch_.script};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read_end.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write_end.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.write_end.fd(), STDERR_FILENO);
  pid_t pid = -1;
  const int code =
      posix_spawnp(&pid, launch_.python.c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code == 0) return pid;
  throw EnvironmentError(launch_.name + ": the interpreter " + launch_.python +
                         " can't be started: " + std::strerror(code) +
                         "; valid: a Python with PyTorch 2.13 or newer");
}

// Linux kills the process when the thread that started it ends. The caller's thread may end before
// this object does, so the thread that reads stderr starts the process, and stays until it ends.
void TorchWorker::start_process() {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe errors = make_pipe();
  std::promise<pid_t> started;
  std::future<pid_t> pid = started.get_future();
  errors_ = std::move(errors.read_end);
  reader_ = std::thread([&, started = std::move(started)]() mutable {
    pid_t child = -1;
    try {
      child = spawn(in, out, errors);
    } catch (...) {
      started.set_exception(std::current_exception());
      return;
    }
    started.set_value(child);  // from here on, only `this` and `child` are used
    keep_errors();
    siginfo_t ended{};
    while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
  });
  pid_ = pid.get();
  to_ = std::move(in.write_end);
  from_ = std::move(out.read_end);
  fcntl(to_.fd(), F_SETFL, O_NONBLOCK);
}

// Keeps the end of what the process writes to stderr, until it closes it.
void TorchWorker::keep_errors() {
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t count = read(errors_.fd(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    const std::lock_guard lock(text_lock_);
    text_.append(buffer.data(), static_cast<std::size_t>(count));
    if (text_.size() > kMostText) text_.erase(0, text_.size() - kMostText);
  }
}

void TorchWorker::end_process() {
  to_ = Socket();  // the worker ends when its stdin does
  from_ = Socket();
  if (pid_ > 0) {
    int status = 0;
    for (int waited = 0; waitpid(pid_, &status, WNOHANG) == 0; waited += 10) {
      if (waited >= kGraceMs) kill(pid_, SIGKILL);
      poll(nullptr, 0, 10);
    }
    pid_ = -1;
  }
  if (reader_.joinable()) reader_.join();
}

void TorchWorker::fail(const std::string& what) {
  end_process();  // also lets the reader read to the end
  const std::lock_guard lock(text_lock_);
  throw LinedEnvironmentError(printable(launch_.name + ": " + what) + last_lines(text_));
}

void TorchWorker::send(const std::string& line, Deadline deadline) {
  if (pid_ <= 0) fail("the Python process has ended");
  const WithoutSigpipe guard;
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = write(to_.fd(), line.data() + sent, line.size() - sent);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (count < 0 && errno == EAGAIN) {
      if (!wait_for(to_, POLLOUT, deadline)) fail("the Python process reads no questions");
    } else if (count < 0 && errno != EINTR) {
      fail("the Python process ended before it was asked");
    }
  }
}

std::string TorchWorker::receive(Deadline deadline) {
  std::size_t searched = 0;
  while (true) {
    const std::size_t end = read_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    searched = read_.size();
    if (read_.size() > kMostLine) fail("the Python process writes a line without end");
    if (!wait_for(from_, POLLIN, deadline)) {
      fail("the Python process gave no answer within the time limit and was ended");
    }
    std::array<char, 65536> buffer{};
    const ssize_t count = read(from_.fd(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("the Python process ended without an answer");
    read_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

nlohmann::json TorchWorker::receive_answer(std::uint64_t id, double limit_s) {
  const std::string line = receive(deadline_in(limit_s));
  std::optional<nlohmann::json> answer = try_parse_json(line);
  const bool is_answer = answer && answer->is_object() && answer->contains("id") &&
                         (answer->contains("ok") || answer->contains("error"));
  if (!is_answer || (*answer)["id"] != id) {
    fail("the Python process wrote what is not an answer: " + line.substr(0, 200));
  }
  return *std::move(answer);
}

void TorchWorker::ask(nlohmann::json request, std::size_t answers, const Take& take) {
  const std::lock_guard lock(turn_);
  request["id"] = ++last_id_;
  send(request.dump() + "\n", deadline_in(launch_.answer_s));
  std::exception_ptr failed;
  for (std::size_t i = 0; i < answers; ++i) {
    const nlohmann::json answer = receive_answer(last_id_, launch_.answer_s);
    if (failed) continue;
    try {
      take(answer.value("index", i), answer);
    } catch (...) {
      failed = std::current_exception();
    }
    // A request that was refused as a whole has one answer.
    if (!answer.contains("index")) break;
  }
  if (failed) std::rethrow_exception(failed);
}

}  // namespace shardlab
