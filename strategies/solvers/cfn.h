// Cost-function networks in toulbar2's JSON format (.cfn), read and written.
//
//   const CfnProblem problem = read_cfn(parse_json(strict_cfn(text), "x.cfn"), {"x.cfn", ""});
//   const std::string text = write_cfn(network, "x");
//
// The reader takes `problem` {name, mustbe}; `variables`, each with a number of values (named "0",
// "1", ...) or their names; `functions` over at most two variables, each {scope, costs,
// defaultcost}; they may also be an array, without names. Costs are a whole table, in which the
// last variable changes fastest; or, with defaultcost, tuples of values (names or numbers) that are
// each followed by their cost; or the name of another function, whose costs are shared. Variables
// are in the order of their names. `mustbe` is "<LIMIT": an assignment has to cost less than LIMIT.
// A cost above CostNetwork::kMaxCost is refused unless it reaches LIMIT, and is forbidden then.
// Maximisation, global functions and functions of three or more variables are refused, and so are
// comments, lists without commas and variables without names, which toulbar2 takes. toulbar2 rounds
// costs to the digits of `mustbe`; here they are kept as they are.
//
// Source: toulbar2 user guide, "File formats", CFN; and the files that toulbar2 1.1.1 writes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "costmodel/base/json_reader.h"
#include "strategies/solvers/network.h"

namespace shardlab {

struct CfnProblem {
  std::string name;
  CostNetwork network;
  double below = kForbidden;  // assignments have to cost less than this
};

// Puts quotes around names, which toulbar2 writes without quotes. Line numbers do not change.
[[nodiscard]] std::string strict_cfn(std::string_view text);
// Reads a problem. Throws ConfigError.
[[nodiscard]] CfnProblem read_cfn(const nlohmann::json& json, const JsonPlace& place);
// Writes costs with six digits after the point. Names are written as toulbar2 reads them: with a
// mark instead of white space and of what is part of the format ("RR<-RR,RR" becomes "RR<-RR;RR",
// "S(0)[1]R" becomes "S(0)(1)R"), with "_" before a digit, and numbered where two would be equal.
// Throws InputError if the network has budgets, which the format cannot express.
[[nodiscard]] std::string write_cfn(const CostNetwork& network, const std::string& name);

}  // namespace shardlab
