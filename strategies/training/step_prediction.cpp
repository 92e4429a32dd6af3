#include "strategies/training/step_prediction.h"

#include <algorithm>
#include <cmath>
#include <optional>
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
  for (std::size_t c = 0; c < kKernelClasses; ++c) {
    breakdown.contention_us[c] += count * times.contention_us[c];
  }
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
  // One micro-batch after the other. Each is like the second one, but for the first and the last.
  double in_order(StepPrediction& result, bool with_timeline) {
    const std::vector<StepWork::Unit>& units = work_.stages().front();
    const auto chain = [&](int micro_batches) {
      StepChain tasks(work_, prices_, blocks_);
      for (int i = 0; i < micro_batches; ++i) {
        const bool first = i == 0;
        const bool last = i + 1 == micro_batches;
        tasks.forward(units, {.gathers = run_.shards_weights() ||
                                         (run_.sharding == Sharding::kOptimizer && first)});
        const bool reduces = last || !run_.reduces_once();
        tasks.backward(units, {.gathers = run_.shards_weights(),
                               .reduces = reduces,
                               .sums = !reduces && run_.adds_whole_gradients()});
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
                      .stages = std::vector<StageTimes>(stages),
                      .forward_drops_weights = run_.sharding == Sharding::kFull};
    std::vector<StagePasses> passes(stages);
    const double send_us =
        prices_.collective_us(Collective::kSendRecv, hidden_bytes(), prices_.groups().neighbours);
    for (std::size_t s = 0; s < stages; ++s) {
      if (s > 1 && work_.stages()[s] == work_.stages()[s - 1]) {
        passes[s] = passes[s - 1];
        pipeline.stages[s] = pipeline.stages[s - 1];
        continue;
      }
      passes[s] = passes_of(work_.stages()[s]);
      const StagePasses& of = passes[s];
      double weights_us = 0.0;
      for (const StepWork::Unit& unit : work_.stages()[s]) weights_us += weights_part(unit.block);
      pipeline.stages[s] = {
          .forward_us = of.forward.total_us,
          .backward_us = of.backward.total_us,
          .weights_us = std::min(weights_us, 0.5 * of.backward.total_us),
          .send_us = send_us,
          .forward_gather_us = of.gathering_forward.total_us - of.forward.total_us,
          .backward_gather_us = of.gathering_backward.total_us - of.backward.total_us};
    }
    const PipelineTimes times = simulate_pipeline(pipeline);
    const auto busiest = static_cast<std::size_t>(times.busiest);
    for (std::size_t s = busiest; s < stages; s += to_index(run_.spread.pp)) {
      const double gathering_forward = to_real(times.forward_gathers[s]);
      const double gathering_backward = to_real(times.backward_gathers[s]);
      add_times(result.breakdown, passes[s].gathering_forward, gathering_forward);
      add_times(result.breakdown, passes[s].forward, to_real(run_.grad_accum) - gathering_forward);
      add_times(result.breakdown, passes[s].gathering_backward, gathering_backward);
      add_times(result.breakdown, passes[s].backward,
                to_real(run_.grad_accum) - gathering_backward);
    }
    result.breakdown.bubble_us += times.bubble_us;
    if (with_timeline) result.timeline = timeline_of(work_.stages().front());
    const bool gathers_last = times.backward_gathers[busiest] == run_.grad_accum;
    return times.total_us +
           once_us(work_.stages()[busiest], passes[busiest], gathers_last, result.breakdown);
  }

  // The passes of one micro-batch through a stage that has its weights, and through one that has to
  // gather them.
  struct StagePasses {
    ChainTimes forward;
    ChainTimes backward;
    ChainTimes gathering_forward;
    ChainTimes gathering_backward;
  };
  [[nodiscard]] StagePasses passes_of(const std::vector<StepWork::Unit>& stage) const {
    const bool gathers = run_.shards_weights();
    const bool sums = run_.adds_whole_gradients();
    return {.forward = forward_times(stage, {}),
            .backward = backward_times(stage, {.sums = sums}),
            .gathering_forward = forward_times(stage, {.gathers = gathers}),
            .gathering_backward = backward_times(stage, {.gathers = gathers, .sums = sums})};
  }
  [[nodiscard]] ChainTimes forward_times(const std::vector<StepWork::Unit>& stage,
                                         StepChain::Traffic traffic) const {
    StepChain chain(work_, prices_, blocks_);
    chain.forward(stage, traffic);
    return chain.times(false);
  }
  [[nodiscard]] ChainTimes backward_times(const std::vector<StepWork::Unit>& stage,
                                          StepChain::Traffic traffic) const {
    StepChain chain(work_, prices_, blocks_);
    chain.backward(stage, traffic);
    return chain.times(false);
  }
  // Both passes of a micro-batch through a stage, as if nothing came between them.
  [[nodiscard]] std::vector<StepSpan> timeline_of(const std::vector<StepWork::Unit>& stage) const {
    StepChain chain(work_, prices_, blocks_);
    chain.forward(stage, {.gathers = run_.shards_weights()});
    chain.backward(stage, {.gathers = run_.shards_weights(), .sums = run_.adds_whole_gradients()});
    return chain.times(true).timeline;
  }

  // What a rank of a pipeline does once a step, for its first stage; what its other stages have to
  // gather and to reduce travels before, beside the kernels. Gradients are reduced beside the last
  // backward pass, but under FSDP behind it (step_prediction.h). Weights of which only the
  // optimizer's state is sharded are gathered beside the first forward pass.
  double once_us(const std::vector<StepWork::Unit>& stage, const StagePasses& passes,
                 bool gathers_last, StepBreakdown& breakdown) const {
    const auto in_place_of = [&](const ChainTimes& usual, const ChainTimes& own) {
      add_times(breakdown, usual, -1.0);
      add_times(breakdown, own, 1.0);
      return own.total_us - usual.total_us;
    };
    double us = in_place_of(gathers_last ? passes.gathering_backward : passes.backward,
                            backward_times(stage, {.gathers = gathers_last && run_.shards_weights(),
                                                   .reduces = true,
                                                   .reduces_late = run_.shards_weights()}));
    if (run_.sharding == Sharding::kOptimizer) {
      us += in_place_of(passes.forward, forward_times(stage, {.gathers = true}));
    }
    return us;
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
    const double norm = prices_.collective_us(
        Collective::kAllReduce, 4.0,
        span_of({run_.spread.ranks(), 1}, run_.spread.ranks(), model_.topology));
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

// The run's work under recomputation of this kind for as few of the first blocks as fit; nothing if
// no number of them fits. Each further block leaves fewer tensors, so that halving finds the
// number.
std::optional<StepWork> least_fitting(TrainingRun run, Recomputation::Kind kind,
                                      double device_bytes) {
  const std::int64_t blocks =
      static_cast<std::int64_t>(blocks_of(run.shape).size()) + run.shape.predicted_tokens;
  const auto of_first = [&](std::int64_t count) {
    run.recompute = {.kind = kind, .first_blocks = count == blocks ? -1 : static_cast<int>(count)};
    return StepWork(run, device_bytes);
  };
  StepWork least = of_first(blocks);
  if (least.memory().peak_bytes > device_bytes) return std::nullopt;
  std::int64_t too_few = 0;
  std::int64_t enough = blocks;
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    StepWork work = of_first(middle);
    if (work.memory().peak_bytes > device_bytes) {
      too_few = middle;
    } else {
      enough = middle;
      least = std::move(work);
    }
  }
  return least;
}

}  // namespace

StepPrediction predict_step(const StepWork& work, const StepModel& model, bool with_timeline) {
  return StepPredictor(work, model).predict(with_timeline);
}

StepPrediction predict_step(const TrainingRun& run, const StepModel& model) {
  return predict_step(StepWork(run, model.topology.device().memory_gib * kBytesPerGiB), model);
}

StepPrediction predict_fitting_step(const TrainingRun& run, const StepModel& model,
                                    bool with_timeline) {
  const double device_bytes = model.topology.device().memory_gib * kBytesPerGiB;
  TrainingRun tried = run;
  tried.recompute = Recomputation{};
  const StepWork whole(tried, device_bytes);
  if (whole.memory().peak_bytes <= device_bytes) return predict_step(whole, model, with_timeline);
  std::optional<StepPrediction> shortest;
  for (const auto kind : {Recomputation::Kind::kSelective, Recomputation::Kind::kFull}) {
    const std::optional<StepWork> work = least_fitting(tried, kind, device_bytes);
    if (!work) continue;
    StepPrediction step = predict_step(*work, model, with_timeline);
    if (!shortest || step.step_us < shortest->step_us) shortest = std::move(step);
  }
  if (shortest) return std::move(*shortest);
  tried.recompute = Recomputation{.kind = Recomputation::Kind::kFull};
  return predict_step(StepWork(tried, device_bytes), model, with_timeline);
}

}  // namespace shardlab
