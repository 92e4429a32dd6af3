#include "strategies/proof/sample_execution.h"

#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "sim/partial_values.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMemoryBytes = std::int64_t{1} << 30U;
// A text shows what the ranks hold if the inputs' elements times the ranks are at most this many.
constexpr std::int64_t kShownElements = 48;
// Every output must have at least this many elements, summed over all data sets.
constexpr std::size_t kLeastElements = 96;
constexpr std::array<ReduceOp, 5> kReductions = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax,
                                                 ReduceOp::kMin, ReduceOp::kProduct};

std::string numbers_text(const Doubles& values) {
  std::string text = "[";
  for (const double x : values) text += (text.size() > 1 ? "," : "") + format_double(x);
  return text + "]";
}

}  // namespace

std::string row_text(const Combination& outputs, const Combination& inputs) {
  std::string text;
  for (const Placement& p : outputs) text += (text.empty() ? "" : ", ") + p.text();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += (i > 0 ? ", " : outputs.empty() ? "" : " | ") + inputs[i].text();
  }
  return text;
}

std::vector<Placement> all_placements(const TensorMeta& meta) {
  std::vector<Placement> all = {Placement::replicate()};
  for (int d = 0; d < meta.ndim(); ++d) all.push_back(Placement::shard(d));
  for (const ReduceOp op : kReductions) {
    if (has_contributions(op, meta.dtype)) all.push_back(Placement::partial(op));
  }
  return all;
}

std::vector<Placement> registered_samples(std::span<const PlacementEntry* const> entries,
                                          const Shape& shape, std::int64_t ranks) {
  std::vector<Placement> all;
  for (const PlacementEntry* entry : entries) {
    if (!entry->passes_pointwise || entry->samples == nullptr) continue;
    for (const Placement& p : entry->samples(shape, ranks)) all.push_back(p);
  }
  return all;
}

SampleExecution::SampleExecution(const SampleCall& sample, std::int64_t ranks, int data_sets,
                                 std::span<const PlacementEntry* const> registered)
    : sample_(sample),
      kernel_(*find_op_kernel(sample.call.op)),
      mesh_(DeviceMesh::parse(std::to_string(ranks))),
      memory_(HostMemory::make(kMemoryBytes)) {
  for (const TensorSpec* tensor : sample_.call.tensors()) metas_.push_back(tensor->meta);
  std::size_t elements = 0;  // elements of the smallest output, summed over all data sets
  for (int set = 0; set < data_sets || elements < kLeastElements; ++set) {
    add_data_set(static_cast<std::uint64_t>(set) * 7919 + 17);
    std::size_t least = kLeastElements;
    for (const WholeOutput& output : data_sets_.back().expected) {
      least = std::min(least, output.values.size());
    }
    elements += std::max<std::size_t>(least, 1);
  }
  for (const WholeOutput& output : outputs()) {
    candidates_.push_back(all_placements(output.meta));
    for (const Placement& p : registered_samples(registered, output.meta.shape, ranks)) {
      candidates_.back().push_back(p);
    }
  }
}

void SampleExecution::add_data_set(std::uint64_t seed) {
  DataSet& set = data_sets_.emplace_back();
  set.seed = seed;
  set.distributed.resize(metas_.size());
  std::vector<HostTensor> wholes;
  for (std::size_t t = 0; t < metas_.size(); ++t) {
    set.values.push_back(draw_values(metas_[t], sample_.values[t], seed + 101 * t));
    ignore_some_targets(sample_.call, t, set.values.back());
    wholes.push_back(from_doubles(*memory_, metas_[t].dtype, metas_[t].shape, set.values.back()));
  }
  const LocalResult result =
      run_op_kernel({.call = sample_.call, .memory = *memory_, .inputs = wholes});
  for (const HostTensor& output : result.outputs) {
    set.expected.push_back(
        {{.dtype = output.dtype(), .shape = output.shape(), .strides = {}}, as_doubles(output)});
  }
}

std::int64_t SampleExecution::elements() const {
  std::int64_t elements = 0;
  for (const TensorMeta& meta : metas_) elements += elements_of(meta.shape);
  return elements;
}

std::string SampleExecution::text() const {
  std::string text = call().op + "(";
  std::size_t next = 0;
  for (const TensorArg& arg : call().inputs) {
    text += text.ends_with('(') ? "" : ", ";
    if (arg.is_absent()) text += "none";
    if (arg.is_list) text += "[";
    for (std::size_t i = 0; i < arg.tensors.size(); ++i) {
      text += (i > 0 ? "; " : "") + metas_[next++].text();
    }
    if (arg.is_list) text += "]";
  }
  for (const nlohmann::json& arg : call().args) text += ", " + arg.dump();
  return text + ")";
}

std::vector<std::vector<Placement>> SampleExecution::right_outputs(const Combination& inputs) {
  std::vector<std::vector<Placement>> right = candidates_;
  for (std::size_t set = 0; set < data_sets_.size(); ++set) {
    for (std::size_t o = 0; o < right.size(); ++o) {
      std::erase_if(right[o], [&](const Placement& p) { return !is_right(set, inputs, o, p); });
      if (right[o].empty()) return right;
    }
  }
  return right;
}

std::string SampleExecution::fault(const Combination& inputs, const Combination& outputs) {
  const std::size_t expected = data_sets_[0].expected.size();
  if (outputs.size() != expected) {
    return "the kernel makes " + std::to_string(expected) + " outputs, but the rule names " +
           std::to_string(outputs.size());
  }
  for (std::size_t set = 0; set < data_sets_.size(); ++set) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const std::string found = verdict(set, inputs, o, outputs[o]);
      if (found.empty()) continue;
      return (outputs.size() > 1 ? "output " + std::to_string(o) + ", " : "") + found +
             locals_text(set, inputs);
    }
  }
  return "";
}

const DistributedValues& SampleExecution::distributed(std::size_t set, std::size_t tensor,
                                                      const Placement& p) {
  DataSet& data = data_sets_[set];
  const auto found = data.distributed[tensor].find(p);
  if (found != data.distributed[tensor].end()) return found->second;
  const bool few = sample_.values[tensor].kind == SampleValues::kFew;
  return data.distributed[tensor]
      .emplace(p, distribute(*memory_, metas_[tensor], data.values[tensor], few, p, mesh_,
                             data.seed + 31 * tensor))
      .first->second;
}

void SampleExecution::place(std::size_t set, const Combination& inputs) {
  std::vector<PlacedInputs>& by_rank = data_sets_[set].placed;
  Combination& now = data_sets_[set].placements;
  if (by_rank.empty()) {
    // No input has this placement, so all of them are placed.
    now.assign(inputs.size(), Placement::strided_shard(-1, -1));
    const auto ranks = static_cast<std::size_t>(mesh_.size());
    by_rank.resize(ranks, {.locals = std::vector<HostTensor>(inputs.size()),
                           .rows = std::vector<RowLists>(inputs.size())});
  }
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    if (now[t] == inputs[t]) continue;
    const DistributedValues& tensor = distributed(set, t, inputs[t]);
    for (std::size_t r = 0; r < by_rank.size(); ++r) {
      by_rank[r].locals[t] = tensor.locals[r];
      by_rank[r].rows[t] = tensor.rows[r];
    }
    now[t] = inputs[t];
  }
}

SampleExecution::LastRun& SampleExecution::run(std::size_t set, const Combination& inputs,
                                               const Placement& output) {
  const std::optional<Placement> shown =
      kernel_.needs_output_shapes ? std::optional(output) : std::nullopt;
  if (last_ && last_->set == set && last_->inputs == inputs && last_->output == shown) {
    return *last_;
  }
  place(set, inputs);
  last_.emplace(LastRun{set, inputs, shown, {}, {}});
  last_->judges.resize(data_sets_[set].expected.size());
  RankResults& results = last_->results;
  const auto ranks = static_cast<std::size_t>(mesh_.size());
  for (std::size_t r = 0; r < ranks && results.failure.empty(); ++r) {
    const PlacedInputs& placed = data_sets_[set].placed[r];
    std::vector<Shape> shapes;
    if (shown) {
      const Layout layout(Placements(1, *shown));
      const Coordinate coordinate(1, static_cast<std::int64_t>(r));
      for (const WholeOutput& expected : data_sets_[set].expected) {
        shapes.push_back(local_shape(expected.meta.shape, layout, mesh_, coordinate));
      }
    }
    std::vector<Shape> viewed;
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      viewed.push_back(viewed_shape(metas_[t].shape, Placements(1, inputs[t])));
    }
    try {
      results.by_rank.push_back(kernel_.run({.call = sample_.call,
                                             .memory = *memory_,
                                             .inputs = placed.locals,
                                             .input_rows = placed.rows,
                                             .output_shapes = shapes,
                                             .input_shapes = viewed},
                                            kernel_));
    } catch (const InputError& error) {
      results.failure = "rank " + std::to_string(r) + ": " + error.what();
    }
  }
  return *last_;
}

// The judge of an output of a run in which every rank made all outputs.
const OutputJudge& SampleExecution::judge_of(LastRun& run, std::size_t output) {
  std::optional<OutputJudge>& judge = run.judges[output];
  if (!judge) {
    judge.emplace(mesh_, data_sets_[run.set].expected[output], run.results.by_rank, output);
  }
  return *judge;
}

bool SampleExecution::can_cut(const TensorMeta& meta, const Placement& p) const {
  return !p.is_registered() || why_not_registered(meta.shape, Placements(1, p), &mesh_).empty();
}

bool SampleExecution::is_right(std::size_t set, const Combination& inputs, std::size_t output,
                               const Placement& p) {
  const std::vector<WholeOutput>& expected = data_sets_[set].expected;
  if (p.is_shard_like() && p.dim() >= expected[output].meta.ndim()) return false;
  if (!can_cut(expected[output].meta, p)) return false;
  LastRun& last = run(set, inputs, p);
  const auto is_complete = [&](const LocalResult& result) {
    return result.outputs.size() == expected.size();
  };
  return last.results.failure.empty() &&
         std::all_of(last.results.by_rank.begin(), last.results.by_rank.end(), is_complete) &&
         judge_of(last, output).is_right(p);
}

std::string SampleExecution::verdict(std::size_t set, const Combination& inputs, std::size_t output,
                                     const Placement& p) {
  const WholeOutput& expected = data_sets_[set].expected[output];
  if (p.is_shard_like() && p.dim() >= expected.meta.ndim()) {
    return "the output has no dim " + std::to_string(p.dim()) + " to shard";
  }
  if (!can_cut(expected.meta, p)) {
    return p.text() + " can't cut the output " + expected.meta.text();
  }
  LastRun& last = run(set, inputs, p);
  const RankResults& results = last.results;
  if (!results.failure.empty()) return results.failure;
  for (const LocalResult& result : results.by_rank) {
    if (result.outputs.size() != data_sets_[set].expected.size()) {
      return "a rank made " + std::to_string(result.outputs.size()) + " outputs, expected " +
             std::to_string(data_sets_[set].expected.size());
    }
  }
  return judge_of(last, output).verdict(p);
}

std::string SampleExecution::locals_text(std::size_t set, const Combination& inputs) {
  if (elements() * mesh_.size() > kShownElements) return "";
  std::string text = " (";
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    text += (t > 0 ? "; " : "") + std::string("input ") + std::to_string(t) + ":";
    for (const HostTensor& local : distributed(set, t, inputs[t]).locals) {
      text += " " + numbers_text(as_doubles(local));
    }
  }
  return text + ")";
}

}  // namespace shardlab
