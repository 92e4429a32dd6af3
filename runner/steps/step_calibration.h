// Terms of a stack fitted to published steps.
//
//   StepCalibration fit = calibrate_steps(steps, threads);
//   fit.terms.factors(traits)
//
// The logarithms of the predicted steps are fitted to those of the published ones by robust least
// squares (costmodel/calibrate/robust_fit.h). Each kind of term in term_kinds() has one term for
// each group of runs that is told apart by the traits it names. Every term has a prior: its
// expected value and how far clusters usually are from it. A group with few rows stays near its
// prior, and terms of finer groups are drawn to those of coarser ones, as in a hierarchical model.
// A term that is expected to be 1 is not written if the rows neither move it by a tenth of its
// prior's spread nor narrow that spread by a tenth.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/steps/step_validation.h"
#include "strategies/training/step_terms.h"

namespace shardlab {

struct TermKind {
  std::string_view factor;
  std::vector<std::string_view> traits;  // what tells groups apart
  double expected = 1.0;                 // the prior's median
  double spread = 0.1;                   // the prior's standard deviation, of the logarithm
  RunTraits only = {};                   // runs without these traits have no such factor
};
[[nodiscard]] std::span<const TermKind> term_kinds();

struct StepCalibration {
  StepTerms terms;
  std::size_t rows = 0;
  double scale = 0.0;  // standard deviation of one row's logarithm
};
[[nodiscard]] StepCalibration calibrate_steps(const ExpressedSteps& steps, int threads = 1);

}  // namespace shardlab
