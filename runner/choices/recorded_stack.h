// A file of recorded choices as a stack: its answers are replayed wherever its questions are asked,
// without whoever gave them.
//
//   std::optional<RecordedStack> recorded = recorded_stack("torch-2.15.choices.json", store);
//   recorded->stack                                   // goes wherever a stack does
//
// What the file does not hold (candidates, prices of anything but the choice) is missing from the
// answers. A question that it does not hold is an error that names the question.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runner/config/configs.h"

namespace shardlab {

struct RecordedStack {
  Stack stack;
  // What a command says of the file in its provenance: what the file says of its PyTorch, if it
  // was one that answered, and how many ops were recorded.
  nlohmann::json provenance;
};

// Nothing for a name that is not a file of the schema shardlab/choices/1. Throws ConfigError for a
// file of this schema that is wrong.
[[nodiscard]] std::optional<RecordedStack> recorded_stack(const std::string& name,
                                                          const ConfigStore& store);

}  // namespace shardlab
