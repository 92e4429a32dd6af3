// shardlab: runs a command (runner/command_line.cpp has the table of commands). This is the only
// place where errors become exit codes.
#if defined(__linux__)
#include <malloc.h>
#endif
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include "costmodel/base/error.h"
#include "runner/base/lined_error.h"
#include "runner/base/terminal.h"
#include "runner/command_line.h"

namespace shardlab {
namespace {

constexpr std::string_view kBugPrefix = "a bug in shardlab: ";

// Keeps freed memory for the next allocation instead of returning it to the system page by page,
// which makes solving a large program 10 % faster (measured). The limits are the largest that glibc
// accepts for mapped blocks (mallopt(3)), and more than any run frees at once.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 4 << 20);
#endif
}

int run(int argc, char** argv, Session& session) {
  session.takes_interrupts = true;
  // A file that passes the limit of `ulimit -f` is an error that says so, not the end of the
  // program.
  std::signal(SIGXFSZ, SIG_IGN);
  const int exit_code = run_command_line({argv + 1, argv + argc}, session);
  std::cout.flush();
  if (!std::cout) throw EnvironmentError("writing to stdout failed");
  return exit_code;
}

// Prints an error. Its message may quote what was typed or read.
int report(const Session& session, std::string_view kind, const std::exception& error, int code) {
  const TextStyle style{.has_colour = wants_colour(session.colour, OutputStream::kErrors)};
  const bool has_lines = dynamic_cast<const LinedMessage*>(&error) != nullptr;
  const std::string message = with_short_values(error.what());
  std::cerr << style.painted(Tone::kBad, "shardlab:") << " " << kind
            << (has_lines ? printable_lines(message) : printable(message)) << "\n";
  return code;
}

constexpr std::string_view kNoMemory =
    "the system gives no more memory; valid: a smaller question, fewer threads (--jobs) or a "
    "higher limit (ulimit -v)";

int report_lack_of_memory(const Session& session) {
  return report(session, "", EnvironmentError(std::string(kNoMemory)), kNoEnvironment);
}

std::terminate_handler terminate_before = nullptr;

// Ends the program as report_lack_of_memory() does where it can't be reported, because a destructor
// ran out of memory: those of JSON documents (nlohmann/json 3.11) allocate, but may not throw.
[[noreturn]] void end_without_memory() {
  static std::atomic_flag is_ending = ATOMIC_FLAG_INIT;
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    while (is_ending.test_and_set()) pause();  // another thread ends the program
    for (const std::string_view part :
         {std::string_view("shardlab: "), kNoMemory, std::string_view("\n")}) {
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, part.data(), part.size());
    }
    _exit(kNoEnvironment);
  } catch (...) {
    terminate_before();
  }
  std::abort();
}

// An error of the system that no call expected. A refused thread has the code
// resource_unavailable_try_again.
int report(const Session& session, const std::system_error& error) {
  if (error.code() == std::errc::not_enough_memory) return report_lack_of_memory(session);
  if (error.code() != std::errc::resource_unavailable_try_again) {
    return report(session, kBugPrefix, error, kBug);
  }
  return report(session, "",
                EnvironmentError("the system starts no more threads; valid: a higher limit on "
                                 "processes and threads (ulimit -u) or on memory (ulimit -v)"),
                kNoEnvironment);
}

}  // namespace
}  // namespace shardlab

int main(int argc, char** argv) {
  using namespace shardlab;
  keep_freed_memory();
  terminate_before = std::set_terminate(end_without_memory);
  Session session;
  try {
    return run(argc, argv, session);
  } catch (const ConfigError& error) {
    return report(session, "", error, kBadInput);
  } catch (const TextError& error) {
    return report(session, "", error, kUsage);
  } catch (const LimitError& error) {
    return report(session, "", error, kBadInput);
  } catch (const InputError& error) {
    return report(session, "", error, kUsage);
  } catch (const EnvironmentError& error) {
    return report(session, "", error, kNoEnvironment);
  } catch (const std::bad_alloc&) {
    return report_lack_of_memory(session);
  } catch (const std::system_error& error) {
    return report(session, error);
  } catch (const std::exception& error) {
    return report(session, kBugPrefix, error, kBug);
  }
}
