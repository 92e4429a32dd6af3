#!/usr/bin/env python3
"""Records small traces of PyTorch's profiler: collectives of a few CPU ranks under gloo, one file per rank.

  python3 scripts/record_trace.py tests/golden/traces --ranks 2

Writes FOLDER/gloo_RANK.json. It keeps what shardlab reads (costmodel/measurements/kineto_trace.h), the version of
PyTorch and one event of another kind. It leaves out hosts, processes and paths.
"""
import argparse
import json
import os
import pathlib

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ProfilerActivity, profile

KEPT_KEYS = ("schemaVersion", "deviceProperties", "record_shapes", "distributedInfo", "displayTimeUnit")
KEPT_ARGS = ("Input type", "Input Dims", "External id")


def step(world, elements):
    one = torch.ones(elements)
    many = torch.ones(elements * world, dtype=torch.float64)
    dist.all_reduce(one)
    dist.broadcast(one, 0)
    dist.all_gather([torch.empty_like(one) for _ in range(world)], one)
    dist.all_to_all_single(torch.empty_like(many), many)
    dist.barrier()


def stripped(trace):
    out = {key: trace[key] for key in KEPT_KEYS if key in trace}
    out["host_name"] = "host"
    out["torch"] = torch.__version__
    out["traceEvents"] = []
    others = 0
    for event in trace["traceEvents"]:
        is_gloo = event.get("cat") == "user_annotation" and event["name"].startswith("gloo:")
        if not is_gloo:
            others += event.get("cat") == "cpu_op"
            if event.get("cat") != "cpu_op" or others > 1:
                continue
        kept = {key: event[key] for key in ("ph", "cat", "name", "ts", "dur")}
        kept["pid"], kept["tid"] = 1, 1
        kept["args"] = {key: event["args"][key] for key in KEPT_ARGS if key in event["args"]}
        out["traceEvents"].append(kept)
    return out


def work(rank, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(arguments.port))
    dist.init_process_group("gloo", rank=rank, world_size=arguments.ranks)
    step(arguments.ranks, 1024)  # sets up the connections
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for elements in (1024, 16384, 16384):
            step(arguments.ranks, elements)
    path = arguments.folder / f"gloo_{rank}.json"
    profiler.export_chrome_trace(str(path))
    trace = stripped(json.loads(path.read_text()))
    events = ",\n".join(json.dumps(event) for event in trace.pop("traceEvents"))
    path.write_text(json.dumps(trace)[:-1] + ',\n"traceEvents": [\n' + events + "\n]}\n")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--port", type=int, default=29617, help="a free TCP port of this machine")
    arguments = parser.parse_args()
    mp.spawn(work, args=(arguments,), nprocs=arguments.ranks)


if __name__ == "__main__":
    main()
