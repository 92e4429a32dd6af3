#include "runner/steps/program_kernels.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "costmodel/base/index.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/program_prices.h"
#include "strategies/rules/kernel_traffic.h"
#include "strategies/steps/fusion.h"

namespace shardlab {
namespace {

// Operators that address rows by an index or draw random numbers; they never share a kernel.
constexpr std::array<std::string_view, 8> kAlone = {
    "aten.embedding_dense_backward.", "aten.index_put", "aten.index_add", "aten.scatter",
    "aten.native_dropout.",           "aten.cumsum.",   "aten.sort.",     "aten.topk."};

// An operator's name without its library and overload: "mul" of "aten.mul.Tensor".
std::string short_name(std::string_view op) {
  const std::size_t begin = op.find('.');
  if (begin == std::string_view::npos) return std::string(op);
  op.remove_prefix(begin + 1);
  return std::string(op.substr(0, op.find('.')));
}

// One pass of the step as the list of operators that fusion.h takes.
class PassGraph {
 public:
  // Under torch.compile, the backward pass computes cheap results of the forward pass again.
  PassGraph(const TrainingStep& step, const PlannedKernels& of, const ProgramPricing& pricing,
            Phase pass, bool repeats)
      : step_(step),
        of_(of),
        program_(*of.planned.program),
        pricing_(pricing),
        pass_(pass),
        repeats_(repeats) {
    for (const StepTask& task : step.tasks) {
      if (task.pass == pass && !is_move(task)) runs_here_.insert(task.node);
    }
    for (std::size_t t = 0; t < step.tasks.size(); ++t) {
      if (step.tasks[t].pass == pass) add(static_cast<int>(t));
    }
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const bool leaves = program_.nodes[n].leaves() && of.blocks.pass[n] == pass;
      if (!leaves || values_read(program_.nodes[n]).empty()) continue;
      tensors_[to_index(read_by(n, 0))].stays = true;
    }
  }

  // A value that another pass reads is written to memory.
  void keep_for(const PassGraph& later) {
    for (const auto& [key, tensor] : later.known_) {
      if (later.base_[to_index(tensor)] != tensor || later.is_made_[to_index(tensor)]) continue;
      const auto found = known_.find(key);
      if (found != known_.end()) tensors_[to_index(found->second)].stays = true;
    }
  }

  [[nodiscard]] std::vector<FusedKernel> kernels(bool compiled) const {
    return compiled ? fuse(ops_, tensors_) : unfused(ops_, tensors_);
  }
  // The task of an operator; nothing for a view and for what torch.compile computes again.
  [[nodiscard]] std::optional<int> task(int op) const {
    const int task = task_of_[to_index(op)];
    return task < 0 ? std::nullopt : std::optional(task);
  }
  [[nodiscard]] bool is_view(int op) const { return ops_[to_index(op)].kind == FusionKind::kView; }
  [[nodiscard]] Phase pass() const { return pass_; }
  // The node that an operator is.
  [[nodiscard]] std::size_t node(int op) const { return node_of_[to_index(op)]; }
  [[nodiscard]] bool is_barrier(int op) const {
    return ops_[to_index(op)].kind == FusionKind::kBarrier;
  }
  // Whether an operator makes a tensor without launching a kernel.
  [[nodiscard]] bool runs_nothing(int op) const {
    const std::optional<int> own = task(op);
    if (own && is_move(step_.tasks[to_index(*own)])) return false;
    return KernelTraffic(program_.nodes[node(op)].op).runs_nothing();
  }
  [[nodiscard]] bool reduces(int op) const {
    return ops_[to_index(op)].kind == FusionKind::kReduction;
  }

 private:
  using Key = std::tuple<std::size_t, std::size_t, Placements>;

  [[nodiscard]] const NodePlacements& placements(std::size_t n) const {
    return of_.planned.placements[n];
  }
  [[nodiscard]] Shape local_shape(const TensorMeta& meta, const Placements& layout) const {
    return largest_local_shape(meta.shape, layout, pricing_.redistributor.mesh());
  }
  [[nodiscard]] double local_elements(const TensorMeta& meta, const Placements& layout) const {
    return element_count(local_shape(meta, layout));
  }
  // Whether a node's outputs share the memory of its first input, so that nothing runs for it.
  [[nodiscard]] bool shares(std::size_t n) const {
    const ProgramNode& node = program_.nodes[n];
    if (node.is_source() || values_read(node).empty()) return false;
    const bool only_names = !node.computes() || node.op == kGetItem;
    const bool is_view = of_.planned.is_view[n] || KernelTraffic(node.op).shares_input();
    return (only_names || is_view) && of_.planned.compute_us[n] <= 0.0;
  }

  int make(double bytes) {
    const int tensor = static_cast<int>(tensors_.size());
    tensors_.push_back({.bytes = bytes});
    base_.push_back(tensor);
    writer_.push_back(-1);
    is_made_.push_back(false);
    return tensor;
  }
  // A value in one layout.
  std::pair<int, bool> tensor(std::size_t n, std::size_t output, const Placements& layout) {
    const auto [place, is_new] = known_.try_emplace(Key{n, output, layout}, -1);
    if (is_new) {
      const TensorMeta& meta = program_.nodes[n].outputs[output];
      place->second = make(itemsize(meta.dtype) * local_elements(meta, layout));
    }
    return {place->second, is_new};
  }
  // A value as its node makes it. Views are added to the list when they are first read.
  int made(std::size_t n, std::size_t output) {
    const auto [made, is_new] = tensor(n, output, placements(n).outputs[output]);
    if (is_new && shares(n)) {
      const int viewed = read_by(n, 0);
      base_[to_index(made)] = base_[to_index(viewed)];
      push({.kind = FusionKind::kView, .reads = {viewed}, .writes = {made}}, n, -1);
    } else if (is_new && repeats_ && is_cheap(n)) {
      FusionOp op = operator_of(n);
      push(std::move(op), n, -1);
    }
    return made;
  }
  // A value in the layout in which a node reads it.
  int read_by(std::size_t n, std::size_t argument) {
    const ValueRef value = values_read(program_.nodes[n])[argument];
    const Placements& wanted = placements(n).inputs[argument];
    const bool moves = wanted != placements(value.node).outputs[value.output];
    if (!moves) return made(value.node, value.output);
    // What moves it reads it from memory. What was moved in the forward pass is kept.
    if (!repeats_ || runs_here_.contains(value.node)) {
      tensors_[to_index(made(value.node, value.output))].stays = true;
    }
    return tensor(value.node, value.output, wanted).first;
  }

  [[nodiscard]] FusionKind kind_of(std::size_t n) const {
    const OpRule* rule = of_.rules[n];
    if (rule == nullptr || of_.blocks.is_weight[n] || of_.blocks.carries_gradient[n]) {
      return FusionKind::kBarrier;
    }
    const std::string& op = program_.nodes[n].op;
    const KernelTraffic traffic(op);
    if (traffic.runs_nothing() || traffic.moves_a_part() ||
        std::ranges::any_of(kAlone, [&](std::string_view name) { return op.starts_with(name); })) {
      return FusionKind::kBarrier;
    }
    switch (rule->kernel) {
      case Kernel::kGemm:
      case Kernel::kAttention:
        return FusionKind::kBarrier;
      case Kernel::kReduction:
        // It writes each element that the loss did not read, too.
        if (op.starts_with("aten.nll_loss") && op.find("_backward.") != std::string::npos) {
          return FusionKind::kPointwise;
        }
        return FusionKind::kReduction;
      default:
        return FusionKind::kPointwise;
    }
  }

  // Sets the extents of a pointwise operator or reduction.
  void set_space(std::size_t n, FusionOp& op) const {
    const ProgramNode& node = program_.nodes[n];
    const double results = results_of(n);
    op.elements = results;
    if (op.kind != FusionKind::kReduction) return;
    const std::vector<ValueRef> values = values_read(node);
    const std::vector<double> shares = shares_read(n);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (shares[i] < 1.0) continue;
      const TensorMeta& meta = program_.nodes[values[i].node].outputs[values[i].output];
      op.elements = std::max(op.elements, local_elements(meta, placements(n).inputs[i]));
    }
    if (op.elements <= 0.0 || values.empty()) return;
    const TensorMeta& first = program_.nodes[values[0].node].outputs[values[0].output];
    const Shape shape = local_shape(first, placements(n).inputs[0]);
    op.row = results < op.elements ? op.elements / std::max(1.0, results)
             : shape.empty()       ? 1.0
                                   : static_cast<double>(std::max<std::int64_t>(1, shape.back()));
    op.row = std::clamp(op.row, 1.0, op.elements);
    op.dims = reduced_dims(node, static_cast<int>(shape.size()));
  }
  // A number that tells apart which dims an operator reduces: a bit for each, of those that it
  // lists.
  [[nodiscard]] static int reduced_dims(const ProgramNode& node, int dims) {
    if (!node.args.is_object() && !node.args.is_array()) return 0;
    const nlohmann::json& args =
        node.args.is_object() ? node.args.value("positional", nlohmann::json::array()) : node.args;
    int bits = 0;
    const auto add = [&](const nlohmann::json& dim) {
      if (!dim.is_number_integer() || dims == 0) return;
      const int at = dim.get<int>() < 0 ? dim.get<int>() + dims : dim.get<int>();
      if (at >= 0 && at < dims && at < 30) bits |= 1 << at;
    };
    if (args.empty()) return 0;
    if (args[0].is_array()) {
      for (const nlohmann::json& dim : args[0]) add(dim);
    } else {
      add(args[0]);
    }
    return bits;
  }

  // Whether torch.compile's partitioner would rather compute a result of the forward pass again
  // than keep it: a pointwise operator, or a reduction whose result is as large as what it reads.
  // Source: PyTorch 2.13.0, torch/_functorch/partitioners.py, as strategies/training/rank_work.h
  // has it.
  [[nodiscard]] bool is_cheap(std::size_t n) const {
    const ProgramNode& node = program_.nodes[n];
    if (!node.computes() || runs_here_.contains(n) || of_.blocks.pass[n] != Phase::kForward) {
      return false;
    }
    FusionOp op;
    op.kind = kind_of(n);
    if (op.kind == FusionKind::kBarrier) return false;
    if (op.kind == FusionKind::kPointwise) return true;
    set_space(n, op);
    return results_of(n) >= op.elements;
  }

  [[nodiscard]] double results_of(std::size_t n) const {
    double results = 0.0;
    for (std::size_t o = 0; o < program_.nodes[n].outputs.size(); ++o) {
      results =
          std::max(results, local_elements(program_.nodes[n].outputs[o], placements(n).outputs[o]));
    }
    return results;
  }

  // The node as an operator that reads and writes; what it reads is added to the list before.
  FusionOp operator_of(std::size_t n) {
    FusionOp op;
    op.kind = kind_of(n);
    // Kernels that may be fused read whole tensors or next to nothing of them. What the others read
    // is priced by their own query.
    const double least = op.kind == FusionKind::kBarrier ? 0.0 : 1.0;
    const std::vector<double> shares = shares_read(n);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] > 0.0 && shares[i] >= least) op.reads.push_back(read_by(n, i));
    }
    for (std::size_t o = 0; o < program_.nodes[n].outputs.size(); ++o) {
      op.writes.push_back(tensor(n, o, placements(n).outputs[o]).first);
      is_made_[to_index(op.writes.back())] = true;
    }
    if (op.kind != FusionKind::kBarrier) set_space(n, op);
    return op;
  }

  // Returns, for each argument of a node, which share of it the kernel reads; a view counts as
  // reading all. The loss reads the logarithm of one probability of each row, and its backward pass
  // none.
  [[nodiscard]] std::vector<double> shares_read(std::size_t n) const {
    const ProgramNode& node = program_.nodes[n];
    const std::vector<ValueRef> values = values_read(node);
    const OpRule* rule = of_.rules[n];
    const KernelTraffic traffic(node.op, rule != nullptr ? rule->written_outputs() : 0);
    std::vector<double> shares(values.size(), 1.0);
    if (!traffic.leaves_inputs() || traffic.shares_input()) return shares;
    std::vector<Shape> shapes;
    std::vector<Bytes> inputs;
    std::vector<Bytes> outputs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const TensorMeta& meta = program_.nodes[values[i].node].outputs[values[i].output];
      shapes.push_back(local_shape(meta, placements(n).inputs[i]));
      inputs.push_back(stored_bytes(meta, shapes.back()));
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      outputs.push_back(itemsize(node.outputs[o].dtype) *
                        local_elements(node.outputs[o], placements(n).outputs[o]));
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (inputs[i] <= 0.0) continue;
      shares[i] = traffic.read_of(i, {.inputs = inputs,
                                      .stored_inputs = inputs,
                                      .outputs = outputs,
                                      .input_shapes = shapes}) /
                  inputs[i];
    }
    return shares;
  }

  // The tasks that make the arguments of which a node's kernel reads nothing. A fused kernel may
  // run before them.
  [[nodiscard]] std::vector<int> makers_of_unread(std::size_t n) const {
    std::vector<int> makers;
    const std::vector<ValueRef> values = values_read(program_.nodes[n]);
    const std::vector<double> shares = shares_read(n);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (shares[i] > 0.0) continue;
      const Key key{values[i].node, values[i].output, placements(n).inputs[i]};
      const auto known = known_.find(key);
      if (known == known_.end()) continue;
      makers.push_back(writer_[to_index(base_[to_index(known->second)])]);
    }
    return makers;
  }

  void push(FusionOp op, std::size_t n, int task) {
    for (const int written : op.writes) is_made_[to_index(written)] = true;
    ops_.push_back(std::move(op));
    node_of_.push_back(n);
    task_of_.push_back(task);
  }

  void add(int t) {
    const StepTask& task = step_.tasks[to_index(t)];
    FusionOp op;
    std::set<int> covered;  // tasks whose results the operator is known to read, or not to read
    if (!is_move(task)) {
      op = operator_of(task.node);
      for (const int read : op.reads) covered.insert(writer_[to_index(base_[to_index(read)])]);
      for (const int maker : makers_of_unread(task.node)) covered.insert(maker);
      for (const int written : op.writes) writer_[to_index(written)] = t;
    }
    // What else the task waits for is a tensor without bytes.
    for (const int before : task.kernel.after) {
      const auto place = place_.find(before);
      if (covered.contains(before) || place == place_.end()) continue;
      const auto [signal, is_new] = signals_.try_emplace(before, -1);
      if (is_new) {
        signal->second = make(0.0);
        ops_[to_index(place->second)].writes.push_back(signal->second);
      }
      op.reads.push_back(signal->second);
    }
    place_[t] = static_cast<int>(ops_.size());
    push(std::move(op), task.node, t);
  }

 public:
  // Whether a task moves a value and is no operator of the program.
  [[nodiscard]] bool is_move(const StepTask& task) const {
    return !task.kernel.mesh_dims.empty() || task.kernel.name != program_.nodes[task.node].op;
  }

 private:
  const TrainingStep& step_;
  const PlannedKernels& of_;
  const Program& program_;
  const ProgramPricing& pricing_;
  Phase pass_;
  bool repeats_;
  std::set<std::size_t> runs_here_;  // nodes
  std::vector<FusionOp> ops_;
  std::vector<std::size_t> node_of_;  // by operator
  std::vector<int> task_of_;          // by operator; -1: it is no task of the step
  std::vector<FusionTensor> tensors_;
  std::vector<int> base_;      // by tensor: the one whose memory it shares
  std::vector<int> writer_;    // by tensor: the task that makes it in this pass; -1: none
  std::vector<bool> is_made_;  // by tensor: whether this pass makes it
  std::map<Key, int> known_;
  std::map<int, int> place_;    // by task: its operator
  std::map<int, int> signals_;  // by task: a tensor without bytes
};

class TaskList {
 public:
  TaskList(const TrainingStep& step, const PlannedKernels& of, const ProgramPricing& pricing)
      : step_(step),
        of_(of),
        program_(*of.planned.program),
        pricing_(pricing),
        place_(step.tasks.size(), -1) {}

  void add(const PassGraph& pass, const std::vector<FusedKernel>& kernels) {
    for (const FusedKernel& kernel : kernels) add(pass, kernel);
  }
  std::vector<ProgramTask> take() && { return std::move(tasks_); }

 private:
  void add(const PassGraph& pass, const FusedKernel& kernel) {
    std::vector<int> members;
    std::vector<std::size_t> nodes;
    bool reduces = false;
    bool is_barrier = false;
    for (const int op : kernel.ops) {
      if (pass.is_view(op) || pass.runs_nothing(op)) continue;
      nodes.push_back(pass.node(op));
      if (const std::optional<int> task = pass.task(op)) members.push_back(*task);
      reduces = reduces || pass.reduces(op);
      is_barrier = is_barrier || pass.is_barrier(op);
    }
    if (nodes.empty()) return;
    StepTask first;
    if (members.empty()) {
      first.kernel.name = program_.nodes[nodes[0]].op;
      first.node = static_cast<std::uint32_t>(nodes[0]);
      first.pass = pass.pass();
    } else {
      first = step_.tasks[to_index(members[0])];
    }
    ProgramTask task{.name = short_name(first.kernel.name),
                     .block = block_of(first.node),
                     .stream = first.kernel.stream,
                     .pass = first.pass,
                     .is_collective = !first.kernel.mesh_dims.empty(),
                     .after = {}};
    for (const int member : members) {
      for (const int before : step_.tasks[to_index(member)].kernel.after) {
        const int place = place_[to_index(before)];
        if (place >= 0) task.after.push_back(place);
      }
    }
    std::sort(task.after.begin(), task.after.end());
    task.after.erase(std::unique(task.after.begin(), task.after.end()), task.after.end());
    if (task.is_collective) {
      add_collective(first, std::move(task));
    } else {
      if (nodes.size() > 1) task.name += " and " + std::to_string(nodes.size() - 1) + " more";
      add_kernel(pass, first, kernel, is_barrier, reduces, std::move(task));
    }
    for (const int member : members) place_[to_index(member)] = static_cast<int>(tasks_.size()) - 1;
  }

  void add_kernel(const PassGraph& pass, const StepTask& first, const FusedKernel& kernel,
                  bool is_barrier, bool reduces, ProgramTask task) {
    for (const int before : task.after) add_copy_out(before, task);
    if (pass.is_move(first)) {
      task.us = first.kernel.price.value() / pricing_.factors.rate / pricing_.factors.memory;
    } else {
      KernelQuery query =
          kernel_query_of(program_, first.node, of_.rules[first.node],
                          pricing_.redistributor.mesh(), of_.planned.placements[first.node])
              .value_or(KernelQuery{});
      if (!is_barrier) {
        query = {.kind = reduces ? Kernel::kReduction : Kernel::kElementwise,
                 .bytes = kernel.bytes_read + kernel.bytes_written,
                 .dtype = DType::kBF16};
      }
      task.kind = kernel_class_of(query);
      task.us = pricing_.kernel_us(query, task.kind);
    }
    tasks_.push_back(std::move(task));
  }

  void add_collective(const StepTask& first, ProgramTask task) {
    for (const int mesh_dim : first.kernel.mesh_dims) {
      task.leaves_domain =
          task.leaves_domain || pricing_.redistributor.pricer().span(mesh_dim).domains > 1;
    }
    task.us = pricing_.collective_us(first.kernel.price.value(), first.kernel.transfer.value(),
                                     task.leaves_domain);
    const double bytes = first.kernel.full_bytes;
    if (task.stream == Stream::kGather) {
      to_copy_[static_cast<int>(tasks_.size())] = bytes;
    } else if (task.stream == Stream::kReduction && first.kernel.name == "reduce_scatter" &&
               !reads_a_cast(first)) {
      const int copy = add_copy(2.0 * bytes, task, task.after);
      task.after = {copy};
    }
    tasks_.push_back(std::move(task));
  }

  // Whether a kernel of the program has written what is reduced as it is reduced.
  [[nodiscard]] bool reads_a_cast(const StepTask& reduction) const {
    return std::ranges::any_of(reduction.kernel.after, [&](int before) {
      return of_.blocks.carries_gradient[step_.tasks[to_index(before)].node];
    });
  }

  // Before the first kernel that reads gathered weights, they are copied out of the flat buffer.
  void add_copy_out(int gather, const ProgramTask& reader) {
    const auto found = to_copy_.find(gather);
    if (found == to_copy_.end()) return;
    add_copy(2.0 * found->second, reader, {gather});
    to_copy_.erase(found);
  }
  int add_copy(double bytes, const ProgramTask& beside, std::vector<int> after) {
    tasks_.push_back({.name = "copy",
                      .block = beside.block,
                      .stream = Stream::kCompute,
                      .pass = beside.pass,
                      .us = pricing_.memory_us(bytes),
                      .after = std::move(after)});
    return static_cast<int>(tasks_.size()) - 1;
  }

  [[nodiscard]] std::string block_of(std::size_t n) const {
    const int block = of_.blocks.block[n];
    return block < 0 ? "" : of_.blocks.names[to_index(block)];
  }

  const TrainingStep& step_;
  const PlannedKernels& of_;
  const Program& program_;
  const ProgramPricing& pricing_;
  std::vector<int> place_;         // by task of the step: its place in tasks_
  std::map<int, double> to_copy_;  // by gather: the bytes that no kernel has read yet
  std::vector<ProgramTask> tasks_;
};

}  // namespace

KernelClass kernel_class_of(const KernelQuery& query) {
  if (query.kind == Kernel::kAttention) return KernelClass::kAttention;
  if (query.kind != Kernel::kGemm) return KernelClass::kOther;
  return itemsize(query.dtype) < 2 ? KernelClass::kLowGemm : KernelClass::kGemm;
}

double ProgramPricing::kernel_us(const KernelQuery& query, KernelClass kind) const {
  const double us = kernels.price(query).total.value() / factors.rate;
  switch (kind) {
    case KernelClass::kGemm:
      return us / factors.gemm;
    case KernelClass::kLowGemm:
      return us / factors.low_gemm;
    case KernelClass::kAttention:
      return us / factors.attention;
    case KernelClass::kOther:
      break;
  }
  return us / factors.memory;
}

double ProgramPricing::memory_us(double bytes) const {
  if (bytes <= 0.0) return 0.0;
  return kernel_us({.kind = Kernel::kElementwise, .bytes = bytes, .dtype = DType::kF32},
                   KernelClass::kOther);
}

double ProgramPricing::collective_us(double total_us, double transfer_us,
                                     bool leaves_domain) const {
  const double factor = leaves_domain ? factors.network : factors.links;
  return total_us - transfer_us + transfer_us / factor;
}

std::vector<ProgramTask> program_tasks(const TrainingStep& step, const PlannedKernels& of,
                                       const ProgramPricing& pricing, bool compiled) {
  PassGraph forward(step, of, pricing, Phase::kForward, false);
  const PassGraph backward(step, of, pricing, Phase::kBackward, compiled);
  forward.keep_for(backward);
  TaskList list(step, of, pricing);
  list.add(forward, forward.kernels(compiled));
  list.add(backward, backward.kernels(compiled));
  return std::move(list).take();
}

}  // namespace shardlab
