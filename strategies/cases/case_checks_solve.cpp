// Checks that solve a whole program: strategies, prices, constraints, the optimum, and its run on
// virtual ranks. A check may ask for the problem with the flaws of another solver. Then it compares
// the optimum that this solver claims with what its plan really costs.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "strategies/cases/case_checks.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_execution.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/programs/sharding_problem.h"
#include "strategies/solvers/exact.h"

namespace shardlab::case_checks {
namespace {

constexpr std::int64_t kMostSolveBytes = std::int64_t{1} << 30U;

constexpr std::array<AnswerKey, 16> kSolveAnswers = {{
    {"objective_us"},  // the optimum of the problem as the check states it
    {"evaluated_us"},  // what the plan costs in the problem without flaws, or null where the plan breaks that problem's constraints
    {"optimal"},
    {"nodes"},
    {"strategies"},
    {"infeasible", Match::kContains},
    {"chosen"},         // node -> its strategy, "S(0)R<-S(0)R,RR"
    {"rows"},           // node -> all its strategies
    {"edges"},          // "reader:argument" -> its prices (edges_json())
    {"disagreements"},  // edges that are priced for another layout than the producer has
    {"to_partial"},     // "reader:argument from -> to" where a tensor becomes a partial
    {"unexecutable"},   // "reader:argument from -> to" where no collective makes the change
    {"verified"},       // whether the plan, run on virtual ranks, computes the program
    {"wrong_nodes"},
    {"max_abs_error"},
    {"error", Match::kContains},
}};

// Flaws of AutoParallel's integer program (a54c252, optimize_sharding.py); docs/autoparallel.md,
// "Traps".
struct Flaws {
  // Groups of nodes of repeated layers. All nodes of a group take the choice of the first one, the
  // root, and are charged the root's costs. An edge between two copies is left out, as if the edge
  // between their roots accounted for it.
  std::vector<std::vector<std::string>> tied;
  // If one producer feeds several arguments of a node, only the first is tied to the producer's
  // choice.
  bool first_argument_only = false;
};

// The problem with flaws, as a network.
class StatedProblem {
 public:
  StatedProblem(const ShardingProblem& problem, const Flaws& flaws)
      : problem_(problem), root_(problem.names.size()) {
    for (std::size_t n = 0; n < root_.size(); ++n) root_[n] = n;
    for (const std::vector<std::string>& group : flaws.tied) add_group(group);
    for (const std::vector<std::string>& values : problem.domains) network_.add_domain(values);
    add_variables(flaws);
    for (const ProblemTable& table : problem.tables) {
      network_.add_table(table.rows, table.columns, table.costs);
    }
    add_edges(flaws);
  }
  [[nodiscard]] const CostNetwork& network() const { return network_; }

  // Edges that are priced by the layout of a producer that is not their own.
  [[nodiscard]] int disagreements(const Assignment& assignment) const {
    int count = 0;
    for (const auto& [producer, instead] : loose_) {
      if (assignment[producer] != assignment[instead]) ++count;
    }
    for (const FreeArgument& free : free_) {
      const ProblemTable& table = problem_.tables[to_index(free.table)];
      const auto row = to_index(assignment[free.reader]);
      const double charged = cheapest(table, row);
      const double real =
          table.costs[row * to_index(table.columns) + to_index(assignment[free.producer])];
      if (charged != real) ++count;
    }
    return count;
  }

 private:
  struct FreeArgument {
    std::size_t reader;
    std::size_t producer;
    int table;
  };

  [[nodiscard]] std::size_t node(const std::string& name) const {
    const auto found = std::find(problem_.names.begin(), problem_.names.end(), name);
    if (found != problem_.names.end()) {
      return static_cast<std::size_t>(found - problem_.names.begin());
    }
    std::vector<std::string_view> names(problem_.names.begin(), problem_.names.end());
    throw InputError("tied: the program has no node \"" + name + "\"" + did_you_mean(name, names));
  }
  [[nodiscard]] bool is_copy(std::size_t n) const { return root_[n] != n; }

  void add_group(const std::vector<std::string>& group) {
    for (const std::string& name : group) {
      const std::size_t copy = node(name);
      const std::size_t root = node(group[0]);
      if (problem_.domain_of[copy] != problem_.domain_of[root]) {
        throw InputError("tied: " + name + " has other strategies than " + group[0]);
      }
      root_[copy] = root;
    }
  }

  static double cheapest(const ProblemTable& table, std::size_t row) {
    const auto begin =
        table.costs.begin() + static_cast<std::ptrdiff_t>(row * to_index(table.columns));
    return *std::min_element(begin, begin + table.columns);
  }

  void add_variables(const Flaws& flaws) {
    std::vector<std::vector<double>> costs = problem_.costs;
    std::set<std::pair<std::size_t, std::pair<std::uint32_t, std::uint32_t>>> seen;
    for (std::size_t e = 0; flaws.first_argument_only && e < problem_.priced.size(); ++e) {
      const PricedEdge& edge = problem_.priced[e];
      if (seen.insert({edge.reader, {edge.producer, edge.output}}).second) continue;
      free_.push_back({edge.reader, edge.producer, problem_.edges[e].table});
      const ProblemTable& table = problem_.tables[to_index(problem_.edges[e].table)];
      for (std::size_t row = 0; row < to_index(table.rows); ++row) {
        costs[edge.reader][row] += cheapest(table, row);
      }
      skipped_.insert(e);
    }
    for (std::size_t v = 0; v < problem_.names.size(); ++v) {
      network_.add_variable(problem_.names[v], problem_.domain_of[v], costs[v]);
    }
  }

  // Forces two variables to have the same value.
  void tie(std::size_t a, std::size_t b) {
    const int values = network_.values(static_cast<int>(a));
    const auto [it, is_new] = equal_.try_emplace(values, 0);
    if (is_new) {
      std::vector<double> costs(to_index(values) * to_index(values), kForbidden);
      for (std::size_t x = 0; x < to_index(values); ++x) costs[x * to_index(values) + x] = 0.0;
      it->second = network_.add_table(values, values, std::move(costs));
    }
    network_.add_edge(static_cast<int>(a), static_cast<int>(b), it->second);
  }

  void add_edges(const Flaws& flaws) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> by_argument;
    std::map<std::size_t, int> copies;  // by edge of a root: how many edges it stands for
    for (std::size_t e = 0; !flaws.tied.empty() && e < problem_.priced.size(); ++e) {
      by_argument[{problem_.priced[e].reader, problem_.priced[e].argument}] = e;
    }
    for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
      if (skipped_.contains(e)) continue;
      const bool priced = e < problem_.priced.size();
      if (!priced || !is_copy(problem_.priced[e].reader)) {
        copies[e] += 1;
        continue;
      }
      const PricedEdge& edge = problem_.priced[e];
      const auto root = static_cast<std::uint32_t>(root_[edge.reader]);
      const std::size_t of_root = by_argument.at({root, edge.argument});
      copies[of_root] += 1;
      const std::size_t instead = problem_.priced[of_root].producer;
      if (is_copy(edge.producer)) {
        loose_.emplace_back(edge.producer, instead);
      } else if (edge.producer != instead) {
        tie(edge.producer, instead);
      }
    }
    for (const auto& [e, times] : copies) {
      const ProblemEdge& edge = problem_.edges[e];
      int table = edge.table;
      if (times > 1) {
        const ProblemTable& once = problem_.tables[to_index(edge.table)];
        std::vector<double> costs = once.costs;
        for (double& cost : costs) cost *= times;
        table = network_.add_table(once.rows, once.columns, std::move(costs));
      }
      network_.add_edge(edge.first, edge.second, table);
    }
    for (std::size_t n = 0; n < root_.size(); ++n) {
      if (is_copy(n)) tie(n, root_[n]);
    }
  }

  const ShardingProblem& problem_;
  std::vector<std::size_t> root_;
  CostNetwork network_;
  std::set<std::size_t> skipped_;
  std::vector<std::pair<std::size_t, std::size_t>>
      loose_;  // the producer of an edge, and the producer by which it is priced
  std::vector<FreeArgument> free_;
  std::map<int, int> equal_;
};

// Reads {"built_in": "llama3-8b", "layers": 2, ...}, or a program in the form of its files.
Program read_program(const nlohmann::json& json, const JsonPlace& place) {
  if (!json.is_object() || !json.contains("built_in")) return Program::from_json(json, place);
  ObjectReader reader(json, place);
  const std::string name = reader.text("built_in");
  const BuiltInProgram* program = find_built_in_program(name);
  if (program == nullptr) {
    std::vector<std::string_view> names;
    for (const BuiltInProgram& each : all_built_in_programs()) names.push_back(each.name);
    reader.place("built_in")
        .fail("found \"" + name + "\"" + did_you_mean(name, names) + "; valid: " + join(names));
  }
  constexpr std::int64_t kMost = 1 << 20U;
  ProgramOptions options;
  options.layers = reader.integer_or("layers", 1, 1, 1024);
  options.batch = reader.integer_or("batch", options.batch, 1, kMost);
  options.seqlen = reader.integer_or("seqlen", program->seqlen, 1, kMost);
  const std::string form = reader.text_or("matmul", "einsum");
  if (form != "einsum" && form != "native") {
    reader.place("matmul").fail("found \"" + form + "\"; valid: einsum, native");
  }
  if (form == "native") options.matmul = MatmulForm::kNative;
  ProgramSizes& sizes = options.sizes;
  for (const auto& [key, size] :
       {std::pair("width", &sizes.width), std::pair("heads", &sizes.heads),
        std::pair("kv_heads", &sizes.kv_heads), std::pair("ffn", &sizes.ffn),
        std::pair("vocabulary", &sizes.vocabulary), std::pair("experts", &sizes.experts)}) {
    if (reader.find(key) != nullptr) *size = reader.integer_or(key, 1, 1, 1 << 16U);
  }
  reader.finish();
  return parse_at(place, [&] { return program->make(options); });
}

class SolveCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<SolveCheck>();
    check->mesh_ = mesh_of(source.scene, source.place);
    check->program_ = read_program(reader.value("program"), reader.place("program"));
    const int ndim = check->mesh_.ndim();
    const auto layout = [&](const nlohmann::json& json, const JsonPlace& place) {
      return parse_at(place,
                      [&] { return Layout::parse(json_text(json, place), ndim).placements; });
    };
    ProblemOptions& options = check->options_;
    if (const nlohmann::json* pins = reader.find("pins")) {
      const JsonPlace place = reader.place("pins");
      if (!pins->is_object()) place.fail("found " + describe_json(*pins) + "; valid: an object");
      for (const auto& [name, text] : pins->items()) {
        options.pins.push_back({name, layout(text, place.at(name))});
      }
    }
    if (const nlohmann::json* text = reader.find("pin_inputs")) {
      options.pin_inputs = layout(*text, reader.place("pin_inputs"));
    }
    if (const nlohmann::json* text = reader.find("pin_outputs")) {
      options.pin_outputs = layout(*text, reader.place("pin_outputs"));
    }
    if (reader.find("parameter_budget") != nullptr) {
      options.parameter_budget = reader.number("parameter_budget", {.min = 0.0, .max = 1.0});
    }
    check->strided_ = reader.boolean_or("strided", false);
    if (const nlohmann::json* flaws = reader.find("flaws")) {
      check->flaws_ = read_flaws(*flaws, reader.place("flaws"));
    }
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "solve " + program_.name + ", " + std::to_string(program_.nodes.size()) + " nodes, on " +
           mesh_.text() + (strided_ ? ", with strided shards" : "") +
           (flaws_.tied.empty() ? "" : ", layers tied as AutoParallel ties them") +
           (flaws_.first_argument_only ? ", first arguments tied only" : "");
  }

  [[nodiscard]] Observation observe(Bench& bench,
                                    const std::set<std::string>& asked) const override {
    StackEvaluator& evaluator = bench.evaluator();
    const ProgramStrategies strategies = enumerate_strategies(
        program_, mesh_,
        {.rules = evaluator.stack().rules.set_for("a solve check"), .strided = strided_});
    const ProgramPrices prices(program_, strategies, evaluator, mesh_);
    const ShardingProblem problem = make_problem(program_, mesh_, strategies, prices, options_);
    Observation seen;
    seen.answers["nodes"] = program_.nodes.size();
    std::size_t count = 0;
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) count += strategies.of(n).strategies;
    seen.answers["strategies"] = count;
    if (asked.contains("rows")) seen.answers["rows"] = rows_json(problem);
    if (asked.contains("edges")) {
      seen.answers["edges"] = edges_json(strategies, prices, evaluator.on(mesh_));
    }
    const StatedProblem stated(problem, flaws_);
    const ExactSolution solution =
        ExactSolver(stated.network()).solve({.explain = asked.contains("infeasible")});
    seen.answers["optimal"] = solution.optimal;
    seen.answers["infeasible"] = "";
    if (!solution.feasible) {
      std::string why;
      for (const ConflictPart& part : solution.conflict) {
        why += (why.empty() ? "" : "; ") + describe(part, stated.network(), {});
      }
      seen.answers["infeasible"] = why;
      seen.answers["objective_us"] = nullptr;
      seen.value = std::numeric_limits<double>::infinity();
      return seen;
    }
    seen.answers["objective_us"] = solution.objective;
    seen.value = solution.objective;
    seen.answers["evaluated_us"] = finite_or_null(network_of(problem).cost(solution.assignment));
    seen.answers["disagreements"] = stated.disagreements(solution.assignment);
    if (asked.contains("chosen")) {
      nlohmann::json& chosen = seen.answers["chosen"] = nlohmann::json::object();
      for (std::size_t n = 0; n < problem.names.size(); ++n) {
        chosen[problem.names[n]] =
            problem.domains[to_index(problem.domain_of[n])][to_index(solution.assignment[n])];
      }
    }
    const auto asks = [&](std::initializer_list<const char*> keys) {
      return std::any_of(keys.begin(), keys.end(),
                         [&](const char* key) { return asked.contains(key); });
    };
    const bool runs = asks({"verified", "wrong_nodes", "max_abs_error"});
    if (!runs && !asks({"to_partial", "unexecutable"})) return seen;
    const std::vector<NodePlan> plans =
        plan_program(program_, placements_of(strategies, solution.assignment), evaluator.on(mesh_));
    list_moves(plans, seen.answers);
    if (runs) add_run(evaluator.topology(), plans, seen.answers);
    return seen;
  }

 private:
  static Flaws read_flaws(const nlohmann::json& json, const JsonPlace& place) {
    ObjectReader reader(json, place);
    Flaws flaws;
    if (const nlohmann::json* tied = reader.find("tied")) {
      const JsonPlace groups = reader.place("tied");
      for (std::size_t i = 0; i < json_array(*tied, groups).size(); ++i) {
        flaws.tied.push_back(read_texts((*tied)[i], groups.at(i)));
        if (const std::size_t nodes = flaws.tied.back().size(); nodes < 2) {
          groups.at(i).fail("found " + std::string(nodes == 0 ? "no nodes" : "one node") +
                            "; valid: at least two nodes, which are tied");
        }
      }
    }
    flaws.first_argument_only = reader.boolean_or("first_argument_only", false);
    reader.finish();
    return flaws;
  }

  [[nodiscard]] static nlohmann::json rows_json(const ShardingProblem& problem) {
    nlohmann::json rows = nlohmann::json::object();
    for (std::size_t n = 0; n < problem.names.size(); ++n) {
      rows[problem.names[n]] = problem.domains[to_index(problem.domain_of[n])];
    }
    return rows;
  }

  // For each edge: how many strategies the reader and the producer have, the prices, and how many
  // of these differ from the price of the same change when it is priced on its own.
  [[nodiscard]] nlohmann::json edges_json(const ProgramStrategies& strategies,
                                          const ProgramPrices& prices,
                                          Redistributor& redistributor) const {
    nlohmann::json edges = nlohmann::json::object();
    for (const PricedEdge& edge : prices.edges()) {
      const PriceTable& table = prices.table(edge.table);
      const NodeClass& reader = strategies.of(edge.reader);
      const NodeClass& producer = strategies.of(edge.producer);
      const TensorMeta& meta = program_.nodes[edge.producer].outputs[edge.output];
      int wrong = 0;
      for (std::size_t row = 0; row < std::min<std::size_t>(reader.strategies, table.rows());
           ++row) {
        const LayoutId to = strategies.layout(reader, row, reader.outputs + edge.argument);
        for (std::size_t column = 0;
             column < std::min<std::size_t>(producer.strategies, table.columns()); ++column) {
          const LayoutId from = strategies.layout(producer, column, edge.output);
          const double alone = redistributor.cost_us(meta, Layout(strategies.layouts[from]),
                                                     Layout(strategies.layouts[to]));
          const double here = table.at(row, column);
          if (here != alone && !(std::abs(here - alone) <= 1e-9 * alone)) ++wrong;
        }
      }
      edges[program_.nodes[edge.reader].name + ":" + std::to_string(edge.argument)] = {
          reader.strategies, producer.strategies, table.rows() * table.columns(), wrong};
    }
    return edges;
  }

  void list_moves(const std::vector<NodePlan>& plans, nlohmann::json& answers) const {
    nlohmann::json& to_partial = answers["to_partial"] = nlohmann::json::array();
    nlohmann::json& unexecutable = answers["unexecutable"] = nlohmann::json::array();
    for (std::size_t n = 0; n < plans.size(); ++n) {
      for (std::size_t i = 0; i < plans[n].moves.size(); ++i) {
        const Plan& move = plans[n].moves[i];
        const std::string text = program_.nodes[n].name + ":" + std::to_string(i) + " " +
                                 move.from.text() + " -> " + move.to.text();
        bool becomes_partial = false;
        for (int m = 0; m < mesh_.ndim(); ++m) {
          becomes_partial =
              becomes_partial || (move.to[m].is_partial() && move.from[m] != move.to[m]);
        }
        if (becomes_partial) to_partial.push_back(text);
        if (!move.unexecutable.empty()) unexecutable.push_back(text);
      }
    }
  }

  void add_run(const Topology& topology, const std::vector<NodePlan>& plans,
               nlohmann::json& answers) const {
    const Executor executor(mesh_, topology, {.memory_limit_bytes = kMostSolveBytes});
    const ProgramExecution done = execute_program(executor, program_, plans);
    answers["verified"] = done.verified;
    answers["max_abs_error"] = finite_or_null(done.max_abs_error);
    nlohmann::json& wrong = answers["wrong_nodes"] = nlohmann::json::array();
    for (const std::size_t n : done.wrong) wrong.push_back(program_.nodes[n].name);
  }

  DeviceMesh mesh_;
  Program program_;
  ProblemOptions options_;
  bool strided_ = false;  // as `solve --strided`
  Flaws flaws_;
};

}  // namespace

constinit const CheckKind kSolveKind{
    .name = "solve", .answers = kSolveAnswers, .has_price = true, .read = SolveCheck::read};

}  // namespace shardlab::case_checks
