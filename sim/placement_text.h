// Layouts as PyTorch writes them, and layouts that count tensor dims from the last one.
//
//   parse_layout_of("(Shard(dim=-1), Replicate())", 2, 3)     // of a tensor of 3 dims: S(2)R
//   torch_text(Layout::parse("S(0)R", 2))                     // "(Shard(dim=0), Replicate())"
//
// Placement::parse and Layout::parse read the same names; only a negative dim needs the tensor.
// They read what PyTorch prints for a placement, in either of its two forms:
//
//   repr                                                         str              here
//   Shard(dim=0)                                                 S(0)             S(0)
//   _StridedShard(dim=0, sf=2)                                   _S(0, 2)         _S(0,2)
//   Replicate()                                                  R                R
//   Partial(sum)                                                 P(sum)           P(sum)
//   _NormPartial(2)                                              _NormP(2)        NP(2)
//   _MaskPartial(reduce_op=sum, offset_shape=None, offset_dim=0) MaskP(sum, None, 0)   MP
//
// and what people write in a program: Shard(0), Partial('sum'), Partial(reduce_op="sum"), and
// _StridedShard(0, split_factor=2). What a registered placement is read as, its entry says
// (registered_placement.h). A layout may stand in brackets or parentheses, and a shard order
// may follow it as DTensorSpec prints it:
//
//   (Shard(dim=0), Shard(dim=0)), shard_order=(ShardOrderEntry(tensor_dim=0, mesh_dims=(1, 0)),)
//
// Source: PyTorch 2.13.0, 2.14.1 and 2.15.0, which print the same forms.
#pragma once

#include <string>
#include <string_view>

#include "sim/placement.h"

namespace shardlab {

// Reads a layout of `mesh_ndim` placements for a tensor of `tensor_ndim` dims. Throws TextError as
// Layout::parse does, and for a dim that counts past the first one. A dim that is too large is left
// to the caller (parse_layout in tensor_spec.h).
[[nodiscard]] Layout parse_layout_of(std::string_view text, int mesh_ndim, int tensor_ndim);

// Reads the placements of a candidate as Layout::parse does, but allows partials of different
// kinds: the rules of some ops, such as `stack`, offer such candidates and PyTorch chooses them,
// although it can't redistribute a tensor to them (assert_no_mixed_partial_types in
// _redistribute.py).
[[nodiscard]] Placements parse_candidate_placements(std::string_view text, int mesh_ndim);

// What PyTorch's repr() writes; Layout::parse reads it back as the same value. A mask knows the
// extent of its own dim alone, so the dims before it are written as 1.
[[nodiscard]] std::string torch_text(const Placement& placement);
// The tuple of all placements, with the shard order behind it where that is not the default one.
// With `always_order`, an order is written wherever a tensor dim is sharded more than once.
[[nodiscard]] std::string torch_text(const Layout& layout, bool always_order = false);

}  // namespace shardlab
