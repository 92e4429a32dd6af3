#include "sim/fake_group.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/parallel.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

// How many elements are reduced at a time. The running sums of all levels of a tree then stay in
// the first cache.
constexpr std::int64_t kBlock = 8192;
// Fewer bytes are not worth a thread: starting one takes as long as copying a few hundred KiB.
constexpr std::int64_t kBytesPerThread = std::int64_t{1} << 22U;

// Consecutive rows of the whole that are consecutive in a member's shard too.
struct Run {
  std::int64_t whole = 0;  // first row, counted in the whole
  std::int64_t local = 0;  // the same row, counted in the shard
  std::int64_t count = 0;
};

std::vector<Run> runs_of(const DimSharding& sharding, std::int64_t members, std::int64_t member) {
  std::vector<Run> runs;
  std::int64_t local = 0;
  for (std::int64_t piece = 0; piece < sharding.factor; ++piece) {
    const Chunk outer = chunk_of(sharding.extent, sharding.factor, piece);
    if (outer.size == 0) break;  // all further pieces are empty too
    const Chunk inner = chunk_of(outer.size, members, member);
    if (inner.size == 0) continue;
    runs.push_back({outer.offset + inner.offset, local, inner.size});
    local += inner.size;
  }
  return runs;
}

std::int64_t rows_in(std::span<const Run> runs) {
  return runs.empty() ? 0 : runs.back().local + runs.back().count;
}

Shape with_extent(Shape shape, int dim, std::int64_t extent) {
  shape[to_index(dim)] = extent;
  return shape;
}

Shape row_offset(const Shape& shape, int dim, std::int64_t row) {
  return with_extent(Shape(shape.size(), 0), dim, row);
}

}  // namespace

template <class Work>
void FakeGroup::for_each_member(std::int64_t bytes, Work&& work) const {
  parallel_for(
      to_index(size()), bytes < kBytesPerThread ? 1 : threads_,
      [] { return std::make_unique<int>(0); },
      [&](int&, std::size_t member) { work(static_cast<std::int64_t>(member)); });
}

bool reduces(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      return !is_floating_point(dtype);
    case ReduceOp::kAvg:
      return dtype != DType::kB8;
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kMin:
    case ReduceOp::kProduct:
      return true;
  }
  return false;
}

HostTensor FakeGroup::all_gather(std::span<const HostTensor> shards,
                                 const DimSharding& sharding) const {
  SHARDLAB_CHECK(std::ssize(shards) == size(), std::ssize(shards), " shards of ", size());
  const int dim = sharding.dim;
  const Shape shape = with_extent(shards[0].shape(), dim, sharding.extent);
  // If a member holds fewer rows than the chunk of its group rank, padding ends up in the result.
  bool padding_comes_through = false;
  for (std::int64_t i = 0; i < size(); ++i) {
    const auto runs = runs_of(sharding, size(), i);
    if (shards[to_index(i)].extent(dim) < rows_in(runs)) padding_comes_through = true;
  }
  HostTensor whole = padding_comes_through ? zeros(memory_, shards[0].dtype(), shape)
                                           : HostTensor::make(memory_, shards[0].dtype(), shape);
  for_each_member(whole.bytes(), [&](std::int64_t i) {
    const HostTensor& shard = shards[to_index(i)];
    for (const Run& run : runs_of(sharding, size(), i)) {
      const std::int64_t rows =
          std::clamp<std::int64_t>(shard.extent(dim) - run.local, 0, run.count);
      copy_box(shard, row_offset(shape, dim, run.local), whole, row_offset(shape, dim, run.whole),
               with_extent(shard.shape(), dim, rows));
    }
  });
  return whole;
}

std::vector<int> FakeGroup::program_of_chunk(std::int64_t chunk) const {
  std::vector<int> program;
  std::vector<int> members(to_index(size()));
  for (std::int64_t i = 0; i < size(); ++i) members[to_index(i)] = static_cast<int>(i);
  if (!options_.domains_first) {
    append_sum(members, chunk, program);
    return program;
  }
  // The sums of the domains are combined like the contributions of single members.
  std::vector<std::int64_t> seen;
  std::vector<std::vector<int>> sums;
  for (const int member : members) {
    const std::int64_t domain = domains_[to_index(member)];
    const auto found = std::find(seen.begin(), seen.end(), domain) - seen.begin();
    if (found == std::ssize(seen)) {
      seen.push_back(domain);
      sums.emplace_back();
    }
    sums[to_index(found)].push_back(member);
  }
  std::vector<int> domains(seen.size());
  for (std::size_t i = 0; i < domains.size(); ++i) domains[i] = static_cast<int>(i);
  std::vector<int> across;
  append_sum(domains, chunk, across);
  for (const int step : across) {
    if (step == kCombine) {
      program.push_back(kCombine);
    } else {
      append_sum(sums[to_index(step)], chunk, program);
    }
  }
  return program;
}

void FakeGroup::append_sum(std::span<const int> members, std::int64_t chunk,
                           std::vector<int>& out) const {
  if (options_.order == ReductionOrder::kTree) {
    if (members.size() == 1) {
      out.push_back(members[0]);
      return;
    }
    append_sum(members.first(members.size() / 2), chunk, out);
    append_sum(members.subspan(members.size() / 2), chunk, out);
    out.push_back(kCombine);
    return;
  }
  const auto count = std::ssize(members);
  const std::int64_t first = options_.order == ReductionOrder::kRing ? chunk + 1 : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(members[to_index((first + i) % count)]);
    if (i > 0) out.push_back(kCombine);
  }
}

void FakeGroup::reduce_range(std::span<const HostTensor> contributions, ReduceOp op, double divisor,
                             std::span<const int> program, std::int64_t begin, std::int64_t count,
                             std::byte* out) const {
  const DType dtype = contributions[0].dtype();
  const std::int64_t item = itemsize(dtype);
  const bool scales = op == ReduceOp::kAvg && !options_.divide_last && is_floating_point(dtype);
  // The stack of sums that are not combined yet. The one at the bottom is built in `out` itself, so
  // it is not in this list.
  std::vector<std::vector<std::byte>> waiting;
  std::vector<std::byte> scaled(scales ? to_index(kBlock * item) : 0);
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t n = std::min(kBlock, count - done);
    const auto bytes = to_index(n * item);
    std::byte* result = out + done * item;
    const auto contribution = [&](int member) {
      const std::byte* x = contributions[to_index(member)].data() + (begin + done) * item;
      if (!scales) return x;
      std::memcpy(scaled.data(), x, bytes);
      scale_contribution(op, dtype, scaled.data(), n, size(), options_.divide_last);
      return static_cast<const std::byte*>(scaled.data());
    };
    const auto slot = [&](std::size_t depth) {
      if (depth == 0) return result;
      if (waiting.size() < depth) waiting.emplace_back(to_index(kBlock * item));
      return waiting[depth - 1].data();
    };
    std::size_t depth = 0;
    for (std::size_t i = 0; i < program.size(); ++i) {
      if (program[i] == kCombine) {
        combine(op, dtype, slot(depth - 2), slot(depth - 1), n);
        --depth;
      } else if (depth > 0 && i + 1 < program.size() && program[i + 1] == kCombine) {
        combine(op, dtype, slot(depth - 1), contribution(program[i]), n);
        ++i;
      } else {
        std::memcpy(slot(depth), contribution(program[i]), bytes);
        ++depth;
      }
    }
    finish_reduction(op, dtype, result, n, size(), options_.divide_last);
    if (divisor != 1.0) divide(dtype, result, n, divisor);
  }
}

HostTensor FakeGroup::all_reduce(std::span<const HostTensor> contributions, ReduceOp op,
                                 double divisor) const {
  SHARDLAB_CHECK(std::ssize(contributions) == size(), std::ssize(contributions), " of ", size());
  const HostTensor& first = contributions[0];
  if (!reduces(op, first.dtype())) {
    throw InputError("all_reduce: " + std::string(to_string(op)) + " of " +
                     std::string(to_string(first.dtype())) + " does not exist");
  }
  HostTensor sum = HostTensor::make(memory_, first.dtype(), first.shape());
  const std::int64_t elements = first.elements();
  std::byte* out = sum.writable();
  // The buffer is reduced chunk by chunk, because a ring's order of summation depends on the chunk.
  for_each_member(first.bytes() * size(), [&](std::int64_t c) {
    const Chunk part = chunk_of(elements, size(), c);
    if (part.size == 0) return;
    reduce_range(contributions, op, divisor, program_of_chunk(c), part.offset, part.size,
                 out + part.offset * itemsize(first.dtype()));
  });
  return sum;
}

std::vector<HostTensor> FakeGroup::reduce_scatter(std::span<const HostTensor> contributions,
                                                  ReduceOp op, const DimSharding& sharding,
                                                  double divisor) const {
  SHARDLAB_CHECK(std::ssize(contributions) == size(), std::ssize(contributions), " of ", size());
  const HostTensor& first = contributions[0];
  if (!reduces(op, first.dtype())) {
    throw InputError("reduce_scatter: " + std::string(to_string(op)) + " of " +
                     std::string(to_string(first.dtype())) + " does not exist");
  }
  const int dim = sharding.dim;
  std::int64_t outside = 1;  // product of the extents of the dims before `dim`
  std::int64_t inside = 1;   // elements of one row of `dim`
  for (int d = 0; d < first.ndim(); ++d) (d < dim ? outside : inside) *= first.extent(d);
  if (first.extent(dim) > 0) inside /= first.extent(dim);
  std::vector<HostTensor> shards(to_index(size()));
  for_each_member(first.bytes() * size(), [&](std::int64_t r) {
    const auto runs = runs_of(sharding, size(), r);
    const std::int64_t rows = rows_in(runs);
    HostTensor shard =
        HostTensor::make(memory_, first.dtype(), with_extent(first.shape(), dim, rows));
    const auto program = program_of_chunk(r);
    std::byte* out = shard.writable();
    for (std::int64_t o = 0; o < outside; ++o) {
      for (const Run& run : runs) {
        reduce_range(contributions, op, divisor, program,
                     (o * first.extent(dim) + run.whole) * inside, run.count * inside,
                     out + (o * rows + run.local) * inside * itemsize(first.dtype()));
      }
    }
    shards[to_index(r)] = std::move(shard);
  });
  return shards;
}

std::vector<HostTensor> FakeGroup::all_to_all(std::span<const HostTensor> shards,
                                              const DimSharding& from,
                                              const DimSharding& to) const {
  SHARDLAB_CHECK(std::ssize(shards) == size(), std::ssize(shards), " shards of ", size());
  std::vector<HostTensor> results(to_index(size()));
  std::vector<std::vector<Run>> held(to_index(size()));
  // A planner that mistakes an outer shard for an inner one leaves shards whose sizes do not fit
  // their group ranks. Missing rows are replaced by zeros, like padding.
  bool fits = true;
  for (std::int64_t i = 0; i < size(); ++i) {
    held[to_index(i)] = runs_of(from, size(), i);
    fits = fits && shards[to_index(i)].extent(from.dim) == rows_in(held[to_index(i)]) &&
           (from.dim == to.dim || shards[to_index(i)].extent(to.dim) == to.extent);
  }
  for_each_member(shards[0].bytes() * size(), [&](std::int64_t r) {
    const auto kept = runs_of(to, size(), r);
    Shape shape = with_extent(shards[0].shape(), from.dim, from.extent);
    shape[to_index(to.dim)] = rows_in(kept);
    HostTensor result = fits ? HostTensor::make(memory_, shards[0].dtype(), shape)
                             : zeros(memory_, shards[0].dtype(), shape);
    for (std::int64_t i = 0; i < size(); ++i) {
      const HostTensor& shard = shards[to_index(i)];
      for (const Run& had : held[to_index(i)]) {
        for (const Run& keep : kept) {
          Shape source = row_offset(shape, from.dim, had.local);
          Shape target = row_offset(shape, from.dim, had.whole);
          Shape box = with_extent(shard.shape(), from.dim, had.count);
          if (from.dim == to.dim) {  // only the rows that are in both runs
            const std::int64_t begin = std::max(had.whole, keep.whole);
            const std::int64_t end = std::min(had.whole + had.count, keep.whole + keep.count);
            source[to_index(to.dim)] = had.local + begin - had.whole;
            target[to_index(to.dim)] = keep.local + begin - keep.whole;
            box[to_index(to.dim)] = std::max<std::int64_t>(end - begin, 0);
          } else {
            source[to_index(to.dim)] = keep.whole;
            target[to_index(to.dim)] = keep.local;
            box[to_index(to.dim)] = keep.count;
          }
          for (const int dim : {from.dim, to.dim}) {
            box[to_index(dim)] = std::clamp<std::int64_t>(shard.extent(dim) - source[to_index(dim)],
                                                          0, box[to_index(dim)]);
          }
          copy_box(shard, source, result, target, box);
        }
      }
    }
    results[to_index(r)] = std::move(result);
  });
  return results;
}

std::int64_t rows_kept(const DimSharding& from, const DimSharding& to, std::int64_t members,
                       std::int64_t member) {
  std::int64_t both = 0;
  const auto wanted = runs_of(to, members, member);
  for (const Run& a : runs_of(from, members, member)) {
    for (const Run& b : wanted) {
      both += std::max<std::int64_t>(
          std::min(a.whole + a.count, b.whole + b.count) - std::max(a.whole, b.whole), 0);
    }
  }
  return both;
}

std::int64_t FakeGroup::bytes_kept(std::span<const HostTensor> results, const DimSharding& from,
                                   const DimSharding& to) const {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < size(); ++i) {
    const HostTensor& result = results[to_index(i)];
    const std::int64_t rows = result.extent(from.dim);
    if (rows == 0) continue;
    const std::int64_t both =
        from.dim == to.dim ? rows_kept(from, to, size(), i) : rows_in(runs_of(from, size(), i));
    kept += result.bytes() / rows * both;
  }
  return kept;
}

HostTensor FakeGroup::chunk(const HostTensor& tensor, const DimSharding& sharding,
                            std::int64_t member) const {
  const auto runs = runs_of(sharding, size(), member);
  if (runs.size() <= 1) {
    const Run run = runs.empty() ? Run{sharding.extent, 0, 0} : runs.front();
    return narrow(memory_, tensor, sharding.dim, run.whole, run.count);
  }
  std::vector<std::int64_t> rows;
  for (const Run& run : runs) {
    for (std::int64_t i = 0; i < run.count; ++i) rows.push_back(run.whole + i);
  }
  return select_rows(memory_, tensor, sharding.dim, rows);
}

HostTensor FakeGroup::broadcast(std::span<const HostTensor> tensors, std::int64_t root) const {
  SHARDLAB_CHECK(std::ssize(tensors) == size() && root >= 0 && root < size(), "root ", root, " of ",
                 size());
  return tensors[to_index(root)];
}

std::vector<HostTensor> FakeGroup::scatter(const HostTensor& tensor,
                                           const DimSharding& sharding) const {
  std::vector<HostTensor> shards;
  for (std::int64_t i = 0; i < size(); ++i) shards.push_back(chunk(tensor, sharding, i));
  return shards;
}

HostTensor FakeGroup::among_zeros(const HostTensor& shard, const DimSharding& sharding,
                                  std::int64_t member) const {
  HostTensor whole =
      zeros(memory_, shard.dtype(), with_extent(shard.shape(), sharding.dim, sharding.extent));
  put_rows(shard, whole, sharding.dim,
           strided_rows(sharding.extent, sharding.factor, size(), member));
  return whole;
}

HostTensor FakeGroup::partition(const HostTensor& tensor, const Placement& partial,
                                std::int64_t member) const {
  const bool norm = partial.kind() == Placement::Kind::kNormPartial;
  const ReduceOp op = partial.reduce_op();
  SHARDLAB_CHECK(norm || is_linear(op) || op == ReduceOp::kMax || op == ReduceOp::kMin,
                 partial.text());
  if (!norm && op != ReduceOp::kSum) return tensor;
  if (!is_floating_point(tensor.dtype())) {
    return member == 0 ? tensor : zeros(memory_, tensor.dtype(), tensor.shape());
  }
  const auto members = static_cast<double>(size());
  HostTensor part = copy_of(memory_, tensor);
  divide(part.dtype(), part.writable(), part.elements(),
         norm ? std::pow(members, 1.0 / partial.norm()) : members);
  return part;
}

}  // namespace shardlab
