#include "strategies/training/step_prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "costmodel/base/error.h"
#include "strategies/training/model_work.h"

namespace shardlab {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
double d(std::int64_t value) { return static_cast<double>(value); }

constexpr int kComputeStream = 0;
constexpr int kActivationStream = 1;
constexpr int kGatherStream = 2;
constexpr int kReduceStream = 3;
constexpr int kHostStream = 4;
constexpr int kStreamCount = 5;
constexpr std::array<const char*, kStreamCount> kStreamNames = {
    "compute", "collectives of activations", "gathers of weights", "reductions of gradients",
    "host"};

constexpr int kMultiprocessors = 0;
constexpr int kMemory = 1;  // the bandwidth of the device's memory
constexpr int kLinks = 2;
constexpr int kNetwork = 3;
constexpr int kResources = 4;

// What a group of `ranks` ranks, `stride` apart, spans.
GroupSpan span_of(std::int64_t ranks, std::int64_t stride, const Topology& topology) {
  const auto touched = [&](std::int64_t block) {
    const std::int64_t in_block = std::max<std::int64_t>(1, std::min(ranks, block / stride));
    return (ranks + in_block - 1) / in_block;
  };
  GroupSpan span;
  span.ranks = ranks;
  span.hosts = touched(topology.devices_per_host());
  span.domains = touched(topology.domain_devices());
  span.ranks_per_host = std::max<std::int64_t>(1, ranks / span.hosts);
  span.extent = (ranks - 1) * stride + 1;
  span.walk = ranks * stride;
  return span;
}

// -- The ranks' groups --------------------------------------------------------------------------

struct Groups {
  GroupSpan tensor;
  GroupSpan context;
  GroupSpan experts;
  GroupSpan shards;         // among which weights are sharded
  GroupSpan replicas;       // of the shards
  GroupSpan expert_shards;  // of the experts' weights
  GroupSpan neighbours;     // two stages of the pipeline

  Groups(const TrainingRun& run, const Topology& topology) {
    const Spread& spread = run.spread;
    const std::int64_t data = spread.dp * spread.fsdp;
    const bool shards_all = run.sharding == Sharding::kOptimizer || run.sharding == Sharding::kNone;
    tensor = span_of(spread.tp, 1, topology);
    context = span_of(spread.cp, spread.tp, topology);
    experts = span_of(spread.ep, 1, topology);
    const std::int64_t shard_ranks = spread.cp * (shards_all ? data : spread.fsdp);
    shards = span_of(shard_ranks, spread.tp, topology);
    replicas = span_of(shards_all ? 1 : spread.dp, spread.tp * spread.cp * spread.fsdp, topology);
    expert_shards = span_of(std::max<std::int64_t>(1, data * spread.cp * spread.tp /
                                                          std::max<std::int64_t>(1, spread.ep)),
                            spread.ep, topology);
    neighbours = span_of(2, spread.tp * spread.cp * data, topology);
  }
};

// -- Prices ------------------------------------------------------------------------------------

class Prices {
 public:
  Prices(const TrainingRun& run, const StepModel& model)
      : run_(run), model_(model), groups_(run, model.topology) {}

  [[nodiscard]] const Groups& groups() const { return groups_; }
  [[nodiscard]] const StepFactors& factors() const { return model_.factors; }

  [[nodiscard]] double kernel_us(const RankKernel& kernel) const {
    double price = model_.kernels.price(kernel.query).total.value() / model_.factors.rate;
    if (kernel.query.gemm && kernel.query.gemm->batch > 1) price /= model_.factors.grouped;
    switch (kernel.kind) {
      case KernelClass::kGemm:
        return price / model_.factors.gemm;
      case KernelClass::kLowGemm:
        return price / model_.factors.low_gemm;
      case KernelClass::kAttention:
        return price / model_.factors.attention;
      case KernelClass::kOther:
        break;
    }
    return price / model_.factors.memory;
  }

  [[nodiscard]] double memory_us(double bytes) const {
    if (bytes <= 0) return 0.0;
    return kernel_us({.query = {.kind = Kernel::kElementwise, .bytes = bytes, .dtype = DType::kF32},
                      .name = "memory"});
  }

  [[nodiscard]] double collective_us(Collective kind, double bytes, const GroupSpan& span) const {
    if (bytes <= 0 || span.ranks <= 1) return 0.0;
    const Price price = model_.collectives.price({kind, bytes, span});
    const double factor = leaves_domain(span) ? model_.factors.network : model_.factors.links;
    return price.total.value() - price.transfer.value() + price.transfer.value() / factor;
  }

  [[nodiscard]] const GroupSpan& span(WorkGroup group) const {
    switch (group) {
      case WorkGroup::kContext:
        return groups_.context;
      case WorkGroup::kExperts:
        return groups_.experts;
      default:
        return groups_.tensor;
    }
  }

  [[nodiscard]] double collective_us(const RankCollective& each) const {
    const GroupSpan& group = span(each.group);
    // What travels in a ring passes one link at a time.
    if (each.kind == Collective::kSendRecv) {
      GroupSpan pair = group;
      pair.ranks = std::min<std::int64_t>(2, group.ranks);
      pair.hosts = std::min<std::int64_t>(2, group.hosts);
      pair.domains = std::min<std::int64_t>(2, group.domains);
      pair.ranks_per_host = std::max<std::int64_t>(1, pair.ranks / pair.hosts);
      return collective_us(each.kind, each.full_bytes, pair);
    }
    return collective_us(each.kind, each.full_bytes, group);
  }

  [[nodiscard]] static bool leaves_domain(const GroupSpan& span) { return span.domains > 1; }

  // What a collective of `bytes` that takes `us` uses.
  [[nodiscard]] std::vector<ResourceUse> uses(const GroupSpan& span, double bytes,
                                              double us) const {
    return {{kMultiprocessors, model_.factors.collective_share},
            {kMemory, us > 0 ? share_of_memory(model_.factors.memory_passes * bytes, us) : 0.0},
            {leaves_domain(span) ? kNetwork : kLinks, 1.0}};
  }
  [[nodiscard]] double share_of_memory(double bytes, double us) const {
    return std::min(1.0,
                    transfer_time(bytes, model_.topology.device().memory_bandwidth).value() / us);
  }

 private:
  const TrainingRun& run_;
  const StepModel& model_;
  Groups groups_;
};

// -- A chain of passes on the streams of one rank ------------------------------------------------

using ClassTimes = std::array<double, kKernelClasses>;

// A piece with its prices.
struct PricedPiece {
  ClassTimes kernels_us = {};
  int kernels = 0;
  double bytes = 0.0;               // that the kernels read and write
  double share_of_memory = 0.0;     // of its bandwidth, that the kernels use
  double first_us = 0.0;            // of the GEMMs that it begins with
  double last_us = 0.0;             // of the GEMMs that it ends with
  double first_attention_us = 0.0;  // of the attention that it begins with
  double last_attention_us = 0.0;   // of the attention that it ends with
  bool is_collective = false;
  bool beside = false;
  bool leads = false;
  double collective_us = 0.0;
  Collective kind = Collective::kLocal;
  WorkGroup group = WorkGroup::kNone;
  std::vector<ResourceUse> uses;

  // The time of its kernels that `collective` may run beside: GEMMs, or attention for a ring of keys
  // and values.
  [[nodiscard]] double first_beside(const PricedPiece& collective) const {
    return collective.group == WorkGroup::kContext ? first_attention_us : first_us;
  }
  [[nodiscard]] double last_beside(const PricedPiece& collective) const {
    return collective.group == WorkGroup::kContext ? last_attention_us : last_us;
  }
  [[nodiscard]] double us() const {
    double sum = 0.0;
    for (const double each : kernels_us) sum += each;
    return sum;
  }
};

std::vector<PricedPiece> priced(const std::vector<RankPiece>& pieces, const Prices& prices,
                                bool library) {
  std::vector<PricedPiece> result;
  for (const RankPiece& piece : pieces) {
    PricedPiece out;
    if (piece.collective) {
      out.is_collective = true;
      out.beside = piece.collective->beside;
      out.leads = piece.collective->leads;
      out.kind = piece.collective->kind;
      out.group = piece.collective->group;
      out.collective_us = prices.collective_us(*piece.collective);
      out.uses = prices.uses(prices.span(piece.collective->group), piece.collective->full_bytes,
                             out.collective_us);
      result.push_back(std::move(out));
      continue;
    }
    // How long kernels of one class, from the first kernel on, or up to the last, take.
    bool only_gemms = true;
    bool only_attention = true;
    for (const RankKernel& kernel : piece.kernels) {
      const double us = prices.kernel_us(kernel);
      out.kernels_us[static_cast<std::size_t>(kernel.kind)] += us;
      out.bytes += kernel.query.bytes;
      // Transformer Engine launches the GEMM of each expert by itself.
      const bool is_grouped = kernel.query.gemm && kernel.query.gemm->batch > 1;
      out.kernels += is_grouped && library ? static_cast<int>(kernel.query.gemm->batch) : 1;
      const bool is_attention = kernel.kind == KernelClass::kAttention;
      const bool is_gemm = !is_attention && kernel.kind != KernelClass::kOther;
      only_gemms = only_gemms && is_gemm;
      only_attention = only_attention && is_attention;
      if (only_gemms) out.first_us += us;
      if (only_attention) out.first_attention_us += us;
      out.last_us = is_gemm ? out.last_us + us : 0.0;
      out.last_attention_us = is_attention ? out.last_attention_us + us : 0.0;
    }
    out.share_of_memory = out.us() > 0 ? prices.share_of_memory(out.bytes, out.us()) : 0.0;
    result.push_back(std::move(out));
  }
  return result;
}

struct PricedBlock {
  std::vector<PricedPiece> forward;
  std::vector<PricedPiece> backward;
};

struct ChainTimes {
  double total_us = 0.0;
  ClassTimes kernels_us = {};
  std::map<std::string, double> exposed_us;
  double collectives_us = 0.0;  // all of them, exposed or not
  double host_us = 0.0;
  std::vector<StepSpan> timeline;
};

class Chain {
 public:
  Chain(const StepWork& work, const Prices& prices, const std::vector<PricedBlock>& blocks)
      : work_(work), run_(work.run()), prices_(prices), blocks_(blocks) {}

  // Whether weights are gathered by these passes and gradients reduced.
  struct Traffic {
    bool gathers = false;
    bool reduces = false;
  };

  void forward(const std::vector<StepWork::Unit>& units, Traffic traffic) {
    std::vector<int> ends;
    int before = -1;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const int gathered = traffic.gathers ? gather(units[i].block, before_last(ends)) : -1;
      before =
          add_pieces(blocks_[units[i].block].forward, gathered, units[i].block, traffic.gathers);
      ends.push_back(before);
    }
  }

  void backward(const std::vector<StepWork::Unit>& units, Traffic traffic) {
    std::vector<int> ends;
    for (std::size_t i = units.size(); i-- > 0;) {
      // The unit that the forward pass used last still has its weights.
      const bool again =
          traffic.gathers && run_.sharding == Sharding::kFull && i + 1 < units.size();
      const int gathered = again ? gather(units[i].block, before_last(ends)) : -1;
      const int end = add_pieces(blocks_[units[i].block].backward, gathered, units[i].block, again);
      ends.push_back(end);
      if (traffic.reduces && run_.overlap_gradients) reduce(units[i].block, end);
    }
    if (!traffic.reduces || run_.overlap_gradients) return;
    for (std::size_t i = units.size(); i-- > 0;) reduce(units[i].block, last_compute_);
  }

  [[nodiscard]] ChainTimes times(bool with_timeline) const {
    const std::vector<FluidSpan> spans = simulate_fluid(tasks_, kStreamCount, kResources);
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
      if (slowed > 1e-9) result.exposed_us["contention"] += slowed;
      for (std::size_t c = 0; c < kKernelClasses; ++c)
        result.kernels_us[c] += notes_[i].kernels_us[c];
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
        result.timeline.push_back({notes_[i].name, kStreamNames[at(tasks_[i].stream)],
                                   spans[i].start_us, spans[i].end_us});
      }
    }
    return result;
  }

 private:
  struct Note {
    std::string name;
    ClassTimes kernels_us = {};
  };

  static int latest(const std::vector<int>& after, const std::vector<FluidSpan>& spans) {
    int last = -1;
    for (const int task : after) {
      if (last < 0 || spans[at(task)].end_us > spans[at(last)].end_us) last = task;
    }
    return last;
  }

  void attribute(double us, int task, ChainTimes& result) const {
    if (task < 0) return;
    if (tasks_[at(task)].stream == kHostStream) {
      result.host_us += us;
    } else {
      result.exposed_us[notes_[at(task)].name] += us;
    }
  }

  // The end of the unit before the last one: when its weights have been freed, the next gather may
  // start.
  static int before_last(const std::vector<int>& ends) {
    return ends.size() < 2 ? -1 : ends[ends.size() - 2];
  }

  int add(std::string name, int stream, double us, std::vector<int> after,
          std::vector<ResourceUse> uses, const ClassTimes& kernels = {}) {
    std::erase(after, -1);
    tasks_.push_back({us, stream, std::move(after), std::move(uses)});
    notes_.push_back({std::move(name), kernels});
    return static_cast<int>(tasks_.size()) - 1;
  }

  // The task that runs these kernels. The host has issued the kernels before it, and takes its time
  // to issue these.
  int add_kernels(ClassTimes kernels, double share, int count, std::vector<int> after,
                  double share_of_memory = 1.0) {
    double us = 0.0;
    for (double& each : kernels) us += each *= share;
    after.push_back(last_compute_);
    const bool launches = !run_.graphs && prices_.factors().host_us > 0;
    if (launches) after.push_back(last_host_);
    const int task = add("kernels", kComputeStream, us, std::move(after),
                         {{kMultiprocessors, 1.0}, {kMemory, share_of_memory}}, kernels);
    if (launches) {
      last_host_ = add("host", kHostStream, count * prices_.factors().host_us, {}, {});
    }
    last_compute_ = task;
    return task;
  }

  // Adds the pieces of a pass. Returns the last task.
  int add_pieces(const std::vector<PricedPiece>& pieces, int gathered, std::size_t block,
                 bool copies) {
    std::vector<int> waits = {gathered};
    const double copied = travelling(work_.blocks()[block], 4.0);
    if (copies && run_.copies_weights && copied > 0) {
      // What was gathered is copied from the flat buffer into the parameters.
      ClassTimes copy = {};
      copy[static_cast<std::size_t>(KernelClass::kOther)] = prices_.memory_us(copied);
      add_kernels(copy, 1.0, 1, {gathered});
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const PricedPiece& piece = pieces[i];
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
      const double parts =
          std::max(2.0, d(piece.group == WorkGroup::kContext ? run_.spread.cp : run_.spread.tp));
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

  // Whether a collective runs beside a product that is its neighbour.
  [[nodiscard]] static bool runs_beside(const std::vector<PricedPiece>& pieces, std::size_t i) {
    const PricedPiece& piece = pieces[i];
    if (!piece.is_collective || !piece.beside) return false;
    if (piece.leads) {
      return i + 1 < pieces.size() && !pieces[i + 1].is_collective &&
             pieces[i + 1].first_beside(piece) > 0;
    }
    return i > 0 && !pieces[i - 1].is_collective && pieces[i - 1].last_beside(piece) > 0;
  }

  // How much of a piece's kernels runs beside the collective before it, and beside the one after it. A
  // piece may have too few kernels for both, which then have half of them each.
  struct Beside {
    double first = 0.0;
    double last = 0.0;
  };
  [[nodiscard]] static Beside beside_of(const std::vector<PricedPiece>& pieces, std::size_t i) {
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

  // The bytes of a unit's weights that are gathered from other ranks, at `bytes` for each element.
  [[nodiscard]] double travelling(const RankBlock& block, double bytes) const {
    double elements = 0.0;
    if (prices_.groups().shards.ranks > 1) elements += block.weight_elements;
    if (prices_.groups().expert_shards.ranks > 1) elements += block.expert_weight_elements;
    return bytes * elements;
  }

  // A collective of weights or gradients.
  int travel(Collective kind, int stream, double bytes, const GroupSpan& span, int after) {
    const double us = prices_.collective_us(kind, bytes, span);
    return add(std::string(to_string(kind)), stream, us, {after}, prices_.uses(span, bytes, us));
  }

  int gather(std::size_t index, int after) {
    const RankBlock& block = work_.blocks()[index];
    const double bytes = run_.gathers_fp8 ? 1.0 : 2.0;
    const GroupSpan& shards = prices_.groups().shards;
    int task = after;
    if (shards.ranks > 1) {
      task = travel(Collective::kAllGather, kGatherStream, bytes * block.weight_elements, shards,
                    task);
    }
    const GroupSpan& experts = prices_.groups().expert_shards;
    if (block.expert_weight_elements > 0 && experts.ranks > 1) {
      task = travel(Collective::kAllGather, kGatherStream, bytes * block.expert_weight_elements,
                    experts, task);
    }
    return task;
  }

  void reduce(std::size_t index, int after) {
    const RankBlock& block = work_.blocks()[index];
    if (block.trained_elements <= 0) return;
    const double bytes = run_.gradient_bytes;
    const double copied = travelling(block, 2.0 + bytes);
    if (run_.copies_weights && copied > 0) {
      ClassTimes copy = {};
      copy[static_cast<std::size_t>(KernelClass::kOther)] = prices_.memory_us(copied);
      after = add_kernels(copy, 1.0, 1, {});
    }
    const Groups& groups = prices_.groups();
    const Collective kind =
        run_.sharding == Sharding::kNone ? Collective::kAllReduce : Collective::kReduceScatter;
    if (groups.shards.ranks > 1) {
      after = travel(kind, kReduceStream, bytes * block.weight_elements, groups.shards, after);
    }
    if (groups.replicas.ranks > 1) {
      after =
          travel(Collective::kAllReduce, kReduceStream,
                 bytes * block.weight_elements / d(groups.shards.ranks), groups.replicas, after);
    }
    if (block.expert_weight_elements > 0 && groups.expert_shards.ranks > 1) {
      travel(kind, kReduceStream, bytes * block.expert_weight_elements, groups.expert_shards,
             after);
    }
  }

  const StepWork& work_;
  const TrainingRun& run_;
  const Prices& prices_;
  const std::vector<PricedBlock>& blocks_;
  std::vector<FluidTask> tasks_;
  std::vector<Note> notes_;
  int last_compute_ = -1;
  int last_host_ = -1;
};

// -- Sums over the step -------------------------------------------------------------------------

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
        std::max(1.0, d(run_.spread.ranks()) / d(model_.topology.devices_per_host()));
    const double waiting = model_.factors.waiting * std::log2(hosts) * result.step_us;
    if (waiting > 0) result.breakdown.exposed_us["waiting"] += waiting;
    result.step_us += waiting + model_.factors.fixed_us;
    result.breakdown.host_us += model_.factors.fixed_us;
    const double tokens = run_.tokens_per_step() / d(run_.spread.ranks());
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
      Chain tasks(work_, prices_, blocks_);
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
    const double more = d(run_.grad_accum - 1);
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
      Chain ahead(work_, prices_, blocks_);
      ahead.forward(work_.stages()[s], {.gathers = shards_weights()});
      forward[s] = ahead.times(with_timeline && s == 0);
      Chain back(work_, prices_, blocks_);
      back.backward(work_.stages()[s], {.gathers = shards_weights()});
      backward[s] = back.times(false);
      double weights_us = 0.0;
      for (const StepWork::Unit& unit : work_.stages()[s]) weights_us += weights_part(unit.block);
      pipeline.stages[s] = {forward[s].total_us, backward[s].total_us,
                            std::min(weights_us, 0.5 * backward[s].total_us), send_us};
    }
    const PipelineTimes times = simulate_pipeline(pipeline);
    const auto busiest = static_cast<std::size_t>(times.busiest);
    for (std::size_t s = busiest; s < stages; s += at(run_.spread.pp)) {
      add_times(result.breakdown, forward[s], d(run_.grad_accum));
      add_times(result.breakdown, backward[s], d(run_.grad_accum));
    }
    result.breakdown.bubble_us += times.bubble_us;
    result.timeline = forward.front().timeline;

    // Weights are gathered beside the first forward pass and gradients reduced beside the last
    // backward pass of the rank's first stage; those of its other stages travel before.
    Chain first(work_, prices_, blocks_);
    first.forward(work_.stages()[busiest], {.gathers = true});
    Chain last(work_, prices_, blocks_);
    last.backward(work_.stages()[busiest], {.gathers = shards_weights(), .reduces = true});
    const double gathers = std::max(0.0, first.times(false).total_us - forward[busiest].total_us);
    const double reduces = std::max(0.0, last.times(false).total_us - backward[busiest].total_us);
    double exposed = reduces;
    if (run_.sharding == Sharding::kOptimizer) {
      exposed += gathers;
      result.breakdown.exposed_us["all_gather"] += gathers;
    }
    result.breakdown.exposed_us["reduce_scatter"] += reduces;
    return times.total_us + exposed;
  }

  [[nodiscard]] double hidden_bytes() const {
    return 2.0 * d(run_.micro_batch) * d(run_.seq) / d(run_.spread.cp * run_.spread.tp) *
           d(run_.shape.width);
  }

  // The time of the gradients of weights in the backward pass: as long as the products of the forward
  // pass take, which are as large.
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
    const double shards = run_.sharding == Sharding::kNone ? 1.0 : d(prices_.groups().shards.ranks);
    const double expert_shards =
        run_.sharding == Sharding::kNone ? 1.0 : d(prices_.groups().expert_shards.ranks);
    std::vector<double> by_rank(at(run_.spread.pp), 0.0);
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
  Prices prices_;
  std::vector<PricedBlock> blocks_;
};

}  // namespace

namespace {

std::vector<RankPiece> repeated(const std::vector<RankPiece>& pieces, std::int64_t times) {
  std::vector<RankPiece> result;
  for (std::int64_t i = 0; i < times; ++i) {
    result.insert(result.end(), pieces.begin(), pieces.end());
  }
  return result;
}

}  // namespace

// -- Work ----------------------------------------------------------------------------------------

StepWork::StepWork(const TrainingRun& run, double device_bytes) : run_(run) {
  expect_valid(run);
  if (run.recompute) {
    make(*run.recompute);
    return;
  }
  using Kind = Recomputation::Kind;
  for (const Kind kind : {Kind::kNone, Kind::kSelective, Kind::kFull}) {
    make({.kind = kind});
    if (memory_.peak_bytes <= device_bytes) return;
  }
}

void StepWork::make(const Recomputation& policy) {
  recompute_ = policy;
  blocks_.clear();
  stages_.assign(at(run_.spread.pp * run_.chunks), {});
  std::vector<std::pair<BlockPlace, Keeping>> made;
  std::vector<BlockPlace> places = blocks_of(run_.shape);
  for (std::int64_t i = 0; i < run_.shape.predicted_tokens; ++i) places.push_back(places.back());
  const auto stage_count = static_cast<std::int64_t>(stages_.size());
  const auto block_count = static_cast<std::int64_t>(places.size());

  blocks_.push_back(rank_block(run_, embedding_work(run_), Keeping::kAll));
  stages_.front().push_back({0, false});
  made.push_back({});
  for (std::int64_t i = 0; i < block_count; ++i) {
    const Keeping keeping = keeping_of(policy, i, block_count);
    std::size_t found = 0;
    for (std::size_t k = 1; k < made.size(); ++k) {
      if (made[k] == std::pair(places[at(i)], keeping)) found = k;
    }
    if (found == 0) {
      found = blocks_.size();
      blocks_.push_back(rank_block(run_, block_work(run_, places[at(i)]), keeping));
      made.emplace_back(places[at(i)], keeping);
    }
    stages_[at(i * stage_count / block_count)].push_back({found, true});
  }
  stages_.back().push_back({blocks_.size(), false});
  // A loss that is not compiled runs in eager mode, and with it what computes the logits.
  TrainingRun output = run_;
  if (!output.compiled_loss && output.execution == Execution::kCompiled) {
    output.execution = Execution::kEager;
  }
  // In chunks, logits and their gradients are there for one part of the tokens at a time.
  output.seq /= run_.loss_chunks;
  RankBlock last = rank_block(output, output_work(output), Keeping::kAll);
  if (run_.loss_chunks > 1) {
    last.forward = repeated(last.forward, run_.loss_chunks);
    last.backward = repeated(last.backward, run_.loss_chunks);
    last.input_bytes *= d(run_.loss_chunks);
    last.kept_bytes += last.input_bytes;
  }
  blocks_.push_back(std::move(last));
  memory_ = memory_of();
}

TrainingMemory StepWork::memory_of() const {
  const Spread& spread = run_.spread;
  const bool full = run_.sharding == Sharding::kFull || run_.sharding == Sharding::kKeptWeights;
  const double data = d(spread.dp * spread.fsdp * spread.cp);
  const double shards = run_.sharding == Sharding::kNone        ? 1.0
                        : run_.sharding == Sharding::kOptimizer ? data
                                                                : d(spread.fsdp * spread.cp);
  const double expert_shards =
      run_.sharding == Sharding::kNone ? 1.0 : std::max(1.0, data * d(spread.tp) / d(spread.ep));
  TrainingMemory most;
  for (std::int64_t rank = 0; rank < spread.pp; ++rank) {
    TrainingMemory memory;
    double largest_unit = 0.0;
    double kept = 0.0;
    double kept_once = 0.0;
    double working = 0.0;
    double elements = 0.0;
    for (std::int64_t chunk = 0; chunk < run_.chunks; ++chunk) {
      for (const Unit& unit : stages_[at(chunk * spread.pp + rank)]) {
        const RankBlock& block = blocks_[unit.block];
        const double all = block.weight_elements + block.expert_weight_elements;
        const double sharded =
            block.weight_elements / shards + block.expert_weight_elements / expert_shards;
        memory.parameters += full ? 4.0 * sharded : 2.0 * all;
        const bool trains = block.trained_elements > 0;
        if (trains) {
          memory.gradients += full ? 4.0 * sharded : run_.gradient_bytes * all;
          memory.optimizer += (full ? 8.0 : run_.optimizer_bytes) * sharded;
        }
        elements += all;
        largest_unit = std::max(largest_unit, all);
        // The output's backward pass follows its forward pass at once, except in GPipe.
        const bool is_output = unit.block + 1 == blocks_.size();
        (is_output && run_.schedule != PipelineSchedule::kGPipe ? kept_once : kept) +=
            block.kept_bytes;
        working = std::max(working, block.working_bytes);
      }
    }
    const Pipeline pipeline{.schedule = run_.schedule,
                            .ranks = spread.pp,
                            .chunks = run_.chunks,
                            .micro_batches = run_.grad_accum,
                            .stages = {}};
    const double held = spread.pp > 1 ? micro_batches_held(pipeline, rank) / d(run_.chunks) : 1.0;
    memory.activations = kept * held + kept_once;
    if (run_.sharding == Sharding::kKeptWeights) {
      memory.gathered = 2.0 * elements;
    } else if (full) {
      memory.gathered = 2.0 * 2.0 * largest_unit;
    }
    if (full) memory.gathered += run_.gradient_bytes * largest_unit;
    memory.temporary = working;
    // Without accumulation, gradients come into being while activations go.
    if (full && run_.grad_accum == 1) {
      memory.gradients = std::max(0.0, memory.gradients - memory.activations);
    }
    memory.peak_bytes = memory.parameters + memory.gradients + memory.optimizer +
                        memory.activations + memory.gathered + memory.temporary;
    if (memory.peak_bytes > most.peak_bytes) most = memory;
  }
  return most;
}

StepPrediction predict_step(const StepWork& work, const StepModel& model, bool with_timeline) {
  return StepPredictor(work, model).predict(with_timeline);
}

StepPrediction predict_step(const TrainingRun& run, const StepModel& model) {
  return predict_step(StepWork(run, model.topology.device().memory_gib * kBytesPerGiB), model);
}

}  // namespace shardlab
