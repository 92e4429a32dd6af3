// Rows and candidates as text, outputs first: "P(sum)|S(1),S(0)" and "S(0)R|S(0)R,RR".
//
//   RowText row = parse_row("?0|?0,R");          // a placeholder is ?, and the tensor dim
//   row_text(row.row, row.outputs)               // the same text again
//   FollowCandidate whole = parse_candidate("S(0)R|S(0)R,RR", 2);
//
// An op without outputs has nothing before the bar. The parsers throw TextError.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strategies/rules/op_rule.h"

namespace shardlab {

struct RowText {
  Row row;
  std::size_t outputs = 1;
};
[[nodiscard]] RowText parse_row(std::string_view text);
[[nodiscard]] std::string row_text(const Row& row, std::size_t outputs);

[[nodiscard]] FollowCandidate parse_candidate(std::string_view text, int mesh_ndim);
[[nodiscard]] std::string candidate_text(const std::vector<Placements>& outputs,
                                         const std::vector<Placements>& inputs);

// The texts of the outputs, and those of the inputs. `kind` names the text in messages.
[[nodiscard]] std::pair<std::vector<std::string_view>, std::vector<std::string_view>> split_sides(
    std::string_view kind, std::string_view text);

}  // namespace shardlab
