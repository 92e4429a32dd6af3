// The rules of a live PyTorch, as a RuleSource: rows on one mesh dim where PyTorch has a strategy
// of one mesh dim, and whole candidates for every other op. Expansion, prices and choices stay
// ours.
//
//   TorchRules rules(worker, kNewestRelease, decisions);
//   rules.prepare(calls);                            // one batch: much faster than one by one
//   const OpRule& rule = rules.rule("aten.mm.default");
//   rule.rows(call, rule)                            // what PyTorch's strategy lists
//
// Rows depend on the op, on the shapes and dtypes of its inputs, and on its arguments. Candidates
// depend on the mesh and the layouts too. Each is asked for once and then kept.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runner/base/terminal.h"
#include "runner/torch/torch_decisions.h"
#include "runner/torch/worker.h"
#include "strategies/rules/rule_source.h"

namespace shardlab {

class TorchRules final : public RuleSource {
 public:
  // What our rule set `nearest` knows about an op beyond its rows is taken from there: its kernel,
  // its floating point operations, the shapes of its outputs. The candidates of ops that
  // `decisions` decides about come from there.
  TorchRules(std::shared_ptr<TorchWorker> worker, RuleSet nearest,
             std::shared_ptr<TorchDecisions> decisions);

  [[nodiscard]] std::string text() const override;
  [[nodiscard]] const OpRule& rule(std::string_view op) override;
  [[nodiscard]] std::vector<std::string_view> ops() override;
  void prepare(std::span<const OpCall* const> calls) override;

  // Shows progress while a batch is asked; null shows none.
  using MakeProgress =
      std::function<std::unique_ptr<Progress>(std::string what, std::size_t total)>;
  void set_progress(MakeProgress make) { progress_ = std::move(make); }

  // Makes PyTorch decide about all ops as a whole. Not while other threads ask.
  void leave_all_to_decisions();
  // The ops by what PyTorch is asked for: rows on one mesh dim, candidates on the whole mesh that
  // are priced and chosen among here, or whole decisions.
  struct Levels {
    std::vector<std::string> rows;
    std::vector<std::string> candidates;
    std::vector<std::string> decisions;
  };
  [[nodiscard]] Levels levels() const;
  [[nodiscard]] TorchDecisions& decisions() { return *decisions_; }
  [[nodiscard]] const TorchWorker& worker() const { return *worker_; }

 private:
  // PyTorch's answer about the rows of a call. Where PyTorch refuses the call, `error` says why.
  // Calls that differ in sizes alone mostly have equal rows, which are kept once.
  struct RowsAnswer {
    std::shared_ptr<const Rows> rows;
    std::vector<TensorMeta> outputs;
    std::string error;
  };

  [[nodiscard]] const RowsAnswer& rows_of(const OpCall& call);
  [[nodiscard]] std::vector<FollowCandidate> candidates_of(const OpCall& call,
                                                           const DeviceMesh& mesh);
  [[nodiscard]] std::vector<TensorMeta> outputs_of(const OpCall& call);

  void ask_for_candidates(OpRule& rule);

  std::shared_ptr<TorchWorker> worker_;
  std::shared_ptr<TorchDecisions> decisions_;
  MakeProgress progress_;
  std::map<std::string, OpRule, std::less<>> rules_;  // by full name
  std::mutex asking_;  // held while the worker is asked, so that each question is asked once
  std::mutex lock_;
  std::unordered_map<std::string, RowsAnswer> rows_;                            // by question
  std::unordered_map<std::string, std::shared_ptr<const Rows>> distinct_rows_;  // by their text
  std::unordered_map<std::string, nlohmann::json> candidates_;
};

}  // namespace shardlab
