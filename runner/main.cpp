// shardlab: the table of commands, and the one place where errors become exit codes.
#include <exception>
#include <iostream>

#include "costmodel/error.h"
#include "costmodel/text.h"
#include "runner/cli.h"
#include "runner/commands/commands.h"
#include "runner/version.h"

namespace shardlab {
namespace {

constexpr CommandRow kCommands[] = {
    {"plan", add_plan_command},         {"select", add_select_command},
    {"ties", add_ties_command},         {"compare", add_compare_command},
    {"regress", add_regress_command},   {"list", add_list_command},
    {"describe", add_describe_command},
};

// CLI11's message, with the nearest word and the valid ones where a word is unknown.
int usage_error(const CLI::App& app, const CLI::ParseError& error,
                const std::vector<std::string>& words) {
  std::string message = error.what();
  const CLI::App* at = &app;
  for (const CLI::App* used : app.get_subcommands()) at = used;
  if (at == &app) {
    std::vector<std::string_view> names;
    for (const CommandRow& row : kCommands) names.push_back(row.name);
    const std::string_view word = words.empty() ? "" : std::string_view(words.front());
    if (word.empty()) {
      message = "a command is required; valid: " + join(names);
    } else if (!word.starts_with("-")) {
      message = "unknown command \"" + std::string(word) + "\"" + did_you_mean(word, names) +
                "; valid: " + join(names);
    }
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = at->remaining();
    const std::string word = extras.empty() ? "" : extras.front();
    std::vector<std::string> options;
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    const std::vector<std::string_view> views(options.begin(), options.end());
    message = "unknown option \"" + word + "\"" + did_you_mean(word, views) + "; valid: " + join(views);
  }
  std::cerr << "shardlab" << (at == &app ? "" : " " + at->get_name()) << ": " << message << "\n";
  return kUsage;
}

int run(int argc, char** argv) {
  CLI::App app{"shardlab: which sharding decisions does a cost-model change flip, and at what regret?",
               "shardlab"};
  app.set_version_flag("--version", std::string("shardlab ") + std::string(version()));
  app.require_subcommand(1);
  Session session;
  session.command_line.assign(argv + 1, argv + argc);
  for (const CommandRow& row : kCommands) row.add(app, session);
  try {
    // CLI11 splits a value in brackets at its commas; a blank in front keeps our tensor lists whole. It reads from the back.
    std::vector<std::string> words(session.command_line.rbegin(), session.command_line.rend());
    for (std::string& word : words) {
      if (word.starts_with('[')) word.insert(word.begin(), ' ');
    }
    app.parse(words);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& call) {
    return app.exit(call);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error, session.command_line);
  }
  std::cout.flush();
  if (!std::cout) throw EnvironmentError("writing to stdout failed");
  return session.exit_code;
}

int report(std::string_view kind, const std::exception& error, int code) {
  std::cerr << "shardlab: " << kind << error.what() << "\n";
  return code;
}

}  // namespace
}  // namespace shardlab

int main(int argc, char** argv) {
  using namespace shardlab;
  try {
    return run(argc, argv);
  } catch (const ConfigError& error) {
    return report("", error, kBadInput);
  } catch (const TextError& error) {
    return report("", error, kUsage);
  } catch (const InputError& error) {
    return report("", error, kUsage);
  } catch (const EnvironmentError& error) {
    return report("", error, kNoEnvironment);
  } catch (const std::exception& error) {
    return report("a bug in shardlab: ", error, kBug);
  }
}
