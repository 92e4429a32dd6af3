#include "runner/solve/executed_plan.h"

#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "costmodel/measured_ranges.h"
#include "runner/base/terminal.h"
#include "runner/evaluation/interval_text.h"
#include "runner/simulate/chosen_op.h"
#include "strategies/programs/program_execution.h"
#include "strategies/select/price_basis.h"

namespace shardlab {

ExecutedPlan executed_plan(const ProgramSolution& solved, StackEvaluator& evaluator,
                           const DeviceMesh& mesh, DoubtedPrices& doubted, ReplicaGate& gate) {
  Redistributor& redistributor = evaluator.on(mesh);
  const CostModel& model = evaluator.collective_model();
  const MeasuredRanges measured(model.measured());
  const ProgramStrategies& strategies = solved.strategies;
  const Assignment& assignment = solved.solution.assignment;
  ExecutedPlan executed;
  double us = solved.problem.breakdown(strategies, solved.prices, assignment).compute_us;
  PriceInterval interval{us, us};
  bool has_interval = false;
  const auto layout = [&](std::size_t node, std::size_t tensor) {
    const auto strategy = static_cast<std::size_t>(assignment[node]);
    return strategies.layout(strategies.of(node), strategy, tensor);
  };
  reports::PriceBasis basis;
  struct Move {
    double us = 0.0;
    std::optional<PriceInterval> interval = {};
  };
  std::map<std::tuple<std::uint32_t, LayoutId, LayoutId>, Move>
      known;  // by tensor, source layout and target layout
  for (const PricedEdge& edge : solved.problem.priced) {
    const std::uint32_t meta = strategies.meta(edge.producer, edge.output);
    const LayoutId from = layout(edge.producer, edge.output);
    const LayoutId to = layout(edge.reader, strategies.of(edge.reader).outputs + edge.argument);
    const auto [place, is_new] = known.try_emplace({meta, from, to});
    Move& move = place->second;
    if (is_new) {
      const Plan plan = plan_move(redistributor, strategies.metas[meta],
                                  strategies.layouts.layout(from), strategies.layouts.layout(to));
      const std::string where = "node " + solved.program.nodes[edge.reader].name + ", input " +
                                std::to_string(edge.argument);
      if (!plan.refusal().empty()) {
        executed.unexecutable =
            where + ", " + plan.from.text() + " to " + plan.to.text() + ": " + plan.refusal();
        return executed;
      }
      move.us = plan.executed_price().total.value();
      move.interval = interval_of(plan, redistributor, model);
      if (!measured.empty()) add_steps(basis, plan, redistributor, measured);
      doubted.add(plan, redistributor);
      gate.check(plan, where);
    }
    const double runs = solved.problem.runs[edge.reader];
    us += runs * move.us;
    interval.low_us += runs * (move.interval ? move.interval->low_us : move.us);
    interval.high_us += runs * (move.interval ? move.interval->high_us : move.us);
    has_interval = has_interval || move.interval;
  }
  executed.us = us;
  if (has_interval) executed.interval = interval;
  executed.not_measured = std::move(basis.not_measured);
  return executed;
}

bool ExecutedPlan::is(const Breakdown& objective) const {
  return us && std::abs(*us - (objective.compute_us + objective.communication_us)) <= 1e-9 * *us;
}

std::string executed_text(const ExecutedPlan& executed, const Breakdown& objective,
                          const Stack& stack, const TextStyle& style) {
  if (!executed.us) return "  can't run: " + printable(executed.unexecutable) + "\n";
  if (executed.is(objective)) return "";
  const std::array totals = {*executed.us, objective.compute_us + objective.communication_us};
  return "  executed " + style.figures(totals)[0] + " us" +
         interval_text(executed.interval, style) +
         ": what its kernels and the steps of its moves take, while " + stack.name +
         " prices a move by its two ends\n";
}

std::string objective_name(const Stack& stack) {
  return stack.collective_model.entry->name.starts_with("ap_") ? "AutoParallel's objective"
                                                               : "objective";
}

}  // namespace shardlab
