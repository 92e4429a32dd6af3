#include "runner/solve/record_solution.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "runner/base/optional_values.h"
#include "runner/session/run_reports.h"
#include "strategies/programs/labelled_layers.h"

namespace shardlab {
namespace {

nlohmann::json constraints_json(const std::string& recipe, const ProblemOptions& options) {
  const auto layout = [](const std::optional<Placements>& placements) {
    return placements ? nlohmann::json(Layout(*placements).text()) : nlohmann::json(nullptr);
  };
  return {{"recipe", text_or_null(recipe)},
          {"pins", options.pins.size()},
          {"pin_inputs", layout(options.pin_inputs)},
          {"pin_outputs", layout(options.pin_outputs)},
          {"parameter_budget", or_null(options.parameter_budget)},
          {"memory_budget_bytes", or_null(options.memory_budget_bytes)}};
}

// Adds the node's tensor, and the bytes of its moves, to its JSON.
void add_picture(const PicturedPlan& picture, std::size_t node, double runs, nlohmann::json& json) {
  if (nlohmann::json given = picture.given_json(node); !given.is_null()) {
    json["given"] = std::move(given);
  }
  for (nlohmann::json& move : json["moves"]) {
    const std::optional<double> bytes =
        picture.bytes_moved(node, move.at("input").get<std::size_t>());
    if (bytes) move["bytes_moved"] = runs * *bytes;
  }
}

}  // namespace

void record_solution(const Session& session, const SolutionRun& report) {
  if (!writes_report(session)) return;
  nlohmann::json result = {{"stack", report.stack.name},
                           {"mesh", report.mesh},
                           {"constraints", constraints_json(report.recipe, report.options)},
                           {"assignment", nlohmann::json::array()}};
  for (const char* key :
       {"program", "nodes", "edges", "strategies", "objective_us", "lower_bound_us", "optimal",
        "optima", "infeasible", "notes", "breakdown_us"}) {
    result[key] = report.result.at(key);
  }
  const std::vector<std::optional<std::int64_t>> layers = labelled_layers(report.program);
  for (const nlohmann::json& solved : report.result.at("assignment")) {
    nlohmann::json node = nlohmann::json::object();
    for (const char* key : {"node", "op", "layout_in", "layout_out", "compute_us",
                            "communication_us", "transition_us", "moves", "margin_us"}) {
      node[key] = solved.at(key);
    }
    const auto index = report.program.find(solved.at("node").get<std::string>());
    SHARDLAB_CHECK(index.has_value(), "a solved node that the program lacks");
    node["kind"] = to_string(report.program.nodes[*index].kind);
    node["phase"] = to_string(report.program.nodes[*index].phase);
    node["layer"] = or_null(layers[*index]);
    if (report.picture != nullptr) {
      add_picture(*report.picture, *index, solved.at("runs").get<double>(), node);
    }
    result["assignment"].push_back(std::move(node));
  }
  for (const char* key :
       {"executed_us", "unexecutable", "objective_name", "recompute", "reshard_after_forward",
        "step_us", "memory", "low_us", "high_us", "step_low_us", "step_high_us"}) {
    if (report.result.contains(key)) result[key] = report.result.at(key);
  }
  if (report.picture != nullptr && !report.picture->memory_json().is_null()) {
    result["memory_over_step"] = report.picture->memory_json();
  }
  if (!report.answers.empty()) result["answers"] = report.answers;
  reports::RunHeader header = header_of(session);
  header.configuration.topology = report.topology.to_json();
  header.configuration.stacks = {report.stack.to_json()};
  header.configuration.program = {.name = report.program.name,
                                  .nodes = static_cast<std::int64_t>(report.program.nodes.size()),
                                  .source = report.program.source};
  write_run(session, {.kind = reports::kSolveKind,
                      .header = std::move(header),
                      .result = std::move(result),
                      .wall_ms = report.wall_ms});
}

}  // namespace shardlab
