// What the reference's verdicts rest on, if its collective model has measured rows: how many
// decisions compare groups that were measured, and which groups were not.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace basis_section {

using namespace reports;

// Meshes and groups beyond these limits share one row.
constexpr std::size_t kMostMeshes = 24;
constexpr std::size_t kMostGroups = 16;

void add_counts(BasisGroup& sum, const BasisGroup& part) {
  sum.decisions += part.decisions;
  sum.flips += part.flips;
}

Table table(const std::string& caption, const std::string& of, ColumnKind kind,
            const std::vector<BasisGroup>& groups) {
  Table table;
  table.caption = caption;
  table.columns = {{of, kind},
                   {"priced decisions", ColumnKind::kCount},
                   {"measured", ColumnKind::kCount},
                   {"carried over", ColumnKind::kCount},
                   {"local work", ColumnKind::kCount},
                   {"priced flips", ColumnKind::kCount},
                   {"flips measured", ColumnKind::kCount},
                   {"flips carried over", ColumnKind::kCount}};
  for (const BasisGroup& group : groups) {
    table.rows.push_back(
        {Cell(group.label), Cell(group.decisions.total()), Cell(group.decisions[Basis::kMeasured]),
         Cell(group.decisions[Basis::kCarriedOver]), Cell(group.decisions[Basis::kLocalWork]),
         Cell(group.flips.total()), Cell(group.flips[Basis::kMeasured]),
         Cell(group.flips[Basis::kCarriedOver])});
  }
  return table;
}

// Collects the groups that `of` returns for each candidate, and adds up groups with the same label.
template <class Of>
std::vector<BasisGroup> over_candidates(const Comparison& comparison, const Of& of) {
  std::vector<BasisGroup> sums;
  for (const StackSummary& stack : comparison.stacks) {
    for (const BasisGroup& group : of(stack)) {
      const auto known = std::find_if(sums.begin(), sums.end(), [&](const BasisGroup& sum) {
        return sum.label == group.label;
      });
      if (known == sums.end()) {
        sums.push_back(group);
      } else {
        add_counts(*known, group);
      }
    }
  }
  return sums;
}

// The first `most` groups, with all others added up in one more group.
std::vector<BasisGroup> cut(std::vector<BasisGroup> groups, std::size_t most) {
  if (groups.size() <= most) return groups;
  BasisGroup others{
      counted(static_cast<std::int64_t>(groups.size() - most), "other", "others"), {}, {}};
  for (std::size_t i = most; i < groups.size(); ++i) add_counts(others, groups[i]);
  groups.resize(most);
  groups.push_back(std::move(others));
  return groups;
}

Table not_measured_table(const Comparison& comparison) {
  const std::vector<NotMeasured>& groups = comparison.not_measured;
  Table table;
  table.caption =
      groups.size() <= kMostGroups
          ? "What was not measured, by the decisions that it takes part in"
          : "What was not measured, by the decisions that it takes part in: the first " +
                std::to_string(kMostGroups) + " of " + std::to_string(groups.size());
  table.columns = {{"collective, group and sizes", ColumnKind::kText},
                   {"priced decisions", ColumnKind::kCount},
                   {"priced flips", ColumnKind::kCount}};
  for (std::size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) {
    table.rows.push_back({Cell(groups[i].what), Cell(groups[i].decisions), Cell(groups[i].flips)});
  }
  return table;
}

std::string definition(const ComparisonRecord& record) {
  const std::string reference = code(record.reference.name);
  return "A decision is priced if " + reference +
         " prices both choices. It rests on measured groups if every communication step of the "
         "baseline's choice, of the candidate's and of the best one by the reference was "
         "measured: " +
         reference +
         " has measured rows of the same collective among as many ranks on as many hosts, and the "
         "step moves no fewer bytes than the smallest of these rows and no more than the largest. "
         "Between two rows the price is interpolated. With any other step, the decision is carried "
         "over from other groups or other sizes. If none of the three choices communicates, the "
         "decision compares local work alone and rests on no measured row. Kernels, local "
         "copies and waits follow the reference's other models in every case.";
}

SectionContent render(const ComparisonRecord& record, const Comparison& comparison) {
  SectionContent content;
  if (!comparison.tells_basis) return content;
  content.blocks.emplace_back(Paragraph{definition(record)});
  std::vector<BasisGroup> candidates;
  for (std::size_t i = 1; i < comparison.stacks.size(); ++i) {
    candidates.push_back(comparison.stacks[i].basis);
    candidates.back().label = comparison.stacks[i].name;
  }
  content.blocks.emplace_back(
      table("What each candidate's decisions rest on", "candidate", ColumnKind::kName, candidates));
  const std::string of_all = candidates.size() == 1 ? "" : ", of all candidates";
  const auto suites =
      over_candidates(comparison, [](const StackSummary& stack) { return stack.basis_by_suite; });
  if (suites.size() > 1) {
    content.blocks.emplace_back(table("By suite" + of_all, "suite", ColumnKind::kName, suites));
  }
  auto meshes =
      over_candidates(comparison, [](const StackSummary& stack) { return stack.basis_by_mesh; });
  if (meshes.size() > 1) {
    for (BasisGroup& mesh : meshes) mesh.label = code(mesh.label);
    content.blocks.emplace_back(
        table("By mesh" + of_all, "mesh", ColumnKind::kText, cut(std::move(meshes), kMostMeshes)));
  }
  if (!comparison.not_measured.empty()) {
    content.blocks.emplace_back(not_measured_table(comparison));
  }
  BasisGroup all;
  for (const BasisGroup& candidate : candidates) add_counts(all, candidate);
  content.answer = basis_sentence(all) + ".";
  return content;
}

}  // namespace basis_section

REPORT_SECTION(basis){
    .id = "basis",
    .title = "What the verdicts rest on",
    .question = "How many decisions compare groups that were measured?",
    .order = 35,
    .render = basis_section::render,
};

}  // namespace shardlab
