#!/usr/bin/env python3
"""Writes strategies/rules/op_schemas.txt: the schemas of ATen's operators, which `shardlab apply` writes calls by.

    build/oracle/bin/python scripts/make_op_schemas.py

One line per overload, as PyTorch prints it. Operators that change their arguments, that write into a given tensor, or
that belong to one vendor's library or to sparse, quantized or nested tensors are left out: programs have none of them.
"""

import pathlib

import torch

OUT = pathlib.Path(__file__).resolve().parents[1] / "strategies" / "rules" / "op_schemas.txt"
LEFT_OUT = ("sparse", "quantize", "mkldnn", "miopen", "cudnn", "nested", "fbgemm", "_cslt", "mps_", "_foreach", "jagged",
            "_fw_primal", "qint", "q_", "int_repr", "names", "rename", "align_", "_cufft", "csr", "coo", "crow", "ccol")


def kept(schema):
    """Whether a program may call this operator."""
    if not schema.name.startswith("aten::") or any(part in schema.name for part in LEFT_OUT):
        return False
    writes = any(each.is_out or (each.alias_info and each.alias_info.is_write) for each in schema.arguments)
    named = any("Dimname" in str(each.type) or "t" == str(each.type) for each in schema.arguments)
    return not writes and not named and any("Tensor" in str(each.type) for each in schema.returns)


lines = sorted({str(each).removeprefix("aten::") for each in torch._C._jit_get_all_schemas() if kept(each)})
OUT.write_text("\n".join(lines) + "\n")
print(f"{len(lines)} operators of PyTorch {torch.__version__}")
