#include "runner/commands/solve_program.h"

#include "costmodel/text.h"
#include "runner/read_json.h"
#include "runner/saved_plan.h"
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
NodeLayouts layouts_of(const Solved& solved, std::size_t node, std::size_t row) {
  const NodeClass& kind = solved.strategies.of(node);
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
NodeLayouts chosen_layouts(const Solved& solved, std::size_t node) {
  return layouts_of(solved, node, at(solved.solution.assignment[node]));
}

// -- Why not another layout -------------------------------------------------------------------------

// A node that can have the asked layout as its output's.
struct Available {
  std::size_t node = 0;
  double chosen_us = 0.0;         // the node's kernel and what moves to and from it
  double local_us = kForbidden;   // the same with that layout, all other nodes as chosen
  double global_us = kForbidden;  // the best total with that layout
};

// What the node's value costs with all other nodes as chosen: its own cost and its edges'.
std::vector<double> local_costs(const Solved& solved, int variable) {
  const CostNetwork& network = solved.network;
  std::vector<double> us(network.costs(variable).begin(), network.costs(variable).end());
  for (const CostEdge& edge : network.edges()) {
    const CostTable& table = network.tables()[at(edge.table)];
    const auto value_of = [&](int v) { return solved.solution.assignment[at(v)]; };
    for (int x = 0; x < network.values(variable); ++x) {
      if (edge.first == variable) us[at(x)] += table.at(x, value_of(edge.second));
      if (edge.second == variable) us[at(x)] += table.at(value_of(edge.first), x);
    }
  }
  return us;
}

std::vector<Available> explain(const Solved& solved, const std::string& layout, ExactSolver& solver,
                               const Session& session) {
  std::vector<Available> found;
  for (int v = 0; v < solved.network.variables(); ++v) {
    Restriction restriction{.variable = v, .allowed = {}};
    for (int x = 0; x < solved.network.values(v); ++x) {
      if (layouts_of(solved, at(v), at(x)).out == layout) restriction.allowed.push_back(x);
    }
    if (restriction.allowed.empty()) continue;
    Available available{.node = at(v)};
    const std::vector<double> local = local_costs(solved, v);
    available.chosen_us = local[at(solved.solution.assignment[at(v)])];
    for (const int x : restriction.allowed) {
      available.local_us = std::min(available.local_us, local[at(x)]);
    }
    const ExactSolution with = solver.solve({.restrictions = {restriction},
                                             .jobs = session.threads(),
                                             .margins = false,
                                             .best = 1,
                                             .explain = false});
    if (with.feasible) available.global_us = with.objective;
    found.push_back(available);
  }
  return found;
}

// -- Another plan ---------------------------------------------------------------------------------

struct Diff {
  double objective_us = 0.0;
  std::vector<std::size_t> nodes;  // that differ
  Assignment assignment;
};

Diff diff_of(const Solved& solved, const std::string& file) {
  const std::vector<SavedNode> saved =
      read_saved_plan(parse_json(read_text_file(file), file), {file, ""});
  Diff diff{
      .objective_us = 0.0, .nodes = {}, .assignment = Assignment(solved.program.nodes.size(), -1)};
  for (const SavedNode& node : saved) {
    const auto index = solved.program.find(node.node);
    if (!index) node.place.fail("found the node \"" + node.node + "\", which the program lacks");
    const auto rows = solved.strategies.of(*index).rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const NodeLayouts layouts = layouts_of(solved, *index, row);
      if (layouts.out == node.out && layouts.in == node.in) {
        diff.assignment[*index] = static_cast<int>(row);
      }
    }
    if (diff.assignment[*index] < 0) {
      node.place.fail("found " + node.out + " <- " + join(node.in, ", ") +
                      ", which is none of the " + std::to_string(rows) + " strategies of " +
                      node.node);
    }
  }
  for (std::size_t n = 0; n < diff.assignment.size(); ++n) {
    if (diff.assignment[n] < 0) {
      JsonPlace{file, ""}.fail("has no node \"" + solved.program.nodes[n].name + "\"");
    }
    if (diff.assignment[n] != solved.solution.assignment[n]) diff.nodes.push_back(n);
  }
  diff.objective_us = solved.network.cost(diff.assignment);
  return diff;
}

nlohmann::json assignment_json(const Solved& solved) {
  const std::vector<double> communication = communication_of(solved);
  nlohmann::json nodes = nlohmann::json::array();
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    const NodeLayouts layouts = chosen_layouts(solved, n);
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
    const NodeLayouts layouts = chosen_layouts(solved, n);
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

namespace {

nlohmann::json explain_json(const Solved& solved, std::span<const Available> found) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const Available& available : found) {
    nodes.push_back({{"node", solved.program.nodes[available.node].name},
                     {"chosen", chosen_layouts(solved, available.node).out},
                     {"chosen_us", available.chosen_us},
                     {"local_us", finite_or_null(available.local_us)},
                     {"global_us", finite_or_null(available.global_us)}});
  }
  return nodes;
}

std::string explain_text(const Solved& solved, const std::string& layout,
                         std::span<const Available> found) {
  TextTable table({layout + " at", "chosen", "us there", "us with it", "best total us"});
  const auto text = [](double us) { return us < kForbidden ? format_fixed(us, 3) : "can't be"; };
  for (const Available& available : found) {
    table.add({solved.program.nodes[available.node].name,
               chosen_layouts(solved, available.node).out, text(available.chosen_us),
               text(available.local_us), text(available.global_us)});
  }
  return found.empty() ? "  no node can have " + layout + "\n" : table.text();
}

nlohmann::json diff_json(const Solved& solved, const Diff& diff) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const std::size_t n : diff.nodes) {
    nodes.push_back({{"node", solved.program.nodes[n].name},
                     {"here", chosen_layouts(solved, n).out},
                     {"there", layouts_of(solved, n, at(diff.assignment[n])).out}});
  }
  const double gap = diff.objective_us - solved.solution.objective;
  return {{"objective_us", finite_or_null(diff.objective_us)},
          {"gap_us", finite_or_null(gap)},
          {"gap_percent", finite_or_null(100 * gap / solved.solution.objective)},
          {"nodes", nodes}};
}

std::string diff_text(const Solved& solved, const Diff& diff) {
  const double gap = diff.objective_us - solved.solution.objective;
  std::string out = diff.objective_us < kForbidden
                        ? "  the other plan: " + format_double(diff.objective_us) + " us, " +
                              format_fixed(gap, 3) + " us above the optimum; " +
                              std::to_string(diff.nodes.size()) + " nodes differ\n"
                        : "  the other plan breaks a constraint; " +
                              std::to_string(diff.nodes.size()) + " nodes differ\n";
  if (diff.nodes.empty()) return out;
  TextTable table({"node", "here", "there"});
  for (const std::size_t n : diff.nodes) {
    table.add({solved.program.nodes[n].name,
               solved.network.value_name(static_cast<int>(n), solved.solution.assignment[n]),
               solved.network.value_name(static_cast<int>(n), diff.assignment[n])});
  }
  return out + table.text();
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
  ExactSolver solver(network);
  const ExactSolution solution = solver.solve({.restrictions = {},
                                               .jobs = session.threads(),
                                               .margins = answers.margins,
                                               .best = answers.best});
  times.solve_ms = solving.ms();
  times.total_ms = total.ms();
  if (!solution.feasible) session.exit_code = kGateSaidNo;
  const Solved solved{program, strategies, prices, problem, network, solution};
  std::optional<std::vector<Available>> found;
  std::optional<Diff> diff;
  if (solution.feasible && !answers.explain.empty()) {
    const std::string layout = Layout(placements_of("--explain", answers.explain, mesh)).text();
    found = explain(solved, layout, solver, session);
  }
  if (solution.feasible && !answers.diff.empty()) diff = diff_of(solved, answers.diff);
  if (session.json()) {
    nlohmann::json json = solved_json(solved);
    if (found) json["explain"] = explain_json(solved, *found);
    if (diff) json["diff"] = diff_json(solved, *diff);
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
  if (found) {
    text += explain_text(solved, Layout(placements_of("--explain", answers.explain, mesh)).text(),
                         *found);
  }
  if (diff) text += diff_text(solved, *diff);
  if (!session.no_timing) {
    text += "  read " + format_fixed(times.read_ms, 1) + " ms, enumerated " +
            format_fixed(times.enumerate_ms, 1) + " ms, priced " + format_fixed(times.price_ms, 1) +
            " ms, solved and checked " + format_fixed(times.solve_ms, 1) + " ms, " +
            format_fixed(times.total_ms, 1) + " ms in all\n";
  }
  session.print(text);
}

}  // namespace shardlab
