#!/usr/bin/env python3
"""Transcribe public nccl-tests logs into shardlab's measurement sets, through shardlab's own reader.

    scripts/import_nccl_tests.py FOLDER [--out configs/measurements]

Each file *.txt in FOLDER is one log, with `# key: value` lines for what the tool does not print (source,
hardware, scale, NCCL version, health). A log becomes <name>.json, which holds its figures, one row per line,
and its health by the rules of configs/measurements/README.md. The script prints which logs were refused, and
exits 1 if one can't be read. Running it again writes the same bytes.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BINARY = os.environ.get("SHARDLAB_BINARY", str(ROOT / "build/release/bin/shardlab"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "configs/measurements")
    arguments = parser.parse_args()
    logs = sorted(arguments.folder.glob("*.txt"))
    if not logs:
        parser.error(f"{arguments.folder}: found no *.txt in it")
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for log in logs:
        # The path is absolute, because a bare name could be that of a shipped set.
        done = subprocess.run(
            [BINARY, "describe", "measurement", str(log.resolve())], capture_output=True, text=True, check=False
        )
        sys.stderr.write(done.stderr)
        if done.returncode != 0:
            failed += 1
            continue
        (arguments.out / f"{log.stem}.json").write_text(done.stdout, encoding="utf-8")
    print(f"{len(logs) - failed} sets written to {arguments.out}, {failed} logs could not be read")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
