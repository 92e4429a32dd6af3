"""Writes the pages of reports/findings, or says whether they are fresh.

    python3 -B -m findings [--check] [NAME...]

Without a name: the index and all pages that take seconds. `all` stands for every page. Exit code 1: something is stale.
"""

import argparse
import difflib
import sys
from pathlib import Path

from findings.page import FOLDER, all_pages, index
from findings.program import ROOT, shardlab, temporary_folder


def keep(file: Path, text: str, check: bool) -> bool:
    """Writes a file, or says how it differs. Returns whether it is fresh now."""
    if not check:
        file.write_text(text)
        return True
    before = file.read_text() if file.exists() else ""
    name = str(file.relative_to(ROOT))
    sys.stderr.writelines(difflib.unified_diff(before.splitlines(True), text.splitlines(True), name, "as generated now"))
    if before != text:
        print(f"{name} is stale: run scripts/generate_findings.sh {file.stem}", file=sys.stderr)
    return before == text


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/generate_findings.sh", description="Writes the pages of reports/findings.")
    parser.add_argument("--check", action="store_true", help="write nothing, and exit 1 if a page is stale")
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="pages; all: every page; slow: those that take minutes; default: those that take seconds")
    options = parser.parse_args()
    pages = {page.name: page for page in all_pages()}
    chosen: list[str] = []
    for name in options.names or ["quick"]:
        if name in ("all", "slow", "quick"):
            chosen += [page.name for page in pages.values() if name == "all" or page.slow == (name == "slow")]
        elif name in pages:
            chosen.append(name)
        else:
            parser.error(f"there is no page {name}; pages: {', '.join(pages)}")
    fresh = True
    with temporary_folder() as folder:
        program = shardlab(Path(folder))
        for name in dict.fromkeys(chosen):
            fresh = keep(pages[name].file, pages[name].text(program), options.check) and fresh
    fresh = keep(FOLDER / "README.md", index(), options.check) and fresh
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main())
