// shardlab: the table of commands, and the one place where errors become exit codes.
#if defined(__linux__)
#include <malloc.h>
#endif

#include <algorithm>
#include <exception>
#include <iostream>

#include "costmodel/error.h"
#include "runner/cli.h"
#include "runner/commands/commands.h"
#include "runner/terminal.h"
#include "runner/usage.h"
#include "runner/version.h"

namespace shardlab {
namespace {

constexpr CommandRow kCommands[] = {
    {"plan", add_plan_command},           {"select", add_select_command},
    {"simulate", add_simulate_command},   {"ties", add_ties_command},
    {"rules", add_rules_command},         {"compare", add_compare_command},
    {"regress", add_regress_command},     {"validate", add_validate_command},
    {"calibrate", add_calibrate_command}, {"measure", add_measure_command},
    {"program", add_program_command},     {"solve", add_solve_command},
    {"list", add_list_command},           {"describe", add_describe_command},
};

// CLI11 splits a value of --inputs that stands in brackets at its commas; a blank in front keeps
// tensor lists whole (select takes it away again).
std::vector<std::string> with_whole_lists(std::vector<std::string> words) {
  constexpr std::string_view kOption = "--inputs";
  bool is_input = false;
  for (std::string& word : words) {
    if (word.starts_with("--")) is_input = word == kOption;
    if (is_input && word.starts_with('[')) word.insert(0, " ");
    if (word.starts_with("--inputs=[")) word.insert(kOption.size() + 1, " ");
  }
  return words;
}

// Memory that was freed serves the next allocation, rather than going back to the system page by page:
// measured, a tenth of the time of solving a large program. The limits are glibc's largest for
// mapped blocks (mallopt(3)) and more than any run frees at once.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 4 << 20);
#endif
}

int run(int argc, char** argv) {
  CLI::App app{
      "shardlab: which sharding decisions does a cost-model change flip, and at what regret?",
      "shardlab"};
  app.set_version_flag("--version", std::string("shardlab ") + std::string(version()));
  app.require_subcommand(1);
  Session session;
  session.command_line.assign(argv + 1, argv + argc);
  for (const CommandRow& row : kCommands) row.add(app, session);
  try {
    std::vector<std::string> words = with_whole_lists(session.command_line);
    std::reverse(words.begin(), words.end());  // CLI11 reads from the back
    app.parse(words);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& call) {
    return app.exit(call);
  } catch (const CLI::ParseError& error) {
    throw InputError(usage_message(app, error, session.command_line));
  }
  std::cout.flush();
  if (!std::cout) throw EnvironmentError("writing to stdout failed");
  return session.exit_code;
}

// A message may quote what was typed or read: bytes that are no printable ASCII and no UTF-8 letter
// are shown by number.
int report(std::string_view kind, const std::exception& error, int code) {
  std::cerr << "shardlab: " << kind << printable(error.what()) << "\n";
  return code;
}

}  // namespace
}  // namespace shardlab

int main(int argc, char** argv) {
  using namespace shardlab;
  keep_freed_memory();
  try {
    return run(argc, argv);
  } catch (const ConfigError& error) {
    return report("", error, kBadInput);
  } catch (const TextError& error) {
    return report("", error, kUsage);
  } catch (const LimitError& error) {
    return report("", error, kBadInput);
  } catch (const InputError& error) {
    return report("", error, kUsage);
  } catch (const EnvironmentError& error) {
    return report("", error, kNoEnvironment);
  } catch (const std::exception& error) {
    return report("a bug in shardlab: ", error, kBug);
  }
}
