// Writes whole files. A file is written beside its final name, and renamed once it is complete and
// on the disk, so that a full disk, a kill or a loss of power leaves either the old file or the new
// one under its name, never a part. A writer that is killed leaves its temporary file
// .shardlab-PID-N.tmp, which the next writer into that folder removes: a lock tells that its writer
// is gone.
//
//   write_file("plan.json", text);
//   write_files({{"out/report.html", html}, {"out/record.json", record}});   // all or none
//
// A name that stands for something else than a regular file, such as /dev/stdout or a pipe, is
// written to directly. A symbolic link stays, and what it points to is replaced.
// Tested by tests/unit/runner/base/write_file_test.cpp.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardlab {

// Throws EnvironmentError if the file can't be written.
void write_file(const std::filesystem::path& path, std::string_view text);
// Writes what `write` puts into the stream, for content that is too long to hold in memory.
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);
// Writes the text into the file that an option names. Throws InputError if that file is one that
// the command has read: a log of measurements or a program would be lost.
void write_output(std::string_view option, const std::filesystem::path& path,
                  std::string_view text);
// The check alone, for an output that is written in another way.
void expect_no_input(std::string_view option, const std::filesystem::path& path);
// Writes each text into its file. No file gets its final name before all are written; a kill
// between the renames that follow leaves some of the files new and the others old.
void write_files(const std::vector<std::pair<std::filesystem::path, std::string_view>>& files);

// ": No such file or directory" for ENOENT, "" for 0.
[[nodiscard]] std::string reason_text(int error_number);

}  // namespace shardlab
