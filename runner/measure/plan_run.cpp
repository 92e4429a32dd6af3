#include "runner/measure/plan_run.h"

#include <algorithm>
#include <map>
#include <random>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "runner/measure/step_run.h"

namespace shardlab {
namespace {

constexpr int kMaxDraws = 1000;
constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kI32, DType::kI64,
                             DType::kF16, DType::kF64,  DType::kI8,  DType::kU8};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin,
                             ReduceOp::kProduct};

class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t number) : engine_(counter_hash(seed, number, 0)) {}
  // std::uniform_int_distribution is not used, because each standard library draws other numbers
  // with it.
  [[nodiscard]] std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(count));
  }
  [[nodiscard]] std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

// A random mesh: the prime factors of the number of ranks in random order, some of them multiplied
// together.
DeviceMesh draw_mesh(Draw& draw, std::int64_t ranks) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t factor = 2; ranks > 1;) {
    if (ranks % factor != 0) {
      ++factor;
      continue;
    }
    ranks /= factor;
    if (!sizes.empty() && (draw.below(2) == 0 || std::ssize(sizes) == 3)) {
      sizes[to_index(draw.below(std::ssize(sizes)))] *= factor;
    } else {
      sizes.push_back(factor);
    }
  }
  if (sizes.empty()) sizes.push_back(1);
  for (std::size_t i = sizes.size(); i > 1; --i) {
    std::swap(sizes[i - 1], sizes[to_index(draw.below(static_cast<std::int64_t>(i)))]);
  }
  return DeviceMesh::make(sizes);
}

Layout draw_layout(Draw& draw, const DeviceMesh& mesh, const TensorMeta& meta,
                   std::span<const ReduceOp> ops) {
  while (true) {
    const ReduceOp op = ops[to_index(draw.below(std::ssize(ops)))];
    const bool is_norm = is_floating_point(meta.dtype) && draw.below(6) == 0;
    const double norm = static_cast<double>(1 + draw.below(3));
    Placements placements;
    for (int m = 0; m < mesh.ndim(); ++m) {
      const std::int64_t kind = draw.below(10);
      if (kind < 3) {
        placements.push_back(Placement::replicate());
      } else if (kind < 5) {
        placements.push_back(is_norm ? Placement::norm_partial(norm) : Placement::partial(op));
      } else {
        const auto dim = static_cast<int>(draw.below(meta.ndim()));
        const bool is_strided = kind == 9;
        placements.push_back(
            is_strided ? Placement::strided_shard(dim, static_cast<int>(2 + draw.below(3)))
                       : Placement::shard(dim));
      }
    }
    Layout layout(placements);
    if (has_mixed_partials(layout.placements)) continue;
    return layout;
  }
}

bool communicates(const Plan& plan, const DeviceMesh& mesh) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    const bool has_peers = std::any_of(step.mesh_dims.begin(), step.mesh_dims.end(),
                                       [&](int m) { return mesh.size(m) > 1; });
    return has_peers && step.collective != Collective::kLocal;
  });
}

std::string text_of(const PlanQuestion& question) {
  return question.meta.text() + " on " + question.mesh.text() + " from " + question.from.text() +
         " to " + question.to.text();
}

std::string_view as_text(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), static_cast<std::size_t>(tensor.bytes())};
}

// Collects every rank's tensor on every process. The shapes must be those of `like`; a tensor with
// another shape is left out, and `why` says so.
std::vector<HostTensor> gather_locals(const MeasuringRun& run, const std::vector<HostTensor>& mine,
                                      const std::vector<HostTensor>& like, HostMemory& memory,
                                      std::string& why) {
  std::string text;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::size_t rank = static_cast<std::size_t>(run.backend.ranks().first) + i;
    const bool fits = mine[i].shape() == like[rank].shape();
    text += fits ? "=" : "!";
    if (fits) text += as_text(mine[i]);
  }
  std::vector<HostTensor> all;
  std::size_t most = 0;
  for (const HostTensor& tensor : like) most += 1 + static_cast<std::size_t>(tensor.bytes());
  for (const std::string& part : run.meeting.all_gather(text, most)) {
    for (std::size_t begin = 0; begin < part.size();) {
      if (all.size() == like.size()) {
        throw EnvironmentError("a rank sends more tensors than there are ranks");
      }
      const HostTensor& shape = like[all.size()];
      if (part[begin++] != '=') {
        if (why.empty())
          why = "rank " + std::to_string(all.size()) + " has a tensor of a wrong shape";
        all.push_back(shape);
        continue;
      }
      HostTensor tensor = HostTensor::make(memory, shape.dtype(), shape.shape());
      const auto bytes = static_cast<std::size_t>(tensor.bytes());
      if (bytes > 0) part.copy(reinterpret_cast<char*>(tensor.writable()), bytes, begin);
      begin += bytes;
      all.push_back(std::move(tensor));
    }
  }
  return all;
}

enum class Outcome : std::uint8_t { kBitEqual, kWithinBound, kFailed };

struct Judged {
  Outcome outcome = Outcome::kBitEqual;
  std::string why;
};

Judged run_plan(const MeasuringRun& run, GroupCache& groups, const Executor& executor,
                const Plan& plan, const DataOptions& data) {
  DistributedTensor fake = executor.distribute(plan.meta, plan.start, data);
  const RankRange& ranks = run.backend.ranks();
  std::vector<HostTensor> mine;
  for (std::int64_t i = 0; i < ranks.local; ++i) {
    mine.push_back(fake.locals[to_index(ranks.first + i)]);
  }
  for (const PlanStep& step : plan.steps) {
    const StepRun real(run.backend, groups, executor, step, fake);
    if (real.changes()) mine = real.run(mine);
    (void)executor.run_step(step, fake);
  }
  Judged judged;
  DistributedTensor real = fake;
  real.locals = gather_locals(run, mine, fake.locals, executor.memory(), judged.why);
  if (!judged.why.empty()) {
    judged.outcome = Outcome::kFailed;
    return judged;
  }
  bool equal = true;
  for (std::size_t r = 0; r < real.locals.size(); ++r) {
    equal = equal && real.locals[r].same_bits(fake.locals[r]);
  }
  if (equal) return judged;
  const Verification verification = executor.verify(real);
  const bool bound = is_floating_point(plan.meta.dtype) && verification.verified;
  judged.outcome = bound ? Outcome::kWithinBound : Outcome::kFailed;
  judged.why = bound ? "" : verification.mismatch;
  if (!bound && judged.why.empty()) judged.why = "the bits differ";
  return judged;
}

}  // namespace

PlanQuestion draw_question(const Backend& backend, std::uint64_t seed, std::uint64_t number) {
  Draw draw(seed, number);
  PlanQuestion question;
  question.mesh = draw_mesh(draw, backend.ranks().world);
  std::vector<ReduceOp> ops;
  do {
    question.meta.dtype = kDTypes[to_index(draw.below(std::size(kDTypes)))];
    ops.clear();
    for (const ReduceOp op : kOps) {
      if (backend.reduces(op, question.meta.dtype)) ops.push_back(op);
    }
  } while (ops.empty());
  const std::int64_t dims = 1 + draw.below(3);
  for (std::int64_t d = 0; d < dims; ++d) question.meta.shape.push_back(1 + draw.below(17));
  question.from = draw_layout(draw, question.mesh, question.meta, ops);
  question.to = draw_layout(draw, question.mesh, question.meta, ops);
  question.planner = draw.below(2) == 0 ? PlannerKind::kGreedy : PlannerKind::kGraph;
  question.data.seed = draw.bits();
  question.data.values = number % 2 == 0 ? DataValues::kWholeNumbers : DataValues::kUniform;
  return question;
}

VerifiedPlans verify_plans(const MeasuringRun& run, StackEvaluator& evaluator,
                           const PlanRequest& request) {
  VerifiedPlans result;
  result.seed = static_cast<std::int64_t>(request.seed);
  GroupCache groups(run.backend);
  std::uint64_t number = 0;
  int draws = 0;
  while (result.plans < request.plans) {
    const PlanQuestion question = draw_question(run.backend, request.seed, number++);
    const Plan plan =
        evaluator.on(question.mesh)
            .plan(question.meta, question.from, question.to, {.planner = question.planner});
    if (!plan.impossible.empty() || !plan.unexecutable.empty() ||
        !communicates(plan, question.mesh)) {
      if (++draws > kMaxDraws) {
        throw InputError("--verify-plans: none of " + std::to_string(kMaxDraws) +
                         " questions among " + std::to_string(question.mesh.size()) +
                         " ranks has a plan that communicates; valid: 2 ranks or more");
      }
      continue;
    }
    draws = 0;
    run.watchdog.step("plan " + std::to_string(result.plans + 1) + ": " + text_of(question));
    const Executor executor(question.mesh, evaluator.topology(), {.verify_each_step = false});
    const Judged judged = run_plan(run, groups, executor, plan, question.data);
    ++result.plans;
    switch (judged.outcome) {
      case Outcome::kBitEqual:
        ++result.bit_equal;
        break;
      case Outcome::kWithinBound:
        ++result.within_bound;
        break;
      case Outcome::kFailed:
        ++result.failed;
        if (result.first_failure.empty()) {
          result.first_failure = text_of(question) + " (" + plan.path() + "): " + judged.why;
        }
        break;
    }
  }
  return result;
}

}  // namespace shardlab
