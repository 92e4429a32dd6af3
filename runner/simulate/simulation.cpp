#include "runner/simulate/simulation.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "costmodel/base/index.h"
#include "costmodel/measurements/chakra_json.h"
#include "reports/number_text.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/base/write_file.h"
#include "runner/evaluation/interval_text.h"
#include "runner/session/command.h"
#include "runner/session/layout_names.h"
#include "runner/session/run_reports.h"
#include "runner/simulate/pictured_run.h"
#include "runner/simulate/trace.h"
#include "sim/traffic.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

std::string moved_text(std::int64_t bytes) {
  return (bytes == kMostBytes ? "at least " : "") + reports::bytes_text(static_cast<double>(bytes));
}

}  // namespace
void SimulationArguments::add_options(const Command& command) {
  command
      .option("--data", data,
              "whether tensors hold data; off, which is the default for programs, simulates shapes "
              "only, and ranks that are alike only once, for up to 2^40 ranks")
      .check(one_of({"on", "off"}))
      .show_default();
  command
      .option("--values", values,
              "what the tensors hold: small whole numbers, whose sums are exact in every dtype, or "
              "numbers uniform in (-1,1), whose sums round")
      .check(one_of({"whole", "uniform"}))
      .show_default();
  command
      .option("--reduction", reduction, "the order in which a group's contributions are combined")
      .check(one_of<ReductionOrder>())
      .show_default();
  command.flag("--domains-first", domains_first, "combine the ranks of one NVLink domain first");
  command.option("--memory", memory, "the most bytes that tensor data, or clocks, may take")
      .show_default();
  command
      .option("--straggler", straggler,
              "what is slower than the stack's prices assume: " + std::string(kSlowdownForms))
      .show_default();
  command.flag(
      "--contention", contention,
      "collectives that run at once share the bandwidth of their links; without it each "
      "takes its price. A redistribution, an op and a program run their collectives one "
      "after the other on each rank, so that only ranks that differ (--straggler) or share "
      "a network interface can meet");
  replicas.add(command);
  command.option("--repetitions", repetitions, "number of runs of a random straggler model")
      .check(integer_from(1, 1000000))
      .show_default();
  command.option("--trace", trace,
                 "write a trace of the first repetition, in Chrome's format for ui.perfetto.dev. A "
                 "name that ends in .et asks for Chakra's format, one file NAME.RANK.et for each "
                 "rank, and .et.json for the same as JSON");
  command.option("--trace-ranks", trace_ranks, "the most ranks that the trace shows")
      .check(integer_from(1, 4096))
      .show_default();
}

Simulation::Simulation(const SimulationArguments& arguments, const DeviceMesh& mesh,
                       StackEvaluator& evaluator, const Session& session)
    : arguments_(arguments),
      mesh_(mesh),
      evaluator_(evaluator),
      session_(session),
      memory_(static_cast<std::int64_t>(parse_memory_option("--memory", arguments.memory))),
      slowdown_(parse_option("--straggler", [&] { return Slowdown::parse(arguments.straggler); })),
      doubted_(evaluator),
      replica_gate_(arguments.replicas, mesh, evaluator.topology()) {}

Executor Simulation::executor() const {
  return {mesh_,
          evaluator_.topology(),
          {.reduction = {.order = *from_name<ReductionOrder>(arguments_.reduction),
                         .domains_first = arguments_.domains_first},
           .memory_limit_bytes = memory_,
           .threads = session_.threads()}};
}

DataOptions Simulation::data() const {
  return {
      .seed = session_.seed,
      .values = arguments_.values == "uniform" ? DataValues::kUniform : DataValues::kWholeNumbers};
}

void Simulation::refuse(const std::string& reason) {
  refused_ = reason;
  if (reason.empty()) return;
  schedule_ = {};
  steps_.clear();
  notes_.clear();
  bytes_moved_ = 0;
}

void Simulation::note_kernels() {
  const Stack& stack = evaluator_.stack();
  if (stack.compute_model.entry->name != "none") return;
  unpriced_ = "the stack " + stack.name +
              " prices no kernels; --stack alpha-beta does, and so does this one with --set "
              "stack.compute_model=roofline";
}

bool Simulation::has_no_price() const {
  const auto takes_time = [](const Step& step) { return step.price_us && *step.price_us > 0.0; };
  const auto is_unpriced = [](const Step& step) { return !step.price_us; };
  return std::any_of(steps_.begin(), steps_.end(), is_unpriced) &&
         std::none_of(steps_.begin(), steps_.end(), takes_time);
}

void Simulation::judge(bool verified, double max_abs_error, const std::string& mismatch) {
  if (!verified && verified_) {
    verified_ = false;
    mismatch_ = mismatch;
  }
  max_abs_error_ = std::max(max_abs_error_, max_abs_error);
}

std::vector<int> Simulation::add(const Plan& plan, const ExecutionResult* result,
                                 std::vector<int> after, const nlohmann::json& place) {
  const auto first = static_cast<int>(std::ssize(schedule_.kernels));
  after = add_plan(schedule_, plan, std::move(after));
  const Redistributor& redistributor = evaluator_.on(mesh_);
  doubted_.add(plan, redistributor);
  const std::string node = place.contains("node") ? place["node"].get<std::string>() + ", " : "";
  replica_gate_.check(plan, place.contains("input")
                                ? node + "input " + std::to_string(place["input"].get<int>())
                                : std::string());
  Layout before = plan.start;
  // The executor stopped at the first step whose shapes are wrong.
  const std::size_t done = result != nullptr ? result->steps.size() : plan.steps.size();
  for (std::size_t i = 0; i < done; ++i) {
    const PlanStep& step = plan.steps[i];
    Step shown;
    shown.kernel = first + static_cast<int>(i);
    shown.name = std::string(to_string(step.collective));
    shown.change = LayoutNames(session_).change(step.from, step.to);
    shown.price_us = step.price.total.value();
    shown.interval = interval_of(step, redistributor, evaluator_.collective_model());
    shown.bytes_moved = result != nullptr ? result->steps[i].bytes_moved
                                          : shardlab::bytes_moved(step, before, plan.meta, mesh_);
    shown.json = place;
    shown.json.update(
        {{"collective", shown.name},
         {"mesh_dims", std::vector<int>(step.mesh_dims.begin(), step.mesh_dims.end())},
         {"from", step.from.text()},
         {"to", step.to.text()},
         {"after", step.after.text()},
         {"logical_shape",
          std::vector<std::int64_t>(step.logical_shape.begin(), step.logical_shape.end())},
         {"verified", nullptr}});
    if (result != nullptr) {
      shown.max_abs_error = result->steps[i].verification.max_abs_error;
      shown.json["verified"] = result->steps[i].verification.verified;
    }
    const bool was_counted = bytes_moved_ < kMostBytes;
    bytes_moved_ += std::min(shown.bytes_moved, kMostBytes - bytes_moved_);
    if (was_counted && bytes_moved_ == kMostBytes) {
      note(
          "the run moves at least as many bytes as bytes_moved says, 2^63 - 1, where the count "
          "ends");
    }
    before = step.after;
    steps_.push_back(std::move(shown));
  }
  if (result != nullptr) {
    judge(result->verified, result->max_abs_error, result->mismatch);
    notes_.insert(notes_.end(), result->notes.begin(), result->notes.end());
  }
  return after;
}

int Simulation::add(const std::string& op, double price_us, const OpExecution* result,
                    std::vector<int> after, const nlohmann::json& place) {
  ScheduledKernel kernel;
  kernel.name = op;
  kernel.price = Micros(price_us);
  kernel.after = std::move(after);
  Step shown;
  shown.kernel = schedule_.add(std::move(kernel));
  shown.name = op;
  if (unpriced_.empty()) shown.price_us = price_us;
  shown.json = place;
  shown.json.update({{"op", op}, {"collective", "local"}, {"verified", nullptr}});
  if (result != nullptr) {
    shown.json["verified"] = result->verified;
    shown.max_abs_error = result->max_abs_error;
    const std::string node =
        place.contains("node") ? place["node"].get<std::string>() + ": " : std::string();
    judge(result->verified, result->max_abs_error, node + op + ": " + result->mismatch);
  }
  steps_.push_back(std::move(shown));
  return steps_.back().kernel;
}

void Simulation::note_wall(double distribute_ms, double run_ms) {
  distribute_ms_ += distribute_ms;
  run_ms_ += run_ms;
}

SimulationOptions Simulation::clock_options() const {
  return {.slowdown = slowdown_,
          .seed = session_.seed,
          .repetitions = arguments_.repetitions,
          .threads = session_.threads(),
          .memory_limit_bytes = memory_,
          .contention = arguments_.contention};
}

std::optional<PriceInterval> Simulation::interval_of_time() const {
  const auto is_known = [](const Step& step) { return step.interval.has_value(); };
  if (has_no_price() || std::ranges::none_of(steps_, is_known)) return std::nullopt;
  const Simulator simulator(mesh_, evaluator_.topology(), clock_options());
  const auto us_at = [&](PriceBound bound) {
    return simulator
        .run(at_bound(schedule_, bound, evaluator_.on(mesh_), evaluator_.collective_model()))
        .time_us.p50;
  };
  return PriceInterval{us_at(PriceBound::kLow), us_at(PriceBound::kHigh)};
}

void Simulation::run_clocks(const std::string& title, bool tells_waits) {
  const StopWatch watch;
  SimulationOptions options = clock_options();
  if (!arguments_.trace.empty()) {
    options.traced_ranks = traced_ranks(schedule_, arguments_.trace_ranks);
  }
  options.tells_waits = tells_waits;
  time_ = Simulator(mesh_, evaluator_.topology(), options).run(schedule_);
  time_interval_ = interval_of_time();
  clock_ms_ = watch.ms();
  if (arguments_.trace.empty()) return;
  const std::filesystem::path path(arguments_.trace);
  const bool is_json = arguments_.trace.ends_with(".et.json");
  if (is_json || path.extension() == ".et") {
    const std::string_view ending = is_json ? ".et.json" : ".et";
    const std::string stem = arguments_.trace.substr(0, arguments_.trace.size() - ending.size());
    for (const auto& [rank, trace] :
         chakra_traces(mesh_, evaluator_.topology(), schedule_, time_.timeline)) {
      write_file(stem + "." + std::to_string(rank) + std::string(ending),
                 is_json ? chakra_json_text(trace) : chakra_wire_text(trace));
    }
    return;
  }
  expect_no_input("--trace", path);
  write_file(path, [&](std::ostream& out) {
    write_trace(out, title, mesh_, evaluator_.topology(), schedule_, time_.timeline);
  });
}

nlohmann::json Simulation::quantiles_json(const Quantiles& quantiles) const {
  if (is_refused() || has_no_price()) return {{"p50", nullptr}, {"p95", nullptr}, {"max", nullptr}};
  return {{"p50", quantiles.p50}, {"p95", quantiles.p95}, {"max", quantiles.max}};
}

nlohmann::json Simulation::json(nlohmann::json document) const {
  nlohmann::json steps = nlohmann::json::array();
  for (const Step& step : steps_) {
    const KernelTimes& times = time_.kernels[to_index(step.kernel)];
    steps.push_back(step.json);
    steps.back().update(
        {{"price_us", step.price_us ? finite_or_null(*step.price_us) : nlohmann::json(nullptr)},
         {"end_us", quantiles_json(times.end_us)},
         {"wait_us", times.wait_us},
         {"bytes_moved", step.bytes_moved},
         {"max_abs_error",
          step.max_abs_error ? finite_or_null(*step.max_abs_error) : nlohmann::json(nullptr)}});
    add_interval(steps.back(), step.interval);
  }
  const bool judged = has_data() && !is_refused();
  const auto if_judged = [&](const nlohmann::json& value) {
    return judged ? value : nlohmann::json(nullptr);
  };
  document.update({{"mesh", mesh_.text()},
                   {"ranks", mesh_.size()},
                   {"data", has_data()},
                   {"verified", is_refused() ? nlohmann::json(false) : if_judged(verified_)},
                   {"mismatch", text_or_null(mismatch_)},
                   {"max_abs_error", if_judged(finite_or_null(max_abs_error_))},
                   {"replicas_bitwise_equal", if_judged(replicas_equal_)},
                   {"refused", text_or_null(refused_)},
                   {"unpriced", text_or_null(is_refused() ? "" : unpriced_)},
                   {"straggler", slowdown_.text()},
                   {"repetitions", time_.repetitions},
                   {"simulated_ranks", time_.simulated_ranks},
                   {"events", time_.events},
                   {"time_us", quantiles_json(time_.time_us)},
                   {"bytes_moved", bytes_moved_},
                   {"steps", steps},
                   {"notes", notes_}});
  add_interval(document, time_interval_);
  doubted_.add_to(document);
  replica_gate_.add_to(document);
  if (arguments_.contention) document["contention"] = true;
  if (!session_.no_timing) {
    document["timing"] = {{"wall_ms", distribute_ms_ + run_ms_ + clock_ms_},
                          {"distribute_ms", distribute_ms_},
                          {"run_ms", run_ms_},
                          {"clock_ms", clock_ms_}};
  }
  return document;
}

std::string Simulation::table() const {
  const bool waits = time_.simulated_ranks > 1;
  // With a straggler or contention a step takes longer than its price, so the table also shows when
  // the step ends.
  const bool is_slowed = arguments_.straggler != "none" || arguments_.contention;
  const bool has_ops = std::any_of(steps_.begin(), steps_.end(),
                                   [](const Step& step) { return step.json.contains("op"); });
  std::vector<std::string> header = {"step", has_ops ? "kernel" : "collective", "change", "moved",
                                     is_slowed ? "price us" : "us"};
  if (is_slowed) header.emplace_back("done at us");
  if (waits) header.emplace_back("waited");
  if (has_data()) header.emplace_back("largest error");
  const TextStyle style = session_.style();
  TextTable table(style, header);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const std::string node =
        step.json.contains("node") ? step.json["node"].get<std::string>() + ": " : "";
    std::vector<std::string> row = {std::to_string(i + 1), node + step.name, step.change,
                                    moved_text(step.bytes_moved), style.figure(step.price_us, "-")};
    const KernelTimes& times = time_.kernels[to_index(step.kernel)];
    if (is_slowed) row.push_back(style.figure(times.end_us.p50));
    if (waits) row.push_back(style.figure(times.wait_us));
    if (has_data()) row.push_back(style.figure(step.max_abs_error.value_or(0.0)));
    table.add(row);
  }
  return steps_.empty() ? "" : table.text();
}

std::string Simulation::text(const std::string& title) const {
  const TextStyle style = session_.style();
  if (is_refused()) {
    return title + "  " + style.painted(Tone::kBad, "refused:") + " " + printable(refused_) + "\n";
  }
  std::string out = title + "  " + std::to_string(mesh_.size()) + " ranks: ";
  if (!has_data()) {
    out += "shapes only, no data\n";
  } else {
    out += (verified_ ? style.painted(Tone::kGood, "every element is right")
                      : style.painted(Tone::kBad, "WRONG:") + " " + mismatch_) +
           (verified_ ? ", largest rounding error " : ", largest error ") +
           style.figure(max_abs_error_) + "; replicas are " +
           (replicas_equal_ ? "bitwise equal" : style.painted(Tone::kBad, "NOT bitwise equal")) +
           "\n";
  }
  out += table() + (has_no_price() ? "  nothing is timed"
                                   : "  done after " + style.figure(time_.time_us.p50) + " us");
  if (time_.repetitions > 1 && !has_no_price()) {
    out += " (p50; p95 " + style.figure(time_.time_us.p95) + ", max " +
           style.figure(time_.time_us.max) + ", of " + std::to_string(time_.repetitions) +
           " repetitions with " + slowdown_.text() + ")";
  }
  out += interval_text(time_interval_, style);
  const auto moved = static_cast<double>(bytes_moved_);
  out += ", " + moved_text(bytes_moved_) + " moved\n";
  if (!unpriced_.empty() && !steps_.empty()) {
    out += std::string("  ") + (has_no_price() ? "" : "the time is that of communication alone: ") +
           unpriced_ + "\n";
  }
  for (const std::string& note : notes_) out += "  note: " + printable(note) + "\n";
  out += doubted_.text() + replica_gate_.text();
  if (session_.no_timing) return out;
  if (!has_data()) {
    return out + "  simulated in " + style.rounded(clock_ms_, 1) + " ms, " +
           std::to_string(time_.simulated_ranks) + " of " + std::to_string(mesh_.size()) +
           " ranks with a clock of their own\n";
  }
  return out + "  simulated in " + style.rounded(run_ms_, 1) + " ms, " +
         style.rounded(moved / 1e6 / run_ms_, 2) + " GB/s moved and verified\n";
}

nlohmann::json Simulation::pictured_timeline() const {
  const std::vector<PicturedRank> ranks = ranks_to_draw(time_.waits);
  if (ranks.empty() || has_no_price() || steps_.empty()) return nlohmann::json::array();
  // The first repetition once more, now that it is known which ranks to draw.
  SimulationOptions options = clock_options();
  options.repetitions = 1;
  options.threads = 1;
  for (const PicturedRank& rank : ranks) options.shown_ranks.push_back(rank.index);
  const SimulationResult run = Simulator(mesh_, evaluator_.topology(), options).run(schedule_);
  std::vector<std::string> labels;
  for (const ScheduledKernel& kernel : schedule_.kernels) labels.push_back(kernel.name);
  for (const Step& step : steps_) {
    if (!step.change.empty()) labels[to_index(step.kernel)] += " " + step.change;
    if (!step.json.contains("node")) continue;
    labels[to_index(step.kernel)] += " for " + step.json["node"].get<std::string>();
  }
  return timeline_json(ranks, schedule_, labels, run.timeline, mesh_, evaluator_.topology());
}

void Simulation::write_reports() const {
  const nlohmann::json printed = json(nlohmann::json::object());
  nlohmann::json result = {
      {"what", what_}, {"stack", evaluator_.stack().name}, {"steps", nlohmann::json::array()}};
  for (const char* key : {"mesh", "ranks", "data", "verified", "mismatch", "replicas_bitwise_equal",
                          "refused", "unpriced", "straggler", "time_us", "bytes_moved", "notes"}) {
    result[key] = printed.at(key);
  }
  add_interval(result, time_interval_);
  for (const std::string& line : doubted_.lines()) result["notes"].push_back(line);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const nlohmann::json& step = printed.at("steps").at(i);
    nlohmann::json shown = {{"node", step.contains("node") ? step["node"] : nlohmann::json("")},
                            {"name", steps_[i].name},
                            {"change", steps_[i].change}};
    for (const char* key : {"price_us", "end_us", "wait_us", "bytes_moved", "max_abs_error"}) {
      shown[key] = step.at(key);
    }
    add_interval(shown, steps_[i].interval);
    result["steps"].push_back(std::move(shown));
  }
  result["timeline"] = pictured_timeline();
  result["hosts"] = hosts_json(mesh_, evaluator_.topology());
  reports::RunHeader header = header_of(session_);
  header.configuration.topology = evaluator_.topology().to_json();
  header.configuration.stacks = {evaluator_.stack().to_json()};
  write_run(session_, {.kind = reports::kSimulateKind,
                       .header = std::move(header),
                       .result = std::move(result),
                       .wall_ms = distribute_ms_ + run_ms_ + clock_ms_});
}

void Simulation::finish(nlohmann::json document, const std::string& title, Session& session) {
  if (!is_refused()) run_clocks(title.substr(0, title.find('\n')), writes_report(session));
  if (writes_report(session)) write_reports();
  if (session.json()) {
    session.print(json(std::move(document)));
  } else if (!session.summary) {
    session.print(text(title) + report_line(session));
  }
  if (is_refused() || (has_data() && !verified_) || replica_gate_.says_no())
    session.exit_code = kGateSaidNo;
}

}  // namespace shardlab
