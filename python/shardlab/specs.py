"""Texts of torch.distributed.tensor's specs, read by their attributes: torch is never imported.

    layout_text([Shard(0), Replicate()])   "S(0)R"
    mesh_text(device_mesh)                 "dp=8,tp=8", or "8x8" without names
    tensor_text(spec.tensor_meta)          "bf16[8192,4096]"
"""

from __future__ import annotations

from typing import Any

from ._shardlab import InputError

Layout = Any  # a layout's text, a sequence of placements, or a DTensorSpec

# torch's names of dtypes, and shardlab's where they differ
_DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "uint64": "u64", "bool": "b8", "complex64": "c64",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}


def _placement(placement: Any) -> str:
    kind = type(placement).__name__
    if kind == "Replicate":
        return "R"
    if kind == "Shard":
        return f"S({placement.dim})"
    if kind == "_StridedShard":
        return f"_S({placement.dim},{placement.split_factor})"
    if kind == "Partial":
        return f"P({placement.reduce_op})"
    if kind == "_MaskPartial":
        shape = placement.offset_shape
        if not shape:
            return "MP"
        dim = placement.offset_dim % len(shape)
        return f"MP({dim},{shape[dim]})"
    if kind == "_NormPartial":
        return f"NP({placement.norm_type})"
    raise InputError(f"placement: found {placement!r}; valid: Replicate, Shard, Partial and their kinds")


def layout_text(layout: Layout) -> str:
    """The text of a layout, which may be a text, placements or a spec."""
    if isinstance(layout, str):
        return layout
    placements = getattr(layout, "placements", layout)
    try:
        texts = [_placement(placement) for placement in placements]
        for entry in getattr(layout, "shard_order", None) or ():
            mesh_dims = tuple(entry.mesh_dims)
            # A strided shard that has a place in the shard order is a placement of its own, as views make them.
            strided = any(texts[mesh_dim].startswith("_S") for mesh_dim in mesh_dims)
            if mesh_dims != tuple(sorted(mesh_dims)) or strided:
                for position, mesh_dim in enumerate(mesh_dims):
                    texts[mesh_dim] += f"[{position}]"
        return "".join(texts)
    except TypeError:
        raise InputError(f"layout: found {layout!r}; valid: a text such as S(0)R, placements, a DTensorSpec") from None


def mesh_text(mesh: Any) -> str:
    """A DeviceMesh's text. Its ranks must be 0, 1, 2, ... in row-major order, as shardlab's are."""
    if isinstance(mesh, str):
        return mesh
    if not hasattr(mesh, "mesh"):
        raise InputError(f"mesh: found {mesh!r}; valid: a text such as 8x8 or dp=8,tp=8, or a DeviceMesh")
    ranks = mesh.mesh.flatten().tolist()
    if ranks != list(range(len(ranks))):
        raise InputError(f"mesh: found ranks {ranks[:8]}; valid: a whole mesh, ranks 0, 1, ... in row-major order")
    shape = tuple(mesh.mesh.shape)
    dims = getattr(mesh, "mesh_dim_names", None)
    if dims:
        return ",".join(f"{name}={size}" for name, size in zip(dims, shape))
    return "x".join(str(size) for size in shape)


def sizes_of(mesh: str) -> dict[str, int]:
    """The sizes of a mesh text's dims by name; the names are "0", "1", ... where the mesh has none."""
    words = mesh.split("," if "=" in mesh else "x")
    return {word.partition("=")[0] if "=" in word else str(m): int(word.rpartition("=")[2])
            for m, word in enumerate(words)}


def _shape(mesh: str) -> list[int] | str:
    """The sizes of a mesh text's dims, or the text itself if it is none of a mesh."""
    try:
        return list(sizes_of(mesh).values())
    except ValueError:
        return mesh


def tensor_text(tensor: Any) -> str:
    """The text of anything with a shape and a dtype."""
    if isinstance(tensor, str):
        return tensor
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
        raise InputError(f"tensor: found {tensor!r}; valid: a text such as bf16[8192,4096], or an object that has a shape and a dtype")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise InputError(f"dtype: found {name}; valid: {', '.join(_DTYPES)}")
    return f"{_DTYPES[name]}[{','.join(str(extent) for extent in tensor.shape)}]"


def are_on_two_meshes(src: Layout, dst: Layout) -> bool:
    """Whether both are specs, and of meshes that PyTorch tells apart: by ranks, names or the kind of device."""
    first, second = (getattr(spec, "mesh", None) for spec in (src, dst))
    return first is not None and second is not None and first is not second and bool(first != second)


def spec_texts(src: Layout, dst: Layout, mesh: Any, tensor: Any) -> tuple[str, str, str, str]:
    """Mesh, tensor, source and destination as texts; the first two from a spec where they are not given.

    Raises InputError where the specs differ in them, or from what is given.
    """
    if are_on_two_meshes(src, dst):
        raise InputError(f"dst: found a spec on {dst.mesh}; valid: one on the mesh of src, {src.mesh}")
    for name, spec in (("src", src), ("dst", dst)):
        own_mesh, own_tensor = getattr(spec, "mesh", None), getattr(spec, "tensor_meta", None)
        if own_mesh is not None and mesh is not None and _shape(mesh_text(mesh)) != _shape(mesh_text(own_mesh)):
            raise InputError(f"{name}: found a spec on the mesh {mesh_text(own_mesh)}; valid: one on {mesh_text(mesh)}")
        if own_tensor is not None and tensor is not None and tensor_text(tensor) != tensor_text(own_tensor):
            raise InputError(f"{name}: found a spec of {tensor_text(own_tensor)}; valid: one of {tensor_text(tensor)}")
        mesh = own_mesh if mesh is None else mesh
        tensor = own_tensor if tensor is None else tensor
    if mesh is None or tensor is None:
        missing = "mesh" if mesh is None else "tensor"
        raise InputError(f"{missing}: found None, and neither layout is a DTensorSpec that has it; valid: a {missing}")
    return mesh_text(mesh), tensor_text(tensor), layout_text(src), layout_text(dst)
