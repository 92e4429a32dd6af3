#include "runner/help/suggestion.h"

#include <algorithm>

#include "costmodel/base/text.h"

namespace shardlab {
namespace {

// Words that other tools have for what a command or an option of ours does. Several rows may have
// one word; the first whose answer is valid where the word was typed is suggested.
struct Synonym {
  std::string_view word;
  std::string_view ours;
};
constexpr Synonym kSynonyms[] = {{"diff", "compare"},
                                 {"reshard", "plan"},
                                 {"redistribute", "plan"},
                                 {"choose", "select"},
                                 {"run", "simulate"},
                                 {"execute", "simulate"},
                                 {"audit", "ties"},
                                 {"prove", "rules"},
                                 {"verify", "rules"},
                                 {"check", "regress"},
                                 {"test", "regress"},
                                 {"accuracy", "validate"},
                                 {"fit", "calibrate"},
                                 {"tune", "calibrate"},
                                 {"bench", "measure"},
                                 {"benchmark", "measure"},
                                 {"profile", "measure"},
                                 {"model", "program"},
                                 {"optimize", "solve"},
                                 {"optimise", "solve"},
                                 {"search", "solve"},
                                 {"autoparallel", "solve"},
                                 {"export", "apply"},
                                 {"distribute", "apply"},
                                 {"predict", "step"},
                                 {"estimate", "step"},
                                 {"train", "step"},
                                 {"experiment", "sweep"},
                                 {"html", "report"},
                                 {"ls", "list"},
                                 {"show", "describe"},
                                 {"info", "describe"},
                                 {"--gpu", "--topology"},
                                 {"--gpus", "--topology"},
                                 {"--device", "--topology"},
                                 {"--cluster", "--topology"},
                                 {"--hardware", "--topology"},
                                 {"--machine", "--topology"},
                                 {"--cost-model", "--stack"},
                                 {"--model", "--stack"},
                                 {"--release", "--stack"},
                                 {"--torch", "--stack"},
                                 {"--old", "--baseline"},
                                 {"--base", "--baseline"},
                                 {"--before", "--baseline"},
                                 {"--new", "--candidate"},
                                 {"--after", "--candidate"},
                                 {"--src", "--from"},
                                 {"--source", "--from"},
                                 {"--current", "--from"},
                                 {"--before", "--from"},
                                 {"--dst", "--to"},
                                 {"--dest", "--to"},
                                 {"--target", "--to"},
                                 {"--after", "--to"},
                                 {"--placements", "--from"},
                                 {"--placements", "--inputs"},
                                 {"--shape", "--tensor"},
                                 {"--shape", "--inputs"},
                                 {"--tensors", "--inputs"},
                                 {"--operator", "--op"},
                                 {"--questions", "--suite"},
                                 {"--output", "--out"},
                                 {"--save", "--out"},
                                 {"--dir", "--out"},
                                 {"--folder", "--out"},
                                 {"--json", "--format"},
                                 {"--threads", "--jobs"},
                                 {"--workers", "--jobs"},
                                 {"--silent", "--quiet"},
                                 {"--truth", "--reference"},
                                 {"--memory", "--memory-budget"},
                                 {"--constraint", "--pin"},
                                 {"--override", "--set"}};

}  // namespace

std::string suggestion(std::string_view word, std::span<const std::string_view> valid) {
  for (const auto& [theirs, ours] : kSynonyms) {
    if (theirs == word && std::find(valid.begin(), valid.end(), ours) != valid.end()) {
      return " (did you mean \"" + std::string(ours) + "\"?)";
    }
  }
  return did_you_mean(word, valid);
}

}  // namespace shardlab
