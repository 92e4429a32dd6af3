#include "strategies/training/pipeline.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

enum class Pass : std::uint8_t { kForward, kBackward, kWeights };

struct Turn {
  Pass pass = Pass::kForward;
  std::int64_t chunk = 0;
  std::int64_t micro_batch = 0;
};

// The turns of one rank, in the order in which it takes them.
class Turns {
 public:
  explicit Turns(const Pipeline& pipeline) : pipeline_(pipeline) {}

  [[nodiscard]] std::vector<Turn> of(std::int64_t rank) const {
    const std::int64_t all = pipeline_.micro_batches * pipeline_.chunks;
    const std::int64_t warm_up =
        pipeline_.schedule == PipelineSchedule::kGPipe ? all : std::min(all, this->warm_up(rank));
    std::vector<Turn> turns;
    std::int64_t weights = 0;
    const bool splits = pipeline_.schedule == PipelineSchedule::kZeroBubble;
    for (std::int64_t i = 0; i < warm_up; ++i) turns.push_back(forward(i));
    for (std::int64_t i = 0; i + warm_up < all; ++i) {
      turns.push_back(forward(i + warm_up));
      turns.push_back(backward(i));
      // Rank r runs its weight-gradient passes r turns late, so that they fill the bubble at the
      // end.
      if (splits && i >= rank) turns.push_back(gradients(weights++));
    }
    for (std::int64_t i = all - warm_up; i < all; ++i) {
      turns.push_back(backward(i));
      if (splits) turns.push_back(gradients(weights++));
    }
    while (splits && weights < all) turns.push_back(gradients(weights++));
    return turns;
  }

  // Source: Megatron-LM, megatron/core/pipeline_parallel/schedules.py.
  [[nodiscard]] std::int64_t warm_up(std::int64_t rank) const {
    const std::int64_t later = pipeline_.ranks - rank - 1;
    if (pipeline_.chunks == 1) return later;
    return 2 * later + (pipeline_.chunks - 1) * pipeline_.ranks;
  }

 private:
  // Micro-batches go in groups of as many as there are ranks through one chunk after the other.
  [[nodiscard]] Turn forward(std::int64_t index) const {
    const auto [chunk, micro_batch] = place(index);
    return {Pass::kForward, chunk, micro_batch};
  }
  [[nodiscard]] Turn backward(std::int64_t index) const {
    const auto [chunk, micro_batch] = place(index);
    return {Pass::kBackward, pipeline_.chunks - 1 - chunk, micro_batch};
  }
  [[nodiscard]] Turn gradients(std::int64_t index) const {
    Turn turn = backward(index);
    turn.pass = Pass::kWeights;
    return turn;
  }
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> place(std::int64_t index) const {
    if (pipeline_.chunks == 1) return {0, index};
    const std::int64_t group_size = std::min(pipeline_.ranks, pipeline_.micro_batches);
    const std::int64_t in_group = group_size * pipeline_.chunks;
    const std::int64_t group = index / in_group;
    const std::int64_t first = group * group_size;
    const std::int64_t size = std::min(group_size, pipeline_.micro_batches - first);
    const std::int64_t rest = index - group * in_group;
    return {rest / size, first + rest % size};
  }

  const Pipeline& pipeline_;
};

// Ranks with several stages each take micro-batches in groups of as many as there are ranks. In an
// incomplete group they would wait for each other, so Megatron-LM refuses such numbers too.
void expect_whole_groups(const Pipeline& pipeline) {
  if (pipeline.chunks == 1 || pipeline.micro_batches % pipeline.ranks == 0) return;
  throw InputError("a pipeline of " + std::to_string(pipeline.ranks) + " ranks with " +
                   std::to_string(pipeline.chunks) + " stages each can't run " +
                   std::to_string(pipeline.micro_batches) +
                   " micro-batches in this schedule; valid: a multiple of " +
                   std::to_string(pipeline.ranks));
}

}  // namespace

PipelineTimes simulate_pipeline(const Pipeline& pipeline) {
  const std::int64_t stages = pipeline.ranks * pipeline.chunks;
  SHARDLAB_CHECK(static_cast<std::int64_t>(pipeline.stages.size()) == stages);
  const std::int64_t count = pipeline.micro_batches;
  expect_whole_groups(pipeline);
  const Turns turns(pipeline);
  std::vector<std::vector<Turn>> order;
  for (std::int64_t rank = 0; rank < pipeline.ranks; ++rank) order.push_back(turns.of(rank));

  // When each pass of each stage and micro-batch is done; negative: not yet.
  std::vector<double> forward(to_index(stages * count), -1.0);
  std::vector<double> backward(to_index(stages * count), -1.0);
  std::vector<double> free(to_index(pipeline.ranks), 0.0);
  std::vector<double> busy(to_index(pipeline.ranks), 0.0);
  std::vector<std::size_t> next(to_index(pipeline.ranks), 0);
  std::vector<bool> has_weights(to_index(stages), false);
  PipelineTimes result;
  result.forward_gathers.assign(to_index(stages), 0);
  result.backward_gathers.assign(to_index(stages), 0);
  const bool splits = pipeline.schedule == PipelineSchedule::kZeroBubble;
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::int64_t rank = 0; rank < pipeline.ranks; ++rank) {
      while (next[to_index(rank)] < order[to_index(rank)].size()) {
        const Turn& turn = order[to_index(rank)][next[to_index(rank)]];
        const std::int64_t stage = turn.chunk * pipeline.ranks + rank;
        const StageTimes& times = pipeline.stages[to_index(stage)];
        double ready = 0.0;
        double lasts = 0.0;
        if (turn.pass == Pass::kForward) {
          if (stage > 0) {
            const double before = forward[to_index((stage - 1) * count + turn.micro_batch)];
            if (before < 0) break;
            ready = before + pipeline.stages[to_index(stage - 1)].send_us;
          }
          lasts = times.forward_us;
          if (!has_weights[to_index(stage)]) {
            lasts += times.forward_gather_us;
            ++result.forward_gathers[to_index(stage)];
          }
          has_weights[to_index(stage)] = !pipeline.forward_drops_weights;
        } else if (turn.pass == Pass::kBackward) {
          const double own = forward[to_index(stage * count + turn.micro_batch)];
          if (own < 0) break;
          ready = own;
          if (stage + 1 < stages) {
            const double after = backward[to_index((stage + 1) * count + turn.micro_batch)];
            if (after < 0) break;
            ready = std::max(ready, after + times.send_us);
          }
          lasts = times.backward_us - (splits ? times.weights_us : 0.0);
          if (!has_weights[to_index(stage)]) {
            lasts += times.backward_gather_us;
            ++result.backward_gathers[to_index(stage)];
          }
          has_weights[to_index(stage)] = true;
        } else {
          if (backward[to_index(stage * count + turn.micro_batch)] < 0) break;
          lasts = times.weights_us;
        }
        const double end = std::max(free[to_index(rank)], ready) + lasts;
        free[to_index(rank)] = end;
        busy[to_index(rank)] += lasts;
        if (turn.pass == Pass::kForward) forward[to_index(stage * count + turn.micro_batch)] = end;
        if (turn.pass == Pass::kBackward)
          backward[to_index(stage * count + turn.micro_batch)] = end;
        ++next[to_index(rank)];
        moved = true;
      }
    }
  }
  for (std::int64_t rank = 0; rank < pipeline.ranks; ++rank) {
    SHARDLAB_CHECK(next[to_index(rank)] == order[to_index(rank)].size(), "rank ", rank,
                   " waits for a pass that never ends");
  }
  result.total_us = *std::max_element(free.begin(), free.end());
  result.busiest = std::max_element(busy.begin(), busy.end()) - busy.begin();
  result.bubble_us = result.total_us - busy[to_index(result.busiest)];
  return result;
}

double micro_batches_held(const Pipeline& pipeline, std::int64_t rank) {
  const std::int64_t all = pipeline.micro_batches * pipeline.chunks;
  if (pipeline.schedule == PipelineSchedule::kGPipe) return static_cast<double>(all);
  return static_cast<double>(std::min(all, Turns(pipeline).warm_up(rank) + 1));
}

double micro_batches_without_gradients(const Pipeline& pipeline, std::int64_t rank) {
  if (pipeline.schedule != PipelineSchedule::kZeroBubble) return 0.0;
  return static_cast<double>(std::min(pipeline.micro_batches - 1, rank));
}

}  // namespace shardlab
