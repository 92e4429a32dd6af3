#!/usr/bin/env python3
"""Record the fingerprints of PyTorch's machinery, by release, in configs/torch/machinery.json.

    scripts/record_torch_machinery.py build/oracle/bin/python .../2.14.1/bin/python .../2.15.0/bin/python

Every argument is an interpreter with a release of PyTorch. Releases that the file has already and that are not named
stay as they are. A live stack compares its own fingerprints with these, and asks PyTorch itself where they differ.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "configs" / "torch" / "machinery.json"
WORKER = ROOT / "python" / "torch_worker" / "worker.py"
SOURCE = ("fingerprints of the functions of torch.distributed.tensor that price, plan, expand, select and dispatch, and of "
          "the constants of their modules, by scripts/record_torch_machinery.py")


def machinery_of(python):
    """(release, {function: fingerprint}) of an interpreter's PyTorch."""
    with subprocess.Popen([python, "-u", str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as worker:
        worker.stdin.write(json.dumps({"id": 0, "do": "start"}) + "\n")
        worker.stdin.flush()
        answer = json.loads(worker.stdout.readline())
        worker.stdin.close()
    if "error" in answer:
        raise SystemExit(f"error: {python}: {answer['error']['message']}")
    return answer["ok"]["torch"], answer["ok"]["fingerprints"]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        raise SystemExit(0 if sys.argv[1:] == ["--help"] else 2)
    releases = json.loads(FILE.read_text())["releases"] if FILE.exists() else {}
    releases.update(machinery_of(python) for python in sys.argv[1:])
    document = {"schema": "shardlab/torch-machinery/1", "source": SOURCE,
                "releases": dict(sorted(releases.items(), key=lambda item: [int(n) for n in item[0].split(".")]))}
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(document, indent=1, sort_keys=False) + "\n")


if __name__ == "__main__":
    main()
