// The rules of a live PyTorch, as a RuleSource: rows on one mesh dim where PyTorch has a strategy of
// one mesh dim, and whole candidates for every other op. Expansion, prices and choices stay ours.
//
//   TorchRules rules(worker, Release::k2_15);
//   rules.prepare(calls);                            // one batch: much faster than one by one
//   const OpRule& rule = rules.rule("aten.mm.default");
//   rule.rows(call, rule)                            // what PyTorch's strategy lists
//
// Rows depend on the op, on the shapes and dtypes of its inputs, and on its arguments. Candidates
// depend on the mesh and the layouts too. Each is asked for once and then kept.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runner/torch/worker.h"
#include "strategies/rules/rule_source.h"

namespace shardlab {

class TorchRules final : public RuleSource {
 public:
  // What our rule set `nearest` knows about an op beyond its rows is taken from there: its kernel,
  // its floating point operations, the shapes of its outputs.
  TorchRules(std::shared_ptr<TorchWorker> worker, RuleSet nearest);

  [[nodiscard]] std::string text() const override;
  [[nodiscard]] const OpRule& rule(std::string_view op) override;
  [[nodiscard]] std::vector<std::string_view> ops() override;
  void prepare(std::span<const OpCall* const> calls) override;

  // How many ops have rows, and how many are asked for whole candidates.
  [[nodiscard]] std::size_t ops_with_rows() const { return with_rows_; }
  [[nodiscard]] std::size_t ops_with_candidates() const { return rules_.size() - with_rows_; }
  [[nodiscard]] const TorchWorker& worker() const { return *worker_; }

 private:
  // PyTorch's answer about the rows of a call. Where PyTorch refuses the call, `error` says why.
  struct RowsAnswer {
    Rows rows;
    std::vector<TensorMeta> outputs;
    std::string error;
  };

  [[nodiscard]] const RowsAnswer& rows_of(const OpCall& call);
  [[nodiscard]] std::vector<FollowCandidate> candidates_of(const OpCall& call,
                                                           const DeviceMesh& mesh);
  [[nodiscard]] std::vector<TensorMeta> outputs_of(const OpCall& call);

  std::shared_ptr<TorchWorker> worker_;
  std::map<std::string, OpRule, std::less<>> rules_;  // by full name
  std::size_t with_rows_ = 0;
  std::mutex asking_;  // held while the worker is asked, so that each question is asked once
  std::mutex lock_;
  std::unordered_map<std::string, RowsAnswer> rows_;  // by question
  std::unordered_map<std::string, nlohmann::json> candidates_;
};

}  // namespace shardlab
