"""What one more collective costs, and how much of halved bytes arrives as time."""

from typing import Any

from findings import text
from findings.measured import COLLECTIVES, GENERATIONS, Row, error_of_steps, grouped, median, rows
from findings.page import Finding
from findings.program import Shardlab
from findings.ring import Constants, leaves_domain

TITLE = "What does any communication cost?"
QUESTION = ("Communication is said to be fundamentally dearer than none: what does one more collective add to a step, what does "
            "gradient clipping's scalar cost, and how much of the bytes that fp8 halves arrives as time?")
THREAD = "https://github.com/pytorch/pytorch/pull/172282"
SLOW = False

SMALL = 4096.0  # bytes, up to which a time is the floor: latency and launch, and next to no transfer
PLACES = ("NVLink", "2 to 7 hosts", "8 hosts and more")
BANDS = ((0.0, 64e3), (64e3, 1e6), (1e6, 16e6), (16e6, 256e6), (256e6, 1e18))
STEP_RANKS = (8, 64, 512)
CLIP_RANKS = (8, 64, 256)
CLIP_LAYERS = 4
JITTER = 0.1
STACK = "calibrated-h100"


def find(program: Shardlab) -> Finding:
    known = [row for row in rows() if row.collective in COLLECTIVES]
    floors = floors_of(known)
    halves = halves_of(known)
    steps = {ranks: program.run("step", "llama3-8b", "--mesh", f"fsdp={ranks}", "--seq", 8192, "--compile") for ranks in STEP_RANKS}
    clips = {ranks: clip(program, ranks) for ranks in CLIP_RANKS}
    return Finding(answer(floors, halves, clips), body(floors, halves, steps, clips))


# ---- The floor ------------------------------------------------------------------------------------------


def place_of(row: Row) -> str:
    if not leaves_domain(row):
        return PLACES[0]
    return PLACES[1] if row.hosts < 8 else PLACES[2]


def floors_of(known: list[Row]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """By GPU and place: for each log its median time of small messages, and DTensor's price of the same."""
    small = grouped((row for row in known if row.bytes <= SMALL), lambda row: row.log)
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for log in small.values():
        times = median(row.time_us for row in log), median(Constants().price(row) for row in log)
        found.setdefault((log[0].gpu, place_of(log[0])), []).append(times)
    return found


def floor_table(floors: dict[tuple[str, str], list[tuple[float, float]]]) -> str:
    lines = []
    for gpu in GENERATIONS:
        for place in PLACES:
            logs = floors.get((gpu, place))
            if logs:
                times = [time for time, _ in logs]
                lines.append([f"`{gpu}`", place, len(logs), text.figure(min(times)), text.figure(median(times)),
                              text.figure(max(times)), text.figure(median(price for _, price in logs))])
    return text.table(["GPU", "group within", "logs:", "fastest, us:", "median, us:", "slowest, us:", "DTensor's price, us:"], lines)


# ---- Half the bytes -------------------------------------------------------------------------------------


def halves_of(known: list[Row]) -> dict[tuple[str, int], list[float]]:
    """By place and band of sizes S: the share of the halved bytes that arrives, 2 (1 - t(S/2) / t(S)), for each pair of rows."""
    found: dict[tuple[str, int], list[float]] = {}
    for log in grouped(known, lambda row: (row.log, row.collective)).values():
        times = {row.bytes: row.time_us for row in log}
        for row in log:
            if row.bytes / 2 in times:
                band = next(index for index, (least, bound) in enumerate(BANDS) if least <= row.bytes < bound)
                found.setdefault((place_of(row), band), []).append(2 * (1 - times[row.bytes / 2] / row.time_us))
    return found


def half_table(halves: dict[tuple[str, int], list[float]]) -> str:
    lines = []
    for band, (least, bound) in enumerate(BANDS):
        name = f"up to {text.size(bound)}" if not least else f"from {text.size(least)}" if bound > 1e15 else f"{text.size(least)} to {text.size(bound)}"
        cells = []
        for place in PLACES:
            shares = halves.get((place, band), [])
            saved = sum(share < 0.3 for share in shares)  # less than 15 % of the time
            cells.append(f"{100 * median(shares):.0f} % ({saved} of {len(shares)})" if shares else "-")
        lines.append([name, *cells])
    return text.table(["bytes before halving", *(f"{place}:" for place in PLACES)], lines)


# ---- Gradient clipping ----------------------------------------------------------------------------------


def clipped(program: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The program with the norm of all gradients, and all gradients divided by it, as clip_grad_norm_ does; and the names of
    the gradients before that."""
    scalar = [{"dtype": "f32", "shape": [], "stride": []}]
    gradients = [node for node in program["nodes"] if node.get("kind") == "gradient"]
    reduced = [{key: value for key, value in node.items() if key != "kind"} for node in gradients]
    names = {node["name"] for node in gradients}
    nodes = [node for node in program["nodes"] if node["name"] not in names and node.get("kind") != "output"] + reduced
    norms = [f"clip_norm_{index}" for index in range(len(gradients))]
    for name, gradient in zip(norms, gradients):
        nodes.append({"name": name, "op": "aten.linalg_vector_norm.default", "inputs": [gradient["name"]], "outputs": scalar,
                      "phase": "backward"})
    nodes.append({"name": "clip_stack", "op": "aten.stack.default", "inputs": [norms],
                  "outputs": [{"dtype": "f32", "shape": [len(norms)], "stride": [1]}], "phase": "backward"})
    nodes.append({"name": "clip_total", "op": "aten.linalg_vector_norm.default", "inputs": ["clip_stack"], "outputs": scalar,
                  "phase": "backward"})
    nodes.append({"name": "clip_scale", "op": "aten.reciprocal.default", "inputs": ["clip_total"], "outputs": scalar,
                  "phase": "backward"})
    nodes += [{"name": f"clip_mul_{index}", "op": "aten.mul.Tensor", "inputs": [gradient["name"], "clip_scale"],
               "outputs": gradient["outputs"], "phase": "backward"} for index, gradient in enumerate(gradients)]
    nodes += [node for node in program["nodes"] if node.get("kind") == "output"]
    without = {key: value for key, value in program.items() if key != "pairs"}  # of parameters and the gradients that leave
    return {**without, "nodes": nodes}, [node["name"] for node in gradients]


def clip(program: Shardlab, ranks: int) -> dict[str, float]:
    """What clipping adds to a simulated step: kernels, the scalar's collective, and the wait of ranks that differ."""
    content, gradients = clipped(program.run("program", "llama3-8b", "--layers", CLIP_LAYERS, "--batch", ranks))
    file = program.file(f"clip-{ranks}-program.json", content)
    pins = [word for name in gradients for word in ("--pin", f"{name}=S(0)")]
    plan = program.file(f"clip-{ranks}-plan.json", program.run("solve", file, "--mesh", ranks, "--recipe", "fsdp", *pins,
                                                               "--stack", STACK, "--no-fit"))
    words = ["simulate", file, "--mesh", ranks, "--plan", plan, "--stack", STACK, "--jobs", 1]
    even = program.run(*words)
    uneven = program.run(*words, "--straggler", f"jitter:{JITTER}", "--repetitions", 20)
    added = [step for step in even["steps"] if step["node"].startswith("clip_")]
    moves = [step for step in added if step["bytes_moved"]]
    waits = [step["wait_us"] for step in uneven["steps"] if step["node"].startswith("clip_") and step["bytes_moved"]]
    return {"gradients": len(gradients), "step": even["time_us"]["p50"], "collectives": len(moves),
            "bytes": max(step["bytes_moved"] for step in moves) / ranks,
            "all_reduce": sum(step["price_us"] for step in moves), "wait": sum(waits),
            "kernels": sum(step["price_us"] for step in added) - sum(step["price_us"] for step in moves)}


# ---- The page -------------------------------------------------------------------------------------------


def answer(floors: dict[tuple[str, str], list[tuple[float, float]]], halves: dict[tuple[str, int], list[float]],
           clips: dict[int, dict[str, float]]) -> str:
    inside = [time for (_, place), logs in floors.items() if place == PLACES[0] for time, _ in logs]
    between = [time for (_, place), logs in floors.items() if place != PLACES[0] for time, _ in logs]
    small = [share for (_, band), shares in halves.items() if band < 2 for share in shares]
    large = [share for (_, band), shares in halves.items() if band == len(BANDS) - 1 for share in shares]
    last = clips[CLIP_RANKS[-1]]
    return (
        f"One more collective costs at least {text.figure(median(inside))} us inside NVLink and {text.figure(median(between))} us between hosts (medians of logs, "
        f"which reach from {text.figure(min(inside))} to {text.figure(max(between))} us), however few the bytes. Halving the bytes "
        f"saves {100 * median(small):.0f} % of what a time in proportion to the bytes would save below 1 MB, and {100 * median(large):.0f} % above "
        f"256 MB. Clipping's scalar costs "
        f"{text.microseconds(last['all_reduce'])} on {CLIP_RANKS[-1]} simulated ranks, and {text.microseconds(last['wait'])} more of waiting once ranks differ by "
        f"{100 * JITTER:.0f} %, together {text.percent(last['all_reduce'] + last['wait'], last['step'], 2)} of a step of {CLIP_LAYERS} layers; "
        f"one all-reduce for each gradient's norm would take {text.microseconds(last['all_reduce'] * last['gradients'])}.")


def body(floors: dict[tuple[str, str], list[tuple[float, float]]], halves: dict[tuple[str, int], list[float]],
         steps: dict[int, Any], clips: dict[int, dict[str, float]]) -> str:
    step_rows = []
    for ranks, step in steps.items():
        exposed = step["breakdown_ms"]["exposed"]
        step_rows.append([ranks, text.figure(step["step_ms"], 5), text.figure(sum(value for kind, value in exposed.items() if kind in COLLECTIVES)),
                          text.figure(exposed.get("contention", 0)), text.figure(exposed.get("waiting", 0))])
    clip_rows = [[ranks, f"{found['gradients']:.0f}", f"{found['collectives']:.0f}", text.size(found["bytes"]), text.figure(found["all_reduce"]), text.figure(found["wait"]),
                  text.figure(found["kernels"]), text.percent(found["all_reduce"] + found["wait"], found["step"], 2),
                  text.figure(found["all_reduce"] * found["gradients"])] for ranks, found in clips.items()]
    return f"""
## The floor: one more collective, however small

{floor_table(floors)}

Each log counts with the median of its times up to {text.size(SMALL)}, of all_gather, reduce_scatter, all_reduce and all_to_all; fastest and slowest are logs.
DTensor's price is what 2.13 to 2.15 charge for the same messages.

## A collective in a step

{text.table(["ranks:", "step, ms:", "collectives exposed, ms:", "contention, ms:", "waiting for others, ms:"], step_rows)}

LLaMA3-8B under FSDP, compiled, sequences of 8,192 tokens, on H100s: `step`, whose terms are fitted to published step times. Most
collectives hide behind kernels; what stays is their contention with kernels, and that all ranks wait for the slowest. Both grow with
each collective, and neither is in any price that DTensor compares.

## Gradient clipping: one scalar

{text.table(["ranks:", "gradients:", "collectives:", "bytes of a rank:", "all-reduce, us:", "wait for it, us:", "kernels, us:", "of the step:", "one by one, us:"], clip_rows)}

{CLIP_LAYERS} layers of LLaMA3-8B under FSDP with the norms of all gradients stacked, reduced once, and all gradients scaled by the result, run on virtual
ranks in virtual time by `{STACK}`; wait is that of the all-reduce when each kernel's time on each rank varies log-normally by {100 * JITTER:.0f} %. The share is that of
all-reduce and wait in a step of {CLIP_LAYERS} layers; with more layers it shrinks. One by one: what the all-reduces would take if each gradient's norm were reduced by
itself.

## Half the bytes

{half_table(halves)}

How much of the halved bytes arrives as time, `2 (1 - t(S/2) / t(S))`, as median over all pairs of rows of one log and collective whose sizes differ by a
factor of 2. In brackets: pairs in which less than 15 % of the time is saved. fp8 in place of bf16 halves the bytes and adds the kernels that scale and
cast, which these rows do not contain.

## What to do

- Charge a redistribution something even if its bytes are few: the floor is several times what a scalar's transfer takes.
- Merge small collectives before making them smaller: below 1 MB the number of collectives is what costs, not their bytes.
- Send fp8 where messages are above 16 MB; below, halving the payload saves little.

## By hand

{text.commands("shardlab step llama3-8b --mesh fsdp=64 --seq 8192 --compile", "shardlab describe measurement h100_1x8_all_reduce_dgxc",
               "scripts/generate_findings.sh communication")}

## What this rests on

Floor and halves: measured, the healthy logs of nccl-tests in `configs/measurements`; nccl-tests calls one collective after another, so its times
contain no wait for a late rank. Steps: models, fitted to published runs; on sources left out their median error is {error_of_steps()} % ([scoreboard](../scoreboard.md)). Clipping:
simulated with prices that are fitted to logs; the variation of {100 * JITTER:.0f} % is assumed. No GPU was measured for this page.
"""
