#!/usr/bin/env python3
"""What tests/unit/strategies/rules/families/refused_calls_test.cpp expects to be refused, PyTorch refuses.

Skipped where PyTorch is not installed. Attention is left out, since a CPU has not the fused kernel.
"""

import json
import re
import subprocess
import unittest

import oracle

TABLE = oracle.ROOT / "tests" / "unit" / "strategies" / "rules" / "families" / "refused_calls_test.cpp"
ONLY_ON_CUDA = "_scaled_dot_product_flash_attention"

RUN = r"""
import json, re, sys, torch

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i64": torch.int64, "u8": torch.uint8,
          "c64": torch.complex64}


def tensor(text, device):
    name, extents = re.fullmatch(r"(\w+)\[([\d,]*)\] R", text).groups()
    return torch.zeros([int(extent) for extent in extents.split(",")], dtype=DTYPES[name], device=device)


def is_tensor(argument):
    return "Tensor" in str(argument.type)


accepted = []
for op, inputs, args in json.load(sys.stdin):
    namespace, name, overload = op.split(".")
    function = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    # The kernels of prims that run on a CPU take more than the prims do.
    device = "meta" if namespace == "prims" else "cpu"
    tensors, others = [tensor(text, device) for text in inputs], list(args)
    if name == "einsum":
        call = lambda: function(*others, tensors)
    else:
        positional, keywords = [], {}
        for argument in function._schema.arguments:
            queue = tensors if is_tensor(argument) else others
            if not queue:
                if not argument.has_default_value() and argument.name == "output_mask":
                    keywords[argument.name] = [True, True, True]
                continue
            if argument.kwarg_only:
                keywords[argument.name] = queue.pop(0)
            else:
                positional.append(queue.pop(0))
        call = lambda: function(*positional, **keywords)
    try:
        call()
        accepted.append([op, inputs])
    except (AssertionError, RuntimeError, TypeError) as error:
        pass
json.dump(accepted, sys.stdout)
"""


def calls():
    """The op, the inputs and the arguments of each row of the table."""
    text = TABLE.read_text()
    rows = re.findall(r'Refused\{"([\w.]+)",\s*\{([^{}]*)\},\s*"((?:[^"\\]|\\.)*)",', text)
    return [(op, re.findall(r'"([^"]*)"', inputs), json.loads(args.replace('\\"', '"'))) for op, inputs, args in rows]


@unittest.skipUnless(oracle.has_torch(), "PyTorch is not installed")
class RefusedCalls(unittest.TestCase):
    def ask(self, asked):
        """Those of the calls that PyTorch accepts."""
        done = subprocess.run([oracle.ORACLE, "-W", "ignore", "-c", RUN], input=json.dumps(asked), capture_output=True,
                              text=True, check=True)
        return json.loads(done.stdout)

    def test_pytorch_refuses_them(self):
        asked = [call for call in calls() if ONLY_ON_CUDA not in call[0]]
        self.assertEqual(len(asked), TABLE.read_text().count("        Refused{") - 1)
        self.assertEqual(self.ask(asked), [])

    def test_pytorch_accepts_the_same_calls_with_tensors_that_fit(self):
        one_dtype = [(op, [re.sub(r"^\w+", "f32", text) for text in inputs], args) for op, inputs, args in calls()
                     if op in ("aten.mm.default", "aten.addmm.default", "aten.einsum.default", "aten.lerp.Scalar",
                               "aten.convolution.default", "aten.convolution_backward.default", "aten.div.out")]
        self.assertEqual(len(one_dtype), 7)
        self.assertEqual(len(self.ask(one_dtype)), 7)


if __name__ == "__main__":
    unittest.main()
