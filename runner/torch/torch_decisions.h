// Whole decisions of a live PyTorch, as a DecisionSource: its candidates, its prices, its choice
// and its plans.
//
//   auto decisions = std::make_shared<TorchDecisions>(worker);
//   decisions->take_all();                           // from here on PyTorch decides everything
//   decisions->prepare(questions, topology, [&] { progress.advance(); });   // one batch
//
// A whole decision takes PyTorch 0.1 to 1 s, where rows and our own expansion take a millisecond.
// So it is asked for only where something that shardlab does not know decides. Answers are kept.
//
// PyTorch 2.13.0 knows one number of a topology, MeshTopoInfo's num_devices_per_host, and takes
// links among so many consecutive ranks to be the fast ones. It is told the devices that NVLink
// joins, which the model `dtensor` compares with too: 72 on GB200 NVL72, whose hosts have four.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runner/torch/worker.h"
#include "strategies/select/decision_source.h"

namespace shardlab {

// One question about an op, for a batch.
struct DecisionQuestion {
  const OpCall* call;
  const DeviceMesh* mesh;
};

class TorchDecisions final : public DecisionSource {
 public:
  explicit TorchDecisions(std::shared_ptr<TorchWorker> worker) : worker_(std::move(worker)) {}

  // Makes PyTorch decide about all ops and make all plans. Not while other threads ask.
  void take_all() { takes_all_ = true; }
  // Says which function or constant decides otherwise than in the release which steps are merged.
  void note_changed_merging(std::string name) { changed_merging_ = std::move(name); }
  [[nodiscard]] bool takes_all() const { return takes_all_; }

  [[nodiscard]] bool decides(std::string_view /*op*/) const override { return takes_all_; }
  [[nodiscard]] GivenDecision decide(const OpCall& call, const DeviceMesh& mesh,
                                     const Topology& topology) override;
  [[nodiscard]] bool lists_candidates() const override { return true; }
  [[nodiscard]] bool plans() const override { return takes_all_; }
  [[nodiscard]] const std::string& changed_merging() const override { return changed_merging_; }
  [[nodiscard]] std::optional<GivenPlan> plan(const DeviceMesh& mesh, const Topology& topology,
                                              const TensorMeta& meta, const Layout& from,
                                              const Layout& to) override;

  // The candidates of a decision. They do not depend on the topology.
  [[nodiscard]] std::vector<FollowCandidate> candidates(const OpCall& call, const DeviceMesh& mesh);

  // Asks all these questions at once; `asked` is called after each answer.
  void prepare(std::span<const DecisionQuestion> questions, const Topology& topology,
               const std::function<void()>& asked);

  // PyTorch's own answer to a question, whether or not it decides about the op. If PyTorch refuses
  // the question, `refusal` has the reason.
  struct Answer {
    GivenDecision decision;
    std::optional<double> least_us;    // the price of the choice, or of all that tie with it
    std::string refusal;               // why there is no decision; empty if there is one
    bool has_foreign_layouts = false;  // the refusal is ours: we have no layout for a candidate
    bool is_settled = true;  // whether the answer is independent of the order of a hash set
  };
  [[nodiscard]] Answer answer(const OpCall& call, const DeviceMesh& mesh, const Topology& topology);

  // PyTorch's own plan, whether or not it makes the plans. If it refuses the question, `refusal`
  // has the reason.
  struct PlanAnswer {
    GivenPlan plan;
    std::string refusal;
    // Whether the plan and its price are independent of the order of a hash set. False too where
    // the question cannot be asked.
    bool is_settled = true;
  };
  [[nodiscard]] PlanAnswer plan_answer(const DeviceMesh& mesh, const Topology& topology,
                                       const TensorMeta& meta, const Layout& from,
                                       const Layout& to);

 private:
  void ask_all(std::span<const DecisionQuestion> questions, std::int64_t domain_devices,
               const std::function<void()>& asked);
  [[nodiscard]] Answer ask(const OpCall& call, const DeviceMesh& mesh, std::int64_t domain_devices);

  std::shared_ptr<TorchWorker> worker_;
  bool takes_all_ = false;
  std::string changed_merging_;
  std::mutex asking_;  // held while the worker is asked, so that each question is asked once
  std::mutex lock_;
  // The value of the last question; candidates do not depend on it.
  std::int64_t domain_devices_ = 1;
  std::map<std::string, Answer> answers_;  // by question
  std::map<std::string, PlanAnswer> plans_;
};

}  // namespace shardlab
