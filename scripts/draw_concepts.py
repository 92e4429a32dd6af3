#!/usr/bin/env python3
"""Prints one of the pictures of docs/concepts.md as SVG.

    SHARDLAB_BINARY=build/release/bin/shardlab scripts/draw_concepts.py layouts|plan|stack|regret

What ranks hold is worked out here, from the definition of a chunk; prices and choices are asked of the program.
scripts/generate_pictures.sh writes all pictures. Each brings its own background and follows the reader's colour scheme.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MESH = (2, 4)
ROWS, COLUMNS = 8, 8  # of the tensor that is drawn
CELL = 5              # pixels of one element
GAP = 9               # pixels between ranks

STYLE = """
    .back{fill:#ffffff} .empty{fill:#eef1f5} .held{fill:#2563eb} .part{fill:#93b4f5} .line{stroke:#8a94a3}
    .box{fill:#f5f7fa;stroke:#8a94a3} .good{fill:#15803d} .bad{fill:#b45309} .worse{fill:#b91c1c} text{fill:#1f2733}
    .soft{fill:#56606e} .arrow{fill:none;stroke:#56606e;stroke-width:1.5}
    @media (prefers-color-scheme: dark){
      .back{fill:#171b21} .empty{fill:#2a313b} .held{fill:#6ea0ff} .part{fill:#35508c} .line{stroke:#66707f}
      .box{fill:#20262e;stroke:#66707f} .good{fill:#4ade80} .bad{fill:#fbbf24} .worse{fill:#f87171} text{fill:#e6e9ee}
      .soft{fill:#a3adba} .arrow{stroke:#a3adba}
    }
    text{font:13px system-ui,sans-serif} .code{font-family:ui-monospace,monospace} .small{font-size:11.5px} .mid{text-anchor:middle}"""


def svg(width: int, height: int, title: str, body: list[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img">\n  <title>{escape(title)}</title>\n  <style>{STYLE}\n  </style>\n  <defs><marker id="tip" '
            'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="soft" '
            f'd="M0 0L8 4L0 8z"/></marker></defs>\n  <rect class="back" width="{width}" height="{height}" rx="8"/>\n'
            + "".join(f"  {line}\n" for line in body) + "</svg>\n")


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path class="arrow" d="M{x:g} {y:g}L{to_x:g} {to_y:g}" marker-end="url(#tip)"/>'


def ask(*words: str) -> dict:
    binary = os.environ.get("SHARDLAB_BINARY", str(ROOT / "build/release/bin/shardlab"))
    result = subprocess.run([binary, *words, "--format", "json", "--no-timing", "--quiet"], capture_output=True, text=True,
                            check=True)
    return json.loads(result.stdout)


# --- What a rank holds -------------------------------------------------------------------------------------


def chunk(begin: int, end: int, ranks: int, rank: int) -> tuple[int, int]:
    """DTensor's chunks: ceil(extent / ranks) each, the last ones short or empty."""
    size = -(-(end - begin) // ranks)
    return min(end, begin + rank * size), min(end, begin + (rank + 1) * size)


def held(layout: list[str], coordinate: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int], bool]:
    """Rows and columns that a rank holds, and whether they are only a part of the sum."""
    extents = [(0, ROWS), (0, COLUMNS)]
    partial = False
    for mesh_dim, placement in enumerate(layout):
        if placement.startswith("S"):
            dim = int(placement[2])
            extents[dim] = chunk(*extents[dim], MESH[mesh_dim], coordinate[mesh_dim])
        partial = partial or placement.startswith("P")
    return extents[0], extents[1], partial


def placements(layout: str) -> list[str]:
    """"S(0)[0]S(0)[1]" as S(0) and S(0). Orders other than the default one are not drawn."""
    found = re.findall(r"R|S\(\d\)(?:\[\d\])?|P(?:\(\w+\))?", layout)
    shown = [one.split("[")[0] for one in found]
    orders = [int(one[-2]) for one in found if one.endswith("]")]
    if "".join(found) != layout or len(found) != len(MESH) or orders != sorted(orders):
        sys.exit(f"draw_concepts: {layout}: found a layout that this picture can't show")
    return shown


def mesh_of_tensors(x: float, y: float, layout: str) -> list[str]:
    """The eight ranks of the mesh, each with the tensor and what it holds of it."""
    out = []
    side, gap = ROWS * CELL, GAP
    for row in range(MESH[0]):
        for column in range(MESH[1]):
            left, top = x + column * (side + gap), y + row * (side + gap)
            rows, columns, partial = held(placements(layout), (row, column))
            out.append(f'<rect class="empty" x="{left:g}" y="{top:g}" width="{side}" height="{side}"/>')
            out.append(f'<rect class="{"part" if partial else "held"}" x="{left + columns[0] * CELL:g}" '
                       f'y="{top + rows[0] * CELL:g}" width="{(columns[1] - columns[0]) * CELL}" '
                       f'height="{(rows[1] - rows[0]) * CELL}"/>')
    return out


GRID = 4 * ROWS * CELL + 3 * GAP  # the width of mesh_of_tensors


def draw_layouts() -> str:
    shown = [("RR", "all ranks hold all of it"), ("S(0)R", "rows over mesh dim 0"), ("RS(1)", "columns over mesh dim 1"),
             ("S(0)S(1)", "rows, then columns"), ("S(0)S(0)", "rows, and rows again"),
             ("P(sum)R", "summands of the tensor")]
    body = [text(20, 26, "One tensor on a mesh of 2 x 4 ranks. Blue is what each rank holds.", "")]
    for i, (layout, what) in enumerate(shown):
        x, y = 20 + i % 3 * (GRID + 90), 66 + i // 3 * 156
        body.append(text(x, y - 12, layout, "code"))
        body.append(text(x + 8 * len(layout) + 14, y - 12, what, "small soft"))
        body += mesh_of_tensors(x, y, layout)
    return svg(40 + 3 * GRID + 230, 320, "Six layouts of a tensor on a mesh of 2 x 4 ranks", body)


def draw_plan() -> str:
    plan = ask("plan", "--mesh", "2x4", "--tensor", "bf16[8192,4096]", "--from", "S(0)S(0)", "--to", "RS(0)", "--stack",
               "dtensor-v3g")
    layouts = plan["path"].split("->")
    step = GRID + 104
    body = [text(20, 26, f"From {plan['from']} to {plan['to']}: {len(plan['steps'])} steps, {plan['price_us']:.0f} us in all"),
            text(20, 44, "bf16[8192,4096] on 2 x 4 ranks of H100s, stack dtensor-v3g", "small soft")]
    for i, layout in enumerate(layouts):
        x = 20 + i % 2 * step
        y = 88 + i // 2 * 158
        body.append(text(x, y - 12, layout, "code"))
        body += mesh_of_tensors(x, y, layout)
        if i < len(plan["steps"]):
            made = plan["steps"][i]
            words = (f"{made['collective']} on mesh dim {made['mesh_dims'][0]}", f"{made['price_us']:.0f} us")
            if i % 2 == 0:
                body.append(arrow(x + GRID + 6, y + 42, x + step - 8, y + 42))
                body.append(text(x + GRID + 50, y + 32, made["collective"], "small mid"))
                body.append(text(x + GRID + 50, y + 60, words[1], "small mid soft"))
            else:
                body.append(f'<path class="arrow" d="M{x + 40:g} {y + 96:g}V{y + 116:g}H{110:g}V{y + 136:g}" marker-end="url(#tip)"/>')
                body.append(text(200, y + 111, f"{made['collective']}, {words[1]}", "small"))
    rows = -(-len(layouts) // 2)
    return svg(40 + GRID + step, 46 + rows * 158, "A plan: the steps from one layout to another", body)


def draw_stack() -> str:
    boxes = [("rules", "which layouts may", "the operator take?"), ("planner", "which steps bring", "its inputs there?"),
             ("transitions", "which collectives and", "bytes is each step?"), ("collective_model", "how long does", "each of them take?"),
             ("order, policy", "which of the", "cheapest is taken?")]
    width, gap, left = 142, 18, 128
    body = [f'<rect class="box" x="{left - 12}" y="40" width="{len(boxes) * (width + gap) - gap + 24}" height="118" rx="8" fill-opacity="0.4"/>',
            text(left, 28, "a stack: one file, one name, one answer to every question")]
    body += [text(16, 92, "question"), text(16, 112, "an operator,", "small soft"), text(16, 128, "its inputs,", "small soft"),
             text(16, 144, "a mesh", "small soft"), arrow(80, 88, left - 2, 88)]
    for i, (key, first, second) in enumerate(boxes):
        x = left + i * (width + gap)
        body.append(f'<rect class="box" x="{x}" y="62" width="{width}" height="76" rx="6"/>')
        body.append(text(x + width / 2, 84, key, "code mid"))
        body.append(text(x + width / 2, 108, first, "small mid soft"))
        body.append(text(x + width / 2, 124, second, "small mid soft"))
        if i + 1 < len(boxes):
            body.append(arrow(x + width + 1, 100, x + width + gap - 1, 100))
    end = left + len(boxes) * (width + gap) - gap
    body += [arrow(end + 2, 88, end + 44, 88), text(end + 50, 92, "decision"), text(end + 50, 112, "layouts,", "small soft"),
             text(end + 50, 128, "steps,", "small soft"), text(end + 50, 144, "a price", "small soft")]
    return svg(end + 124, 178, "A stack: rules, planner, transitions, prices and tie-breaks", body)


# A product whose second factor lies whole on every rank: the choice is how to cut it.
QUESTION = {"id": "q", "kind": "select", "op": "aten.mul.Tensor", "mesh": "2x4",
            "inputs": ["bf16[5792,5793] S(0)R", "bf16[5792,5793] RR"]}


def draw_regret() -> str:
    stacks = ("dtensor-2.13", "dtensor-v-compute")
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "one.json"
        suite.write_text(json.dumps({"schema": "shardlab/suite/1", "name": "one", "questions": [QUESTION]}))
        flips = ask("compare", "--baseline", stacks[0], "--candidate", stacks[1], "--suite", str(suite))["flips"]
    if len(flips) != 1:
        sys.exit("draw_concepts: the question of the picture of regret does not flip any more; choose another one")
    flip = flips[0]
    price = flip["reference_us"]
    bars = [(f"{stacks[0]} takes", flip["baseline"], price["baseline"]), (f"{stacks[1]} takes", flip["candidate"], price["candidate"]),
            ("the best choice", flip["best"], price["best"])]
    scale = 330 / max(us for _, _, us in bars)
    body = [text(20, 26, f"{QUESTION['op']} on {QUESTION['mesh']} flips. The reference prices what each choice runs:")]
    for i, (who, choice, us) in enumerate(bars):
        y = 50 + i * 50
        body.append(text(20, y + 13, who))
        body.append(text(20, y + 30, choice, "code small soft"))
        body.append(f'<rect class="held" x="270" y="{y}" width="{price["best"] * scale:.1f}" height="26"/>')
        regret = 100 * (us / price["best"] - 1)
        if regret > 0:
            body.append(f'<rect class="{"worse" if i == 0 else "bad"}" x="{270 + price["best"] * scale:.1f}" y="{y}" '
                        f'width="{(us - price["best"]) * scale:.1f}" height="26"/>')
        label = f"{us:.1f} us" + (f": regret {regret:.0f} %" if regret > 0 else ": no regret")
        body.append(text(270 + us * scale + 8, y + 18, label, "small"))
    body.append(text(20, 212, "Regret is what a choice takes beyond the best one, as a share of the best one.", "small soft"))
    return svg(760, 228, "Regret: what a choice takes beyond the best one", body)


PICTURES = {"layouts": draw_layouts, "plan": draw_plan, "stack": draw_stack, "regret": draw_regret}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PICTURES:
        sys.exit(f"draw_concepts: found {sys.argv[1:]}; valid: one of {', '.join(PICTURES)}")
    print(PICTURES[sys.argv[1]](), end="")
