#include "runner/solve/executed_plan.h"

#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "runner/base/terminal.h"
#include "runner/simulate/chosen_op.h"
#include "strategies/programs/program_execution.h"
#include "strategies/select/price_basis.h"

namespace shardlab {

ExecutedPlan executed_plan(const ProgramSolution& solved, Redistributor& redistributor,
                           const MeasuredRanges& measured, DoubtedPrices& doubted) {
  const ProgramStrategies& strategies = solved.strategies;
  const Assignment& assignment = solved.solution.assignment;
  ExecutedPlan executed;
  double us = solved.problem.breakdown(strategies, solved.prices, assignment).compute_us;
  const auto layout = [&](std::size_t node, std::size_t tensor) {
    const auto strategy = static_cast<std::size_t>(assignment[node]);
    return strategies.layout(strategies.of(node), strategy, tensor);
  };
  reports::PriceBasis basis;
  std::map<std::tuple<std::uint32_t, LayoutId, LayoutId>, double>
      known;  // times by tensor, source layout and target layout
  for (const PricedEdge& edge : solved.problem.priced) {
    const std::uint32_t meta = strategies.meta(edge.producer, edge.output);
    const LayoutId from = layout(edge.producer, edge.output);
    const LayoutId to = layout(edge.reader, strategies.of(edge.reader).outputs + edge.argument);
    const auto [price, is_new] = known.try_emplace({meta, from, to}, 0.0);
    if (is_new) {
      const Plan plan = plan_move(redistributor, strategies.metas[meta],
                                  strategies.layouts.layout(from), strategies.layouts.layout(to));
      if (!reason_against(plan).empty()) {
        executed.unexecutable = "node " + solved.program.nodes[edge.reader].name + ", input " +
                                std::to_string(edge.argument) + ", " + plan.from.text() + " to " +
                                plan.to.text() + ": " + reason_against(plan);
        return executed;
      }
      price->second = plan.executed_price().total.value();
      if (!measured.empty()) add_steps(basis, plan, redistributor, measured);
      doubted.add(plan, redistributor);
    }
    us += solved.problem.runs[edge.reader] * price->second;
  }
  executed.us = us;
  executed.not_measured = std::move(basis.not_measured);
  return executed;
}

std::string executed_text(const ExecutedPlan& executed, const Breakdown& objective,
                          const Stack& stack, const TextStyle& style) {
  if (!executed.us) return "  can't run: " + printable(executed.unexecutable) + "\n";
  const double priced = objective.compute_us + objective.communication_us;
  if (std::abs(*executed.us - priced) <= 1e-9 * *executed.us) return "";
  const std::array totals = {*executed.us, priced};
  return "  executed " + style.figures(totals)[0] + " us: what its kernels and the steps of its " +
         "moves take, while " + stack.name + " prices a move by its two ends\n";
}

std::string objective_name(const Stack& stack) {
  return stack.collective_model.entry->name.starts_with("ap_") ? "AutoParallel's objective"
                                                               : "objective";
}

}  // namespace shardlab
