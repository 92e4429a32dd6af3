"""A cost function without PyTorch: placements and a mesh topology with PyTorch's names and methods.

A stack of shardlab's own takes a cost function too, and such a function needs no torch. If the user's file imports
torch by itself, the worker becomes one of that PyTorch, and the function gets PyTorch's own objects.
"""

import sys
import time

from . import costs, overlay
from .errors import RequestError, UserFiles

# The constants of PyTorch's MeshTopoInfo.build_from_mesh (2.13.0 to 2.15.0, _collective_utils.py).
BANDWIDTH_GB_PER_S, BETWEEN_HOSTS = 87.7, 0.22
HOP_US, HOP_BETWEEN_HOSTS_US = 0.6, 2.7
MOST_KEPT = 10_000


class Placement:
    """What all placements answer, as in torch.distributed.tensor.placement_types."""

    def _fields(self):
        return tuple(vars(self).values())

    def is_shard(self, dim=None):
        return False

    def is_replicate(self):
        return False

    def is_partial(self, reduce_op=None):
        return False

    def __eq__(self, other):
        return type(self) is type(other) and self._fields() == other._fields()

    def __hash__(self):
        return hash((type(self).__name__, self._fields()))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Replicate(Placement):
    def is_replicate(self):
        return True


class Shard(Placement):
    def __init__(self, dim):
        self.dim = dim

    def is_shard(self, dim=None):
        return dim is None or dim == self.dim


class _StridedShard(Placement):
    """A strided shard does not call itself a shard, as in PyTorch."""

    def __init__(self, dim, *, split_factor):
        self.dim, self.split_factor = dim, split_factor


class Partial(Placement):
    def __init__(self, reduce_op="sum"):
        self.reduce_op = reduce_op

    def is_partial(self, reduce_op=None):
        return reduce_op is None or reduce_op == self.reduce_op


class _MaskPartial(Partial):
    def __init__(self, offset_shape=None, offset_dim=0):
        super().__init__("sum")
        self.offset_shape, self.offset_dim = offset_shape, offset_dim


class _NormPartial(Partial):
    def __init__(self, norm_type):
        super().__init__("sum")
        self.norm_type = norm_type


class MeshTopoInfo:
    """PyTorch's MeshTopoInfo of a mesh: sizes, bandwidths in GB/s and hop latencies in us, by mesh dim."""

    def __init__(self, shape, devices_per_host):
        self.mesh_dim_devices = list(shape)
        self.mesh_dim_bandwidth, self.mesh_dim_latency = [], []
        walk = 1
        for size in reversed(shape):
            walk *= size
            leaves = walk > devices_per_host
            self.mesh_dim_bandwidth.insert(0, BANDWIDTH_GB_PER_S * BETWEEN_HOSTS if leaves else BANDWIDTH_GB_PER_S)
            self.mesh_dim_latency.insert(0, HOP_BETWEEN_HOSTS_US if leaves else HOP_US)
        self.shardlab_devices_per_host = devices_per_host


def placement_of(found):
    """A placement from a match of texts.PLACEMENT."""
    if found["R"]:
        return Replicate()
    if found["dim"]:
        return Shard(int(found["dim"]))
    if found["strided"]:
        return _StridedShard(int(found["strided"]), split_factor=int(found["factor"]))
    if found["mask_dim"]:
        dim = int(found["mask_dim"])
        return _MaskPartial((1,) * dim + (int(found["mask_extent"]),), dim)
    if found["mask"]:
        return _MaskPartial()
    if found["norm"]:
        return _NormPartial(float(found["norm"]))
    return Partial(found["op"] or "sum")


def is_impossible(current, target):
    """Whether PyTorch's own function gives an infinite price: a partial cannot be made of a shard or of another
    partial."""
    return target.is_partial() and current != target and (current.is_partial() or current.is_shard())


class PlainSession:
    """What `prices` needs of a session. It answers nothing else."""

    def __init__(self):
        self.user_files = UserFiles()
        self.started, self.ready = True, False
        self.topologies = {}

    @classmethod
    def holding(cls, function, name):
        """A session with a function that the caller has already."""
        session = cls()
        code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        if code is not None:  # a function that is written in Python
            session.user_files.add_file(code.co_filename)
        session.hold(costs.Cost(function, name))
        return session

    def hold(self, cost):
        self.cost = cost
        self.transition = cost.bind_alone(is_impossible) if cost.parameters == 5 else None
        self.ready = True

    def start(self, request):
        """Loads the cost function, and says whether the file has imported torch by itself."""
        begin = time.perf_counter()
        self.hold(costs.function_of(request.get("cost"), self.user_files))
        self.needs_torch = "torch" in sys.modules
        return {"python": sys.version.split()[0], "torch": None, "executable": sys.executable, "fingerprints": {},
                "cost_parameters": self.cost.parameters, "ops": {}, "seconds": round(time.perf_counter() - begin, 3)}

    def tidy(self):
        """Nothing grows with the number of answers."""

    def placement(self, found):
        return placement_of(found)

    def topology(self, shape, names, devices_per_host):
        """The topology of a mesh. As here, no release of PyTorch prices a mesh dim by its name."""
        key = (shape, devices_per_host)
        if key not in self.topologies:
            if len(self.topologies) >= MOST_KEPT:
                self.topologies.clear()
            self.topologies[key] = MeshTopoInfo(shape, devices_per_host)
        return self.topologies[key]

    def refuse(self, do):
        raise RequestError(f"A worker without PyTorch answers prices alone, not {do}.")
