// The texts in which questions and candidates are asked of a live PyTorch and recorded in files
// (python/torch_worker/README.md, docs/choices.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/mesh.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_call.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

// {"op", "inputs", "args"} with the inputs' shapes alone. An element of a foreach op is written as
// a call on lists of one tensor.
[[nodiscard]] nlohmann::json rows_question(const OpCall& call);
// {"op", "inputs", "args", "mesh", "devices_per_host"} with the inputs' layouts. The last is
// PyTorch's word for the devices that its fast links join, which are those of an NVLink domain.
[[nodiscard]] nlohmann::json decision_question(const OpCall& call, const DeviceMesh& mesh,
                                               std::int64_t domain_devices);

// What names a question wherever it is asked: decision_question() as a text, without the number of
// devices.
[[nodiscard]] std::string question_key(const OpCall& call, const DeviceMesh& mesh);

// Reads a candidate's line: "S(0);R|S(0)", which lists the layouts of the inputs before those of
// the outputs. Throws TextError.
[[nodiscard]] FollowCandidate parse_candidate_line(std::string_view text, int mesh_ndim);

// The 64-bit FNV-1a hash of the lines of all candidates, in order and joined by newlines, as 16
// hexadecimal digits.
[[nodiscard]] std::string set_digest(const Expansion& expansion);

}  // namespace shardlab
