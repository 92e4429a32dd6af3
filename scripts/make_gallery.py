#!/usr/bin/env python3
"""Takes the screenshots in reports/gallery/ anew, and notes what they show.

    scripts/make_gallery.py [--binary build/release/bin/shardlab]

Needs Chromium, its driver and python3-selenium (scripts/setup installs them). gallery.json names, for each
picture, the command whose report it shows and a digest of that report's Markdown (all but the section on
versions) and of the page's style and script. tests/browser/gallery_test.py compares them with today's.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
GALLERY = ROOT / "reports" / "gallery"
sys.path.insert(0, str(ROOT / "tests" / "browser"))

import pages  # noqa: E402  pylint: disable=wrong-import-position

# The command that scripts/demo runs.
DEMO = ["compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v3-rp", "--candidate", "dtensor-v4",
        "--candidate", "dtensor-v-compute", "--suite", "ops-small", "--suite", "llama3-8b-tp",
        "--suite", "llama3-8b-fsdp-tp"]
OPEN_FIRST = "document.querySelector('#flips tr.row .opener').click()"
# A redistribution whose second host takes twice as long.
SLOW_HOST = ["simulate", "--mesh", "dp=2,tp=8", "--tensor", "f32[1024,512]", "--from", "S(0)P", "--to", "RS(1)", "--stack",
             "alpha-beta", "--straggler", "host:1:2"]
# A redistribution in three steps, beside the plan that another planner makes.
PLAN = ["plan", "--mesh", "dp=2,tp=4", "--tensor", "bf16[8192,4096]", "--from", "S(0)S(0)", "--to", "RS(0)", "--stack",
        "dtensor-v3g", "--against", "dtensor-v3"]

# picture -> command, colours, the element at its upper edge, what to do before it is taken, and its height. All are
# 1280 pixels wide except those of a narrow window.
PICTURES = {
    "compare": {"command": DEMO, "scheme": "light", "from": "body", "height": 900},
    "compare-flips": {"command": DEMO, "scheme": "light", "from": "#flips", "do": OPEN_FIRST, "height": 1000},
    "compare-dark": {"command": DEMO, "scheme": "dark", "from": "#breakdown", "height": 800},
    "compare-narrow": {"command": DEMO, "scheme": "dark", "from": "body", "height": 900, "width": 420},
    "validate": {"command": ["validate", "--stack", "calibrated-h100"], "scheme": "light", "from": "#predicted",
                 "height": 900},
    "solve": {"prepare": ["program", "llama3-8b", "--layers", "8", "--batch", "8", "--seqlen", "4096", "--out",
                          "llama3-8b.json"],
              "command": ["solve", "llama3-8b.json", "--mesh", "2x8"], "scheme": "light", "from": "body",
              "height": 900},
    "solve-memory": {"prepare": ["program", "llama3-8b", "--layers", "8", "--batch", "8", "--seqlen", "4096", "--out",
                                 "llama3-8b.json"],
                     "command": ["solve", "llama3-8b.json", "--mesh", "2x8"], "scheme": "light", "from": "#solved_memory",
                     "height": 680},
    "plan": {"command": PLAN, "scheme": "light", "from": "#planned_layouts", "height": 1210},
    "simulate": {"command": SLOW_HOST, "scheme": "light", "from": "#simulated_timeline", "height": 1280},
    "ties": {"command": ["ties", "--stack", "dtensor-2.13", "--suite", "ops-small"], "scheme": "light", "from": "body",
             "height": 900},
}


def digest_of(folder: pathlib.Path) -> str:
    """The digest of what a report says, whichever build wrote it."""
    text = (folder / "report.md").read_text(encoding="utf-8").split("\n## Configuration and versions")[0]
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_page() -> str:
    """The digest of how a report looks."""
    page = b"".join((ROOT / "reports" / "writers" / name).read_bytes() for name in ("page.css", "page.js"))
    return hashlib.sha256(page).hexdigest()


def reports(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The report behind each picture. Each command is run once."""
    made: dict[tuple[str, ...], pathlib.Path] = {}
    for picture in PICTURES.values():
        command = tuple(picture["command"])
        if command not in made:
            made[command] = folder / str(len(made))
            if "prepare" in picture:
                subprocess.run([pages.program(), *picture["prepare"]], check=True, cwd=folder)
            pages.make_report(list(command), made[command], cwd=folder)
    return {name: made[tuple(picture["command"])] for name, picture in PICTURES.items()}


def notes(made: dict[str, pathlib.Path]) -> dict:
    """The content of gallery.json."""
    return {"page_sha256": digest_of_page(),
            "pictures": {f"{name}.png": {"command": "shardlab " + " ".join(PICTURES[name]["command"]),
                                         "report_sha256": digest_of(made[name])} for name in PICTURES}}


def take(page: pages.Page, report: pathlib.Path, picture: dict) -> bytes:
    """One picture as PNG."""
    width = picture.get("width", 1280)
    page.open(report / "report.html", width=width, scheme=picture["scheme"])
    if "do" in picture:
        page.script(picture["do"])
    page.settle()
    left, top, wide = page.script("""
        const box = document.querySelector(arguments[0]).getBoundingClientRect();
        return [box.left + scrollX, box.top + scrollY, box.width]""", picture["from"])
    margin = 0 if picture["from"] == "body" else 28
    clip = {"x": left - margin, "y": top, "width": wide + 2 * margin, "height": picture["height"]}
    return steady_screenshot(page, clip)


def steady_screenshot(page: pages.Page, clip: dict) -> bytes:
    """A picture that comes out alike three times, since charts may be painted late on a busy machine."""
    taken = [page.screenshot(clip)]
    while len(taken) < 3 or len(set(taken[-3:])) > 1:
        if len(taken) > 50:
            raise AssertionError("the page does not come to rest")
        time.sleep(0.2)
        page.settle()
        taken.append(page.screenshot(clip))
    return taken[-1]


def main() -> int:
    """Writes the pictures and their notes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/bin/shardlab"))
    os.environ["SHARDLAB_BINARY"] = parser.parse_args().binary
    pages.require_browser()
    GALLERY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, pages.browser() as page:
        made = reports(pathlib.Path(folder))
        for name, picture in PICTURES.items():
            image = take(page, made[name], picture)
            (GALLERY / f"{name}.png").write_bytes(image)
            print(f"{name}.png: {len(image) / 1000:.0f} kB")
        text = json.dumps(notes(made), indent=2) + "\n"
    (GALLERY / "gallery.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
