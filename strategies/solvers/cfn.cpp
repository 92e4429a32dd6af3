#include "strategies/solvers/cfn.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

using nlohmann::json;

constexpr int kDigits =
    6;  // digits after the point of written costs; doubles near 1e9 are 1e-7 apart

bool is_number(std::string_view word) {
  double value = 0.0;
  const auto end = word.data() + word.size();
  return std::from_chars(word.data(), end, value).ptr == end && std::isfinite(value);
}

// A function over at most two variables, before it is known which of its costs count as forbidden.
struct Function {
  std::vector<int> scope;
  std::vector<double> costs;
  double least = 0.0;
};

class Reader {
 public:
  Reader(const json& document, JsonPlace place) : reader_(document, std::move(place)) {}

  CfnProblem read() {
    ObjectReader problem(reader_.value("problem"), reader_.place("problem"));
    problem_.name = problem.text_or("name", "");
    read_limit(problem);
    problem.finish();
    read_variables();
    const json& functions = reader_.value("functions");
    if (!functions.is_object() && !functions.is_array()) {
      reader_.place("functions")
          .fail("found " + describe_json(functions) + "; valid: an object, or an array");
    }
    // Functions that share the costs of another one are read last.
    for (const bool sharing : {false, true}) {
      for (const auto& [name, function] : functions.items()) {
        const bool shares =
            function.is_object() && function.contains("costs") && function["costs"].is_string();
        if (shares == sharing) {
          read_function(name, function, reader_.place("functions").at(name));
        }
      }
    }
    reader_.finish();
    add_functions();
    return std::move(problem_);
  }

 private:
  void read_limit(ObjectReader& problem) {
    const json* given = problem.find("mustbe");
    if (given == nullptr) return;
    const JsonPlace place = problem.place("mustbe");
    const std::string text = json_text(*given, place);
    if (text.starts_with(">")) {
      place.fail("found \"" + text +
                 "\", but maximisation is not supported; valid: \"<\" and a cost");
    }
    if (!text.starts_with("<") || !is_number(std::string_view(text).substr(1))) {
      place.fail("found \"" + text + "\"; valid: \"<\" and a cost");
    }
    std::from_chars(text.data() + 1, text.data() + text.size(), problem_.below);
  }

  void read_variables() {
    const json& variables = reader_.value("variables");
    const JsonPlace place = reader_.place("variables");
    if (!variables.is_object())
      place.fail("found " + describe_json(variables) + "; valid: an object");
    for (const auto& [name, values] : variables.items()) {
      const JsonPlace at_variable = place.at(name);
      std::vector<std::string> names;
      if (values.is_array()) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          names.push_back(word(values[i], at_variable.at(i)));
          if (!unique(names)) {
            at_variable.at(i).fail("found \"" + names.back() +
                                   "\" a second time; valid: a new name");
          }
        }
      } else if (values.is_number()) {
        const auto count = json_integer(values, at_variable, 1, CostNetwork::kMaxValues);
        for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
      } else {
        at_variable.fail("found " + describe_json(values) +
                         "; valid: a number of values, or an array of their names");
      }
      if (names.empty() || names.size() > std::size_t{CostNetwork::kMaxValues}) {
        at_variable.fail("found " + std::to_string(names.size()) +
                         " values; valid: from 1 to 65536");
      }
      numbers_[name] = problem_.network.add_variable(name, domain(names));
    }
  }

  static bool unique(const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end() - 1, names.back()) == names.end() - 1;
  }
  // Variables with equal lists of values share one domain.
  int domain(const std::vector<std::string>& names) {
    const auto [known, is_new] = domains_.try_emplace(names, 0);
    if (is_new) known->second = problem_.network.add_domain(names);
    return known->second;
  }
  static std::string word(const json& value, const JsonPlace& place) {
    return value.is_number_integer() ? value.dump() : json_text(value, place);
  }

  void read_function(const std::string& name, const json& given, const JsonPlace& place) {
    ObjectReader reader(given, place);
    if (reader.find("type") != nullptr || reader.find("params") != nullptr) {
      place.fail("global functions are not supported; valid: scope, costs, defaultcost");
    }
    Function function;
    const json& scope = reader.array("scope");
    if (scope.size() > 2) {
      reader.place("scope").fail("a function of " + std::to_string(scope.size()) +
                                 " variables is not supported; valid: at most 2");
    }
    std::size_t size = 1;
    for (std::size_t i = 0; i < scope.size(); ++i) {
      const JsonPlace at_name = reader.place("scope").at(i);
      const std::string variable = word(scope[i], at_name);
      const auto known = numbers_.find(variable);
      if (known == numbers_.end())
        at_name.fail("found \"" + variable + "\"; valid: the name of a variable");
      function.scope.push_back(known->second);
      size *= to_index(problem_.network.values(known->second));
    }
    if (function.scope.size() == 2 && function.scope[0] == function.scope[1]) {
      reader.place("scope").fail("found the variable \"" +
                                 problem_.network.name(function.scope[0]) +
                                 "\" twice; valid: two different variables");
    }
    constexpr std::size_t kMostCosts = 1 << 24;
    if (size > kMostCosts) {
      reader.place("scope").fail("found " + std::to_string(size) +
                                 " joint values; valid: at most 16777216");
    }
    const json* fallback = reader.find("defaultcost");
    const JsonPlace costs_place = reader.place("costs");
    const json& costs = reader.value("costs");
    if (costs.is_string()) {
      const auto known = shared_.find(costs.get<std::string>());
      if (known == shared_.end()) {
        costs_place.fail("found " + describe_json(costs) +
                         "; valid: the name of a function with costs of its own");
      }
      function.costs = functions_[known->second].costs;
      if (function.costs.size() != size) {
        costs_place.fail("found the function " + describe_json(costs) + ", which has " +
                         std::to_string(function.costs.size()) +
                         " costs; valid: " + std::to_string(size));
      }
    } else if (fallback != nullptr) {
      function.costs.assign(size, cost(*fallback, reader.place("defaultcost")));
      read_tuples(function, json_array(costs, costs_place), costs_place);
    } else {
      if (json_array(costs, costs_place).size() != size) {
        costs_place.fail("found " + std::to_string(costs.size()) +
                         " costs; valid: " + std::to_string(size));
      }
      for (std::size_t i = 0; i < size; ++i) {
        function.costs.push_back(cost(costs[i], costs_place.at(i)));
      }
    }
    reader.finish();
    if (!costs.is_string()) shared_[name] = functions_.size();
    function.least = *std::ranges::min_element(function.costs);
    functions_.push_back(std::move(function));
  }

  // A cost above kMaxCost can be told from a forbidden one by the limit alone, and sums with it
  // would not be exact.
  [[nodiscard]] double cost(const json& value, const JsonPlace& place) const {
    const double given =
        json_number(value, place, {.min = -CostNetwork::kMaxCost, .max = kMostGiven});
    if (given > CostNetwork::kMaxCost && given < problem_.below) {
      place.fail("found " + format_double(given) + "; valid: a cost of at most " +
                 format_double(CostNetwork::kMaxCost) +
                 ", or one that mustbe forbids because it reaches the limit");
    }
    return given;
  }

  void read_tuples(Function& function, const json& costs, const JsonPlace& place) {
    const std::size_t step = function.scope.size() + 1;
    if (costs.size() % step != 0) {
      place.fail("found " + std::to_string(costs.size()) + " items; valid: tuples of " +
                 std::to_string(step - 1) + " values and a cost");
    }
    for (std::size_t i = 0; i < costs.size(); i += step) {
      std::size_t index = 0;
      for (std::size_t d = 0; d + 1 < step; ++d) {
        const int variable = function.scope[d];
        const int taken = value(variable, costs[i + d], place.at(i + d));
        index =
            index * to_index(problem_.network.values(variable)) + static_cast<std::size_t>(taken);
      }
      function.costs[index] = cost(costs[i + step - 1], place.at(i + step - 1));
    }
  }

  int value(int variable, const json& given, const JsonPlace& place) const {
    if (given.is_number()) {
      return static_cast<int>(json_integer(given, place, 0, problem_.network.values(variable) - 1));
    }
    const int known = problem_.network.find_value(variable, json_text(given, place));
    if (known < 0) {
      place.fail("found " + describe_json(given) + ", which is not a value of \"" +
                 problem_.network.name(variable) +
                 "\"; valid: " + join(problem_.network.domain_names(variable)));
    }
    return known;
  }

  // A cost counts as forbidden if an assignment with it reaches the limit even if all other
  // functions cost their least.
  void add_functions() {
    double least = 0.0;
    for (const Function& function : functions_) least += function.least;
    std::map<std::pair<int, std::vector<double>>, int> tables;  // columns, costs
    for (Function& function : functions_) {
      for (double& each : function.costs) {
        // A cost above kMaxCost reaches the limit by itself.
        if (least - function.least + each >= problem_.below || each > CostNetwork::kMaxCost) {
          each = kForbidden;
        }
      }
      if (function.scope.empty()) {
        if (function.costs[0] < kForbidden) {
          problem_.network.add_constant(function.costs[0]);
        } else {
          problem_.below = -kForbidden;  // no assignment costs less
        }
      } else if (function.scope.size() == 1) {
        for (std::size_t x = 0; x < function.costs.size(); ++x) {
          problem_.network.add_cost(function.scope[0], static_cast<int>(x), function.costs[x]);
        }
      } else {
        const int columns = problem_.network.values(function.scope[1]);
        const auto [known, is_new] = tables.try_emplace({columns, std::move(function.costs)}, 0);
        if (is_new) {
          known->second = problem_.network.add_table(problem_.network.values(function.scope[0]),
                                                     columns, known->first.second);
        }
        problem_.network.add_edge(function.scope[0], function.scope[1], known->second);
      }
    }
  }

  static constexpr double kMostGiven = 1e300;  // the largest cost of a file, which is forbidden

  ObjectReader reader_;
  CfnProblem problem_;
  std::map<std::string, int> numbers_;
  std::map<std::vector<std::string>, int> domains_;
  std::map<std::string, std::size_t> shared_;
  std::vector<Function> functions_;
};

}  // namespace

std::string strict_cfn(std::string_view text) {
  constexpr std::string_view kEnds = "{}[],:\" \t\r\n";
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (text[i] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2U : 1U;
      end = std::min(end + 1, text.size());
      out += text.substr(i, end - i);
    } else if (kEnds.find(text[i]) != std::string_view::npos) {
      out += text[i];
    } else {
      while (end < text.size() && kEnds.find(text[end]) == std::string_view::npos) ++end;
      const std::string_view word = text.substr(i, end - i);
      if (is_number(word)) {
        out += word;
      } else {
        out += json(std::string(word)).dump(-1, ' ', false, json::error_handler_t::replace);
      }
    }
    i = end;
  }
  return out;
}

CfnProblem read_cfn(const json& document, const JsonPlace& place) {
  return Reader(document, place).read();
}

namespace {

// A name as toulbar2 reads it. It ends a name at white space and at the format's own marks, even
// within quotes, and refuses names that begin with a digit.
std::string name_for_toulbar2(std::string_view name) {
  std::string out;
  for (const char c : name) {
    constexpr std::string_view kMarks = ",[]{}:\"\\";
    constexpr std::string_view kInstead = ";()()=__";
    const std::size_t mark = kMarks.find(c);
    const bool is_blank = static_cast<unsigned char>(c) <= ' ';
    out += mark != std::string_view::npos ? kInstead[mark] : is_blank ? '_' : c;
  }
  const bool begins_well = !out.empty() && (out[0] < '0' || out[0] > '9');
  return begins_well ? out : "_" + out;
}

// The names as toulbar2 reads them, in order; names that would become equal are numbered.
std::vector<std::string> names_for_toulbar2(const std::vector<std::string>& names) {
  std::set<std::string> taken;
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const std::string wanted = name_for_toulbar2(name);
    std::string given = wanted;
    for (int i = 2; !taken.insert(given).second; ++i) given = wanted + "_" + std::to_string(i);
    out.push_back(std::move(given));
  }
  return out;
}

}  // namespace

std::string write_cfn(const CostNetwork& network, const std::string& name) {
  if (!network.budgets().empty()) {
    throw InputError("toulbar2's format can't express the network's budgets");
  }
  // A limit above the cost of every allowed assignment.
  double limit = 1.0 + std::abs(network.constant());
  const auto most = [](std::span<const double> costs) {
    double found = 0.0;
    for (const double cost : costs) {
      if (cost < kForbidden) found = std::max(found, std::abs(cost));
    }
    return found;
  };
  std::vector<double> of_table;
  for (const CostTable& table : network.tables()) of_table.push_back(most(table.costs));
  for (int v = 0; v < network.variables(); ++v) limit += most(network.costs(v));
  for (const CostEdge& edge : network.edges()) limit += of_table[to_index(edge.table)];
  limit = std::ceil(limit);
  const auto quoted = [](const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  const auto numbers = [&](std::span<const double> costs) {
    std::string out;
    for (const double cost : costs) {
      // Twice the limit is forbidden in any case, since negative costs elsewhere sum to less than
      // the limit.
      out += (out.empty() ? "" : ",") + format_fixed(cost < kForbidden ? cost : 2 * limit, kDigits);
    }
    return out;
  };
  std::vector<std::string> variables;
  for (int v = 0; v < network.variables(); ++v) variables.push_back(network.name(v));
  variables = names_for_toulbar2(variables);
  std::vector<std::vector<std::string>> values;
  for (const std::vector<std::string>& domain : network.domains()) {
    values.push_back(names_for_toulbar2(domain));
  }
  std::string out = "{\"problem\":{\"name\":" + quoted(name_for_toulbar2(name)) +
                    ",\"mustbe\":\"<" + format_fixed(limit, kDigits) + "\"},\n\"variables\":{";
  for (int v = 0; v < network.variables(); ++v) {
    out += (v == 0 ? "\n" : ",\n") + quoted(variables[to_index(v)]) + ":[";
    for (int x = 0; x < network.values(v); ++x) {
      out += (x == 0 ? "" : ",") + quoted(values[to_index(network.domain(v))][to_index(x)]);
    }
    out += "]";
  }
  out += "},\n\"functions\":{\n\"constant\":{\"scope\":[],\"costs\":[" +
         format_fixed(network.constant(), kDigits) + "]}";
  for (int v = 0; v < network.variables(); ++v) {
    out += ",\n\"v" + std::to_string(v) + "\":{\"scope\":[" + quoted(variables[to_index(v)]) +
           "],\"costs\":[" + numbers(network.costs(v)) + "]}";
  }
  std::vector<std::string> texts;
  for (const CostTable& table : network.tables()) texts.push_back(numbers(table.costs));
  for (std::size_t e = 0; e < network.edges().size(); ++e) {
    const CostEdge& edge = network.edges()[e];
    out += ",\n\"e" + std::to_string(e) + "\":{\"scope\":[" +
           quoted(variables[to_index(edge.first)]) + "," +
           quoted(variables[to_index(edge.second)]) + "],\"costs\":[" +
           texts[to_index(edge.table)] + "]}";
  }
  return out + "}}\n";
}

}  // namespace shardlab
