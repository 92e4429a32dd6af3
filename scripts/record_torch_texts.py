#!/usr/bin/env python3
"""Records how PyTorch writes placements, tensors, meshes, dtypes and ops.

    build/oracle/bin/python scripts/record_torch_texts.py --out tests/differential/golden/2.13/texts.json

Each row has the expression in Python, what repr() and str() print for it, and shardlab's own text of
the same value, which tests/differential/torch_texts_test.cpp expects the reader to make of both. A
row without shardlab's text is one that shardlab refuses.
"""
import argparse
import json

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

PLACEMENTS = {
    "Shard(0)": "S(0)",
    "Shard(dim=3)": "S(3)",
    "Replicate()": "R",
    "Partial()": "P(sum)",
    "Partial('sum')": "P(sum)",
    "Partial('avg')": "P(avg)",
    "Partial('max')": "P(max)",
    "Partial('min')": "P(min)",
    "Partial('product')": "P(product)",
    "_StridedShard(0, split_factor=2)": "_S(0,2)",
    "_NormPartial()": "NP(2)",
    "_NormPartial(3)": "NP(3)",
    "_NormPartial(1.5)": "NP(1.5)",
    "_NormPartial(float('inf'))": None,
    "_NormPartial(0)": None,
    "_MaskPartial()": "MP",
    "_MaskPartial(offset_shape=torch.Size([8]), offset_dim=0)": "MP(0,8)",
    "_MaskPartial(offset_shape=torch.Size([1, 6]), offset_dim=1)": "MP(1,6)",
    "_MaskPartial(offset_shape=torch.Size([8, 4]), offset_dim=0)": "MP(0,8)",
}
# These layouts have two mesh dims. Those with a dim of -1 are read for a tensor of three dims.
LAYOUTS = {
    "[Shard(0), Replicate()]": "S(0)R",
    "(Shard(0), Partial())": "S(0)P(sum)",
    "[Shard(-1), Shard(-3)]": "S(2)S(0)",
    "(_StridedShard(-2, split_factor=4), Shard(1))": "_S(1,4)S(1)",
    "(_NormPartial(), _NormPartial())": "NP(2)NP(2)",
    "(_MaskPartial(), Replicate())": "MPR",
}
SPECS = {
    "spec((8, 8), torch.float32, [Shard(0), Replicate()])": "f32[8,8] S(0)R",
    "spec((8, 6), torch.bfloat16, [Shard(1), Partial()])": "bf16[8,6] S(1)P(sum)",
    "spec((8,), torch.int64, [Replicate(), Partial('max')])": "i64[8] RP(max)",
    "spec((), torch.float16, [Replicate(), Replicate()])": "f16[] RR",
    "spec((0, 4), torch.bool, [Shard(1), Replicate()])": "b8[0,4] S(1)R",
    "spec((8, 8), torch.float32, [Shard(0), Shard(0)])": "f32[8,8] S(0)S(0)",
    "spec((8, 8), torch.float32, [Shard(0), Shard(0)], order=(1, 0))": "f32[8,8] S(0)[1]S(0)[0]",
    "spec((8, 8), torch.float32, [_StridedShard(0, split_factor=4), Shard(0)])": "f32[8,8] _S(0,4)S(0)",
    "spec((8, 8), torch.float32, [_MaskPartial(), Shard(0)])": "f32[8,8] MPS(0)",
    "spec((8, 8), torch.float32, [_NormPartial(), Shard(0)])": "f32[8,8] NP(2)S(0)",
}
MESHES = {
    "mesh((2, 4))": "2x4",
    "mesh((8,))": "8",
    "mesh((2, 4), ('dp', 'tp'))": "dp=2,tp=4",
    "mesh((2, 2, 2), ('pp', 'dp', 'tp'))": "pp=2,dp=2,tp=2",
    "mesh((2, 4), ('dp', 'tp')).shape": "2x4",
    "mesh((2, 4), ('dp', 'tp'))['tp']": "tp=4",
    "mesh((2, 4), ('dp', 'tp'))['dp']": None,  # a slice: its ranks are 0 and 4
}
DTYPES = {
    "torch.float64": "f64", "torch.double": "f64", "torch.float32": "f32", "torch.float": "f32",
    "torch.float16": "f16", "torch.half": "f16", "torch.bfloat16": "bf16",
    "torch.float8_e4m3fn": "f8e4m3", "torch.float8_e5m2": "f8e5m2", "torch.int64": "i64",
    "torch.long": "i64", "torch.int32": "i32", "torch.int16": "i16", "torch.int8": "i8",
    "torch.uint8": "u8", "torch.uint64": "u64", "torch.bool": "b8", "torch.complex64": "c64",
    "torch.complex128": None, "torch.uint16": None, "torch.float8_e4m3fnuz": None,
}
OPS = {
    "torch.ops.aten.mm.default": "aten.mm.default",
    "torch.ops.aten.mm": "aten.mm.default",
    "torch.ops.aten.mm.default.name()": "aten.mm.default",
    "torch.ops.aten.sum.dim_IntList": "aten.sum.dim_IntList",
    "torch.ops.aten.sum.dim_IntList.name()": "aten.sum.dim_IntList",
    "torch.ops.aten.add": None,  # Tensor or Scalar
}


def mesh(sizes, names=None):
    return init_device_mesh("cpu", sizes, mesh_dim_names=names)


def spec(shape, dtype, placements, order=None):
    tensor = torch.empty(shape, dtype=dtype)
    more = {} if order is None else {"shard_order": (ShardOrderEntry(tensor_dim=0, mesh_dims=order),)}
    return DTensorSpec(mesh((2, 4)), tuple(placements), TensorMeta(tensor.shape, tensor.stride(), dtype), **more)


def rows(cases):
    names = {"torch": torch, "mesh": mesh, "spec": spec, "Shard": Shard, "Replicate": Replicate, "Partial": Partial,
             "_StridedShard": _StridedShard, "_NormPartial": _NormPartial, "_MaskPartial": _MaskPartial}
    found = []
    for python, ours in cases.items():
        value = eval(python, names)  # pylint: disable=eval-used  # the texts above
        found.append({"python": python, "repr": repr(value), "str": str(value), "shardlab": ours})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="the file to write")
    arguments = parser.parse_args()
    torch.distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    recorded = {"torch": torch.__version__.split("+")[0]}
    for kind, cases in (("placements", PLACEMENTS), ("layouts", LAYOUTS), ("specs", SPECS), ("meshes", MESHES),
                        ("dtypes", DTYPES), ("ops", OPS)):
        recorded[kind] = rows(cases)
    torch.distributed.destroy_process_group()
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(recorded, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
