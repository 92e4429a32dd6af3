#include "sim/executor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/parallel.h"
#include "costmodel/base/text.h"
#include "sim/partial_values.h"
#include "sim/registered_exchange.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

Shape shape_of(const RowLists& rows) {
  Shape shape;
  for (const auto& list : rows) shape.push_back(std::ssize(list));
  return shape;
}

// Calls visit(local index, global index) for each element of a shard. Both indices are row-major.
template <class Visit>
void for_each_element(const Shape& global, const RowLists& rows, Visit&& visit) {
  const auto ndim = static_cast<int>(rows.size());
  for (const auto& list : rows) {
    if (list.empty()) return;
  }
  std::vector<std::size_t> index(rows.size(), 0);
  std::int64_t local = 0;
  while (true) {
    std::int64_t whole = 0;
    for (int d = 0; d < ndim; ++d)
      whole = whole * global[to_index(d)] + rows[to_index(d)][index[to_index(d)]];
    visit(local++, whole);
    int d = ndim;
    while (d > 0) {
      --d;
      if (++index[to_index(d)] < rows[to_index(d)].size()) break;
      index[to_index(d)] = 0;
      if (d == 0) return;
    }
    if (ndim == 0) return;
  }
}

// `layout` says which dims of the tensor count as one (viewed_shape).
HostTensor take(HostMemory& memory, const HostTensor& global, const Layout& layout,
                const RowLists& rows) {
  HostTensor part = layout.has_registered()
                        ? global.reshape(viewed_shape(global.shape(), layout.placements))
                        : global;
  for (int d = 0; d < part.ndim(); ++d) {
    if (std::ssize(rows[to_index(d)]) == part.extent(d)) continue;
    part = select_rows(memory, part, d, rows[to_index(d)]);
  }
  return part;
}

// The coordinate with 0 on every mesh dim for which drop(mesh dim) is true.
template <class Drop>
Coordinate without(Coordinate coordinate, Drop&& drop) {
  for (std::size_t m = 0; m < coordinate.size(); ++m) {
    if (drop(static_cast<int>(m))) coordinate[m] = 0;
  }
  return coordinate;
}

std::string index_text(std::int64_t index, const Shape& shape) {
  std::vector<std::int64_t> coordinates(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    coordinates[d] = index % shape[d];
    index /= shape[d];
  }
  std::string text = "[";
  for (const std::int64_t i : coordinates) {
    if (text.size() > 1) text += ",";
    text += std::to_string(i);
  }
  return text + "]";
}

std::vector<std::int64_t> ranks_of(const DeviceMesh& mesh) {
  if (mesh.size() > kMaxExecutedRanks) {
    throw InputError("found data for " + std::to_string(mesh.size()) + " ranks of mesh " +
                     mesh.text() + "; valid: at most " + std::to_string(kMaxExecutedRanks) +
                     " ranks (or shapes only: --data off)");
  }
  return mesh.ranks();
}

}  // namespace

void expect_layout(const TensorMeta& meta, const Layout& layout) {
  for (const Placement& p : layout.placements) {
    if (p.is_shard_like() && p.dim() >= meta.ndim()) {
      throw InputError(layout.text() + " of " + meta.text() + ": " + p.text() +
                       " names a dim that the tensor lacks");
    }
    const bool norm = p.kind() == Placement::Kind::kNormPartial;
    if ((p.is_partial() && !reduces(p.reduce_op(), meta.dtype)) ||
        (norm && !is_floating_point(meta.dtype))) {
      throw InputError(p.text() + " of " + std::string(to_string(meta.dtype)) +
                       " does not exist: numbers of this dtype have no such reduction");
    }
  }
}

Executor::Executor(DeviceMesh mesh, const Topology& topology, const ExecutionOptions& options)
    : mesh_(std::move(mesh)),
      domain_devices_(topology.domain_devices()),
      options_(options),
      memory_(HostMemory::make(options.memory_limit_bytes)),
      ranks_(ranks_of(mesh_)) {
  coordinates_.reserve(ranks_.size());
  for (std::int64_t i = 0; i < std::ssize(ranks_); ++i) {
    coordinates_.push_back(mesh_.coordinate(i));
  }
}

double Executor::exact_unit(DType dtype, const PartialDims& partial) const {
  double unit = 1.0;
  for (int m = 0; m < mesh_.ndim(); ++m) {
    std::int64_t odd = mesh_.size(m);
    while (odd % 2 == 0) odd /= 2;
    unit *= static_cast<double>(odd * odd);
  }
  return Contributions::largest_sum(partial) * unit * unit_roundoff(dtype) > 1.0 ? 1.0 : unit;
}

HostTensor Executor::make_global(const TensorMeta& meta, const Layout& layout,
                                 const DataOptions& data) const {
  HostTensor global = HostTensor::make(*memory_, meta.dtype, meta.shape);
  const PartialDims partial(layout, mesh_);
  const bool floating = is_floating_point(meta.dtype);
  const bool is_unsigned = meta.dtype == DType::kU8 || partial.is_norm();
  double unit = 1.0;
  std::int64_t most = 3;
  if (floating) {
    unit = exact_unit(meta.dtype, partial);
  } else if (itemsize(meta.dtype) == 1) {
    // An average sums before it divides. Sums of values this small do not overflow on up to 127
    // ranks.
    most = std::clamp<std::int64_t>(127 / mesh_.size(), 1, most);
  }
  const std::int64_t elements = global.elements();
  with_element(meta.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    T* out = reinterpret_cast<T*>(global.writable());
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::uint64_t h = counter_hash(data.seed, static_cast<std::uint64_t>(i), 0);
      if constexpr (std::is_same_v<T, Bool8>) {
        out[i].bit = static_cast<std::uint8_t>(h & 1U);
      } else {
        double value = 0.0;
        if (floating && data.values == DataValues::kUniform) {
          value = static_cast<double>(h >> 11U) * 0x1p-52 - 1.0;
        } else {
          const auto range = static_cast<std::uint64_t>(2 * most + 1);
          value = static_cast<double>(static_cast<std::int64_t>(h % range) - most) * unit;
        }
        if (is_unsigned) value = std::abs(value);
        out[i] = static_cast<T>(value);
      }
    }
  });
  return global;
}

DistributedTensor Executor::distribute(const TensorMeta& meta, const Layout& layout,
                                       const DataOptions& data) const {
  return distribute(meta, layout, make_global(meta, layout, data), data);
}

// The rows of each dim are listed, and a tensor without elements may have very many of them.
void Executor::expect_listable_rows(const TensorMeta& meta, const Layout& layout) const {
  for (const std::int64_t extent : viewed_shape(meta.shape, layout.placements)) {
    if (extent <= options_.memory_limit_bytes / 64) continue;
    throw LimitError("the rows of " + meta.text() + " can't be listed within " +
                     format_bytes(static_cast<double>(options_.memory_limit_bytes)) +
                     "; valid: a larger limit, a smaller tensor, or shapes only");
  }
}

DistributedTensor Executor::distribute(const TensorMeta& meta, const Layout& layout,
                                       HostTensor global, const DataOptions& data) const {
  SHARDLAB_CHECK(layout.ndim() == mesh_.ndim(), layout.text(), " on ", mesh_.text());
  const PartialDims partial(layout, mesh_);
  for (const Placement& p : layout.placements) {
    if (p.kind() != Placement::Kind::kMaskPartial) continue;
    throw InputError(
        "data for a mask partial can't be made up, because it comes from an embedding; valid: R, "
        "S, _S, P and NP");
  }
  expect_layout(meta, layout);
  expect_registered(meta, layout, mesh_);
  expect_listable_rows(meta, layout);
  SHARDLAB_CHECK(!has_mixed_partials(layout.placements), layout.text());
  DistributedTensor tensor;
  tensor.meta = meta;
  tensor.layout = layout;
  tensor.global = std::move(global);
  tensor.locals.resize(ranks_.size());
  const double unit = is_floating_point(meta.dtype) ? exact_unit(meta.dtype, partial) : 1.0;
  const Contributions contributions(partial, meta.dtype, data, unit);
  // The ranks that hold each shard or contribute to it, by the coordinate of the shard.
  std::map<Coordinate, std::vector<std::size_t>> shards;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    shards[without(coordinates_[i], [&](int m) { return !layout[m].cuts(); })].push_back(i);
  }
  const Shape viewed = viewed_shape(meta.shape, layout.placements);
  for (const auto& [coordinate, members] : shards) {
    const RowLists rows = rows_of(meta, layout, mesh_, coordinate);
    if (!partial.any()) {
      const HostTensor shard = take(*memory_, tensor.global, tensor.layout, rows);
      for (const std::size_t i : members) tensor.locals[i] = shard;
      continue;
    }
    // `parts` are the distinct contributions; replicas share them. `first` marks those with
    // coordinate 0 on every mesh dim that sums. Averaged integers cannot be divided exactly, so for
    // them the marked contributions are the value and all others are zero.
    std::vector<HostTensor> parts(to_index(partial.ranks));
    std::vector<bool> first(to_index(partial.ranks), false);
    for (const std::size_t i : members) {
      const auto mine = to_index(partial.index_of(coordinates_[i], mesh_));
      if (parts[mine].data() == nullptr) {
        parts[mine] = HostTensor::make(*memory_, meta.dtype, shape_of(rows));
        first[mine] = partial.is_first_of_sums(coordinates_[i], layout);
      }
    }
    const bool one_contributes = !is_floating_point(meta.dtype) && partial.averaged > 1;
    std::vector<double> all(to_index(partial.ranks));
    for_each_element(viewed, rows, [&](std::int64_t here, std::int64_t whole) {
      const double value = element_as_double(tensor.global, whole);
      double sum = std::abs(value);
      if (one_contributes) {  // each average is then over equal values
        for (std::size_t k = 0; k < all.size(); ++k) all[k] = first[k] ? value : 0.0;
      } else {
        const double lost = contributions.fill(static_cast<std::uint64_t>(whole), value, all);
        tensor.tolerance = std::max(tensor.tolerance, lost);
        sum = 0.0;
        for (const double x : all) sum += std::abs(x);
        sum /= static_cast<double>(partial.averaged);
      }
      tensor.magnitude = std::max(tensor.magnitude, sum);
      for (std::size_t k = 0; k < all.size(); ++k) set_element(parts[k], here, all[k]);
    });
    for (const std::size_t i : members) {
      tensor.locals[i] = parts[to_index(partial.index_of(coordinates_[i], mesh_))];
    }
  }
  for (std::int64_t i = 0; i < tensor.global.elements(); ++i) {
    tensor.magnitude = std::max(tensor.magnitude, std::abs(element_as_double(tensor.global, i)));
  }
  return tensor;
}

// The reduction of one group. Every member gets the whole result or, if `target` says how the
// result is cut, its shard of it.
Executor::GroupResult Executor::reduce_group(const PlanStep& step, const FakeGroup& group,
                                             const std::optional<DimSharding>& target,
                                             std::span<const HostTensor> members) const {
  const Placement& from = step.from;
  const bool norm = from.kind() == Placement::Kind::kNormPartial;
  // A step that merges sums with averages sums all contributions and then divides.
  const ReduceOp op = norm || step.avg_scale > 1 ? ReduceOp::kSum : from.reduce_op();
  const auto divisor = static_cast<double>(step.avg_scale);
  std::vector<HostTensor> powers;
  if (norm) {
    for (const HostTensor& member : members) {
      powers.push_back(power_of(*memory_, member, from.norm()));
    }
    members = powers;
  }
  const auto root = [&](HostTensor& x) {
    if (norm) power(x.dtype(), x.writable(), x.elements(), 1.0 / from.norm());
  };
  const std::int64_t other_members = group.size() - 1;
  if (!target) {
    HostTensor sum = group.all_reduce(members, op, divisor);
    root(sum);
    return {for_all(sum, group.size()), 2 * other_members * sum.bytes()};
  }
  std::vector<HostTensor> shards = group.reduce_scatter(members, op, *target, divisor);
  for (HostTensor& shard : shards) root(shard);
  return {std::move(shards), other_members * members.front().bytes()};
}

// A step to or from a registered placement. `whole` is the shape of what the members hold together.
Executor::GroupResult Executor::run_registered(const PlanStep& step, const FakeGroup& group,
                                               const Shape& whole,
                                               std::span<const HostTensor> members) const {
  const Placement& from = step.from;
  const Placement& to = step.to;
  if (!is_one_step(from, to)) {
    throw InputError("no collective changes " + from.text() + " to " + to.text() +
                     "; valid: a way over R");
  }
  const std::int64_t n = group.size();
  const std::int64_t item = itemsize(members.front().dtype());
  std::int64_t elements = 1;
  for (const std::int64_t extent : whole) elements *= extent;
  // What each member cuts its part from: the reduction, the gathered tensor, or its own replica.
  GroupResult sources;
  if (from.is_partial()) {
    sources = reduce_group(step, group, std::nullopt, members);
    sources.bytes_moved /= 2;  // a reduce_scatter moves half of what an all_reduce does
  } else if (from.cuts()) {
    sources.tensors = for_all(gather_parts(*memory_, members, from, whole), n);
    sources.bytes_moved = (n - 1) * elements * item;
    if (to.is_replicate()) return sources;
    sources.bytes_moved = (elements - elements_kept(from, to, whole, n)) * item;
  } else {
    sources.tensors.assign(members.begin(), members.end());
  }
  for (std::int64_t i = 0; i < n; ++i) {
    HostTensor& tensor = sources.tensors[to_index(i)];
    tensor = cut_part(*memory_, tensor, to, n, i);
  }
  return sources;
}

// The same result for each of `members` members.
std::vector<HostTensor> Executor::for_all(const HostTensor& result, std::int64_t members) const {
  std::vector<HostTensor> results(to_index(members), result);
  if (!options_.copy_replicas) return results;
  for (std::size_t i = 1; i < results.size(); ++i) results[i] = copy_of(*memory_, result);
  return results;
}

Executor::GroupResult Executor::run_group(const PlanStep& step, const Layout& before,
                                          const TensorMeta& meta, const FakeGroup& group,
                                          std::span<const std::int64_t> coordinate,
                                          std::span<const HostTensor> members) const {
  // The shape of the tensor that the members of the group hold together.
  Layout others = before;
  for (const int m : step.mesh_dims) others.placements[to_index(m)] = Placement::replicate();
  const Shape whole = local_shape(meta.shape, others, mesh_, coordinate);
  const auto sharding = [&](const Placement& p) {
    return DimSharding::of(p, whole[to_index(p.dim())]);
  };
  const Placement& from = step.from;
  const Placement& to = step.to;
  if (from.is_registered() || to.is_registered()) {
    return run_registered(step, group, whole, members);
  }
  if (from.is_partial() && to.is_replicate()) {
    return reduce_group(step, group, std::nullopt, members);
  }
  if (from.is_partial() && to.is_shard_like()) {
    return reduce_group(step, group, sharding(to), members);
  }
  if (from.is_shard_like()) {
    if (to.is_replicate()) {
      std::int64_t bytes = 0;
      for (const HostTensor& shard : members) bytes += shard.bytes();
      return {for_all(group.all_gather(members, sharding(from)), group.size()),
              (group.size() - 1) * bytes};
    }
    if (to.is_shard_like()) {
      std::vector<HostTensor> shards = group.all_to_all(members, sharding(from), sharding(to));
      std::int64_t bytes = -group.bytes_kept(shards, sharding(from), sharding(to));
      for (const HostTensor& shard : shards) bytes += shard.bytes();
      return {std::move(shards), bytes};
    }
    if (to == Placement::partial() && options_.shard_to_partial) {
      std::vector<HostTensor> parts;
      for (std::int64_t i = 0; i < group.size(); ++i) {
        parts.push_back(group.among_zeros(members[to_index(i)], sharding(from), i));
      }
      return {std::move(parts), 0};
    }
  }
  if (from.is_replicate()) {
    std::vector<HostTensor> results;
    for (std::int64_t i = 0; i < group.size(); ++i) {
      const HostTensor& mine = members[to_index(i)];
      if (to.is_shard_like()) {
        results.push_back(group.chunk(mine, sharding(to), i));
      } else if (to.kind() == Placement::Kind::kNormPartial ||
                 (to.kind() == Placement::Kind::kPartial &&
                  (is_linear(to.reduce_op()) || to.reduce_op() == ReduceOp::kMax ||
                   to.reduce_op() == ReduceOp::kMin))) {
        results.push_back(group.partition(mine, to, i));
      } else {
        break;
      }
    }
    if (std::ssize(results) == group.size()) return {std::move(results), 0};
  }
  throw InputError("no collective changes " + from.text() + " to " + to.text());
}

std::vector<HostTensor> Executor::masked(const DistributedTensor& tensor) const {
  if (tensor.masks.empty()) return tensor.locals;
  std::vector<HostTensor> locals;
  for (std::size_t i = 0; i < tensor.locals.size(); ++i) {
    locals.push_back(zeros_where(*memory_, tensor.locals[i], tensor.masks[i]));
  }
  return locals;
}

// Ranks whose coordinates agree on all mesh dims except those of the step form one group. Its
// members are in row-major order over the step's mesh dims.
std::vector<Executor::TwinGroups> Executor::groups_of_step(const PlanStep& step,
                                                           const Layout& before,
                                                           const DistributedTensor& tensor) const {
  std::map<Coordinate, std::vector<std::size_t>> by_others;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Coordinate key = without(coordinates_[i], [&](int m) {
      return std::find(step.mesh_dims.begin(), step.mesh_dims.end(), m) != step.mesh_dims.end();
    });
    by_others[key].push_back(i);
  }
  std::vector<TwinGroups> all;
  std::map<std::pair<std::vector<std::int64_t>, std::vector<const std::byte*>>, std::size_t> known;
  const bool by_domain = options_.reduction.domains_first;
  for (const auto& [others, members] : by_others) {
    std::vector<std::int64_t> signature;
    std::map<std::int64_t, std::int64_t> number;
    for (const std::size_t i : members) {
      const std::int64_t domain = by_domain ? ranks_[i] / domain_devices_ : 0;
      signature.push_back(number.emplace(domain, std::ssize(number)).first->second);
    }
    std::vector<std::int64_t> domains = signature;
    std::vector<const std::byte*> bytes;
    for (const std::size_t i : members) {
      bytes.push_back(tensor.locals[i].data());
      for (const std::int64_t extent : tensor.locals[i].shape()) signature.push_back(extent);
    }
    // What a group gathers or cuts also depends on the shape of the whole, so groups that hold
    // equal shards of different wholes are not twins.
    if (step.from.cuts() || step.to.cuts()) {
      Layout rest = before;
      for (const int m : step.mesh_dims) rest.placements[to_index(m)] = Placement::replicate();
      for (const std::int64_t extent : local_shape(tensor.meta.shape, rest, mesh_, others)) {
        signature.push_back(extent);
      }
    }
    const auto [found, is_new] =
        known.emplace(std::pair(std::move(signature), std::move(bytes)), all.size());
    if (is_new) {
      all.push_back({{members}, std::move(domains)});
    } else {
      all[found->second].groups.push_back(members);
    }
  }
  return all;
}

StepExecution Executor::run_groups(const PlanStep& step, const Layout& before,
                                   DistributedTensor& tensor) const {
  const std::vector<TwinGroups> all = groups_of_step(step, before, tensor);
  std::vector<std::int64_t> written(all.size(), 0);
  std::vector<std::int64_t> moved(all.size(), 0);
  std::vector<HostTensor> next(ranks_.size());
  parallel_for(
      all.size(), options_.threads, [] { return std::make_unique<int>(0); },
      [&](int&, std::size_t w) {
        const auto& groups = all[w].groups;
        // The threads that the other groups leave over.
        const int threads =
            options_.threads / static_cast<int>(std::min<std::size_t>(all.size(), 1000));
        const FakeGroup group(*memory_, options_.reduction, all[w].domains, std::max(threads, 1));
        const std::size_t runs = options_.copy_replicas ? groups.size() : 1;
        for (std::size_t g = 0; g < runs; ++g) {
          std::vector<HostTensor> members;
          for (const std::size_t i : groups[g]) members.push_back(tensor.locals[i]);
          const GroupResult result =
              run_group(step, before, tensor.meta, group, coordinates_[groups[g].front()], members);
          const std::vector<HostTensor>& results = result.tensors;
          moved[w] = result.bytes_moved * std::ssize(groups);
          for (std::size_t k = 0; k < results.size(); ++k) {
            const bool shared = (k > 0 && results[k].shares_bytes_with(results[k - 1])) ||
                                results[k].shares_bytes_with(members[k]);
            if (!shared) written[w] += results[k].bytes();
            next[groups[g][k]] = results[k];
            if (options_.copy_replicas) continue;
            for (const auto& twin : groups) next[twin[k]] = results[k];
          }
        }
      });
  tensor.locals = std::move(next);
  StepExecution execution;
  for (const std::int64_t bytes : written) execution.bytes_written += bytes;
  for (const std::int64_t bytes : moved) execution.bytes_moved += bytes;
  return execution;
}

StepExecution Executor::run_step(const PlanStep& step, DistributedTensor& tensor) const {
  tensor.locals = masked(tensor);
  tensor.masks.clear();
  const Layout before = tensor.layout;
  tensor.layout = step.after;
  // Indices that will become a mask partial stay whole, and are recorded as replicated: the
  // embedding that looks them up masks the rows that are on other ranks.
  for (int m = 0; m < before.ndim(); ++m) {
    const bool masked_later = step.after[m].kind() == Placement::Kind::kMaskPartial;
    if (masked_later && before[m].is_replicate()) tensor.layout.placements[to_index(m)] = before[m];
  }
  std::int64_t size = 1;
  for (const int m : step.mesh_dims) size *= mesh_.size(m);
  // A registered placement may give a part other dims, even that of a single rank.
  const bool reshapes = step.from.is_registered() || step.to.is_registered();
  if ((size == 1 && !reshapes) || step.from == step.to || tensor.layout == before) return {};
  StepExecution execution = run_groups(step, before, tensor);
  const bool rounds = (step.from.is_partial() && step.from.reduce_op() != ReduceOp::kMax &&
                       step.from.reduce_op() != ReduceOp::kMin) ||
                      (step.to.is_partial() && (step.to.reduce_op() == ReduceOp::kSum));
  if (rounds) {
    const bool norm = step.from.kind() == Placement::Kind::kNormPartial;
    const double steps = static_cast<double>(size) + (norm ? 8.0 : 2.0);
    tensor.tolerance += steps * (unit_roundoff(tensor.meta.dtype) * tensor.magnitude +
                                 underflow_error(tensor.meta.dtype));
  }
  return execution;
}

ExecutionResult Executor::run(const Plan& plan, DistributedTensor& tensor) const {
  SHARDLAB_CHECK(tensor.layout == plan.start, "a tensor in ", tensor.layout.text(),
                 " for a plan from ", plan.start.text());
  ExecutionResult result;
  result.refused = plan.refusal();
  if (!result.refused.empty()) return result;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    StepExecution step = run_step(plan.steps[s], tensor);
    const bool last = s + 1 == plan.steps.size();
    if (options_.verify_each_step || last) {
      step.verification = verify(tensor);
      if (!step.verification.verified && result.failed_step < 0) {
        result.failed_step = static_cast<int>(s);
        result.mismatch = "after step " + std::to_string(s + 1) + " (" + tensor.layout.text() +
                          "): " + step.verification.mismatch;
      }
    }
    result.bytes_moved += step.bytes_moved;
    result.bytes_written += step.bytes_written;
    const bool stops = !last && !has_local_shapes(tensor);
    if (stops && !options_.verify_each_step) {
      step.verification = verify(tensor);
      result.failed_step = static_cast<int>(s);
      result.mismatch = step.verification.mismatch;
    }
    result.steps.push_back(std::move(step));
    if (stops) break;
  }
  for (const auto& [name, held] :
       {std::pair(&plan.from, &plan.start), std::pair(&plan.to, &std::as_const(tensor.layout))}) {
    if (*name == *held || same_rows(tensor.meta, *name, *held)) continue;
    result.notes.push_back(name->text() + " stands for " + held->text() +
                           ", although the two hold different rows of this uneven shape");
  }
  const Verification end = result.steps.empty() ? verify(tensor) : result.steps.back().verification;
  result.executed = true;
  result.verified = end.verified && result.failed_step < 0;
  result.max_abs_error = end.max_abs_error;
  if (result.mismatch.empty()) result.mismatch = end.mismatch;
  result.replicas_bitwise_equal = replicas_bitwise_equal(tensor);
  return result;
}

bool Executor::has_local_shapes(const DistributedTensor& tensor) const {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (tensor.locals[i].shape() !=
        local_shape(tensor.meta.shape, tensor.layout, mesh_, coordinates_[i])) {
      return false;
    }
  }
  return true;
}

bool Executor::same_rows(const TensorMeta& meta, const Layout& a, const Layout& b) const {
  return std::all_of(coordinates_.begin(), coordinates_.end(), [&](const Coordinate& coordinate) {
    return rows_of(meta, a, mesh_, coordinate) == rows_of(meta, b, mesh_, coordinate);
  });
}

HostTensor Executor::assemble(const DistributedTensor& tensor) const {
  const PartialDims partial(tensor.layout, mesh_);
  const DType dtype = is_floating_point(tensor.meta.dtype) ? DType::kF64 : tensor.meta.dtype;
  HostTensor assembled = HostTensor::make(*memory_, dtype, tensor.meta.shape);
  const std::vector<HostTensor> locals = masked(tensor);
  // The ranks that contribute to each shard, by the coordinate of the shard: row-major over the
  // partial mesh dims, and only the first one of several replicas.
  std::map<Coordinate, std::vector<std::size_t>> shards;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const auto is_first = [&](int m) {
      return !tensor.layout[m].is_replicate() || coordinates_[i][to_index(m)] == 0;
    };
    bool counts = true;
    for (int m = 0; m < mesh_.ndim(); ++m) counts = counts && is_first(m);
    if (!counts) continue;
    shards[without(coordinates_[i], [&](int m) { return !tensor.layout[m].cuts(); })].push_back(i);
  }
  const Shape viewed = viewed_shape(tensor.meta.shape, tensor.layout.placements);
  Reduction reduction(partial, tensor.layout, mesh_, tensor.meta.dtype);
  for (const auto& [coordinate, parts] : shards) {
    const RowLists rows = rows_of(tensor.meta, tensor.layout, mesh_, coordinate);
    const std::vector<std::size_t>& members = parts;
    for_each_element(viewed, rows, [&](std::int64_t here, std::int64_t whole) {
      const std::span<double> all = reduction.contributions();
      for (std::size_t k = 0; k < members.size(); ++k) {
        all[k] = element_as_double(locals[members[k]], here);
      }
      set_element(assembled, whole, partial.any() ? reduction.result() : all[0]);
    });
  }
  return assembled;
}

Verification Executor::verify(const DistributedTensor& tensor) const {
  expect_listable_rows(tensor.meta, tensor.layout);
  Verification verification;
  const PartialDims partial(tensor.layout, mesh_);
  const double tolerance =
      tensor.tolerance + (partial.any() && is_floating_point(tensor.meta.dtype)
                              ? static_cast<double>(partial.ranks + 2) * 0x1p-53 * tensor.magnitude
                              : 0.0);
  const std::vector<HostTensor> locals = masked(tensor);
  const auto judge = [&](std::size_t i, std::int64_t whole, double found, double expected) {
    const bool same = found == expected || (std::isnan(found) && std::isnan(expected));
    const double error = same ? 0.0 : std::abs(found - expected);
    const double allowed = tensor.tolerances.data() == nullptr
                               ? tolerance
                               : tolerance + element_as_double(tensor.tolerances, whole);
    if (error <= verification.max_abs_error && error <= allowed) return;
    verification.max_abs_error = std::max(verification.max_abs_error, error);
    if (error <= allowed) return;
    verification.verified = false;
    if (!verification.mismatch.empty()) return;
    verification.mismatch = "rank " + std::to_string(ranks_[i]) + ", element " +
                            index_text(whole, tensor.meta.shape) + ": found " +
                            format_double(found) + ", expected " + format_double(expected);
  };
  // The ranks that hold each shard or contribute to it, by the coordinate of the shard.
  std::map<Coordinate, std::vector<std::size_t>> classes;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Coordinate key =
        without(coordinates_[i], [&](int m) { return !tensor.layout[m].cuts(); });
    classes[key].push_back(i);
  }
  const Shape viewed = viewed_shape(tensor.meta.shape, tensor.layout.placements);
  for (const auto& [key, members] : classes) {
    const RowLists rows = rows_of(tensor.meta, tensor.layout, mesh_, key);
    const Shape shape = shape_of(rows);
    for (const std::size_t i : members) {
      if (locals[i].shape() == shape) continue;
      verification.verified = false;
      if (verification.mismatch.empty()) {
        TensorMeta found{.dtype = tensor.meta.dtype, .shape = locals[i].shape(), .strides = {}};
        TensorMeta expected{.dtype = tensor.meta.dtype, .shape = shape, .strides = {}};
        verification.mismatch = "rank " + std::to_string(ranks_[i]) + ": found " + found.text() +
                                ", expected " + expected.text();
      }
      return verification;
    }
    if (!partial.any()) {
      const HostTensor expected = take(*memory_, tensor.global, tensor.layout, rows);
      const HostTensor* judged = nullptr;
      for (const std::size_t i : members) {
        const HostTensor& local = locals[i];
        if (judged != nullptr && judged->shares_bytes_with(local)) continue;
        judged = &local;
        if (local.same_bits(expected)) continue;
        for_each_element(viewed, rows, [&](std::int64_t here, std::int64_t whole) {
          judge(i, whole, element_as_double(local, here), element_as_double(expected, here));
        });
      }
      continue;
    }
    Reduction reduction(partial, tensor.layout, mesh_, tensor.meta.dtype);
    // The members whose contributions add up to one copy of the shard, row-major over the partial
    // mesh dims.
    std::map<Coordinate, std::vector<std::size_t>> sums;
    for (const std::size_t i : members) {
      sums[without(coordinates_[i], [&](int m) { return tensor.layout[m].is_partial(); })]
          .push_back(i);
    }
    for (const auto& sum : sums) {
      const std::vector<std::size_t>& parts = sum.second;
      for_each_element(viewed, rows, [&](std::int64_t here, std::int64_t whole) {
        const std::span<double> all = reduction.contributions();
        for (std::size_t k = 0; k < parts.size(); ++k) {
          all[k] = element_as_double(locals[parts[k]], here);
        }
        judge(parts.front(), whole, reduction.result(), element_as_double(tensor.global, whole));
      });
    }
  }
  return verification;
}

bool Executor::replicas_bitwise_equal(const DistributedTensor& tensor) const {
  std::map<Coordinate, std::size_t> first;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Coordinate key =
        without(coordinates_[i], [&](int m) { return tensor.layout[m].is_replicate(); });
    const auto [found, is_new] = first.emplace(key, i);
    if (!is_new && !tensor.locals[i].same_bits(tensor.locals[found->second])) return false;
  }
  return true;
}

}  // namespace shardlab
