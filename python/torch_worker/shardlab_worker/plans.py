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
            return self.plan(before, after, PLANNERS[planner])
        except PriceError:
            raise
        except Exception as error:
            if session.user_files.holds_as_single_file(place_of(error, session.user_files)[0] or ""):
                raise
            file, line = place_of(error, session.user_files)
            return {"error": error_text(error), "file": file, "line": line}

    def plan(self, source, target, graph):
        """Steps and price. What depends on the order in which PyTorch walks a hash set is null, and said."""
        redistribute, settled = self.session.redistribute, self.session.hooks.settled
        force = redistribute.use_min_cost_redistribution_plan
        with contextlib.nullcontext() if graph is None else force(graph):
            steps = settled(lambda: self.steps(source, target))
            price = settled(lambda: [self.price(source, target)])
        answer = {"steps": steps, "us": price and finite(price[0])}
        return answer if steps is not None and price is not None else {**answer, "order": "unsettled"}

    def steps(self, source, target):
        self.session.forget()
        return [[step.mesh_dim, *map(placement_text, step.src_dst_placements),
                 [int(extent) for extent in step.logical_shape]]
                for step in self.session.redistribute._gen_transform_infos_non_cached(source, target)]

    def price(self, source, target):
        self.session.forget()
        return self.session.collectives.redistribute_cost(source, target)
