#include "strategies/programs/program_prices.h"

#include <algorithm>
#include <array>
#include <boost/container_hash/hash.hpp>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/parallel.h"
#include "sim/plan_price.h"
#include "sim/remembered_steps.h"
#include "strategies/programs/program_graph.h"
#include "strategies/rules/kernel_traffic.h"

namespace shardlab {
namespace {

double bytes_of(const Shape& shape, DType dtype) { return itemsize(dtype) * element_count(shape); }

// -- Kernels ----------------------------------------------------------------------------------

// The kernel of one node, priced by the local shapes of its tensors.
class NodeKernel {
 public:
  NodeKernel(const Program& program, std::size_t node, const OpRule* rule)
      : own_(program.nodes[node]),
        rule_(rule),
        traffic_(own_.op, rule != nullptr ? rule->written_outputs() : 0) {
    kind_ = rule != nullptr ? rule->kernel : Kernel::kElementwise;
    call_.op = own_.op;
    call_.args = own_.args;
    for (const TensorMeta& meta : own_.outputs) metas_.push_back(&meta);
    for (const ValueRef& value : values_read(own_)) {
      metas_.push_back(&program.nodes[value.node].outputs[value.output]);
      call_.inputs.push_back({.tensors = {{*metas_.back(), Layout()}}});
    }
    inputs_.resize(call_.inputs.size());
    bytes_.resize(metas_.size());
    stored_.resize(metas_.size());
  }

  [[nodiscard]] bool is_free() const {
    return own_.is_source() || own_.op == kGetItem || is_listed(own_) || kind_ == Kernel::kView;
  }
  // The tensors that the node makes, then those that it reads.
  [[nodiscard]] const std::vector<const TensorMeta*>& metas() const { return metas_; }

  // `held(tensor)` returns the shape that the rank with the largest shards holds of that tensor.
  template <class Held>
  KernelQuery query(Held&& held) {
    const std::size_t outputs = own_.outputs.size();
    KernelQuery query{.kind = kind_, .dtype = metas_[inputs_.empty() ? 0 : outputs]->dtype};
    for (std::size_t t = 0; t < metas_.size(); ++t) {
      // An op that reads no tensor makes its outputs whole on every rank: the shape is an argument
      // of the op.
      if (inputs_.empty()) {
        bytes_[t] = metas_[t]->bytes();
        continue;
      }
      const Shape& shape = held(t);
      bytes_[t] = bytes_of(shape, metas_[t]->dtype);
      stored_[t] = stored_bytes(*metas_[t], shape);
      if (t >= outputs) inputs_[t - outputs] = shape;
    }
    const std::span<const Bytes> bytes = bytes_;
    traffic_.add_to(query, {.inputs = bytes.subspan(outputs),
                            .stored_inputs = std::span<const Bytes>(stored_).subspan(outputs),
                            .outputs = bytes.first(outputs),
                            .input_shapes = inputs_});
    if (rule_ != nullptr) set_work(query, *rule_, inputs_, call_);
    return query;
  }

 private:
  const ProgramNode& own_;
  const OpRule* rule_;
  KernelTraffic traffic_;
  Kernel kind_;
  OpCall call_;
  std::vector<const TensorMeta*> metas_;
  std::vector<Shape> inputs_;
  // What a rank holds of each tensor in the layouts that query() was last asked for, and what that
  // takes in memory (stored_bytes), in the order of metas_.
  std::vector<Bytes> bytes_;
  std::vector<Bytes> stored_;
};

std::vector<double> kernel_prices(const Program& program, const ProgramStrategies& strategies,
                                  const NodeClass& node, const ComputeModel& kernels,
                                  const DeviceMesh& mesh, StridedKernels strided) {
  std::vector<double> prices(node.strategies, 0.0);
  NodeKernel kernel(program, node.node, node.rule);
  if (kernel.is_free()) return prices;
  // The shape that a rank holds of a tensor depends only on the tensor's layout.
  std::unordered_map<std::uint64_t, Shape> known;
  for (std::size_t strategy = 0; strategy < node.strategies; ++strategy) {
    const KernelQuery query = kernel.query([&](std::size_t t) -> const Shape& {
      const LayoutId layout = strategies.layout(node, strategy, t);
      const auto [it, is_new] = known.try_emplace(std::uint64_t{t} << 32U | layout);
      if (is_new) {
        it->second =
            kernel_shape(kernel.metas()[t]->shape, strategies.layouts[layout], mesh, strided);
      }
      return it->second;
    });
    prices[strategy] = kernels.price(query).total.value();
  }
  return prices;
}

// -- Edges ------------------------------------------------------------------------------------

// AutoParallel lays an einsum's result out row-major, whatever strides the traced node has. Status:
// measured, on its costs for LLaMA3-8B.
bool is_row_major(const ProgramNode& producer) { return producer.op == "aten.einsum.default"; }

class EdgePricer {
 public:
  EdgePricer(const LayoutTable& layouts, Redistributor& redistributor)
      : layouts_(layouts),
        redistributor_(redistributor),
        semantics_(redistributor.pricer().semantics()),
        steps_(redistributor.pricer()) {}

  // Fills tables that are about one tensor. What can be reached from a layout is explored once for
  // all of them.
  void price(const TensorMeta& meta, std::span<PriceTable* const> tables) {
    struct Ends {
      PriceTable* table;
      DistinctLayouts from;
      DistinctLayouts to;
    };
    std::vector<Ends> all;
    std::vector<LayoutId> sources;
    std::vector<bool> is_source(layouts_.size(), false);
    for (PriceTable* table : tables) {
      all.push_back({table, distinct_layouts(layouts_.list_at(table->made), layouts_.size()),
                     distinct_layouts(layouts_.list_at(table->wanted), layouts_.size())});
      for (const LayoutId id : all.back().from.ids) {
        if (!is_source[id]) sources.push_back(id);
        is_source[id] = true;
      }
      table->distinct_columns = static_cast<std::uint32_t>(all.back().from.ids.size());
      table->communication_us.resize(all.back().from.ids.size() * all.back().to.ids.size());
    }
    std::vector<LayoutId> targets;
    std::vector<double> prices;
    std::vector<double> price_to(layouts_.size(), -1.0);  // by layout; below zero: not wanted
    for (const LayoutId source : sources) {
      targets.clear();
      const auto tables_from = [&](const auto& visit) {
        for (Ends& ends : all) {
          const auto at = std::find(ends.from.ids.begin(), ends.from.ids.end(), source);
          if (at != ends.from.ids.end()) visit(ends, at - ends.from.ids.begin());
        }
      };
      tables_from([&](const Ends& ends, std::ptrdiff_t) {
        for (const LayoutId id : ends.to.ids) {
          if (price_to[id] < 0.0) targets.push_back(id);
          price_to[id] = 0.0;
        }
      });
      prices.resize(targets.size());
      price_from(meta, source, targets, prices);
      for (std::size_t i = 0; i < targets.size(); ++i) price_to[targets[i]] = prices[i];
      tables_from([&](Ends& ends, std::ptrdiff_t column) {
        for (std::size_t row = 0; row < ends.to.ids.size(); ++row) {
          ends.table
              ->communication_us[row * ends.from.ids.size() + static_cast<std::size_t>(column)] =
              price_to[ends.to.ids[row]];
        }
      });
      for (const LayoutId id : targets) price_to[id] = -1.0;
    }
    for (Ends& ends : all) {
      ends.table->row_of = std::move(ends.to.position);
      ends.table->column_of = std::move(ends.from.position);
    }
  }

 private:
  void price_from(const TensorMeta& meta, LayoutId from, std::span<const LayoutId> to,
                  std::span<double> prices) {
    if (!semantics_.follows_plan()) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        prices[i] = price_without_plan(meta, layouts_[from], layouts_[to[i]]);
      }
      return;
    }
    std::vector<Layout> targets;
    for (const LayoutId id : to) targets.push_back(layouts_.layout(id));
    redistributor_.costs_us(meta, layouts_.layout(from), targets, prices);
  }

  // The same price as Redistributor::cost_us under semantics that ignore the plan, with each step
  // priced once.
  double price_without_plan(const TensorMeta& meta, const Placements& from, const Placements& to) {
    if (from == to) return 0.0;
    // These semantics price an edge by its ends, and do not ask what strided shards mean.
    if (const std::optional<KnownPrice> known =
            semantics_.known_price(from, to, has_strided(from) || has_strided(to))) {
      return known->cost_us;
    }
    const Bytes bytes = held_bytes(meta, from, redistributor_.mesh());
    return shardlab::price_without_plan<Micros>(semantics_, steps_, meta, bytes, from, to).value();
  }

  const LayoutTable& layouts_;
  Redistributor& redistributor_;
  const EdgeSemantics& semantics_;
  RememberedSteps steps_;
};

}  // namespace

std::vector<int> links_of(const Redistributor& redistributor) {
  std::vector<int> links;
  if (!redistributor.pricer().semantics().follows_plan()) return links;
  using Kind = std::tuple<bool, bool, std::int64_t>;
  std::vector<Kind> kinds;
  for (int m = 0; m < redistributor.mesh().ndim(); ++m) {
    const GroupSpan& span = redistributor.pricer().span(m);
    const Kind kind = {span.domains > 1, span.hosts > 1, span.hosts > 1 ? span.ranks_per_host : 0};
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    links.push_back(static_cast<int>(found - kinds.begin()));
    if (found == kinds.end()) kinds.push_back(kind);
  }
  return links;
}

std::optional<KernelQuery> kernel_query_of(const Program& program, std::size_t node,
                                           const OpRule* rule, const DeviceMesh& mesh,
                                           const NodePlacements& placements) {
  NodeKernel kernel(program, node, rule);
  if (kernel.is_free()) return std::nullopt;
  const std::size_t outputs = placements.outputs.size();
  Shape held;
  return kernel.query([&](std::size_t t) -> const Shape& {
    const Placements& own = t < outputs ? placements.outputs[t] : placements.inputs[t - outputs];
    held = largest_local_shape(kernel.metas()[t]->shape, own, mesh);
    return held;
  });
}

double kernel_us_of(const Program& program, std::size_t node, const OpRule* rule,
                    const ComputeModel& kernels, const DeviceMesh& mesh,
                    const NodePlacements& placements) {
  const std::optional<KernelQuery> query = kernel_query_of(program, node, rule, mesh, placements);
  return query ? kernels.price(*query).total.value() : 0.0;
}

ProgramPrices ProgramPrices::of_kernels(const Program& program, const ProgramStrategies& strategies,
                                        const StackEvaluator& evaluator, const DeviceMesh& mesh) {
  ProgramPrices prices;
  prices.transition_us_ = evaluator.stack().transition_us;
  for (const NodeClass& node : strategies.classes) {
    prices.compute_us_.push_back(kernel_prices(program, strategies, node, evaluator.compute_model(),
                                               mesh, evaluator.stack().strided_kernels));
  }
  using Key = std::array<std::uint32_t, 4>;
  std::unordered_map<Key, std::uint32_t, boost::hash<Key>> by_key;
  for (std::size_t reader = 0; reader < program.nodes.size(); ++reader) {
    const NodeClass& own = strategies.of(reader);
    std::uint32_t argument = 0;
    for (const ValueRef& value : values_read(program.nodes[reader])) {
      const LayoutListId made = strategies.of(value.node).tensors[value.output];
      const LayoutListId wanted = own.tensors[own.outputs + argument];
      const std::uint32_t meta = strategies.meta(value.node, value.output);
      const bool row_major = is_row_major(program.nodes[value.node]);
      const auto [it, is_new] =
          by_key.try_emplace(Key{meta, row_major ? 1U : 0U, made, wanted},
                             static_cast<std::uint32_t>(prices.tables_.size()));
      if (is_new) {
        prices.tables_.push_back({.wanted = wanted, .made = made});
        prices.tensors_.push_back({meta, row_major});
      }
      prices.edges_.push_back({static_cast<std::uint32_t>(value.node),
                               static_cast<std::uint32_t>(value.output),
                               static_cast<std::uint32_t>(reader), argument, it->second});
      ++argument;
    }
  }
  return prices;
}

double ProgramPrices::pairs(const ProgramStrategies& strategies) const {
  double pairs = 0.0;
  for (const PriceTable& table : tables_) {
    pairs += static_cast<double>(strategies.layouts.list_at(table.made).size()) *
             static_cast<double>(strategies.layouts.list_at(table.wanted).size());
  }
  return pairs;
}

ProgramPrices::ProgramPrices(const Program& program, const ProgramStrategies& strategies,
                             StackEvaluator& evaluator, const DeviceMesh& mesh, int jobs)
    : ProgramPrices(of_kernels(program, strategies, evaluator, mesh)) {
  if (pairs(strategies) > kMostCosts) {
    throw LimitError("mesh " + mesh.text() + ": the program has more than " +
                     std::to_string(static_cast<std::int64_t>(kMostCosts)) +
                     " pairs of strategies to price; valid: a mesh with fewer dims, a smaller "
                     "mesh, or the best plan alone under a stack with the planner graph");
  }
  // The tables that are about one tensor, whose strides may count as row-major.
  std::map<std::pair<std::uint32_t, bool>, std::vector<std::uint32_t>> tables_of;
  for (std::uint32_t id = 0; id < tables_.size(); ++id) tables_of[tensors_[id]].push_back(id);
  const std::vector<std::pair<std::pair<std::uint32_t, bool>, std::vector<std::uint32_t>>> tensors(
      tables_of.begin(), tables_of.end());
  const auto price = [&](StackEvaluator& own, std::size_t i) {
    const auto& [tensor, ids] = tensors[i];
    TensorMeta meta = strategies.metas[tensor.first];
    if (tensor.second) meta.strides.clear();
    std::vector<PriceTable*> tables;
    for (const std::uint32_t id : ids) tables.push_back(&tables_[id]);
    EdgePricer(strategies.layouts, own.on(mesh)).price(meta, tables);
  };
  if (jobs <= 1) {
    for (std::size_t i = 0; i < tensors.size(); ++i) price(evaluator, i);
    return;
  }
  parallel_for(
      tensors.size(), jobs,
      [&] { return std::make_unique<StackEvaluator>(evaluator.stack(), evaluator.topology()); },
      price);
}

}  // namespace shardlab
