// A run on the fake process group, as `simulate` shows it. It takes steps as they are added, notes
// whether their data is right, works out their times, and prints both as JSON or text. A
// redistribution is one plan; an op is a plan for each input and a kernel; a program is many ops.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/session/session.h"
#include "sim/executor.h"
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
  std::string trace;
  std::int64_t trace_ranks = 64;

  void add_options(const Command& command);
};

class Simulation {
 public:
  // Keeps references. Throws TextError if an option does not parse.
  Simulation(const SimulationArguments& arguments, const DeviceMesh& mesh, const Topology& topology,
             const Session& session);

  [[nodiscard]] bool has_data() const { return arguments_.data == "on"; }
  [[nodiscard]] const DeviceMesh& mesh() const { return mesh_; }
  [[nodiscard]] Executor executor() const;
  [[nodiscard]] DataOptions data() const;

  // Says why nothing runs, and drops what was added before. An empty reason changes nothing.
  void refuse(const std::string& reason);
  [[nodiscard]] bool is_refused() const { return !refused_.empty(); }

  // Adds the steps of a plan that runs once the kernels `after` are done. `result` is what the
  // executor made of the plan, or null without data; the keys of `place` (input, node) go into each
  // step's JSON. Returns the kernels that a reader of the tensor has to wait for.
  std::vector<int> add(const Plan& plan, const ExecutionResult* result, std::vector<int> after,
                       const nlohmann::json& place = nlohmann::json::object());
  // Adds an op's kernel, which runs on every rank.
  int add(const std::string& op, double price_us, const OpExecution* result, std::vector<int> after,
          const nlohmann::json& place = nlohmann::json::object());
  // Notes whether a node that runs no kernel (a view, say) names what it should.
  void judge(const std::string& node, const OpExecution& result) {
    judge(result.verified, result.max_abs_error, node + ": " + result.mismatch);
  }
  // Notes whether ranks that ought to hold the same bytes of the result do hold them.
  void note_replicas(bool equal) { replicas_equal_ = equal; }
  // Notes for the report what runs, and under which stack.
  void note_subject(std::string what, nlohmann::json stack) {
    what_ = std::move(what);
    stack_ = std::move(stack);
  }
  // Adds a remark that a reader of the result should know.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  // Adds wall time that went into making and moving data.
  void note_wall(double distribute_ms, double run_ms);

  // Runs the clocks, writes the trace, prints, and sets the exit code. `document` has the keys that
  // this kind of run adds, `title` the first lines of the text.
  void finish(nlohmann::json document, const std::string& title, Session& session);

 private:
  struct Step {
    nlohmann::json json;
    int kernel = 0;
    std::string name;
    std::string change;
    double price_us = 0.0;
    std::int64_t bytes_moved = 0;
    std::optional<double> max_abs_error;
  };
  void run_clocks(const std::string& title);
  void write_reports() const;
  [[nodiscard]] nlohmann::json quantiles_json(const Quantiles& quantiles) const;
  [[nodiscard]] nlohmann::json json(nlohmann::json document) const;
  [[nodiscard]] std::string text(const std::string& title) const;
  [[nodiscard]] std::string table() const;
  void judge(bool verified, double max_abs_error, const std::string& mismatch);

  const SimulationArguments& arguments_;
  const DeviceMesh& mesh_;
  const Topology& topology_;
  const Session& session_;
  std::int64_t memory_;
  Slowdown slowdown_;
  std::string refused_;
  Schedule schedule_;
  std::vector<Step> steps_;
  std::int64_t bytes_moved_ = 0;
  bool verified_ = true;
  double max_abs_error_ = 0.0;
  std::string mismatch_;
  bool replicas_equal_ = true;
  std::vector<std::string> notes_;
  SimulationResult time_;
  double distribute_ms_ = 0.0;
  double run_ms_ = 0.0;
  double clock_ms_ = 0.0;
  std::string what_;
  nlohmann::json stack_;
};

}  // namespace shardlab
