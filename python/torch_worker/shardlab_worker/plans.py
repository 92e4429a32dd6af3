"""Plans: the steps by which PyTorch takes a tensor from one layout to another, and their price."""

import contextlib

from .calls import item_fields
from .decisions import Specs, error_text, finite
from .errors import PriceError, RequestError, place_of
from .texts import mesh_of, placement_text, tensor_of

PLANNERS = {"default": None, "greedy": False, "graph": True}


class Plans:
    """Answers {"mesh", "devices_per_host", "tensor", "from", "to", "planner"} by {"steps", "us"}. A step is
    [mesh dim, from, to, logical shape]."""

    def __init__(self, session):
        self.session, self.specs = session, Specs(session)

    def answer(self, item, request):
        mesh, tensor, source, target = item_fields(item, "mesh", "tensor", "from", "to")
        planner = item.get("planner", "default")
        if planner not in PLANNERS:
            raise RequestError(f"A planner is one of {', '.join(PLANNERS)}, not {planner!r}.")
        session = self.session
        shape, names = mesh_of(mesh)
        session.enter(shape, item.get("devices_per_host", 1), names, item.get("rank", 0))
        extents, dtype = tensor_of(session.torch, tensor)
        opaque = item.get("strided") == "opaque"
        before = self.specs.laid_out(extents, dtype, source, opaque)
        after = self.specs.laid_out(extents, dtype, target, opaque)
        try:
            answer = session.hooks.settled(lambda: self.plan(before, after, PLANNERS[planner]))
        except PriceError:
            raise
        except Exception as error:
            if session.user_files.holds_as_single_file(place_of(error, session.user_files)[0] or ""):
                raise
            file, line = place_of(error, session.user_files)
            return {"error": error_text(error), "file": file, "line": line}
        return {"order": "unsettled"} if answer is None else answer

    def plan(self, source, target, graph):
        redistribute = self.session.redistribute
        force = redistribute.use_min_cost_redistribution_plan
        with contextlib.nullcontext() if graph is None else force(graph):
            self.session.forget()
            steps = redistribute._gen_transform_infos_non_cached(source, target)
            self.session.forget()
            price = self.session.collectives.redistribute_cost(source, target)
        return {"steps": [[step.mesh_dim, *map(placement_text, step.src_dst_placements),
                           [int(extent) for extent in step.logical_shape]] for step in steps],
                "us": finite(price)}
