#include "runner/measure/step_run.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "sim/fake_group.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

std::int64_t elements_in(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

Shape with_extent(Shape shape, int dim, std::int64_t extent) {
  shape[to_index(dim)] = extent;
  return shape;
}

FakeGroup fake_group(const Executor& executor, std::size_t members) {
  return {executor.memory(), executor.options().reduction, std::vector<std::int64_t>(members, 0)};
}

std::int64_t rows_of_member(const DimSharding& sharding, std::size_t members, std::int64_t member) {
  return std::ssize(
      strided_rows(sharding.extent, sharding.factor, static_cast<std::int64_t>(members), member));
}

}  // namespace

Group& GroupCache::get(const std::vector<std::int64_t>& colours) {
  std::unique_ptr<Group>& group = groups_[colours];
  if (!group) group = backend_.make_group(colours);
  return *group;
}

StepRun::StepRun(Backend& backend, GroupCache& groups, const Executor& executor,
                 const PlanStep& step, const DistributedTensor& before)
    : backend_(backend), groups_(groups), executor_(executor), step_(step), before_(before) {
  SHARDLAB_CHECK(executor.mesh().size() == backend.ranks().world, executor.mesh().text(), " on ",
                 backend.ranks().world, " ranks");
  if (step.from.is_registered() || step.to.is_registered()) {
    throw InputError("found a step from " + step.from.text() + " to " + step.to.text() +
                     "; valid on GPUs: steps between built-in placements");
  }
  std::int64_t size = 1;
  for (const int m : step.mesh_dims) size *= executor.mesh().size(m);
  changes_ = size > 1 && step.from != step.to && !(step.after == before.layout);
}

StepRun::Place StepRun::place_of(std::int64_t rank) const {
  const auto& coordinates = executor_.coordinates();
  const auto same_group = [&](const std::vector<std::int64_t>& other) {
    for (int m = 0; m < executor_.mesh().ndim(); ++m) {
      const bool varies =
          std::find(step_.mesh_dims.begin(), step_.mesh_dims.end(), m) != step_.mesh_dims.end();
      if (!varies && other[to_index(m)] != coordinates[to_index(rank)][to_index(m)]) return false;
    }
    return true;
  };
  Place place;
  for (std::size_t r = 0; r < coordinates.size(); ++r) {
    if (!same_group(coordinates[r])) continue;
    if (r == to_index(rank)) place.me = std::ssize(place.members);
    place.members.push_back(r);
  }
  Layout others = before_.layout;
  for (const int m : step_.mesh_dims) others.placements[to_index(m)] = Placement::replicate();
  place.whole =
      local_shape(before_.meta.shape, others, executor_.mesh(), coordinates[to_index(rank)]);
  return place;
}

DimSharding StepRun::sharding(const Placement& placement, const Place& place) const {
  return DimSharding::of(placement, place.whole[to_index(placement.dim())]);
}

std::int64_t StepRun::longest(const Place& place, int dim) const {
  std::int64_t most = 0;
  for (const std::size_t r : place.members) {
    most = std::max(most, before_.locals[r].extent(dim));
  }
  return most;
}

bool StepRun::is_local() const { return step_.from.is_replicate(); }

// Whether each member receives only its piece of each shard, as in a move between two tensor dims.
// Otherwise whole shards are sent.
bool StepRun::sends_pieces(const Place& place) const {
  if (step_.from.dim() == step_.to.dim()) return false;
  const DimSharding from = sharding(step_.from, place);
  for (std::size_t i = 0; i < place.members.size(); ++i) {
    const HostTensor& shard = before_.locals[place.members[i]];
    const auto member = static_cast<std::int64_t>(i);
    if (shard.extent(from.dim) != rows_of_member(from, place.members.size(), member) ||
        shard.extent(step_.to.dim()) != place.whole[to_index(step_.to.dim())]) {
      return false;
    }
  }
  return true;
}

bool StepRun::is_norm() const { return step_.from.kind() == Placement::Kind::kNormPartial; }

// A sum that is merged with an average is summed first and divided afterwards; a norm sums powers.
ReduceOp StepRun::op() const {
  return is_norm() || step_.avg_scale > 1 ? ReduceOp::kSum : step_.from.reduce_op();
}

void StepRun::append_padded(std::vector<std::byte>& out, const HostTensor& tensor,
                            const Shape& padded) const {
  HostTensor whole = zeros(executor_.memory(), tensor.dtype(), padded);
  const Shape origin(padded.size(), 0);
  copy_box(tensor, origin, whole, origin, tensor.shape());
  out.insert(out.end(), whole.data(), whole.data() + whole.bytes());
}

HostTensor StepRun::part_of(const Work& work, std::int64_t index, const Shape& padded,
                            const Shape& shape) const {
  HostTensor whole = HostTensor::make(executor_.memory(), before_.meta.dtype, padded);
  const std::byte* begin = work.received.data() + index * whole.bytes();
  if (whole.bytes() > 0) std::copy(begin, begin + whole.bytes(), whole.writable());
  HostTensor part = HostTensor::make(executor_.memory(), before_.meta.dtype, shape);
  const Shape origin(padded.size(), 0);
  copy_box(whole, origin, part, origin, shape);
  return part;
}

// For an all-to-all between two tensor dims: the shape of what member `from` sends to member `to`.
// The member -1 means the one with the longest piece.
Shape StepRun::piece_shape(const Place& place, std::int64_t from, std::int64_t to) const {
  const auto rows = [&](const Placement& placement, std::int64_t member) {
    const DimSharding cut = sharding(placement, place);
    if (member >= 0) return rows_of_member(cut, place.members.size(), member);
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < std::ssize(place.members); ++i) {
      most = std::max(most, rows_of_member(cut, place.members.size(), i));
    }
    return most;
  };
  Shape shape = before_.locals[place.members.front()].shape();
  shape[to_index(step_.from.dim())] = rows(step_.from, from);
  shape[to_index(step_.to.dim())] = rows(step_.to, to);
  return shape;
}

StepRun::Work StepRun::pack(const HostTensor& local, const Place& place) const {
  const HostTensor mine =
      is_norm() ? power_of(executor_.memory(), local, step_.from.norm()) : local;
  Work work;
  const auto members = std::ssize(place.members);
  const FakeGroup group = fake_group(executor_, place.members.size());
  work.call.dtype = mine.dtype();
  work.call.op = op();
  if (step_.from.is_partial() && step_.to.is_replicate()) {
    work.call.kind = Collective::kAllReduce;
    work.send.assign(mine.data(), mine.data() + mine.bytes());
  } else if (step_.from.is_partial() && step_.to.is_shard_like()) {
    work.call.kind = Collective::kReduceScatter;
    const DimSharding cut = sharding(step_.to, place);
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < members; ++i) {
      most = std::max(most, rows_of_member(cut, place.members.size(), i));
    }
    for (std::int64_t i = 0; i < members; ++i) {
      append_padded(work.send, group.chunk(mine, cut, i), with_extent(mine.shape(), cut.dim, most));
    }
  } else if (step_.from.is_shard_like() && step_.to.is_replicate()) {
    work.call.kind = Collective::kAllGather;
    const int dim = step_.from.dim();
    append_padded(work.send, mine, with_extent(mine.shape(), dim, longest(place, dim)));
  } else if (step_.from.is_shard_like() && step_.to.is_shard_like()) {
    work.call.kind = Collective::kAllToAll;
    const bool pieces = sends_pieces(place);
    const Shape padded =
        pieces ? piece_shape(place, -1, -1)
               : with_extent(mine.shape(), step_.from.dim(), longest(place, step_.from.dim()));
    for (std::int64_t i = 0; i < members; ++i) {
      append_padded(work.send, pieces ? group.chunk(mine, sharding(step_.to, place), i) : mine,
                    padded);
    }
  } else {
    throw InputError(step_.from.text() + "->" + step_.to.text() + " can't be run on a backend");
  }
  const bool gathers = work.call.kind == Collective::kAllGather;
  work.call.count = std::ssize(work.send) / itemsize(mine.dtype()) * (gathers ? members : 1);
  work.received.resize(to_index(receive_count(work.call, members) * itemsize(mine.dtype())));
  return work;
}

void StepRun::call_all(std::vector<Work>& work) const {
  std::vector<std::int64_t> colours;
  for (std::int64_t rank = 0; rank < backend_.ranks().world; ++rank) {
    colours.push_back(static_cast<std::int64_t>(place_of(rank).members.front()));
  }
  Group& group = groups_.get(colours);
  std::vector<DevicePointer> memory;
  std::vector<CollectiveCall> calls;
  std::vector<CallBuffers> buffers;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const auto local = static_cast<std::int64_t>(i);
    DevicePointer send = backend_.allocate(local, std::ssize(work[i].send));
    DevicePointer receive = backend_.allocate(local, std::ssize(work[i].received));
    backend_.upload(local, send.get(), work[i].send);
    calls.push_back(work[i].call);
    buffers.push_back({send.get(), receive.get()});
    memory.push_back(std::move(send));
    memory.push_back(std::move(receive));
  }
  group.run(calls, buffers);
  for (std::size_t i = 0; i < work.size(); ++i) {
    backend_.download(static_cast<std::int64_t>(i), work[i].received, buffers[i].receive);
  }
}

HostTensor StepRun::unpack(const Work& work, const HostTensor& mine, const Place& place) const {
  const FakeGroup group = fake_group(executor_, place.members.size());
  HostTensor result;
  if (work.call.kind == Collective::kAllReduce) {
    result = part_of(work, 0, mine.shape(), mine.shape());
  } else if (work.call.kind == Collective::kReduceScatter) {
    const DimSharding cut = sharding(step_.to, place);
    const std::int64_t padded_elements = work.call.count / group.size();
    const std::int64_t row = elements_in(with_extent(mine.shape(), cut.dim, 1));
    const Shape padded = with_extent(mine.shape(), cut.dim, row > 0 ? padded_elements / row : 0);
    result = part_of(
        work, 0, padded,
        with_extent(mine.shape(), cut.dim, rows_of_member(cut, place.members.size(), place.me)));
  } else if (work.call.kind == Collective::kAllToAll && sends_pieces(place)) {
    std::vector<HostTensor> pieces;
    for (std::int64_t i = 0; i < group.size(); ++i) {
      pieces.push_back(
          part_of(work, i, piece_shape(place, -1, -1), piece_shape(place, i, place.me)));
    }
    return group.all_gather(pieces, sharding(step_.from, place));
  } else {
    std::vector<HostTensor> shards;
    const int dim = step_.from.dim();
    const Shape padded = with_extent(mine.shape(), dim, longest(place, dim));
    for (std::int64_t i = 0; i < group.size(); ++i) {
      shards.push_back(
          part_of(work, i, padded, before_.locals[place.members[to_index(i)]].shape()));
    }
    if (work.call.kind == Collective::kAllGather) {
      return group.all_gather(shards, sharding(step_.from, place));
    }
    return group.all_to_all(shards, sharding(step_.from, place),
                            sharding(step_.to, place))[to_index(place.me)];
  }
  if (step_.avg_scale > 1) {
    divide(result.dtype(), result.writable(), result.elements(),
           static_cast<double>(step_.avg_scale));
  }
  if (is_norm())
    power(result.dtype(), result.writable(), result.elements(), 1.0 / step_.from.norm());
  return result;
}

HostTensor StepRun::do_locally(const HostTensor& mine, const Place& place) const {
  const FakeGroup group = fake_group(executor_, place.members.size());
  if (step_.to.is_shard_like()) return group.chunk(mine, sharding(step_.to, place), place.me);
  return group.partition(mine, step_.to, place.me);
}

std::vector<HostTensor> StepRun::run(const std::vector<HostTensor>& mine) const {
  std::vector<HostTensor> results;
  std::vector<Place> places;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    places.push_back(place_of(backend_.ranks().first + static_cast<std::int64_t>(i)));
  }
  if (is_local()) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      results.push_back(do_locally(mine[i], places[i]));
    }
    return results;
  }
  std::vector<Work> work;
  for (std::size_t i = 0; i < mine.size(); ++i) work.push_back(pack(mine[i], places[i]));
  call_all(work);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    results.push_back(unpack(work[i], mine[i], places[i]));
  }
  return results;
}

}  // namespace shardlab
