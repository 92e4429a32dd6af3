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
double, rows, square = x.double(), torch.randn(4, 3), torch.randn(4, 4)
CALLS = {
    "absolute": [(x,)],
    "arccos": [(x,)],
    "arccosh": [(x,)],
    "arcsin": [(x,)],
    "arcsinh": [(x,)],
    "arctan": [(x,)],
    "arctan2": [(x, x)],
    "arctanh": [(x,)],
    "argsort": [(x,)],
    "avg_pool1d": [(line, [2])],
    "batch_norm": [(image, None, None, None, None, True, 0.1, 1e-5, False)],
    "broadcast_to": [(vector, [4, 8])],
    "chunk": [(x, 2)],
    "column_stack": [([x, x],)],
    "concat": [([x, x],)],
    "concatenate": [([x, x],)],
    "conv1d": [(line, kernel1)],
    "conv2d": [(image, kernel2)],
    "conv3d": [(volume, kernel3)],
    "conv_transpose1d": [(line, kernel1)],
    "conv_transpose2d": [(image, kernel2)],
    "conv_transpose3d": [(volume, kernel3)],
    "cosine_similarity": [(x, x)],
    "cross": [(rows, rows)],
    "cross_entropy_loss": [(x, classes)],
    "det": [(square,)],
    "diff": [(x,)],
    "divide": [(x, x)],
    "dsplit": [(cube, 2)],
    "dstack": [([x, x],)],
    "embedding_backward": [(x, classes, 6, -1, False, False)],
    "expand_as": [(vector, x)],
    "fix": [(x,)],
    "flatten": [(cube, 0, 1)],
    "fliplr": [(x,)],
    "flipud": [(x,)],
    "gather_backward": [(x[:, :4], x, 0, classes.expand(4, 4), False)],
    "ger": [(vector, vector)],
    "greater": [(x, x)],
    "greater_equal": [(x, x)],
    "group_norm": [(image, 2)],
    "hsplit": [(x, 2)],
    "hstack": [([x, x],)],
    "inner": [(x, x)],
    "instance_norm": [(image, None, None, None, None, True, 0.1, 1e-5, False)],
    "kl_div": [(x, x)],
    "kron": [(x, x)],
    "layer_norm": [(x, [8])],
    "less": [(x, x)],
    "less_equal": [(x, x)],
    "linalg_norm": [(x,)],
    "linalg_vecdot": [(x, x)],
    "linear": [(x, weights), (x, weights, biases)],
    "log_sigmoid": [(x,)],
    "mT": [(x,)],
    "matmul": [(x, y), (cube, other_cube), (x, vector), (vector, vector), (cube, y)],
    "matrix_exp": [(square,)],
    "max_pool1d": [(line, [2])],
    "max_pool2d": [(image, [2, 2])],
    "meshgrid": [([vector, vector],)],
    "moveaxis": [(cube, 0, 2)],
    "movedim": [(cube, 0, 2)],
    "msort": [(x,)],
    "multiply": [(x, x)],
    "narrow": [(x, 0, 1, 2)],
    "negative": [(x,)],
    "nll_loss": [(x, classes)],
    "nll_loss2d": [(image, torch.zeros(2, 8, 8, dtype=torch.long))],
    "nll_loss_nd": [(x, classes)],
    "not_equal": [(x, x)],
    "numpy_T": [(x,)],
    "outer": [(vector, vector)],
    "pad": [(x, [1, 1])],
    "prelu": [(x, torch.randn(1))],
    "ravel": [(x,)],
    "repeat_interleave": [(x, 2, 0)],
    "reshape_as": [(x, x)],
    "row_stack": [([x, x],)],
    "special_expit": [(x,)],
    "special_log_softmax": [(x, 1)],
    "special_logsumexp": [(x, [1])],
    "special_softmax": [(x, 1)],
    "subtract": [(x, x)],
    "sum_to_size": [(x, [1, 8])],
    "swapaxes": [(x, 0, 1)],
    "swapdims": [(x, 0, 1)],
    "take_along_dim": [(x, classes.reshape(4, 1), 1)],
    "tensor_split": [(x, 2)],
    "tensordot": [(x, y, [1], [0])],
    "tile": [(x, [2, 2])],
    "trace_backward": [(torch.tensor(1.), [4, 4])],
    "type_as": [(double, x)],
    "unflatten": [(x, 1, [2, 4])],
    "value_selecting_reduction_backward": [(torch.randn(4), 1, classes, [4, 8], False)],
    "view_as": [(x, x)],
    "vsplit": [(x, 2)],
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
