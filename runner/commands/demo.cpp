// shardlab demo: the report of a comparison that comes with shardlab.
#include <memory>
#include <string>

#include "costmodel/base/text.h"
#include "runner/base/terminal.h"
#include "runner/commands/commands.h"
#include "runner/commands/compare.h"

namespace shardlab {

// The comparison of the demo: a new release, on generated questions and on those that training
// programs ask. LLaMA3-8B was recorded from torchtitan and NeMo Automodel, and a mixture of experts
// from transformers (docs/suites.md).
void add_demo_command(const Command& root, Session& session) {
  const Command command = root.subcommand(
      "demo",
      "write the report of a comparison that comes with shardlab: PyTorch 2.13 with 2.15\n"
      "  shardlab demo --out demo/");
  auto out = std::make_shared<std::string>("shardlab-demo");
  command.option("--out", *out, "folder for report.html, report.md, report.json and record.json")
      .check(not_empty())
      .show_default();
  add_common_options(command, session, {.seed = true, .jobs = true, .sets = true});
  command.runs([out, &session] {
    session.out = *out;
    CompareArguments arguments;
    arguments.baseline = "dtensor-2.13";
    arguments.candidates = {"dtensor-2.15"};
    arguments.suites = {"ops-small", "torchtitan-llama3-8b-fsdp-tp", "nemo-llama3-8b-fsdp-sp",
                        "transformers-qwen3-30b-a3b-ep"};
    session.command_line = {"compare", "--baseline", arguments.baseline, "--candidate",
                            arguments.candidates[0]};
    for (const std::string& suite : arguments.suites) {
      session.command_line.insert(session.command_line.end(), {"--suite", suite});
    }
    for (const std::string& set : session.sets) {
      session.command_line.insert(session.command_line.end(), {"--set", set});
    }
    if (session.seed != 0) {
      session.command_line.insert(session.command_line.end(),
                                  {"--seed", std::to_string(session.seed)});
    }
    run_compare(arguments, session);
    if (!session.json() && session.interruption.empty()) {
      session.print(printable("the same: shardlab " + join(session.command_line, " ") + " --out " +
                              session.out) +
                    "\n");
    }
  });
}

}  // namespace shardlab
