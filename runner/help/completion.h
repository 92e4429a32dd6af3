// Completion of command lines by a shell.
//
//   const std::vector<std::string> words = {"compare", "--baseline", "dtensor-v"};
//   complete(groups, words, session)
//       "dtensor-v0\tDTensor's cost function of ...\n...\n:files\n"
//   completion_script("bash")    what `source <(shardlab completion bash)` reads
//
// The script of a shell asks the program (`shardlab __complete WORD...`), so that one table decides
// for all shells, and stacks that were added are offered. The last word is the one that is being
// typed. An answer has a line for each word that fits, with its description behind a tab, and ends
// with a line that says whether names of files fit as well. Nothing is thrown: where something is
// wrong, nothing fits.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/help/pages.h"
#include "runner/session/session.h"

namespace shardlab {

inline constexpr std::string_view kCompleteWord = "__complete";

[[nodiscard]] std::string complete(std::span<const CommandGroup> groups,
                                   std::span<const std::string> words, const Session& session);

// "bash", "fish" and "zsh".
[[nodiscard]] std::vector<std::string> completion_shells();
// The script of one of these shells. Assumes that `shell` is one of them.
[[nodiscard]] std::string completion_script(std::string_view shell);

}  // namespace shardlab
