// How well steps are predicted that a model was not fitted to, beside simpler models.
//
//   const StepScoreboard board = make_step_scoreboard(steps, threads);
//   step_scoreboard_text(board)     // a section of reports/scoreboard.md
//
// Protocols:
//   held-out groups        rows of one source, model and GPU belong together; five folds of groups
//   held-out sources       a whole source is predicted from all others
//   3 rows of a source     the same, with three of its rows given
// Models:
//   shardlab               calibrate_steps()
//   without overlap        the same terms, but kernels and collectives in sum, without bubbles
//   17 terms               a sum of 17 hand-made terms, each with a factor of its own: GEMMs by
//                          GPU, GEMMs in low precision by format, attention by kernel, other
//                          kernels by execution, collectives, bubbles, and a constant
//   constant MFU           the median share of the peak rate on each GPU
#pragma once

#include <string>
#include <vector>

#include "runner/evaluation/validation.h"
#include "runner/steps/step_calibration.h"

namespace shardlab {

struct StepScore {
  std::string model;
  ErrorSummary all;
  ErrorSummary dense;  // dense models in bf16 without pipeline and context parallelism
};
struct StepSourceScore {
  std::string source;
  std::vector<ErrorSummary> models;  // in the order of StepProtocol::scores
};
struct StepProtocol {
  std::string name;
  std::vector<StepScore> scores;
  std::vector<StepSourceScore> sources;
};
struct StepScoreboard {
  std::size_t rows = 0;
  std::vector<StepProtocol> protocols;
};
[[nodiscard]] StepScoreboard make_step_scoreboard(const ExpressedSteps& steps, int threads,
                                                  bool quiet = true);
[[nodiscard]] std::string step_scoreboard_text(const StepScoreboard& board);

}  // namespace shardlab
