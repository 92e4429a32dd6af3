#include "strategies/training/step_prediction.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/base/index.h"
#include "strategies/training/step_chain.h"
#include "strategies/training/step_prices.h"

namespace shardlab {
namespace {

void add_times(StepBreakdown& breakdown, const ChainTimes& times, double count) {
  const auto of = [&](KernelClass kind) {
    return times.kernels_us[static_cast<std::size_t>(kind)];
  };
  breakdown.gemm_us += count * (of(KernelClass::kGemm) + of(KernelClass::kLowGemm));
  breakdown.low_gemm_us += count * of(KernelClass::kLowGemm);
  breakdown.collectives_us += count * times.collectives_us;
  breakdown.attention_us += count * of(KernelClass::kAttention);
  breakdown.other_us += count * of(KernelClass::kOther);
  for (const auto& [kind, us] : times.exposed_us) breakdown.exposed_us[kind] += count * us;
  breakdown.host_us += count * times.host_us;
}

class StepPredictor {
 public:
  StepPredictor(const StepWork& work, const StepModel& model)
      : work_(work), run_(work.run()), model_(model), prices_(run_, model) {
    for (const RankBlock& block : work.blocks()) {
      const bool library = run_.execution == Execution::kLibrary;
      blocks_.push_back(
          {priced(block.forward, prices_, library), priced(block.backward, prices_, library)});
    }
  }

  [[nodiscard]] StepPrediction predict(bool with_timeline) {
    StepPrediction result;
    result.step_us =
        run_.spread.pp > 1 ? pipelined(result, with_timeline) : in_order(result, with_timeline);
    result.step_us += update_us(result.breakdown);
    const double hosts =
        std::max(1.0, to_real(run_.spread.ranks()) / to_real(model_.topology.devices_per_host()));
    const double waiting = model_.factors.waiting * std::log2(hosts) * result.step_us;
    if (waiting > 0) result.breakdown.exposed_us["waiting"] += waiting;
    result.step_us += waiting + model_.factors.fixed_us;
    result.breakdown.host_us += model_.factors.fixed_us;
    const double tokens = run_.tokens_per_step() / to_real(run_.spread.ranks());
    result.tokens_per_s_per_gpu = tokens / (result.step_us * 1e-6);
    result.mfu = model_flops_per_token(run_.shape, run_.seq) * result.tokens_per_s_per_gpu /
                 (model_.topology.peak(DType::kBF16).value() * 1e12);
    result.memory = work_.memory();
    result.recompute = work_.recompute();
    return result;
  }

 private:
  [[nodiscard]] bool shards_weights() const {
    return run_.sharding == Sharding::kFull || run_.sharding == Sharding::kKeptWeights;
  }

  // One micro-batch after the other. Each is like the second one, but for the first and the last.
  double in_order(StepPrediction& result, bool with_timeline) {
    const std::vector<StepWork::Unit>& units = work_.stages().front();
    const auto chain = [&](int micro_batches) {
      StepChain tasks(work_, prices_, blocks_);
      for (int i = 0; i < micro_batches; ++i) {
        const bool first = i == 0;
        const bool last = i + 1 == micro_batches;
        tasks.forward(units, {.gathers = shards_weights() ||
                                         (run_.sharding == Sharding::kOptimizer && first)});
        tasks.backward(units, {.gathers = shards_weights(), .reduces = shards_weights() || last});
      }
      return tasks.times(with_timeline && micro_batches == 1);
    };
    const ChainTimes one = chain(1);
    result.timeline = one.timeline;
    if (run_.grad_accum == 1) {
      add_times(result.breakdown, one, 1.0);
      return one.total_us;
    }
    const ChainTimes two = chain(2);
    const double more = to_real(run_.grad_accum - 1);
    add_times(result.breakdown, one, 1.0 - more);
    add_times(result.breakdown, two, more);
    return one.total_us + more * (two.total_us - one.total_us);
  }

  double pipelined(StepPrediction& result, bool with_timeline) {
    const std::size_t stages = work_.stages().size();
    Pipeline pipeline{.schedule = run_.schedule,
                      .ranks = run_.spread.pp,
                      .chunks = run_.chunks,
                      .micro_batches = run_.grad_accum,
                      .stages = std::vector<StageTimes>(stages)};
    std::vector<ChainTimes> forward(stages);
    std::vector<ChainTimes> backward(stages);
    const double send_us =
        prices_.collective_us(Collective::kSendRecv, hidden_bytes(), prices_.groups().neighbours);
    for (std::size_t s = 0; s < stages; ++s) {
      if (s > 1 && work_.stages()[s] == work_.stages()[s - 1]) {
        forward[s] = forward[s - 1];
        backward[s] = backward[s - 1];
        pipeline.stages[s] = pipeline.stages[s - 1];
        continue;
      }
      StepChain ahead(work_, prices_, blocks_);
      ahead.forward(work_.stages()[s], {.gathers = shards_weights()});
      forward[s] = ahead.times(with_timeline && s == 0);
      StepChain back(work_, prices_, blocks_);
      back.backward(work_.stages()[s], {.gathers = shards_weights()});
      backward[s] = back.times(false);
      double weights_us = 0.0;
      for (const StepWork::Unit& unit : work_.stages()[s]) weights_us += weights_part(unit.block);
      pipeline.stages[s] = {forward[s].total_us, backward[s].total_us,
                            std::min(weights_us, 0.5 * backward[s].total_us), send_us};
    }
    const PipelineTimes times = simulate_pipeline(pipeline);
    const auto busiest = static_cast<std::size_t>(times.busiest);
    for (std::size_t s = busiest; s < stages; s += to_index(run_.spread.pp)) {
      add_times(result.breakdown, forward[s], to_real(run_.grad_accum));
      add_times(result.breakdown, backward[s], to_real(run_.grad_accum));
    }
    result.breakdown.bubble_us += times.bubble_us;
    result.timeline = forward.front().timeline;

    // Weights are gathered beside the first forward pass and gradients reduced beside the last
    // backward pass of the rank's first stage; those of its other stages travel before.
    StepChain first(work_, prices_, blocks_);
    first.forward(work_.stages()[busiest], {.gathers = true});
    StepChain last(work_, prices_, blocks_);
    last.backward(work_.stages()[busiest], {.gathers = shards_weights(), .reduces = true});
    const double gathers = std::max(0.0, first.times(false).total_us - forward[busiest].total_us);
    const double reduces = std::max(0.0, last.times(false).total_us - backward[busiest].total_us);
    double exposed = reduces;
    if (run_.sharding == Sharding::kOptimizer) {
      exposed += gathers;
      result.breakdown.exposed_us["all_gather"] += gathers;
    }
    const Collective reduction =
        run_.sharding == Sharding::kNone ? Collective::kAllReduce : Collective::kReduceScatter;
    result.breakdown.exposed_us[std::string(to_string(reduction))] += reduces;
    return times.total_us + exposed;
  }

  [[nodiscard]] double hidden_bytes() const {
    return 2.0 * to_real(run_.micro_batch) * to_real(run_.seq) /
           to_real(run_.spread.cp * run_.spread.tp) * to_real(run_.shape.width);
  }

  // The time of the gradients of weights in the backward pass: as long as the products of the
  // forward pass take, which are as large.
  [[nodiscard]] double weights_part(std::size_t block) const {
    double products = 0.0;
    for (const PricedPiece& piece : blocks_[block].forward) {
      products += piece.kernels_us[static_cast<std::size_t>(KernelClass::kGemm)] +
                  piece.kernels_us[static_cast<std::size_t>(KernelClass::kLowGemm)];
    }
    return products;
  }

  // The norm of the gradients with its all-reduce, and the optimizer's step.
  double update_us(StepBreakdown& breakdown) {
    // The rank of the pipeline that has the most to update is the last one to be done.
    const double shards =
        run_.sharding == Sharding::kNone ? 1.0 : to_real(prices_.groups().shards.ranks);
    const double expert_shards =
        run_.sharding == Sharding::kNone ? 1.0 : to_real(prices_.groups().expert_shards.ranks);
    std::vector<double> by_rank(to_index(run_.spread.pp), 0.0);
    for (std::size_t s = 0; s < work_.stages().size(); ++s) {
      for (const StepWork::Unit& unit : work_.stages()[s]) {
        const RankBlock& block = work_.blocks()[unit.block];
        const double trained = block.trained_elements;
        const double experts = std::min(trained, block.expert_weight_elements);
        by_rank[s % by_rank.size()] += (trained - experts) / shards + experts / expert_shards;
      }
    }
    const double elements = *std::max_element(by_rank.begin(), by_rank.end());
    const double kernels = prices_.memory_us((8.0 + run_.update_bytes) * elements);
    const double norm = prices_.collective_us(Collective::kAllReduce, 4.0,
                                              span_of(run_.spread.ranks(), 1, model_.topology));
    breakdown.other_us += kernels;
    breakdown.exposed_us["all_reduce"] += norm;
    return kernels + norm;
  }

  const StepWork& work_;
  const TrainingRun& run_;
  const StepModel& model_;
  StepPrices prices_;
  std::vector<PricedBlock> blocks_;
};

}  // namespace

StepPrediction predict_step(const StepWork& work, const StepModel& model, bool with_timeline) {
  return StepPredictor(work, model).predict(with_timeline);
}

StepPrediction predict_step(const TrainingRun& run, const StepModel& model) {
  return predict_step(StepWork(run, model.topology.device().memory_gib * kBytesPerGiB), model);
}

}  // namespace shardlab
