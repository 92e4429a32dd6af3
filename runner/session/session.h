// One run of a command: the options that all commands share, and where results go.
//
// A command reads its input, computes and prints through the session, and may set
// session.exit_code. It throws errors about bad input (costmodel/base/error.h), and main.cpp turns
// these into exit codes.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/error.h"
#include "runner/base/text_style.h"

namespace shardlab {

class Command;
class CommandOption;
class ConfigStore;
class StackSource;
class Topology;
struct Question;
struct Stack;

enum ExitCode : int {
  kDone = 0,
  kGateSaidNo = 1,
  kUsage = 2,          // the command line is wrong
  kBadInput = 3,       // a file is wrong
  kNoEnvironment = 4,  // no GPU, no NCCL, no space on the disk, ...
  kBug = 5,
  kInterrupted = 130  // what shells report of programs that SIGINT ended: 128 + 2
};

// What the exit codes mean, for help texts and man pages.
struct ExitMeaning {
  ExitCode code;
  std::string_view meaning;
};
inline constexpr ExitMeaning kExitMeanings[] = {
    {kDone, "done"},
    {kGateSaidNo,
     "a gate said no: a case failed, a bound was passed, a verification failed; the result is "
     "printed first"},
    {kUsage, "the command line is wrong"},
    {kBadInput, "a file is wrong"},
    {kNoEnvironment,
     "the environment lacks something: a GPU, NCCL, PyTorch, memory, space on the disk"},
    {kBug, "a bug in shardlab"},
    {kInterrupted,
     "Ctrl-C ended the command; those that ask many questions print first what they have"},
};

struct Session {
  // Common options.
  std::string format = "text";
  std::string out;
  bool summary = false;           // for commands that write reports
  std::string max_input = "1GB";  // the largest file that is read
  std::uint64_t seed = 0;
  int jobs = 0;  // 0 means one per core
  bool quiet = false;
  bool no_timing = false;
  std::string digits = "5";  // significant digits of figures in text, or "full"
  std::string colour = "auto";
  bool torch_names = false;  // layouts in text are written as PyTorch does (layout_names.h)
  std::vector<std::string> sets;
  std::string topology = "h100";

  StackSource* stack_source = nullptr;  // stacks that are in no file; null means there are none
  // Stacks of whoever calls the command from within this process; null means there are none.
  StackSource* callers_stacks = nullptr;
  // How many questions a live PyTorch is asked to check its stack; nothing means as many as ten
  // seconds allow.
  std::optional<std::int64_t> verify;

  // Whether Ctrl-C ends a long loop with what is known by then (long_loop.h).
  bool takes_interrupts = false;
  std::string interruption;  // "interrupted after 120 of 1000 questions"; empty if nothing was

  int exit_code = kDone;
  std::ostream* results = nullptr;        // null means stdout
  std::vector<std::string> command_line;  // the words as they were typed

  [[nodiscard]] bool json() const { return format == "json"; }
  [[nodiscard]] ConfigStore store() const;
  [[nodiscard]] ConfigStore experiment_store() const;  // for commands that read an experiment
  [[nodiscard]] ConfigStore topology_store() const;    // for commands that read no stack
  // For ways of using a command that read no configuration. Throws InputError if --set was given.
  void expect_no_sets(std::string_view command) const;
  [[nodiscard]] int threads() const;  // jobs, or the number of cores
  // How text on stdout looks: with these digits, and with the colours and the width of the
  // terminal.
  [[nodiscard]] TextStyle style() const;
  // Tells the sources of these stacks what will be asked under them (StackSource::prepare).
  void prepare(std::span<const Stack> stacks, std::span<const Question* const> questions,
               const Topology& on) const;
  // {"torch": ...}: where the answers came from that Python code gave; nothing if it gave none.
  [[nodiscard]] std::optional<nlohmann::json> provenance() const;
  // Prints a result, a JSON document or a text, to `results`. A document says where its answers
  // came from if a live PyTorch gave some of them.
  void print(const nlohmann::json& document) const;
  void print(const std::string& text) const;
};

// Which of the options that many commands have a command reads. Every command has --format,
// --max-input, --color, --quiet and --no-timing.
struct CommonOptions {
  bool seed = false;    // it makes random choices
  bool jobs = false;    // it computes with several threads
  bool sets = false;    // it reads a topology, a stack or an experiment
  bool digits = false;  // its text has figures, which it rounds
};

// Adds these options. One that the command does not read is a usage error, which says so (usage.h).
void add_common_options(const Command& command, Session& session, const CommonOptions& read);
CommandOption add_topology_option(const Command& command, Session& session);
// Adds --verify, for commands that ask questions under stacks.
void add_verify_option(const Command& command, Session& session);

// Parses the text form of one option's value. If that throws a TextError, the option's name is
// added in front of its message.
template <class Parse>
auto parse_option(std::string_view option, Parse&& parse) -> decltype(parse()) {
  try {
    return parse();
  } catch (const TextError& error) {
    throw InputError(std::string(option) + ": " + error.what());
  }
}

// The bytes of memory that an option asks for: "80GB". A bare number below 1000 is refused, because
// whoever types one means gigabytes. Throws InputError.
[[nodiscard]] double parse_memory_option(std::string_view option, std::string_view text);

}  // namespace shardlab
