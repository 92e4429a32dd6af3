#!/usr/bin/env python3
"""Puts together the pages of the site, and checks the links of pages and of the built site.

    scripts/site_pages.py pages build/site-pages   docs/, and under tree/ what its pages link to in the rest of the tree
    scripts/site_pages.py links                    links and anchors of all Markdown files of the tree
    scripts/site_pages.py check build/site         links, anchors, pictures and scripts of the built pages

Links to elsewhere (https:) are not followed. The last two print "FILE: what is wrong" and exit 1 when there is a dead
link. scripts/site runs all three; a test runs the second.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TREE = "tree"  # the folder of the site for what is not in docs/
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".json": "json", ".yml": "yaml", ".cmake": "cmake", ".sh": "bash"}
MOST_BYTES = 200_000  # of a file that is shown whole
PICTURES = (".png", ".svg")

FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^()\s]+(?:\([^()\s]*\))?)(\))")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def slug(title: str, separator: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it, so that one link serves the site and the plain page."""
    plain = re.sub(r"[^\w\- ]", "", title.strip().lower())
    return plain.replace(" ", separator)


def blanked(text: str) -> str:
    """The text with blanks in place of code, so that positions stay."""
    def blank(match: re.Match) -> str:
        return re.sub(r"[^\n]", " ", match.group())
    return CODE.sub(blank, FENCE.sub(blank, text))


def links(text: str) -> list[re.Match]:
    return [match for match in LINK.finditer(blanked(text)) if not urllib.parse.urlsplit(match.group(2)).scheme]


def anchors(text: str) -> set[str]:
    """The anchors of a Markdown page. Equal headings get -1, -2 ... on GitHub."""
    found: dict[str, int] = {}
    out = set()
    for match in HEADING.finditer(FENCE.sub("", text)):
        title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1)).replace("\\", "")
        name = slug(title.replace("`", ""))
        count = found.get(name, 0)
        found[name] = count + 1
        out.add(f"{name}-{count}" if count else name)
    return out


def inside(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


# --- Links of the Markdown files ------------------------------------------------------------------------------


def markdown_files() -> list[Path]:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"],
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return sorted({ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()})
    return sorted(path for path in ROOT.rglob("*.md") if not inside(path, ROOT / "build"))


def dead_links(page: Path, text: str) -> list[str]:
    dead = []
    for match in links(text):
        place = f"{os.path.relpath(page, ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
        target, _, anchor = match.group(2).partition("#")
        path = Path(os.path.normpath(page.parent / urllib.parse.unquote(target))) if target else page
        if target and not path.exists():
            dead.append(f"{place}: {match.group(2)}: there is no such file")
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text() if target else text):
            dead.append(f"{place}: {match.group(2)}: the page has no such heading")
    return dead


# --- Pages of the site ------------------------------------------------------------------------------------------


class Pages:
    """Copies docs/ to a folder, and makes a page of each file or folder outside docs/ that a page links to."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.waiting: list[Path] = []
        self.made: set[Path] = set()

    def place(self, target: Path) -> PurePosixPath:
        """Where a file or folder of the tree is on the site."""
        if inside(target, DOCS):
            return PurePosixPath(target.relative_to(DOCS).as_posix())
        # MkDocs leaves out files whose names begin with a dot.
        path = PurePosixPath(TREE, *(part.lstrip(".") for part in target.relative_to(ROOT).parts))
        if target.is_dir():
            return path / ("README.md" if (target / "README.md").is_file() else "index.md")
        return path if target.suffix in (".md", *PICTURES) else path.with_name(path.name + ".md")

    def link(self, page: Path, match: re.Match) -> str:
        target, hash_, anchor = match.group(2).partition("#")
        if not target:
            return match.group(2)
        path = Path(os.path.normpath(page.parent / urllib.parse.unquote(target)))
        if not path.exists():
            sys.exit(f"site_pages: {os.path.relpath(page, ROOT)}: {match.group(2)}: there is no such file")
        if path not in self.made:
            self.made.add(path)
            self.waiting.append(path)
        here = self.place(page)
        return os.path.relpath(self.place(path), here.parent) + hash_ + anchor

    def relinked(self, page: Path, text: str) -> str:
        out, end = "", 0
        for match in links(text):
            out += text[end:match.start(2)] + self.link(page, match)
            end = match.end(2)
        return out + text[end:]

    def write(self, target: Path, text: str) -> None:
        path = self.folder / self.place(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def page_of(self, target: Path) -> None:
        name = target.relative_to(ROOT).as_posix()
        if target.is_dir():
            if (target / "README.md").is_file():
                self.write(target, self.relinked(target / "README.md", (target / "README.md").read_text()))
            else:
                entries = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in target.iterdir()
                                 if not entry.name.startswith((".", "__pycache__")))
                self.write(target, f"# {name}\n\n" + "".join(f"- `{entry}`\n" for entry in entries))
        elif target.suffix == ".md":
            self.write(target, self.relinked(target, target.read_text()))
        elif target.suffix in PICTURES:
            path = self.folder / self.place(target)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, path)
        else:
            text = target.read_text()
            left_out = ""
            if len(text) > MOST_BYTES:
                text, left_out = text[:MOST_BYTES].rsplit("\n", 1)[0], f"\nOnly the first {MOST_BYTES:,} bytes are shown.\n"
            self.write(target, f"# {name}\n{left_out}\n~~~~{LANGUAGES.get(target.suffix, 'text')}\n{text.rstrip(chr(10))}\n~~~~\n")

    def make(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for path in sorted(DOCS.rglob("*")):
            self.made.add(path)
            if path.suffix == ".md":
                self.write(path, self.relinked(path, path.read_text()))
            elif path.is_file():
                copy = self.folder / self.place(path)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "costmodel/README.md", "reports/scoreboard.md"):
            self.made.add(ROOT / name)
            self.waiting.append(ROOT / name)
        while self.waiting:
            self.page_of(self.waiting.pop())


# --- Links of the built site --------------------------------------------------------------------------------------


class Built(html.parser.HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.needs: list[str] = []  # what the page itself fetches
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if values.get("src"):
            self.needs.append(values["src"] or "")
        if tag == "link" and values.get("rel") in ("stylesheet", "icon") and values.get("href"):
            self.needs.append(values["href"] or "")


def wrong_in_site(folder: Path) -> list[str]:
    pages = {path: Built(path.read_text()) for path in sorted(folder.rglob("*.html")) if path.name != "404.html"}
    wrong = [] if pages else [f"{folder}: found no page"]
    for page, built in pages.items():
        name = page.relative_to(folder)
        for link in built.links + built.needs:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in built.needs and parts.scheme != "data":
                    wrong.append(f"{name}: fetches {link} from elsewhere")
                continue
            target = Path(os.path.normpath(page.parent / urllib.parse.unquote(parts.path))) if parts.path else page
            if not target.is_file():
                wrong.append(f"{name}: {link}: there is no such file on the site")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                wrong.append(f"{name}: {link}: the page has no such anchor")
    return wrong


def main(words: list[str]) -> int:
    match words:
        case ["pages", folder]:
            Pages(Path(folder).resolve()).make()
            return 0
        case ["links"]:
            wrong = [line for page in markdown_files() for line in dead_links(page, page.read_text())]
        case ["check", folder]:
            wrong = wrong_in_site(Path(folder).resolve())
        case _:
            sys.exit(f"site_pages: found {words}; valid: pages FOLDER, links, check FOLDER")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
