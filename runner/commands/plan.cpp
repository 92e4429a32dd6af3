// shardlab plan: one redistribution, its steps and its price.
#include "costmodel/text.h"
#include "runner/commands/commands.h"
#include "runner/terminal.h"
#include "sim/bounds.h"
#include "strategies/evaluator.h"

namespace shardlab {
namespace {

struct PlanArguments {
  std::string mesh;
  std::string tensor;
  std::string from;
  std::string to;
  std::string stack = "dtensor-2.13";
  std::string planner;
  std::vector<std::string> flatten;
  std::int64_t rank = 0;
};

nlohmann::json parts_json(const Price& price) {
  return {{"latency", price.latency.value()},
          {"transfer", price.transfer.value()},
          {"compute", price.compute.value()},
          {"straggler", price.straggler.value()}};
}

nlohmann::json step_json(const PlanStep& step) {
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
  if (step.is_merged()) {
    json["flattened_mesh"] = step.flattened_mesh;
    json["avg_scale"] = step.avg_scale;
  }
  return json;
}

nlohmann::json optional_json(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}
nlohmann::json reason_json(const std::string& reason) {
  return reason.empty() ? nlohmann::json(nullptr) : nlohmann::json(reason);
}

std::string mesh_dims_text(const MeshDims& dims) {
  std::string text;
  for (const int dim : dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return text;
}

std::string plan_text(const Plan& plan, const PlanBounds& bounds) {
  std::string out = plan.path() + "\n";
  if (!plan.impossible.empty()) {
    out += "  impossible: " + plan.impossible + "\n";
  } else {
    out += "  price " + format_double(plan.price.total.value()) + " us\n";
  }
  if (!plan.unexecutable.empty()) out += "  can't run: " + plan.unexecutable + "\n";
  if (!plan.steps.empty()) {
    TextTable table({"step", "collective", "mesh dims", "change", "bytes", "us", "latency",
                     "transfer", "compute"});
    int number = 0;
    for (const PlanStep& step : plan.steps) {
      const bool possible = step.price.is_possible();
      table.add({std::to_string(++number), std::string(to_string(step.collective)),
                 mesh_dims_text(step.mesh_dims), step.from.text() + "->" + step.to.text(),
                 format_bytes(step.full_bytes),
                 possible ? format_fixed(step.price.total.value(), 3) : "impossible",
                 format_fixed(step.price.latency.value(), 3),
                 format_fixed(step.price.transfer.value(), 3),
                 format_fixed(step.price.compute.value(), 3)});
    }
    out += table.text();
  }
  for (const MergeWarning& warning : plan.warnings) {
    out += "  not merged: " + std::to_string(warning.steps) + " steps on mesh dims " +
           mesh_dims_text(warning.mesh_dims) + ": " + warning.reason + "\n";
  }
  if (plan.optimal_paths > 1) {
    out += "  " + format_double(plan.optimal_paths) + " paths share this price\n";
  }
  const auto ratio = [](const std::optional<double>& value) {
    return value ? format_fixed(*value, 2) : std::string("-");
  };
  out += "  over the bound: volume " + ratio(bounds.volume_ratio) + ", time " +
         ratio(bounds.time_ratio) + ", memory " + ratio(bounds.memory_ratio) + "\n";
  return out;
}

DeviceMesh with_flattened(DeviceMesh mesh, const std::vector<std::string>& flatten) {
  for (const std::string& axes : flatten) {
    std::vector<std::string> names;
    for (std::size_t start = 0; start <= axes.size();) {
      const std::size_t comma = std::min(axes.find(',', start), axes.size());
      names.push_back(axes.substr(start, comma - start));
      start = comma + 1;
    }
    mesh = mesh.flatten(names);
  }
  return mesh;
}

void run_plan(const PlanArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const DeviceMesh mesh = parse_option("--flatten", [&] {
    return with_flattened(parse_option("--mesh", [&] { return DeviceMesh::parse(arguments.mesh); }),
                          arguments.flatten);
  });
  const TensorMeta meta =
      parse_option("--tensor", [&] { return TensorMeta::parse(arguments.tensor); });
  const Layout from =
      parse_option("--from", [&] { return parse_layout(arguments.from, mesh.ndim(), meta); });
  const Layout to =
      parse_option("--to", [&] { return parse_layout(arguments.to, mesh.ndim(), meta); });
  if (arguments.rank >= mesh.size()) {
    throw InputError("--rank: found " + std::to_string(arguments.rank) + "; valid: 0 to " +
                     std::to_string(mesh.size() - 1) + ", the ranks of mesh " + mesh.text());
  }
  const Topology topology = store.topology(session.topology);
  StackEvaluator evaluator(store.stack(arguments.stack), topology);
  PlanOptions options{.planner = {}, .rank = arguments.rank, .count_optimal_paths = true};
  if (!arguments.planner.empty()) {
    options.planner = arguments.planner == "graph" ? PlannerKind::kGraph : PlannerKind::kGreedy;
  }
  const Plan plan = evaluator.on(mesh).plan(meta, from, to, options);
  const PlanBounds bounds = bounds_of(plan, mesh, topology);
  if (!session.json()) {
    session.print(plan_text(plan, bounds));
    return;
  }
  nlohmann::json steps = nlohmann::json::array();
  for (const PlanStep& step : plan.steps) steps.push_back(step_json(step));
  nlohmann::json warnings = nlohmann::json::array();
  for (const MergeWarning& warning : plan.warnings) {
    warnings.push_back(
        {{"reason", warning.reason},
         {"mesh_dims", std::vector<int>(warning.mesh_dims.begin(), warning.mesh_dims.end())},
         {"steps", warning.steps}});
  }
  session.print(
      nlohmann::json{{"stack", evaluator.stack().name},
                     {"topology", topology.name()},
                     {"mesh", mesh.text()},
                     {"tensor", meta.text()},
                     {"from", from.text()},
                     {"to", to.text()},
                     {"path", plan.path()},
                     {"steps", steps},
                     {"price_us", plan.impossible.empty() ? finite_or_null(plan.price.total.value())
                                                          : nlohmann::json(nullptr)},
                     {"parts_us", parts_json(plan.price)},
                     {"executed_us", finite_or_null(plan.executed_price().total.value())},
                     {"impossible", reason_json(plan.impossible)},
                     {"unexecutable", reason_json(plan.unexecutable)},
                     {"optimal_paths", plan.optimal_paths},
                     {"warnings", warnings},
                     {"bounds",
                      {{"volume_ratio", optional_json(bounds.volume_ratio)},
                       {"time_ratio", optional_json(bounds.time_ratio)},
                       {"memory_ratio", optional_json(bounds.memory_ratio)}}}});
}

}  // namespace

void add_plan_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand("plan",
                                         "plan and price one redistribution\n"
                                         "  shardlab plan --mesh 2x4 --tensor bf16[8192,4096] "
                                         "--from \"S(0)R\" --to \"RS(1)\" --stack dtensor-v3");
  command->add_option("--mesh", arguments->mesh, "8x8, or dp=8,tp=8")->required();
  command->add_option("--tensor", arguments->tensor, "bf16[8192,4096]")->required();
  command->add_option("--from", arguments->from, "layout now, e.g. S(0)R")->required();
  command->add_option("--to", arguments->to, "layout wanted")->required();
  command->add_option("--stack", arguments->stack, "shipped name or path")->capture_default_str();
  command->add_option("--planner", arguments->planner, "instead of the stack's")
      ->check(one_of({"greedy", "graph"}));
  command
      ->add_option("--flatten", arguments->flatten,
                   "axes of a registered flattened mesh, e.g. \"dp,tp\"; once per mesh")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--rank", arguments->rank, "whose logical shapes to show")
      ->check(integer_from(0, (std::uint64_t{1} << 40) - 1))
      ->capture_default_str();
  add_topology_option(*command, session);
  add_common_options(*command, session);
  command->callback([arguments, &session] { run_plan(*arguments, session); });
}

}  // namespace shardlab
