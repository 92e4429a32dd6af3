// The collectives of registered placements among the virtual ranks of one group: they move the
// elements that registered_placement.h says each rank holds.
//
//   gather_parts(memory, members, Placement::parse("RG(0:1,3)"), {8, 4})   // 2 rows and 6 become 8
//   cut_part(memory, whole, Placement::parse("RG(0:1,3)"), 2, 1)           // its last 6 rows
//   elements_kept(Placement::parse("RG(0:1,3)"), Placement::shard(1), {8, 4}, 2)
//
// `whole` is the shape of the tensor that the members hold together. Placements are registered
// ones, S(d) and R. A part is a list of stretches of the tensor's elements in row-major order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/host_tensor.h"
#include "sim/registered_placement.h"
#include "sim/tensor_spec.h"

namespace shardlab {

// The stretches of elements that a member holds, ascending; the part has them in this order.
[[nodiscard]] std::vector<RowRange> stretches_of(const Placement& placement, const Shape& whole,
                                                 std::int64_t members, std::int64_t member);
// The shape of a member's part.
[[nodiscard]] Shape part_shape(const Placement& placement, const Shape& whole, std::int64_t members,
                               std::int64_t member);

// The whole tensor, made of one part from each member.
[[nodiscard]] HostTensor gather_parts(HostMemory& memory, std::span<const HostTensor> parts,
                                      const Placement& placement, const Shape& whole);
// A member's part of the whole tensor.
[[nodiscard]] HostTensor cut_part(HostMemory& memory, const HostTensor& whole,
                                  const Placement& placement, std::int64_t members,
                                  std::int64_t member);
// How many elements the members of a group have both before and after a change, all together.
[[nodiscard]] std::int64_t elements_kept(const Placement& from, const Placement& to,
                                         const Shape& whole, std::int64_t members);

}  // namespace shardlab
