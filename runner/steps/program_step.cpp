#include "runner/steps/program_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "costmodel/base/index.h"
#include "runner/config/in_program.h"
#include "runner/config/program_stack.h"
#include "runner/solve/step_figures.h"
#include "runner/steps/program_kernels.h"
#include "runner/steps/steps_answers.h"
#include "sim/flows/fluid_streams.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/solvers/exact.h"
#include "strategies/steps/step_memory.h"

namespace shardlab {
namespace {

// -- The mesh and the recipe ---------------------------------------------------------------------

void expect_plannable(const Spread& spread) {
  for (const auto& [name, ranks] : {std::pair<const char*, std::int64_t>{"pp", spread.pp},
                                    {"cp", spread.cp},
                                    {"ep", spread.ep}}) {
    if (ranks == 1) continue;
    throw InputError(
        "--mesh: found " + std::string(name) + "=" + std::to_string(ranks) +
        ", but a program is planned as one graph on all ranks; valid: dp, fsdp and tp, "
        "or a built-in model");
  }
  if (spread.dp > 1 && spread.fsdp > 1 && spread.tp > 1) {
    throw InputError(
        "--mesh: found dp, fsdp and tp, for which there is no recipe; valid: two of them, or a "
        "built-in model");
  }
}

DeviceMesh mesh_of(const Spread& spread) {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (const auto& [name, ranks] : {std::pair<const char*, std::int64_t>{"dp", spread.dp},
                                    {"fsdp", spread.fsdp},
                                    {"tp", spread.tp}}) {
    if (ranks == 1) continue;
    sizes.push_back(ranks);
    names.emplace_back(name);
  }
  if (sizes.empty()) return DeviceMesh::make({1}, {"dp"});
  return DeviceMesh::make(std::move(sizes), std::move(names));
}

std::string recipe_of(const Spread& spread) {
  if (spread.tp > 1) return spread.fsdp > 1 ? "fsdp-tp-sp" : "tp-sp";
  if (spread.fsdp > 1) return spread.dp > 1 ? "hsdp" : "fsdp";
  return "dp";
}

Sharding sharding_of(const ProgramRun& run) {
  const bool shards = run.spread.fsdp > 1;
  const Sharding sharding = run.sharding.value_or(shards ? Sharding::kFull : Sharding::kNone);
  const bool gathers = sharding == Sharding::kFull || sharding == Sharding::kKeptWeights;
  if (gathers == shards && sharding != Sharding::kOptimizer) return sharding;
  throw InputError("--sharding: found " + std::string(name_of(sharding)) +
                   " for a program on a mesh " + (shards ? "with" : "without") +
                   " fsdp; valid: " + (shards ? "full, kept-weights" : "none"));
}

// -- Units ---------------------------------------------------------------------------------------

// The weights outside of all blocks as two units, those that are read before the blocks (an
// embedding) and those after them (norm and output). Source: torchtitan 9dec370, which wraps them
// apart.
ModelBlocks with_two_roots(const Program& program, ModelBlocks blocks) {
  const std::size_t count = program.nodes.size();
  std::vector<int> parameter(count, -1);  // by node: the parameter that it is made of
  std::vector<int> is_late(count, -1);    // by parameter: whether the blocks come first
  bool is_behind = false;
  const auto in_root = [&](std::size_t n) {
    return blocks.unit[n] >= 0 && blocks.block[n] == ModelBlocks::kOutside;
  };
  for (std::size_t n = 0; n < count; ++n) {
    const ProgramNode& node = program.nodes[n];
    if (node.kind == NodeKind::kParameter && in_root(n)) parameter[n] = static_cast<int>(n);
    for (const ValueRef& value : values_read(node)) {
      if (parameter[value.node] < 0) continue;
      if (blocks.is_weight[n]) {
        parameter[n] = parameter[value.node];
      } else if (int& late = is_late[to_index(parameter[value.node])]; late < 0) {
        late = is_behind ? 1 : 0;
      }
    }
    if (node.computes() && !blocks.is_weight[n] && blocks.block[n] >= 0) is_behind = true;
  }
  std::vector<bool> moves(count, false);
  for (std::size_t n = 0; n < count; ++n) {
    moves[n] = parameter[n] >= 0 && is_late[to_index(parameter[n])] == 1;
  }
  for (const auto& [source, gradient] : program.pairs) {
    if (moves[source] && program.nodes[gradient].leaves()) moves[gradient] = true;
  }
  for (std::size_t n = count; n-- > 0;) {
    if (!moves[n] || blocks.is_weight[n]) continue;
    for (const ValueRef& value : values_read(program.nodes[n])) {
      if (blocks.carries_gradient[value.node]) moves[value.node] = true;
    }
  }
  const int unit = static_cast<int>(blocks.unit_names.size());
  blocks.unit_names.emplace_back("behind the blocks");
  for (std::size_t n = 0; n < count; ++n) {
    if (moves[n] && blocks.unit[n] >= 0) blocks.unit[n] = unit;
  }
  return blocks;
}

// -- The plan ------------------------------------------------------------------------------------

// Everything that a plan of the program is made from.
class Planner {
 public:
  Planner(const ProgramRun& run, const ConfigStore& store, const Stack& stack,
          const Topology& topology)
      : run_(run),
        topology_(topology),
        mesh_(mesh_of(run.spread)),
        recipe_(store.recipe(recipe_of(run.spread))),
        reshards_(sharding_of(run) == Sharding::kFull),
        program_(store.program(run.program)),
        evaluator_(stack, topology),
        strategies_(in_program(run.program,
                               [&] {
                                 return enumerate_strategies(
                                     program_, mesh_,
                                     {.rules = stack.rules.set_for("step"),
                                      .links = links_of(evaluator_.on(mesh_))});
                               })),
        prices_(program_, strategies_, evaluator_, mesh_),
        priced_{stack, topology_, mesh_, program_, strategies_, prices_},
        steps_(priced_, evaluator_.on(mesh_), std::nullopt),
        blocks_(with_two_roots(program_, steps_.blocks())) {}

  struct Plan {
    Recomputation recompute;
    PlannedProgram planned;
    TrainingStep step;
    StepMemory memory;
  };

  // Plans the run with as little recomputation as fits, if the run leaves that open.
  Plan plan() {
    if (run_.recompute) return plan_with(*run_.recompute);
    using Kind = Recomputation::Kind;
    for (const Kind kind : {Kind::kNone, Kind::kSelective}) {
      Plan plan = plan_with({.kind = kind});
      if (plan.memory.peak_bytes <= steps_.most_bytes()) return plan;
    }
    return plan_with({.kind = Kind::kFull});
  }

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const DeviceMesh& mesh() const { return mesh_; }
  [[nodiscard]] const Recipe& recipe() const { return recipe_; }
  [[nodiscard]] const StepPlanner& steps() const { return steps_; }
  [[nodiscard]] const ModelBlocks& blocks() const { return blocks_; }
  [[nodiscard]] StackEvaluator& evaluator() { return evaluator_; }

 private:
  Plan plan_with(Recomputation policy) {
    ProblemOptions options;
    options.masks = recipe_.masks(program_, mesh_);
    options.runs = runs_under(program_, blocks_, policy);
    const ShardingProblem problem = make_problem(program_, mesh_, strategies_, prices_, options);
    const CostNetwork network = network_of(problem);
    const ExactSolution best =
        ExactSolver(network).solve({.explain = false, .patience = {.takes_gap = true}});
    if (!best.feasible) {
      throw InputError(program_.name + " on " + mesh_.text() + ": the recipe " + recipe_.name +
                       " has no plan for it; valid: a mesh whose sizes divide its tensors, which "
                       "solve --recipe explains");
    }
    Plan plan{
        .recompute = policy, .planned = steps_.planned(best.assignment), .step = {}, .memory = {}};
    policy.reshards_weights = reshards_;
    plan.step = make_step(plan.planned, blocks_, evaluator_.on(mesh_),
                          {.recomputation = policy, .units = true, .prefetch = 1});
    plan.memory = run_.grad_accum > 1 ? memory_of_later_pass(plan.step) : memory_of(plan.step);
    return plan;
  }

  const ProgramRun& run_;
  const Topology& topology_;
  DeviceMesh mesh_;
  Recipe recipe_;
  bool reshards_;
  Program program_;
  StackEvaluator evaluator_;
  ProgramStrategies strategies_;
  ProgramPrices prices_;
  PricedProgram priced_;
  StepPlanner steps_;
  ModelBlocks blocks_;
};

// -- The streams ---------------------------------------------------------------------------------

constexpr int kHostStream = kStreams;
constexpr std::array<const char*, kStreams + 1> kLanes = {"compute", "collectives of activations",
                                                          "gathers of weights",
                                                          "reductions of gradients", "host"};

struct ProgramTimes {
  double total_us = 0.0;
  StepBreakdown breakdown;
  std::vector<StepSpan> timeline;
  std::vector<std::string> blocks;  // by span
};

// Several micro-batches, one after the other, on the streams of one rank.
class ProgramChain {
 public:
  explicit ProgramChain(const StepFactors& factors) : factors_(factors) {}

  void add(const std::vector<ProgramTask>& tasks, bool reduces) {
    std::vector<int> place(tasks.size(), -1);
    const int before_all = last_compute_;
    int last_here = before_all;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const ProgramTask& task = tasks[t];
      if (task.stream == Stream::kReduction && !reduces) continue;
      std::vector<int> after;
      for (const int before : task.after) after.push_back(place[to_index(before)]);
      if (task.is_collective) {
        // A gather is issued behind the kernels of the unit before the one that is about to run.
        if (task.stream == Stream::kGather || after.empty()) after.push_back(last_here);
        place[t] = add(static_cast<int>(task.stream), task, std::move(after),
                       {{StepResource::kMultiprocessors, factors_.collective_share},
                        {task.leaves_domain ? StepResource::kNetwork : StepResource::kLinks, 1.0}});
        continue;
      }
      if (task.stream == Stream::kReduction) {
        place[t] = add(static_cast<int>(task.stream), task, std::move(after),
                       {{StepResource::kMultiprocessors, factors_.collective_share}});
        continue;
      }
      after.push_back(last_compute_);
      if (factors_.host_us > 0) after.push_back(last_host_);
      place[t] = add(0, task, std::move(after), {{StepResource::kMultiprocessors, 1.0}});
      last_compute_ = last_here = place[t];
      if (factors_.host_us > 0) last_host_ = add_host();
    }
  }

  [[nodiscard]] ProgramTimes times(bool with_timeline) const {
    const std::vector<FluidSpan> spans = simulate_fluid(tasks_, kStreams + 1, StepResource::kCount);
    ProgramTimes result;
    double compute_end = 0.0;
    int last = -1;
    for (int t = 0; t < static_cast<int>(tasks_.size()); ++t) {
      const FluidSpan& span = spans[to_index(t)];
      if (last < 0 || span.end_us > spans[to_index(last)].end_us) last = t;
      if (tasks_[to_index(t)].stream != 0) continue;
      attribute(span.start_us - compute_end, latest(tasks_[to_index(t)].after, spans), spans,
                result);
      const double slowed = span.end_us - span.start_us - tasks_[to_index(t)].work_us;
      const KernelClass kind = of_[to_index(t)]->kind;
      if (slowed > 1e-9) {
        result.breakdown.exposed_us["contention"] += slowed;
        result.breakdown.contention_us[static_cast<std::size_t>(kind)] += slowed;
      }
      share(kind, result.breakdown) += tasks_[to_index(t)].work_us;
      compute_end = span.end_us;
    }
    if (last >= 0) {
      result.total_us = spans[to_index(last)].end_us;
      attribute(result.total_us - compute_end, last, spans, result);
    }
    for (std::size_t t = 0; with_timeline && t < tasks_.size(); ++t) {
      if (tasks_[t].work_us <= 0) continue;
      result.timeline.push_back({of_[t] == nullptr ? "host" : of_[t]->name,
                                 kLanes[to_index(tasks_[t].stream)], spans[t].start_us,
                                 spans[t].end_us});
      // Gathers and reductions keep the name of their collective.
      const bool is_kernel = of_[t] != nullptr && !of_[t]->is_collective;
      result.blocks.push_back(is_kernel ? of_[t]->block : "");
    }
    return result;
  }

 private:
  int add(int stream, const ProgramTask& task, std::vector<int> after,
          std::vector<ResourceUse> uses) {
    std::erase(after, -1);
    tasks_.push_back({task.us, stream, std::move(after), std::move(uses)});
    of_.push_back(&task);
    return static_cast<int>(tasks_.size()) - 1;
  }
  int add_host() {
    tasks_.push_back({factors_.host_us, kHostStream, {}, {}});
    of_.push_back(nullptr);
    return static_cast<int>(tasks_.size()) - 1;
  }

  static int latest(const std::vector<int>& after, const std::vector<FluidSpan>& spans) {
    int last = -1;
    for (const int task : after) {
      if (last < 0 || spans[to_index(task)].end_us > spans[to_index(last)].end_us) last = task;
    }
    return last;
  }
  // Time in which no kernel runs goes to the task for which the next kernel waits. What cuts or
  // casts a reduced gradient takes its own time; the rest of the wait is the reduction's.
  void attribute(double us, int task, const std::vector<FluidSpan>& spans,
                 ProgramTimes& result) const {
    if (us <= 0.0 || task < 0) return;
    const ProgramTask* waited = of_[to_index(task)];
    if (waited == nullptr) {
      result.breakdown.host_us += us;
    } else if (waited->is_collective) {
      result.breakdown.exposed_us[waited->name] += us;
    } else if (waited->stream == Stream::kReduction) {
      const FluidSpan& span = spans[to_index(task)];
      const double own = std::min(us, span.end_us - span.start_us);
      share(waited->kind, result.breakdown) += own;
      attribute(us - own, latest(tasks_[to_index(task)].after, spans), spans, result);
    }
  }
  static double& share(KernelClass kind, StepBreakdown& breakdown) {
    if (kind == KernelClass::kAttention) return breakdown.attention_us;
    return kind == KernelClass::kOther ? breakdown.other_us : breakdown.gemm_us;
  }

  const StepFactors& factors_;
  std::vector<FluidTask> tasks_;
  std::vector<const ProgramTask*> of_;  // by task; null: the host
  int last_compute_ = -1;
  int last_host_ = -1;
};

void add(StepBreakdown& sum, const StepBreakdown& part, double count) {
  sum.gemm_us += count * part.gemm_us;
  sum.attention_us += count * part.attention_us;
  sum.other_us += count * part.other_us;
  for (const auto& [kind, us] : part.exposed_us) sum.exposed_us[kind] += count * us;
  for (std::size_t c = 0; c < kKernelClasses; ++c) {
    sum.contention_us[c] += count * part.contention_us[c];
  }
  sum.host_us += count * part.host_us;
}

// -- Figures of the whole program -----------------------------------------------------------------

// The products or the attention of a node, if it is one, on one rank alone.
std::optional<KernelQuery> product_of(const Planner& planner, std::size_t n) {
  const Program& program = planner.program();
  const ProgramNode& node = program.nodes[n];
  if (!node.computes()) return std::nullopt;
  const DeviceMesh alone = DeviceMesh::make({1});
  const Placements whole = Layout::replicated(1).placements;
  NodePlacements placements;
  placements.outputs.assign(node.outputs.size(), whole);
  for (const ProgramInput& input : node.inputs) {
    placements.inputs.insert(placements.inputs.end(), input.values.size(), whole);
  }
  std::optional<KernelQuery> query =
      kernel_query_of(program, n, planner.steps().rules()[n], alone, placements);
  if (query && kernel_class_of(*query) == KernelClass::kOther) query.reset();
  return query;
}

// The FLOPs of one micro-batch on all ranks without recomputation: those of every product, and of
// attention three times those of the forward pass, if it has a backward pass. Causal attention
// counts half of the pairs. What is frozen has no products of its weights' gradients.
double model_flops(const Planner& planner) {
  double products = 0.0;
  double attention = 0.0;
  bool has_backward = false;
  for (std::size_t n = 0; n < planner.program().nodes.size(); ++n) {
    const std::optional<KernelQuery> query = product_of(planner, n);
    if (!query) continue;
    if (!query->attention) {
      products += query->flops;
    } else if (planner.blocks().pass[n] == Phase::kForward) {
      attention += query->attention->causal ? 0.5 * query->flops : query->flops;
    } else {
      has_backward = true;
    }
  }
  return products + (has_backward ? 3.0 : 1.0) * attention;
}

// The elements of the parameters that one rank updates.
double updated_elements(const Planner& planner, const PlannedProgram& planned) {
  const Program& program = planner.program();
  double elements = 0.0;
  for (const auto& [source, gradient] : program.pairs) {
    if (program.nodes[source].kind != NodeKind::kParameter ||
        program.nodes[gradient].kind != NodeKind::kGradient) {
      continue;
    }
    elements +=
        element_count(largest_local_shape(program.nodes[source].outputs[0].shape,
                                          planned.placements[source].outputs[0], planner.mesh()));
  }
  return elements;
}

bool trains_batch_norms(const Program& program) {
  return std::ranges::any_of(program.nodes, [](const ProgramNode& node) {
    return node.op.find("batch_norm") != std::string::npos &&
           node.op.find("no_training") == std::string::npos;
  });
}

RunTraits traits_of(const ProgramRun& run, const Program& program, const Topology& topology) {
  const auto has = [&](std::string_view part) {
    return std::ranges::any_of(program.nodes, [&](const ProgramNode& node) {
      return node.op.find(part) != std::string::npos;
    });
  };
  return {{"gpu", topology.gpu()},
          {"source", ""},
          {"software", ""},
          {"execution", run.compiled ? "compiled" : "eager"},
          {"graphs", "none"},
          {"model", has("grouped_mm") || has("topk") ? "experts" : "dense"},
          {"attention", has("cudnn") ? "cudnn" : "flash"},
          {"precision", "bf16"}};
}

TrainingMemory memory_parts(const StepMemory& memory) {
  const auto part = [&](MemoryPart kind) { return memory.parts[static_cast<std::size_t>(kind)]; };
  return {.peak_bytes = memory.peak_bytes,
          .parameters = part(MemoryPart::kParameters),
          .gradients = part(MemoryPart::kGradients),
          .optimizer = part(MemoryPart::kOptimizer),
          .activations = part(MemoryPart::kActivations),
          .gathered = part(MemoryPart::kGathered),
          .temporary = part(MemoryPart::kTemporary)};
}

}  // namespace

ProgramStep predict_program_step(const ProgramRun& run, const ConfigStore& store,
                                 const Stack& stack, const Topology& topology, bool with_timeline) {
  expect_plannable(run.spread);
  expect_kernel_prices(stack, "step");
  Planner planner(run, store, stack, topology);
  const Planner::Plan plan = planner.plan();

  ProgramStep result;
  result.recipe = planner.recipe().name;
  result.traits = traits_of(run, planner.program(), topology);
  result.joins_batch_norms =
      run.spread.dp * run.spread.fsdp > 1 && trains_batch_norms(planner.program());
  const StepFactors factors = step_terms_of(stack).factors(result.traits);
  const ProgramPricing pricing{planner.evaluator().compute_model(),
                               planner.evaluator().on(planner.mesh()), factors};
  const std::vector<ProgramTask> tasks = program_tasks(
      plan.step, {plan.planned, planner.steps().rules(), planner.blocks()}, pricing, run.compiled);

  // The first micro-batches, if there are several, and the last one.
  const bool reduces_always = run.spread.fsdp > 1;
  ProgramChain last(factors);
  last.add(tasks, true);
  const ProgramTimes one = last.times(with_timeline);
  StepPrediction& prediction = result.prediction;
  prediction.timeline = one.timeline;
  result.blocks = one.blocks;
  prediction.step_us = one.total_us;
  add(prediction.breakdown, one.breakdown, 1.0);
  if (run.grad_accum > 1) {
    ProgramChain both(factors);
    both.add(tasks, reduces_always);
    both.add(tasks, true);
    const ProgramTimes two = both.times(false);
    const double more = to_real(run.grad_accum - 1);
    prediction.step_us += more * (two.total_us - one.total_us);
    add(prediction.breakdown, one.breakdown, -more);
    add(prediction.breakdown, two.breakdown, more);
  }

  // The norm of the gradients with its all-reduce, and the optimizer's step: for each parameter,
  // the norm reads and scales the gradient in f32. Before, gradients that are not reduced at once
  // are added to those of the micro-batches before, as in StepChain::sum_up().
  const std::int64_t ranks = run.spread.ranks();
  const double sums = reduces_always ? 0.0 : to_real(run.grad_accum - 1);
  const double sum_bytes = 2.0 + 2.0 * TrainingRun{}.gradient_bytes;
  const double update_us = pricing.memory_us((sums * sum_bytes + 8.0 + TrainingRun{}.update_bytes) *
                                             updated_elements(planner, plan.planned));
  double norm_us = 0.0;
  if (ranks > 1) {
    const GroupSpan span = DeviceMesh::make({ranks}).span(0, topology);
    const Price price =
        planner.evaluator().collective_model().price({Collective::kAllReduce, 4.0, span});
    norm_us = pricing.collective_us(price.total.value(), price.transfer.value(), span.domains > 1);
  }
  prediction.breakdown.other_us += update_us;
  prediction.breakdown.exposed_us["all_reduce"] += norm_us;
  prediction.step_us += update_us + norm_us;
  const double hosts = std::max(1.0, to_real(ranks) / to_real(topology.devices_per_host()));
  const double waiting = factors.waiting * std::log2(hosts) * prediction.step_us;
  if (waiting > 0) prediction.breakdown.exposed_us["waiting"] += waiting;
  prediction.breakdown.host_us += factors.fixed_us;
  prediction.step_us += waiting + factors.fixed_us;

  const double tokens = to_real(run.grad_accum) * tokens_of(planner.program());
  prediction.tokens_per_s_per_gpu = tokens / to_real(ranks) / (prediction.step_us * 1e-6);
  prediction.mfu = to_real(run.grad_accum) * model_flops(planner) / to_real(ranks) /
                   (prediction.step_us * 1e-6) / (topology.peak(DType::kBF16).value() * 1e12);
  prediction.memory = memory_parts(plan.memory);
  prediction.recompute = plan.recompute;
  result.subject = {planner.program().name, run.spread.text(), ranks, tokens,
                    has_samples(planner.program())};
  return result;
}

}  // namespace shardlab
