#!/usr/bin/env python3
"""Exports a PyTorch module's training step as a program of shardlab.

    scripts/export_program.py --out block.json
    scripts/export_program.py --factory mymodels:make --name mymodel --out mymodel.json
    scripts/export_program.py --factory mymodels:make --mixed-precision bf16 --no-backward --out mymodel.json

The factory takes no arguments and returns (module, positional inputs), or (module, positional inputs, keyword
inputs). It is called with fake tensors, so that a model of any size can be made; where that fails, it is called again
with tensors of the device "meta" (fake ones cannot be converted by module.to), and at last with real ones. Without
--factory a transformer block is exported (an embedding, RMS norms, causal attention, a gated feed-forward layer).

Exit code 2 stands for a wrong argument, 1 for a module that cannot be exported; stderr says why, in one sentence.

Needs PyTorch 2.13 or newer (scripts/setup --with-oracle), but no build of shardlab: the exporter, and the form of what it
writes, are in python/shardlab/exporting.py.
"""

import argparse
import contextlib
import importlib
import importlib.util
import pathlib
import sys

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("found no PyTorch; valid: the Python of an environment that has it, such as build/oracle/bin/python")

ROOT = pathlib.Path(__file__).resolve().parents[1]


def load_exporting():
    """The module shardlab.exporting, without the package around it, which needs a build."""
    spec = importlib.util.spec_from_file_location("exporting", ROOT / "python" / "shardlab" / "exporting.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


exporting = load_exporting()


class Block(nn.Module):
    """Tokens to logits through one transformer layer."""

    def __init__(self, vocabulary=32000, width=512, heads=8, hidden=1536):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.attention_norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def attention(self, x):
        """Causal attention, written out so that the graph has products and a softmax."""
        batch, rows, width = x.shape
        shape = (batch, rows, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = (q * shape[-1] ** -0.5) @ k.transpose(-1, -2)
        future = torch.ones(rows, rows, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, -1e9).softmax(dim=-1)
        return self.projection((weights @ v).transpose(1, 2).reshape(batch, rows, width))

    def forward(self, tokens):
        """The logits of every position."""
        x = self.embedding(tokens)
        x = x + self.attention(self.attention_norm(x))
        h = self.ffn_norm(x)
        x = x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))
        return self.head(x)


def make_block():
    """The default factory."""
    return Block(), (torch.zeros(16, 256, dtype=torch.int64),)


def said(error):
    """An exception of somebody else's code in one line, and where it comes from."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{exporting.where(error, script=__file__)}"


def find_factory(text):
    """The function that MODULE:FUNCTION names, with modules of the current folder first, as python -m has them."""
    name, colon, function = text.partition(":")
    if not (name and colon and function):
        raise exporting.ArgumentError(f'found --factory "{text}"; valid: MODULE:FUNCTION')
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(name)
    except Exception as error:
        what = said(error)
        raise exporting.ArgumentError(f'found --factory "{text}", whose module cannot be imported ({what}); valid: '
                                      "a module on PYTHONPATH or in the current folder") from error
    found = getattr(module, function, None)
    if not callable(found):
        names = sorted(key for key, value in vars(module).items() if callable(value) and key[0] != "_")
        valid = ", ".join(names) or "none"
        raise exporting.ArgumentError(f'found --factory "{text}"; valid: a function of {name}: {valid}')
    return found


def call_factory(factory, text):
    """What the factory returns, as (module, inputs, keyword inputs)."""
    fake = exporting.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    for tensors in (fake, torch.device("meta"), contextlib.nullcontext()):
        try:
            with tensors:
                made = factory()
            break
        except Exception as error:  # pylint: disable=broad-except
            failure = error
    else:
        raise exporting.ExportError(f'found --factory "{text}", which raises {said(failure)}; valid: a function without '
                                    "arguments that returns (module, inputs)") from failure
    parts = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    if not 2 <= len(parts) <= 3 or not isinstance(parts[0], nn.Module):
        found = ", ".join(type(part).__name__ for part in parts)
        raise exporting.ArgumentError(f'found --factory "{text}", which returns ({found}); valid: (module, inputs) or '
                                      "(module, inputs, keyword inputs)")
    return (*parts, None)[:3]


def parser():
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    made.add_argument("--factory", help="MODULE:FUNCTION that makes the model; default: a transformer block")
    made.add_argument("--name", help="the program's name; default: transformer-block, or the module's class")
    made.add_argument("--out", required=True, type=pathlib.Path, help="file to write")
    made.add_argument("--mixed-precision", choices=list(exporting.MIXED_PRECISION),
                      help="read the parameters through a cast to this dtype, and compute in it")
    made.add_argument("--decompositions", choices=exporting.DECOMPOSITIONS, default="core",
                      help="break operators up by PyTorch's core table, or as a compiled model does, and AutoParallel "
                      "with it; default: core")
    made.add_argument("--no-backward", action="store_true", help="export the forward pass alone, for inference")
    return made


def run(arguments):
    """Exports, and writes the file."""
    text = arguments.factory or "make_block"
    factory = find_factory(text) if arguments.factory else make_block
    module, inputs, kwargs = call_factory(factory, text)
    program = exporting.export(
        module, inputs, kwargs, name=arguments.name or (None if arguments.factory else "transformer-block"),
        mixed_precision=arguments.mixed_precision, backward=not arguments.no_backward,
        decompositions=arguments.decompositions,
        source="scripts/export_program.py",
    )
    try:
        arguments.out.write_text(exporting.text_of(program), encoding="utf-8")
    except OSError as error:
        raise exporting.ArgumentError(f"found --out {arguments.out} ({error.strerror}); valid: a file that can be "
                                      "written") from error


def main():
    """Runs the command line and returns the exit code."""
    arguments = parser().parse_args()
    try:
        run(arguments)
    except exporting.ExportError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, exporting.ArgumentError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
