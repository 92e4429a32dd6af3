#!/usr/bin/env python3
"""Time the questions of tests/bench in a real PyTorch DTensor.

    scripts/bench_pytorch.py                       # medians as JSON on stdout
    scripts/bench_pytorch.py --dims 1,2,3 --seconds 0.5
    scripts/bench_pytorch.py --write-questions     # draw tests/bench/questions.json anew; needs no torch

PyTorch runs on a fake process group: one process, no data, no GPU. Every answer is found with all of
PyTorch's caches cleared (clearing is not timed); only what belongs to the mesh stays warm. These are
timed:

graph    _gen_transform_infos_non_cached with the min-cost planner forced
greedy   the same with PyTorch's default planner; only pairs that it plans greedily
an op    ShardingPropagator.propagate_op_sharding_non_cached: strategies, their costs, the choice

Each pair, and each call of an op, is asked again and again until --seconds are used up, at least once and
at most --repetitions times; its time is the median. The time of a mesh is the median over its pairs.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path

from gen_golden_dtensor import Layout, Oracle, Questions, require_torch

QUESTIONS = Path(__file__).resolve().parent.parent / "tests" / "bench" / "questions.json"
QUESTIONS_SCHEMA = "shardlab/bench-questions/1"
SCHEMA = "shardlab/bench-pytorch/1"
DEVICES_PER_HOST = 8
PAIRS = 32


# ---- Questions -------------------------------------------------------------------------------------


def text_of(layout):
    """The text of a layout, such as S(0)[1]S(0)[0]R; indices are shown only where the order is not the default one."""
    texts = list(layout.placements)
    for mesh_dims in (layout.order or {}).values():
        if mesh_dims != sorted(mesh_dims):
            for position, mesh_dim in enumerate(mesh_dims):
                texts[mesh_dim] += f"[{position}]"
    return "".join(texts)


def layout_of(text):
    """The inverse of text_of."""
    placements, order, rest = [], {}, text
    while rest:
        end = 1 if rest[0] == "R" else rest.index(")") + 1
        placements.append(rest[:end])
        rest = rest[end:]
        if rest.startswith("["):
            index, _, rest = rest[1:].partition("]")
            dim = int(placements[-1][2:-1])
            order.setdefault(dim, {})[int(index)] = len(placements) - 1
    if order:  # tensor dims without indices have the default order
        for mesh_dim, placement in enumerate(placements):
            if placement[0] == "S" and int(placement[2:-1]) not in order:
                same = [m for m, p in enumerate(placements) if p == placement]
                order[int(placement[2:-1])] = dict(enumerate(same))
    return Layout(placements, {d: [dims[i] for i in sorted(dims)] for d, dims in order.items()} or None)


def draw_questions(seed):
    """Pairs of layouts that differ, without strided shards, on meshes of size 2 in each dim."""
    questions = Questions(seed, opaque_strided=False)
    meshes = []
    for ndim in range(1, 6):
        mesh, pairs = (2,) * ndim, []
        while len(pairs) < PAIRS:
            pair = [questions.layout(mesh, 3), questions.layout(mesh, 3, (38, 50, 12))]
            pair = [text_of(layout) for layout in pair]
            if pair[0] != pair[1] and "_S" not in "".join(pair):
                pairs.append(pair)
        left = "".join("R" if m % 2 else "S(0)" for m in range(ndim))
        right = "".join("S(1)" if m % 2 else "R" for m in range(ndim))
        inputs = [f"f32[4096,4096] {left}", f"f32[4096,4096] {right}"]
        meshes.append({"mesh": "x".join(map(str, mesh)), "tensor": "f32[512,1024,1024]", "pairs": pairs,
                       "ops": {"aten.mm.default": inputs, "aten.add.Tensor": inputs}})
    return {"schema": QUESTIONS_SCHEMA, "seed": seed, "devices_per_host": DEVICES_PER_HOST,
            "meshes": meshes}


def questions_text(questions):
    """JSON with one pair per line."""
    text = json.dumps(questions, indent=1)
    for mesh in questions["meshes"]:
        for pair in mesh["pairs"]:
            text = text.replace(json.dumps(pair, indent=1).replace("\n", "\n    "), json.dumps(pair))
    return text + "\n"


# ---- Timing ----------------------------------------------------------------------------------------


class TimedOracle(Oracle):
    """The oracle with PyTorch's own planners, which pay nothing for settling the order of hash sets."""

    def _isolate_planners(self):
        pass


class Clock:
    """Medians of functions in microseconds, each from at most `repetitions` calls."""

    def __init__(self, repetitions, seconds):
        self.repetitions, self.seconds = repetitions, seconds

    def median(self, prepare, function):
        times, begin = [], time.perf_counter()
        while not times or (len(times) < self.repetitions
                            and time.perf_counter() - begin < self.seconds):
            prepare()
            start = time.perf_counter_ns()
            function()
            times.append((time.perf_counter_ns() - start) / 1000)
        return statistics.median(times)


def tensor_of(text):
    dtype, _, shape = text.rstrip("]").partition("[")
    return dtype, [int(extent) for extent in shape.split(",")]


def time_plans(oracle, clock, mesh, graph):
    """The median of the pairs' times; without `graph`, of only those pairs that are planned greedily."""
    times = []
    for pair in mesh["pairs"]:
        source, target = map(layout_of, pair)
        if not graph and (source.order or target.order):
            continue
        a, b = (oracle.spec(tensor_of(mesh["tensor"]), layout) for layout in (source, target))
        times.append(clock.median(oracle.forget, lambda: oracle.steps(a, b, graph)))
    return {"us": statistics.median(times), "mean_us": statistics.fmean(times), "pairs": len(times)}


def time_op(oracle, clock, op, inputs):
    from torch.distributed.tensor._op_schema import OpSchema

    packet, overload = op.removeprefix("aten.").split(".")
    overload = getattr(getattr(oracle.torch.ops.aten, packet), overload)
    propagator = oracle.propagator
    info = propagator.op_to_schema_info.get(overload)
    info = info or propagator.op_to_schema_info_for_single_dim_strategy.get(overload)
    specs = []
    for text in inputs:
        tensor, _, layout = text.partition(" ")
        specs.append(oracle.spec(tensor_of(tensor), layout_of(layout)))
    schema = OpSchema(overload, tuple(specs), {}, schema_info=info)
    answer = propagator.propagate_op_sharding_non_cached
    return {"us": clock.median(oracle.forget, lambda: answer(schema))}


def measure(oracle, clock, mesh, devices_per_host):
    shape = tuple(map(int, mesh["mesh"].split("x")))
    oracle.enter(shape, devices_per_host)
    times = {}
    gc.collect()
    gc.disable()  # a collection would count against whichever question it falls into
    times["graph"] = time_plans(oracle, clock, mesh, graph=True)
    times["greedy"] = time_plans(oracle, clock, mesh, graph=False)
    for op, inputs in mesh["ops"].items():
        gc.collect()
        times[op] = time_op(oracle, clock, op, inputs)
    gc.enable()
    print(f"mesh {mesh['mesh']}: " + ", ".join(f"{k} {v['us']:.1f} us" for k, v in times.items()),
          file=sys.stderr)
    return {"mesh": mesh["mesh"], "times": times}


# ---- Command line ----------------------------------------------------------------------------------


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog="The docstring of this file explains what is timed.")
    option = parser.add_argument
    option("--dims", default="1,2,3,4,5", help="meshes with these many dims (default 1,2,3,4,5)")
    option("--seconds", type=float, default=0.25, help="seconds for each question (default 0.25)")
    option("--repetitions", type=int, default=50, help="the most repetitions of each question (default 50)")
    option("--write-questions", action="store_true", help=f"write {QUESTIONS.name} and exit")
    option("--seed", type=int, default=1, help="seed of the questions that --write-questions writes (default 1)")
    option("--any-version", action="store_true", help="accept a PyTorch other than 2.13.0")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = parse_arguments(argv)
    if arguments.write_questions:
        QUESTIONS.write_text(questions_text(draw_questions(arguments.seed)))
        return
    torch = require_torch(arguments.any_version)
    torch.set_num_threads(1)
    questions = json.loads(QUESTIONS.read_text())
    dims = {int(n) for n in arguments.dims.split(",")}
    oracle, clock = TimedOracle(torch), Clock(arguments.repetitions, arguments.seconds)
    measure(oracle, Clock(1, 0.0), questions["meshes"][0], questions["devices_per_host"])  # warm up
    meshes = [measure(oracle, clock, mesh, questions["devices_per_host"])
              for mesh in questions["meshes"] if mesh["mesh"].count("x") + 1 in dims]
    json.dump({"schema": SCHEMA, "torch": torch.__version__, "seed": questions["seed"],
               "meshes": meshes}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
