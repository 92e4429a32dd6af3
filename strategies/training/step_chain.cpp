#include "strategies/training/step_chain.h"

#include <algorithm>
#include <array>
#include <utility>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

constexpr int kComputeStream = 0;
constexpr int kActivationStream = 1;
constexpr int kGatherStream = 2;
constexpr int kReduceStream = 3;
constexpr int kHostStream = 4;
constexpr int kStreamCount = 5;
constexpr std::array<const char*, kStreamCount> kStreamNames = {
    "compute", "collectives of activations", "gathers of weights", "reductions of gradients",
    "host"};

// The one of these tasks that ends last.
int latest(const std::vector<int>& after, const std::vector<FluidSpan>& spans) {
  int last = -1;
  for (const int task : after) {
    if (last < 0 || spans[to_index(task)].end_us > spans[to_index(last)].end_us) last = task;
  }
  return last;
}

// The end of the unit before the last one: when its weights have been freed, the next gather may
// start.
int before_last(const std::vector<int>& ends) {
  return ends.size() < 2 ? -1 : ends[ends.size() - 2];
}

// Whether a collective runs beside a product that is its neighbour.
bool runs_beside(const std::vector<PricedPiece>& pieces, std::size_t i) {
  const PricedPiece& piece = pieces[i];
  if (!piece.is_collective || !piece.beside) return false;
  if (piece.leads) {
    return i + 1 < pieces.size() && !pieces[i + 1].is_collective &&
           pieces[i + 1].first_beside(piece) > 0;
  }
  return i > 0 && !pieces[i - 1].is_collective && pieces[i - 1].last_beside(piece) > 0;
}

// How much of a piece's kernels runs beside the collective before it, and beside the one after it.
// A piece may have too few kernels for both, which then have half of them each.
struct Beside {
  double first = 0.0;
  double last = 0.0;
};
Beside beside_of(const std::vector<PricedPiece>& pieces, std::size_t i) {
  const PricedPiece& piece = pieces[i];
  Beside out;
  if (i > 0 && pieces[i - 1].leads && runs_beside(pieces, i - 1)) {
    out.first = piece.first_beside(pieces[i - 1]);
  }
  if (i + 1 < pieces.size() && !pieces[i + 1].leads && runs_beside(pieces, i + 1)) {
    out.last = piece.last_beside(pieces[i + 1]);
  }
  const double both = out.first + out.last;
  const double us = piece.us();
  if (both > us) {
    out.first *= us / both;
    out.last *= us / both;
  }
  return out;
}

}  // namespace

StepChain::StepChain(const StepWork& work, const StepPrices& prices,
                     const std::vector<PricedBlock>& blocks)
    : work_(work), run_(work.run()), prices_(prices), blocks_(blocks) {}

void StepChain::forward(const std::vector<StepWork::Unit>& units, Traffic traffic) {
  std::vector<int> ends;
  int before = -1;
  for (std::size_t i = 0; i < units.size(); ++i) {
    // FSDP's root waits for all kernels before it gathers the first weights of a micro-batch.
    const int freed = i == 0 ? last_compute_ : before_last(ends);
    const int gathered = traffic.gathers ? gather(units[i].block, freed) : -1;
    before = add_pieces(blocks_[units[i].block].forward, gathered, units[i].block, traffic.gathers);
    ends.push_back(before);
  }
}

void StepChain::backward(const std::vector<StepWork::Unit>& units, Traffic traffic) {
  const bool late = traffic.reduces_late || !run_.overlap_gradients;
  std::vector<int> ends;
  for (std::size_t i = units.size(); i-- > 0;) {
    // The unit that the forward pass used last still has its weights.
    const bool again = traffic.gathers && run_.sharding == Sharding::kFull && i + 1 < units.size();
    const int gathered = again ? gather(units[i].block, before_last(ends)) : -1;
    const int end = add_pieces(blocks_[units[i].block].backward, gathered, units[i].block, again);
    ends.push_back(end);
    if (traffic.sums) sum_up(units[i].block);
    if (traffic.reduces && !late) reduce(units[i].block, end);
  }
  if (!traffic.reduces || !late) return;
  for (std::size_t i = units.size(); i-- > 0;) reduce(units[i].block, last_compute_);
}

ChainTimes StepChain::times(bool with_timeline) const {
  const std::vector<FluidSpan> spans = simulate_fluid(tasks_, kStreamCount, StepResource::kCount);
  ChainTimes result;
  double compute_end = 0.0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    result.total_us = std::max(result.total_us, spans[i].end_us);
    if (tasks_[i].stream != kComputeStream) {
      if (tasks_[i].stream != kHostStream) result.collectives_us += tasks_[i].work_us;
      continue;
    }
    const double gap = spans[i].start_us - compute_end;
    if (gap > 0) attribute(gap, latest(tasks_[i].after, spans), result);
    const double slowed = spans[i].end_us - spans[i].start_us - tasks_[i].work_us;
    const bool is_slowed = slowed > 1e-9;
    if (is_slowed) result.exposed_us["contention"] += slowed;
    for (std::size_t c = 0; c < kKernelClasses; ++c) {
      const double us = notes_[i].kernels_us[c];
      result.kernels_us[c] += us;
      if (is_slowed) result.contention_us[c] += slowed * us / tasks_[i].work_us;
    }
    compute_end = spans[i].end_us;
  }
  if (result.total_us > compute_end) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (spans[i].end_us > spans[last].end_us) last = i;
    }
    attribute(result.total_us - compute_end, static_cast<int>(last), result);
  }
  if (with_timeline) {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].work_us <= 0) continue;
      result.timeline.push_back({notes_[i].name, kStreamNames[to_index(tasks_[i].stream)],
                                 spans[i].start_us, spans[i].end_us});
    }
  }
  return result;
}

void StepChain::attribute(double us, int task, ChainTimes& result) const {
  if (task < 0) return;
  if (tasks_[to_index(task)].stream == kHostStream) {
    result.host_us += us;
  } else {
    result.exposed_us[notes_[to_index(task)].name] += us;
  }
}

int StepChain::add(std::string name, int stream, double us, std::vector<int> after,
                   std::vector<ResourceUse> uses, const ClassTimes& kernels) {
  std::erase(after, -1);
  tasks_.push_back({us, stream, std::move(after), std::move(uses)});
  notes_.push_back({std::move(name), kernels});
  return static_cast<int>(tasks_.size()) - 1;
}

int StepChain::add_kernels(ClassTimes kernels, double share, int count, std::vector<int> after,
                           double share_of_memory) {
  double us = 0.0;
  for (double& each : kernels) us += each *= share;
  after.push_back(last_compute_);
  const bool launches = !run_.graphs && prices_.factors().host_us > 0;
  if (launches) after.push_back(last_host_);
  const int task = add(
      "kernels", kComputeStream, us, std::move(after),
      {{StepResource::kMultiprocessors, 1.0}, {StepResource::kMemory, share_of_memory}}, kernels);
  if (launches) {
    last_host_ = add("host", kHostStream, count * prices_.factors().host_us, {}, {});
  }
  last_compute_ = task;
  return task;
}

int StepChain::add_pieces(const std::vector<PricedPiece>& pieces, int gathered, std::size_t block,
                          bool copies) {
  std::vector<int> waits = {gathered};
  const double copied = travelling(work_.blocks()[block], 4.0);
  if (copies && run_.copies_weights && copied > 0) {
    // What was gathered is copied from the flat buffer into the parameters.
    ClassTimes copy = {};
    copy[static_cast<std::size_t>(KernelClass::kOther)] = prices_.memory_us(copied);
    add_kernels(copy, 1.0, 1, {gathered});
  }
  int early = -1;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PricedPiece& piece = pieces[i];
    if (piece.waits) waits.push_back(std::exchange(early, -1));
    if (!piece.is_collective) {
      // Kernels beside a collective are added with it.
      const Beside beside = beside_of(pieces, i);
      const double us = piece.us();
      const double share = us > 0 ? std::max(0.0, 1.0 - (beside.first + beside.last) / us) : 1.0;
      add_kernels(piece.kernels_us, share, piece.kernels, std::exchange(waits, {}),
                  piece.share_of_memory);
      continue;
    }
    if (run_.overlap_experts && piece.kind == Collective::kAllToAll) {
      // Another micro-batch computes meanwhile.
      add(std::string(to_string(piece.kind)), kActivationStream, piece.collective_us,
          {last_compute_}, piece.uses);
      continue;
    }
    if (piece.early) {
      early = add(std::string(to_string(piece.kind)), kActivationStream, piece.collective_us,
                  {last_compute_}, piece.uses);
      continue;
    }
    if (!runs_beside(pieces, i)) {
      waits.push_back(add(std::string(to_string(piece.kind)), kActivationStream,
                          piece.collective_us, {last_compute_}, piece.uses));
      continue;
    }
    // The product is cut into as many parts as there are ranks, and the parts travel meanwhile:
    // all but the first part for a product after a gather, all but the last before a scatter.
    const std::size_t neighbour = piece.leads ? i + 1 : i - 1;
    const PricedPiece& product = pieces[neighbour];
    const Beside beside = beside_of(pieces, neighbour);
    const double parts = std::max(
        2.0, to_real(piece.group == WorkGroup::kContext ? run_.spread.cp : run_.spread.tp));
    const double share = (piece.leads ? beside.first : beside.last) / product.us();
    const int start = last_compute_;
    const int moved = add(std::string(to_string(piece.kind)), kActivationStream,
                          piece.collective_us, {start}, piece.uses);
    add_kernels(product.kernels_us, share * (1 - 1 / parts), 0, std::exchange(waits, {}),
                product.share_of_memory);
    add_kernels(product.kernels_us, share / parts, 0,
                piece.leads ? std::vector<int>{moved} : std::vector<int>{},
                product.share_of_memory);
    if (!piece.leads) waits.push_back(moved);
  }
  if (waits.size() > 1 || (waits.size() == 1 && waits[0] >= 0)) {
    add_kernels({}, 1.0, 0, std::move(waits));
  }
  return last_compute_;
}

double StepChain::travelling(const RankBlock& block, double bytes) const {
  double elements = 0.0;
  if (prices_.groups().shards.ranks > 1) elements += block.weight_elements;
  if (prices_.groups().expert_shards.ranks > 1) elements += block.expert_weight_elements;
  return bytes * elements;
}

int StepChain::travel(Collective kind, int stream, double bytes, const GroupSpan& span, int after) {
  const double us = prices_.collective_us(kind, bytes, span);
  return add(std::string(to_string(kind)), stream, us, {after}, prices_.uses(span, bytes, us));
}

int StepChain::gather(std::size_t index, int after) {
  const RankBlock& block = work_.blocks()[index];
  const double bytes = run_.gathers_fp8 ? 1.0 : 2.0;
  const GroupSpan& shards = prices_.groups().shards;
  int task = after;
  if (shards.ranks > 1) {
    task =
        travel(Collective::kAllGather, kGatherStream, bytes * block.weight_elements, shards, task);
  }
  const GroupSpan& experts = prices_.groups().expert_shards;
  if (block.expert_weight_elements > 0 && experts.ranks > 1) {
    task = travel(Collective::kAllGather, kGatherStream, bytes * block.expert_weight_elements,
                  experts, task);
  }
  return task;
}

void StepChain::sum_up(std::size_t index) {
  const double elements = work_.blocks()[index].trained_elements;
  if (elements <= 0) return;
  ClassTimes sum = {};
  sum[static_cast<std::size_t>(KernelClass::kOther)] =
      prices_.memory_us((2.0 + 2.0 * run_.gradient_bytes) * elements);
  add_kernels(sum, 1.0, 1, {});
}

void StepChain::reduce(std::size_t index, int after) {
  const RankBlock& block = work_.blocks()[index];
  if (block.trained_elements <= 0) return;
  const double bytes = run_.gradient_bytes;
  const double copied = travelling(block, 2.0 + bytes);
  if (run_.copies_weights && copied > 0) {
    ClassTimes copy = {};
    copy[static_cast<std::size_t>(KernelClass::kOther)] = prices_.memory_us(copied);
    after = add_kernels(copy, 1.0, 1, {});
  }
  const StepGroups& groups = prices_.groups();
  const Collective kind =
      run_.sharding == Sharding::kNone ? Collective::kAllReduce : Collective::kReduceScatter;
  if (groups.shards.ranks > 1) {
    after = travel(kind, kReduceStream, bytes * block.weight_elements, groups.shards, after);
  }
  if (groups.replicas.ranks > 1) {
    after = travel(Collective::kAllReduce, kReduceStream,
                   bytes * block.weight_elements / to_real(groups.shards.ranks), groups.replicas,
                   after);
  }
  if (block.expert_weight_elements > 0 && groups.expert_shards.ranks > 1) {
    after = travel(kind, kReduceStream, bytes * block.expert_weight_elements, groups.expert_shards,
                   after);
  }
  if (block.expert_weight_elements > 0 && groups.expert_replicas.ranks > 1) {
    travel(Collective::kAllReduce, kReduceStream,
           bytes * block.expert_weight_elements / to_real(groups.expert_shards.ranks),
           groups.expert_replicas, after);
  }
}

}  // namespace shardlab
