#!/usr/bin/env python3
"""Thins the golden files of AutoParallel's cost models to what the repository carries.

    scripts/thin_autoparallel_golden.py FOLDER

reads autoparallel_{nccl,redistribute,compute}_cost.json in FOLDER and writes
tests/golden/autoparallel/{nccl,redistribute,compute}.json: of each stratum (configuration, mesh dim
and collective; device, model, mesh and tensor; operator) every n-th record, so that every way a
price can be made stays. The layout is that of the whole files, whose headers explain it.
"""

import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "shardlab/autoparallel-golden/1"


def thin(rows, stratum, step):
    """Every step-th row of each stratum; strata begin at different rows, so that sizes differ."""
    strata = collections.defaultdict(list)
    for row in rows:
        strata[json.dumps(stratum(row))].append(row)
    kept = []
    for i, members in enumerate(strata.values()):
        kept += members[i % min(step, len(members)) :: step]
    return kept


def write(name, data, rows):
    """One row a line."""
    text = '{"schema": ' + json.dumps(SCHEMA)
    for key, value in data.items():
        if key in rows:
            body = ",\n".join(json.dumps(row) for row in value)
            text += f',\n"{key}": [\n{body}\n]'
        else:
            text += f",\n{json.dumps(key)}: {json.dumps(value)}"
    path = ROOT / "tests" / "golden" / "autoparallel" / f"{name}.json"
    path.write_text(text + "\n}\n", encoding="utf-8")


def main():
    """Writes the three files."""
    folder = pathlib.Path(sys.argv[1])

    def read(name):
        path = folder / f"autoparallel_{name}_cost.json"
        return json.loads(path.read_text(encoding="utf-8"))

    nccl = read("nccl")
    nccl["points"] = thin(nccl["points"], lambda p: p[:4], 8)
    nccl["internals"] = thin(nccl["internals"], lambda p: [p["func"], p["algo"], p["proto"]], 6)
    write("nccl", nccl, ("configs", "topologies", "points", "internals", "interp_points"))
    edges = read("redistribute")
    edges["points"] = thin(edges["points"], lambda p: p[:6], 8)
    write("redistribute", edges, ("points", "read_write"))
    compute = read("compute")
    compute["points"] = thin(compute["points"], lambda p: p[0], 4)
    write("compute", compute, ("points",))


if __name__ == "__main__":
    main()
