#!/usr/bin/env python3
"""Writes strategies/rules/op_schemas.txt: the schemas of ATen's operators, which calls are checked and written by.

    build/oracle/bin/python scripts/make_op_schemas.py

One line per overload, as PyTorch prints it. Operators that belong to one vendor's library or to sparse, quantized or
nested tensors are left out, and those without tensors.
"""

import pathlib

import torch

OUT = pathlib.Path(__file__).resolve().parents[1] / "strategies" / "rules" / "op_schemas.txt"
LEFT_OUT = ("sparse", "quantize", "mkldnn", "miopen", "cudnn_", "nested", "fbgemm", "_cslt", "mps_", "jagged", "_cudnn_rnn",
            "_fw_primal", "qint", "q_per_", "q_scale", "q_zero", "int_repr", "names", "rename", "align_", "_cufft", "csr",
            "coo", "crow", "ccol")
TENSORS = ("Tensor", "Optional[Tensor]", "List[Tensor]", "List[Optional[Tensor]]")


def kept(schema):
    """Whether a question or a program may call this operator."""
    if not schema.name.startswith("aten::"):
        return False
    if any(part in schema.name for part in LEFT_OUT) and "scaled_dot_product" not in schema.name:
        return False
    types = [str(each.type) for each in (*schema.arguments, *schema.returns)]
    return any(each in TENSORS for each in types) and not any("Dimname" in each or "t" == each for each in types)


lines = sorted({str(each).removeprefix("aten::") for each in torch._C._jit_get_all_schemas() if kept(each)})
OUT.write_text("\n".join(lines) + "\n")
print(f"{len(lines)} operators of PyTorch {torch.__version__}")
