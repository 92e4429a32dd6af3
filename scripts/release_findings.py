#!/usr/bin/env python3
"""Writes what changed for users between two releases of PyTorch, as Markdown on stdout.

    scripts/release_findings.py BINARY BASELINE CANDIDATE

scripts/generate_release_findings.sh calls it and keeps the page fresh. It records the choices of both stacks for all
suites (`shardlab record`), compares their strategy sets and choices operator by operator, and prices what flips by a
reference that was fitted to measured rows (`shardlab compare`).
"""

import collections
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ["ops-full"]
REFERENCE = "calibrated-h100"
LISTED_SETS = 6  # questions of an operator whose candidates are listed to find the cause
COLLECTIVES = {("S", "R"): "all_gather", ("S", "S"): "all_to_all", ("P", "R"): "all_reduce", ("P", "S"): "reduce_scatter"}
SIZES = {"f64": 8, "i64": 8, "c64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "c128": 16}


class Shardlab:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def run(self, *words):
        ran = subprocess.run([self.binary, *map(str, words), "--quiet", "--format", "json"], capture_output=True, text=True,
                             check=False)
        if ran.returncode != 0:
            raise SystemExit(f"shardlab {' '.join(map(str, words))}: {ran.stderr}")
        return json.loads(ran.stdout)

    def choices(self, stack, suite):
        """{question as text: choice} of a stack for a suite."""
        out = self.folder / f"{stack}-{suite}.choices.json"
        self.run("record", "--stack", stack, "--suite", suite, "--out", out)
        return {json.dumps(choice["question"], sort_keys=True): choice for choice in json.loads(out.read_text())["choices"]}

    def candidates(self, stack, question):
        words = ["select", "--stack", stack, "--op", question["op"], "--mesh", question["mesh"], "--inputs",
                 *question["inputs"]]
        if question.get("args"):
            words += ["--args", json.dumps(question["args"])]
        answer = self.run(*words)
        answer = answer.get("children", [answer])[0]
        return [f"{';'.join(each['inputs'])}|{';'.join(each['outputs'])}" for each in answer["candidates"]]


def cause_of(before, after):
    """Why two lists of candidates differ."""
    if before == after:
        return "same list"
    if set(before) == set(after):
        return "order"
    added, removed = set(after) - set(before), set(before) - set(after)
    return "rules added and removed" if added and removed else "rules added" if added else "rules or shards removed"


def placements(layout):
    return re.findall(r"(?:_S|MP|NP|S|P|R)(?:\([^)]*\))?(?:\[\d+\])?", layout)


def kind(placement):
    return "S" if placement.lstrip("_").startswith("S") else "P" if "P" in placement else "R"


def moved(choice):
    """{collective: [count, bytes]} of one choice. Bytes are those of the larger of one rank's two buffers."""
    totals = collections.defaultdict(lambda: [0, 0.0])
    question = choice["question"]
    texts = question.get("inputs") or [f"{question['tensor']} {question['from']}"]
    tensors = [text for value in texts for text in value.strip("[]").split("; ") if "[" in text]
    if question.get("inputs"):
        tensors = []
        for value in question["inputs"]:
            if value != "none":
                inner = value[1:-1].split("; ") if value.startswith("[") else [value]
                tensors += [text for text in inner if text != "none"]
    sizes = [int(size.split("=")[-1]) for size in re.split("[x,]", question["mesh"])]
    state = {}
    for step in choice["steps"]:
        found = re.match(r"([a-z0-9]+)\[([0-9,]*)\] ?(.*)", tensors[step["input"]])
        layout = state.setdefault(step["input"], placements(found[3]) or ["R"] * len(sizes))
        size = SIZES.get(found[1], 1) * math.prod(int(extent) for extent in found[2].split(",") if extent)
        local = size / math.prod(n for n, placement in zip(sizes, layout) if kind(placement) == "S")
        collective = COLLECTIVES.get((kind(step["from"]), kind(step["to"])))
        if collective:
            totals[collective][0] += 1
            totals[collective][1] += local * (sizes[step["mesh_dim"]] if collective == "all_gather" else 1)
        layout[step["mesh_dim"]] = step["to"]
    return totals


def all_moved(choices):
    totals = collections.defaultdict(lambda: [0, 0.0])
    for choice in choices:
        for collective, (count, size) in moved(choice).items():
            totals[collective][0] += count
            totals[collective][1] += size
    return totals


def gigabytes(size):
    return f"{size / 1e9:,.1f}"


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def print_rules(baseline, candidate):
    """What the proofs on virtual ranks found in both rule sets; their tables are committed beside the page."""
    texts = {stack: (ROOT / "reports" / "findings" / f"rules-{stack}.txt").read_text() for stack in (baseline, candidate)}
    unsound = {stack: set(re.findall(r"^  unsound (\S+)  (.*)$", text, re.M)) for stack, text in texts.items()}
    counts = {stack: re.match(r"rule set \S+: (\d+) ops, (\d+) rows, (\d+) unsound, (\d+) missing", text).groups()
              for stack, text in texts.items()}
    print("\n## Rules, proved on virtual ranks\n")
    print("| rule set | operators | rows | unsound | missing |")
    print("|---|---:|---:|---:|---:|")
    for stack, (ops, rows, wrong, missing) in counts.items():
        print(f"| [`{stack}`](rules-{stack}.txt) | {int(ops):,} | {int(rows):,} | {wrong} | {int(missing):,} |")
    old, new = unsound[baseline], unsound[candidate]
    refused = re.findall(r"^  not proved: (\S+) has no sample call", texts[candidate], re.M)
    print(f"\n{len(old & new)} of the {len(old)} unsound rows are still there, {len(new - old)} are new "
          f"({', '.join(f'`{op}`' for op in sorted({op for op, _ in new - old})) or 'none'}). Of the {len(old - new)} that are gone, "
          f"{sum(op in refused for op, _ in old - new)} are of operators that the newer release refuses as a whole "
          f"({', '.join(f'`{op}`' for op in refused)}).")


def print_cases(shardlab, baseline, candidate):
    """What became of the faults of the corpus, and of what its threads describe."""
    verdicts = []
    for case in shardlab.run("regress")["cases"]:
        by_stack = {release["stack"]: release["verdict"] for release in case["releases"]}
        if by_stack:
            verdicts.append((case["id"], case["title"], by_stack[baseline], by_stack[candidate]))
    faults = [row for row in verdicts if row[3] in ("still there", "mended", "not yet there")]
    laws = [row for row in verdicts if row not in faults]
    still = [row for row in faults if row[3] == "still there"]
    print("\n## Cases of the corpus\n")
    print(f"Of {len(faults)} faults that threads report and `shardlab regress` keeps, {len(still)} are still there in "
          f"`{candidate}`. Of {len(laws)} rules of behaviour, {sum(row[3] == 'as in the thread' for row in laws)} hold as the "
          f"thread describes them. The table lists faults that are still there, and cases whose verdict the releases differ in.\n")
    print(f"| case | what | `{baseline}` | `{candidate}` |")
    print("|---|---|---|---|")
    for name, title, before, after in verdicts:
        if after == "still there" or before != after:
            print(f"| {name} | {title} | {before} | {after} |")


def main():
    binary, baseline, candidate = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        shardlab = Shardlab(binary, Path(name))
        recorded = [suite for suite in shardlab.run("list", "suites")["suites"] if not suite.startswith("ops-")]
        suites = GENERATED + recorded
        torch = {stack: stack.removeprefix("dtensor-") for stack in (baseline, candidate)}
        print(f"# From PyTorch {torch[baseline]} to {torch[candidate]}: which sharding decisions changed?\n")
        print("Generated by `scripts/generate_release_findings.sh`; do not edit. The stacks "
              f"`{baseline}` and `{candidate}` answer the same questions; both are compared with recorded decisions of the "
              "PyTorch that they are named after (docs/trust.md). Prices are those of the reference "
              f"`{REFERENCE}`, which was fitted to measured rows of one kind of machine.\n")
        ops = collections.defaultdict(lambda: {"questions": 0, "sets": 0, "choices": 0, "causes": collections.Counter()})
        rows, answered = [], 0
        for suite in suites:
            before, after = shardlab.choices(baseline, suite), shardlab.choices(candidate, suite)
            both = [key for key in before if key in after]
            answered += len(both)
            sets = choices = 0
            for key in both:
                old, new = before[key], after[key]
                op = ops[old["question"].get("op", "redistribute")]
                op["questions"] += 1
                if old["inputs"] != new["inputs"] or old["outputs"] != new["outputs"] or old["steps"] != new["steps"]:
                    op["choices"] += 1
                    choices += 1
                if old.get("set_digest") != new.get("set_digest"):
                    op["sets"] += 1
                    sets += 1
                    if sum(op["causes"].values()) < LISTED_SETS:
                        op["causes"][cause_of(shardlab.candidates(baseline, old["question"]),
                                              shardlab.candidates(candidate, old["question"]))] += 1
            compared = shardlab.run("compare", "--baseline", baseline, "--candidate", candidate, "--suite", suite,
                                    "--reference", REFERENCE, "--no-timing")
            flips = compared["flips"]
            better = sum(flip["verdict"] == "better" for flip in flips)
            worse = sum(flip["verdict"] == "worse" for flip in flips)
            gain = sum((flip["gain_us"] or 0.0) * flip["count"] for flip in flips)
            rows.append((suite, len(both), len(before) - len(both), len(after) - len(both), sets, choices, better, worse, gain,
                         all_moved(before[key] for key in both), all_moved(after[key] for key in both)))
        programs = [row for row in rows if row[0] not in GENERATED]
        changed = [row for row in programs if row[5]]
        generated = [row for row in rows if row[0] in GENERATED]
        print(f"On the {len(programs)} suites that are recorded from programs, {sum(row[5] for row in programs)} of "
              f"{sum(row[1] for row in programs):,} choices change, in {', '.join(f'`{row[0]}`' for row in changed) or 'none'}, "
              f"although {percent(sum(row[4] for row in programs), sum(row[1] for row in programs))} of the strategy sets do: their "
              "inputs arrive where a strategy already takes them. On questions with random layouts, "
              f"{sum(row[5] for row in generated):,} of {sum(row[1] for row in generated):,} choices change; "
              f"{sum(row[6] for row in generated):,} become cheaper and {sum(row[7] for row in generated):,} dearer.\n")
        print("## By suite\n")
        print("| suite | answered by both | only before | only after | sets differ | choices differ | better | worse | "
              "time saved, us |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
        for suite, both, old, new, sets, choices, better, worse, gain, *_ in rows:
            print(f"| `{suite}` | {both:,} | {old} | {new} | {percent(sets, both)} | {percent(choices, both)} | {better} | {worse} "
                  f"| {gain:,.0f} |")
        print("\nTime saved is the sum over the flips of a suite, each as often as the program asks it; below zero, time is lost.\n")
        print("## Collectives by suite\n")
        print(f"Number and gigabytes of collectives that bring inputs where the choice wants them, {torch[baseline]} to "
              f"{torch[candidate]}; each question once.\n")
        print("| suite | all_gather | reduce_scatter | all_reduce | all_to_all |")
        print("|---|---:|---:|---:|---:|")
        for suite, *_, old, new in rows:
            cells = []
            for collective in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"):
                (count, size), (now, now_size) = old[collective], new[collective]
                cells.append(f"{count:,} to {now:,} ({gigabytes(size)} to {gigabytes(now_size)} GB)")
            print(f"| `{suite}` | {' | '.join(cells)} |")
        print("\n## By operator\n")
        differing = {op: facts for op, facts in ops.items() if facts["sets"] or facts["choices"]}
        print(f"{len(differing)} of {len(ops)} operators differ on these {answered:,} questions. The causes are those of up to "
              f"{LISTED_SETS} questions each: rules are rows of a strategy; a shard is also removed where a filter looks at the "
              "whole mesh; order means the same candidates in another order, which decides ties.\n")
        print("| operator | questions | sets differ | choices differ | causes |")
        print("|---|---:|---:|---:|---|")
        for op, facts in sorted(differing.items(), key=lambda item: (-item[1]["choices"], -item[1]["sets"], item[0])):
            causes = ", ".join(f"{cause} ({count})" for cause, count in facts["causes"].most_common())
            print(f"| `{op}` | {facts['questions']:,} | {facts['sets']:,} | {facts['choices']:,} | {causes or '-'} |")
        print_rules(baseline, candidate)
        print_cases(shardlab, baseline, candidate)


if __name__ == "__main__":
    main()
