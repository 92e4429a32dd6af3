"""A solved plan: the document of `shardlab solve`, and what PyTorch does with it.

    plan = shardlab.solve("llama.json", mesh="2x4")
    plan["objective_us"], plan.placements(), plan.write("sharded.py"), plan.apply(model)

torch is imported by the methods that need it.
"""

from __future__ import annotations

import importlib.util
import linecache
import math
import os
import pathlib
import re
import tempfile
from collections.abc import Callable
from typing import Any

from ._shardlab import InputError
from .specs import sizes_of

_PLACEMENT = re.compile(r"(_S|MP|NP|S|P|R)(?:\(([^)]*)\))?(?:\[(\d+)\])?")


class Plan(dict):
    """What solve returns. A dict with the keys of `shardlab solve --format json`.

    It can be pickled, so that one rank may solve and broadcast the plan to the others, unless its stack has a cost function
    of the process.
    """

    def __init__(self, document: dict[str, Any], nodes: Callable[[], list[dict[str, Any]]],
                 write: Callable[[dict[str, Any], str], None]):
        super().__init__(document)
        self._nodes = nodes
        self._write = write

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the mesh dims by name; the names are "0", "1", ... where the mesh has none."""
        return sizes_of(self["mesh"])

    def placements(self) -> dict[str, list[Any]]:
        """The layout of each parameter, as torch's placements: {"layers.0.wq.weight": [Shard(0), Replicate()]}.

        Keys are the names of parameters in the module, or of nodes where the program does not have those names. A
        shard order is written as torch writes it, with _StridedShard.
        """
        self._expect_feasible()
        labels = {node["name"]: node.get("label") or node["name"] for node in self._nodes() if node.get("kind") == "parameter"}
        sizes = list(self.sizes.values())
        return {labels[row["node"]]: torch_placements(row["layout_out"], sizes)
                for row in self["assignment"] if row["node"] in labels}

    def write(self, path: str | os.PathLike) -> None:
        """Writes the Python file of `shardlab apply`, which defines apply(model, mesh) and needs PyTorch alone."""
        self._expect_feasible()
        self._write(self, os.fspath(path))

    def apply(self, model: Any, mesh: Any = None) -> Any:
        """Distributes the module's parameters and buffers in place, and makes its forward and backward run the plan.

        mesh: a DeviceMesh of the plan's shape; None makes one of all ranks, on the module's kind of device. Make the
        optimizer afterwards: the parameters are new objects. Returns the module.
        """
        with tempfile.TemporaryDirectory(prefix="shardlab-") as folder:
            path = pathlib.Path(folder) / "sharded.py"
            self.write(path)
            text = path.read_text()
            spec = importlib.util.spec_from_file_location("sharded", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        linecache.cache[str(path)] = (len(text), None, text.splitlines(True), str(path))  # for tracebacks
        return module.apply(model, self._mesh_for(model) if mesh is None else mesh)

    def _expect_feasible(self) -> None:
        if self.get("infeasible"):
            raise InputError(f"plan: found no plan ({self['infeasible']}); valid: a feasible plan")

    def _mesh_for(self, model: Any) -> Any:
        import torch
        from torch.distributed.device_mesh import init_device_mesh

        kinds = {each.device.type for each in model.parameters()} - {"meta"}
        kind = kinds.pop() if len(kinds) == 1 else "cuda" if torch.cuda.is_available() else "cpu"
        names = tuple(self.sizes) if "=" in self["mesh"] else None
        return init_device_mesh(kind, tuple(self.sizes.values()), mesh_dim_names=names)


def torch_placements(layout: str, sizes: list[int]) -> list[Any]:
    """A layout's text as torch's placements on a mesh of these sizes."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    found = _PLACEMENT.findall(layout)

    def factor(m: int) -> int:
        """How many pieces the mesh dims behind m have cut the tensor dim into before m cuts it."""
        _, dim, place = found[m]
        earlier = (each for each in range(m + 1, len(found)) if found[each][1] == dim and found[each][2] and place)
        return math.prod(sizes[each] for each in earlier if int(found[each][2]) < int(place))

    placements = []
    for m, (kind, argument, _) in enumerate(found):
        if kind == "_S":
            dim, pieces = argument.split(",")
            placements.append(_StridedShard(int(dim), split_factor=int(pieces)))
        elif kind == "S":
            pieces = factor(m)
            placements.append(Shard(int(argument)) if pieces == 1 else _StridedShard(int(argument), split_factor=pieces))
        else:
            placements.append(Replicate() if kind == "R" else Partial(argument or "sum"))
    return placements
