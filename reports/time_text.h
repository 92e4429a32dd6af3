// What a change does to the time and the collectives of each suite, in words and in tables. It
// leads every report of a comparison: the sentence, the page, the Markdown and the terminal.
//
//   time_sentence(record, comparison)
//       "Changing `dtensor-v3` to `dtensor-v4` changes nothing in time: the choices of `ops-full`
//       take 296.3 s as before (-0.001 %, -3.312 ms), by the reference (`alpha-beta`: datasheet,
//       not measured)."
//   time_tables(record, comparison)        the tables of a page
//   comparison_text(record, comparison)    what `compare` prints: the sentence, suites, largest
//                                          flips, as cells that the caller aligns for its terminal
//
// Tested by tests/unit/reports/time_text_test.cpp.
#pragma once

#include <string>
#include <vector>

#include "reports/comparison.h"
#include "reports/document.h"
#include "reports/records/record.h"

namespace shardlab::reports {

// One sentence, and further ones where questions are left out of the times or were not asked; names
// stand in backticks.
[[nodiscard]] std::string time_sentence(const ComparisonRecord& record,
                                        const Comparison& comparison);

// " 1 of 115 questions was not asked: `ops-small/rot90 4x2`, because ..."; "" if all were.
[[nodiscard]] std::string not_asked_sentence(const ComparisonRecord& record);

// The time of each suite, its collectives by kind, the time of each program where several suites
// were recorded from it, and the decisions that keep their choice and reach it by other steps.
// Empty for a record without questions.
[[nodiscard]] std::vector<Table> time_tables(const ComparisonRecord& record,
                                             const Comparison& comparison);

// What a terminal shows of a comparison, without line breaks.
struct ComparisonText {
  using Line = std::vector<std::string>;  // cells
  std::string sentence;
  std::vector<Line> suites;  // the first line has the titles; empty without questions
  std::vector<Line> flips;   // those that change time most: the change, its share, the question
  std::string flips_title;   // "" if there are none
  std::string hidden_flips;  // which flips are not shown; "" if none is hidden
  // The decisions that keep their choice and whose other steps change time most, in the same
  // columns.
  std::vector<Line> steps;
  std::string steps_title;  // "" if there are none
};
[[nodiscard]] ComparisonText comparison_text(const ComparisonRecord& record,
                                             const Comparison& comparison);

// "-3.664 ms", "+12.35 us", "0 us".
[[nodiscard]] std::string change_duration(double us);

}  // namespace shardlab::reports
