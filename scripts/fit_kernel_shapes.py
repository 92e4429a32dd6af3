#!/usr/bin/env python3
"""Fits the constants of the compute model `kernels` to configs/measurements/kernels and prints them.

    scripts/fit_kernel_shapes.py            # needs numpy and scipy

The constants in costmodel/models/kernels.cpp are these, rounded, but for the start-up on A100 (that of B200), the rates of
unaligned products on Hopper and Blackwell, which follow from A100's, and TF32 on A100, which takes the constants of 16 bits.
The rows whose `held_out` is 1 take no part. The loss is the sum of Huber's function of ln(predicted / measured), so that a
few odd kernels do not decide. The formulas are those of kernels.cpp, written again;
tests/unit/costmodel/models/kernels_measured_test.cpp prices the rows with the model itself.
"""

import csv
import pathlib

import numpy as np
from scipy.optimize import minimize

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "configs" / "measurements" / "kernels"
# Multiprocessors, dense bf16 TFLOP/s and memory bandwidth in TB/s of configs/topologies.
DEVICES = {
    "a100": (108, 312.0, 2.039), "a100-40": (108, 312.0, 1.555), "h100": (132, 989.0, 3.35), "h200": (132, 989.0, 4.8), "b200": (148, 2250.0, 8.0),
    "gb200": (152, 2500.0, 8.0), "gb300": (152, 2500.0, 8.0), "mi300x": (304, 1307.4, 5.3), "mi355x": (256, 2516.6, 8.0),
}
NVIDIA_TILES = ((128, 256), (128, 128), (64, 256), (64, 128), (64, 64))
AMD_TILES = ((256, 256), (256, 128), (128, 128), (128, 64), (64, 64))
MEMORY_EFFICIENCY = 0.85
ALIGNED = 8  # elements of 16 bits in 16 bytes
ITEM_BYTES = {"f8e4m3": 1, "tf32": 4}  # of the operands; 2 of the other dtypes


def rows(name):
    with open(FOLDER / name, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers(chosen, key):
    return np.array([float(row[key]) for row in chosen])


def fit(predict, measured, starts, low, high):
    low, high = np.array(low), np.array(high)

    def loss(x):
        inside = np.clip(x, low, high)
        error = np.log(predict(inside) / measured)
        return np.sum(np.sqrt(1 + (error / 0.05) ** 2) - 1) + 1e3 * np.sum(np.abs(x - inside) / high)

    options = {"maxiter": 8000, "maxfev": 8000, "adaptive": True}
    best = min((minimize(loss, start, method="Nelder-Mead", options=options) for start in starts), key=lambda found: found.fun)
    return np.clip(best.x, low, high)


def report(name, x, predicted, measured, held):
    error = 100 * np.abs(predicted / measured - 1)
    text = f"{name}: {', '.join(f'{value:.4g}' for value in x)}; median error {np.median(error[~held]):.1f} %"
    print(text + (f", held out {np.median(error[held]):.1f} %" if held.any() else ""))


def gemm_us(chosen, tiles, sustained, x, aligned=1.0):
    """Start-up, tile efficiency, k_half, split_us, the share of k_half of later waves, and the rates of all tiles but the first."""
    startup, efficiency, k_half, split_us, later = x[:5]
    sms, peak, bandwidth = DEVICES[chosen[0]["topology"]]
    item = ITEM_BYTES.get(chosen[0]["dtype"], 2)
    rate = peak * 2 / item * 1e6
    traffic_rate = MEMORY_EFFICIENCY * bandwidth * 1e6
    batch, m, n, k = (numbers(chosen, key) for key in ("batch", "m", "n", "k"))
    best = np.full(len(chosen), np.inf)
    for (tm, tn), share in zip(tiles, (1.0, *x[5:])):
        count = batch * np.ceil(m / tm) * np.ceil(n / tn)
        for split in (1, 2, 4, 8):
            step = 128 / item
            waves = np.ceil(count * split / sms)
            depth = waves * np.ceil(k / (split * step)) * step / aligned + (1 + later * (waves - 1)) * k_half / item
            us = 2 * tm * tn * depth / (rate * efficiency * share / sms)
            if split > 1:
                us = us + split_us + 8 * split * batch * m * n / traffic_rate
            best = np.minimum(best, us)
    traffic = batch * (item * (m * k + k * n) + max(item, 2) * m * n) / traffic_rate
    return startup + np.maximum(traffic, np.maximum(best, 2 * batch * m * n * k / (rate * sustained * aligned)))


def row_multiple(row):
    """The elements of which the rows of the operands and of the product, k and n long, are a multiple; a single element is any."""
    return min(int(row[key]) & -int(row[key]) if int(row[key]) > 1 else 64 for key in ("k", "n"))


def gemm(topology, source, tiles, sustained, sustained_8_bits, fits_later=False):
    """The constants of aligned products in 16 bits, those of their own in 8 bits and TF32, and the rates of unaligned products."""
    measured_here = [row for row in rows("gemm.csv") if row["topology"] == topology]
    chosen = [row for row in measured_here if row["source"].startswith(source) and row["dtype"] in ("bf16", "f16") and row_multiple(row) >= ALIGNED]
    held = numbers(chosen, "held_out") == 1
    measured = numbers(chosen, "time_us")
    starts = ([5, 0.88, 400, 1, 1, 0.95, 0.8, 0.75, 0.6], [4, 0.8, 800, 3, 0.3, 0.9, 0.8, 0.7, 0.6])
    low = [0, 0.1, 0, 0, 0 if fits_later else 1, *[0.1] * 4]
    x = fit_on(lambda x: gemm_us(chosen, tiles, sustained, x), measured, held, starts, low, [40, 1.2, 4000, 30, 1, *[1.5] * 4])
    report(f"gemm on {topology} (k_half in bytes)", x, gemm_us(chosen, tiles, sustained, x), measured, held)

    eight_bits = [row for row in measured_here if row["source"].startswith(source) and row["dtype"] == "f8e4m3"]
    if eight_bits:
        held = numbers(eight_bits, "held_out") == 1
        times = numbers(eight_bits, "time_us")
        low = fit_on(lambda e: gemm_us(eight_bits, tiles, sustained_8_bits, [x[0], e[0], *x[2:]]), times, held, ([x[1]],), [0.1], [1.2])
        report(f"gemm on {topology}, 8 bits: tile efficiency", low, gemm_us(eight_bits, tiles, sustained_8_bits, [x[0], low[0], *x[2:]]), times, held)
    tf32 = [row for row in measured_here if row["source"].startswith(source) and row["dtype"] == "tf32"]
    if tf32:
        held = numbers(tf32, "held_out") == 1
        times = numbers(tf32, "time_us")

        def predict(v):
            return gemm_us(tf32, tiles, sustained, [x[0], v[0], v[1], *x[3:]])

        own = fit_on(predict, times, held, (x[1:3],), [0.1, 0], [1.2, 6000])
        report(f"gemm on {topology}, TF32: tile efficiency, k_half", own, predict(own), times, held)
    for name, multiples in (("odd rows", (1,)), ("rows of 2 or 4 elements", (2, 4))):
        unaligned = [row for row in measured_here if row["dtype"] in ("bf16", "f16") and row_multiple(row) in multiples]
        held = numbers(unaligned, "held_out") == 1
        if held.all():
            continue
        times = numbers(unaligned, "time_us")
        rate = fit_on(lambda r: gemm_us(unaligned, tiles, sustained, x, r[0]), times, held, ([0.5],), [0.05], [1.5])
        report(f"gemm on {topology}, {name}: rate", rate, gemm_us(unaligned, tiles, sustained, x, rate[0]), times, held)


def fit_on(predict, measured, held, starts, low, high):
    return fit(lambda x: predict(x)[~held], measured[~held], starts, low, high)


def attention_us(chosen, backward, x):
    """Efficiency, softmax operations of a pair, half_keys and the rate of heads of more than 128."""
    efficiency, softmax, half_keys, wide = x
    us = []
    for row in chosen:
        sms, peak, _ = DEVICES[row["topology"]]
        keys = ("batch", "heads", "queries", "keys", "key_dim", "value_dim", "window")
        batch, heads, queries, length, key_dim, value_dim, window = (float(row[key]) for key in keys)
        causal = row["causal"] == "1"
        visible = np.full(int(queries), length)
        if causal:
            visible = np.clip(np.arange(1, int(queries) + 1) + length - queries, 0, min(window or length, length))
        pairs = min(visible.sum() + 64 * queries * (causal + (window > 0)), queries * length) + queries * half_keys
        operations = (5 if backward else 2) * (key_dim + value_dim) + softmax
        waves = batch * heads * np.ceil(queries / 128) / sms
        rate = peak * 1e6 * efficiency * (wide if max(key_dim, value_dim) > 128 else 1)
        us.append(2.5 + np.ceil(waves) / waves * batch * heads * pairs * operations / rate)
    return np.array(us)


def attention(name, sources, backward):
    chosen = [row for row in rows("attention.csv") if row["source"] in sources and row["dtype"] != "f8e4m3"
              and row["pass"] == ("backward" if backward else "forward")]
    held = numbers(chosen, "held_out") == 1
    measured = numbers(chosen, "time_us")
    starts = ([0.8, 200, 150, 0.9], [0.9, 300, 300, 0.8], [0.4, 80, 100, 0.85], [0.9, 1000, 300, 0.8])
    x = fit_on(lambda x: attention_us(chosen, backward, x), measured, held, starts, [0.1, 0, 0, 0.3], [1, 3000, 2000, 1.3])
    report(name, x, attention_us(chosen, backward, x), measured, held)
    return x


def both(name, source, forward, wide_of):
    """The backward pass from charts of both passes together, given the forward pass."""
    chosen = [row for row in rows("attention.csv") if row["source"] == source]
    held = numbers(chosen, "held_out") == 1
    measured = numbers(chosen, "time_us")
    ahead = attention_us(chosen, False, forward)

    def predict(x):
        return ahead + attention_us(chosen, True, (*x, wide_of))

    x = fit_on(predict, measured, held, ([0.4, 100, 150], [0.35, 50, 200]), [0.1, 0, 0], [1, 3000, 2000])
    report(name, x, predict(x), measured, held)
    return (*x, wide_of)


def scaled(name, source, forward, backward):
    """One factor for the efficiencies of both passes."""
    chosen = [row for row in rows("attention.csv") if row["source"] == source]
    held = numbers(chosen, "held_out") == 1
    measured = numbers(chosen, "time_us")

    def predict(x):
        return (attention_us(chosen, False, (forward[0] * x[0], *forward[1:])) +
                attention_us(chosen, True, (backward[0] * x[0], *backward[1:])))

    x = fit_on(predict, measured, held, ([2.0], [1.5]), [0.5], [3])
    report(name, x, predict(x), measured, held)


def main():
    # The last figures are the shares of the peak, in 16 and 8 bits, that no product exceeds: the best in `mamf` on H100 and B200, and the best of the
    # table on AMD's GPUs. On A100 it is what large products of the table sustain.
    gemm("a100-40", "cookbook", NVIDIA_TILES, 0.805, 0.805)
    gemm("h100", "xla", NVIDIA_TILES, 0.803, 0.734, fits_later=True)
    gemm("b200", "xla", NVIDIA_TILES, 0.776, 0.763)
    gemm("mi300x", "xla", AMD_TILES, 0.446, 0.667)
    gemm("mi355x", "xla", AMD_TILES, 0.568, 0.388)
    flash = attention("flash on h100, forward", ("fa3-chart-flash",), False)
    flash_backward = both("flash on h100, backward", "fa2-h100-chart", flash, flash[3])
    scaled("flash on a100, beside h100", "fa2-a100-chart", flash, flash_backward)
    attention("cudnn and flash3 on hopper, forward", ("fa3-chart-flash3", "cudnn-h200"), False)
    attention("cudnn on h200, backward", ("cudnn-h200",), True)
    for gpu in ("gb200", "gb300"):
        attention(f"cudnn on {gpu}, forward", (f"cudnn-{gpu}",), False)
        attention(f"cudnn on {gpu}, backward", (f"cudnn-{gpu}",), True)


if __name__ == "__main__":
    main()
