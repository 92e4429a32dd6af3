#include "strategies/steps/training_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/programs/parameter_weights.h"
#include "strategies/programs/program_execution.h"
#include "strategies/programs/program_graph.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {
namespace {

constexpr int kBeforeStep = -1;

// Whether a node only gives a name to a value that another node has made.
bool only_names(const ProgramNode& node) { return !node.computes() || node.op == kGetItem; }

// A value as the step holds it: its buffer, and the tasks for which a reader has to wait.
struct Held {
  int buffer = -1;
  std::vector<int> ready;
  std::optional<ValueRef> value = {};  // nothing once a move has made another buffer of it
};

// Collectives with equal signatures become one.
using Signature = std::tuple<Collective, MeshDims, Placement, Placement, DType>;

// A move that is under way: it continues with step `next` of its plan.
struct PendingMove {
  std::uint32_t reader = 0;
  std::uint32_t argument = 0;
  std::uint32_t plan = 0;
  std::size_t next = 0;
  Held held;
};

class StepMaker {
 public:
  StepMaker(const PlannedProgram& planned, const ModelBlocks& blocks, Redistributor& redistributor,
            const StepOptions& options)
      : planned_(planned),
        program_(*planned.program),
        blocks_(blocks),
        redistributor_(redistributor),
        options_(options),
        again_(recomputed_nodes(program_, blocks, options.recomputation)),
        pass_(blocks.pass),
        held_(program_.nodes.size()),
        moved_(program_.nodes.size()),
        done_again_(program_.nodes.size(), false) {
    for (const ProgramNode& own : program_.nodes) reads_.push_back(values_read(own));
  }

  TrainingStep run() && {
    add_sources();
    run_forward();
    run_backward();
    settle();
    return std::move(step_);
  }

 private:
  [[nodiscard]] const ProgramNode& node(std::size_t n) const { return program_.nodes[n]; }

  // -- Buffers ----------------------------------------------------------------------------------

  int add_buffer(double bytes, std::size_t of, MemoryPart part, int made_by,
                 Stream pool = Stream::kCompute) {
    step_.buffers.push_back({.bytes = bytes,
                             .part = part,
                             .pool = pool,
                             .node = static_cast<std::uint32_t>(of),
                             .made_by = made_by,
                             .last_use = made_by});
    return static_cast<int>(step_.buffers.size()) - 1;
  }
  void use(const Held& held, int task) {
    if (held.buffer < 0) return;
    StepBuffer& buffer = step_.buffers[to_index(held.buffer)];
    if (task < buffer.last_use) return;
    buffer.last_use = task;
    buffer.read_as = held.value;
  }
  [[nodiscard]] double local_elements(const Shape& shape, const Placements& placements) const {
    return element_count(largest_local_shape(shape, placements, redistributor_.mesh()));
  }
  [[nodiscard]] double local_bytes(const TensorMeta& meta, const Placements& placements) const {
    return itemsize(meta.dtype) * local_elements(meta.shape, placements);
  }
  [[nodiscard]] MemoryPart part_of(std::size_t n) const {
    return blocks_.is_weight[n] ? MemoryPart::kGathered : MemoryPart::kTemporary;
  }

  void add_sources() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (!node(n).is_source()) continue;
      const TensorMeta& meta = node(n).outputs[0];
      const Placements& layout = planned_.placements[n].outputs[0];
      const bool stays = node(n).kind == NodeKind::kParameter || node(n).kind == NodeKind::kBuffer;
      const MemoryPart part = stays                              ? MemoryPart::kParameters
                              : node(n).kind == NodeKind::kInput ? MemoryPart::kActivations
                                                                 : MemoryPart::kTemporary;
      const int buffer = add_buffer(local_bytes(meta, layout), n, part, kBeforeStep);
      held_[n] = {{buffer, {}, ValueRef{n, 0}}};
      if (stays || node(n).kind == NodeKind::kInput) staying_.push_back(buffer);
      if (node(n).kind == NodeKind::kTangent) tangents_.push_back(buffer);
    }
    for (const auto& [source, gradient] : program_.pairs) {
      if (node(source).kind != NodeKind::kParameter || node(gradient).kind != NodeKind::kGradient)
        continue;
      const TensorMeta& meta = node(source).outputs[0];
      const double bytes = adam_bytes_per_element(meta.dtype) *
                           local_elements(meta.shape, planned_.placements[source].outputs[0]);
      staying_.push_back(add_buffer(bytes, source, MemoryPart::kOptimizer, kBeforeStep));
    }
  }

  // -- Tasks ------------------------------------------------------------------------------------

  int add_task(ScheduledKernel kernel, std::size_t n) {
    std::sort(kernel.after.begin(), kernel.after.end());
    kernel.after.erase(std::unique(kernel.after.begin(), kernel.after.end()), kernel.after.end());
    step_.tasks.push_back({.kernel = std::move(kernel),
                           .node = static_cast<std::uint32_t>(n),
                           .pass = now_,
                           .runs_again = now_ == Phase::kBackward && again_[n]});
    return static_cast<int>(step_.tasks.size()) - 1;
  }

  [[nodiscard]] const std::vector<ValueRef>& reads(std::size_t n) const { return reads_[n]; }

  // Where a local copy or a cast runs: what has been reduced stays on the stream that reduced it.
  [[nodiscard]] Stream stream_behind(const std::vector<int>& after) const {
    const bool is_reduced = std::ranges::any_of(after, [&](int task) {
      return step_.tasks[to_index(task)].kernel.stream == Stream::kReduction;
    });
    return is_reduced ? Stream::kReduction : Stream::kCompute;
  }

  // Runs the next step of a move by itself.
  void run_step(PendingMove& move, Stream stream) {
    const Plan& plan = planned_.plans[move.plan];
    const PlanStep& step = plan.steps[move.next];
    const bool is_local = step.collective == Collective::kLocal;
    ScheduledKernel kernel{.name = std::string(to_string(step.collective)),
                           .stream = is_local ? stream_behind(move.held.ready) : stream,
                           .mesh_dims = is_local ? MeshDims() : step.mesh_dims,
                           .full_bytes = is_local ? 0.0 : step.full_bytes,
                           .dtype = is_local ? DType::kU8 : plan.meta.dtype,
                           .price = step.price.total,
                           .transfer = is_local ? Micros() : step.price.transfer,
                           .after = move.held.ready};
    finish_step(move, add_task(std::move(kernel), move.reader));
  }
  // The buffer that a step of a move leaves, once the task that runs the step is there.
  void finish_step(PendingMove& move, int task) {
    const Plan& plan = planned_.plans[move.plan];
    const PlanStep& step = plan.steps[move.next];
    use(move.held, task);
    const std::size_t producer = reads(move.reader)[move.argument].node;
    const double bytes = local_bytes(plan.meta, step.after.placements);
    const Stream stream = step_.tasks[to_index(task)].kernel.stream;
    // Weights are copied out of what a unit's gather writes.
    const bool is_copied = stream == Stream::kGather;
    if (is_copied) {
      flat_.push_back(add_buffer(bytes, producer, part_of(producer), task, Stream::kGather));
    }
    const int buffer = add_buffer(bytes, producer, part_of(producer), task,
                                  stream == Stream::kReduction ? stream : Stream::kCompute);
    move.held = {buffer, {task}};
    ++move.next;
  }
  [[nodiscard]] bool is_done(const PendingMove& move) const {
    return move.next == planned_.plans[move.plan].steps.size();
  }

  [[nodiscard]] PendingMove move_to(std::size_t reader, std::size_t argument) const {
    const ValueRef value = reads(reader)[argument];
    return {.reader = static_cast<std::uint32_t>(reader),
            .argument = static_cast<std::uint32_t>(argument),
            .plan = planned_.moves[reader][argument],
            .next = 0,
            .held = held_[value.node][value.output]};
  }

  // The value that a node reads, once it has the layout that the node wants.
  Held moved(std::size_t n, std::size_t argument) {
    if (argument < moved_[n].size() && moved_[n][argument]) return *moved_[n][argument];
    PendingMove move = move_to(n, argument);
    while (!is_done(move)) run_step(move, Stream::kCommunication);
    return move.held;
  }

  // Runs a node whose inputs are held.
  void run_node(std::size_t n) {
    const ProgramNode& own = node(n);
    std::vector<Held> inputs;
    std::vector<int> after;
    const std::size_t values = reads(n).size();
    for (std::size_t i = 0; i < values; ++i) {
      inputs.push_back(moved(n, i));
      after.insert(after.end(), inputs.back().ready.begin(), inputs.back().ready.end());
    }
    moved_[n].clear();
    const double us = planned_.compute_us[n];
    if (now_ == Phase::kBackward && again_[n] && blocks_.block[n] >= 0 && !blocks_.is_weight[n]) {
      block_runs_again_.try_emplace(blocks_.block[n], static_cast<int>(step_.tasks.size()));
    }
    const bool shares = (only_names(own) || planned_.is_view[n]) && !inputs.empty();
    if (own.leaves()) {
      if (!inputs.empty()) leaving_.emplace_back(n, inputs[0]);
      return;
    }
    if (shares && us <= 0.0) {
      held_[n].clear();
      for (std::size_t o = 0; o < own.outputs.size(); ++o) {
        held_[n].push_back({inputs[0].buffer, after, ValueRef{n, o}});
      }
      return;
    }
    const Stream stream = blocks_.carries_gradient[n] ? stream_behind(after) : Stream::kCompute;
    const int task = add_task({.name = own.op,
                               .stream = stream,
                               .mesh_dims = {},
                               .full_bytes = 0.0,
                               .dtype = DType::kU8,
                               .price = Micros(us),
                               .transfer = {},
                               .after = std::move(after)},
                              n);
    for (const Held& input : inputs) use(input, task);
    held_[n].clear();
    for (std::size_t o = 0; o < own.outputs.size(); ++o) {
      const int buffer =
          shares ? inputs[0].buffer
                 : add_buffer(local_bytes(own.outputs[o], planned_.placements[n].outputs[o]), n,
                              part_of(n), task, stream);
      held_[n].push_back({buffer, {task}, ValueRef{n, o}});
    }
  }

  // -- Units ------------------------------------------------------------------------------------

  // Runs `nodes` in the order of their dependencies, with the moves of what they read, and moves
  // values to `readers` (node and argument), which run later. Collectives of one kind, mesh dims,
  // placements and dtype run as one. Assumes that every other value that the nodes read is held.
  void run_together(const std::vector<std::size_t>& nodes,
                    std::vector<std::pair<std::size_t, std::size_t>> readers, Stream stream) {
    std::vector<PendingMove> moves;
    std::vector<std::size_t> waiting = nodes;
    std::map<std::size_t, std::size_t> missing;  // by node: how many of its inputs are under way
    std::vector<std::size_t> ready;
    std::vector<bool> is_waiting(program_.nodes.size(), false);
    for (const std::size_t n : nodes) is_waiting[n] = true;
    const auto begin_moves_of = [&](std::size_t n) {
      moved_[n].assign(reads(n).size(), std::nullopt);
      for (std::size_t i = 0; i < moved_[n].size(); ++i) moves.push_back(move_to(n, i));
      missing[n] = moved_[n].size();
    };
    const auto can_begin = [&](std::size_t n) {
      return std::ranges::none_of(reads(n),
                                  [&](const ValueRef& value) { return is_waiting[value.node]; });
    };
    while (!waiting.empty() || !moves.empty() || !readers.empty()) {
      // Nodes whose inputs are held begin; what costs no collective is done at once.
      bool goes_on = true;
      while (goes_on) {
        goes_on = false;
        std::erase_if(readers, [&](const auto& each) {
          if (is_waiting[reads(each.first)[each.second].node]) return false;
          moves.push_back(move_to(each.first, each.second));
          return true;
        });
        for (PendingMove& move : moves) {
          while (!is_done(move) && next_step(move).collective == Collective::kLocal) {
            run_step(move, stream);
          }
        }
        std::erase_if(moves, [&](const PendingMove& move) {
          if (!is_done(move)) return false;
          std::vector<std::optional<Held>>& places = moved_[move.reader];
          if (places.size() <= move.argument) places.resize(reads(move.reader).size());
          places[move.argument] = move.held;
          if (missing.contains(move.reader)) --missing[move.reader];
          return true;
        });
        for (const std::size_t n : waiting) {
          if (!missing.contains(n) && can_begin(n)) {
            begin_moves_of(n);
            goes_on = true;
          }
          if (missing.contains(n) && missing[n] == 0 && is_waiting[n]) {
            run_node(n);
            is_waiting[n] = false;
            goes_on = true;
          }
        }
        std::erase_if(waiting, [&](std::size_t n) { return !is_waiting[n]; });
      }
      run_collectives(moves, stream);
    }
  }
  [[nodiscard]] const PlanStep& next_step(const PendingMove& move) const {
    return planned_.plans[move.plan].steps[move.next];
  }

  // The bytes that a rank holds before a step of a move.
  [[nodiscard]] double bytes_before(const PendingMove& move) const {
    const Plan& plan = planned_.plans[move.plan];
    double bytes = held_bytes(plan.meta, plan.from.placements, redistributor_.mesh());
    for (std::size_t s = 0; s < move.next; ++s) {
      const PlanStep& step = plan.steps[s];
      bytes = redistributor_.pricer()
                  .price(step.from, step.to, redistributor_.span(step), bytes, plan.meta.dtype)
                  .bytes_after;
    }
    return bytes;
  }

  // Runs the next collective of every move. Collectives with equal signatures run as one.
  void run_collectives(std::vector<PendingMove>& moves, Stream stream) {
    std::vector<std::pair<Signature, std::vector<std::size_t>>> groups;
    for (std::size_t m = 0; m < moves.size(); ++m) {
      const PlanStep& step = next_step(moves[m]);
      const Signature signature = {step.collective, step.mesh_dims, step.from, step.to,
                                   planned_.plans[moves[m].plan].meta.dtype};
      const auto known =
          std::ranges::find_if(groups, [&](const auto& each) { return each.first == signature; });
      if (known != groups.end()) {
        known->second.push_back(m);
      } else {
        groups.push_back({signature, {m}});
      }
    }
    for (const auto& [signature, members] : groups) {
      if (members.size() == 1) {
        run_step(moves[members[0]], stream);
        continue;
      }
      const PlanStep& step = next_step(moves[members[0]]);
      const DType dtype = std::get<DType>(signature);
      double bytes = 0.0;
      std::vector<int> after;
      for (const std::size_t m : members) {
        bytes += bytes_before(moves[m]);
        after.insert(after.end(), moves[m].held.ready.begin(), moves[m].held.ready.end());
      }
      const PricedTransition priced = redistributor_.pricer().price(
          step.from, step.to, redistributor_.span(step), bytes, dtype);
      const int task = add_task({.name = std::string(to_string(step.collective)),
                                 .stream = stream,
                                 .mesh_dims = step.mesh_dims,
                                 .full_bytes = priced.full_bytes,
                                 .dtype = dtype,
                                 .price = priced.price.total,
                                 .transfer = priced.price.transfer,
                                 .after = std::move(after)},
                                moves[members[0]].reader);
      for (const std::size_t m : members) finish_step(moves[m], task);
    }
  }

  // What a unit's weights need in the pass that begins: the nodes to run, and the nodes that read
  // the weights.
  struct WeightUnit {
    int unit = -1;
    std::vector<std::size_t> nodes;
    std::vector<std::pair<std::size_t, std::size_t>> readers;  // node and argument
  };

  // Prepares the units in the order in which the pass reads them. `runs` says which nodes run in
  // this pass, and `makes` which weights are made in it. A weight may be made of weights of several
  // units: each node runs in the first unit that needs it, so that its value is there for later
  // ones.
  template <class Runs, class Makes>
  void begin_units(const std::vector<std::size_t>& order, const Runs& runs, const Makes& makes) {
    units_.clear();
    place_of_unit_.assign(blocks_.unit_names.size(), -1);
    next_unit_ = 0;
    // It holds, for each weight, the place of the first unit that needs the weight.
    std::vector<std::optional<std::size_t>> first_place(program_.nodes.size());
    const auto need = [&](std::size_t weight, std::size_t place) {
      first_place[weight] = std::min(first_place[weight].value_or(place), place);
    };
    const auto place_of = [&](std::size_t weight) {
      int& place = place_of_unit_[to_index(blocks_.unit[weight])];
      if (place < 0) {
        place = static_cast<int>(units_.size());
        units_.push_back({.unit = blocks_.unit[weight], .nodes = {}, .readers = {}});
      }
      return to_index(place);
    };
    for (const std::size_t n : order) {
      if (!runs(n) || blocks_.is_weight[n]) continue;
      const std::vector<ValueRef> values = reads(n);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!blocks_.is_weight[values[i].node]) continue;
        const std::size_t place = place_of(values[i].node);
        units_[place].readers.emplace_back(n, i);
        need(values[i].node, place);
      }
    }
    for (std::size_t n = program_.nodes.size(); n-- > 0;) {
      if (!first_place[n] || !node(n).computes() || !makes(n)) continue;
      for (const ValueRef& value : reads(n)) need(value.node, *first_place[n]);
    }
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (!first_place[n] || !node(n).computes() || !makes(n)) continue;
      units_[*first_place[n]].nodes.push_back(n);
    }
  }

  // Before a node that reads weights: their unit and the next ones are gathered.
  void expect_weights(std::size_t n) {
    if (!options_.units) return;
    for (const ValueRef& value : reads(n)) {
      if (!blocks_.is_weight[value.node]) continue;
      const int place = place_of_unit_[to_index(blocks_.unit[value.node])];
      if (place < 0) continue;
      while (next_unit_ < units_.size() &&
             static_cast<int>(next_unit_) <= place + options_.prefetch) {
        if (now_ == Phase::kBackward) {
          unit_gathered_again_[to_index(units_[next_unit_].unit)] =
              static_cast<int>(step_.tasks.size());
        }
        gather(units_[next_unit_++]);
      }
    }
  }
  void gather(const WeightUnit& unit) {
    const std::size_t first = step_.buffers.size();
    std::vector<std::pair<std::size_t, std::size_t>> moved;
    for (const auto& [reader, argument] : unit.readers) {
      if (!planned_.plans[planned_.moves[reader][argument]].steps.empty()) {
        moved.emplace_back(reader, argument);
      }
    }
    const std::vector<int> flat_before = std::move(flat_);
    flat_.clear();
    run_together(unit.nodes, std::move(moved), Stream::kGather);
    const int tasks = static_cast<int>(step_.tasks.size());
    gathered_.push_back({first, step_.buffers.size(), tasks});
    if (flat_.empty()) return;
    // What a gather has written is freed when the next one has been copied out.
    for (const int buffer : flat_before) step_.buffers[to_index(buffer)].last_use = tasks - 1;
  }

  // -- The two passes ---------------------------------------------------------------------------

  void run_forward() {
    now_ = Phase::kForward;
    const auto runs = [&](std::size_t n) {
      return pass_[n] == Phase::kForward && !node(n).is_source();
    };
    std::vector<std::size_t> order(program_.nodes.size());
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = n;
    if (options_.units) {
      begin_units(order, runs, [&](std::size_t n) { return pass_[n] == Phase::kForward; });
    }
    for (const std::size_t n : order) {
      if (!runs(n) || (options_.units && blocks_.is_weight[n] && !node(n).leaves())) continue;
      expect_weights(n);
      run_node(n);
    }
    // Weights that the program returns, or that nothing reads.
    for (const std::size_t n : order) {
      if (runs(n) && node(n).computes() && held_[n].empty()) run_node(n);
    }
  }

  void run_backward() {
    now_ = Phase::kBackward;
    unit_gathered_again_.assign(blocks_.unit_names.size(), -1);
    backward_begins_ = static_cast<int>(step_.tasks.size());
    const std::vector<std::size_t> order = backward_order();
    std::vector<bool> in_order(program_.nodes.size(), false);
    for (const std::size_t n : order) in_order[n] = true;
    if (options_.units) {
      begin_units(
          order, [&](std::size_t n) { return in_order[n]; },
          [&](std::size_t n) { return again_[n] || pass_[n] == Phase::kBackward; });
    }
    find_gradient_units();
    for (const std::size_t n : order) {
      const bool is_in_unit =
          blocks_.carries_gradient[n] || (blocks_.is_weight[n] && node(n).computes());
      if (options_.units && is_in_unit) continue;
      expect_weights(n);
      run_node(n);
      if (options_.units) note_gradients_of(n);
    }
    if (options_.units) {
      for (std::size_t unit = 0; unit < gradients_.size(); ++unit) reduce(unit);
    }
  }

  // The backward nodes in order. Before each of them: the forward nodes that have to run again, and
  // those that only the backward pass needs.
  std::vector<std::size_t> backward_order() {
    std::vector<std::size_t> order;
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (node(n).is_source() || pass_[n] != Phase::kBackward) continue;
      if (node(n).phase == Phase::kBackward || node(n).leaves()) add_backward(n, order);
    }
    return order;
  }
  void add_backward(std::size_t n, std::vector<std::size_t>& order) {
    if (done_again_[n]) return;
    done_again_[n] = true;
    add_read_by(n, order);
    order.push_back(n);
  }
  // Adds what the node reads and what is not there yet; of what runs again, the rest of its block
  // too. Under units, weights are left to gather().
  void add_read_by(std::size_t reader, std::vector<std::size_t>& order) {
    for (const ValueRef& value : reads(reader)) {
      const std::size_t n = value.node;
      if (done_again_[n] || node(n).is_source()) continue;
      if (!again_[n]) {
        if (pass_[n] == Phase::kBackward) add_backward(n, order);
        continue;
      }
      if (blocks_.is_weight[n]) {
        add_backward(n, order);
        continue;
      }
      for (std::size_t other = 0; other < program_.nodes.size(); ++other) {
        const bool is_alike =
            again_[other] && !blocks_.is_weight[other] && blocks_.block[other] == blocks_.block[n];
        if (is_alike) add_backward(other, order);
      }
    }
  }

  // -- Gradients --------------------------------------------------------------------------------

  struct GradientUnit {
    std::vector<std::size_t> nodes;  // those that carry gradients
    std::size_t missing = 0;  // how many of the values that they carry are still to be computed
    bool done = false;
  };

  void find_gradient_units() {
    gradients_.resize(blocks_.unit_names.size());
    gradients_of_.assign(program_.nodes.size(), {});
    if (!options_.units) return;
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (!blocks_.carries_gradient[n] || pass_[n] != Phase::kBackward) continue;
      if (blocks_.unit[n] < 0) {
        unpaired_.push_back(n);
        continue;
      }
      const std::size_t unit = to_index(blocks_.unit[n]);
      gradients_[unit].nodes.push_back(n);
      for (const ValueRef& value : reads(n)) {
        if (blocks_.carries_gradient[value.node] || node(value.node).is_source()) continue;
        gradients_of_[value.node].push_back(unit);
        ++gradients_[unit].missing;
      }
    }
  }
  void note_gradients_of(std::size_t n) {
    for (const std::size_t unit : gradients_of_[n]) {
      if (--gradients_[unit].missing == 0) reduce(unit);
    }
  }
  void reduce(std::size_t unit) {
    if (gradients_[unit].done) return;
    gradients_[unit].done = true;
    run_together(gradients_[unit].nodes, {}, Stream::kReduction);
  }

  // Frees the gathered weights of a unit together, after the last read of any of them. Weights that
  // nothing reads after the gather are freed on their own.
  void free_units_together() {
    for (const auto& [first, end, task] : gathered_) {
      int last = -1;
      for (std::size_t b = first; b < end; ++b) {
        if (step_.buffers[b].pool == Stream::kGather) continue;
        last = std::max(last, step_.buffers[b].last_use);
      }
      for (std::size_t b = first; b < end; ++b) {
        StepBuffer& buffer = step_.buffers[b];
        if (buffer.pool == Stream::kGather) continue;
        if (buffer.last_use < task || buffer.last_use == last) continue;
        buffer.last_use = last;
        buffer.read_as.reset();  // it stays for the others, not for a reader of its own
      }
    }
  }

  // -- The end ----------------------------------------------------------------------------------

  // Sets when buffers are freed, and what they hold.
  void settle() {
    for (const std::size_t n : unpaired_) run_node(n);
    const int tasks = static_cast<int>(step_.tasks.size());
    for (const int buffer : staying_) step_.buffers[to_index(buffer)].last_use = tasks;
    for (const int tangent : tangents_) {
      StepBuffer& buffer = step_.buffers[to_index(tangent)];
      buffer.made_by = backward_begins_;
      buffer.last_use = std::max(buffer.last_use, buffer.made_by);
    }
    for (const auto& [n, held] : leaving_) {
      if (held.buffer < 0) continue;
      StepBuffer& buffer = step_.buffers[to_index(held.buffer)];
      if (node(n).kind == NodeKind::kGradient) {
        if (buffer.part != MemoryPart::kParameters) buffer.part = MemoryPart::kGradients;
        buffer.last_use = tasks;
      } else if (pass_[n] == Phase::kForward && buffer.made_by >= 0) {
        buffer.last_use = std::max(buffer.last_use, backward_begins_ - 1);
      }
    }
    free_units_together();
    const std::vector<bool> held = held_nodes(program_, blocks_, options_.recomputation);
    for (std::size_t n = 0; n < held.size(); ++n) {
      if (!held[n] || held_[n].empty()) continue;
      const auto begins = block_runs_again_.find(blocks_.block[n]);
      if (begins == block_runs_again_.end()) continue;
      for (const Held& output : held_[n]) use(output, begins->second);
    }
    step_.gathered_again.assign(program_.nodes.size(), tasks);
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const int unit = blocks_.is_weight[n] ? blocks_.unit[n] : -1;
      if (unit < 0 || unit_gathered_again_[to_index(unit)] < 0) continue;
      step_.gathered_again[n] = unit_gathered_again_[to_index(unit)];
    }
    for (StepBuffer& buffer : step_.buffers) {
      const bool crosses = buffer.made_by >= 0 && buffer.made_by < backward_begins_ &&
                           buffer.last_use >= backward_begins_;
      if (crosses && buffer.part == MemoryPart::kTemporary) buffer.part = MemoryPart::kActivations;
    }
  }

  const PlannedProgram& planned_;
  const Program& program_;
  const ModelBlocks& blocks_;
  Redistributor& redistributor_;
  const StepOptions& options_;
  std::vector<bool> again_;
  std::vector<std::vector<ValueRef>> reads_;  // by node
  const std::vector<Phase>& pass_;            // by node
  std::vector<std::vector<Held>> held_;       // by node and output: the value as it was made last
  // For each node and tensor that it reads, the value in the layout that it wants, where it was
  // moved ahead.
  std::vector<std::vector<std::optional<Held>>> moved_;
  std::vector<bool> done_again_;
  Phase now_ = Phase::kForward;
  int backward_begins_ = 0;
  std::vector<WeightUnit> units_;
  std::vector<int> place_of_unit_;  // by unit: index into units_; -1: the pass does not read it
  std::size_t next_unit_ = 0;
  // The buffers that a gather has made, from the first to before the end, and how many tasks there
  // were after it.
  struct Gathered {
    std::size_t first = 0;
    std::size_t end = 0;
    int task = 0;
  };
  std::vector<Gathered> gathered_;
  std::vector<int> flat_;                 // what the last gather has written
  std::vector<int> unit_gathered_again_;  // by unit: the number of tasks before; -1: not gathered
  std::map<int, int> block_runs_again_;   // by block: the number of tasks before it runs again
  std::vector<GradientUnit> gradients_;   // by unit
  std::vector<std::vector<std::size_t>> gradients_of_;  // by node: units that wait for its value
  std::vector<std::size_t> unpaired_;
  std::vector<int> staying_;
  std::vector<int> tangents_;
  std::vector<std::pair<std::size_t, Held>> leaving_;
  TrainingStep step_;
};

}  // namespace

PlannedProgram planned_program(const Program& program, std::vector<NodePlacements> placements,
                               std::vector<double> compute_us,
                               const std::vector<const OpRule*>& rules,
                               Redistributor& redistributor) {
  PlannedProgram planned{.program = &program,
                         .placements = std::move(placements),
                         .compute_us = std::move(compute_us),
                         .is_view = {},
                         .plans = {},
                         .moves = std::vector<std::vector<std::uint32_t>>(program.nodes.size())};
  for (const OpRule* rule : rules) {
    planned.is_view.push_back(rule != nullptr && rule->kernel == Kernel::kView);
  }
  using Key = std::tuple<std::string, std::vector<std::int64_t>, Placements, Placements>;
  std::map<Key, std::uint32_t> known;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const std::vector<ValueRef> values = values_read(program.nodes[n]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const TensorMeta& meta = program.nodes[values[i].node].outputs[values[i].output];
      const Placements& from = planned.placements[values[i].node].outputs[values[i].output];
      const Placements& to = planned.placements[n].inputs[i];
      const auto [place, is_new] =
          known.try_emplace(Key{meta.text(), {meta.strides.begin(), meta.strides.end()}, from, to},
                            static_cast<std::uint32_t>(planned.plans.size()));
      if (is_new) {
        Plan plan = plan_move(redistributor, meta, Layout(from), Layout(to));
        const std::string& reason = plan.refusal();
        if (!reason.empty()) {
          throw InputError("node " + program.nodes[n].name + ": input " + std::to_string(i) + ", " +
                           plan.from.text() + " to " + plan.to.text() + ": " + reason);
        }
        planned.plans.push_back(std::move(plan));
      }
      planned.moves[n].push_back(place->second);
    }
  }
  return planned;
}

TrainingStep make_step(const PlannedProgram& planned, const ModelBlocks& blocks,
                       Redistributor& redistributor, const StepOptions& options) {
  return StepMaker(planned, blocks, redistributor, options).run();
}

double executed_us(const PlannedProgram& planned, const ModelBlocks& blocks,
                   const Recomputation& policy) {
  const std::vector<bool> again = recomputed_nodes(*planned.program, blocks, policy);
  std::vector<double> of_plan;
  for (const Plan& plan : planned.plans) of_plan.push_back(plan.executed_price().total.value());
  double sum = 0.0;
  for (std::size_t n = 0; n < again.size(); ++n) {
    double us = planned.compute_us[n];
    for (const std::uint32_t plan : planned.moves[n]) us += of_plan[plan];
    sum += (again[n] ? 2.0 : 1.0) * us;
  }
  return sum;
}

double simulated_us(const TrainingStep& step, const DeviceMesh& mesh, const Topology& topology) {
  if (step.tasks.empty()) return 0.0;
  Schedule schedule;
  for (const StepTask& task : step.tasks) schedule.add(task.kernel);
  return Simulator(mesh, topology, {}).run(schedule).time_us.p50;
}

double sum_us(const TrainingStep& step) {
  double sum = 0.0;
  for (const StepTask& task : step.tasks) sum += task.kernel.price.value();
  return sum;
}

}  // namespace shardlab
