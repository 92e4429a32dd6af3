#include "strategies/rules/rule_text.h"

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

RowEntry parse_entry(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text.front() != '?') return Placement::parse(text);
  TextCursor cursor("row entry", text.substr(1));
  const auto dim = static_cast<int>(cursor.integer("a tensor dim", 0, kMaxTensorDims - 1));
  if (!cursor.at_end()) cursor.fail("the end of the row entry");
  return RowEntry::any_shard(dim);
}

std::string joined_layouts(const std::vector<Placements>& layouts) {
  std::string out;
  for (const Placements& placements : layouts) {
    out += (out.empty() ? "" : ",") + Layout(placements).text();
  }
  return out;
}

// Splits at the commas outside of parentheses; those inside belong to a placement, as in _S(0,2).
std::vector<std::string_view> split_entries(std::string_view text) {
  std::vector<std::string_view> entries;
  if (trimmed(text).empty()) return entries;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] != ',' || depth > 0) continue;
    entries.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  entries.push_back(text.substr(begin));
  return entries;
}

}  // namespace

std::pair<std::vector<std::string_view>, std::vector<std::string_view>> split_sides(
    std::string_view kind, std::string_view text) {
  const std::size_t bar = text.find('|');
  if (bar == std::string_view::npos || text.find('|', bar + 1) != std::string_view::npos) {
    throw TextError(kind, text, 0, "outputs, \"|\" and inputs");
  }
  return {split_entries(text.substr(0, bar)), split_entries(text.substr(bar + 1))};
}

std::string candidate_text(const std::vector<Placements>& outputs,
                           const std::vector<Placements>& inputs) {
  return joined_layouts(outputs) + "|" + joined_layouts(inputs);
}

FollowCandidate parse_candidate(std::string_view text, int mesh_ndim) {
  const auto [outputs, inputs] = split_sides("candidate", text);
  FollowCandidate candidate;
  for (const std::string_view part : outputs) {
    candidate.outputs.push_back(Layout::parse(part, mesh_ndim).placements);
  }
  for (const std::string_view part : inputs) {
    candidate.inputs.push_back(Layout::parse(part, mesh_ndim).placements);
  }
  return candidate;
}

RowText parse_row(std::string_view text) {
  const auto [outputs, inputs] = split_sides("row", text);
  RowText row{.row = {}, .outputs = outputs.size()};
  for (const std::string_view part : outputs) row.row.push_back(parse_entry(part));
  for (const std::string_view part : inputs) row.row.push_back(parse_entry(part));
  return row;
}

std::string row_text(const Row& row, std::size_t outputs) {
  std::string out = outputs == 0 ? "|" : "";
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) out += i == outputs ? "|" : ",";
    out += row[i].is_any_shard() ? "?" + std::to_string(row[i].dim()) : row[i].placement().text();
  }
  return out;
}

}  // namespace shardlab
