// Reads golden instances. Strategies and tables are taken as they stand there; constraints become
// infinite costs.
#include "tests/support/autoparallel_instance.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <stdexcept>
#include <tuple>

namespace shardlab::testing_support {
namespace {

using nlohmann::json;

// Fields of a node and of a strategy, as the files' headers list them.
enum NodeField : std::size_t { kName, kOp, kTarget, kMeta, kStrategies, kArgs, kPhase, kElement };
enum StrategyField : std::size_t { kOutput, kInputs, kCompute };

json read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("can't read " + path.string());
  return json::parse(file);
}

// The committed files spell each row once; see scripts/thin_autoparallel_program.py.
json unpacked(json golden) {
  const std::string alphabet = golden["alphabet"];
  const auto code = [&](const std::string& row, std::size_t i) {
    return alphabet.find(row[2 * i]) * alphabet.size() + alphabet.find(row[2 * i + 1]);
  };
  json tables = json::array();
  for (const json& packed : golden["edge_tables"]) {
    json comm = json::array();
    json banned = json::array();
    for (const json& number : packed[0]) {
      const std::string text = golden["rows"][number.get<std::size_t>()];
      json row = json::array();
      for (std::size_t i = 0; 2 * i < text.size(); ++i) {
        const json& cost = golden["costs"][code(text, i)];
        if (packed[1].get<bool>() && !cost.is_null() && cost > 0.0) {
          banned.push_back({comm.size(), i});
        }
        row.push_back(cost);
      }
      comm.push_back(std::move(row));
    }
    const std::size_t columns = comm[0].size();
    tables.push_back(
        {{"rows", comm.size()}, {"cols", columns}, {"comm", comm}, {"dtype_banned", banned}});
  }
  golden["edge_tables"] = std::move(tables);
  return golden;
}

std::string output_text(const json& strategy) {
  const json& output = strategy[kOutput];
  return output.is_string() ? output.get<std::string>() : output.dump();
}

// A transition costs 1 if the wanted placement differs, as text, from the chosen one.
bool moves(const json& own, std::size_t argument, const json& producer, const json& element) {
  if (argument >= own[kInputs].size()) return false;
  const json& wanted = own[kInputs][argument];
  const json& output = producer[kOutput];
  const json& chosen =
      output.is_array() && element.is_number() ? output[element.get<std::size_t>()] : output;
  return wanted.is_string() && chosen.is_string() && wanted != chosen;
}

class Builder {
 public:
  Builder(const json& golden, const json& model) : golden_(golden), model_(model) {}

  CostNetwork build(const InstanceConstraints& constraints) {
    add_nodes();
    for (std::size_t v = 0; v < nodes().size(); ++v) {
      const json& args = nodes()[v][kArgs];
      for (std::size_t a = 0; a < args.size(); ++a) {
        add_argument(v, a, args[a][0].get<std::size_t>(), args[a][1].get<std::size_t>());
      }
    }
    for (const json& pair : model_["pairs"]) tie(pair[1].get<int>(), pair[2].get<int>());
    if (constraints.parameters_fully_sharded) shard_parameters();
    if (constraints.parameter_budget) add_budget(*constraints.parameter_budget);
    if (constraints.inputs) pin(model_["plain_inputs"], *constraints.inputs);
    if (constraints.outputs) pin(model_["plain_outputs"], *constraints.outputs);
    return std::move(network_);
  }

 private:
  [[nodiscard]] const json& nodes() const { return model_["nodes"]; }
  [[nodiscard]] const json& strategies(std::size_t node) const {
    return golden_["strategy_tables"][nodes()[node][kStrategies].get<std::size_t>()];
  }

  void add_nodes() {
    std::map<int, int> domains;  // strategy table -> domain
    for (std::size_t v = 0; v < nodes().size(); ++v) {
      std::vector<double> compute;
      std::vector<std::string> names;
      for (const json& strategy : strategies(v)) {
        compute.push_back(strategy[kCompute]);
        names.push_back(output_text(strategy) + " <-");
        for (const json& input : strategy[kInputs]) {
          names.back() += " " + (input.is_string() ? input.get<std::string>() : input.dump());
        }
      }
      const int table = nodes()[v][kStrategies];
      if (!domains.contains(table)) domains[table] = network_.add_domain(names);
      network_.add_variable(nodes()[v][kName], domains[table], compute);
    }
  }

  void add_argument(std::size_t v, std::size_t argument, std::size_t producer, std::size_t table) {
    const json& element = nodes()[v][kElement];
    const auto key = std::make_tuple(table, nodes()[v][kStrategies].get<int>(), argument,
                                     nodes()[producer][kStrategies].get<int>(),
                                     element.is_number() ? element.get<int>() : -1);
    if (!tables_.contains(key)) {
      const json& given = golden_["edge_tables"][table];
      const json& own = strategies(v);
      const json& others = strategies(producer);
      std::vector<double> costs;
      for (std::size_t x = 0; x < own.size(); ++x) {
        for (std::size_t y = 0; y < others.size(); ++y) {
          const json& comm = given["comm"][x][y];
          costs.push_back(comm.is_null()
                              ? kForbidden
                              : comm.get<double>() +
                                    (moves(own[x], argument, others[y], element) ? 1 : 0));
        }
      }
      for (const json& pair : given["dtype_banned"]) {
        costs[pair[0].get<std::size_t>() * others.size() + pair[1].get<std::size_t>()] = kForbidden;
      }
      tables_[key] = network_.add_table(static_cast<int>(own.size()),
                                        static_cast<int>(others.size()), std::move(costs));
    }
    network_.add_edge(static_cast<int>(v), static_cast<int>(producer), tables_[key]);
  }

  // The layouts of a pair are equal if both print the same output placement.
  void tie(int first, int second) {
    const auto key = std::make_pair(network_.domain(first), network_.domain(second));
    if (!ties_.contains(key)) {
      const json& own = strategies(static_cast<std::size_t>(first));
      const json& others = strategies(static_cast<std::size_t>(second));
      std::vector<double> costs;
      for (const json& x : own) {
        for (const json& y : others) costs.push_back(x[kOutput] == y[kOutput] ? 0.0 : kForbidden);
      }
      ties_[key] = network_.add_table(static_cast<int>(own.size()), static_cast<int>(others.size()),
                                      std::move(costs));
    }
    network_.add_edge(first, second, ties_[key]);
  }

  // Which part of a parameter a rank keeps, in units of 1/ranks, by output placement. Every mesh
  // dim that shards it divides it by 8, since all extents are divisible.
  static std::int64_t kept(const std::string& placement) {
    std::int64_t parts = 64;
    for (const char c : placement) parts /= c == 'S' ? 8 : 1;
    return parts;
  }

  void shard_parameters() {
    for (const json& parameter : model_["params"]) {
      const int v = parameter;
      const json& list = strategies(static_cast<std::size_t>(v));
      for (std::size_t x = 0; x < list.size(); ++x) {
        if (kept(list[x][kOutput]) > 1) network_.add_cost(v, static_cast<int>(x), kForbidden);
      }
    }
  }

  void add_budget(std::int64_t limit) {
    Budget budget{.name = "parameters", .limit = limit, .weights = {}};
    for (const json& parameter : model_["params"]) {
      Budget::Weights weights{.variable = parameter, .of_value = {}};
      for (const json& strategy : strategies(parameter.get<std::size_t>())) {
        weights.of_value.push_back(kept(strategy[kOutput]));
      }
      budget.weights.push_back(std::move(weights));
    }
    network_.add_budget(std::move(budget));
  }

  void pin(const json& nodes, const std::string& placement) {
    for (const json& node : nodes) {
      const json& list = strategies(node.get<std::size_t>());
      for (std::size_t x = 0; x < list.size(); ++x) {
        if (list[x][kOutput] != placement) network_.add_cost(node, static_cast<int>(x), kForbidden);
      }
    }
  }

  const json& golden_;
  const json& model_;
  CostNetwork network_;
  std::map<std::tuple<std::size_t, int, std::size_t, int, int>, int> tables_;
  std::map<std::pair<int, int>, int> ties_;
};

}  // namespace

const json& AutoParallelInstance::model(int layers) const {
  return golden_["models"].at(std::to_string(layers));
}

bool AutoParallelInstance::has(int layers) const {
  return golden_["models"].contains(std::to_string(layers));
}

CostNetwork AutoParallelInstance::network(int layers,
                                          const InstanceConstraints& constraints) const {
  return Builder(golden_, model(layers)).build(constraints);
}

double AutoParallelInstance::optimum_us(int layers) const {
  return model(layers)["optimum"]["objective"];
}

Assignment AutoParallelInstance::chosen(int layers) const {
  return model(layers)["optimum"]["chosen"].get<Assignment>();
}

AutoParallelInstance whole_golden(const std::string& form) {
  return AutoParallelInstance(
      read(SHARDLAB_GOLDEN_DIR "/autoparallel/autoparallel_llama3_8b_" + form + ".json"));
}

AutoParallelInstance one_layer_golden(const std::string& form) {
  return AutoParallelInstance(
      unpacked(read(SHARDLAB_SOURCE_DIR "/tests/golden/autoparallel/llama3_8b_" + form + ".json")));
}

}  // namespace shardlab::testing_support
