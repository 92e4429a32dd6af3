#include "runner/base/write_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <fstream>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "costmodel/base/error.h"
#include "runner/base/read_file.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryBegin = ".shardlab-";
constexpr std::string_view kTemporaryEnd = ".tmp";

// An open file or folder.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] bool lock() const { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0; }
  // Whether the file still has a name.
  [[nodiscard]] bool has_name() const {
    struct stat about = {};
    return ::fstat(fd_, &about) == 0 && about.st_nlink > 0;
  }
  // The number of the error for which the bytes may not be on the disk, or 0. Some file systems
  // have nothing to wait for and refuse to be asked.
  [[nodiscard]] int sync() const {
    return ::fsync(fd_) == 0 || errno == EINVAL || errno == EROFS || errno == ENOSYS ? 0 : errno;
  }

 private:
  int fd_;
};

Descriptor open_folder(const fs::path& folder) {
  return Descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Removes what writers that were killed have left in the folder. A writer keeps its temporary file
// locked, on whatever machine it runs; where files can't be locked, all of them stay.
void remove_left_files(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kTemporaryBegin) || !name.ends_with(kTemporaryEnd)) continue;
    const Descriptor file(
        ::open(entry->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.is_open() && file.lock()) ::unlink(entry->path().c_str());
  }
}

// A file that has its final name only once publish() was called. Without that call, nothing is
// left.
class NewFile {
 public:
  explicit NewFile(fs::path path) : name_(std::move(path)), target_(name_) {
    std::error_code ignored;
    const fs::file_status status = fs::status(target_, ignored);
    const bool is_link = fs::is_symlink(fs::symlink_status(target_, ignored));
    // What is no regular file can't be replaced, nor can what a link points to that is not there.
    is_direct_ = fs::exists(status) ? !fs::is_regular_file(status) : is_link;
    if (is_direct_) return;
    std::error_code error;
    if (is_link) target_ = fs::canonical(target_, error);
    if (error) fail(error.value());
    if (fs::exists(status)) permissions_ = status.permissions();
    remove_left_files(folder());
    make_temporary();
  }
  ~NewFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const std::function<void(std::ostream&)>& write) {
    errno = 0;
    std::ofstream out(is_direct_ ? target_ : temporary_, std::ios::binary);
    if (out) write(out);
    out.close();
    if (!out) fail(errno);
    if (is_direct_) return;
    if (const int error = file_.sync(); error != 0) fail(error);
  }

  // Gives the file its name, and returns the folder to sync, if there is one.
  [[nodiscard]] std::optional<fs::path> publish() {
    if (is_direct_) return std::nullopt;
    std::error_code error;
    // A file that is replaced keeps its permissions.
    if (permissions_ != fs::perms::unknown) fs::permissions(temporary_, permissions_, error);
    if (!error) fs::rename(temporary_, target_, error);
    if (error) fail(error.value());
    temporary_.clear();
    return folder();
  }

 private:
  [[nodiscard]] fs::path folder() const { return target_.parent_path(); }

  void make_temporary() {
    static std::atomic<unsigned> count = 0;
    while (true) {
      const fs::path path = folder() / (std::string(kTemporaryBegin) + std::to_string(::getpid()) +
                                        "-" + std::to_string(++count) + std::string(kTemporaryEnd));
      file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      // The name may be that of a process which had the same number, here or on another machine.
      if (!file_.is_open() && errno == EEXIST) continue;
      if (!file_.is_open()) fail(errno);
      // Another process may have removed the file before it was locked.
      static_cast<void>(file_.lock());
      if (!file_.has_name()) continue;
      temporary_ = path;
      return;
    }
  }

  [[noreturn]] void fail(int error_number) const {
    throw EnvironmentError(name_.string() + ": can't be written" + reason_text(error_number));
  }

  fs::path name_;       // as it was given
  fs::path target_;     // the same without a symbolic link
  fs::path temporary_;  // "" if the target is written to directly, or was published
  Descriptor file_;     // the temporary file, locked
  bool is_direct_ = false;
  fs::perms permissions_ = fs::perms::unknown;
};

// Gives all files their names, and waits until the disk knows them.
void publish(std::deque<NewFile>& files) {
  std::set<fs::path> folders;
  for (NewFile& file : files) {
    if (const std::optional<fs::path> folder = file.publish()) folders.insert(*folder);
  }
  for (const fs::path& path : folders) {
    const Descriptor folder = open_folder(path);
    if (!folder.is_open()) continue;  // a folder that may be written to, but not read
    if (const int error = folder.sync(); error != 0) {
      throw EnvironmentError(path.string() + ": can't be written" + reason_text(error));
    }
  }
}

}  // namespace

std::string reason_text(int error_number) {
  return error_number == 0 ? "" : ": " + std::generic_category().message(error_number);
}

void write_file(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  std::deque<NewFile> file;
  file.emplace_back(path).write(write);
  publish(file);
}

void write_file(const fs::path& path, std::string_view text) { write_files({{path, text}}); }

void write_output(std::string_view option, const fs::path& path, std::string_view text) {
  expect_no_input(option, path);
  write_file(path, text);
}

void expect_no_input(std::string_view option, const fs::path& path) {
  if (!was_read(path)) return;
  throw InputError(std::string(option) + ": found \"" + path.string() +
                   "\", which this command reads; valid: another file");
}

void write_files(const std::vector<std::pair<fs::path, std::string_view>>& files) {
  std::deque<NewFile> written;
  for (const auto& [path, text] : files) {
    written.emplace_back(path).write([text = text](std::ostream& out) { out << text; });
  }
  publish(written);
}

}  // namespace shardlab
