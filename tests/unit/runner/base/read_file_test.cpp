// A command reads regular files and pipes that hold data, and refuses what is longer than the
// limit.
#include "runner/base/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "costmodel/base/error.h"
#include "tests/support/process.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace read_file_test {

class ReadFile : public testing::Test {
 protected:
  ~ReadFile() override { set_input_limit(kDefaultInputLimit); }
  testing_support::TemporaryFolder folder;
};

TEST_F(ReadFile, ReadsTheBytesOfAFile) {
  const std::string text("a\0b\r\nc", 6);
  EXPECT_EQ(read_text_file(folder.write("f", text)), text);
  EXPECT_EQ(read_text_file(folder.write("empty", "")), "");
  const std::string large(300'000, 'x');
  EXPECT_EQ(read_text_file(folder.write("large", large)), large);
  EXPECT_NE(read_text_file("/proc/self/status"), "") << "its size is said to be 0";
}

TEST_F(ReadFile, ReadsTheFirstLine) {
  EXPECT_EQ(read_first_line(folder.write("f", "one\ntwo\n")), "one");
  EXPECT_EQ(read_first_line(folder.write("torn", "one")), "");
  EXPECT_EQ(read_first_line(folder.write("empty", "")), "");
  set_input_limit(100'000);
  EXPECT_EQ(read_first_line(folder.write("long", "one\n" + std::string(1'000'000, 'x'))), "one");
}

TEST_F(ReadFile, RefusesWhatIsNoFile) {
  const std::string path = folder.path().string();
  EXPECT_THROW_MSG((void)read_text_file(path), ConfigError, path + ": is a folder; valid: a file");
  EXPECT_THROW_MSG((void)read_text_file(path + "/gone"), ConfigError,
                   path + "/gone: can't be read: No such file or directory; valid: a file");
  for (const char* device : {"/dev/zero", "/dev/null", "/dev/full"}) {
    EXPECT_THROW_MSG((void)read_text_file(device), ConfigError,
                     std::string(device) + ": is neither a regular file nor a pipe; valid: a file");
  }
}

// The kernel's log counts as a regular file, and a reader waits for its next message.
TEST_F(ReadFile, DoesNotWaitForASpecialFile) {
  if (access("/proc/kmsg", R_OK) != 0) GTEST_SKIP() << "only root may read the kernel's log";
  try {
    (void)read_text_file("/proc/kmsg");
  } catch (const ConfigError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("/proc/kmsg: ")) << error.what();
  }
}

TEST_F(ReadFile, APipeNeedsData) {
  const std::string path = (folder.path() / "pipe").string();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW_MSG((void)read_text_file(path), ConfigError,
                   path + ": is a pipe without data; valid: a file");
  // The writer of an anonymous pipe may still be at work when the pipe is opened.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::thread writer([&] {
    for (const char* text : {"a", "b"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(write(ends[1], text, 1), 1);
    }
    close(ends[1]);
  });
  EXPECT_EQ(read_text_file("/dev/fd/" + std::to_string(ends[0])), "ab");
  writer.join();
  close(ends[0]);
}

TEST_F(ReadFile, RefusesWhatIsLargerThanTheLimit) {
  set_input_limit(1000);
  EXPECT_EQ(read_text_file(folder.write("f", std::string(1000, 'x'))).size(), 1000U);
  const std::string path = folder.write("g", std::string(1001, 'x')).string();
  EXPECT_THROW_MSG(
      (void)read_text_file(path), ConfigError,
      path + ": is larger than 1000 bytes; valid: a smaller file, or a larger --max-input");
  // What is larger than it says is found out while it is read.
  set_input_limit(10);
  EXPECT_THROW_MSG(
      (void)read_text_file("/proc/self/status"), ConfigError,
      "/proc/self/status: is larger than 10 bytes; valid: a smaller file, or a larger --max-input");
}

// "some text\n" as `gzip -9` writes it, without a name and a time.
constexpr std::string_view kZipped(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x2b\xce\xcf\x4d\x55\x28\x49\xad\x28\xe1\x02\x00"
    "\xbc\xe6\x2c\x19\x0a\x00\x00\x00",
    30);

TEST_F(ReadFile, DecompressesWhatGzipMade) {
  const std::string zipped(kZipped);
  EXPECT_EQ(read_text_file(folder.write("t.gz", zipped)), "some text\n");
  // Two members are one text, whatever the file is called.
  EXPECT_EQ(read_text_file(folder.write("t.json", zipped + zipped)), "some text\nsome text\n");
}

TEST_F(ReadFile, SaysWhatIsWrongWithGzip) {
  const std::string zipped(kZipped);
  const std::string path = (folder.path() / "t.gz").string();
  const std::string valid = "; valid: a file that gunzip -t accepts";
  folder.write("t.gz", zipped.substr(0, 20));
  EXPECT_THROW_MSG((void)read_text_file(path), ConfigError,
                   path + ": is damaged: it ends too early" + valid);
  folder.write("t.gz", zipped + "more");
  EXPECT_THROW_MSG((void)read_text_file(path), ConfigError,
                   path + ": is damaged: something other than gzip follows its end" + valid);
  std::string damaged = zipped;
  damaged[24] ^= 1;
  folder.write("t.gz", damaged);
  EXPECT_THROW_MSG((void)read_text_file(path), ConfigError,
                   path + ": is damaged: incorrect data check" + valid);
  folder.write("t.gz", zipped);
  set_input_limit(9);
  EXPECT_THROW_MSG((void)read_text_file(path), ConfigError,
                   path +
                       ": is larger than 9 bytes; valid: a smaller file, or a larger "
                       "--max-input");
}

TEST_F(ReadFile, IsKnownByEachOfItsNamesUntilTheNextCommand) {
  const std::filesystem::path path = folder.write("a.txt", "a");
  const std::filesystem::path link = folder.path() / "link.txt";
  std::filesystem::create_symlink("a.txt", link);
  forget_read_files();
  EXPECT_FALSE(was_read(path));
  EXPECT_EQ(read_text_file(link), "a");
  EXPECT_TRUE(was_read(path));
  EXPECT_TRUE(was_read(link));
  EXPECT_FALSE(was_read(folder.path() / "gone.txt"));
  forget_read_files();
  EXPECT_FALSE(was_read(path));
}

// A file of 1 kB may hold a million bytes.
TEST_F(ReadFile, TheLimitHoldsForWhatIsDecompressed) {
  const std::string path =
      folder
          .write("large.gz",
                 testing_support::read_text(SHARDLAB_SOURCE_DIR "/tests/golden/traces/zeros.gz"))
          .string();
  EXPECT_EQ(read_text_file(path), std::string(1'000'000, '0'));
  set_input_limit(999'999);
  EXPECT_THROW_MSG((void)read_text_file(path), ConfigError,
                   path +
                       ": holds more than 999999 bytes once it is decompressed; valid: a "
                       "smaller file, or a larger --max-input");
}

}  // namespace read_file_test
}  // namespace shardlab
