// shardlab plan: shows the steps of one redistribution and their price, which device holds what
// between them, and how the plans of other stacks and planners differ.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "costmodel/base/fields_json.h"
#include "costmodel/base/text.h"
#include "reports/number_text.h"
#include "reports/summary.h"
#include "runner/base/optional_values.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/evaluation/doubted_prices.h"
#include "runner/evaluation/interval_text.h"
#include "runner/evaluation/measured_groups.h"
#include "runner/evaluation/replica_gate.h"
#include "runner/session/layout_names.h"
#include "runner/session/run_reports.h"
#include "runner/simulate/drawn_plan.h"
#include "runner/simulate/redistribution.h"
#include "sim/bounds.h"
#include "strategies/select/evaluator.h"

namespace shardlab {
namespace {

struct PlanArguments {
  RedistributionArguments redistribution;
  std::vector<std::string> against;
  bool draws = false;
  ReplicaGateOption replicas;
};

nlohmann::json parts_json(const Price& price) {
  if (!price.is_possible()) return parts_json(Price());
  return {{"latency", price.latency.value()},
          {"transfer", price.transfer.value()},
          {"compute", price.compute.value()},
          {"straggler", price.straggler.value()}};
}

// The alternatives that the model weighed for a step, the cheapest first; empty for models that
// have only one formula.
std::vector<Alternative> alternatives_of(const PlanStep& step, StackEvaluator& evaluator,
                                         const DeviceMesh& mesh) {
  const Redistributor& redistributor = evaluator.on(mesh);
  return evaluator.collective_model().alternatives(
      {step.collective, step.full_bytes, redistributor.span(step)});
}

nlohmann::json step_json(const PlanStep& step, const std::vector<Alternative>& alternatives,
                         const std::optional<PriceInterval>& interval) {
  nlohmann::json json = {
      {"collective", to_string(step.collective)},
      {"mesh_dims", std::vector<int>(step.mesh_dims.begin(), step.mesh_dims.end())},
      {"from", step.from.text()},
      {"to", step.to.text()},
      {"logical_shape",
       std::vector<std::int64_t>(step.logical_shape.begin(), step.logical_shape.end())},
      {"full_bytes", step.full_bytes},
      {"price_us", finite_or_null(step.price.total.value())},
      {"parts_us", parts_json(step.price)}};
  add_interval(json, interval);
  if (step.is_merged()) {
    json["flattened_mesh"] = step.flattened_mesh;
    json["avg_scale"] = step.avg_scale;
  }
  if (!alternatives.empty()) {
    json["alternatives"] = nlohmann::json::array();
    for (const Alternative& alternative : alternatives) {
      json["alternatives"].push_back({{"algorithm", alternative.algorithm},
                                      {"protocol", alternative.protocol},
                                      {"price_us", finite_or_null(alternative.price.total.value())},
                                      {"parts_us", parts_json(alternative.price)}});
    }
  }
  return json;
}

// Two ways of adding the same prices up differ by less than this part of them.
constexpr double kSamePrice = 1e-9;

std::string mesh_dims_text(const MeshDims& dims) {
  std::string text;
  for (const int dim : dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return text;
}

// One line per step: "step 1: NVLS SIMPLE 276.658, RING SIMPLE 301.200, ..."
std::string alternatives_text(std::span<const std::vector<Alternative>> steps,
                              const TextStyle& style) {
  std::string out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::string line;
    for (const Alternative& alternative : steps[i]) {
      line += (line.empty() ? "" : ", ") + std::string(alternative.algorithm) + " " +
              std::string(alternative.protocol) + " " +
              style.figure(alternative.price.total.value());
    }
    if (!line.empty()) out += "  step " + std::to_string(i + 1) + " weighed: " + line + "\n";
  }
  return out;
}

// The charge for a transition that selection adds to the price of a plan if the tensor changes its
// layout.
double transition_us(const Plan& plan, StackEvaluator& evaluator) {
  return plan.from.placements == plan.to.placements ? 0.0 : evaluator.stack().transition_us;
}

std::string plan_text(const Plan& plan, const LayoutNames& names, const TextStyle& style,
                      const PlanBounds& bounds, double transition_us,
                      std::span<const std::vector<Alternative>> alternatives,
                      const std::optional<reports::PriceBasis>& basis, const DoubtedPrices& doubted,
                      const std::optional<PriceInterval>& interval) {
  std::string out = names.path(plan) + "\n";
  const double executed = plan.executed_price().total.value();
  const std::array totals = {plan.price.total.value(), executed};
  const std::vector<std::string> prices = style.figures(totals, kSamePrice);
  if (plan.runs_unpriced) {
    out += "  price infinite: " + plan.impossible + "\n  executed " + prices[1] +
           " us: the sum of its steps, which run all the same\n";
    const auto unpriced = std::count_if(plan.steps.begin(), plan.steps.end(), [](const auto& step) {
      return step.collective != Collective::kLocal && step.price.total == Micros();
    });
    if (unpriced > 0) {
      out += "  " + reports::counted(unpriced, "step counts", "steps count") +
             " nothing in it: the cost function has no price for a step from or to a strided "
             "shard; that of --stack alpha-beta has one\n";
    }
  } else if (!plan.impossible.empty()) {
    out += "  impossible: " + plan.impossible + "\n";
  } else {
    out += "  price " + prices[0] + " us" + interval_text(interval, style) + "\n";
  }
  if (plan.impossible.empty() &&
      std::abs(executed - plan.price.total.value()) > kSamePrice * executed) {
    out +=
        "  executed " + prices[1] +
        " us: the sum of its steps, because the stack prices the plan as a whole in another way\n";
  }
  if (transition_us > 0.0) {
    out += "  select, compare and solve count " + style.figure(transition_us) +
           " us more for a tensor that moves: the stack's transition_us\n";
  }
  if (!plan.unexecutable.empty()) out += "  can't run: " + plan.unexecutable + "\n";
  if (!plan.steps.empty()) {
    TextTable table(style, {"step", "collective", "mesh dims", "change", "bytes", "us", "latency",
                            "transfer", "compute"});
    int number = 0;
    for (const PlanStep& step : plan.steps) {
      const bool possible = step.price.is_possible();
      table.add({std::to_string(++number), std::string(to_string(step.collective)),
                 mesh_dims_text(step.mesh_dims), names.change(step.from, step.to),
                 format_bytes(step.full_bytes),
                 possible ? style.figure(step.price.total.value()) : "impossible",
                 style.figure(step.price.latency.value()),
                 style.figure(step.price.transfer.value()),
                 style.figure(step.price.compute.value())});
    }
    out += table.text() + alternatives_text(alternatives, style);
  }
  if (basis && !basis->not_measured.empty()) {
    out += "  prices " + carried_over_text(basis->not_measured) + "\n";
  }
  out += doubted.text();
  for (const MergeWarning& warning : plan.warnings) {
    out += "  not merged: " + std::to_string(warning.steps) + " steps on mesh dims " +
           mesh_dims_text(warning.mesh_dims) + ": " + warning.reason + "\n";
  }
  if (plan.optimal_paths > 1) {
    out += "  " + format_double(plan.optimal_paths) + " paths share this price\n";
  }
  out += "  relative to the lower bound: volume " + style.rounded(bounds.volume_ratio, 2, "-") +
         ", time " + style.rounded(bounds.time_ratio, 2, "-") + ", memory " +
         style.rounded(bounds.memory_ratio, 2, "-") + "\n";
  return out;
}

// A line for a target that DTensor does not let users ask for: a partial that the tensor does not
// have on that mesh dim. Since 2.14 they may ask for P(sum) in place of S(d). Empty if there is
// none. Source: DTensor.redistribute in torch/distributed/tensor/_api.py of PyTorch 2.13.0, 2.14.1
// and 2.15.0.
std::string refused_target_text(const Layout& from, const Layout& to, RuleSet rules,
                                const LayoutNames& names) {
  if (!kDTensor.contains(rules) && rules != kDTensorLegacy) return "";
  const bool sums_shards = since(Release::k2_14).contains(rules);
  for (int m = 0; m < to.ndim(); ++m) {
    if (!to[m].is_partial() || from[m] == to[m]) continue;
    if (sums_shards && from[m].is_shard() && to[m] == Placement::partial()) continue;
    const std::optional<Release> release = rules.release();
    return "  DTensor.redistribute refuses " + names.change(from[m], to[m]) + " on mesh dim " +
           std::to_string(m) + " to users" +
           (release ? " of PyTorch " + std::string(torch_version(*release)) : "") +
           "; only the propagation of ops asks for such moves\n";
  }
  return "";
}

nlohmann::json price_json(const Plan& plan) {
  return plan.impossible.empty() ? finite_or_null(plan.price.total.value())
                                 : nlohmann::json(nullptr);
}

// The plan of another stack or planner for the same redistribution.
struct OtherPlan {
  std::string name;
  Plan plan;
  Plan here;  // the same plan with the prices of the stack that was asked first
};

OtherPlan other_plan(const std::string& name, const RedistributionQuestion& question,
                     StackEvaluator& asked, const Session& session) {
  OtherPlan other{name, {}, {}};
  const auto& [mesh, meta, from, to, options] = question;
  PlanOptions other_options = options;
  if (const auto planner = from_name<PlannerKind>(name)) {
    other_options.planner = planner;
    other.plan = asked.asked_plan(mesh, meta, from, to, other_options);
  } else {
    const Stack stack = [&] {
      try {
        return session.store().stack(name);
      } catch (const InputError& error) {
        throw InputError("--against: neither a planner (greedy, graph) nor a stack: " +
                         std::string(error.what()));
      }
    }();
    StackEvaluator evaluator(stack, asked.topology());
    other.plan = evaluator.plan(mesh, meta, from, to, other_options);
  }
  other.here = asked.on(mesh).repriced(other.plan);
  return other;
}

nlohmann::json other_json(const OtherPlan& other, const DeviceMesh& mesh) {
  const PlanTraffic traffic = plan_traffic(other.plan, mesh);
  nlohmann::json steps = nlohmann::json::array();
  for (const PlanStep& step : other.here.steps) {
    steps.push_back({{"collective", to_string(step.collective)},
                     {"from", step.from.text()},
                     {"to", step.to.text()},
                     {"price_us", finite_or_null(step.price.total.value())}});
  }
  nlohmann::json json = {{"name", other.name},
                         {"path", other.plan.path()},
                         {"price_us", price_json(other.plan)},
                         {"here_us", !other.plan.is_impossible()
                                         ? finite_or_null(other.here.executed_price().total.value())
                                         : nlohmann::json(nullptr)},
                         {"collectives", traffic.collectives},
                         {"bytes_moved", or_null(traffic.bytes_moved)},
                         {"impossible", text_or_null(other.plan.impossible)},
                         {"unexecutable", text_or_null(other.plan.unexecutable)},
                         {"steps", std::move(steps)}};
  if (other.plan.runs_unpriced) json["runs_unpriced"] = true;
  return json;
}

std::string traffic_text(const PlanTraffic& traffic) {
  return reports::counted(traffic.collectives, "collective", "collectives") +
         (traffic.bytes_moved
              ? ", " + reports::bytes_text(static_cast<double>(*traffic.bytes_moved)) + " moved"
              : std::string());
}

// "against dtensor-v3 and graph: S(0)S(0)->S(0)R->RR" and how it differs from the plan that was
// asked for.
std::string other_text(const std::vector<std::string>& others, const OtherPlan& other,
                       const Plan& plan, const DeviceMesh& mesh, const std::string& stack,
                       const LayoutNames& names) {
  std::string out = "against " + reports::listed(others) + ": " + names.path(other.plan) + "\n";
  if (other.plan.is_impossible()) return out + "  impossible: " + other.plan.impossible + "\n";
  if (!other.plan.unexecutable.empty()) out += "  can't run: " + other.plan.unexecutable + "\n";
  if (other.plan.path() == plan.path())
    return out + (others.size() > 1 ? "  all of them plan the same, as this stack does\n"
                                    : "  the same plan\n");
  const double here = other.here.executed_price().total.value();
  const double own = plan.executed_price().total.value();
  out += "  " + reports::duration_text(here) + " by the prices of " + stack;
  if (here != own) {
    out += ", " + reports::duration_text(std::abs(here - own)) + (here > own ? " more" : " less");
    if (own > 0.0) out += " (" + reports::change_percent(100.0 * (here - own) / own) + ")";
  }
  return out + "; " + traffic_text(plan_traffic(other.plan, mesh)) + " instead of " +
         traffic_text(plan_traffic(plan, mesh)) + "\n";
}

// Stacks and planners whose plans are equal share one block of text.
std::string others_text(const std::vector<OtherPlan>& others, const Plan& plan,
                        const DeviceMesh& mesh, const std::string& stack,
                        const LayoutNames& names) {
  const auto same = [](const OtherPlan& a, const OtherPlan& b) {
    return a.plan.path() == b.plan.path() && a.plan.impossible == b.plan.impossible &&
           a.plan.unexecutable == b.plan.unexecutable;
  };
  std::string text;
  for (auto it = others.begin(); it != others.end(); ++it) {
    const auto is_same = [&](const OtherPlan& other) { return same(other, *it); };
    if (std::any_of(others.begin(), it, is_same)) continue;
    std::vector<std::string> planners;
    for (auto other = it; other != others.end(); ++other) {
      const bool is_new =
          std::find(planners.begin(), planners.end(), other->name) == planners.end();
      if (is_same(*other) && is_new) planners.push_back(other->name);
    }
    text += other_text(planners, *it, plan, mesh, stack, names);
  }
  return text;
}

nlohmann::json plan_json(const Plan& plan, const RedistributionQuestion& question,
                         const PlanBounds& bounds, StackEvaluator& evaluator,
                         std::span<const std::vector<Alternative>> alternatives,
                         const std::optional<reports::PriceBasis>& basis) {
  nlohmann::json steps = nlohmann::json::array();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    steps.push_back(step_json(
        plan.steps[i], alternatives[i],
        interval_of(plan.steps[i], evaluator.on(question.mesh), evaluator.collective_model())));
  }
  nlohmann::json warnings = nlohmann::json::array();
  for (const MergeWarning& warning : plan.warnings) {
    warnings.push_back(
        {{"reason", warning.reason},
         {"mesh_dims", std::vector<int>(warning.mesh_dims.begin(), warning.mesh_dims.end())},
         {"steps", warning.steps}});
  }
  nlohmann::json document = {{"stack", evaluator.stack().name},
                             {"topology", evaluator.topology().name()},
                             {"mesh", question.mesh.text()},
                             {"tensor", question.meta.text()},
                             {"from", question.from.text()},
                             {"to", question.to.text()},
                             {"path", plan.path()},
                             {"steps", steps},
                             {"price_us", price_json(plan)},
                             {"parts_us", parts_json(plan.price)},
                             {"transition_us", transition_us(plan, evaluator)},
                             {"executed_us", finite_or_null(plan.executed_price().total.value())},
                             {"impossible", text_or_null(plan.impossible)},
                             {"unexecutable", text_or_null(plan.unexecutable)},
                             {"optimal_paths", plan.optimal_paths},
                             {"warnings", warnings},
                             {"bounds",
                              {{"volume_ratio", or_null(bounds.volume_ratio)},
                               {"time_ratio", or_null(bounds.time_ratio)},
                               {"memory_ratio", or_null(bounds.memory_ratio)}}}};
  if (plan.runs_unpriced) document["runs_unpriced"] = true;
  add_interval(document,
               interval_of(plan, evaluator.on(question.mesh), evaluator.collective_model()));
  if (basis) document["rests_on"] = json_of(*basis);
  return document;
}

void run_plan(const PlanArguments& arguments, Session& session) {
  const StopWatch watch;
  prepare_out(session);
  const ConfigStore store = session.store();
  const RedistributionQuestion question = arguments.redistribution.read();
  const auto& [mesh, meta, from, to, options] = question;
  const Topology topology = store.topology(session.topology);
  StackEvaluator evaluator(store.stack(arguments.redistribution.stack), topology);
  const Plan plan = evaluator.asked_plan(mesh, meta, from, to, options);
  const PlanBounds bounds = bounds_of(plan, mesh, topology);
  std::vector<std::vector<Alternative>> alternatives;
  for (const PlanStep& step : plan.steps) {
    alternatives.push_back(alternatives_of(step, evaluator, mesh));
  }
  const std::optional<reports::PriceBasis> basis =
      basis_of(plan, evaluator.on(mesh), MeasuredRanges(evaluator.collective_model().measured()));
  DoubtedPrices doubted(evaluator);
  doubted.add(plan, evaluator.on(mesh));
  ReplicaGate gate(arguments.replicas, mesh, topology);
  gate.check(plan, "");
  if (gate.says_no()) session.exit_code = kGateSaidNo;
  std::vector<OtherPlan> others;
  for (const std::string& name : arguments.against) {
    others.push_back(other_plan(name, question, evaluator, session));
  }
  nlohmann::json document = plan_json(plan, question, bounds, evaluator, alternatives, basis);
  for (const OtherPlan& other : others) document["against"].push_back(other_json(other, mesh));
  const bool draws = arguments.draws || writes_report(session);
  const DrawnPlan drawn = draws ? drawn_plan(plan, mesh) : DrawnPlan();
  if (writes_report(session)) {
    nlohmann::json result = document;
    result["drawing"] = drawing_json(drawn, plan, mesh);
    reports::RunHeader header = header_of(session);
    header.configuration.topology = topology.to_json();
    header.configuration.stacks = {evaluator.stack().to_json()};
    write_run(session, {.kind = reports::kPlanKind,
                        .header = std::move(header),
                        .result = std::move(result),
                        .wall_ms = watch.ms()});
  }
  if (session.json()) {
    if (arguments.draws) document["drawing"] = drawing_json(drawn, plan, mesh);
    doubted.add_to(document);
    gate.add_to(document);
    session.print(document);
    return;
  }
  if (session.summary) return;
  const LayoutNames names(session);
  std::string text = plan_text(plan, names, session.style(), bounds, transition_us(plan, evaluator),
                               alternatives, basis, doubted,
                               interval_of(plan, evaluator.on(mesh), evaluator.collective_model()));
  text += refused_target_text(from, to, evaluator.stack().rules.set(), names);
  text += gate.text();
  text += others_text(others, plan, mesh, evaluator.stack().name, names);
  if (arguments.draws) text += drawn_text(drawn, plan, mesh, names);
  session.print(text + report_line(session));
}

}  // namespace

void add_plan_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<PlanArguments>();
  const Command command =
      root.subcommand("plan",
                      "plan and price one redistribution\n"
                      "  shardlab plan --mesh 2x4 --tensor \"bf16[8192,4096]\" "
                      "--from \"S(0)R\" --to \"RS(1)\" --stack dtensor-v3\n"
                      "  shardlab plan --mesh 2x4 --tensor \"bf16[8192,4096]\" "
                      "--from \"S(0)S(0)\" --to \"RS(0)\" --against graph --draw");
  arguments->redistribution.add_options(command, true);
  command
      .option("--against", arguments->against,
              "another stack, or the planner greedy or graph, whose plan is compared; repeatable")
      .repeatable();
  command.flag("--draw", arguments->draws,
               "draw which device holds which part of the tensor before, between and after the "
               "steps");
  arguments->replicas.add(command);
  add_topology_option(command, session);
  add_torch_names_option(command, session);
  add_report_options(command, session);
  add_common_options(command, session, {.sets = true, .digits = true});
  command.runs([arguments, &session] { run_plan(*arguments, session); });
}

}  // namespace shardlab
