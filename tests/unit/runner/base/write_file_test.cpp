// A file is whole or absent, whatever happens while it is written.
#include "runner/base/write_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>

#include "costmodel/base/error.h"
#include "tests/support/process.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace write_file_test {

namespace fs = std::filesystem;
using testing_support::read_text;

class WriteFile : public testing::Test {
 protected:
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
  }
  testing_support::TemporaryFolder folder;
};

// While it lives, a file that grows above this size is like one on a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

TEST_F(WriteFile, WritesAndReplaces) {
  const fs::path path = folder.path() / "f";
  write_file(path, "one");
  EXPECT_EQ(read_text(path), "one");
  write_file(path, [](std::ostream& out) { out << "two"; });
  EXPECT_EQ(read_text(path), "two");
  EXPECT_EQ(files(), 1U);
}

TEST_F(WriteFile, AFullDiskLeavesTheOldFileOrNone) {
  const std::string large(100'000, 'x');
  const fs::path old = folder.write("old", "old");
  const fs::path fresh = folder.path() / "new";
  {
    const SmallFiles small(10'000);
    for (const fs::path& path : {old, fresh}) {
      EXPECT_THROW_MSG(write_file(path, large), EnvironmentError,
                       path.string() + ": can't be written: File too large");
    }
  }
  EXPECT_EQ(read_text(old), "old");
  EXPECT_EQ(files(), 1U) << "nothing new is left";
}

TEST_F(WriteFile, OfSeveralFilesAllAreWrittenOrNone) {
  const fs::path first = folder.write("first", "old");
  const fs::path second = folder.path() / "second";
  {
    const SmallFiles small(10'000);
    EXPECT_THROW(write_files({{first, "new"}, {second, std::string(100'000, 'x')}}),
                 EnvironmentError);
  }
  EXPECT_EQ(read_text(first), "old");
  EXPECT_EQ(files(), 1U);
  write_files({{first, "new"}, {second, "x"}});
  EXPECT_EQ(read_text(first), "new");
  EXPECT_EQ(read_text(second), "x");
}

TEST_F(WriteFile, AWriterThatFailsLeavesNothing) {
  const fs::path path = folder.path() / "f";
  EXPECT_THROW(write_file(path,
                          [](std::ostream& out) {
                            out << "half";
                            throw std::runtime_error("no more");
                          }),
               std::runtime_error);
  EXPECT_EQ(files(), 0U);
}

// A temporary file of a killed writer goes when the next file is written beside it. One whose
// writer is at work stays, as does whatever else has such a name.
TEST_F(WriteFile, RemovesWhatAKilledWriterLeft) {
  const fs::path path = folder.path() / "f";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    write_file(path, [](std::ostream& out) {
      out << "half" << std::flush;
      raise(SIGKILL);
    });
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(files(), 1U) << "the killed writer left its file";
  fs::create_directory(folder.path() / ".shardlab-folder.tmp");
  write_file(path, [&](std::ostream& out) {
    write_file(folder.path() / "g", "inner");
    out << "outer";
  });
  EXPECT_EQ(read_text(path), "outer");
  EXPECT_EQ(read_text(folder.path() / "g"), "inner");
  EXPECT_EQ(files(), 3U);
}

TEST_F(WriteFile, ALinkStaysAndAReplacedFileKeepsItsPermissions) {
  const fs::path target = folder.write("target", "old");
  fs::permissions(target, fs::perms::owner_read | fs::perms::owner_write);
  const fs::path link = folder.path() / "link";
  fs::create_symlink("target", link);
  write_file(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_text(target), "new");
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(WriteFile, WhatIsNoRegularFileIsWrittenTo) {
  write_file("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THROW_MSG(write_file("/dev/full", "text"), EnvironmentError,
                   "/dev/full: can't be written: No space left on device");
}

TEST_F(WriteFile, SaysWhyItCannot) {
  const std::string path = folder.path().string();
  EXPECT_THROW_MSG(write_file(path + "/gone/f", "text"), EnvironmentError,
                   path + "/gone/f: can't be written: No such file or directory");
  EXPECT_THROW_MSG(write_file(path, "text"), EnvironmentError,
                   path + ": can't be written: Is a directory");
}

}  // namespace write_file_test
}  // namespace shardlab
