#include "runner/base/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "costmodel/base/error.h"
#include "runner/base/gunzip.h"
#include "runner/base/write_file.h"

namespace shardlab {
namespace {

std::atomic<std::uint64_t> input_limit = kDefaultInputLimit;

// The regular files that were read, by their devices and numbers.
class ReadFiles {
 public:
  void add(const struct stat& file) {
    const std::lock_guard guard(mutex_);
    files_.emplace(file.st_dev, file.st_ino);
  }
  void clear() {
    const std::lock_guard guard(mutex_);
    files_.clear();
  }
  [[nodiscard]] bool contains(const struct stat& file) {
    const std::lock_guard guard(mutex_);
    return files_.contains({file.st_dev, file.st_ino});
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<dev_t, ino_t>> files_;
};
ReadFiles read_files;

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path) : path_(path.string()) {
    // The system would take the name up to the NUL, and read another file.
    if (path_.find('\0') != std::string::npos) fail("has a NUL in its name; valid: a file");
    // Without O_NONBLOCK, opening a named pipe waits until somebody writes to it.
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) fail_read();
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // The bytes up to the end, or at least those of the first line.
  [[nodiscard]] std::string text(bool first_line_only) const {
    struct stat about = {};
    if (::fstat(fd_, &about) != 0) fail_read();
    if (S_ISDIR(about.st_mode)) fail("is a folder; valid: a file");
    const bool is_pipe = S_ISFIFO(about.st_mode);
    if (!is_pipe && !S_ISREG(about.st_mode)) {
      fail("is neither a regular file nor a pipe; valid: a file");
    }
    if (!is_pipe) read_files.add(about);
    const std::uint64_t limit = input_limit;
    const auto size = static_cast<std::uint64_t>(std::max<off_t>(about.st_size, 0));
    std::string text;
    if (!first_line_only) {
      if (size > limit) fail_size(limit);
      text.reserve(size);
    }
    std::array<char, 1 << 16> buffer;
    while (const std::size_t count = read_some(buffer, is_pipe)) {
      if (text.size() + count > limit) fail_size(limit);
      text.append(buffer.data(), count);
      if (first_line_only && text.find('\n', text.size() - count) != std::string::npos) break;
    }
    if (is_pipe && text.empty()) fail("is a pipe without data; valid: a file");
    if (first_line_only || !is_gzip(text)) return text;
    try {
      return gunzip(text, limit);
    } catch (const GunzipError& error) {
      fail(error.message);
    }
  }

 private:
  // How many bytes were read; 0 at the end. Waits for a pipe whose writer has nothing to say yet.
  // What counts as a regular file and still has nothing to say is no file: /proc/kmsg is one.
  std::size_t read_some(std::span<char> buffer, bool is_pipe) const {
    while (true) {
      const ssize_t count = ::read(fd_, buffer.data(), buffer.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno == EAGAIN) {
        if (!is_pipe) fail("is a special file that has no data now; valid: a file");
        pollfd waited = {.fd = fd_, .events = POLLIN, .revents = 0};
        if (::poll(&waited, 1, -1) < 0 && errno != EINTR) fail_read();
      } else if (errno != EINTR) {
        fail_read();
      }
    }
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(path_, "", message);
  }
  [[noreturn]] void fail_read() const {
    fail("can't be read" + reason_text(errno) + "; valid: a file");
  }
  [[noreturn]] void fail_size(std::uint64_t limit) const {
    fail("is larger than " + std::to_string(limit) + " bytes" +
         "; valid: a smaller file, or a larger --max-input");
  }

  std::string path_;
  int fd_ = -1;
};

}  // namespace

void set_input_limit(std::uint64_t bytes) { input_limit = bytes; }

std::string read_text_file(const std::filesystem::path& path) {
  return InputFile(path).text(false);
}

std::string read_first_line(const std::filesystem::path& path) {
  const std::string text = InputFile(path).text(true);
  const std::size_t end = text.find('\n');
  return end == std::string::npos ? "" : text.substr(0, end);
}

bool was_read(const std::filesystem::path& path) {
  struct stat about = {};
  return ::stat(path.c_str(), &about) == 0 && read_files.contains(about);
}

void forget_read_files() { read_files.clear(); }

}  // namespace shardlab
