// shardlab sweep: answers the questions of an experiment and writes each row as soon as it is done.
// The work can be split over machines, and resumed.
#include "runner/evaluation/sweep.h"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "costmodel/base/printable.h"
#include "runner/base/env.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/launch/place.h"
#include "runner/session/long_loop.h"

namespace shardlab {
namespace {

struct SweepArguments {
  std::string experiment;
  std::string part;
  bool resume = false;
  std::optional<CommandOption> seed;  // --seed, which replaces the experiment's seed
};

// The part to run: the one of --part, else the one of the launcher's rank, else the whole
// experiment as one part.
SweepPart part_of(const SweepArguments& arguments, bool& launched) {
  launched = false;
  if (!arguments.part.empty()) return SweepPart::parse(arguments.part);
  const std::optional<LaunchPlace> place = find_rank(read_env);
  if (!place) return {};
  launched = true;
  return SweepPart::parse(std::to_string(place->rank + 1) + "/" + std::to_string(place->world));
}

std::string summary_text(const nlohmann::json& summary, const TextStyle& style) {
  TextTable table(style, {"topology", "suite", "stack", "questions", "flips", "ties",
                          "order dependent", "mean regret %"});
  for (const nlohmann::json& row : summary) {
    const nlohmann::json& regret = row["mean_regret_percent"];
    const auto count = [&](const char* key) { return row[key].is_null() ? "-" : row[key].dump(); };
    table.add({row["topology"], row["suite"], row["stack"], row["questions"].dump(),
               row["flips"].dump(), count("ties"), count("order_dependent"),
               regret.is_null() ? "-" : style.rounded(regret.get<double>(), 2)});
  }
  std::string text = table.text() + "  flips: choices that differ from those of " +
                     printable(summary[0]["stack"].get<std::string>()) + "\n";
  // All stacks of a suite on a topology leave out the same questions.
  const nlohmann::json* last = nullptr;
  for (const nlohmann::json& row : summary) {
    const bool is_same = last != nullptr && (*last)["topology"] == row["topology"] &&
                         (*last)["suite"] == row["suite"];
    last = &row;
    if (is_same || !row.contains("not_asked")) continue;
    const auto count = row["not_asked"].get<std::int64_t>();
    text += "  " + printable(row["suite"].get<std::string>()) + " on " +
            printable(row["topology"].get<std::string>()) + ": " + std::to_string(count) +
            (count == 1 ? " question was not asked, " : " questions were not asked, the first ") +
            printable(row["first_not_asked"].get<std::string>()) + "\n";
  }
  return text;
}

void run_sweep(const SweepArguments& arguments, Session& session) {
  const auto start = std::chrono::steady_clock::now();
  bool launched = false;
  const SweepPart part = part_of(arguments, launched);
  if (arguments.seed->is_given()) {
    session.sets.push_back("experiment.seed=" + std::to_string(session.seed));
  }
  const Experiment experiment = Experiment::read(session.experiment_store(), arguments.experiment);
  std::vector<const Question*> to_ask;
  for (const Suite& suite : experiment.suites) {
    for (const Question& question : suite.questions) to_ask.push_back(&question);
  }
  for (const Topology& topology : experiment.topologies) {
    session.prepare(experiment.stacks, to_ask, topology);
    session.prepare({&experiment.reference, 1}, to_ask, topology);
  }
  Sweep sweep(experiment, session.out, part);
  const bool was_merged = sweep.is_merged();
  std::size_t resumed = 0;
  {
    LongLoop loop(session, "rows", sweep.rows(), session.quiet || (launched && part.part > 0));
    bool first = true;
    const auto advance = [&](std::size_t rows) {
      if (first) {
        loop.skip(rows);
        first = false;
      } else {
        loop.advance(rows);
      }
    };
    resumed = sweep.run(session.threads(), arguments.resume, advance, loop.stop());
  }
  const Sweep::Merge merge = sweep.merge();
  const bool merged = merge != Sweep::Merge::kPartsMissing;
  // If a launcher started several processes, only one of them prints: the one that merged the
  // parts, or the first if the parts were merged already.
  const bool speaks = merge == Sweep::Merge::kMade || (merged && was_merged && part.part == 0);
  if (launched && !speaks) return;
  nlohmann::json json = {{"experiment", experiment.name},
                         {"part", part.part + 1},
                         {"parts", part.parts},
                         {"rows", sweep.rows()},
                         {"resumed_rows", resumed},
                         {"complete", merged},
                         {"results", nullptr},
                         {"summary", nullptr}};
  if (merged) {
    json["results"] = sweep.results().string();
    json["summary"] = sweep.summary();
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  if (!session.no_timing) json["timing"] = {{"wall_ms", wall.count() * 1e3}};
  if (session.json()) {
    session.print(json);
    return;
  }
  std::string text = printable(experiment.name) + ": " + std::to_string(sweep.rows()) + " rows";
  if (part.parts > 1) {
    text += " of part " + std::to_string(part.part + 1) + " of " + std::to_string(part.parts);
  }
  if (resumed > 0) text += ", " + std::to_string(resumed) + " of them from an earlier run";
  if (merged) {
    text += ", all in " + printable(sweep.results().string()) + "\n" +
            summary_text(json["summary"], session.style());
  } else {
    text += session.interruption.empty() ? "; other parts are not complete yet\n"
                                         : "; --resume goes on where this run ended\n";
  }
  session.print(text);
}

}  // namespace

void add_sweep_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<SweepArguments>();
  const Command command = root.subcommand(
      "sweep",
      "answer an experiment's questions (suites x stacks x topologies), row by row\n"
      "  shardlab sweep history --out sweep/\n"
      "  mpirun -np 4 shardlab sweep history --out sweep/     one part per process; also under "
      "srun\n"
      "  shardlab sweep history --out sweep/ --part 2/4       one of four parts, for a job array");
  command.option("experiment", arguments->experiment, "shipped name or path").required();
  command
      .option("--out", session.out,
              "folder for part-I-of-N.jsonl and, once all are complete, results.jsonl")
      .required()
      .check(not_empty());
  command.option("--part", arguments->part, "I/N: the I-th of N parts");
  command.flag("--resume", arguments->resume, "go on where an earlier run of this part ended");
  add_common_options(command, session, {.seed = true, .jobs = true, .sets = true, .digits = true});
  arguments->seed = command.declared("--seed");
  command.runs([arguments, &session] { run_sweep(*arguments, session); });
}

}  // namespace shardlab
