// shardlab: runs a command (runner/command_line.cpp has the table of commands). This is the only
// place where errors become exit codes.
#if defined(__linux__)
#include <malloc.h>
#endif

#include <csignal>
#include <exception>
#include <iostream>

#include "costmodel/base/error.h"
#include "runner/base/lined_error.h"
#include "runner/base/terminal.h"
#include "runner/command_line.h"

namespace shardlab {
namespace {

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

}  // namespace
}  // namespace shardlab

int main(int argc, char** argv) {
  using namespace shardlab;
  keep_freed_memory();
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
  } catch (const std::exception& error) {
    return report(session, "a bug in shardlab: ", error, kBug);
  }
}
