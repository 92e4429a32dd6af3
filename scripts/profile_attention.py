#!/usr/bin/env python3
"""Profiles attention of many shapes on one GPU, forward and backward, for `shardlab validate`.

    scripts/profile_attention.py --out attention.json.gz
    shardlab validate attention.json.gz --stack steps --topology h100 --rows

Each shape is a call of torch.nn.functional.scaled_dot_product_attention in bf16, whose backend --backend names, and its
backward pass. Shapes are those of common models: heads of 64 and 128, sequences from --min-seq to --max-seq tokens,
doubling, and some that are no multiple of a tile; with as many sequences as --tokens holds; with and without a causal
mask; and, for the longest, queries that attend to more keys than there are queries.

The trace holds all shapes. --device cpu is a rehearsal on short sequences: its trace has no kernels.

Needs PyTorch 2.6 or newer and, of shardlab, only profile_step.py beside it.
"""

import argparse
import itertools
import pathlib
import sys

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:
    sys.exit("profile_attention: found no PyTorch 2.6 or newer; valid: the Python of an environment that has it")

from profile_step import write_trace

HEADS = {64: 16, 128: 32}  # how many heads of each width
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="trace to write, such as attention.json.gz")
    parser.add_argument("--backend", choices=BACKENDS, default="flash")
    parser.add_argument("--min-seq", type=int, default=512, help="tokens of the shortest sequences")
    parser.add_argument("--max-seq", type=int, default=16384, help="tokens of the longest sequences")
    parser.add_argument("--tokens", type=int, default=16384, help="tokens of all sequences of a call")
    parser.add_argument("--warmup", type=int, default=2, help="runs over all shapes before those that are traced")
    parser.add_argument("--runs", type=int, default=5, help="runs over all shapes that are traced")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    for name in ("min_seq", "max_seq", "tokens", "runs"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: found {getattr(arguments, name)}; valid: at least 1")
    if arguments.warmup < 0:
        parser.error(f"--warmup: found {arguments.warmup}; valid: at least 0")
    if not arguments.min_seq <= arguments.max_seq <= arguments.tokens:
        parser.error("--min-seq must be at most --max-seq, and that at most --tokens")
    return arguments


def shapes(arguments):
    """Yields (batch, heads, queries, keys, width of a head, whether a causal mask hides later keys)."""
    lengths = []
    tokens = arguments.min_seq
    while tokens <= arguments.max_seq:
        lengths.append(tokens)
        tokens *= 2
    odd = [tokens - tokens // 8 + 1 for tokens in lengths[:3]]
    for (width, heads), tokens, causal in itertools.product(HEADS.items(), lengths + odd, (True, False)):
        yield arguments.tokens // tokens, heads, tokens, tokens, width, causal
    for width, heads in HEADS.items():
        yield 1, heads, max(1, arguments.max_seq // 4), arguments.max_seq, width, False


def calls_of(arguments):
    """Yields the inputs of each call, the gradient of its output, and whether it is causal. All calls share their memory."""
    sizes = list(shapes(arguments))
    longest = max(batch * heads * max(queries, keys) * width for batch, heads, queries, keys, width, _ in sizes)
    generator = torch.Generator(arguments.device).manual_seed(0)
    memory = torch.randn(4, longest, dtype=torch.bfloat16, device=arguments.device, generator=generator)
    for batch, heads, queries, keys, width, causal in sizes:
        rows = (queries, keys, keys, queries)
        query, key, value, gradient = (
            values[: batch * heads * tokens * width].view(batch, heads, tokens, width)
            for values, tokens in zip(memory, rows)
        )
        yield [tensor.detach().requires_grad_() for tensor in (query, key, value)], gradient, causal


def run(arguments):
    calls = list(calls_of(arguments))

    def call_each():
        for inputs, gradient, causal in calls:
            out = scaled_dot_product_attention(*inputs, is_causal=causal)
            torch.autograd.grad(out, inputs, gradient)

    write_trace(arguments, arguments.runs, call_each)


def main():
    arguments = parsed_arguments()
    if arguments.device == "cpu":
        run(arguments)
    elif not torch.cuda.is_available():
        sys.exit("profile_attention: found no GPU that PyTorch can use; valid: a machine with one, or --device cpu")
    else:
        with sdpa_kernel(BACKENDS[arguments.backend]):
            run(arguments)
    print(f"shardlab validate {arguments.out} --stack steps --rows")


if __name__ == "__main__":
    main()
