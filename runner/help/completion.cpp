#include "runner/help/completion.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/registry.h"
#include "runner/config/configs.h"
#include "runner/help/embedded.h"
#include "strategies/rules/rule_table.h"
#include "strategies/training/model_shape.h"

namespace shardlab {
namespace {

struct Candidate {
  std::string word;
  std::string about;
};

struct Candidates {
  std::vector<Candidate> words;
  bool files = false;  // names of files fit as well
};

// What the shell has typed so far of one command.
struct Typed {
  const CommandInfo* command = nullptr;
  std::vector<std::string> positionals;
  std::vector<std::string> options;
  const OptionInfo* waits = nullptr;  // the option whose value comes next
  bool may_end = false;               // `waits` has one value and takes more, or another option
  std::string word;                   // which is being typed
};

std::vector<Candidate> names_of(const Session& session, ConfigKind kind) {
  std::vector<Candidate> names;
  for (const std::string& name : session.experiment_store().names(kind))
    names.push_back({name, ""});
  return names;
}

template <class Names>
std::vector<Candidate> words_of(const Names& names) {
  std::vector<Candidate> words;
  for (const auto& name : names) words.push_back({std::string(name), ""});
  return words;
}

// The ops of all rule sets, by the names that PyTorch gives them ("aten.mm.default"), and by the
// short ones that commands read as well ("mm").
std::vector<Candidate> op_names() {
  std::vector<std::string> names;
  for (const auto& [set, set_name] : EnumNames<RuleSet>::kNames) {
    for (const OpRule& rule : rule_table(set).rules()) names.emplace_back(rule.op);
  }
  constexpr std::string_view kNamespace = "aten.";
  constexpr std::string_view kOverload = ".default";
  const std::size_t full = names.size();
  for (std::size_t i = 0; i < full; ++i) {
    if (!names[i].starts_with(kNamespace)) continue;
    std::string name = names[i].substr(kNamespace.size());
    if (name.ends_with(kOverload)) name.resize(name.size() - kOverload.size());
    names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return words_of(names);
}

Candidates with_files(std::vector<Candidate> words) { return {std::move(words), true}; }

Candidates commands_of(std::span<const CommandGroup> groups) {
  Candidates commands;
  for (const CommandGroup& group : groups) {
    for (const CommandInfo& command : group.commands) {
      commands.words.push_back({command.name, summary_of(command)});
    }
  }
  return commands;
}

// How the values are completed that help texts call so (kValueNames in session/command.cpp).
struct ValueKind {
  std::string_view name;
  Candidates (*values)(const Session& session);
};
template <ConfigKind kKind>
Candidates shipped_or_file(const Session& session) {
  return with_files(names_of(session, kKind));
}
constexpr ValueKind kValueKinds[] = {
    {"STACK", shipped_or_file<ConfigKind::kStack>},
    {"TOPOLOGY", shipped_or_file<ConfigKind::kTopology>},
    {"SUITE", shipped_or_file<ConfigKind::kSuite>},
    {"RECIPE", shipped_or_file<ConfigKind::kRecipe>},
    {"PROGRAM", shipped_or_file<ConfigKind::kProgram>},
    {"EXPERIMENT", shipped_or_file<ConfigKind::kExperiment>},
    {"MEASUREMENT", shipped_or_file<ConfigKind::kMeasurement>},
    {"CASE",
     [](const Session& session) -> Candidates {
       return {names_of(session, ConfigKind::kRegression), false};
     }},
    {"OP",
     [](const Session&) -> Candidates {
       return {op_names(), false};
     }},
    {"RULES",
     [](const Session&) -> Candidates {
       return {words_of(all_names<RuleSet>()), false};
     }},
    {"FORM",
     [](const Session&) -> Candidates {
       return {words_of(fitted_model_names()), false};
     }},
    {"MODEL",
     [](const Session&) -> Candidates { return with_files(words_of(model_shape_names())); }},
    {"FILE", [](const Session&) -> Candidates { return with_files({}); }},
    {"PATH", [](const Session&) -> Candidates { return with_files({}); }},
};

// The entries that `describe KIND` knows, by the kind.
struct EntryKind {
  std::string_view kind;
  std::string_view value;
};
constexpr EntryKind kEntryKinds[] = {
    {"stack", "STACK"},       {"topology", "TOPOLOGY"},     {"op", "OP"},
    {"suite", "SUITE"},       {"regression", "CASE"},       {"program", "PROGRAM"},
    {"recipe", "RECIPE"},     {"experiment", "EXPERIMENT"}, {"measurement", "MEASUREMENT"},
    {"tuner", "MEASUREMENT"},
};

Candidates values_called(std::string_view name, const Session& session) {
  for (const ValueKind& kind : kValueKinds) {
    if (kind.name == name) return kind.values(session);
  }
  return {};
}

Candidates values_of(const OptionInfo& option, const Typed& typed,
                     std::span<const CommandGroup> groups, const Session& session) {
  if (!option.words.empty()) return {words_of(option.words), false};
  if (option.value == "COMMAND") return commands_of(groups);
  if (option.value != "ENTRY") return values_called(option.value, session);
  if (typed.positionals.empty()) return {};
  if (typed.positionals.front() == "model") {
    std::vector<std::string_view> models;
    for (const ModelEntry* model : all_cost_models()) models.push_back(model->name);
    return {words_of(models), false};
  }
  for (const auto& [kind, value] : kEntryKinds) {
    if (typed.positionals.front() == kind) return values_called(value, session);
  }
  return {};
}

const OptionInfo* find_option(const CommandInfo& command, std::string_view name) {
  const auto found = std::find_if(command.options.begin(), command.options.end(),
                                  [&](const OptionInfo& each) { return each.name == name; });
  return found == command.options.end() ? nullptr : &*found;
}

const CommandInfo* find_command(std::span<const CommandGroup> groups, std::string_view name) {
  for (const CommandGroup& group : groups) {
    for (const CommandInfo& command : group.commands) {
      if (command.name == name) return &command;
    }
  }
  return nullptr;
}

bool is_option(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

Typed read_words(const CommandInfo& command, std::span<const std::string> words) {
  Typed typed;
  typed.command = &command;
  typed.word = words.back();
  for (const std::string& word : words.first(words.size() - 1)) {
    if (is_option(word)) {
      const std::size_t equals = word.find('=');
      typed.options.push_back(word.substr(0, equals));
      const OptionInfo* option = find_option(command, typed.options.back());
      const bool takes_value = option != nullptr && !option->value.empty();
      typed.waits = takes_value && equals == std::string::npos ? option : nullptr;
      typed.may_end = false;
    } else if (typed.waits == nullptr) {
      typed.positionals.push_back(word);
    } else if (typed.waits->takes_several) {
      typed.may_end = true;
    } else {
      typed.waits = nullptr;
    }
  }
  return typed;
}

Candidates options_of(const Typed& typed) {
  Candidates options;
  for (const OptionInfo& option : typed.command->options) {
    const bool is_given =
        std::find(typed.options.begin(), typed.options.end(), option.name) != typed.options.end();
    if (option.is_positional || (is_given && !option.is_repeatable)) continue;
    options.words.push_back({option.name, option.help});
  }
  return options;
}

// The positional argument that the next word is; null where the command takes no more of them.
const OptionInfo* next_positional(const Typed& typed) {
  std::size_t before = 0;
  for (const OptionInfo& option : typed.command->options) {
    if (!option.is_positional) continue;
    if (option.takes_several || before == typed.positionals.size()) return &option;
    ++before;
  }
  return nullptr;
}

Candidates candidates_of(const Typed& typed, std::span<const CommandGroup> groups,
                         const Session& session) {
  const bool begins_option = typed.word.starts_with('-');
  if (typed.waits != nullptr && !(typed.may_end && begins_option)) {
    return values_of(*typed.waits, typed, groups, session);
  }
  if (begins_option) {
    const std::size_t equals = typed.word.find('=');
    if (equals == std::string::npos) return options_of(typed);
    const std::string name = typed.word.substr(0, equals);
    const OptionInfo* option = find_option(*typed.command, name);
    if (option == nullptr || option->value.empty()) return {};
    Candidates values = values_of(*option, typed, groups, session);
    for (Candidate& value : values.words) value.word.insert(0, name + "=");
    return values;
  }
  const OptionInfo* positional = next_positional(typed);
  if (positional == nullptr) return options_of(typed);
  return values_of(*positional, typed, groups, session);
}

Candidates candidates_for(std::span<const CommandGroup> groups, std::span<const std::string> words,
                          const Session& session) {
  if (words.size() <= 1) {
    if (words.empty() || !words.front().starts_with('-')) return commands_of(groups);
    return {{{"--help", "print what the program can do"}, {"--version", "print the version"}},
            false};
  }
  const CommandInfo* command = find_command(groups, words.front());
  if (command == nullptr) return {};
  return candidates_of(read_words(*command, words.subspan(1)), groups, session);
}

// A description has one line, and no tab.
std::string one_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

struct Script {
  std::string_view shell;
  help::EmbeddedFile (*text)();
};
constexpr Script kScripts[] = {{"bash", help::embedded_shardlab_bash},
                               {"fish", help::embedded_shardlab_fish},
                               {"zsh", help::embedded_shardlab_zsh}};

}  // namespace

std::string complete(std::span<const CommandGroup> groups, std::span<const std::string> words,
                     const Session& session) {
  Candidates fitting;
  try {
    fitting = candidates_for(groups, words, session);
  } catch (const std::exception&) {
    fitting = {};  // a shell that completes a word has no place for messages
  }
  const std::string_view typed = words.empty() ? std::string_view() : words.back();
  std::string text;
  for (const auto& [word, about] : fitting.words) {
    if (!word.starts_with(typed)) continue;
    text += word + (about.empty() ? "" : "\t" + one_line(about)) + "\n";
  }
  return text + (fitting.files ? ":files\n" : ":words\n");
}

std::vector<std::string> completion_shells() {
  std::vector<std::string> shells;
  for (const Script& script : kScripts) shells.emplace_back(script.shell);
  return shells;
}

std::string completion_script(std::string_view shell) {
  const auto* const found = std::find_if(std::begin(kScripts), std::end(kScripts),
                                         [&](const Script& each) { return each.shell == shell; });
  SHARDLAB_CHECK(found != std::end(kScripts), "a shell without a script: ", shell);
  std::string text;
  for (const std::string_view piece : found->text()) text += piece;
  return text;
}

}  // namespace shardlab
