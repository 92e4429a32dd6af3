#include "runner/commands/solve_program.h"

#include "costmodel/text.h"
#include "runner/simulation.h"
#include "runner/terminal.h"
#include "runner/write_file.h"
#include "strategies/sharding_network.h"
#include "strategies/solvers/cfn.h"
#include "strategies/solvers/exact.h"

namespace shardlab {
namespace {

struct Times {
  double read_ms = 0.0;
  double enumerate_ms = 0.0;
  double price_ms = 0.0;
  double solve_ms = 0.0;
  double total_ms = 0.0;
};

Placements placements_of(const std::string& option, std::string_view text, const DeviceMesh& mesh) {
  return parse_option(option, [&] {
    const Layout layout = Layout::parse(text, mesh.ndim());
    return layout.placements;
  });
}

ProblemOptions options_of(const SolveProgramArguments& arguments, const DeviceMesh& mesh) {
  ProblemOptions options;
  for (const std::string& pin : arguments.pins) {
    const std::size_t equals = pin.rfind('=');
    if (equals == std::string::npos) {
      throw InputError("--pin: found \"" + pin + "\"; valid: NAME=LAYOUT");
    }
    options.pins.push_back(
        {pin.substr(0, equals), placements_of("--pin", pin.substr(equals + 1), mesh)});
  }
  if (!arguments.pin_inputs.empty()) {
    options.pin_inputs = placements_of("--pin-inputs", arguments.pin_inputs, mesh);
  }
  if (!arguments.pin_outputs.empty()) {
    options.pin_outputs = placements_of("--pin-outputs", arguments.pin_outputs, mesh);
  }
  options.parameter_budget = arguments.parameter_budget;
  options.memory_budget_bytes = arguments.memory_budget_bytes;
  return options;
}

// A program on a mesh, as the solver sees it and as its prices were made.
struct Solved {
  const Program& program;
  const ProgramStrategies& strategies;
  const ProgramPrices& prices;
  const ShardingProblem& problem;
  const CostNetwork& network;
  const ExactSolution& solution;
};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// What reaching each node's inputs costs, transitions included, by node.
std::vector<double> communication_of(const Solved& solved) {
  std::vector<double> us(solved.program.nodes.size(), 0.0);
  const ShardingProblem& problem = solved.problem;
  for (std::size_t e = 0; e < problem.priced.size(); ++e) {
    const ProblemEdge& edge = problem.edges[e];
    const ProblemTable& table = problem.tables[at(edge.table)];
    const auto row = at(solved.solution.assignment[at(edge.first)]);
    const auto column = at(solved.solution.assignment[at(edge.second)]);
    us[problem.priced[e].reader] += table.costs[row * at(table.columns) + column];
  }
  return us;
}

struct NodeLayouts {
  std::vector<std::string> in;
  std::string out;  // of several outputs "S(0)R, RR"
};
NodeLayouts layouts_of(const Solved& solved, std::size_t node) {
  const NodeClass& kind = solved.strategies.of(node);
  const auto row = at(solved.solution.assignment[node]);
  NodeLayouts layouts;
  for (std::size_t t = 0; t < kind.tensors.size(); ++t) {
    const LayoutId id = solved.strategies.layout(kind, row, t);
    const std::string text = Layout(solved.strategies.layouts[id]).text();
    if (t < kind.outputs) {
      layouts.out += (layouts.out.empty() ? "" : ", ") + text;
    } else {
      layouts.in.push_back(text);
    }
  }
  return layouts;
}

nlohmann::json assignment_json(const Solved& solved) {
  const std::vector<double> communication = communication_of(solved);
  nlohmann::json nodes = nlohmann::json::array();
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    const NodeLayouts layouts = layouts_of(solved, n);
    const auto compute = solved.prices.compute_us(solved.strategies.class_of[n]);
    const std::vector<double>& margins = solved.solution.margins;
    nodes.push_back(
        {{"node", solved.program.nodes[n].name},
         {"op", solved.program.nodes[n].op},
         {"layout_in", layouts.in},
         {"layout_out", layouts.out},
         {"compute_us", compute[at(solved.solution.assignment[n])]},
         {"communication_us", communication[n]},
         {"margin_us", margins.empty() ? nlohmann::json(nullptr) : finite_or_null(margins[n])}});
  }
  return nodes;
}

// Values that differ from the optimum's, "node value, ...".
std::string changes_of(const Solved& solved, const Assignment& assignment) {
  std::vector<std::string> changes;
  for (int v = 0; v < solved.network.variables(); ++v) {
    if (assignment[at(v)] == solved.solution.assignment[at(v)]) continue;
    changes.push_back(solved.network.name(v) + " " +
                      solved.network.value_name(v, assignment[at(v)]));
  }
  return join(changes, ", ");
}

std::vector<std::string> conflict_of(const Solved& solved) {
  std::vector<std::string> texts;
  for (const ConflictPart& part : solved.solution.conflict) {
    texts.push_back(describe(part, solved.network, {}));
  }
  return texts;
}

nlohmann::json solved_json(const Solved& solved) {
  const ExactSolution& solution = solved.solution;
  std::size_t strategies = 0;
  for (int v = 0; v < solved.network.variables(); ++v) strategies += at(solved.network.values(v));
  const auto when_solved = [&](double value) {
    return solution.feasible ? finite_or_null(value) : nlohmann::json(nullptr);
  };
  nlohmann::json json = {
      {"program", solved.program.name},
      {"nodes", solved.program.nodes.size()},
      {"edges", solved.problem.priced.size()},
      {"strategies", strategies},
      {"objective_us", when_solved(solution.objective)},
      {"lower_bound_us", when_solved(solution.lower_bound)},
      {"optimal", solution.optimal},
      {"optima", solution.optima ? finite_or_null(*solution.optima) : nlohmann::json(nullptr)},
      {"infeasible", solution.feasible ? nlohmann::json(nullptr)
                                       : nlohmann::json("no assignment heeds: " +
                                                        join(conflict_of(solved), "; "))},
      {"conflict", conflict_of(solved)},
      {"notes", solved.strategies.notes},
      {"breakdown_us", nullptr},
      {"assignment", nlohmann::json::array()},
      {"best", nlohmann::json::array()}};
  if (!solution.feasible) return json;
  const Breakdown parts =
      solved.problem.breakdown(solved.strategies, solved.prices, solution.assignment);
  json["breakdown_us"] = {{"compute", parts.compute_us},
                          {"communication", parts.communication_us},
                          {"transition", parts.transition_us}};
  json["assignment"] = assignment_json(solved);
  for (const RankedAssignment& ranked : solution.best) {
    json["best"].push_back(
        {{"objective_us", ranked.objective}, {"changes", changes_of(solved, ranked.assignment)}});
  }
  return json;
}

std::string solved_text(const Solved& solved) {
  const ExactSolution& solution = solved.solution;
  std::string out = solved.program.name + ": " + std::to_string(solved.program.nodes.size()) +
                    " nodes, " + std::to_string(solved.problem.priced.size()) + " edges\n";
  for (const std::string& note : solved.strategies.notes) out += "  note: " + note + "\n";
  if (!solution.feasible) {
    return out + "  infeasible: no assignment heeds: " + join(conflict_of(solved), "; ") + "\n";
  }
  const Breakdown parts =
      solved.problem.breakdown(solved.strategies, solved.prices, solution.assignment);
  out += "  objective " + format_double(solution.objective) + " us, lower bound " +
         format_double(solution.lower_bound) + " us" +
         (solution.optimal ? ", optimal" : ", not proved optimal") + "\n";
  out += "  kernels " + format_fixed(parts.compute_us, 3) + " us, communication " +
         format_fixed(parts.communication_us, 3) + " us, transitions " +
         format_fixed(parts.transition_us, 3) + " us\n";
  if (solution.optima) out += "  optima " + format_double(*solution.optima) + "\n";
  std::vector<std::string> header = {"node", "op", "inputs", "outputs", "kernel us", "moves us"};
  if (!solution.margins.empty()) header.emplace_back("margin us");
  TextTable table(header);
  const std::vector<double> communication = communication_of(solved);
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    const NodeLayouts layouts = layouts_of(solved, n);
    const auto compute = solved.prices.compute_us(solved.strategies.class_of[n]);
    std::vector<std::string> row = {solved.program.nodes[n].name,
                                    solved.program.nodes[n].op,
                                    join(layouts.in, ", "),
                                    layouts.out,
                                    format_fixed(compute[at(solution.assignment[n])], 3),
                                    format_fixed(communication[n], 3)};
    if (!solution.margins.empty()) {
      row.push_back(solution.margins[n] < kForbidden ? format_fixed(solution.margins[n], 3)
                                                     : "no other value");
    }
    table.add(std::move(row));
  }
  out += table.text();
  for (std::size_t i = 1; i < solution.best.size(); ++i) {
    out += "  number " + std::to_string(i + 1) + ": " + format_double(solution.best[i].objective) +
           " us, " + changes_of(solved, solution.best[i].assignment) + "\n";
  }
  return out;
}

}  // namespace

void solve_program(const SolveProgramArguments& arguments, const SolveAnswers& answers,
                   Session& session) {
  const StopWatch total;
  Times times;
  const ConfigStore store = session.store();
  const DeviceMesh mesh = parse_option("--mesh", [&] { return DeviceMesh::parse(arguments.mesh); });
  const ProblemOptions options = options_of(arguments, mesh);
  const Stack stack = store.stack(arguments.stack);
  const Topology topology = store.topology(session.topology);
  const StopWatch reading;
  const Program program = store.program(arguments.program);
  times.read_ms = reading.ms();

  const StopWatch enumerating;
  const ProgramStrategies strategies =
      enumerate_strategies(program, mesh, {.rules = stack.rules, .strided = arguments.strided});
  times.enumerate_ms = enumerating.ms();

  const StopWatch pricing;
  StackEvaluator evaluator(stack, topology);
  const ProgramPrices prices(program, strategies, evaluator, mesh);
  times.price_ms = pricing.ms();

  const StopWatch solving;
  const ShardingProblem problem = make_problem(program, mesh, strategies, prices, options);
  const CostNetwork network = network_of(problem);
  if (!arguments.export_problem.empty()) {
    write_file(arguments.export_problem, write_cfn(network, program.name));
  }
  const ExactSolution solution = ExactSolver(network).solve({.restrictions = {},
                                                             .jobs = session.threads(),
                                                             .margins = answers.margins,
                                                             .best = answers.best});
  times.solve_ms = solving.ms();
  times.total_ms = total.ms();
  if (!solution.feasible) session.exit_code = kGateSaidNo;
  const Solved solved{program, strategies, prices, problem, network, solution};
  if (session.json()) {
    nlohmann::json json = solved_json(solved);
    json["stack"] = stack.name;
    json["topology"] = topology.name();
    json["mesh"] = mesh.text();
    if (!session.no_timing) {
      json["timing"] = {{"read_ms", times.read_ms},
                        {"enumerate_ms", times.enumerate_ms},
                        {"price_ms", times.price_ms},
                        {"solve_ms", times.solve_ms},
                        {"total_ms", times.total_ms}};
    }
    session.print(json);
    return;
  }
  std::string text = solved_text(solved);
  if (!session.no_timing) {
    text += "  read " + format_fixed(times.read_ms, 1) + " ms, enumerated " +
            format_fixed(times.enumerate_ms, 1) + " ms, priced " + format_fixed(times.price_ms, 1) +
            " ms, solved and checked " + format_fixed(times.solve_ms, 1) + " ms, " +
            format_fixed(times.total_ms, 1) + " ms in all\n";
  }
  session.print(text);
}

}  // namespace shardlab
