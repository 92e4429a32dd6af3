// The reader of toulbar2's format: a text is refused with a ConfigError, or it is read, written and
// read back, and, when it is small, solved.
#include "costmodel/base/error.h"
#include "runner/config/read_json.h"
#include "strategies/solvers/cfn.h"
#include "strategies/solvers/exact.h"
#include "tests/fuzz/fuzz.h"

namespace shardlab::testing_support {
namespace {

CfnProblem read(std::string_view text) {
  return read_cfn(parse_json(strict_cfn(text), "f.cfn"), {"f.cfn", ""});
}

bool is_small(const CostNetwork& network) {
  double joint = 1;
  for (int v = 0; v < network.variables(); ++v) joint *= network.values(v);
  return joint <= 4096 && network.edges().size() <= 64;
}

}  // namespace
}  // namespace shardlab::testing_support

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  Bytes8 input(data, size);
  try {
    const CfnProblem problem = read(input.rest());
    const CfnProblem again = read(write_cfn(problem.network, problem.name));
    FUZZ_CHECK(again.network.variables() == problem.network.variables(), problem.name);
    if (!is_small(problem.network)) return 0;
    const ExactSolution solution = ExactSolver(problem.network).solve({.margins = true, .best = 2});
    FUZZ_CHECK(!solution.feasible || problem.network.is_feasible(solution.assignment),
               problem.name);
    FUZZ_CHECK(solution.feasible != !solution.conflict.empty(), problem.name);
  } catch (const ConfigError&) {
  }
  return 0;
}
