// What a record's provenance says of the stacks that Python code or a file of choices answers
// (runner/torch/live_stack.h): one object, or a list of them, under the key "torch".
//
//   for (const nlohmann::json& live : live_stacks(header)) { live_stack_text(live); }
//   // "PyTorch 2.15.0; asked for rows of 1202 ops, ...; 20 of 20 whole decisions ... are equal"
//
// A record keeps these objects as it finds them: a key that is missing counts as empty.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/records/run_header.h"

namespace shardlab::reports {

// The text under a key of an object; "" if there is none.
[[nodiscard]] std::string text_of(const nlohmann::json& object, const char* key);

[[nodiscard]] std::vector<nlohmann::json> live_stacks(const RunHeader& header);

// What a live stack was asked for, and how a sample of the answers was checked.
[[nodiscard]] std::string live_stack_text(const nlohmann::json& live);

// A sentence, without a full stop, for each live stack of which a sample was answered in another
// way than PyTorch itself answers.
[[nodiscard]] std::vector<std::string> live_stack_notes(const RunHeader& header);

}  // namespace shardlab::reports
