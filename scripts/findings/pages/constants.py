"""What DTensor's constants of collectives should be on each GPU, and what changes if PyTorch takes them."""

from dataclasses import astuple, replace

from findings import ring, text
from findings.measured import COLLECTIVES, GENERATIONS, Row, error_percent, errors_of_calibrated, grouped, median, rows
from findings.page import Finding
from findings.program import Shardlab
from findings.ring import NAMES, Constants

TITLE = "What should the constants of DTensor's cost model be?"
QUESTION = ("DTensor prices every collective with 87.7 GB/s inside a host, 0.22 of that between hosts, 0.6 and 2.7 us for "
            "each hop, and 6.6 us to start: what should these be on each GPU by measured logs, and how many decisions "
            "change if PyTorch takes them?")
THREAD = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/_collective_utils.py"
SLOW = True

BASELINE = "dtensor-2.15"
READ_AS = {"base_latency_us": "base latency", "intra_host_hop_us": "hop inside", "inter_host_hop_us": "hop between",
           "bandwidth_gb_per_s": "GB/s inside", "inter_host_factor": "factor between"}
BANDS = (("below 1 MB", 0.0, 1e6), ("1 to 64 MB", 1e6, 64e6), ("above", 64e6, 1e18))


def find(program: Shardlab) -> Finding:
    of_gpu = grouped((row for row in rows() if row.collective in COLLECTIVES), lambda row: row.gpu)
    fitted: dict[str, Constants] = {}
    held_out: dict[str, dict[str, Constants]] = {}
    for gpu in GENERATIONS:
        # What no log of a GPU says is taken from H100: the logs of H200 are all between hosts.
        prior = fitted["h100"] if gpu == "h200" else Constants()
        fitted[gpu] = ring.fit(of_gpu[gpu], prior)
        held_out[gpu] = {source: ring.fit([row for row in of_gpu[gpu] if row.source != source], prior)
                         for source in sorted({row.source for row in of_gpu[gpu]})}
    suites = [suite for suite in program.names("suites") if suite != "ops-small"]
    decisions = {gpu: Decisions(program, gpu, [constants], suites) for gpu, constants in fitted.items()}
    single = [replace(Constants(), **{name: getattr(fitted["h100"], name)}) for name in NAMES]
    one_by_one = Decisions(program, "h100", single, ["ops-full"])
    return Finding(answer(fitted, held_out, of_gpu, decisions), body(fitted, held_out, of_gpu, decisions, one_by_one, suites))


class Decisions:
    """What changes when the baseline's constants are replaced, judged by the calibrated stack of a GPU."""

    def __init__(self, program: Shardlab, gpu: str, candidates: list[Constants], suites: list[str]) -> None:
        paths = [program.variant(BASELINE, {"collective_model": {"name": "dtensor", "params": parameters(each)}})
                 for each in candidates]
        words = ["compare", "--baseline", BASELINE, "--topology", gpu, "--reference", f"calibrated-{gpu}", "--verify", 0]
        for path in paths:
            words += ["--candidate", path]
        for suite in suites:
            words += ["--suite", suite]
        found = program.run(*words)
        self.names = [path.stem for path in paths]
        self.questions: dict[str, int] = {suite["name"]: suite["questions"] for suite in found["suites"]}
        self.suites = found["suites"]
        self.flips = found["flips"]

    def flipped(self, name: str, generated: bool) -> list[dict[str, object]]:
        return [flip for flip in self.flips
                if flip["stack"] == name and flip["suite"].startswith("ops-") == generated]

    def delta(self, name: str, generated: bool) -> tuple[float, float]:
        """Microseconds before, and the change, over the suites of one kind."""
        chosen = [suite for suite in self.suites
                  if suite["stack"] == name and suite["name"].startswith("ops-") == generated]
        return sum(suite["total_us"]["baseline"] for suite in chosen), sum(suite["delta_us"] for suite in chosen)


def parameters(constants: Constants) -> dict[str, float]:
    return {name: float(f"{value:.3g}") for name, value in zip(NAMES, astuple(constants))}


def errors(all_rows: list[Row], constants: Constants | dict[str, Constants]) -> list[str]:
    """The median absolute error in each band of sizes, in percent."""
    cells = []
    for _, least, bound in BANDS:
        found = [error_percent((constants if isinstance(constants, Constants) else constants[row.source]).price(row), row)
                 for row in all_rows if least <= row.bytes < bound]
        cells.append(text.figure(median(found)) if found else "-")
    return cells


def answer(fitted: dict[str, Constants], held_out: dict[str, dict[str, Constants]], of_gpu: dict[str, list[Row]],
           decisions: dict[str, Decisions]) -> str:
    known = {gpu: constants for gpu, constants in fitted.items() if not ring.unknown(of_gpu[gpu])}
    bandwidths = [constants.bandwidth_gb_per_s for constants in known.values()]
    starts = [constants.base_latency_us for constants in known.values()]
    aside = "".join(f" (without `{gpu}`, whose logs are all between hosts and put the start at {text.figure(constants.base_latency_us)} us)"
                    for gpu, constants in fitted.items() if gpu not in known)
    every = [row for gpu in fitted for row in of_gpu[gpu]]
    before, after = [[median(error_percent(price(row), row) for row in every if least <= row.bytes < bound) for _, least, bound in
                      (BANDS[0], BANDS[-1])]
                     for price in (Constants().price, lambda row: held_out[row.gpu][row.source].price(row))]
    flips = [each.flipped(each.names[0], generated=True) for each in decisions.values()]
    counts = [len(each) for each in flips]
    told = {verdict: sum(flip["verdict"] == verdict for each in flips for flip in each) for verdict in ("better", "worse")}
    programs = [len(each.flipped(each.names[0], generated=False)) for each in decisions.values()]
    questions = next(iter(decisions.values())).questions
    recorded = sum(number for name, number in questions.items() if not name.startswith("ops-"))
    return (
        f"Inside a host, the logs ask for {text.figure(min(bandwidths))} to {text.figure(max(bandwidths))} GB/s instead of 87.7 and for a "
        f"start of {text.figure(min(starts))} to {text.figure(max(starts))} us instead of 6.6, depending on the generation{aside}. On "
        f"sources that the fit has not seen, the median error of prices goes from {text.figure(before[1])} % to {text.figure(after[1])} % from 64 MB on, and from "
        f"{text.figure(before[0])} % to {text.figure(after[0])} % below 1 MB. The constants matter for times and hardly for decisions: of {recorded:,} "
        f"questions of recorded programs {f'{min(programs)} to {max(programs)}' if any(programs) else 'none'} changes its answer, and of "
        f"{questions['ops-full']:,} on random layouts {min(counts)} to {max(counts)} do; over all GPUs, {told['better']} of these flips are "
        f"certainly better and {told['worse']} certainly worse.")


def body(fitted: dict[str, Constants], held_out: dict[str, dict[str, Constants]], of_gpu: dict[str, list[Row]],
         decisions: dict[str, Decisions], one_by_one: Decisions, suites: list[str]) -> str:
    gpu_rows = []
    for gpu, constants in fitted.items():
        missing = ring.unknown(of_gpu[gpu])
        cells = [text.figure(value) + (" *" if name in missing else "") for name, value in zip(NAMES, astuple(constants))]
        logs = {row.log for row in of_gpu[gpu]}
        gpu_rows.append([f"`{gpu}`", *cells, len(logs), len({row.source for row in of_gpu[gpu]})])
    error_rows = []
    for gpu in fitted:
        error_rows.append([f"`{gpu}`", "PyTorch's", *errors(of_gpu[gpu], Constants())])
        error_rows.append(["", "fitted, all logs", *errors(of_gpu[gpu], fitted[gpu])])
        error_rows.append(["", "fitted, source left out", *errors(of_gpu[gpu], held_out[gpu])])
    decision_rows = []
    for gpu, found in decisions.items():
        for generated in (False, True):
            name = found.names[0]
            decision_rows.append([f"`{gpu}`", "`ops-full`" if generated else f"{len(suites) - 1} recorded programs",
                                  *verdicts(found, name, generated)])
    singles = [[f"`{name}`", f"{text.figure(getattr(Constants(), name))} to {text.figure(getattr(fitted['h100'], name))}",
                *verdicts(one_by_one, stack, True)] for name, stack in zip(NAMES, one_by_one.names)]
    flip_columns = ["flips:", "better:", "worse:", "equal:", "undecided:", "time:"]
    return f"""
## Constants to paste

{text.table(["GPU", "base latency, us:", "hop inside, us:", "hop between, us:", "bandwidth, GB/s:", "factor between:", "logs:", "sources:"], [["PyTorch", *(text.figure(value) for value in astuple(Constants())), "-", "-"], *gpu_rows])}

The same as Python:

{paste(fitted, of_gpu)}

\\* No log of this GPU says it; the value of `h100` is taken. In PyTorch 2.13 to 2.15 the first constant is the `6.6` of `allgather_cost` and its
neighbours, and the others stand in `MeshTopoInfo.build_from_mesh` (`torch/distributed/tensor/_collective_utils.py`). Their units are
PyTorch's: sizes in GiB are divided by GB/s. PyTorch asks whether a mesh dim leaves the host; for `gb200` the fit asks whether
it leaves the 72 GPUs that NVLink joins, so these constants need that question in PyTorch too.

## How far prices are off, in percent

{text.table(["GPU", "constants", *(f"{name}:" for name, *_ in BANDS)], error_rows)}

Medians of the absolute error over all rows of healthy logs. In the third row of each GPU every source is predicted by a fit to the other
sources. A ring with one bandwidth cannot follow NCCL's switches of algorithm and protocol: on the same logs the form that
`calibrate` fits by default is off by {text.listed([f"{each} %" for each in errors_of_calibrated()])} on sources left out ([scoreboard](../scoreboard.md)). Where hosts are joined by different networks, one number for "between hosts" stands
for none of them.

## How many decisions change

{text.table(["GPU", "questions", *flip_columns], decision_rows)}

`{BASELINE}` with the constants of the GPU against `{BASELINE}` as it is, on the topology of the GPU, judged by its calibrated stack, which is fitted
to the same logs. A flip is undecided where the reference knows the difference too badly to tell its sign (95 %); time is the change of
what all choices take together. Only ratios of prices decide: constants that all grow by one factor flip nothing.

One constant at a time, `h100`, `ops-full`:

{text.table(["constant", "from and to", *flip_columns], singles)}

## What to do

- Take the bandwidth of each generation if costs are shown to people as times: large messages are priced several times too high today.
- Do not expect other decisions from any of these constants.
- Leave latencies alone unless they come from the cluster in question: below 1 MB clusters differ more than generations do.
- A cluster of your own needs no table: `shardlab calibrate LOG...` fits a stack to its logs.

## By hand

{text.commands("shardlab compare --baseline dtensor-2.15 --set stack.collective_model.params.bandwidth_gb_per_s="
               + format(parameters(fitted["h100"])["bandwidth_gb_per_s"], "g") + " --suite ops-full --reference calibrated-h100",
               "scripts/generate_findings.sh constants")}

## What this rests on

Measured: the healthy logs of nccl-tests in `configs/measurements` (public clusters; `h100` holds GH200, `b200` B300 and `gb200` GB300;
A100 with NVLink only). The fit minimises absolute errors of ln(time), each log counting as one; constants that rows say nothing about stay near
PyTorch's (`scripts/findings/ring.py`). Decisions: shardlab's stack of PyTorch 2.15.0, which agrees with recorded decisions of that release
(docs/trust.md). No GPU was measured for this page.
"""


def paste(fitted: dict[str, Constants], of_gpu: dict[str, list[Row]]) -> str:
    """The table as a literal of Python."""
    lines = ["```python", "# base latency us, hop us inside and between hosts, GB/s inside, factor between", "COLLECTIVE_CONSTANTS = {"]
    for gpu, constants in fitted.items():
        taken = [READ_AS[name] for name in ring.unknown(of_gpu[gpu])]
        comment = f"  # no log says the {text.listed(taken)}, taken from h100" if taken else ""
        lines.append(f'    "{gpu}": ({", ".join(format(value, "g") for value in parameters(constants).values())}),{comment}')
    return "\n".join([*lines, "}", "```"])


def verdicts(found: Decisions, name: str, generated: bool) -> list[str]:
    flips = found.flipped(name, generated)
    better = sum(flip["verdict"] == "better" for flip in flips)
    worse = sum(flip["verdict"] == "worse" for flip in flips)
    equal = sum(flip["verdict"] == "equal" for flip in flips)
    before, delta = found.delta(name, generated)
    return [str(len(flips)), str(better), str(worse), str(equal),
            str(len(flips) - better - worse - equal),
            f"{100 * delta / before:+.3f} %" if delta else "0"]
