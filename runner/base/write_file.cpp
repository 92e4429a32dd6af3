#include "runner/base/write_file.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <fstream>
#include <system_error>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

// A file that has its final name only once publish() was called. Without that call, nothing is left.
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
    static std::atomic<unsigned> count = 0;
    temporary_ = target_.parent_path() / (".shardlab-" + std::to_string(::getpid()) + "-" +
                                          std::to_string(++count) + ".tmp");
    if (fs::exists(status)) permissions_ = status.permissions();
  }
  ~NewFile() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove(temporary_, ignored);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const std::function<void(std::ostream&)>& write) {
    errno = 0;
    std::ofstream out(is_direct_ ? target_ : temporary_, std::ios::binary);
    if (out) write(out);
    out.close();
    if (!out) fail(errno);
  }

  void publish() {
    if (is_direct_) return;
    std::error_code error;
    // A file that is replaced keeps its permissions.
    if (permissions_ != fs::perms::unknown) fs::permissions(temporary_, permissions_, error);
    if (!error) fs::rename(temporary_, target_, error);
    if (error) fail(error.value());
    temporary_.clear();
  }

 private:
  [[noreturn]] void fail(int error_number) const {
    throw EnvironmentError(name_.string() + ": can't be written" + reason_text(error_number));
  }

  fs::path name_;       // as it was given
  fs::path target_;     // the same without a symbolic link
  fs::path temporary_;  // "" if the target is written to directly, or was published
  bool is_direct_ = false;
  fs::perms permissions_ = fs::perms::unknown;
};

}  // namespace

std::string reason_text(int error_number) {
  return error_number == 0 ? "" : ": " + std::generic_category().message(error_number);
}

void write_file(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  NewFile file(path);
  file.write(write);
  file.publish();
}

void write_file(const fs::path& path, std::string_view text) { write_files({{path, text}}); }

void write_files(const std::vector<std::pair<fs::path, std::string_view>>& files) {
  std::deque<NewFile> written;
  for (const auto& [path, text] : files) {
    written.emplace_back(path).write([text = text](std::ostream& out) { out << text; });
  }
  for (NewFile& file : written) file.publish();
}

}  // namespace shardlab
