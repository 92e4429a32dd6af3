"""DTensor's model of a collective, and its constants fitted to measured times.

    t = base + hops * hop + (GiB * hops / n) / (GB/s) * 1e6     costmodel/models/dtensor.cpp

Times are in microseconds; n ranks; hops n - 1, for all_reduce 2 (n - 1).
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

from findings.measured import DOMAIN_DEVICES, Row

GIB = 1024.0**3
ROUNDS = 100
SMALLEST_ERROR = 0.15  # of ln(time), below which an error counts as that of any other good row
PRIOR_SD = 2.0  # of ln(constant) around PyTorch's: holds what no row says, and moves what rows say by next to nothing


@dataclass(frozen=True)
class Constants:
    """Those of one kind of GPU; the names are the parameters of shardlab's model."""

    base_latency_us: float = 6.6
    intra_host_hop_us: float = 0.6
    inter_host_hop_us: float = 2.7
    bandwidth_gb_per_s: float = 87.7
    inter_host_factor: float = 0.22

    def price(self, row: Row) -> float:
        between = leaves_domain(row)
        hops = (2 if row.collective == "all_reduce" else 1) * (row.ranks - 1)
        hop = self.inter_host_hop_us if between else self.intra_host_hop_us
        bandwidth = self.bandwidth_gb_per_s * (self.inter_host_factor if between else 1.0)
        return self.base_latency_us + hops * hop + row.bytes / GIB * hops / row.ranks / bandwidth * 1e6

    def slopes(self, row: Row, time: float) -> tuple[float, ...]:
        """The derivatives of ln(price) by ln(constant)."""
        between = leaves_domain(row)
        hops = (2 if row.collective == "all_reduce" else 1) * (row.ranks - 1)
        hop = hops * (self.inter_host_hop_us if between else self.intra_host_hop_us) / time
        start = self.base_latency_us / time
        transfer = start + hop - 1.0
        return start, 0.0 if between else hop, hop if between else 0.0, transfer, transfer if between else 0.0


NAMES = [field.name for field in fields(Constants)]
INSIDE = ("intra_host_hop_us", "bandwidth_gb_per_s")
BETWEEN = ("inter_host_hop_us", "inter_host_factor")


def leaves_domain(row: Row) -> bool:
    """Whether a group is larger than the GPUs that NVLink joins: those of a host, or those of an NVL72 rack."""
    return row.ranks > max(row.ranks // row.hosts, DOMAIN_DEVICES.get(row.gpu, 1))


def unknown(rows: Sequence[Row]) -> tuple[str, ...]:
    """The constants that no row says anything about: those inside a host, or those between hosts."""
    crossed = {leaves_domain(row) for row in rows}
    return () if len(crossed) == 2 else INSIDE if True in crossed else BETWEEN


def fit(rows: Sequence[Row], prior: Constants = Constants()) -> Constants:
    """Least absolute errors of ln(time), in which each log counts as one.

    Absolute errors rather than squares, since the clusters differ by more than their rows scatter: a few slow ones would
    otherwise pull the constants away from all others. Each round is one of least squares (Gauss and Newton, damped, in
    ln(constant)), whose weights are divided by the errors of the round before. Constants that no row knows stay.
    """
    rows_of: dict[str, int] = {}
    for row in rows:
        rows_of[row.log] = rows_of.get(row.log, 0) + 1
    even = [len(rows) / len(rows_of) / rows_of[row.log] for row in rows]
    centre = [math.log(value) for value in astuple(prior)]
    free = [index for index, name in enumerate(NAMES) if name not in unknown(rows)]
    logs, weights = list(centre), even
    for _ in range(ROUNDS):
        before, logs = logs, least_squares(rows, weights, logs, centre, free)
        if max(abs(new - old) for new, old in zip(logs, before)) < 1e-4:
            break
        constants = Constants(*map(math.exp, logs))
        errors = [abs(math.log(constants.price(row) / row.time_us)) for row in rows]
        weights = [weight / max(error, SMALLEST_ERROR) for weight, error in zip(even, errors)]
    return Constants(*map(math.exp, logs))


def least_squares(rows: Sequence[Row], weights: Sequence[float], logs: list[float], centre: Sequence[float],
                  free: Sequence[int]) -> list[float]:
    """Where the weighted sum of squared errors and of squared distances from the centre is least, from a start."""

    def loss(at: Sequence[float]) -> float:
        constants = Constants(*map(math.exp, at))
        return sum(weight * math.log(constants.price(row) / row.time_us) ** 2 for weight, row in zip(weights, rows)) + sum(
            ((at[index] - centre[index]) / PRIOR_SD) ** 2 for index in free)

    damping, best = 1e-2, loss(logs)
    for _ in range(40):
        constants = Constants(*map(math.exp, logs))
        gradient = [(logs[index] - centre[index]) / PRIOR_SD**2 for index in free]
        normal = [[(left == right) / PRIOR_SD**2 for right in free] for left in free]
        for weight, row in zip(weights, rows):
            time = constants.price(row)
            error = math.log(time / row.time_us)
            slope = constants.slopes(row, time)
            for i, left in enumerate(free):
                if slope[left]:
                    gradient[i] += weight * slope[left] * error
                    for j, right in enumerate(free):
                        normal[i][j] += weight * slope[left] * slope[right]
        for _ in range(20):
            damped = [[value * (1 + damping) if i == j else value for j, value in enumerate(line)]
                      for i, line in enumerate(normal)]
            candidate = list(logs)
            for index, change in zip(free, solve(damped, gradient)):
                candidate[index] -= change
            trial = loss(candidate)
            if trial < best:
                break
            damping *= 4
        else:
            break
        gain, logs, best, damping = best - trial, candidate, trial, damping / 4
        if gain < 1e-8 * best:
            break
    return logs


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a few linear equations, by elimination."""
    lines = [list(line) + [value] for line, value in zip(matrix, right)]
    for pivot in range(len(lines)):
        best = max(range(pivot, len(lines)), key=lambda line: abs(lines[line][pivot]))
        lines[pivot], lines[best] = lines[best], lines[pivot]
        for line in range(len(lines)):
            if line != pivot:
                factor = lines[line][pivot] / lines[pivot][pivot]
                lines[line] = [a - factor * b for a, b in zip(lines[line], lines[pivot])]
    return [line[-1] / line[index] for index, line in enumerate(lines)]
