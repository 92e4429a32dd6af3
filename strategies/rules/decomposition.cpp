#include "strategies/rules/decomposition.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/python_set.h"

namespace shardlab {
namespace {

// Placements are propagated on a mesh of one rank, where every extent divides evenly.
const DeviceMesh& one_rank() {
  static const DeviceMesh mesh = DeviceMesh::parse("1");
  return mesh;
}

// The placements to try for each tensor, in PyTorch's order: R, those that occur among the inputs,
// and shards of the same kinds on every dim of the tensor.
std::vector<std::vector<Placement>> placements_to_try(const OpCall& call) {
  PythonSet occurring;
  occurring.add(Placement::replicate());
  for (const TensorSpec* tensor : call.tensors()) {
    for (const Placement& p : tensor->layout.placements) occurring.add(p);
  }
  std::vector<std::vector<Placement>> tries;
  for (const TensorSpec* tensor : call.tensors()) {
    const int ndim = tensor->meta.ndim();
    PythonSet options;
    options.add_all(occurring);
    for (const Placement& p : occurring.in_order()) {
      if (!p.is_shard_like()) continue;
      PythonSet on_every_dim;
      for (int d = 0; d < ndim; ++d) on_every_dim.add(p.with_dim(d));
      options.add_all(on_every_dim);
    }
    tries.push_back(options.in_order());
    std::erase_if(tries.back(),
                  [&](const Placement& p) { return p.is_shard_like() && p.dim() >= ndim; });
  }
  return tries;
}

}  // namespace

Decomposition::Decomposition(const OpCall& call, Release release) : call_(call), release_(release) {
  const auto entries = all_decompositions();
  const auto entry =
      std::find_if(entries.begin(), entries.end(), [&](const DecompositionEntry& each) {
        return each.op == call.op && each.sets.contains(release);
      });
  if (entry == entries.end()) throw InputError(call.op + " has no decomposition");
  for (const TensorSpec* tensor : call.tensors()) {
    metas_.push_back(tensor->meta);
    metas_.back().strides.clear();
  }
  for (const TensorArg& arg : call.inputs) {
    if (arg.is_list) throw InputError(call.op + ": takes no tensor list");
  }
  entry->write(*this);
  known_.resize(steps_.size());
}

Decomposition::Value Decomposition::input(std::size_t argument) const {
  static_cast<void>(call_.required_tensor(argument));
  return call_.position(argument);
}

Decomposition::Value Decomposition::run(std::string_view op, std::initializer_list<Value> tensors,
                                        nlohmann::json args) {
  OpCall call{.op = std::string(op), .inputs = {}, .args = std::move(args)};
  for (const Value value : tensors) {
    call.inputs.push_back({.tensors = {{metas_[value], Layout::replicated(1)}}});
  }
  return add(std::move(call), tensors);
}

Decomposition::Value Decomposition::run_list(std::string_view op, std::vector<Value> tensors,
                                             nlohmann::json args) {
  OpCall call{.op = std::string(op), .inputs = {{.tensors = {}, .is_list = true}}};
  call.args = std::move(args);
  for (const Value value : tensors) {
    call.inputs[0].tensors.push_back({metas_[value], Layout::replicated(1)});
  }
  return add(std::move(call), std::move(tensors));
}

Decomposition::Value Decomposition::constant(double value, DType dtype) {
  Step& step = steps_.emplace_back();
  step.result = metas_.size();
  step.constant = value;
  metas_.push_back({.dtype = dtype, .shape = {}, .strides = {}});
  return step.result;
}

Decomposition::Value Decomposition::cast(Value value, DType dtype) {
  if (metas_[value].dtype == dtype) return value;
  if (!is_floating_point(dtype) || !is_floating_point(metas_[value].dtype)) {
    throw InputError(call_.op + ": found " + metas_[value].text() +
                     "; valid: a floating point tensor");
  }
  Step& step = steps_.emplace_back();
  step.inputs = {value};
  step.result = metas_.size();
  const TensorMeta from = metas_[value];
  metas_.push_back({.dtype = dtype, .shape = from.shape, .strides = {}});
  return step.result;
}

Decomposition::Value Decomposition::add(OpCall call, std::vector<Value> inputs) {
  Step& step = steps_.emplace_back();
  step.rule = &find_op_rule(call.op, release_);
  step.result = metas_.size();
  step.inputs = std::move(inputs);
  step.call = std::move(call);
  for (TensorMeta& meta : step.rule->outputs(step.call)) {
    meta.strides.clear();
    metas_.push_back(std::move(meta));
  }
  step.results = metas_.size() - step.result;
  return step.result;
}

std::vector<TensorMeta> Decomposition::outputs() const {
  std::vector<TensorMeta> metas;
  for (const Value value : results_) metas.push_back(metas_[value]);
  return metas;
}

// Candidates that leave the inputs where they are cost nothing; PyTorch takes the last of them.
std::optional<std::vector<Placement>> Decomposition::propagate_step(
    const Step& step, std::span<const Placement> inputs) {
  OpCall call = step.call;
  std::size_t next = 0;
  for (TensorArg& arg : call.inputs) {
    for (TensorSpec& tensor : arg.tensors) tensor.layout = Layout({inputs[next++]});
  }
  const Expansion expansion = expand(*step.rule, call, one_rank());
  for (std::size_t c = expansion.size(); c-- > 0;) {
    if (!expansion.keeps_inputs(c)) continue;
    std::vector<Placement> outputs;
    for (std::size_t o = 0; o < expansion.outputs(); ++o) {
      outputs.push_back(expansion.output(c, o)[0]);
    }
    return outputs;
  }
  return std::nullopt;
}

std::optional<std::vector<Placement>> Decomposition::propagate(std::span<const Placement> inputs) {
  std::vector<Placement> placements(metas_.size());
  std::copy(inputs.begin(), inputs.end(), placements.begin());
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    if (step.rule == nullptr) {  // a constant stays replicated
      if (!step.inputs.empty()) placements[step.result] = placements[step.inputs[0]];
      continue;
    }
    std::vector<Placement> own;
    for (const Value value : step.inputs) own.push_back(placements[value]);
    const auto [found, is_new] = known_[s].try_emplace(own);
    if (is_new) {
      try {
        found->second = propagate_step(step, own);
      } catch (const InputError&) {
        found->second = std::nullopt;  // a view that would have to move its input
      }
    }
    if (!found->second) return std::nullopt;
    std::copy(found->second->begin(), found->second->end(),
              placements.begin() + static_cast<std::ptrdiff_t>(step.result));
  }
  std::vector<Placement> outputs;
  for (const Value value : results_) outputs.push_back(placements[value]);
  return outputs;
}

std::vector<TensorMeta> decomposed_outputs(const OpCall& call) {
  return Decomposition(call).outputs();
}

Rows decomposed_rows(const OpCall& call, const OpRule& rule) {
  Decomposition program(call, rule.resolved_for.release().value_or(kReferenceRelease));
  const auto tensors = call.tensors();
  const std::vector<std::vector<Placement>> own = placements_to_try(call);
  Rows rows;
  std::vector<std::size_t> chosen(tensors.size(), 0);
  std::vector<Placement> inputs(tensors.size());
  for (bool more = !tensors.empty(); more;) {
    for (std::size_t i = 0; i < chosen.size(); ++i) inputs[i] = own[i][chosen[i]];
    if (const auto outputs = program.propagate(inputs)) {
      Row row(outputs->begin(), outputs->end());
      row.insert(row.end(), inputs.begin(), inputs.end());
      rows.push_back(row);
    }
    // Moves on to the next combination; the last input changes fastest.
    more = false;
    for (std::size_t i = chosen.size(); i-- > 0 && !more;) {
      more = ++chosen[i] < own[i].size();
      if (!more) chosen[i] = 0;
    }
  }
  return rows;
}

}  // namespace shardlab
