#include "runner/evaluation/scoreboard_decisions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/parallel.h"
#include "costmodel/base/text.h"
#include "costmodel/calibrate/calibration.h"
#include "costmodel/calibrate/population_calibration.h"
#include "reports/statistics.h"
#include "runner/config/configs.h"
#include "runner/evaluation/observations.h"
#include "runner/evaluation/scoreboard.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

constexpr std::string_view kSuites[] = {"ops-full", "llama3-8b-tp", "llama3-8b-fsdp-tp"};
constexpr double kReach = 2.0;
constexpr Bytes kSmall = 16384;
constexpr double kDearerPercent = 1.0;

constexpr std::pair<Collective, std::string_view> kShortNames[] = {
    {Collective::kAllGather, "AG"}, {Collective::kReduceScatter, "RS"},
    {Collective::kAllReduce, "AR"}, {Collective::kAllToAll, "A2A"},
    {Collective::kBroadcast, "BC"}, {Collective::kSendRecv, "SR"},
};

using RankCounts = std::set<std::pair<std::int64_t, std::int64_t>>;  // ranks, hosts

// One family of hardware: its sets, and the stacks made from them.
struct System {
  std::string name;
  std::vector<MeasurementSet> sets;
  Topology topology;
  RankCounts groups;
};

Topology widest_topology(const ConfigStore& store, std::span<const MeasurementSet> sets) {
  const auto widest = std::max_element(sets.begin(), sets.end(),
                                       [](const MeasurementSet& a, const MeasurementSet& b) {
                                         return a.gpus_per_host < b.gpus_per_host;
                                       });
  return topology_for(store, "", *widest).topology;
}

std::vector<System> systems_of(const ConfigStore& store, std::span<const MeasurementSet> sets) {
  std::vector<System> systems;
  for (const MeasurementSet& set : sets) {
    const std::string family = measurement_family(set);
    auto it = std::find_if(systems.begin(), systems.end(),
                           [&](const System& system) { return system.name == family; });
    if (it == systems.end()) {
      it = systems.insert(it, {.name = family,
                               .sets = {},
                               .topology = topology_for(store, "", set).topology,
                               .groups = {}});
    }
    it->sets.push_back(set);
  }
  for (System& system : systems) {
    system.topology = widest_topology(store, system.sets);
    for (const Observation& row : observations_of(system.sets, system.topology).rows) {
      system.groups.insert({row.query.group.ranks, row.query.group.hosts});
    }
  }
  return systems;
}

// The rows of the model `table`. Several measured rows for the same query become one row with their
// geometric mean.
nlohmann::json table_rows(const System& system) {
  struct Sum {
    double logs = 0.0;
    int rows = 0;
  };
  std::map<std::tuple<Collective, std::int64_t, std::int64_t>, std::map<Bytes, Sum>> times;
  for (const Observation& row : observations_of(system.sets, system.topology).rows) {
    Sum& sum =
        times[{row.query.kind, row.query.group.ranks, row.query.group.hosts}][row.query.full_bytes];
    sum.logs += std::log(row.time_us);
    ++sum.rows;
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [group, curve] : times) {
    const auto add = [&, key = group](Bytes bytes, const Sum& sum) {
      rows.push_back({{"collective", to_string(std::get<0>(key))},
                      {"ranks", std::get<1>(key)},
                      {"hosts", std::get<2>(key)},
                      {"bytes", bytes},
                      {"time_us", std::exp(sum.logs / sum.rows)}});
    };
    const auto& [smallest, first] = *curve.begin();
    if (smallest > 0 && smallest <= kSmall) add(0, first);
    for (const auto& [bytes, sum] : curve) add(bytes, sum);
  }
  return rows;
}

// A stack that differs from alpha-beta only by its collective model.
Stack with_model(const ConfigStore& store, std::string name, ModelChoice model) {
  Stack stack = store.stack("alpha-beta");
  stack.name = std::move(name);
  stack.collective_model = std::move(model);
  return stack;
}

// The sources of a family's sets.
std::vector<std::string> sources_of(const System& system) {
  std::set<std::string> sources;
  for (const MeasurementSet& set : system.sets) sources.insert(source_of(set));
  return {sources.begin(), sources.end()};
}

bool is_in_population(const System& system) {
  return shardlab::is_in_population(system.sets.front());
}

// The choice as it prices what the family measured: if all logs that say it were launched by one
// process a host, then the rows are for such a process, rather than for one process a GPU.
ModelChoice as_launched(const System& system, ModelChoice choice) {
  bool shared = false;
  for (const MeasurementSet& set : system.sets) {
    if (set.gpus_per_process == 1) return choice;
    shared = shared || set.gpus_per_process > 1;
  }
  if (!shared) return choice;
  for (nlohmann::json& row : choice.rows) {
    if (!row.contains("by_launch")) continue;
    const double per_host = row["ranks"].get<double>() / row["domains"].get<double>();
    row["by_launch"][0] = row["by_launch"][0].get<double>() - std::log(per_host);
  }
  return choice;
}

// What `calibrate` fits to six sizes of each set, as in the protocol of held-out sizes.
ModelChoice calibrated(const System& system, const PopulationPriors* priors) {
  std::vector<MeasurementSet> parts;
  for (const MeasurementSet& set : system.sets) parts.push_back(sparse_rows(set));
  const std::vector<Observation> rows = observations_of(parts, system.topology).rows;
  if (priors == nullptr || !is_in_population(system)) {
    return calibrate(*find_cost_model("piecewise"), rows, system.topology).choice();
  }
  const PopulationFit fit = priors->without(sources_of(system));
  const PopulationSystem gpu{gpu_model(system.sets.front().gpu), system.topology};
  const bool errors = false;  // only the times decide
  return as_launched(system, calibrate_population(fit, gpu, rows, errors).choice());
}

// The general stack of the family's GPU, without the logs of the family's sources.
ModelChoice general(const System& system, const PopulationPriors& priors) {
  const PopulationFit fit = priors.without(sources_of(system));
  const PopulationSystem gpu{gpu_model(system.sets.front().gpu), system.topology};
  const PopulationTable table{.other_networks = false, .errors = false};
  return as_launched(system, calibrate_for_any_cluster(fit, gpu, table).choice());
}

bool is_measured(const DeviceMesh& mesh, const System& system) {
  for (int dim = 0; dim < mesh.ndim(); ++dim) {
    const GroupSpan span = mesh.span(dim, system.topology);
    if (span.ranks > 1 && !system.groups.contains({span.ranks, span.hosts})) return false;
  }
  return true;
}

// The regret of each stack in percent; empty if the question does not count.
std::vector<double> regrets(const QuestionResult& result) {
  if (!result.error.empty() || !result.best.us || !(*result.best.us > 0.0)) return {};
  std::vector<double> out;
  std::set<double> times;
  bool moves = false;
  for (const Answer& answer : result.answers) {
    if (!answer.reference_us) return {};
    moves = moves || answer.moving_steps > 0;
    out.push_back(100 * (*answer.reference_us / *result.best.us - 1));
    times.insert(*answer.reference_us);
    for (const double us : answer.reference_totals) {
      if (std::isfinite(us)) times.insert(us);
    }
  }
  return moves && times.size() > 1 ? out : std::vector<double>{};
}

// "AG RS AR A2A": the collectives that were measured in one of `groups`.
std::string measured_collectives(const System& system, const RankCounts& groups) {
  std::set<Collective> kinds;
  for (const Observation& row : observations_of(system.sets, system.topology).rows) {
    if (groups.contains({row.query.group.ranks, row.query.group.hosts})) {
      kinds.insert(row.query.kind);
    }
  }
  std::string text;
  for (const auto& [kind, name] : kShortNames) {
    if (kinds.contains(kind)) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text;
}

SystemScores score_system(const System& system, const ConfigStore& store,
                          const PopulationPriors* priors, std::span<const Question> questions,
                          int threads) {
  SystemScores scores{
      .system = system.name, .groups = {}, .collectives = {}, .questions = {}, .stacks = {}};
  const Stack reference = with_model(store, "measured",
                                     {.entry = find_cost_model("table"),
                                      .params = {{"reach", kReach}},
                                      .rows = table_rows(system),
                                      .place = {}});
  std::vector<Stack> stacks;
  for (const std::string_view name : kScoredStacks) {
    stacks.push_back(store.stack(std::string(name)));
    stacks.back().rules = reference.rules;
  }
  stacks.push_back(with_model(store, std::string(kCalibratedStack), calibrated(system, priors)));
  if (priors != nullptr) {
    scores.is_in_population = is_in_population(system);
    stacks.push_back(with_model(store, std::string(kGeneralStack),
                                scores.is_in_population
                                    ? general(system, *priors)
                                    : store.stack("alpha-beta").collective_model));
  }
  std::vector<const Question*> asked;
  for (const Question& question : questions) {
    if (is_measured(question.mesh, system)) asked.push_back(&question);
  }
  std::vector<std::vector<double>> found(asked.size());
  parallel_for(
      asked.size(), threads,
      [&] { return std::make_unique<Questionnaire>(stacks, reference, system.topology); },
      [&](Questionnaire& questionnaire, std::size_t i) {
        found[i] = regrets(questionnaire.ask(*asked[i]));
      });
  for (const Stack& stack : stacks) scores.stacks.push_back({stack.name, {}});
  RankCounts groups;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (found[i].empty()) continue;
    scores.questions.push_back(asked[i]->id);
    for (std::size_t s = 0; s < stacks.size(); ++s) {
      scores.stacks[s].regret_percent.push_back(found[i][s]);
    }
    for (int dim = 0; dim < asked[i]->mesh.ndim(); ++dim) {
      const GroupSpan span = asked[i]->mesh.span(dim, system.topology);
      if (span.ranks > 1) groups.insert({span.ranks, span.hosts});
    }
  }
  for (const auto& [ranks, hosts] : groups) {
    scores.groups +=
        (scores.groups.empty() ? "" : " ") + std::to_string(ranks) + "x" + std::to_string(hosts);
  }
  scores.collectives = measured_collectives(system, groups);
  return scores;
}

struct Summary {
  std::size_t dearer = 0;
  double mean = 0.0;
  double p99 = 0.0;
  double max = 0.0;
};
Summary summary_of(std::span<const double> regrets) {
  Summary out;
  for (const double regret : regrets) {
    out.mean += regret / static_cast<double>(regrets.size());
    out.max = std::max(out.max, regret);
    out.dearer += regret > kDearerPercent ? 1 : 0;
  }
  out.p99 = reports::percentile(regrets, 0.99).value_or(0.0);
  return out;
}

// The question with the largest regret, and its family of hardware.
std::string worst_of(std::span<const SystemScores> systems, std::size_t stack) {
  std::string where;
  double worst = 0.0;
  for (const SystemScores& system : systems) {
    const std::vector<double>& regrets = system.stacks[stack].regret_percent;
    for (std::size_t i = 0; i < regrets.size(); ++i) {
      if (!(regrets[i] > worst)) continue;
      worst = regrets[i];
      where = "`" + system.questions[i] + "` on " + system.system + ", " + system.groups;
    }
  }
  return where;
}

std::string summary_table(std::span<const SystemScores> systems) {
  std::string text =
      "| stack | dearer | mean | p99 | max | where |\n| --- | ---: | ---: | ---: | ---: | --- |\n";
  for (std::size_t s = 0; s < systems.front().stacks.size(); ++s) {
    std::vector<double> all;
    for (const SystemScores& system : systems) {
      const std::vector<double>& regrets = system.stacks[s].regret_percent;
      all.insert(all.end(), regrets.begin(), regrets.end());
    }
    const Summary sum = summary_of(all);
    text += "| " + systems.front().stacks[s].stack + " | " + std::to_string(sum.dearer) + " | " +
            format_fixed(sum.mean, 2) + " | " + format_fixed(sum.p99, 1) + " | " +
            format_fixed(sum.max, 1) + " | " + worst_of(systems, s) + " |\n";
  }
  return text;
}

}  // namespace

std::vector<SystemScores> score_decisions(const ConfigStore& store,
                                          std::span<const MeasurementSet> sets,
                                          const PopulationPriors* priors, int threads) {
  std::vector<Question> questions;
  for (const std::string_view name : kSuites) {
    const Suite suite = store.suite(std::string(name));
    questions.insert(questions.end(), suite.questions.begin(), suite.questions.end());
  }
  std::vector<SystemScores> out;
  for (const System& system : systems_of(store, sets)) {
    try {
      SystemScores scores = score_system(system, store, priors, questions, threads);
      if (!scores.questions.empty()) out.push_back(std::move(scores));
    } catch (const InputError&) {
      continue;  // six rows of each set make no curve, so no calibrated stack can be judged
    }
  }
  return out;
}

std::string decisions_text(std::span<const SystemScores> systems) {
  std::size_t questions = 0;
  for (const SystemScores& system : systems) questions += system.questions.size();
  std::string text =
      "\n"
      "## Decisions\n"
      "\n"
      "The regret of a stack's choice is the measured time of the choice over that of the best "
      "one, minus 1, in percent. It is\n"
      "taken over the questions of `ops-full`, `llama3-8b-tp` and `llama3-8b-fsdp-tp` that all "
      "rows of a family of hardware can\n"
      "price (`runner/evaluation/scoreboard_decisions.h` has the rules). No stack may choose a "
      "collective that the family has not\n"
      "measured, so where few collectives are measured, few mistakes can be made. All stacks "
      "choose among the candidates of\n"
      "`dtensor-2.13`. `calibrated` is `alpha-beta` with what `calibrate` fits to six sizes of "
      "each set, and\n"
      "`calibrated, no rows` what it fits to the logs of other sources alone (alpha-beta for GPUs "
      "without such logs). Kernels\n"
      "are priced by the roofline; they are not measured.\n"
      "\n" +
      std::to_string(questions) + " questions on " + std::to_string(systems.size()) +
      " families. A choice more than 1 % above the best one counts as dearer.\n";
  if (systems.empty()) return text;
  text += "\n" + summary_table(systems);
  std::vector<SystemScores> in_population;
  std::size_t fewer = 0;
  for (const SystemScores& system : systems) {
    if (!system.is_in_population) continue;
    in_population.push_back(system);
    fewer += system.questions.size();
  }
  if (!in_population.empty() && in_population.size() < systems.size()) {
    text += "\nThe same over the " + std::to_string(fewer) + " questions on the " +
            std::to_string(in_population.size()) +
            " families whose GPU a shipped stack prices:\n\n" + summary_table(in_population);
  }
  const std::size_t stacks = systems.front().stacks.size();
  text +=
      "\nThe same by family: the mean regret and, in brackets, how many choices are dearer. Groups "
      "are written as ranks x hosts.\n\n| family | groups | measured | questions |";
  for (std::size_t s = 0; s < stacks; ++s) text += " " + systems.front().stacks[s].stack + " |";
  text += "\n| --- | --- | --- | ---: |";
  for (std::size_t s = 0; s < stacks; ++s) text += " ---: |";
  text += "\n";
  for (const SystemScores& system : systems) {
    text += "| " + system.system + " | " + system.groups + " | " + system.collectives + " | " +
            std::to_string(system.questions.size()) + " |";
    for (const StackDecisions& stack : system.stacks) {
      const Summary sum = summary_of(stack.regret_percent);
      text += " " + format_fixed(sum.mean, 2) + " (" + std::to_string(sum.dearer) + ") |";
    }
    text += "\n";
  }
  return text;
}

}  // namespace shardlab
