#!/usr/bin/env python3
"""The ops that the refusal of a composite op names are those that PyTorch dispatches in its place.

Skipped where PyTorch is not installed. Three ops are left out, since CUDA runs fused kernels for them that a CPU has not:
dropout, rms_norm and scaled_dot_product_attention.
"""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

import oracle

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SHARDLAB_BINARY", str(ROOT / "build" / "release" / "bin" / "shardlab"))
TABLE = ROOT / "strategies" / "rules" / "composite_ops.cpp"
ONLY_ON_CUDA = {"dropout", "rms_norm", "scaled_dot_product_attention"}

DISPATCH = """
import json, torch
from torch.utils._python_dispatch import TorchDispatchMode

x, y, vector = torch.randn(4, 8), torch.randn(8, 6), torch.randn(8)
cube, other_cube = torch.randn(2, 4, 8), torch.randn(2, 8, 6)
image, classes = torch.randn(2, 4, 8, 8), torch.zeros(4, dtype=torch.long)
volume, line = torch.randn(1, 2, 4, 4, 4), torch.randn(2, 4, 8)
weights, biases = torch.randn(6, 8), torch.randn(6)
kernel1, kernel2, kernel3 = torch.randn(4, 4, 3), torch.randn(4, 4, 3, 3), torch.randn(2, 2, 3, 3, 3)
double = x.double()
CALLS = {
    "absolute": [(x,)],
    "arccos": [(x,)],
    "batch_norm": [(image, None, None, None, None, True, 0.1, 1e-5, False)],
    "broadcast_to": [(vector, [4, 8])],
    "chunk": [(x, 2)],
    "concat": [([x, x],)],
    "concatenate": [([x, x],)],
    "conv1d": [(line, kernel1)],
    "conv2d": [(image, kernel2)],
    "conv3d": [(volume, kernel3)],
    "conv_transpose1d": [(line, kernel1)],
    "conv_transpose2d": [(image, kernel2)],
    "conv_transpose3d": [(volume, kernel3)],
    "cross_entropy_loss": [(x, classes)],
    "diff": [(x,)],
    "divide": [(x, x)],
    "dstack": [([x, x],)],
    "expand_as": [(vector, x)],
    "flatten": [(cube, 0, 1)],
    "group_norm": [(image, 2)],
    "hsplit": [(x, 2)],
    "hstack": [([x, x],)],
    "instance_norm": [(image, None, None, None, None, True, 0.1, 1e-5, False)],
    "layer_norm": [(x, [8])],
    "linalg_norm": [(x,)],
    "linear": [(x, weights), (x, weights, biases)],
    "log_sigmoid": [(x,)],
    "mT": [(x,)],
    "matmul": [(x, y), (cube, other_cube), (x, vector), (vector, vector), (cube, y)],
    "max_pool2d": [(image, [2, 2])],
    "moveaxis": [(cube, 0, 2)],
    "movedim": [(cube, 0, 2)],
    "multiply": [(x, x)],
    "narrow": [(x, 0, 1, 2)],
    "negative": [(x,)],
    "nll_loss": [(x, classes)],
    "numpy_T": [(x,)],
    "outer": [(vector, vector)],
    "pad": [(x, [1, 1])],
    "ravel": [(x,)],
    "repeat_interleave": [(x, 2, 0)],
    "reshape_as": [(x, x)],
    "subtract": [(x, x)],
    "swapaxes": [(x, 0, 1)],
    "swapdims": [(x, 0, 1)],
    "tensor_split": [(x, 2)],
    "tile": [(x, [2, 2])],
    "type_as": [(double, x)],
    "unflatten": [(x, 1, [2, 4])],
    "view_as": [(x, x)],
    "vstack": [([x, x],)],
}
ran = set()

class Log(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if not str(op).startswith("aten.empty."):  # scratch space of the CPU's batch norm
            ran.add(str(op))
        return op(*args, **(kwargs or {}))

seen = {}
for name, calls in CALLS.items():
    ran.clear()
    with torch.no_grad(), Log():
        for arguments in calls:
            getattr(torch.ops.aten, name)(*arguments)
    seen[name] = sorted(ran)
print(json.dumps(seen))
"""


class CompositeOps(unittest.TestCase):
    @unittest.skipUnless(oracle.has_torch(), "no PyTorch: run scripts/setup --with-oracle")
    def test_a_refusal_names_what_pytorch_dispatches(self):
        done = subprocess.run([oracle.ORACLE, "-c", DISPATCH], capture_output=True, text=True, check=True)
        seen = json.loads(done.stdout)
        listed = set(re.findall(r'^    \{"(\w+)",', TABLE.read_text(encoding="utf-8"), re.MULTILINE))
        self.assertEqual(set(seen) | ONLY_ON_CUDA, listed)
        for name, ops in seen.items():
            with self.subTest(op=name):
                command = [BINARY, "select", "--op", name, "--mesh", "2", "--inputs", "f32[8,8] R"]
                refused = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(refused.returncode, 2)
                self.assertEqual(sorted(refused.stderr.strip().split("; valid: ")[1].split(", ")), ops)


if __name__ == "__main__":
    unittest.main()
