"""A cost function without PyTorch: placements and a mesh topology with PyTorch's names and methods.

A stack of shardlab's own takes a cost function too, and such a function needs no torch. If the user's code imports
torch by itself, also during a call, the function gets PyTorch's own objects: a worker becomes one of that PyTorch, and
in the user's own process placements and topologies are made of PyTorch's classes.
"""

import math
import sys
import time

from . import costs, overlay, texts
from .errors import RequestError, UserFiles
from .session import DEVICE_TYPE, expect_known_release

# The constants of PyTorch's MeshTopoInfo.build_from_mesh (2.13.0 to 2.15.0, _collective_utils.py).
BANDWIDTH_GB_PER_S, BETWEEN_HOSTS = 87.7, 0.22
HOP_US, HOP_BETWEEN_HOSTS_US = 0.6, 2.7
MOST_KEPT = 10_000
PLACEMENT_TYPES = "torch.distributed.tensor.placement_types"


class Placement:
    """What all placements answer, as in torch.distributed.tensor.placement_types. Their texts are PyTorch's, too
    (2.13.0 to 2.15.0)."""

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

    def __str__(self):
        return "R"


class Shard(Placement):
    def __init__(self, dim):
        self.dim = dim

    def is_shard(self, dim=None):
        return dim is None or dim == self.dim

    def __str__(self):
        return f"S({self.dim})"


class _StridedShard(Placement):
    """A strided shard does not call itself a shard, as in PyTorch."""

    def __init__(self, dim, *, split_factor):
        self.dim, self.split_factor = dim, split_factor

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"


class Partial(Placement):
    def __init__(self, reduce_op="sum"):
        self.reduce_op = reduce_op

    def is_partial(self, reduce_op=None):
        return reduce_op is None or reduce_op == self.reduce_op

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"


class _MaskPartial(Partial):
    def __init__(self, offset_shape=None, offset_dim=0):
        super().__init__("sum")
        self.offset_shape, self.offset_dim = offset_shape, offset_dim

    def __repr__(self):
        return (f"_MaskPartial(reduce_op={self.reduce_op}, offset_shape={self.offset_shape}, "
                f"offset_dim={self.offset_dim})")

    def __str__(self):
        return f"MaskP({self.reduce_op}, {self.offset_shape}, {self.offset_dim})"


class _NormPartial(Partial):
    def __init__(self, norm_type):
        super().__init__("sum")
        self.norm_type = norm_type

    def __repr__(self):
        return f"_NormPartial({self.norm_type})"

    def __str__(self):
        return f"_NormP({self.norm_type})"


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


def on_a_mesh_of_pytorchs(topology, names):
    """PyTorch's MeshTopoInfo with the numbers of a topology. Its mesh has no process groups, so that those of the
    user's process stay as they are."""
    import torch
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import _collective_utils

    sizes = topology.mesh_dim_devices
    ranks = torch.arange(math.prod(sizes), device="cpu").reshape(sizes)
    mesh = DeviceMesh(DEVICE_TYPE, ranks, mesh_dim_names=names, _init_backend=False, _rank=0)
    found = _collective_utils.MeshTopoInfo(mesh, sizes, topology.mesh_dim_bandwidth, topology.mesh_dim_latency)
    found.shardlab_devices_per_host = topology.shardlab_devices_per_host
    return found


def settled(answer, takes_pytorchs):
    """What `answer` gives. It is asked again where the user's code loaded PyTorch meanwhile, since that code may have
    compared a stand-in with PyTorch's classes. `takes_pytorchs` says whether stand-ins have just been given up."""
    takes_pytorchs()
    try:
        result = answer()
    except BaseException:
        if not takes_pytorchs():
            raise
    else:
        if not takes_pytorchs():
            return result
    return answer()


class PlainSession:
    """What `prices` needs of a session. It answers nothing else."""

    def __init__(self):
        self.user_files = UserFiles()
        self.started, self.ready = True, False
        self.topologies = {}
        self.types = None  # PyTorch's placement_types, as soon as the process has loaded them

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

    def takes_pytorchs(self):
        """Whether the process has loaded PyTorch's placements since this was asked last. From then on the function
        gets those."""
        if self.types is not None or self.cost.parameters != 5 or PLACEMENT_TYPES not in sys.modules:
            return False
        import torch
        from torch.distributed.tensor import placement_types

        expect_known_release(torch.__version__)
        self.types = placement_types
        self.topologies.clear()
        return True

    def misses_torch(self):
        """Whether the function of a worker needs PyTorch's objects, since its file has imported torch by itself."""
        return self.cost.parameters == 5 and "torch" in sys.modules

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
        return placement_of(found) if self.types is None else texts.placement_of(self.types, found)

    def topology(self, shape, names, devices_per_host):
        """The topology of a mesh. As here, no release of PyTorch prices a mesh dim by its name."""
        key = (shape, names, devices_per_host)
        if key not in self.topologies:
            if len(self.topologies) >= MOST_KEPT:
                self.topologies.clear()
            plain = MeshTopoInfo(shape, devices_per_host)
            self.topologies[key] = plain if self.types is None else on_a_mesh_of_pytorchs(plain, names)
        return self.topologies[key]

    def refuse(self, do):
        raise RequestError(f"A worker without PyTorch answers prices alone, not {do}.")
