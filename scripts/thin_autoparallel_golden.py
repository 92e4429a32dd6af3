#!/usr/bin/env python3
"""Thins the golden files of AutoParallel's cost models to what the repository carries.

    scripts/thin_autoparallel_golden.py FOLDER

The script reads autoparallel_{nccl,redistribute,compute}_cost.json in FOLDER and writes
tests/golden/autoparallel/{nccl,redistribute,compute}.json. It keeps every n-th record of each stratum (configuration,
mesh dim and collective; device, model, mesh and tensor; operator), so that every way in which a price comes about
is still tested. The layout is that of the whole files, whose headers explain it.

From autoparallel_llama3_8b_{einsum,native}.json it writes llama3_8b.json: the sizes and the optimum of each depth, the
rows that are chosen with two layers, and some rows of every strategy list and some entries of every edge table, each
with a node of the two layers that has it.
"""

import collections
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "shardlab/autoparallel-golden/1"


def thin(rows, stratum, step):
    """Every step-th row of each stratum. Strata begin at different rows, so that the sizes in them differ."""
    strata = collections.defaultdict(list)
    for row in rows:
        strata[json.dumps(stratum(row))].append(row)
    kept = []
    for i, members in enumerate(strata.values()):
        kept += members[i % min(step, len(members)) :: step]
    return kept


def write(name, data, rows):
    """One row per line."""
    text = '{"schema": ' + json.dumps(SCHEMA)
    for key, value in data.items():
        if key in rows:
            body = ",\n".join(json.dumps(row) for row in value)
            text += f',\n"{key}": [\n{body}\n]'
        else:
            text += f",\n{json.dumps(key)}: {json.dumps(value)}"
    path = ROOT / "tests" / "golden" / "autoparallel" / f"{name}.json"
    path.write_text(text + "\n}\n", encoding="utf-8")


def layouts(entry):
    """ "S(0)R,RR": one layout, or a list of them without those that belong to no tensor."""
    each = entry if isinstance(entry, list) else [entry]
    text = ",".join(layout for layout in each if layout is not None)
    return re.sub(r"MaskP\(sum, torch\.Size\(\[(\d+), \d+\]\), 0\)", r"MP(0,\1)", text)


def spread(count, wanted, start):
    """Up to `wanted` numbers of range(count), ascending and evenly spread."""
    step = max(1, count // wanted)
    return list(range(start % step, count, step))[:wanted]


def thin_instance(whole):
    """The parts of one matmul form."""
    two_layers = whole["models"]["2"]["nodes"]
    lists, edges = {}, {}
    for name, _, _, _, strategies, args, _, _ in two_layers:
        lists.setdefault(strategies, (name, bool(args)))
        for argument, (_, table) in enumerate(args):
            edges.setdefault(table, (name, argument))
    thinned = {"depths": {}, "lists": [], "edges": []}
    for layers, model in whole["models"].items():
        targets = collections.Counter(node[2] for node in model["nodes"])
        optimum = {key: value for key, value in model["optimum"].items() if key != "chosen"}
        thinned["depths"][layers] = {
            "nodes": len(model["nodes"]),
            "edges": sum(len(node[5]) for node in model["nodes"]),
            "targets": dict(sorted(targets.items())),
            "optimum": optimum,
        }
    for number, (name, reads) in sorted(lists.items()):
        rows = whole["strategy_tables"][number]
        kept = []
        for i in spread(len(rows), 6, number):
            output, inputs, us = rows[i]
            kept.append([i, layouts(output) + ("<-" + layouts(inputs) if reads else ""), us])
        thinned["lists"].append([name, len(rows), kept])
    for number, (name, argument) in sorted(edges.items()):
        table = whole["edge_tables"][number]
        banned = {tuple(pair) for pair in table["dtype_banned"]}
        kept = []
        for i in spread(table["rows"] * table["cols"], 10, 7 * number):
            row, column = divmod(i, table["cols"])
            us = "banned" if (row, column) in banned else table["comm"][row][column]
            kept.append([row, column, us])
        thinned["edges"].append([name, argument, table["rows"], table["cols"], kept])
    thinned["chosen"] = whole["models"]["2"]["optimum"]["chosen"]
    return thinned


def write_instances(read):
    """The programs: the fields of the header, then the two forms."""
    forms = {form: read(f"llama3_8b_{form}") for form in ("einsum", "native")}
    provenance = forms["einsum"]["header"]["provenance"]
    header = {
        "provenance": {key: provenance[key] for key in ("repository", "commit", "torch")},
        "mesh": "8x8",
        "batch": 16,
        "seqlen": 8192,
        "constraints": "tokens S(0)R, logits S(0)S(2), every parameter sharded 64 ways",
        "fields_list": ["node", "rows", "[row, outputs<-inputs, compute us]..."],
        "fields_edge": ["reader", "argument", "rows", "columns", "[row, column, us]..."],
        "distinct": {
            form: [len(whole["strategy_tables"]), len(whole["edge_tables"])]
            for form, whole in forms.items()
        },
    }
    parts = [f'"schema": {json.dumps(SCHEMA)}', f'"header": {json.dumps(header)}']
    for form, whole in forms.items():
        keys = []
        for key, value in thin_instance(whole).items():
            if key in ("lists", "edges"):
                body = "[\n" + ",\n".join(json.dumps(row) for row in value) + "]"
            else:
                body = json.dumps(value)
            keys.append(f"{json.dumps(key)}: {body}")
        parts.append(f"{json.dumps(form)}: {{" + ",\n".join(keys) + "}")
    path = ROOT / "tests" / "golden" / "autoparallel" / "llama3_8b.json"
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def main():
    """Writes the files."""
    folder = pathlib.Path(sys.argv[1])

    def read(name):
        path = folder / f"autoparallel_{name}.json"
        return json.loads(path.read_text(encoding="utf-8"))

    write_instances(read)
    nccl = read("nccl_cost")
    nccl["points"] = thin(nccl["points"], lambda p: p[:4], 8)
    nccl["internals"] = thin(nccl["internals"], lambda p: [p["func"], p["algo"], p["proto"]], 6)
    write("nccl", nccl, ("configs", "topologies", "points", "internals", "interp_points"))
    edges = read("redistribute_cost")
    edges["points"] = thin(edges["points"], lambda p: p[:6], 8)
    write("redistribute", edges, ("points", "read_write"))
    compute = read("compute_cost")
    compute["points"] = thin(compute["points"], lambda p: p[0], 4)
    write("compute", compute, ("points",))


if __name__ == "__main__":
    main()
