#!/usr/bin/env python3
"""Ask a real PyTorch DTensor for redistribution costs, plans and op selections.

The answers are what `tests/differential` compares shardlab with. PyTorch runs on a fake process
group: one process, no data, no GPU. Every question is asked with all of PyTorch's caches cleared,
so an answer never depends on the questions before it.

    scripts/gen_golden_dtensor.py --kind costs --count 6000 --out tests/differential/golden/2.13
    scripts/gen_golden_dtensor.py --kind plans --count 50 --random --rank any     # fresh, to stdout

These lines made the golden files of 2.13 (each file repeats its line, with the seed, under the key `arguments`):

    --kind costs --count 6000 --devices-per-host 1,1,1,1,8 --out DIR
    --kind plans --count 2400 --devices-per-host 1,1,1,1,8 --rank any --out DIR
    --kind selections --count 2000 --devices-per-host 1,1,1,1,8 --out DIR
    --kind selections --family F --count N --devices-per-host 1,1,1,1,8 --out DIR

The last line stands for one line for each family F, which is a module of golden_ops, with an N of its own:

    linalg 250   pooling 300   embedding, upsample 400   index, tensor 700   reduction 800   matmul 1000
    view 1200    pointwise 1500    every other one 500

2.15 has a third of these counts with --seed 15, and 2.14 a tenth with --seed 14, but 100 for decomposed and tensor. For
pointwise, foreach and variants, which have more ops than the others, 2.15 has as many as 2.13, and 2.14 a third.

The files *_opaque_strided come from the first two lines with --strided opaque and --count 400 and 300. An op
that is added to a family changes what is drawn for the family and for the file of all ops, so both are
written anew. A file is {"schema", "kind", "torch", "arguments", "date", "cases": [one per line]}; null stands
for infinity. Equal arguments and --date give equal bytes.

costs       mesh, devices_per_host, tensor, from, to, greedy_us, graph_us. `greedy_us` is the cost with
            PyTorch's defaults (which take the graph planner where a shard order is not the default or
            a shard is strided), `graph_us` the cost with the min-cost planner forced. If PyTorch raises,
            `greedy_error` or `graph_error` stands in its place.
plans       the same as for costs; also `rank` (logical shapes depend on it), `greedy` and `graph`, which are
            lists of [mesh_dim, from, to, logical_shape], `graph_path` (the text of the graph plan), and
            `graph_us`. Merge cases name their mesh dims, and `flatten` lists the dims that were flattened before.
            `merged` and `graph_merged` are the steps after merging; a merged step is
            [[mesh_dims], from, to, logical_shape, avg_scale or null]. `warnings` are the reasons why
            runs were not merged: no_flattened_mesh, uneven_tensor_shape, non_ascending_mesh_dims.
selections  op, mesh, devices_per_host, inputs, args, candidates (how many), digest, list (where they
            are at most 24), chosen {inputs, outputs}, total_us. A line of `list` is
            "in1;in2|out1;out2 cost1;cost2"; `digest` is 64-bit FNV-1a over the lines without their
            costs, joined with "\\n", in PyTorch's order. A foreach op has `children`, one such object
            for each list element. `"order": "unspecified"` marks questions where PyTorch's order follows a
            hash set and shardlab's does not (shards of more than one kind among the inputs): digest and list
            are then over the sorted lines, and `chosen` is null if there is a tie. Decomposed ops, of which
            PyTorch walks a hash set too, are asked with PYTHONHASHSEED=0.

With --strided opaque, `_S(d,f)` is a placement of its own, as the view ops produce it. By default it encodes a
shard order, which is how DTensorSpec reads it.
"""

import argparse
import datetime
import inspect
import json
import math
import os
import random
import re
import secrets
import sys
from itertools import chain, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import golden_ops  # noqa: E402
from golden_ops._call import DTYPES, bind  # noqa: E402

TORCH_VERSIONS = ("2.13.0", "2.14.1", "2.15.0")  # as in kReleases of strategies/rules/rule_set.h
TORCH_VERSION = TORCH_VERSIONS[0]  # what other scripts record
SCHEMA = "shardlab/golden-dtensor/1"
MAX_FILE_BYTES = 1_350_000
MAX_LISTED_CANDIDATES = 24
KINDS = ("costs", "plans", "selections")

MESHES = [(2,), (4,), (8,), (2, 2), (2, 4), (8, 8), (2, 2, 2), (2, 2, 4)]
RARE_MESHES = [(1, 4), (4, 1), (3,), (2, 3)]
EXTENTS = [*range(1, 18), 64, 100, 128, 4096]


def require_torch(any_version=False, versions=(TORCH_VERSION,)):
    """Imports torch. If it is missing or has another version, says so in one line and exits with 4."""
    try:
        import torch
        import torch.distributed.tensor  # noqa: F401
    except ImportError:
        print("error: PyTorch is not installed here (scripts/setup --with-oracle)", file=sys.stderr)
        raise SystemExit(4) from None
    found = torch.__version__.split("+")[0]
    if found not in versions and not any_version:
        what = f"found PyTorch {found}; valid: {', '.join(versions)}, or any with --any-version"
        print(f"error: {what}", file=sys.stderr)
        raise SystemExit(4)
    return torch


# ---- Text forms of DTensor's own objects; other scripts use them too - --------------------


def mesh_text(shape, names=None):
    if names:
        return ",".join(f"{name}={size}" for name, size in zip(names, shape))
    return "x".join(map(str, shape))


def tensor_text(shape, dtype):
    """`dtype` is an abbreviation or a torch.dtype."""
    abbreviation = dtype if isinstance(dtype, str) else dtype.abbr.replace("f8e4m3fn", "f8e4m3")
    return f"{abbreviation}[{','.join(str(int(extent)) for extent in shape)}]"


def mask_text(match):
    """MaskP(sum,torch.Size([1000,64]),0) as MP(0,1000): the dim that the mask cuts, and its extent."""
    return f"MP({match[2]},{match[1].split(',')[int(match[2])]})"


def layout_text(spec):
    """A layout such as S(0)RP(sum); order indices are shown only where the shard order is not the default one."""
    order = spec.shard_order
    shown = None if order is None or spec.is_default_device_order(order) else order
    text = spec.format_shard_order_str(spec.placements, shown).replace(" ", "")
    text = re.sub(r"MaskP\(sum,torch.Size\(\[([0-9,]*)\]\),([0-9]+)\)", mask_text, text)
    return re.sub(r"_NormP\(([^)]*)\)", lambda found: f"NP({float(found[1]):g})", text)


def input_text(value):
    """A DTensorSpec, a list of them, or None."""
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return f"[{'; '.join(map(input_text, value))}]"
    return f"{tensor_text(value.shape, value.tensor_meta.dtype)} {layout_text(value)}"


# ---- Random questions: plain Python, no torch ------------------------------------------------------


class Layout:
    """A layout: one text per mesh dim, and the shard order if it is not the default."""

    def __init__(self, placements, order=None):
        self.placements = tuple(placements)
        self.order = order  # {tensor dim: mesh dims in application order}, or None


class Questions:
    """A source of random meshes, tensors and layouts; equal seeds give equal questions."""

    def __init__(self, seed, opaque_strided):
        self.rng = random.Random(seed)
        self.opaque_strided = opaque_strided
        # How often a tensor dim is sharded in an order of its own, or strided.
        self.special = 0.7 if opaque_strided else 0.14

    def mesh(self, rare=RARE_MESHES):
        return self.rng.choice(MESHES if self.rng.random() < 0.88 else rare)

    def tensor(self, max_rank=4):
        """A shape. Some are large, so that the transfer term matters as well as the latency term."""
        rng = self.rng
        rank = rng.choice([r for r in (1, 2, 2, 2, 3, 3, 4) if r <= max_rank])
        big = [64, 100, 128, 1000, 4096]
        extents = big if rank < 4 and rng.random() < 0.25 else EXTENTS if rank < 3 else EXTENTS[:20]
        return rng.choice(["f32", "f32", "bf16", "i64"]), [rng.choice(extents) for _ in range(rank)]

    def layout(self, mesh, rank, weights=(30, 45, 25)):
        rng = self.rng
        families = [["sum"], ["avg"], ["max"], ["min"], ["sum", "avg"]]  # partials that may stand together
        family = rng.choices(families, [50, 15, 13, 12, 10])[0]
        kinds = rng.choices("RSP", weights if rank else (weights[0] + 1, 0, weights[2]), k=len(mesh))
        placements = ["R" if kind == "R" else f"P({rng.choice(family)})" if kind == "P"
                      else f"S({rng.randrange(rank)})" for kind in kinds]
        if rank == 0 or rng.random() >= self.special:
            return Layout(placements)
        dim, mesh_dims = rng.randrange(rank), rng.sample(range(len(mesh)), rng.randint(1, len(mesh)))
        for mesh_dim in mesh_dims:
            placements[mesh_dim] = f"S({dim})"
        order = {}
        for mesh_dim in mesh_dims + [m for m in range(len(mesh)) if m not in mesh_dims]:
            if placements[mesh_dim][0] == "S":
                order.setdefault(int(placements[mesh_dim][2:-1]), []).append(mesh_dim)
        if not self.opaque_strided and rng.random() < 0.6:
            return Layout(placements, order if any(m != sorted(m) for m in order.values()) else None)
        if rng.random() < 0.6:
            return Layout(self._strided(mesh, placements, order))
        for mesh_dim in mesh_dims:
            factor = rng.choice([1, 2, 2, 3, 4])
            placements[mesh_dim] = f"S({dim})" if factor == 1 else f"_S({dim},{factor})"
        return Layout(placements)

    @staticmethod
    def _strided(mesh, placements, order):
        """The split factors that encode a shard order."""
        result = list(placements)
        for dim, mesh_dims in order.items():
            for position, mesh_dim in enumerate(mesh_dims):
                factor = math.prod(mesh[m] for m in mesh_dims[:position] if m > mesh_dim)
                if factor > 1:
                    result[mesh_dim] = f"_S({dim},{factor})"
        return result

    def pair(self, mesh, rank):
        """Two layouts; half of the time the second differs from the first on one or two mesh dims."""
        rng = self.rng
        source, target = self.layout(mesh, rank), self.layout(mesh, rank, (38, 50, 12))
        if rng.random() < 0.5 and source.order is None and target.order is None:
            mixed = list(source.placements)
            for mesh_dim in rng.sample(range(len(mesh)), min(len(mesh), rng.randint(1, 2))):
                mixed[mesh_dim] = target.placements[mesh_dim]
            partials = {p for p in mixed if p[0] == "P"}
            if len(partials) <= 1 or partials == {"P(sum)", "P(avg)"}:
                target = Layout(mixed)
        same = source.placements == target.placements and source.order == target.order
        dull = same or set(source.placements) == {"R"}
        return self.pair(mesh, rank) if dull and rng.random() < 0.85 else (source, target)


def systematic_pairs():
    """All pairs of a few placements on a line and on a grid: the cases a reader checks by hand."""
    line = ["R", "S(0)", "S(1)", "P(sum)", "P(avg)", "P(max)", "P(min)"]
    for source, target in product(line, line):
        yield (4,), ("f32", [10, 9]), Layout([source]), Layout([target])
    grid = [Layout(p) for p in product(["R", "S(0)", "S(1)", "P(sum)"], repeat=2)]
    for source, target in product(grid, grid):
        yield (2, 4), ("f32", [13, 8]), source, target


# ---- The oracle ------------------------------------------------------------------------------------


class Oracle:
    """PyTorch on a fake process group: `enter` sets the world, then specs can be made and asked."""

    def __init__(self, torch):
        import torch.distributed.tensor._redistribute as redistribute
        from torch.distributed.device_mesh import _mesh_resources
        from torch.distributed.tensor import DTensor
        from torch.distributed.tensor._collective_utils import MeshTopoInfo

        self.torch, self.redistribute, self.topology = torch, redistribute, MeshTopoInfo
        self.propagator = DTensor._op_dispatcher.sharding_propagator
        self.world, self.opaque_strided = None, False
        self.devices_per_host, self.reversed_sets, self.set_order_read = 1, False, False
        _mesh_resources.num_devices_per_host = lambda device_type: self.devices_per_host
        self._isolate_planners()

    def _isolate_planners(self):
        """A new planner for every request, with sets whose order is ours (see `settled`)."""
        oracle, planner = self, self.redistribute.DTensorRedistributePlanner

        class OrderedSet(set):
            def __iter__(self):
                items = sorted(super().__iter__(), key=str)
                oracle.set_order_read |= len(items) > 1
                return iter(items[::-1] if oracle.reversed_sets else items)

        def new_planner(mesh, meta):
            result = planner(mesh, meta)
            result.partial_reduce_ops_in_target = OrderedSet()
            result.strided_shard_placements_in_target = OrderedSet()
            return result

        self.redistribute.get_redistribute_planner = new_planner

    def enter(self, shape, devices_per_host=1, rank=0, names=None, flatten=()):
        """The mesh of `shape` over a fake world of exactly its size, seen from `rank`."""
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.testing._internal.distributed.fake_pg import FakeStore

        self.devices_per_host = devices_per_host
        self.topology.build_from_mesh.cache_clear()
        world = (tuple(shape), rank, names, tuple(flatten))
        if self.world == world:
            return
        if self.world is not None:
            dist.destroy_process_group()
        dist.init_process_group("fake", rank=rank, world_size=math.prod(shape), store=FakeStore())
        self.mesh = init_device_mesh("cpu", tuple(shape), mesh_dim_names=names)
        for dims in flatten:
            self.mesh[tuple(dims.split(","))]._flatten()
        self.world = world

    def forget(self):
        """Clears what PyTorch remembers of earlier questions."""
        self.redistribute._gen_transform_infos.cache_clear()
        self.redistribute.clear_redistribute_planner_cache()
        self.redistribute._warned_flatten_issues.clear()
        self.propagator.propagate_op_sharding.cache_clear()

    def settled(self, question):
        """The answer, or None where it depends on the order in which PyTorch walks a hash set."""
        self.set_order_read = False
        answer = question()
        if self.set_order_read:
            self.reversed_sets = True
            try:
                return answer if question() == answer else None
            finally:
                self.reversed_sets = False
        return answer

    def placement(self, text):
        from torch.distributed.tensor import placement_types as types

        if text == "R":
            return types.Replicate()
        kind, numbers = text[:-1].split("(")
        if kind == "P":
            return types.Partial(numbers)
        dim, *factor = map(int, numbers.split(","))
        return types._StridedShard(dim, split_factor=factor[0]) if factor else types.Shard(dim)

    def spec(self, tensor, layout):
        from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta

        dtype, shape = tensor
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        meta = TensorMeta(self.torch.Size(shape), strides, getattr(self.torch, DTYPES[dtype]))
        entries = layout.order and sorted(layout.order.items())
        order = entries and tuple(ShardOrderEntry(dim, tuple(dims)) for dim, dims in entries)
        opaque = self.opaque_strided and any(p[0] == "_" for p in layout.placements)
        encoding = False if opaque else None
        return DTensorSpec(self.mesh, tuple(map(self.placement, layout.placements)), meta,
                           shard_order=order, use_strided_shard_as_shard_order=encoding)

    def attempt(self, name, function):
        """{name: answer}, or {error name: first line} where PyTorch raises."""
        self.forget()
        try:
            return {name: function()}
        except Exception as error:  # noqa: BLE001: whatever PyTorch raises is its answer
            return {name.removesuffix("_us") + "_error": error_text(error)}

    def cost(self, source, target, graph):
        from torch.distributed.tensor._collective_utils import redistribute_cost

        with self.redistribute.use_min_cost_redistribution_plan(True if graph else None):
            return finite(redistribute_cost(source, target))

    def steps(self, source, target, graph):
        with self.redistribute.use_min_cost_redistribution_plan(True if graph else None):
            return self.redistribute._gen_transform_infos_non_cached(source, target)

    def path(self, steps, source):
        text = self.redistribute.DTensorRedistributePlanner.stringify_transform_infos(
            self.mesh, steps, source.placements, source.shard_order,
            source.use_strided_shard_as_shard_order)
        return text.replace(" ", "")

    def merge(self, steps, source, target):
        """The steps after merging, and the reasons of PyTorch's warnings in order."""
        module, reasons = self.redistribute, {}  # PyTorch warns once for each mesh, dims and reason

        def record(mesh, mesh_dims, sources, targets, count, collective, reason):
            reasons[mesh_dims, reason] = reason

        warn = module._warn_flatten_optimization_not_possible
        module._warn_flatten_optimization_not_possible = record
        try:
            merged = module._optimize_transform_infos(
                steps, self.mesh, source.placements, target.placements)
        finally:
            module._warn_flatten_optimization_not_possible = warn
        return merged, list(reasons.values())

    def strategy(self, schema):
        """The op strategy, found in the order in which ShardingPropagator looks for one."""
        propagator = self.propagator
        meta = propagator._propagate_tensor_meta_non_cached(schema)
        several = meta if isinstance(meta, (tuple, list)) else [meta]
        has_mask = any(parameter.name == "output_mask" for parameter in schema.op._schema.arguments)
        self.masked_off = {i for i, output in enumerate(several) if has_mask and output is None}
        wrapped = propagator._wrap_with_op_strategy(schema)
        if schema.op in propagator.op_single_dim_strategy_funcs:
            from torch.distributed.tensor._ops import single_dim_strategy as rules

            rule = propagator.op_single_dim_strategy_funcs[schema.op]
            expanded = rules._expand_single_dim_strategy_to_mesh(self.mesh, wrapped, rule, meta)
            return expanded(schema.op, wrapped.args_meta, wrapped.kwargs_meta)
        if schema.op in propagator.op_strategy_funcs:
            return propagator.op_strategy_funcs[schema.op](wrapped)
        propagator.decomp_strategy.ensure_schema_info(schema.op)
        propagate = propagator.decomp_strategy.propagate_strategy
        return propagate(schema, meta) if takes_output_meta(propagate) else propagate(schema)


def takes_output_meta(propagate):
    """Whether a decomposition is told what its outputs are, as since PyTorch 2.14."""
    return "output_tensor_meta" in inspect.signature(propagate).parameters


def finite(cost):
    return None if math.isinf(cost) else cost


def error_text(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:400]


def steps_json(steps):
    rows = []
    for step in steps:
        merged = hasattr(step, "original_mesh_dims")
        placements = [str(p).replace(" ", "") for p in step.src_dst_placements]
        where = list(step.original_mesh_dims) if merged else step.mesh_dim
        scale = [step.avg_scale] if merged else []
        rows.append([where, *placements, list(step.logical_shape), *scale])
    return rows


# ---- Costs and plans -------------------------------------------------------------------------------


def ask_costs(oracle, tensor, source, target):
    a, b = oracle.spec(tensor, source), oracle.spec(tensor, target)
    head = {"tensor": tensor_text(tensor[1], tensor[0]), "from": layout_text(a), "to": layout_text(b)}
    return (head | oracle.attempt("greedy_us", lambda: oracle.cost(a, b, graph=False))
            | oracle.attempt("graph_us", lambda: oracle.cost(a, b, graph=True)))


def ask_plans(oracle, tensor, source, target, merging):
    a, b = oracle.spec(tensor, source), oracle.spec(tensor, target)
    case = {"tensor": tensor_text(tensor[1], tensor[0]), "from": layout_text(a), "to": layout_text(b)}
    for planner, prefix in (("greedy", ""), ("graph", "graph_")):
        answer = oracle.attempt(planner, lambda: oracle.steps(a, b, graph=planner == "graph"))
        steps = answer.get(planner)
        case |= answer if steps is None else {planner: steps_json(steps)}
        if planner == "graph" and steps is not None:
            case |= oracle.attempt("graph_path", lambda: oracle.path(steps, a))
        if merging and steps is not None:
            merged, reasons = oracle.merge(steps, a, b)
            case |= {prefix + "merged": steps_json(merged), prefix + "warnings": reasons}
            case |= oracle.attempt(prefix + "merged_path", lambda: oracle.path(merged, a))
    return case | oracle.attempt("graph_us", lambda: oracle.cost(a, b, graph=True))


def draw_merge_case(questions):
    """A named mesh, some of its dims flattened, and a pair of layouts in which runs are likely."""
    rng = questions.rng
    mesh = rng.choice([(2, 2), (2, 4), (4, 2), (2, 3), (2, 2, 2), (2, 2, 4)])
    names = ("dp", "tp") if len(mesh) == 2 else ("pp", "dp", "tp")
    runs = [["dp,tp"]] if len(mesh) == 2 else [["pp,dp"], ["dp,tp"], ["pp,tp"], ["pp,dp,tp"]]
    flatten = sorted({text for run in runs for text in run if rng.random() < 0.7})
    tensor = questions.tensor(max_rank=3)
    source, target = questions.pair(mesh, len(tensor[1]))
    if rng.random() < 0.8:
        ops = rng.choice([["sum"], ["avg"], ["sum", "avg"], ["max"]])
        shard = f"S({rng.randrange(len(tensor[1]))})"
        move = rng.choice([("P", "R"), ("P", shard), (shard, "R")])
        kept = [rng.random() < 0.2 for _ in mesh]
        before = [f"P({rng.choice(ops)})" if move[0] == "P" else shard for _ in mesh]
        nested = move[0] == shard and rng.random() < 0.3 and not any(kept)
        order = {int(shard[2:-1]): rng.sample(range(len(mesh)), len(mesh))} if nested else None
        source = Layout(("R" if keep else p for keep, p in zip(kept, before)), order)
        target = Layout("R" if keep else move[1] for keep in kept)
    return mesh, names, tuple(flatten), tensor, source, target


def make_transition_cases(oracle, kind, arguments):
    """Costs or plans: all systematic pairs, then random ones until there are enough."""
    questions = Questions(arguments.seed, arguments.strided == "opaque")
    rng, cases = questions.rng, []
    plain = not arguments.random and arguments.strided == "order"
    todo = iter(systematic_pairs() if plain else ())
    merges = max(1, arguments.count * 9 // 100) if kind == "plans" else 0
    merges = 0 if arguments.strided == "opaque" else merges
    while len(cases) < arguments.count:
        devices_per_host = rng.choice(arguments.devices_per_host)
        names, flatten, fixed = None, (), next(todo, None)
        if fixed:
            mesh, tensor, source, target = fixed
            devices_per_host = 1
        elif arguments.count - len(cases) <= merges:
            mesh, names, flatten, tensor, source, target = draw_merge_case(questions)
        else:
            mesh = questions.mesh(RARE_MESHES + [(2, 2, 2, 2)] * (kind == "costs"))
            tensor = questions.tensor(max_rank=4 if len(mesh) < 3 else 3 if len(mesh) < 4 else 2)
            source, target = questions.pair(mesh, len(tensor[1]))
        world = math.prod(mesh)
        rank = rng.randrange(world) if arguments.rank is None else arguments.rank % world
        oracle.enter(mesh, devices_per_host, rank, names, flatten)
        head = {"mesh": mesh_text(mesh, names), "devices_per_host": devices_per_host}
        if kind == "costs":
            answer = oracle.settled(lambda: ask_costs(oracle, tensor, source, target))
        else:
            head |= {"rank": rank} | ({"flatten": list(flatten)} if names else {})
            merging = names is not None
            answer = oracle.settled(lambda: ask_plans(oracle, tensor, source, target, merging))
        if answer is not None:
            cases.append(head | answer)
    return cases


# ---- Selections ------------------------------------------------------------------------------------


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def verdict_of(spec):
    """The layout of a truth value about whole tensors: DTensor takes the `and` of what the shards say."""
    from torch.distributed.tensor._dtensor_spec import DTensorSpec
    from torch.distributed.tensor.placement_types import Partial

    return DTensorSpec(spec.mesh, tuple(Partial("min") if hasattr(p, "dim") else p
                                        for p in spec.placements))


def outputs_of(candidate, outputs, masked_off=()):
    """The specs of all outputs. Where DTensor has one spec for all of them, `outputs` says how many there are; "bool"
    stands for an output that is no tensor, whose shards are those of the first input where the candidate names no
    outputs. `masked_off` are the outputs that `output_mask` leaves out, although some rules give them layouts."""
    if outputs == "bool":
        return [layout_text(verdict_of(candidate.output_specs or candidate.input_specs[0]))]
    specs = candidate.output_specs
    specs = specs if isinstance(specs, (tuple, list)) else [specs] * outputs
    return [layout_text(s) for i, s in enumerate(specs) if s is not None and i not in masked_off]


def outputs_without_layout(strategy):
    """The outputs that some candidates give a layout and others do not: since 2.14 what is not computed."""
    tuples = [c.output_specs for c in strategy.strategies if isinstance(c.output_specs, (tuple, list))]
    return {i for specs in tuples for i, spec in enumerate(specs) if spec is None}


def inputs_of(candidate, inputs, positional=1):
    """The layouts that a candidate wants of the inputs, as the propagator reads it. If the candidate names no inputs,
    they are those of the positional arguments; an `out` tensor that it does not name stays as it is."""
    specs = candidate.input_specs
    specs = [candidate.output_specs] * positional if specs is None else specs
    texts = [layout_text(s) for s in specs if s is not None]
    return texts + inputs[len(texts):]


def costs_of(candidate, sources):
    """The price of each input; if the candidate has none, what the layouts that it asks for cost."""
    from torch.distributed.tensor._collective_utils import redistribute_cost

    if candidate.redistribute_cost is None:
        wanted = candidate.input_specs or [
            candidate.output_specs.shallow_copy_with_tensor_meta(s.tensor_meta) for s in sources]
        return [redistribute_cost(a, b) for a, b in zip(sources, wanted)]
    costs = [float(c) for c in chain.from_iterable(candidate.redistribute_cost)]
    return costs + [0.0] * (len(sources) - len(costs))


def describe(strategy, schema, inputs, specified, sources, outputs=1, masked_off=()):
    """The candidates of one OpStrategy and the one that PyTorch takes."""
    from torch.distributed.tensor._sharding_prop import _select_min_cost_strategy

    positional, rows = 1 if schema is None else len(schema.args_spec), []
    masked_off = set(masked_off) | outputs_without_layout(strategy)
    for candidate in strategy.strategies:
        costs = costs_of(candidate, sources)
        layouts = ";".join(inputs_of(candidate, inputs, positional)) + "|"
        layouts += ";".join(outputs_of(candidate, outputs, masked_off))
        rows.append((layouts, f"{layouts} {';'.join(map(repr, costs))}", sum(costs)))
    totals = [total for _, _, total in rows]
    chosen = _select_min_cost_strategy(strategy, schema)
    answer = {"candidates": len(rows)}
    if not specified:
        rows.sort()
        cheapest = [layouts for layouts, _, total in rows if total == min(totals)]
        unchanged = [layouts for layouts in cheapest if layouts.startswith(";".join(inputs) + "|")]
        if len(cheapest) > 1 and (min(totals) > 0 or len(unchanged) != 1):
            chosen = None
    answer["digest"] = fnv1a("\n".join(layouts for layouts, _, _ in rows))
    if len(rows) <= MAX_LISTED_CANDIDATES:
        answer["list"] = [line for _, line, _ in rows]
    if chosen is None:
        return answer | {"chosen": None, "total_us": finite(min(totals))}
    layouts = {"inputs": inputs_of(chosen, inputs, positional),
               "outputs": outputs_of(chosen, outputs, masked_off)}
    return answer | {"chosen": layouts, "total_us": finite(sum(costs_of(chosen, sources)))}


def overload_named(torch, op):
    space, packet, overload = op.split(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload)


def full_name(name):
    """aten.add.Tensor for add.Tensor, as golden_ops names it, and prims.abs.default for prims.abs."""
    space, _, rest = name.partition(".") if name.startswith("prims.") else ("aten", "", name)
    return f"{space}.{rest}" if "." in rest else f"{space}.{rest}.default"


def exists(torch, name):
    """Whether PyTorch has the operator `name` of golden_ops: later releases removed some."""
    space, base, overload = full_name(name).split(".")
    return hasattr(getattr(getattr(torch.ops, space), base, None), overload)


def is_asked(oracle, name):
    """Whether there is something to ask: 2.13 has no strategies for some prims, and no decomposition either."""
    if not exists(oracle.torch, name) or not name.startswith("prims."):
        return exists(oracle.torch, name)
    known = oracle.propagator.op_strategy_funcs, oracle.propagator.op_single_dim_strategy_funcs
    return any(overload_named(oracle.torch, full_name(name)) in strategies for strategies in known)


def order_is_specified(oracle, overload, specs):
    """Whether shardlab lists the candidates in PyTorch's order, where that comes from a hash set."""
    by_rows = overload in oracle.propagator.op_single_dim_strategy_funcs
    kinds = {getattr(p, "split_factor", 1) for s in specs for p in s.placements if hasattr(p, "dim")}
    return len(kinds) < 2 or not by_rows


def describe_children(strategy, inputs, specified, sources):
    """The answers for the elements of an op on lists of tensors."""
    lists, children = [value for value in inputs if value], []
    for index, child in enumerate(strategy.children):
        own = [layout_text(v[index] if isinstance(v, list) else v) for v in lists]
        children.append(describe(child, None, own, specified, sources))
    return {"children": children}


def ask_selection(oracle, op, inputs, args):
    """One case. `inputs` has, for each tensor argument, a DTensorSpec, a list of them (with None among them), or None."""
    from torch.distributed.tensor._op_schema import OpSchema, TupleStrategy

    overload, propagator = overload_named(oracle.torch, op), oracle.propagator
    info = propagator.op_to_schema_info.get(overload)
    info = info or propagator.op_to_schema_info_for_single_dim_strategy.get(overload)
    schema = OpSchema(overload, *bind(oracle.torch, overload, inputs, args), schema_info=info)
    specs = [s for value in inputs for s in (value if isinstance(value, list) else [value])]
    specs = [s for s in specs if s is not None]
    specified = order_is_specified(oracle, overload, specs)

    def answer():
        oracle.forget()
        strategy = oracle.strategy(schema)
        if isinstance(strategy, TupleStrategy):
            return describe_children(strategy, inputs, specified, specs)
        outputs = [str(result.type) for result in overload._schema.returns]
        outputs = "bool" if outputs == ["bool"] else len(outputs)
        own = list(map(layout_text, specs))
        return describe(strategy, schema, own, specified, specs, outputs, oracle.masked_off)

    try:
        result = oracle.settled(answer)
    except Exception as error:  # noqa: BLE001: whatever PyTorch raises is its answer
        # The min-cost planner, which prices orders and strided shards, never reaches a mask partial.
        lost = "No path found" in str(error) and "MaskP" in str(error)
        return None if lost else {"error": error_text(error)}
    return result and ({} if specified else {"order": "unspecified"}) | result


def ask_opaque(oracle, op, inputs, args):
    """One case of an op that reads strided shards as placements of their own, as views make them. If the input moves,
    the question is asked again with strided shards that encode a shard order. PyTorch has no price for moving those,
    just as shardlab's dtensor-2.13 has none for moving strided shards."""
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

    if not any("_S" in input_text(value) for value in inputs):
        return inputs, ask_selection(oracle, op, inputs, args)
    own = [DTensorSpec(spec.mesh, spec.placements, spec.tensor_meta,
                       use_strided_shard_as_shard_order=False) for spec in inputs]
    answer = ask_selection(oracle, op, own, args)
    stays = answer and (answer.get("chosen") or {}).get("inputs") == list(map(layout_text, own))
    if answer is None or "error" in answer or stays:
        return own, answer
    return inputs, ask_selection(oracle, op, inputs, args)


def keeps_an_order(answer):
    """Whether PyTorch wants an input in a shard order of its own. Candidates of shardlab are placements alone."""
    chosen = answer.get("chosen") or {"inputs": []}
    return any("[" in layout for layout in chosen["inputs"])


def draw_spec(oracle, questions, mesh, tensor, dtype, default_order):
    """A tensor of golden_ops in a random layout: a DTensorSpec, a list of them, or None."""
    if tensor is None:
        return None
    if isinstance(tensor, golden_ops.TensorList):
        return [draw_spec(oracle, questions, mesh, one, dtype, default_order) for one in tensor]
    own, shape = tensor if isinstance(tensor, tuple) else (dtype, tensor)
    weights = (0, 1, 0) if questions.rng.random() < 0.15 else (45, 40, 15)
    layout = questions.layout(mesh, len(shape), weights)
    if default_order:
        layout.order = None
    return oracle.spec((own, shape), layout)


def make_selection_cases(oracle, arguments):
    questions = Questions(arguments.seed, arguments.strided == "opaque")
    rng, cases, special = questions.rng, [], questions.special
    ops = {name: one for name, one in golden_ops.ops_of(arguments.family).items() if is_asked(oracle, name)}
    opaque = golden_ops.ops_in("OPAQUE_STRIDED", arguments.family)
    in_default_order = golden_ops.ops_in("DEFAULT_ORDER", arguments.family)
    while len(cases) < arguments.count:
        mesh = questions.mesh()
        devices_per_host = rng.choice(arguments.devices_per_host)
        name = rng.choices(list(ops), [weight for weight, _ in ops.values()])[0]
        op = full_name(name)
        _, base, overload = op.split(".")
        dtype = rng.choice(["f32", "f32", "bf16"])
        tensors, args = ops[name][1](rng, base, overload)
        rank = 0 if arguments.rank is None else arguments.rank % math.prod(mesh)
        oracle.enter(mesh, devices_per_host, rank)
        reads_opaque = name in opaque and rng.random() < 0.5
        questions.opaque_strided = arguments.strided == "opaque" or reads_opaque
        questions.special = 0.4 if reads_opaque else special
        # A strategy that leaves `out` as it is keeps its shard order too.
        default_order = name in in_default_order or op.endswith("out")
        inputs = [draw_spec(oracle, questions, mesh, t, dtype, default_order) for t in tensors]
        if name in opaque:
            inputs, answer = ask_opaque(oracle, op, inputs, args)
        else:
            answer = ask_selection(oracle, op, inputs, args)
        if answer is not None and not keeps_an_order(answer):
            cases.append({"op": op, "mesh": mesh_text(mesh), "devices_per_host": devices_per_host,
                          "inputs": list(map(input_text, inputs)), "args": args} | answer)
    return cases


# ---- Files and command line ------------------------------------------------------------------------


def parts(cases):
    """The cases as lines, in several files if one would grow too large."""
    lines, size = [], 0
    for case in cases:
        line = json.dumps(case, separators=(",", ":"), allow_nan=False)
        if size + len(line) > MAX_FILE_BYTES:
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 2
    yield lines


def write(kind, cases, arguments, torch_version):
    head = {"schema": SCHEMA, "kind": kind, "torch": torch_version,
            "arguments": arguments.text, "date": arguments.date}
    stem = kind + ("_opaque_strided" if arguments.strided == "opaque" else "")
    stem += f"_{arguments.family}" if kind == "selections" and arguments.family else ""
    files = list(parts(cases))
    for number, lines in enumerate(files, 1):
        text = json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n"
        if arguments.out is None:
            sys.stdout.write(text)
            continue
        path = Path(arguments.out)
        if path.is_dir():
            path /= f"{stem}.json" if len(files) == 1 else f"{stem}_{number}.json"
        elif len(files) > 1:
            path = path.with_stem(f"{path.stem}_{number}")
        path.write_text(text)
        print(f"{path}: {len(lines)} cases, {len(text)} bytes", file=sys.stderr)


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog="The docstring of this file explains what is written.")
    option = parser.add_argument
    option("--kind", choices=(*KINDS, "all"), default="all", help="which questions (default all)")
    option("--count", type=int, default=200, metavar="N", help="cases of each kind (default 200)")
    option("--family", choices=golden_ops.families(), help="write selections of the ops of this family only")
    option("--seed", type=int, metavar="S", help="seed of the random cases (default 1; with --random a fresh one)")
    option("--random", action="store_true", help="leave out the cases that never change")
    option("--rank", default="0", help="the rank that asks, modulo the mesh size, or 'any' (default 0)")
    option("--devices-per-host", default="1", metavar="H[,H...]", help="devices per host, one of which is drawn for each case (default 1)")
    option("--strided", choices=("order", "opaque"), default="order", help="how to read `_S`")
    option("--date", default=datetime.date.today().isoformat(), help="date that the file states (default today)")
    option("--out", metavar="FILE|DIR", help="a folder gets KIND.json (default stdout)")
    option("--any-version", action="store_true", help=f"accept a PyTorch other than {', '.join(TORCH_VERSIONS)}")
    arguments = parser.parse_args(argv)
    if arguments.kind == "all" and arguments.out is not None and not Path(arguments.out).is_dir():
        parser.error("--kind all writes several files: --out must be an existing folder")
    if arguments.seed is None:
        arguments.seed = secrets.randbelow(2**32) if arguments.random else 1
    arguments.text = " ".join(
        f"--{name.replace('_', '-')} {getattr(arguments, name)}"
        for name in ("kind", "count", "seed", "rank", "devices_per_host", "strided"))
    arguments.text += f" --family {arguments.family}" * bool(arguments.family)
    arguments.text += " --random" * arguments.random
    arguments.rank = None if arguments.rank == "any" else int(arguments.rank)
    arguments.devices_per_host = [int(h) for h in arguments.devices_per_host.split(",")]
    return arguments


def main(argv=None):
    arguments = parse_arguments(argv)
    torch = require_torch(arguments.any_version, TORCH_VERSIONS)
    torch.set_num_threads(1)
    oracle = Oracle(torch)
    oracle.opaque_strided = arguments.strided == "opaque"
    for kind in KINDS if arguments.kind == "all" else [arguments.kind]:
        if kind == "selections":
            cases = make_selection_cases(oracle, arguments)
        else:
            cases = make_transition_cases(oracle, kind, arguments)
        write(kind, cases, arguments, torch.__version__.split("+")[0])


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    main()
