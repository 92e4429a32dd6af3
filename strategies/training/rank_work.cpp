#include "strategies/training/rank_work.h"

#include <algorithm>
#include <set>

#include "costmodel/base/index.h"
#include "strategies/steps/fusion.h"

namespace shardlab {
namespace {

bool is_heavy(const WorkOp& op) {
  return op.kind == WorkKind::kGemm || op.kind == WorkKind::kAttention ||
         op.kind == WorkKind::kScan || op.kind == WorkKind::kCollective ||
         op.kind == WorkKind::kLookup;
}

// Which tensors of the forward pass are kept, and which of its operators run again.
class Recomputed {
 public:
  Recomputed(const TrainingRun& run, const BlockWork& work, Keeping keeping)
      : work_(work),
        maker_(work.tensors.size(), -1),
        keepable_(work.tensors.size(), false),
        kept_(work.tensors.size(), false),
        again_(work.forward.size(), false) {
    for (std::size_t i = 0; i < work.forward.size(); ++i) {
      for (const int tensor : work.forward[i].writes)
        maker_[to_index(tensor)] = static_cast<int>(i);
    }
    int products = 0;
    for (const WorkOp& op : work.forward) {
      if (op.kind == WorkKind::kGemm) ++products;
      for (const int tensor : op.writes) {
        keepable_[to_index(tensor)] =
            keeps(run, op, work.tensors[to_index(tensor)], keeping, products);
      }
    }
    if (work.input >= 0) keepable_[to_index(work.input)] = true;
    for (const WorkOp& op : work.backward) {
      for (const int tensor : op.reads) need(tensor);
    }
    // The cache of selective recomputation holds its results whether they are read or not.
    if (keeping == Keeping::kSelected) {
      for (std::size_t i = 0; i < keepable_.size(); ++i) {
        if (keepable_[i] && maker_[i] >= 0) kept_[i] = true;
      }
    }
    for (const int tensor : work.held) kept_[to_index(tensor)] = true;
    if (keeping != Keeping::kAll && work.input >= 0) kept_[to_index(work.input)] = true;
  }

  [[nodiscard]] const std::vector<bool>& kept() const { return kept_; }
  [[nodiscard]] const std::vector<bool>& again() const { return again_; }

 private:
  static bool keeps(const TrainingRun& run, const WorkOp& op, const WorkTensor& tensor,
                    Keeping keeping, int products) {
    switch (keeping) {
      case Keeping::kInput:
        return false;
      case Keeping::kSelected:
        return op.kind == WorkKind::kAttention ||
               (op.kind == WorkKind::kGemm && products % 2 == 1) ||
               (op.kind == WorkKind::kCollective && op.collective == Collective::kReduceScatter);
      case Keeping::kAll:
        break;
    }
    if (run.execution != Execution::kCompiled || is_heavy(op)) return true;
    return op.kind == WorkKind::kReduction && tensor.elements < op.elements;
  }

  void need(int tensor) {
    if (work_.tensors[to_index(tensor)].weight) return;
    const int maker = maker_[to_index(tensor)];
    if (maker < 0 && tensor != work_.input) return;  // the backward pass made it
    if (keepable_[to_index(tensor)]) {
      kept_[to_index(tensor)] = true;
      return;
    }
    if (again_[to_index(maker)]) return;
    again_[to_index(maker)] = true;
    for (const int read : work_.forward[to_index(maker)].reads) need(read);
  }

  const BlockWork& work_;
  std::vector<int> maker_;
  std::vector<bool> keepable_;
  std::vector<bool> kept_;
  std::vector<bool> again_;
};

FusionKind fusion_kind(const WorkOp& op) {
  switch (op.kind) {
    case WorkKind::kPointwise:
      return FusionKind::kPointwise;
    case WorkKind::kReduction:
      return FusionKind::kReduction;
    default:
      return FusionKind::kBarrier;
  }
}

RankKernel kernel_of(const std::vector<WorkOp>& ops, const FusedKernel& fused) {
  const WorkOp& first = ops[to_index(fused.ops.front())];
  RankKernel kernel{
      .query = {.bytes = fused.bytes_read + fused.bytes_written, .dtype = DType::kBF16},
      .kind = KernelClass::kOther,
      .name = first.name};
  switch (first.kind) {
    case WorkKind::kGemm:
      kernel.kind = first.low_precision ? KernelClass::kLowGemm : KernelClass::kGemm;
      kernel.query.kind = Kernel::kGemm;
      kernel.query.dtype = first.dtype;
      kernel.query.flops = first.flops;
      kernel.query.gemm = first.gemm;
      break;
    case WorkKind::kAttention:
      kernel.kind = KernelClass::kAttention;
      kernel.query.kind = Kernel::kAttention;
      kernel.query.flops = first.flops;
      kernel.query.attention = first.attention;
      break;
    case WorkKind::kScan:
      kernel.query.kind = Kernel::kGemm;
      kernel.query.flops = first.flops;
      break;
    default: {
      const bool reduces = std::any_of(fused.ops.begin(), fused.ops.end(), [&](int op) {
        return ops[to_index(op)].kind == WorkKind::kReduction;
      });
      kernel.query.kind = reduces ? Kernel::kReduction : Kernel::kElementwise;
    }
  }
  return kernel;
}

bool reads(const std::vector<WorkOp>& ops, const FusedKernel& fused, int tensor) {
  return std::ranges::any_of(fused.ops, [&](int op) {
    const std::vector<int>& read = ops[to_index(op)].reads;
    return std::ranges::find(read, tensor) != read.end();
  });
}

std::vector<RankPiece> pieces_of(const TrainingRun& run, const BlockWork& work,
                                 const std::vector<WorkOp>& ops, const std::vector<bool>& stays) {
  std::vector<FusionTensor> tensors;
  for (std::size_t i = 0; i < work.tensors.size(); ++i) {
    tensors.push_back({work.tensors[i].bytes(), stays[i]});
  }
  std::vector<FusionOp> fusion_ops;
  for (const WorkOp& op : ops) {
    fusion_ops.push_back({.kind = fusion_kind(op),
                          .elements = op.elements,
                          .row = op.row,
                          .reads = op.reads,
                          .writes = op.writes,
                          .dims = op.columns ? 1 : 0});
  }
  const std::vector<FusedKernel> kernels = run.execution == Execution::kCompiled
                                               ? fuse(fusion_ops, tensors)
                                               : unfused(fusion_ops, tensors);
  std::vector<RankPiece> pieces;
  bool heavy_before = false;
  int arriving = -1;  // what an early collective brings, until a kernel reads it
  for (const FusedKernel& fused : kernels) {
    const WorkOp& first = ops[to_index(fused.ops.front())];
    if (first.kind == WorkKind::kCollective) {
      // What is gathered is read afterwards; a ring of keys and values runs beside the attention,
      // which comes after it in the forward pass and before it in the backward pass.
      const bool leads = first.collective == Collective::kAllGather ||
                         (first.collective == Collective::kSendRecv && !heavy_before);
      pieces.push_back({{},
                        RankCollective{first.collective, first.group, first.full_bytes,
                                       first.beside, leads, first.early},
                        false});
      heavy_before = false;
      if (first.early) arriving = first.writes.front();
      continue;
    }
    const bool waits = reads(ops, fused, arriving);
    if (waits) arriving = -1;
    if (pieces.empty() || pieces.back().collective || waits) pieces.emplace_back();
    pieces.back().waits |= waits;
    pieces.back().kernels.push_back(kernel_of(ops, fused));
    heavy_before = first.kind == WorkKind::kAttention;
  }
  return pieces;
}

// The most bytes that the backward pass has made and not yet read for the last time.
double most_working_bytes(const BlockWork& work, const std::vector<WorkOp>& ops,
                          const std::vector<bool>& kept) {
  std::vector<int> last(work.tensors.size(), -1);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const int tensor : ops[i].reads) last[to_index(tensor)] = static_cast<int>(i);
  }
  double now = 0.0;
  double most = 0.0;
  std::vector<bool> there(work.tensors.size(), false);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const int tensor : ops[i].writes) {
      const WorkTensor& each = work.tensors[to_index(tensor)];
      if (kept[to_index(tensor)] || there[to_index(tensor)] || each.weight) continue;
      there[to_index(tensor)] = true;
      now += each.bytes();
    }
    most = std::max(most, now);
    for (const std::vector<int>* list : {&ops[i].reads, &ops[i].writes}) {
      for (const int tensor : *list) {
        if (!there[to_index(tensor)] || last[to_index(tensor)] > static_cast<int>(i)) continue;
        there[to_index(tensor)] = false;
        now -= work.tensors[to_index(tensor)].bytes();
      }
    }
  }
  return most;
}

double kept_bytes(const WorkTensor& tensor) { return tensor.kept_share * tensor.bytes(); }

double gradient_operand_bytes(const BlockWork& work) {
  std::set<int> operands;
  for (const WorkOp& op : work.backward) {
    const bool is_of_weight =
        op.kind == WorkKind::kGemm && std::ranges::any_of(op.writes, [&](int tensor) {
          return work.tensors[to_index(tensor)].weight;
        });
    if (is_of_weight) operands.insert(op.reads.begin(), op.reads.end());
  }
  double bytes = 0.0;
  for (const int tensor : operands) bytes += kept_bytes(work.tensors[to_index(tensor)]);
  return bytes;
}

}  // namespace

Keeping keeping_of(const Recomputation& policy, std::int64_t block, std::int64_t /*blocks*/) {
  if (policy.first_blocks >= 0 && block >= policy.first_blocks) return Keeping::kAll;
  switch (policy.kind) {
    case Recomputation::Kind::kFull:
      return Keeping::kInput;
    case Recomputation::Kind::kSelective:
      return Keeping::kSelected;
    case Recomputation::Kind::kEvery:
      return block % policy.every == 0 ? Keeping::kInput : Keeping::kAll;
    case Recomputation::Kind::kNone:
      break;
  }
  return Keeping::kAll;
}

RankBlock rank_block(const TrainingRun& run, const BlockWork& work, Keeping keeping) {
  const Recomputed recomputed(run, work, keeping);
  std::vector<WorkOp> backward;
  for (std::size_t i = 0; i < work.forward.size(); ++i) {
    if (recomputed.again()[i]) backward.push_back(work.forward[i]);
  }
  backward.insert(backward.end(), work.backward.begin(), work.backward.end());

  RankBlock block;
  std::vector<bool> stays = recomputed.kept();
  if (work.output >= 0) stays[to_index(work.output)] = true;
  block.forward = pieces_of(run, work, work.forward, stays);
  std::vector<bool> results(work.tensors.size(), false);
  for (const WorkOp& op : work.backward) {
    for (const int tensor : op.writes) {
      if (work.tensors[to_index(tensor)].weight) results[to_index(tensor)] = true;
    }
  }
  block.backward = pieces_of(run, work, backward, results);
  for (std::size_t i = 0; i < work.tensors.size(); ++i) {
    if (!recomputed.kept()[i]) continue;
    block.kept_bytes += kept_bytes(work.tensors[i]);
  }
  block.gradient_operand_bytes = gradient_operand_bytes(work);
  if (work.input >= 0) block.input_bytes = work.tensors[to_index(work.input)].bytes();
  if (work.output >= 0) block.output_bytes = work.tensors[to_index(work.output)].bytes();
  block.working_bytes = most_working_bytes(work, backward, recomputed.kept());
  block.weight_elements = work.weight_elements;
  block.expert_weight_elements = work.expert_weight_elements;
  block.trained_elements = work.trained_elements;
  return block;
}

}  // namespace shardlab
