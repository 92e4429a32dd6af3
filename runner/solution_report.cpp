#include "runner/solution_report.h"

#include "runner/run_reports.h"

namespace shardlab {

void write_solution(const Session& session, const SolutionReport& report) {
  if (!writes_report(session)) return;
  nlohmann::json result = {
      {"stack", report.stack.name}, {"mesh", report.mesh}, {"assignment", nlohmann::json::array()}};
  for (const char* key :
       {"program", "nodes", "edges", "strategies", "objective_us", "lower_bound_us", "optimal",
        "optima", "infeasible", "notes", "breakdown_us"}) {
    result[key] = report.result.at(key);
  }
  for (const nlohmann::json& solved : report.result.at("assignment")) {
    nlohmann::json node = nlohmann::json::object();
    for (const char* key :
         {"node", "op", "layout_in", "layout_out", "compute_us", "communication_us", "margin_us"}) {
      node[key] = solved.at(key);
    }
    const auto index = report.program.find(solved.at("node").get<std::string>());
    SHARDLAB_CHECK(index.has_value(), "a solved node that the program lacks");
    node["kind"] = to_string(report.program.nodes[*index].kind);
    node["phase"] = to_string(report.program.nodes[*index].phase);
    result["assignment"].push_back(std::move(node));
  }
  reports::RunHeader header = header_of(session);
  header.configuration.topology = report.topology.to_json();
  header.configuration.stacks = {report.stack.to_json()};
  header.configuration.suites = {
      {.name = report.program.name,
       .questions = static_cast<std::int64_t>(report.program.nodes.size()),
       .source =
           report.program.source.empty() ? "a program without a source" : report.program.source}};
  write_run(session, {.kind = reports::kSolveKind,
                      .header = std::move(header),
                      .result = std::move(result),
                      .wall_ms = report.wall_ms});
}

}  // namespace shardlab
