#!/usr/bin/env python3
"""Runs PyTorch's own validator of sharding rules, strategy_validation.py, and writes down what it finds for each operator.

    build/oracle/bin/python scripts/findings/record_validation.py SECONDS scripts/findings/recorded/validation.json

The page `validation` of reports/findings reads the file. It needs PyTorch 2.13.0 (scripts/setup --with-oracle). The operators are
those that have both a strategy and an OpInfo: first those of which shardlab calls a row unsound, then the others in an order that is
drawn once, until SECONDS are used up; an operator on which the validator takes longer than PATIENCE_S is stopped. All seconds are those of
the processor, so that other work on the machine does not matter. Sizes are those that the validator's own command line sets.
"""

import json
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gen_golden_dtensor import require_torch  # noqa: E402

MAX_SAMPLES = 2
PATIENCE_S = 10
RULES = Path(__file__).resolve().parent.parent.parent / "reports" / "findings" / "rules-dtensor-2.13.txt"
RANKS = 2


class Endless(BaseException):
    """Raised by the alarm; no Exception, so that nothing in PyTorch catches it."""


def ring(*_):
    raise Endless


def rows(discrepancies):
    """{aten overload: sorted rows "outputs | inputs"}."""
    found = {}
    for each in discrepancies:
        row = f"{', '.join(each.output_placements)} | {', '.join(each.input_placements)}"
        found.setdefault(str(each.aten_op), set()).add(row)
    return {op: sorted(texts) for op, texts in sorted(found.items())}


def opinfo_name(name):
    """The name in aten of an operator that OpInfo lists under another one."""
    from torch.testing._internal.common_methods_invocations import op_db

    return next((info.aten_name for info in op_db if info.name == name), name)


def judged(validation, name):
    """What the validator says of one operator."""
    import torch

    start, entry = time.process_time(), {}
    captured = {}
    check = validation._validate_aten_op_for_sample

    def note(func, *arguments, **keywords):
        captured[str(func)] = captured.get(str(func), 0) + 1
        return check(func, *arguments, **keywords)

    validation._validate_aten_op_for_sample = note
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    try:
        stats = validation.compare_operator(name, "cpu", torch.float32, RANKS, MAX_SAMPLES)
        entry |= {"samples": stats.total_samples, "combinations": stats.total_combinations,
                  "skipped": "no support" if stats.no_dtensor_support else None,
                  "incorrect": rows(stats.false_positives), "missing": rows(stats.false_negatives)}
    except Endless:
        entry["skipped"] = "stopped"
    except Exception as error:  # noqa: BLE001: whatever PyTorch raises is its answer
        entry["skipped"] = f"error: {str(error).splitlines()[0][:120] if str(error) else type(error).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return entry | {"seconds": round(time.process_time() - start, 2), "overloads": sorted(captured)}


def judged_apart(judge):
    """What `judge` returns, asked in a process of its own: some operators end the one that asks."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as answer:
                json.dump(judge(), answer)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status, used = os.wait4(child, 0)
    if status == 0:
        return json.loads(text)
    return {"skipped": "ended the process", "seconds": round(used.ru_utime + used.ru_stime, 2), "overloads": []}


def main():
    torch = require_torch()
    torch.set_num_threads(1)
    import torch.distributed as dist
    import torch.testing._internal.common_methods_invocations as common_ops
    from torch.distributed.tensor._ops import strategy_validation as validation
    from torch.testing._internal.opinfo import core
    for module in (core, common_ops):
        module.L, module.M, module.S, module.XS = 24, 12, 4, 2
    dist.init_process_group("fake", rank=0, world_size=RANKS)
    signal.signal(signal.SIGPROF, ring)
    names = validation.get_registered_op_names()
    random.Random(0).shuffle(names)
    unsound = {op.split(".")[1] for op in re.findall(r"^  unsound (\S+)", RULES.read_text(), re.M)}
    suspected = [name for name in names if name.split(".")[-1] in unsound or opinfo_name(name) in unsound]
    names = suspected + [name for name in names if name not in suspected]
    seconds, ops = 0.0, []
    for name in names:
        if seconds > float(sys.argv[1]):
            break
        entry = {"op": name} | judged_apart(lambda name=name: judged(validation, name))
        seconds += entry["seconds"]
        ops.append(entry)
        # Written after each operator, so that an interrupted run leaves what it has.
        Path(sys.argv[2]).write_text(json.dumps({
            "torch": torch.__version__, "registered": len(names), "suspected": suspected, "patience_s": PATIENCE_S,
            "max_samples": MAX_SAMPLES, "ranks": RANKS, "ops": ops}, indent=1) + "\n")
        print(f"{name}: {entry['seconds']} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
