#!/usr/bin/env python3
"""Answers questions about PyTorch's sharding decisions from the PyTorch of this interpreter.

A parent process starts it as `PYTHON -u worker.py` and speaks with it over stdin and stdout in JSON, one object per
line. PyTorch runs on a fake process group: one process, no data, no GPU.

    > {"id": 0, "do": "start", "overlay": null, "patches": [], "cost": null, "rules": []}
    < {"id": 0, "ok": {"torch": "2.15.0", ...}}
    > {"id": 1, "do": "rows", "calls": [{"op": "aten.mm.default", "inputs": ["f32[16,32]", "f32[32,64]"]}]}
    < {"id": 1, "index": 0, "ok": {"rows": ["P(sum)|?1,?0", ...], "outputs": ["f32[16,64]"]}}
    > {"id": 2, "do": "stop"}

README.md beside this file lists all requests. A request that fails is answered by `error` in the place of `ok`; the
worker goes on. It ends when its stdin closes, whatever it is doing, and it is killed when its parent dies. Whatever
the user's code prints goes to stderr.
"""

import ctypes
import os
import queue
import signal
import sys
import threading

FAILURE_STATUS = 70


def hash_in_a_fixed_order():
    """Starts this interpreter again with PYTHONHASHSEED=0, unless the parent has set a seed: the order of some of
    PyTorch's candidates follows hash sets, and equal questions shall have equal answers in every process."""
    if "PYTHONHASHSEED" in os.environ or not sys.executable:
        return
    os.environ["PYTHONHASHSEED"] = "0"
    arguments = getattr(sys, "orig_argv", [sys.executable, "-u", *sys.argv])
    os.execv(sys.executable, [sys.executable, *arguments[1:]])


def die_with_the_parent():
    """Asks Linux to kill this process when the thread that started it ends. Elsewhere the end of stdin is enough."""
    try:
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError, ValueError):
        pass


def take_over_the_pipes():
    """The descriptors of requests and of answers. What user code prints goes to stderr, and what it reads is empty."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, answers


def read_lines(descriptor, lines):
    """Puts every line of the parent's into the queue, and ends the process when the parent closes the pipe."""
    with open(descriptor, "rb") as stream:
        for line in stream:
            lines.put(line)
    os._exit(0)


def main():
    hash_in_a_fixed_order()
    requests, answers = take_over_the_pipes()
    die_with_the_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and the parent decides.
    from shardlab_worker.service import Service

    sys.path.pop(0)  # The user's modules find none of the worker's in their way.
    lines = queue.SimpleQueue()
    threading.Thread(target=read_lines, args=(requests, lines), daemon=True).start()
    service = Service(answers)
    while service.answer(lines.get()):
        pass


if __name__ == "__main__":
    status = 0
    try:
        main()
    except BaseException:  # noqa: BLE001: a failure of the worker itself, since user code is answered elsewhere
        import traceback

        traceback.print_exc()
        status = FAILURE_STATUS
    try:
        sys.stderr.flush()
    finally:
        os._exit(status)
