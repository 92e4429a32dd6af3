// Runs a program within a time limit, and keeps its exit code, stdout and stderr apart from each
// other.
//
//   ProcessResult result = run_process({SHARDLAB_BINARY, "list", "stacks"}, {.folder = "/tmp"});
//   result.exit_code == 0 && result.out == "..."
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace shardlab::testing_support {

struct ProcessOptions {
  std::filesystem::path folder;  // where the program starts; empty means the current folder
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
  int timeout_s =
      600;  // below the limit of a suite (tests/discover_suites.cmake), even on a busy machine
};

struct ProcessResult {
  int exit_code = -1;  // 128 + the signal if a signal ended it, as in a shell
  bool timed_out = false;
  std::string out;
  std::string err;
};

// Throws std::runtime_error if the program can't be started.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& command,
                                        const ProcessOptions& options = {});

// A folder that is removed again with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read_text(const std::filesystem::path& path);
[[nodiscard]] std::string replaced(std::string text, const std::string& from,
                                   const std::string& to);

}  // namespace shardlab::testing_support
