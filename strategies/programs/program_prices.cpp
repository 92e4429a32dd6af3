#include "strategies/programs/program_prices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/container_hash/hash.hpp>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "costmodel/base/error.h"
#include "sim/plan_price.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

double bytes_of(const Shape& shape, DType dtype) { return itemsize(dtype) * element_count(shape); }

// -- Kernels ----------------------------------------------------------------------------------

// The kernel of one node, priced by the local shapes of its tensors.
class NodeKernel {
 public:
  NodeKernel(const Program& program, std::size_t node, const OpRule* rule,
             const ComputeModel& kernels)
      : own_(program.nodes[node]), rule_(rule), kernels_(kernels) {
    kind_ = rule != nullptr ? rule->kernel : Kernel::kElementwise;
    call_.op = own_.op;
    call_.args = own_.args;
    for (const TensorMeta& meta : own_.outputs) metas_.push_back(&meta);
    for (const ValueRef& value : values_read(own_)) {
      metas_.push_back(&program.nodes[value.node].outputs[value.output]);
      call_.inputs.push_back({.tensors = {{*metas_.back(), Layout()}}});
    }
    inputs_.resize(call_.inputs.size());
  }

  [[nodiscard]] bool is_free() const {
    return own_.is_source() || own_.op == kGetItem || kind_ == Kernel::kView;
  }
  // The tensors that the node makes, then those that it reads.
  [[nodiscard]] const std::vector<const TensorMeta*>& metas() const { return metas_; }

  // `held(tensor)` returns the shape that the rank with the largest shards holds of that tensor.
  template <class Held>
  double price(Held&& held) {
    const std::size_t outputs = own_.outputs.size();
    KernelQuery query{.kind = kind_, .dtype = metas_[inputs_.empty() ? 0 : outputs]->dtype};
    // An op that reads no tensor makes its outputs whole on every rank: the shape is an argument of
    // the op.
    if (inputs_.empty()) {
      for (const TensorMeta* meta : metas_) query.bytes += meta->bytes();
    }
    for (std::size_t t = 0; t < metas_.size() && !inputs_.empty(); ++t) {
      const Shape& shape = held(t);
      query.bytes += bytes_of(shape, metas_[t]->dtype);
      if (t >= outputs) inputs_[t - outputs] = shape;
    }
    if (rule_ != nullptr && rule_->flops != nullptr) query.flops = rule_->flops(inputs_, call_);
    return kernels_.price(query).total.value();
  }

 private:
  const ProgramNode& own_;
  const OpRule* rule_;
  const ComputeModel& kernels_;
  Kernel kind_;
  OpCall call_;
  std::vector<const TensorMeta*> metas_;
  std::vector<Shape> inputs_;
};

std::vector<double> kernel_prices(const Program& program, const ProgramStrategies& strategies,
                                  const NodeClass& node, const ComputeModel& kernels,
                                  const DeviceMesh& mesh) {
  std::vector<double> prices(node.strategies, 0.0);
  NodeKernel kernel(program, node.node, node.rule, kernels);
  if (kernel.is_free()) return prices;
  // The shape that a rank holds of a tensor depends only on the tensor's layout.
  std::unordered_map<std::uint64_t, Shape> known;
  for (std::size_t strategy = 0; strategy < node.strategies; ++strategy) {
    prices[strategy] = kernel.price([&](std::size_t t) -> const Shape& {
      const LayoutId layout = strategies.layout(node, strategy, t);
      const auto [it, is_new] = known.try_emplace(std::uint64_t{t} << 32U | layout);
      if (is_new) {
        it->second =
            largest_local_shape(kernel.metas()[t]->shape, strategies.layouts[layout], mesh);
      }
      return it->second;
    });
  }
  return prices;
}

// -- Edges ------------------------------------------------------------------------------------

// Prices the steps of edges like a TransitionPricer, each step once.
class RememberedSteps {
 public:
  struct Step {
    Micros price;
    Bytes bytes_after = 0.0;
  };

  explicit RememberedSteps(const TransitionPricer& pricer) : pricer_(pricer) {}

  const Step& price(const Placement& from, const Placement& to, int mesh_dim, Bytes bytes,
                    DType dtype) {
    const std::uint64_t where = static_cast<std::uint64_t>(mesh_dim) << 8U |
                                static_cast<std::uint64_t>(static_cast<std::uint8_t>(dtype));
    const Key key{code(from) ^ where << 4U, code(to), std::bit_cast<std::uint64_t>(bytes)};
    const auto [it, is_new] = steps_.try_emplace(key);
    if (is_new) {
      const PricedTransition priced = pricer_.price(from, to, mesh_dim, bytes, dtype);
      it->second = {priced.price.total, priced.bytes_after};
    }
    return it->second;
  }
  [[nodiscard]] Price copy(Bytes bytes, DType dtype, bool strided) const {
    return pricer_.copy(bytes, dtype, strided);
  }

 private:
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

  // The code holds kind, op, dim and factor. The other parts of a placement do not affect the
  // price.
  static std::uint64_t code(const Placement& p) {
    return static_cast<std::uint64_t>(p.kind()) << 60U |
           static_cast<std::uint64_t>(p.reduce_op()) << 56U |
           static_cast<std::uint64_t>(p.dim()) << 40U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(p.split_factor()));
  }

  const TransitionPricer& pricer_;
  std::unordered_map<Key, Step, boost::hash<Key>> steps_;
};

// The distinct layouts of a list, and for each entry of the list which of them it is.
struct Distinct {
  std::vector<LayoutId> ids;
  std::vector<std::uint32_t> position;
};
Distinct distinct(std::span<const LayoutId> list, std::size_t layouts) {
  constexpr std::uint32_t kUnseen = std::numeric_limits<std::uint32_t>::max();
  Distinct result;
  std::vector<std::uint32_t> seen(layouts, kUnseen);
  for (const LayoutId id : list) {
    if (seen[id] == kUnseen) {
      seen[id] = static_cast<std::uint32_t>(result.ids.size());
      result.ids.push_back(id);
    }
    result.position.push_back(seen[id]);
  }
  return result;
}

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

  PriceTable table(const TensorMeta& meta, LayoutListId made, LayoutListId wanted) {
    Distinct from = distinct(layouts_.list_at(made), layouts_.size());
    Distinct to = distinct(layouts_.list_at(wanted), layouts_.size());
    PriceTable table{.wanted = wanted, .made = made};
    table.distinct_columns = static_cast<std::uint32_t>(from.ids.size());
    table.communication_us.resize(from.ids.size() * to.ids.size());
    std::vector<double> prices(to.ids.size());
    for (std::size_t i = 0; i < from.ids.size(); ++i) {
      price_from(meta, from.ids[i], to.ids, prices);
      for (std::size_t j = 0; j < to.ids.size(); ++j) {
        table.communication_us[j * from.ids.size() + i] = prices[j];
      }
    }
    table.row_of = std::move(to.position);
    table.column_of = std::move(from.position);
    return table;
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
    for (const LayoutId id : to) targets.emplace_back(layouts_[id]);
    redistributor_.costs_us(meta, Layout(layouts_[from]), targets, prices);
  }

  // The same price as Redistributor::cost_us under semantics that ignore the plan, with each step
  // priced once.
  double price_without_plan(const TensorMeta& meta, const Placements& from, const Placements& to) {
    if (from == to) return 0.0;
    if (const std::optional<KnownPrice> known = semantics_.known_price(from, to)) {
      return known->cost_us;
    }
    const Bytes bytes =
        meta.bytes() / static_cast<double>(num_shards(from, redistributor_.mesh(), true));
    return shardlab::price_without_plan<Micros>(semantics_, steps_, meta, bytes, from, to).value();
  }

  const LayoutTable& layouts_;
  Redistributor& redistributor_;
  const EdgeSemantics& semantics_;
  RememberedSteps steps_;
};

}  // namespace

double kernel_us_of(const Program& program, std::size_t node, const OpRule* rule,
                    const ComputeModel& kernels, const DeviceMesh& mesh,
                    const NodePlacements& placements) {
  NodeKernel kernel(program, node, rule, kernels);
  if (kernel.is_free()) return 0.0;
  const std::size_t outputs = placements.outputs.size();
  Shape held;
  return kernel.price([&](std::size_t t) -> const Shape& {
    const Placements& own = t < outputs ? placements.outputs[t] : placements.inputs[t - outputs];
    held = largest_local_shape(kernel.metas()[t]->shape, own, mesh);
    return held;
  });
}

ProgramPrices::ProgramPrices(const Program& program, const ProgramStrategies& strategies,
                             StackEvaluator& evaluator, const DeviceMesh& mesh)
    : transition_us_(evaluator.stack().transition_us) {
  for (const NodeClass& node : strategies.classes) {
    compute_us_.push_back(
        kernel_prices(program, strategies, node, evaluator.compute_model(), mesh));
  }
  EdgePricer pricer(strategies.layouts, evaluator.on(mesh));
  double costs = 0.0;  // number of costs in the tables of edges
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
      const auto [it, is_new] = by_key.try_emplace(Key{meta, row_major ? 1U : 0U, made, wanted},
                                                   static_cast<std::uint32_t>(tables_.size()));
      if (is_new) {
        costs += static_cast<double>(strategies.layouts.list_at(made).size()) *
                 static_cast<double>(strategies.layouts.list_at(wanted).size());
        if (costs > kMostCosts) {
          throw LimitError("mesh " + mesh.text() + ": the program has more than " +
                           std::to_string(static_cast<std::int64_t>(kMostCosts)) +
                           " pairs of strategies to price; valid: a mesh with fewer dims, or a "
                           "smaller mesh");
        }
        TensorMeta source = strategies.metas[meta];
        if (row_major) source.strides.clear();
        tables_.push_back(pricer.table(source, made, wanted));
      }
      edges_.push_back({static_cast<std::uint32_t>(value.node),
                        static_cast<std::uint32_t>(value.output),
                        static_cast<std::uint32_t>(reader), argument, it->second});
      ++argument;
    }
  }
}

}  // namespace shardlab
