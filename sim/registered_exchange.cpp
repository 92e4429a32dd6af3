#include "sim/registered_exchange.h"

#include <algorithm>
#include <cstring>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// How a placement cuts a tensor: rows of `extent` that each stand for `inner` elements, `outer`
// times over.
struct Cut {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
  std::vector<RowRange> rows;
};

Cut cut_of(const Placement& placement, const Shape& whole, std::int64_t members,
           std::int64_t member) {
  Cut cut;
  int begin = 0;
  int end = 0;
  if (placement.is_registered()) {
    const RegisteredPlacement& own = placement.registered();
    begin = own.dim();
    end = own.dim() + own.dims();
    cut.extent = extent_of(own, whole);
    cut.rows = own.rows(cut.extent, members, member);
  } else if (placement.is_shard()) {
    begin = placement.dim();
    end = begin + 1;
    cut.extent = whole[to_index(begin)];
    const Chunk chunk = chunk_of(cut.extent, members, member);
    if (chunk.size > 0) cut.rows.push_back({chunk.offset, chunk.offset + chunk.size});
  } else {
    SHARDLAB_CHECK(placement.is_replicate(), "no part of ", placement.text());
    cut.rows.push_back({0, 1});
  }
  for (int d = 0; d < begin; ++d) cut.outer *= whole[to_index(d)];
  for (int d = end; d < static_cast<int>(whole.size()); ++d) cut.inner *= whole[to_index(d)];
  return cut;
}

// The bytes of a stretch of elements in the whole tensor.
struct Bytewise {
  std::size_t begin = 0;
  std::size_t size = 0;
};
Bytewise bytes_of(const RowRange& stretch, int item) {
  return {static_cast<std::size_t>(stretch.begin * item),
          static_cast<std::size_t>((stretch.end - stretch.begin) * item)};
}

}  // namespace

std::vector<RowRange> stretches_of(const Placement& placement, const Shape& whole,
                                   std::int64_t members, std::int64_t member) {
  const Cut cut = cut_of(placement, whole, members, member);
  std::vector<RowRange> stretches;
  if (cut.inner == 0) return stretches;
  for (std::int64_t o = 0; o < cut.outer; ++o) {
    const std::int64_t first = o * cut.extent * cut.inner;
    for (const RowRange& rows : cut.rows) {
      const RowRange next = {first + rows.begin * cut.inner, first + rows.end * cut.inner};
      if (!stretches.empty() && stretches.back().end == next.begin) {
        stretches.back().end = next.end;
      } else {
        stretches.push_back(next);
      }
    }
  }
  return stretches;
}

Shape part_shape(const Placement& placement, const Shape& whole, std::int64_t members,
                 std::int64_t member) {
  if (placement.is_replicate()) return whole;
  Shape shape = viewed_shape(whole, Placements(1, placement));
  shape[to_index(placement.dim())] = count_rows(cut_of(placement, whole, members, member).rows);
  return shape;
}

HostTensor gather_parts(HostMemory& memory, std::span<const HostTensor> parts,
                        const Placement& placement, const Shape& whole) {
  HostTensor gathered = HostTensor::make(memory, parts.front().dtype(), whole);
  const int item = itemsize(gathered.dtype());
  std::byte* const out = gathered.writable();
  for (std::int64_t i = 0; i < std::ssize(parts); ++i) {
    const HostTensor& part = parts[to_index(i)];
    SHARDLAB_CHECK(part.shape() == part_shape(placement, whole, std::ssize(parts), i),
                   placement.text(), ": the part of member ", i, " has another shape");
    std::size_t read = 0;
    for (const RowRange& stretch : stretches_of(placement, whole, std::ssize(parts), i)) {
      const Bytewise bytes = bytes_of(stretch, item);
      std::memcpy(out + bytes.begin, part.data() + read, bytes.size);
      read += bytes.size;
    }
  }
  return gathered;
}

HostTensor cut_part(HostMemory& memory, const HostTensor& whole, const Placement& placement,
                    std::int64_t members, std::int64_t member) {
  HostTensor part = HostTensor::make(memory, whole.dtype(),
                                     part_shape(placement, whole.shape(), members, member));
  const int item = itemsize(whole.dtype());
  std::size_t written = 0;
  for (const RowRange& stretch : stretches_of(placement, whole.shape(), members, member)) {
    const Bytewise bytes = bytes_of(stretch, item);
    std::memcpy(part.writable() + written, whole.data() + bytes.begin, bytes.size);
    written += bytes.size;
  }
  return part;
}

std::int64_t elements_kept(const Placement& from, const Placement& to, const Shape& whole,
                           std::int64_t members) {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < members; ++i) {
    const std::vector<RowRange> had = stretches_of(from, whole, members, i);
    const std::vector<RowRange> wanted = stretches_of(to, whole, members, i);
    auto next = wanted.begin();
    for (const RowRange& stretch : had) {
      while (next != wanted.end() && next->end <= stretch.begin) ++next;
      for (auto it = next; it != wanted.end() && it->begin < stretch.end; ++it) {
        kept += std::min(stretch.end, it->end) - std::max(stretch.begin, it->begin);
      }
    }
  }
  return kept;
}

}  // namespace shardlab
