#!/usr/bin/env python3
"""Writes what strategies/rules knows of ATen's operators and of the prims: op_schemas.txt and op_kinds.txt.

    scripts/make_op_schemas.py build/oracle/bin/python .../2.14.1/bin/python .../2.15.0/bin/python

The arguments are interpreters with PyTorch, one for each release of strategies/rules/rule_set.h, oldest first.

op_schemas.txt has the schemas that calls are checked and written by: one line per overload, as the first release prints it,
without "aten." but with "prims.". Operators that belong to one vendor's library or to sparse, quantized or nested tensors
are left out, and those without tensors.

op_kinds.txt has every operator of ATen with one letter for each release: what that release does with a call on DTensors.

    c   it runs other operators in its place (CompositeImplicitAutograd)
    h   DTensor has a handler of its own for it
    s   DTensor has a sharding strategy for it
    u   DTensor has none, and the shape of the result depends on the data
    d   DTensor has none, but tries the operator's decomposition
    n   DTensor has none and no decomposition
    -   the release has no such operator
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOM = Path(__file__).resolve().parents[1] / "strategies" / "rules"
LEFT_OUT = ("sparse", "quantize", "mkldnn", "miopen", "cudnn_", "nested", "fbgemm", "_cslt", "mps_", "jagged", "_cudnn_rnn",
            "_fw_primal", "qint", "q_per_", "q_scale", "q_zero", "int_repr", "names", "rename", "align_", "_cufft", "csr",
            "coo", "crow", "ccol")
TENSORS = ("Tensor", "Optional[Tensor]", "List[Tensor]", "List[Optional[Tensor]]")
WORKER = """
import json, torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._decompositions import DecompShardingStrategy

dispatcher = DTensor._op_dispatcher
propagator = dispatcher.sharding_propagator
strategies = [getattr(propagator, name, {}) for name in
              ("op_strategy_funcs", "op_single_dim_strategy_funcs", "op_to_rules")]

def kind_of(name, op):
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
        return "c"
    if op in dispatcher._custom_op_handlers:
        return "h"
    if any(op in known for known in strategies):
        return "s"
    if torch.Tag.dynamic_output_shape in op.tags:
        return "u"
    return "d" if DecompShardingStrategy.has_decomp(op) else "n"

kinds = {}
for name in torch._C._dispatch_get_all_op_names():
    if name.startswith("aten::"):
        base, _, overload = name.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, base)
        kinds[name.removeprefix("aten::")] = kind_of(name, getattr(packet, overload or "default"))
schemas = [[each.name, str(each), [str(part.type) for part in (*each.arguments, *each.returns)]]
           for each in torch._C._jit_get_all_schemas()]
print(json.dumps({"torch": torch.__version__, "kinds": kinds, "schemas": schemas}))
"""


def known_to(python):
    """The release of an interpreter's PyTorch, its operators' kinds by name, and its schemas."""
    return json.loads(subprocess.run([python, "-c", WORKER], capture_output=True, text=True, check=True).stdout)


def kept(name, types):
    """Whether a question or a program may call this operator."""
    if not name.startswith(("aten::", "prims::")):
        return False
    if any(part in name for part in LEFT_OUT) and "scaled_dot_product" not in name:
        return False
    return any(each in TENSORS for each in types) and not any("Dimname" in each or "t" == each for each in types)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        raise SystemExit(0 if sys.argv[1:] == ["--help"] else 2)
    releases = [known_to(python) for python in sys.argv[1:]]
    lines = sorted({re.sub("^prims::", "prims.", text.removeprefix("aten::"))
                    for name, text, types in releases[0]["schemas"] if kept(name, types)})
    (ROOM / "op_schemas.txt").write_text("\n".join(lines) + "\n")
    names = {name for release in releases for name in release["kinds"]}
    kinds = sorted(f"{name} " + "".join(release["kinds"].get(name, "-") for release in releases) for name in names)
    (ROOM / "op_kinds.txt").write_text("\n".join(kinds) + "\n")
    print(f"{len(lines)} schemas of PyTorch {releases[0]['torch']}; {len(kinds)} operators of "
          + ", ".join(release["torch"] for release in releases))


if __name__ == "__main__":
    main()
