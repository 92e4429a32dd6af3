"""Text forms of meshes, tensors, placements and layouts, read and printed as shardlab does.

    mesh 2x4 or dp=2,tp=4    tensor f32[16,32]    layout S(0)RP(sum), S(0)[1]S(0)[0]R, _S(0,2)R, _S(0,2)[0]R    row P(sum)|?1,?0
"""

import math
import re

from .errors import RequestError

DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
          "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
          "u16": "uint16", "u32": "uint32", "u64": "uint64", "c32": "complex32", "c64": "complex64",
          "c128": "complex128", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
          "f8e8m0fnu": "float8_e8m0fnu"}
ABBREVIATIONS = {name: abbreviation for abbreviation, name in DTYPES.items()}
TENSOR = re.compile(r"([a-z][a-z0-9]*)\[([0-9, ]*)\]")
PLACEMENT_FORMS = "R, S(0), _S(0,2), P(sum), MP, MP(0,1000) or NP(2)"
PLACEMENT = re.compile(r"[ ,]*(?:(?P<R>R)"
                       r"|(?:_S\((?P<strided>\d+),\s*(?P<factor>\d+)\)|S\((?P<dim>\d+)\))(?:\[(?P<order>\d+)\])?"
                       r"|(?P<mask>MP)(?:\((?P<mask_dim>\d+),\s*(?P<mask_extent>\d+)\))?|NP\((?P<norm>[-+.0-9a-z]+)\)"
                       r"|P(?:\((?P<op>[a-z]+)\))?)[ ,]*")


# ---- Reading ---------------------------------------------------------------------------------------------------


def mesh_of(text):
    """(shape, names or None) of a mesh such as 2x4 or dp=2,tp=4."""
    if not isinstance(text, str):
        raise RequestError(f"A mesh is a text such as 2x4, not {text!r}.")
    try:
        if "=" in text:
            pairs = [part.split("=") for part in text.split(",")]
            shape, names = tuple(int(size) for _, size in pairs), tuple(name.strip() for name, _ in pairs)
        else:
            shape, names = tuple(int(size) for size in text.split("x")), None
    except ValueError:
        raise RequestError(f"The mesh {text!r} cannot be read. Write it as 2x4, or as dp=2,tp=4.") from None
    if any(size < 1 for size in shape):
        raise RequestError(f"The mesh {text!r} has a dim without ranks.")
    return shape, names


def tensor_of(torch, text):
    """(shape, dtype) of a tensor such as f32[16,32]."""
    found = TENSOR.fullmatch(text.strip())
    if not found:
        raise RequestError(f"The tensor {text!r} cannot be read. Write it as f32[16,32].")
    dtype = getattr(torch, DTYPES.get(found[1], ""), None)
    if dtype is None:
        raise RequestError(f"The dtype {found[1]!r} of {text!r} is not one of {', '.join(DTYPES)}.")
    try:
        return tuple(int(extent) for extent in found[2].split(",") if extent.strip() or "," in found[2]), dtype
    except ValueError:
        raise RequestError(f"The shape of {text!r} cannot be read. Write it as f32[16,32].") from None


def strides_of(shape):
    """The strides of a contiguous tensor, as torch.empty gives them: an extent of zero counts as one."""
    return tuple(math.prod(max(extent, 1) for extent in shape[i + 1:]) for i in range(len(shape)))


def parts_of_list(text):
    """The texts in a list such as "[f32[8]; none]", or None where the text is no list."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    inner = text[1:-1].strip()
    return [part.strip() for part in inner.split(";")] if inner else []


def placement_of(types, found):
    """A placement from a match of PLACEMENT."""
    if found["R"]:
        return types.Replicate()
    if found["strided"]:
        return types._StridedShard(int(found["strided"]), split_factor=int(found["factor"]))
    if found["dim"]:
        return types.Shard(int(found["dim"]))
    if found["mask_dim"]:
        # The text names the dim that is masked and its extent; the other extents do not matter to a decision.
        dim, extent = int(found["mask_dim"]), int(found["mask_extent"])
        import torch

        return types._MaskPartial(offset_shape=torch.Size([1] * dim + [extent]), offset_dim=dim)
    if found["mask"]:
        return types._MaskPartial()
    if found["norm"]:
        from torch.distributed.tensor._ops._math_ops import _NormPartial

        return _NormPartial(float(found["norm"]))
    return types.Partial(found["op"] or "sum")


def placements_of(text, types, mesh_dims):
    """(placements, {tensor dim: mesh dims in the order in which they cut it} or None, own) of a layout. `own`: strided
    shards with order indices are placements of their own, as views make them; others encode the order."""
    placements, ranked, strided, own, at = [], {}, False, False, 0
    while at < len(text):
        found = PLACEMENT.match(text, at)
        if not found:
            raise RequestError(f"The layout {text!r} cannot be read at position {at}. A placement is "
                               f"{PLACEMENT_FORMS}.")
        if found["order"]:
            ranked.setdefault(int(found["dim"] or found["strided"]), {})[len(placements)] = int(found["order"])
            own |= found["strided"] is not None
        strided |= found["strided"] is not None
        placements.append(placement_of(types, found))
        at = found.end()
    if len(placements) != mesh_dims:
        raise RequestError(f"The layout {text!r} has {len(placements)} placements, but the mesh has {mesh_dims} dims.")
    if not ranked or strided and not own:  # Split factors say the order themselves.
        return tuple(placements), None, False
    order = {}
    for mesh_dim, placement in enumerate(placements):
        if hasattr(placement, "dim"):
            order.setdefault(placement.dim, []).append(mesh_dim)
    for dim, ranks in ranked.items():
        if sorted(ranks) != order[dim] or sorted(ranks.values()) != list(range(len(ranks))):
            raise RequestError(f"The layout {text!r} does not number the shards of tensor dim {dim} from 0.")
        order[dim] = sorted(ranks, key=ranks.get)
    return tuple(placements), order, own


# ---- Printing --------------------------------------------------------------------------------------------------


def tensor_text(shape, dtype):
    name = str(dtype).replace("torch.", "")
    return f"{ABBREVIATIONS.get(name, name)}[{','.join(str(int(extent)) for extent in shape)}]"


def placement_text(placement):
    """A placement as in PLACEMENT_FORMS; `?0` for a shard whose kind is still open; `-` for None."""
    if placement is None:
        return "-"
    name = type(placement).__name__
    if name == "Replicate":
        return "R"
    if name == "Shard":
        return f"S({placement.dim})"
    if name == "_StridedShard":
        return f"_S({placement.dim},{placement.split_factor})"
    if name == "Partial":
        return f"P({placement.reduce_op})"
    if name == "_ShardingPlaceholder":
        return f"?{placement.dim}"
    if name == "_MaskPartial" and placement.offset_shape is None:
        return "MP"
    if name == "_MaskPartial":
        return f"MP({placement.offset_dim},{int(placement.offset_shape[placement.offset_dim])})"
    if name == "_NormPartial":
        return f"NP({float(placement.norm_type):g})"
    return str(placement).replace(" ", "")


def layout_text(spec):
    """A layout such as S(0)RP(sum). The order of shards is shown only where it is not the default one."""
    order = spec.shard_order
    if order is None or spec.is_default_device_order(order):
        return "".join(map(placement_text, spec.placements))
    positions = {mesh_dim: position for entry in order if len(entry.mesh_dims) > 1
                 for position, mesh_dim in enumerate(entry.mesh_dims)}
    return "".join(placement_text(placement) + (f"[{positions[i]}]" if i in positions else "")
                   for i, placement in enumerate(spec.placements))


def row_text(row, outputs):
    """A row as `outputs|inputs`, separated by commas; the first entries of the row are the outputs."""
    entries = list(map(placement_text, row))
    return ",".join(entries[:outputs]) + "|" + ",".join(entries[outputs:])
