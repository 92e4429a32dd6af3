#!/usr/bin/env python3
"""Asks PyTorch for the same strategies by full expansion and by its priority queue, and counts what each costs.

    shardlab describe suite ops-full --questions --format json > questions.json
    PYTHONHASHSEED=0 build/oracle/bin/python scripts/findings/record_search.py questions.json > scripts/findings/recorded/search.json

The page `search` of reports/findings reads the file. It needs PyTorch 2.13.0 (scripts/setup --with-oracle) and takes
minutes, and its times are those of one machine; so the file is committed, and the page is made without PyTorch.

Counted for each question: candidates (strategies made by the expansion, or states put into the queue), prices
(calls of PyTorch's price of one step), and microseconds. An answer of the queue is wrong where the expansion prices
the strategy that it found above the cheapest one.
"""

import json
import math
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench_pytorch import TimedOracle, layout_of, tensor_of  # noqa: E402
from gen_golden_dtensor import bind, overload_named, require_torch  # noqa: E402

SAMPLES = {1: 60, 2: 60, 3: 24, 4: 8}  # questions by dims of the mesh: those of four dims take seconds each
PATIENCE_S = 20  # after which the queue counts as not coming to an end
DEVICES_PER_HOST = 8


def chosen_questions(oracle, questions):
    """By dims of the mesh: questions on operators with rules for one mesh dim, evenly spread over the suite."""
    rules = oracle.propagator.op_single_dim_strategy_funcs
    asked = [question for question in questions if question["kind"] == "select" and not question["op"].startswith("aten._foreach")
             and overload_named(oracle.torch, question["op"]) in rules]
    found = {}
    for dims, number in SAMPLES.items():
        same = [question for question in asked if question["mesh"].count("x") + 1 == dims]
        found[dims] = [same[index * len(same) // number] for index in range(number)]
    return found


class Counted:
    """Counts calls of a function of a module while it is entered."""

    def __init__(self, module, name):
        self.module, self.name, self.calls = module, name, 0

    def __enter__(self):
        self.plain = getattr(self.module, self.name)

        def count(*arguments, **keywords):
            self.calls += 1
            return self.plain(*arguments, **keywords)

        setattr(self.module, self.name, count)
        return self

    def __exit__(self, *_):
        setattr(self.module, self.name, self.plain)


class Endless(BaseException):
    """Raised by the alarm; no Exception, so that nothing in PyTorch catches it."""


def ring(*_):
    raise Endless


def ask(oracle, question):
    """{way: {candidates, prices, us}} and what the queue found; None where PyTorch raises or has no price at all."""
    from torch.distributed.tensor import _collective_utils as prices
    from torch.distributed.tensor._op_schema import OpSchema
    from torch.distributed.tensor._ops import single_dim_strategy as rules

    oracle.enter(tuple(map(int, question["mesh"].split("x"))), DEVICES_PER_HOST)
    specs = []
    for text in question["inputs"]:
        tensor, _, layout = text.partition(" ")
        specs.append(oracle.spec(tensor_of(tensor), layout_of(layout)))
    overload = overload_named(oracle.torch, question["op"])
    info = oracle.propagator.op_to_schema_info_for_single_dim_strategy.get(overload)
    schema = OpSchema(overload, *bind(oracle.torch, overload, specs, question["args"]), schema_info=info)
    meta = oracle.propagator._propagate_tensor_meta_non_cached(schema)
    wrapped = oracle.propagator._wrap_with_op_strategy(schema)
    rule = oracle.propagator.op_single_dim_strategy_funcs[overload]

    def full():
        return rules._expand_single_dim_strategy_to_mesh(oracle.mesh, wrapped, rule, meta)(
            overload, wrapped.args_meta, wrapped.kwargs_meta)

    def queue():
        return rules._dijkstra_expand_single_dim_strategy_to_mesh(oracle.mesh, wrapped, rule, meta)

    answers = {}
    oracle.forget()
    with Counted(prices, "_compute_placement_transition_cost") as counted:
        listed = full()
    answers["full"] = {"candidates": len(listed.strategies), "prices": counted.calls, "us": timed(oracle, full)}
    totals = {tuple(spec.placements for spec in each.input_specs): sum(sum(costs) for costs in each.redistribute_cost)
              for each in listed.strategies}
    least = min(totals.values())
    if math.isinf(least):
        return None
    oracle.forget()
    with Counted(rules, "_compute_placement_transition_cost") as counted, Counted(rules, "_PQEntry") as entries:
        signal.alarm(PATIENCE_S)
        try:
            found = queue()
        except Endless:
            answers["queue"] = {"candidates": entries.calls, "prices": counted.calls, "us": PATIENCE_S * 1e6, "endless": True}
            return answers
        finally:
            signal.alarm(0)
    answers["queue"] = {"candidates": entries.calls, "prices": counted.calls, "us": timed(oracle, queue)}
    if found is None:
        answers["queue"]["fell_back"] = True
        return answers
    inputs = tuple(spec.placements for spec in found.strategies[0].input_specs)
    price = totals.get(inputs)
    answers["queue"]["above"] = None if price is None else price - least
    if price is None or price > least * (1 + 1e-9) + 1e-9:
        answers["queue"]["wrong"] = {"mesh": question["mesh"], "op": question["op"], "inputs": question["inputs"],
                                     "chosen": [str(each) for each in inputs], "us": price, "least_us": least}
    return answers


def timed(oracle, function):
    times = []
    while len(times) < 3 and sum(times) < 1e6:
        oracle.forget()
        start = time.perf_counter_ns()
        function()
        times.append((time.perf_counter_ns() - start) / 1000)
    return statistics.median(times)


def summary(answers, way):
    rows = [answer[way] for answer in answers]
    return {key: {"median": statistics.median(row[key] for row in rows), "worst": max(row[key] for row in rows)}
            for key in ("candidates", "prices", "us")}


def main():
    torch = require_torch()
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, ring)
    oracle = TimedOracle(torch)
    questions = json.loads(Path(sys.argv[1]).read_text())["questions"]
    dims = []
    for number, asked in chosen_questions(oracle, questions).items():
        answers, refused, first_wrong = [], 0, None
        for question in asked:
            try:
                answer = ask(oracle, question)
            except Exception as error:  # noqa: BLE001: whatever PyTorch raises is its answer
                print(f"{question['op']} on {question['mesh']}: {error}", file=sys.stderr)
                answer = None
            if answer is None:
                refused += 1
                continue
            answers.append(answer)
            first_wrong = first_wrong or answer["queue"].get("wrong")
        done = [answer for answer in answers if "fell_back" not in answer["queue"]]
        dims.append({"dims": number, "ids": [question["id"] for question in asked], "asked": len(asked), "unpriced": refused,
                     "fell_back": len(answers) - len(done),
                     "endless": sum("endless" in answer["queue"] for answer in done), "patience_s": PATIENCE_S, "answered": len(done), "full": summary(done, "full"),
                     "queue": summary(done, "queue"), "wrong": sum("wrong" in answer["queue"] for answer in done),
                     "first_wrong": first_wrong})
        print(f"{number} dims: {len(done)} answered", file=sys.stderr)
    json.dump({"torch": torch.__version__, "suite": "ops-full", "devices_per_host": DEVICES_PER_HOST, "dims": dims},
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
