// shardlab solve-network: finds the cheapest assignment of a cost-function network, and proves that
// it is the cheapest.
#include "runner/solve/solve_network.h"

#include <memory>

#include "runner/commands/commands.h"

namespace shardlab {

void add_solve_network_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<SolveNetworkArguments>();
  const Command command = root.subcommand(
      "solve-network",
      "find the cheapest assignment of a cost-function network, and prove that it is\n"
      "  shardlab solve-network network.cfn --margins");
  command.option("file", arguments->file, "a network in toulbar2's JSON format (.cfn)").required();
  command.flag("--margins", arguments->margins,
               "say for each variable how much dearer the best assignment with another value is; "
               "also count the optima");
  command
      .option("--best", arguments->best,
              "print this many different assignments, the cheapest first")
      .check(integer_from(1, 100000))
      .show_default();
  add_common_options(command, session, {.jobs = true, .digits = true});
  command.runs([arguments, &session] { solve_network(*arguments, session); });
}

}  // namespace shardlab
