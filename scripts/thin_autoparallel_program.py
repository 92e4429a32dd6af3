#!/usr/bin/env python3
"""Thins a golden whole-program instance of AutoParallel to the 1-layer one that the repository carries.

    scripts/thin_autoparallel_program.py FOLDER

The script reads autoparallel_llama3_8b_{einsum,native}.json in FOLDER and writes
tests/golden/autoparallel/llama3_8b_{einsum,native}.json: the model of 1 layer with its optimum, and every table of
the file. Each different cost stands once in `costs`, where null means forbidden. A row of a table is a text with two
characters for each cost: the index in `costs`, the more significant digit first, in the digits of `alphabet`. Each
different row stands once in `rows`. A table is a pair: the numbers of its rows, and whether pairs of layouts that
cost anything are forbidden because of their dtype.
"""

import json
import pathlib
import string
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "shardlab/autoparallel-program-golden/1"
ALPHABET = string.ascii_letters + string.digits + "+-"


def thin(golden):
    costs, rows, tables = {}, {}, []
    for table in golden["edge_tables"]:
        numbers = []
        for row in table["comm"]:
            codes = [costs.setdefault(cost, len(costs)) for cost in row]
            text = "".join(ALPHABET[code // 64] + ALPHABET[code % 64] for code in codes)
            numbers.append(rows.setdefault(text, len(rows)))
        dear = {(i, j) for i, row in enumerate(table["comm"]) for j, cost in enumerate(row) if cost}
        banned = {tuple(pair) for pair in table["dtype_banned"]}
        assert banned in (set(), dear), "a ban that is no ban of all costs"
        tables.append([numbers, bool(banned)])
    assert len(costs) <= len(ALPHABET) ** 2
    return list(costs), list(rows), tables


def write(form, folder):
    golden = json.loads((folder / f"autoparallel_llama3_8b_{form}.json").read_text())
    costs, rows, tables = thin(golden)
    model = {key: value for key, value in golden["models"]["1"].items() if key != "param_ratios"}
    parts = {
        "schema": SCHEMA,
        "header": golden["header"],
        "alphabet": ALPHABET,
        "costs": costs,
        "rows": rows,
        "edge_tables": tables,
        "strategy_tables": golden["strategy_tables"],
        "models": {"1": model},
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in parts.items()]
    path = ROOT / "tests" / "golden" / "autoparallel" / f"llama3_8b_{form}.json"
    path.write_text("{" + ",\n".join(lines) + "}\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for form in ("einsum", "native"):
        write(form, pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
