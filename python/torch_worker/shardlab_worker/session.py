"""PyTorch as the worker holds it: imported once, on a fake process group, with what the user brought applied."""

import contextlib
import gc
import logging
import math
import sys
import time

from . import overlay
from .calls import Operators
from .errors import ReleaseError, RequestError, UserFiles
from .texts import placement_of

FIRST_RELEASE = (2, 13)
DEVICE_TYPE = "cuda"  # of all meshes, since prices are asked of GPUs; the fake process group needs none
NAMES = "torch.distributed.tensor"
# Tables of strategies of a ShardingPropagator. propagate_op_sharding_non_cached looks into them in this order (2.13.0
# to 2.15.0), and takes the first entry that it finds.
TABLES = ("op_single_dim_strategy_funcs", "op_strategy_funcs", "op_to_rules")
FAKE_MODE_USES = 5000  # calls after which a new mode forgets what the old one remembers
TIDY_EVERY = 2000  # answers after which all caches are emptied


def expect_known_release(version):
    """The release of a version such as "2.15.0+cpu", unless it is older than the first one that can be asked."""
    release = version.split("+")[0]
    if tuple(int(part) for part in release.split(".")[:2]) < FIRST_RELEASE:
        raise ReleaseError(f"PyTorch {release} is too old: the first release that can be asked is "
                           f"{'.'.join(map(str, FIRST_RELEASE))}.0.")
    return release


class Session:
    """What all requests need. `cost` is the user's cost function or None, `user_files` says which files are theirs."""

    def __init__(self):
        self.user_files = UserFiles()
        self.started = False
        self.world, self.devices_per_host = None, 1
        self.answers = self.mode_uses = 0
        self.mode = None

    def start(self, request):
        """Imports torch and applies what the user brought, in the order overlay, patches, rules, cost function."""
        if self.started:
            raise RequestError("The worker has started already; each stack has a worker of its own.")
        begin = time.perf_counter()
        self.started = True
        self.ready = False
        gc.disable()  # What torch makes when it is imported stays; looking through it again and again takes time.
        self.overlay_folder = None
        if request.get("overlay"):
            self.overlay_folder = overlay.lay_over(request["overlay"], self.user_files)
        self._import_torch()
        from . import costs, fingerprints, hooks

        registered = [dict(table) for table in self.tables()]
        originals = fingerprints.defined_machinery()
        self.modules = [overlay.execute(path, f"shardlab_{kind}_{i}", self.user_files)
                        for kind, paths in (("patch", request.get("patches")), ("rules", request.get("rules")))
                        for i, path in enumerate(paths or [])]
        self.cost = self._cost_function(request.get("cost"))
        if self.cost is not None:
            costs.replace_everywhere(self)
        answer = {"python": sys.version.split()[0], "torch": self.torch.__version__.split("+")[0],
                  "build": self.torch.__version__, "executable": sys.executable,
                  "fingerprints": fingerprints.of_machinery(self),
                  "rebound": fingerprints.rebound(self, originals),
                  "cost_parameters": self.cost and self.cost.parameters,
                  "ignored_registrations": self._ignored(registered),
                  "ops": fingerprints.of_operators(self)}
        self.transition = self.collectives._compute_placement_transition_cost
        self.hooks = hooks.Hooks(self)
        self.find_caches()
        gc.freeze()
        gc.enable()
        self.ready = True
        answer["seconds"] = round(time.perf_counter() - begin, 3)
        return answer

    def _import_torch(self):
        import torch

        release = expect_known_release(torch.__version__)
        torch.set_num_threads(1)
        # What PyTorch refuses is told in the answer; its log would repeat it on stderr.
        logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
        logging.getLogger("torch.distributed.tensor").setLevel(logging.CRITICAL)
        import torch.distributed
        import torch.distributed.tensor

        if not torch.distributed.is_available():
            raise ReleaseError(f"PyTorch {release} was built without torch.distributed.")
        from torch.distributed.device_mesh import _mesh_resources
        from torch.distributed.tensor import DTensor, _collective_utils, _dtensor_spec, _op_schema, placement_types
        from torch.distributed.tensor import _redistribute, _sharding_prop
        from torch.distributed.tensor._ops import single_dim_strategy

        self.host_size = lambda device_type: self.devices_per_host
        self.mesh_resources = _mesh_resources
        type(_mesh_resources).num_devices_per_host = staticmethod(self.host_size)
        self.torch, self.operators = torch, Operators(torch)
        self.dispatcher = DTensor._op_dispatcher
        self.propagator = self.dispatcher.sharding_propagator
        self.collectives, self.redistribute, self.sharding = _collective_utils, _redistribute, _sharding_prop
        self.specs, self.schemas, self.types = _dtensor_spec, _op_schema, placement_types
        self.single_dim = single_dim_strategy
        self.own_transition = _collective_utils._compute_placement_transition_cost

    # ---- What the user brought ---------------------------------------------------------------------------------

    def tables(self):
        """The propagator's tables of strategies, in the order in which it looks into them."""
        return [getattr(self.propagator, name) for name in TABLES]

    def _ignored(self, before):
        """What the user's files registered since `before` for operators that PyTorch finds in another table first, so
        that it never asks what was registered."""
        ignored, tables = [], self.tables()
        for index, (table, old) in enumerate(zip(tables, before)):
            for op in [op for op, rule in table.items() if op not in old or old[op] is not rule]:
                found_in = next(name for name, earlier in zip(TABLES, tables) if op in earlier)
                if found_in != TABLES[index]:
                    ignored.append({"op": str(op), "table": TABLES[index], "found_in": found_in})
        return ignored

    def _cost_function(self, text):
        """The user's cost function from FILE.py:FUNCTION, or None."""
        if not text:
            return None
        from . import costs

        return costs.function_of(text, self.user_files)

    def user_modules(self):
        """The modules that the user brought, and those of torch.distributed.tensor."""
        return [module for name, module in list(sys.modules.items())
                if module is not None and (name == NAMES or name.startswith((NAMES + ".", "shardlab_patch_",
                                                                             "shardlab_rules_")))]

    # ---- The world ---------------------------------------------------------------------------------------------

    def enter(self, shape, devices_per_host, names=None, rank=0):
        """Makes `mesh` the mesh of a shape over a fake world of exactly its size, seen from `rank`."""
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.testing._internal.distributed.fake_pg import FakeStore

        if not isinstance(devices_per_host, int) or isinstance(devices_per_host, bool) or devices_per_host < 1:
            raise RequestError(f"`devices_per_host` is a positive number, not {devices_per_host!r}.")
        world = (tuple(shape), names, rank)
        if world == self.world and devices_per_host == self.devices_per_host:
            return
        self.devices_per_host = devices_per_host
        self.forget()
        if world == self.world:
            return
        if not 0 <= rank < math.prod(shape):
            raise RequestError(f"The rank {rank} is not on a mesh of {math.prod(shape)} ranks.")
        self.world = None
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", rank=rank, world_size=math.prod(shape), store=FakeStore())
        self.mesh = init_device_mesh(DEVICE_TYPE, tuple(shape), mesh_dim_names=names)
        self.world = world

    @contextlib.contextmanager
    def shapes_on_cpu(self):
        """While PyTorch finds the shapes of outputs, the mesh says that it is one of CPUs: fake tensors of a few
        operators (batch norms, fused optimizers, scaled products) ask the driver of a GPU on a mesh of GPUs."""
        self.mesh._device_type = "cpu"
        try:
            yield
        finally:
            self.mesh._device_type = DEVICE_TYPE

    def placement(self, found):
        """A placement from a match of texts.PLACEMENT."""
        return placement_of(self.types, found)

    def topology(self, shape, names, devices_per_host):
        """PyTorch's MeshTopoInfo of a mesh. It stays valid when the worker enters another world."""
        self.enter(shape, devices_per_host, names)
        topology = self.collectives.MeshTopoInfo.build_from_mesh(self.mesh)
        topology.shardlab_devices_per_host = devices_per_host
        return topology

    # ---- Caches ------------------------------------------------------------------------------------------------

    def find_caches(self):
        """Finds every cache in torch.distributed.tensor, so that a branch's own caches are emptied too."""
        found = {}
        for module in self.user_modules():
            for owner in [module, *(value for value in vars(module).values() if isinstance(value, type))]:
                for value in list(vars(owner).values()):
                    value = getattr(value, "__func__", value)
                    if callable(getattr(value, "cache_clear", None)) and not isinstance(value, type):
                        found[id(value)] = value
        self.caches = list(found.values())

    def forget(self):
        """Empties what PyTorch remembers of earlier questions, so that no answer depends on them."""
        for cache in self.caches:
            cache.cache_clear()
        for name in ("clear_redistribute_planner_cache",):
            getattr(self.redistribute, name, lambda: None)()
        getattr(self.redistribute, "_warned_flatten_issues", set()).clear()
        cache = getattr(self.propagator, "propagate_op_sharding", None)
        if hasattr(cache, "cache_clear"):
            cache.cache_clear()

    def fake_mode(self):
        """The mode in which the shapes of outputs are found. A new one costs more than a call, so it is kept."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        self.mode_uses += 1
        if self.mode is None or self.mode_uses > FAKE_MODE_USES:
            self.mode, self.mode_uses = FakeTensorMode(), 1
            self.mode.cache_enabled = False  # Nearly all calls are new ones; keeping them costs time and memory.
        return self.mode

    def tidy(self):
        """Called after each answer: memory stays bounded however many distinct sizes are asked about."""
        self.answers += 1
        if self.answers % TIDY_EVERY == 0 and self.ready:
            self.forget()
