"""The public logs of nccl-tests that are shipped (configs/measurements), as rows."""

import functools
import json
import math
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from findings.program import ROOT

# The GPUs whose logs each calibrated stack is fitted to, as runner/evaluation does it: the kinds of one generation.
GENERATIONS = {"a100": ("A100-SXM",), "h100": ("H100", "GH200"), "h200": ("H200",), "b200": ("B200", "B300"),
               "gb200": ("GB200", "GB300")}
DOMAIN_DEVICES = {"gb200": 72}  # GPUs that NVLink joins beyond one host; configs/topologies/gb200.json
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


@dataclass(frozen=True)
class Row:
    """One measured time: out of place, of `full_bytes`, the larger of one rank's two buffers."""

    log: str
    source: str
    gpu: str
    collective: str
    ranks: int
    hosts: int
    bytes: float
    time_us: float


@functools.cache
def rows() -> tuple[Row, ...]:
    """All rows of healthy logs that are of data-centre GPUs with NVLink from A100 on."""
    found = []
    for file in sorted((ROOT / "configs" / "measurements").glob("*.json")):
        log = json.loads(file.read_text())
        generation = next((name for name, kinds in GENERATIONS.items() if log["gpu"].startswith(kinds)), None)
        if generation and log["health"] == "healthy":
            for row in log["rows"]:
                if row["bytes"] > 0 and row["time_us"] > 0:
                    found.append(Row(log["name"], source_of(log["name"], log["source"]), generation, row["collective"], log["ranks"],
                                     log["hosts"], float(row["bytes"]), row["time_us"]))
    return tuple(found)


def source_of(name: str, source: str) -> str:
    """Logs whose sources lie in one repository, or have the same name before the first comma, count as one source.

    This is `source_of` of runner/evaluation/population.h.
    """
    text = source.removeprefix("https://")
    if not text or "name unknown" in text:
        return name
    if text.startswith("github.com/"):
        return re.split(r"[ ,(]", "/".join(text.split("/")[:3]))[0]
    return re.split(r"[,(]", text)[0].strip()


Key = TypeVar("Key")


def grouped(all_rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    groups: dict[Key, list[Row]] = {}
    for row in all_rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def error_percent(predicted_us: float, row: Row) -> float:
    return 100 * abs(predicted_us - row.time_us) / row.time_us


def median(values: Iterable[float]) -> float:
    return statistics.median(list(values))


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def scoreboard(pattern: str) -> str:
    """What a pattern finds in reports/scoreboard.md, which holds the errors of all models."""
    found = re.search(pattern, (ROOT / "reports" / "scoreboard.md").read_text(), re.M | re.S)
    assert found, f"the scoreboard has lost {pattern}"
    return found[1]


def errors_of_calibrated() -> list[str]:
    """Median errors of the calibrated stacks on sources that were left out, in percent: below 1 MB, up to 64 MB, above."""
    return scoreboard(r"## left-out source, no rows.*?^\| calibrated \| (.*?) \|$").split(" | ")[::3]


def error_of_steps() -> str:
    """The median error of predicted steps on whole sources that were left out, in percent."""
    return scoreboard(r"^## whole sources held out.*?^\| shardlab \| (\S+) ")
