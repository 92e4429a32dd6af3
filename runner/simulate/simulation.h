// Collects what `simulate` shows of a run on the fake process group. Steps are added one after the
// other. It notes whether their data is right, computes their times, and prints both as JSON or
// text. A redistribution is one plan; an op is a plan for each input and a kernel; a program is
// many ops.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/evaluation/doubted_prices.h"
#include "runner/evaluation/replica_gate.h"
#include "runner/session/session.h"
#include "sim/executor.h"
#include "sim/price_interval.h"
#include "sim/simulator.h"
#include "strategies/proof/op_execution.h"
#include "strategies/select/evaluator.h"

namespace shardlab {

struct SimulationArguments {
  std::string data = "on";
  std::string values = "whole";
  std::string reduction = "ring";
  bool domains_first = false;
  std::string memory = "8GiB";
  std::string straggler = "none";
  int repetitions = 100;
  bool contention = false;
  std::string trace;
  std::int64_t trace_ranks = 64;
  ReplicaGateOption replicas;

  void add_options(const Command& command);
};

class Simulation {
 public:
  // Keeps references. Throws TextError if an option can't be parsed.
  Simulation(const SimulationArguments& arguments, const DeviceMesh& mesh,
             StackEvaluator& evaluator, const Session& session);

  [[nodiscard]] bool has_data() const { return arguments_.data == "on"; }
  [[nodiscard]] const DeviceMesh& mesh() const { return mesh_; }
  [[nodiscard]] Executor executor() const;
  [[nodiscard]] DataOptions data() const;

  // Notes why nothing runs, and removes all steps that were added before. An empty reason changes
  // nothing.
  void refuse(const std::string& reason);
  [[nodiscard]] bool is_refused() const { return !refused_.empty(); }

  // Adds the steps of a plan that starts once the kernels `after` are done. `result` is the
  // executor's result for the plan, or null if there is no data. The keys of `place` (input, node)
  // are added to each step's JSON. Returns the kernels that a reader of the tensor must wait for.
  std::vector<int> add(const Plan& plan, const ExecutionResult* result, std::vector<int> after,
                       const nlohmann::json& place = nlohmann::json::object());
  // Adds the kernel of an op, which runs on every rank.
  int add(const std::string& op, double price_us, const OpExecution* result, std::vector<int> after,
          const nlohmann::json& place = nlohmann::json::object());
  // Notes whether a node without a kernel (a view, for example) holds the right data.
  void judge(const std::string& node, const OpExecution& result) {
    judge(result.verified, result.max_abs_error, node + ": " + result.mismatch);
  }
  // Notes whether ranks that ought to hold the same bytes of the result do so.
  void note_replicas(bool equal) { replicas_equal_ = equal; }
  // Says in the result that kernels have no price, if the stack gives them none. The steps of the
  // run then take the time of their communication alone.
  void note_kernels();
  // Whether the run has kernels without a price, and nothing else of it takes time.
  [[nodiscard]] bool has_no_price() const;
  // Notes for the report what runs.
  void note_subject(std::string what) { what_ = std::move(what); }
  // Adds a remark for the reader of the result.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  // Adds wall time that was spent on making and on moving data.
  void note_wall(double distribute_ms, double run_ms);

  // Computes the times, writes the trace, prints the result, and sets the exit code. `document` has
  // the keys that only this kind of run prints, `title` the first lines of the text.
  void finish(nlohmann::json document, const std::string& title, Session& session);

 private:
  struct Step {
    nlohmann::json json;
    int kernel = 0;
    std::string name;
    std::string change;
    std::optional<double> price_us;  // empty for a kernel that the stack does not price
    std::optional<PriceInterval> interval;
    std::int64_t bytes_moved = 0;
    std::optional<double> max_abs_error;
  };
  void run_clocks(const std::string& title, bool tells_waits);
  [[nodiscard]] SimulationOptions clock_options() const;
  // The median time of the run with every collective at the lower, then at the upper bound of its
  // interval; nothing if the run has no price, or no step has an interval.
  [[nodiscard]] std::optional<PriceInterval> interval_of_time() const;
  // The timelines of the ranks that the report draws.
  [[nodiscard]] nlohmann::json pictured_timeline() const;
  void write_reports() const;
  [[nodiscard]] nlohmann::json quantiles_json(const Quantiles& quantiles) const;
  [[nodiscard]] nlohmann::json json(nlohmann::json document) const;
  [[nodiscard]] std::string text(const std::string& title) const;
  [[nodiscard]] std::string table() const;
  void judge(bool verified, double max_abs_error, const std::string& mismatch);

  const SimulationArguments& arguments_;
  const DeviceMesh& mesh_;
  StackEvaluator& evaluator_;
  const Session& session_;
  std::int64_t memory_;
  Slowdown slowdown_;
  std::string refused_;
  std::string unpriced_;  // why kernels have no price; empty if they have one
  Schedule schedule_;
  std::vector<Step> steps_;
  std::int64_t bytes_moved_ = 0;  // at most 2^63 - 1, as bytes_moved() of sim/traffic.h
  bool verified_ = true;
  double max_abs_error_ = 0.0;
  std::string mismatch_;
  bool replicas_equal_ = true;
  std::vector<std::string> notes_;
  DoubtedPrices doubted_;
  ReplicaGate replica_gate_;
  SimulationResult time_;
  std::optional<PriceInterval> time_interval_;
  double distribute_ms_ = 0.0;
  double run_ms_ = 0.0;
  double clock_ms_ = 0.0;
  std::string what_;
};

}  // namespace shardlab
