#!/usr/bin/env python3
"""scripts/export_program.py exports modules of every kind, and shardlab solves them. Skipped without PyTorch.

This file runs twice: as a test, and with --export FOLDER under PyTorch's Python, where it writes one program for each
of CASES. With SHARDLAB_BINARY set, each program is solved on 2x4, and the operators that had no rule are compared.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint
except ImportError:
    torch = None

ROOT = Path(__file__).resolve().parents[2]
MESH = "2x4"
SCRIPT = ROOT / "scripts" / "export_program.py"
CASES = {}  # name -> (function that makes (module, inputs[, keyword inputs]), options of export)


def case(make=None, **options):
    """Registers what makes a module, under its own name."""
    if make is None:
        return functools.partial(case, **options)
    CASES[make.__name__] = (make, options)
    return make


if torch:

    class Calls(nn.Module):
        """A module whose forward is the function given, on itself and its inputs."""

        def __init__(self, function, **parts):
            super().__init__()
            self.function = function
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, *args, **kwargs):
            return self.function(self, *args, **kwargs)

    def with_sparse_buffer(call):
        """What Whisper does with the heads that align words: it keeps a sparse mask of them."""
        model = Calls(call, layer=nn.Linear(8, 8))
        model.register_buffer("links", torch.eye(8).to_sparse(), persistent=False)
        return model

    def tokens(rows=16, columns=64):
        return torch.zeros(rows, columns, dtype=torch.int64)

    # --- Transformers ---------------------------------------------------------------------------------

    @case
    def encoder_layer():
        return nn.TransformerEncoderLayer(256, 8, 512, batch_first=True), (torch.randn(16, 64, 256),)

    @case
    def encoder_layer_without_dropout():
        layer = nn.TransformerEncoderLayer(256, 8, 512, 0.0, "gelu", norm_first=True, batch_first=True)
        return layer, (torch.randn(16, 64, 256),)

    @case
    def decoder_layer():
        layer = nn.TransformerDecoderLayer(256, 8, 512, batch_first=True)
        return layer, (torch.randn(16, 64, 256), torch.randn(16, 32, 256))

    @case
    def transformer():
        mask = nn.Transformer.generate_square_subsequent_mask(32)
        model = nn.Transformer(256, 8, 1, 1, 512, batch_first=True)
        return model, (torch.randn(16, 64, 256), torch.randn(16, 32, 256)), {"tgt_mask": mask}

    @case
    def attention_with_weights():
        return nn.MultiheadAttention(256, 8, batch_first=True), (torch.randn(16, 64, 256),) * 3

    @case
    def attention_without_weights():
        call = lambda self, x: self.attention(x, x, x, need_weights=False)[0]
        return Calls(call, attention=nn.MultiheadAttention(256, 8, batch_first=True)), (torch.randn(16, 64, 256),)

    def attention_scaled_by(scale, width):
        call = lambda self, x: F.scaled_dot_product_attention(*(self.layer(x) for _ in range(3)), scale=scale)
        inputs = (torch.randn(2, 2, 16, width, dtype=torch.bfloat16),)
        return Calls(call, layer=nn.Linear(width, width)).bfloat16(), inputs

    @case
    def attention_scaled_by_zero():
        return attention_scaled_by(0.0, 36)  # which the kernel pads to 40

    @case
    def attention_scaled_by_its_width():
        return attention_scaled_by(None, 36)

    @case
    def attention_with_padding():
        attention = nn.MultiheadAttention(256, 8, batch_first=True)
        call = lambda self, x, padding: self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]
        return Calls(call, attention=attention), (torch.randn(16, 64, 256), torch.zeros(16, 64, dtype=torch.bool))

    def heads(x, count):
        return x.view(*x.shape[:-1], count, -1).transpose(1, 2)

    class GptBlock(nn.Module):
        """GPT-2's block."""

        def __init__(self, width=256):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

        def forward(self, x):
            q, k, v = (heads(part, 8) for part in self.c_attn(self.ln_1(x)).split(x.size(-1), dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).reshape(x.shape))
            return x + self.mlp(self.ln_2(x))

    @case
    def gpt2_block():
        return GptBlock(), (torch.randn(16, 64, 256),)

    @case(mixed_precision="bf16")
    def gpt2_block_in_mixed_precision():
        return GptBlock(), (torch.randn(16, 64, 256),)

    class LlamaBlock(nn.Module):
        """LLaMA's block, with grouped queries and rotary embeddings."""

        def __init__(self, width=256, count=8, groups=4):
            super().__init__()
            self.count, self.groups = count, groups
            self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)
            narrow = width * groups // count
            self.wq, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            self.wk, self.wv = nn.Linear(width, narrow, bias=False), nn.Linear(width, narrow, bias=False)
            self.w1, self.w3 = nn.Linear(width, 512, bias=False), nn.Linear(width, 512, bias=False)
            self.w2 = nn.Linear(512, width, bias=False)
            angles = torch.outer(torch.arange(64.0), 1e4 ** (-torch.arange(0, width // count, 2) / (width // count)))
            self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles), persistent=False)

        def rotated(self, x):
            turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * self.freqs_cis
            return torch.view_as_real(turned).flatten(3).type_as(x)

        def forward(self, x):
            h = self.attention_norm(x)
            q, k = self.rotated(heads(self.wq(h), self.count)), self.rotated(heads(self.wk(h), self.groups))
            v = heads(self.wv(h), self.groups)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.wo(y.transpose(1, 2).reshape(x.shape))
            h = self.ffn_norm(x)
            return x + self.w2(F.silu(self.w1(h)) * self.w3(h))

    @case(mixed_precision="bf16")
    def llama_block():
        return LlamaBlock(), (torch.randn(16, 64, 256),)

    @case
    def llama_block_in_f32():
        return LlamaBlock(), (torch.randn(16, 64, 256),)

    @case(backward=False, mixed_precision="bf16")
    def llama_block_forward():
        return LlamaBlock(), (torch.randn(16, 64, 256),)

    @case
    def vit_block():
        def call(self, images):
            patches = self.patches(images).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(patches.size(0), -1, -1), patches], dim=1) + self.positions
            return self.head(self.block(x)[:, 0])

        block = nn.TransformerEncoderLayer(192, 4, 384, 0.0, "gelu", norm_first=True, batch_first=True)
        parts = {"patches": nn.Conv2d(3, 192, 16, 16), "token": nn.Parameter(torch.zeros(1, 1, 192)),
                 "positions": nn.Parameter(torch.zeros(1, 17, 192)), "block": block, "head": nn.Linear(192, 1000)}
        return Calls(call, **parts), (torch.randn(16, 3, 64, 64),)

    # --- Images ---------------------------------------------------------------------------------------

    @case
    def resnet_bottleneck():
        def call(self, x):
            return F.relu(self.body(x) + self.short(x))

        body = nn.Sequential(
            nn.Conv2d(64, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
            nn.Conv2d(32, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
            nn.Conv2d(32, 128, 1, bias=False), nn.BatchNorm2d(128))
        short = nn.Sequential(nn.Conv2d(64, 128, 1, stride=2, bias=False), nn.BatchNorm2d(128))
        return Calls(call, body=body, short=short), (torch.randn(16, 64, 16, 16),)

    @case
    def resnet_stem():
        stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
                             nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000))
        return stem, (torch.randn(16, 3, 64, 64),)

    @case
    def batch_norm_in_bf16():
        return nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)).bfloat16(), (torch.randn(4, 8, 8, 8).bfloat16(),)

    @case
    def instance_norm_in_bf16():
        body = nn.Sequential(nn.InstanceNorm2d(8), nn.InstanceNorm2d(8, track_running_stats=True))
        return body.bfloat16(), (torch.randn(4, 8, 8, 8).bfloat16().requires_grad_(),)

    @case
    def norms_in_mixed_precision_bf16():
        body = nn.Sequential(nn.InstanceNorm1d(8), nn.BatchNorm1d(8, track_running_stats=False))
        return body, (torch.randn(4, 8, 8).requires_grad_(),)

    @case
    def unbound_heads():
        """Attention whose queries, keys and values are parts of one product, as in ViT."""

        def call(self, x):
            q, k, v = self.heads(x).view(8, 16, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
            return F.scaled_dot_product_attention(q, k, v).sum()

        return Calls(call, heads=nn.Linear(64, 192)), (torch.randn(8, 16, 64),)

    @case
    def batch_norm_in_inference():
        return nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)).eval(), (torch.randn(16, 8, 16, 16),)

    @case
    def unet_level():
        def call(self, x):
            down = F.silu(self.norm(self.down(x)))
            return self.out(torch.cat([x, self.up(self.inner(down))], dim=1))

        parts = {"down": nn.Conv2d(32, 64, 3, stride=2, padding=1), "norm": nn.GroupNorm(8, 64),
                 "inner": nn.Conv2d(64, 64, 3, padding=1),
                 "up": nn.Upsample(scale_factor=2, mode="nearest"), "out": nn.Conv2d(96, 32, 1)}
        return Calls(call, **parts), (torch.randn(16, 32, 16, 16),)

    @case
    def unet_level_bilinear():
        body = nn.Sequential(nn.Conv2d(8, 16, 2, 2), nn.Upsample(scale_factor=2, mode="bilinear"),
                             nn.ConvTranspose2d(16, 8, 2, 2))
        return body, (torch.randn(16, 8, 16, 16),)

    @case
    def convolution_without_bias():
        return nn.Conv2d(8, 16, 3, padding=1, bias=False), (torch.randn(16, 8, 16, 16),)

    @case
    def depthwise_convolution():
        body = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Hardswish(), nn.Conv2d(16, 32, 1))
        return body, (torch.randn(16, 16, 16, 16),)

    # --- Others ---------------------------------------------------------------------------------------

    @case
    def residual_mlp():
        def call(self, x):
            for layer in self.layers:
                x = x + layer(x)
            return self.norm(x)

        layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))
                               for _ in range(2))
        return Calls(call, layers=layers, norm=nn.RMSNorm(256)), (torch.randn(64, 256),)

    @case
    def checkpointed():
        def call(self, x):
            x = self.first(x)
            return checkpoint(self.layers, x, use_reentrant=False)

        def inner(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

        part = Calls(inner, layers=nn.ModuleList([nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)]))
        return Calls(call, first=nn.Linear(64, 64), layers=part), (torch.randn(16, 64),)

    @case(backward=False)
    def checkpointed_forward():
        return CASES["checkpointed"][0]()

    @case
    def offloaded():
        def call(self, x):
            with torch.autograd.graph.save_on_cpu():
                return self.layer(x).tanh()

        return Calls(call, layer=nn.Linear(64, 64)), (torch.randn(16, 64),)

    @case
    def embedding_bag():
        call = lambda self, ids, offsets: self.head(self.bag(ids, offsets))
        parts = {"bag": nn.EmbeddingBag(1000, 64, mode="mean"), "head": nn.Linear(64, 16)}
        return Calls(call, **parts), (torch.zeros(256, dtype=torch.int64), torch.zeros(32, dtype=torch.int64))

    @case
    def tied_embeddings():
        def call(self, ids):
            return self.head(self.embedding(ids))

        model = Calls(call, embedding=nn.Embedding(1000, 256), head=nn.Linear(256, 1000, bias=False))
        model.head.weight = model.embedding.weight
        return model, (tokens(),)

    @case
    def experts():
        """A mixture of experts in which every expert sees every token, weighted by the gates that topk keeps."""

        def call(self, x):
            gates = self.gate(x).softmax(dim=-1)
            best, chosen = gates.topk(2, dim=-1)
            weights = torch.zeros_like(gates).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
            hidden = F.silu(torch.einsum("td,edh->teh", x, self.up))
            return torch.einsum("teh,ehd,te->td", hidden, self.down, weights)

        parts = {"gate": nn.Linear(256, 8), "up": nn.Parameter(torch.randn(8, 256, 512)),
                 "down": nn.Parameter(torch.randn(8, 512, 256))}
        return Calls(call, **parts), (torch.randn(128, 256),)

    @case
    def experts_with_capacity():
        """A mixture of experts that gathers each expert's tokens by topk over the tokens."""

        def call(self, x):
            best, chosen = self.gate(x).softmax(dim=-1).t().topk(32, dim=-1)
            taken = x[chosen]
            made = torch.bmm(F.silu(torch.bmm(taken, self.up)), self.down) * best.unsqueeze(-1)
            return torch.zeros_like(x).index_add(0, chosen.flatten(), made.flatten(0, 1))

        parts = {"gate": nn.Linear(256, 8), "up": nn.Parameter(torch.randn(8, 256, 512)),
                 "down": nn.Parameter(torch.randn(8, 512, 256))}
        return Calls(call, **parts), (torch.randn(128, 256),)

    @case
    def lstm():
        return nn.LSTM(64, 128, batch_first=True), (torch.randn(16, 4, 64),)

    @case
    def gru():
        return nn.GRU(64, 128, batch_first=True), (torch.randn(16, 4, 64),)

    @case
    def loss_inside():
        def call(self, ids, labels):
            logits = self.head(self.embedding(ids))
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

        parts = {"embedding": nn.Embedding(1000, 256), "head": nn.Linear(256, 1000)}
        return Calls(call, **parts), (tokens(), tokens())

    @case
    def module_in_bf16():
        return GptBlock().to(torch.bfloat16), (torch.randn(16, 64, 256, dtype=torch.bfloat16),)

    def autocast_to(device):
        def call(self, x):
            with torch.autocast(device, dtype=torch.bfloat16):
                return self.block(x).softmax(dim=-1).sum()

        return Calls(call, block=GptBlock()), (torch.randn(16, 64, 256),)

    @case
    def autocast():
        return autocast_to("cuda")

    @case
    def autocast_on_cpu():
        return autocast_to("cpu")

    @case
    def frozen_parameters():
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        model[0].requires_grad_(False)
        return model, (torch.randn(16, 64),)

    class Record:
        """What forward returns beside its tensors."""

    @case
    def output_with_a_record():
        call = lambda self, x: {"record": Record(), "x": self.layer(x)}
        return Calls(call, layer=nn.Linear(32, 32)), (torch.randn(16, 32),)

    @case
    def nested_inputs():
        def call(self, batch, *more, scale=1.0, mask=None):
            x = self.layer(batch["x"]) + batch["pair"][1] * scale + more[0]
            return {"logits": x.masked_fill(mask, float("-inf")), "parts": [x, x.sum()], "none": None, "text": "t"}

        batch = {"x": torch.randn(16, 64), "pair": (torch.randn(16, 32), torch.randn(16, 32))}
        kwargs = {"scale": 2.0, "mask": torch.zeros(16, 32, dtype=torch.bool)}
        return Calls(call, layer=nn.Linear(64, 32)), (batch, torch.randn(16, 32)), kwargs

    @case
    def constants():
        def call(self, x):
            return x[:, self.chosen] * torch.tensor([1.0, 2.0, 3.0, 4.0]) + self.shift

        model = Calls(call)
        model.chosen, model.shift = torch.tensor([3, 1, 2, 0]), nn.Parameter(torch.zeros(4))
        return model, (torch.randn(16, 8, requires_grad=True),)

    @case
    def indexing():
        def call(self, x, rows):
            y = self.table[rows] + x[:, rows].mean()
            return y.cumsum(-1), y.argmax(-1), torch.where(y > 0, y, -y).clamp(0, 1).gather(-1, rows.unsqueeze(-1))

        return Calls(call, table=nn.Parameter(torch.randn(64, 32))), (torch.randn(16, 64), tokens(1, 16)[0])

    @case
    def number_first():
        return Calls(lambda self, x: 1 - self.layer(x) - 2.0, layer=nn.Linear(8, 8)), (torch.randn(16, 8),)

    @case
    def linear_algebra():
        def call(self, x):
            y = self.layer(x)
            return torch.linalg.inv(y), torch.linalg.cholesky(y @ y.t())

        return Calls(call, layer=nn.Linear(8, 8)), (torch.randn(8, 8),)

    @case
    def linear_system():
        return Calls(lambda self, x: torch.linalg.solve(self.layer(x), x), layer=nn.Linear(8, 8)), (torch.randn(8, 8),)

    @case
    def constants_in_lists():
        call = lambda self, x: self.layer(x) * self.scales[0] + self.shifts["last"][1]
        parts = {"scales": [torch.ones(8)], "shifts": {"first": 1, "last": (2, torch.ones(8))}}
        return Calls(call, layer=nn.Linear(8, 8), **parts), (torch.randn(16, 8),)

    # --- Outputs that share memory --------------------------------------------------------------------

    @case
    def output_and_its_views():
        def call(self, x):
            y = self.layer(x)
            with torch.no_grad():
                row = y[1]
            return y, y[0], y.view(y.shape), y.view(4, 4, 8), y.detach(), row, y.argmax(-1)

        return Calls(call, layer=nn.Linear(8, 8)), (torch.randn(16, 8),)

    @case
    def outputs_that_are_sources():
        call = lambda self, x, h: (x @ self.weight, self.weight, self.weight[0], h, h.t(), x)
        inputs = (torch.randn(16, 8), torch.randn(16, 8, requires_grad=True))
        return Calls(call, weight=nn.Parameter(torch.randn(8, 8))), inputs

    @case(mixed_precision="bf16", decompositions="inductor")
    def output_and_its_views_in_mixed_precision():
        return output_and_its_views()

    @case(backward=False)
    def output_and_its_views_forward():
        return output_and_its_views()

    @case
    def output_twice():
        def call(self, x):
            y = self.layer(x)
            return y, y

        return Calls(call, layer=nn.Linear(8, 8)), (torch.randn(16, 8),)

    @case
    def outputs_that_are_chunks():
        return Calls(lambda self, x: self.layer(x).chunk(2, -1), layer=nn.Linear(8, 16)), (torch.randn(16, 8),)

    @case
    def three_products():
        return nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3))), (torch.randn(64, 64),)

    @case
    def three_products_of_which_two_are_frozen():
        body, inputs = three_products()
        body[:2].requires_grad_(False)
        return body, inputs

    @case
    def meta_device():
        with torch.device("meta"):
            return nn.Linear(1 << 20, 1 << 16), (torch.empty(16, 1 << 20),)

    # --- What cannot be exported ----------------------------------------------------------------------

    @case
    def branches_on_values():
        return Calls(lambda self, x: x if x.sum() > 0 else self.layer(x), layer=nn.Linear(8, 8)), (torch.randn(4, 8),)

    @case
    def shape_from_values():
        return Calls(lambda self, x: self.layer(x[x[:, 0] > 0]), layer=nn.Linear(8, 8)), (torch.randn(4, 8),)

    @case
    def raises():
        return nn.Linear(8, 8), (torch.randn(4, 7),)

    @case
    def lazy():
        return nn.LazyLinear(8), (torch.randn(4, 7),)

    @case
    def unknown_dtype():
        return Calls(lambda self, x: x.to(torch.float8_e4m3fn)), (torch.randn(4, 8),)

    @case
    def complex_number():
        return nn.Sequential(Calls(lambda self, x: torch.fft.rfft(x) * 1j)), (torch.randn(4, 8),)

    @case
    def embedding_with_max_norm():
        return nn.Embedding(16, 8, max_norm=1.0), (torch.arange(8),)

    @case
    def takes_functions():
        def call(self, x):
            torch.ops.aten._print("here")
            return self.layer(x)

        return Calls(call, layer=nn.Linear(8, 8)), (torch.randn(4, 8),)

    @case
    def returns_no_tensor():
        return Calls(lambda self, x: 3), (torch.randn(4, 8),)

    @case
    def sparse():
        return nn.Linear(8, 8), (torch.eye(8).to_sparse(),)


    @case
    def sparse_buffer_that_is_read():
        def call(self, x):
            return torch.sparse.mm(self.links, self.layer(x))

        return with_sparse_buffer(call), (torch.randn(8, 8),)

    @case
    def sparse_buffer_that_is_not_read():
        return with_sparse_buffer(lambda self, x: self.layer(x)), (torch.randn(8, 8),)

    # --- Factories for the command line ---------------------------------------------------------------

    def make_converted():
        """A factory that fake tensors cannot serve."""
        return nn.Linear(8, 8).to(torch.bfloat16), (), {"input": torch.randn(4, 8, dtype=torch.bfloat16)}

    def make_with_tensors_of_its_own():
        """A module that keeps tensors as an attribute and in a list, as position embeddings that are no buffers are."""
        def call(self, x):
            return self.layer(x + self.positions) * self.scales[0]

        parts = {"layer": nn.Linear(8, 8), "positions": torch.arange(8).float(), "scales": [torch.ones(8)]}
        return Calls(call, **parts), (torch.randn(4, 8),)

    def make_module_alone():
        return nn.Linear(8, 8)

    def make_nothing():
        raise ValueError("nothing\n  here")


def export_all(folder):
    """Writes FOLDER/CASE.json for each case, and prints what could not be exported."""
    sys.path.insert(0, str(SCRIPT.parent))
    import export_program  # pylint: disable=import-outside-toplevel

    exporting = export_program.exporting
    errors = {}
    for name, (make, options) in CASES.items():
        try:
            module, inputs, *kwargs = make()
            program = exporting.export(module, inputs, *kwargs, name=name, **options)
            (Path(folder) / f"{name}.json").write_text(exporting.text_of(program))
        except exporting.ExportError as error:
            errors[name] = str(error)
    print(json.dumps(errors))


def oracle_python():
    given = os.environ.get("SHARDLAB_ORACLE_PYTHON")
    installed = ROOT / "build" / "oracle" / "bin" / "python"
    return given or (str(installed) if installed.exists() else "")


# What cannot be exported, and how its error reads.
REFUSED = {
    "branches_on_values": r"Calls: found aten\._local_scalar_dense\.default at .*export_program_test\.py:\d+, whose "
                          r"result depends on the tensor's values .*; valid: shapes and branches that follow from "
                          r"shapes alone",
    "shape_from_values": r"Calls: found aten\.nonzero\.default at .*export_program_test\.py:\d+, .*",
    "raises": r"Linear: found RuntimeError \(.*\[4, 7\] X \[8, 8\]\.\); valid: a module that runs on these inputs",
    "lazy": r"LazyLinear: found a lazy module, .*; valid: one that has run once",
    "sparse_buffer_that_is_read": r"Calls: found a tensor of layout torch\.sparse_coo \(_tensor_constant\d\); valid: torch\.strided",
    "sparse": r"Linear: found a tensor of layout torch\.sparse_coo; valid: torch\.strided",
    "unknown_dtype": r"Calls: aten\._to_copy\.default at .*export_program_test\.py:\d+: found torch\.float8_e4m3fn, for "
                     r"which shardlab has no name; valid: f64, .*",
    "complex_number": r"Sequential: aten\.mul\.Tensor at .*export_program_test\.py:\d+ in 0: found an argument of type "
                      r"complex; valid: real numbers, texts, dtypes and lists of them",
    "takes_functions": r"Calls: found with_effects of aten\._print\.default at .*export_program_test\.py:\d+, which "
                       r"takes functions; valid: a module of plain operators",
    "embedding_with_max_norm": r"Embedding: weight: found a parameter that has a gradient and that forward changes in place, as "
                               r"max_norm of nn\.Embedding does; valid: a parameter that forward leaves as it is, or one "
                               r"that is frozen",
    "returns_no_tensor": r"Calls: found a forward that returns int, without a tensor; valid: tensors, .*",
}
# The operators of a program that have no sharding rule.
WITHOUT_RULE = {"linear_system": ["aten.linalg_lu_solve.default"]}
# Which outputs have a gradient, and so a tangent, of the programs in which outputs share memory.
WITH_TANGENT = {
    "output_and_its_views": [0, 1, 2, 3],
    "output_and_its_views_in_mixed_precision": [0, 1, 2, 3],
    "output_and_its_views_forward": [],
    "outputs_that_are_sources": [0, 1, 2, 3, 4],
    "output_twice": [0, 1],
    "outputs_that_are_chunks": [0, 1],
}


@unittest.skipUnless(oracle_python(), "no PyTorch: run scripts/setup --with-oracle")
class ExportedPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.kept.cleanup)
        cls.folder = Path(cls.kept.name)
        ran = subprocess.run([oracle_python(), __file__, "--export", cls.folder], check=True, capture_output=True,
                             text=True)
        cls.errors = json.loads(ran.stdout)
        cls.stderr = ran.stderr
        cls.notes = sorted(line for line in ran.stderr.splitlines() if line.startswith("note: "))

    def program(self, name):
        return json.loads((self.folder / f"{name}.json").read_text())

    def labels(self, program, kind):
        return [node["label"] for node in program["nodes"] if node.get("kind") == kind]

    def ops(self, program, part):
        return [node for node in program["nodes"] if part in node.get("op", "")]

    def test_every_module_exports_but_those_that_cannot(self):
        self.assertEqual({name: error for name, error in self.errors.items() if name not in REFUSED}, {})
        for name, error in REFUSED.items():
            self.assertRegex(self.errors.get(name, ""), f"^{error}$")

    def test_every_program_solves_with_rules_for_all_its_operators(self):
        binary = os.environ.get("SHARDLAB_BINARY")
        if not binary:
            self.skipTest("SHARDLAB_BINARY is not set")
        for path in sorted(self.folder.glob("*.json")):
            with self.subTest(program=path.stem):
                # The weight on the device meta is larger than any device.
                solve = [binary, "solve", path, "--mesh", MESH, "--format", "json", "--no-timing", "--quiet", "--no-fit"]
                ran = subprocess.run(solve, check=False, capture_output=True, text=True)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                notes = json.loads(ran.stdout)["notes"]
                missing = sorted({note.split(" has no sharding rule")[0] for note in notes})
                self.assertEqual(missing, WITHOUT_RULE.get(path.stem, []))

    def test_every_gradient_and_buffer_update_is_paired_with_what_it_belongs_to(self):
        for path in sorted(self.folder.glob("*.json")):
            program = json.loads(path.read_text())
            nodes = {node["name"]: node for node in program["nodes"]}
            for first, second in program["pairs"]:
                kinds = (nodes[first]["kind"], nodes[second]["kind"])
                self.assertIn(kinds, [("parameter", "gradient"), ("input", "gradient"), ("output", "tangent"),
                                      ("buffer", "buffer_update")], path.stem)
                if kinds[1] != "tangent":
                    self.assertEqual(nodes[first]["label"], nodes[second]["label"], path.stem)
                self.assertEqual(nodes[first]["outputs"][0]["shape"], nodes[second]["outputs"][0]["shape"], path.stem)
            paired = {second for _, second in program["pairs"]}
            alone = [name for name, node in nodes.items()
                     if node.get("kind") in ("gradient", "buffer_update") and name not in paired]
            self.assertEqual(alone, [], path.stem)

    def test_each_output_that_has_a_gradient_has_a_tangent_also_where_outputs_share_memory(self):
        for name, expected in WITH_TANGENT.items():
            program = self.program(name)
            nodes = {node["name"]: node for node in program["nodes"]}
            paired = [(nodes[first]["label"], second) for first, second in program["pairs"]
                      if nodes[second]["kind"] == "tangent"]
            self.assertEqual([label for label, _ in paired], [f"output[{i}]" for i in expected], name)
            self.assertEqual(len({tangent for _, tangent in paired}), len(expected), name)
            labels = self.labels(program, "output")
            self.assertEqual(labels, [f"output[{i}]" for i in range(len(labels))], name)
            tangents = [node["name"] for node in program["nodes"] if node.get("kind") == "tangent"]
            self.assertEqual(tangents, [tangent for _, tangent in paired], name)
            read = json.dumps([node.get("inputs") for node in program["nodes"]])
            self.assertEqual([tangent for _, tangent in paired if f'"{tangent}"' not in read], [], name)

    def test_outputs_that_share_memory_add_no_operator(self):
        views = [node["outputs"][0]["shape"] for node in self.ops(self.program("output_and_its_views"), "view")
                 if node["phase"] == "forward" and node["outputs"][0]["dtype"] == "f32"]
        self.assertEqual(views, [[16, 8], [4, 4, 8]])
        for name in ("outputs_that_are_sources", "output_twice", "outputs_that_are_chunks"):
            shapes = [node["outputs"][0]["shape"] for node in self.ops(self.program(name), "view")]
            self.assertNotIn([16, 8], shapes, name)
            self.assertEqual(self.ops(self.program(name), "clone"), [], name)

    def test_a_check_without_a_result_is_left_out_of_linear_algebra(self):
        for name, part in (("linear_algebra", "linalg_inv_ex"), ("linear_algebra", "linalg_cholesky_ex"),
                           ("linear_system", "_linalg_solve_ex")):
            self.assertEqual(len(self.ops(self.program(name), part)), 1)
            self.assertEqual(self.labels(self.program(name), "parameter"), ["layer.weight", "layer.bias"])

    def test_sources_and_results_have_the_names_of_the_model(self):
        program = self.program("nested_inputs")
        self.assertEqual(self.labels(program, "parameter"), ["layer.weight", "layer.bias"])
        self.assertEqual(self.labels(program, "input"),
                         ["args[0].x", "args[0].pair[0]", "args[0].pair[1]", "args[1]", "mask"])
        self.assertEqual(self.labels(program, "output"), ["output.logits", "output.parts[0]", "output.parts[1]"])
        self.assertEqual(self.labels(program, "gradient"), ["layer.weight", "layer.bias"])
        self.assertEqual(self.labels(self.program("residual_mlp"), "parameter")[:2],
                         ["layers.0.0.weight", "layers.0.0.bias"])
        self.assertEqual(self.labels(self.program("encoder_layer"), "input"), ["src"])
        self.assertEqual(self.labels(self.program("encoder_layer"), "output"), ["output"])

    def test_operators_have_the_name_of_their_module_forward_and_backward(self):
        products = [(node["label"], node["phase"]) for node in self.ops(self.program("residual_mlp"), "mm.default")]
        self.assertEqual(products[:4], [(f"layers.{i}.{j}", "forward") for i in (0, 1) for j in (1, 3)])
        self.assertEqual(products[4:], [(f"layers.{i}.{j}", "backward") for i in (1, 0) for j in (3, 3, 1, 1)])

    def test_activations_that_forward_does_not_keep_are_noted(self):
        rest = (", which the program does not have: its time and memory are those of a module that keeps these "
                "activations, unless they are computed again by --recompute selective or full")
        self.assertEqual(self.notes, [
            "note: the forward of Calls sets hooks on the tensors saved for the backward pass (as save_on_cpu does)" + rest,
            "note: the forward of Calls, layers checkpoints activations (torch.utils.checkpoint)" + rest,
        ])
        self.assertEqual(len(self.ops(self.program("checkpointed"), "tanh.default")), 1)

    def test_a_tied_parameter_appears_once_under_its_first_name(self):
        program = self.program("tied_embeddings")
        self.assertEqual(self.labels(program, "parameter"), ["embedding.weight"])
        self.assertEqual(self.labels(program, "gradient"), ["embedding.weight"])

    def test_a_frozen_parameter_has_no_gradient(self):
        program = self.program("frozen_parameters")
        self.assertEqual(self.labels(program, "parameter"), ["0.weight", "0.bias", "2.weight", "2.bias"])
        self.assertEqual(self.labels(program, "gradient"), ["2.weight", "2.bias"])

    def test_what_was_unbound_is_stacked_in_the_backward_pass(self):
        """As cat of the first dim and a view, it would join the batch to the three parts."""
        program = self.program("unbound_heads")
        self.assertEqual(len(self.ops(program, "stack")), 1)
        self.assertEqual(self.ops(program, "cat"), [])

    def test_what_is_frozen_adds_no_products_to_the_model_flops(self):
        """Three products run forward. Backward, all three weights have a gradient and two inputs, or one weight has."""
        binary = os.environ.get("SHARDLAB_BINARY")
        if not binary:
            self.skipTest("SHARDLAB_BINARY is not set")
        flops = []
        for name in ("three_products", "three_products_of_which_two_are_frozen"):
            step = [binary, "step", self.folder / f"{name}.json", "--mesh", "dp=1", "--format", "json", "--quiet"]
            out = json.loads(subprocess.run(step, check=True, capture_output=True, text=True).stdout)
            flops.append(out["mfu_percent"] * out["step_ms"])
        self.assertAlmostEqual(flops[0] / flops[1], 8 / 4)

    def test_a_buffer_that_changes_has_its_new_value_named(self):
        updates = self.labels(self.program("resnet_stem"), "buffer_update")
        self.assertEqual(sorted(updates), ["1.num_batches_tracked", "1.running_mean", "1.running_var"])
        self.assertEqual(self.labels(self.program("batch_norm_in_inference"), "buffer_update"), [])

    def test_tensors_of_the_module_that_are_no_buffers_are_buffers_of_the_program(self):
        chosen, made = self.labels(self.program("constants"), "buffer")
        self.assertEqual(chosen, "chosen")
        self.assertRegex(made, r"^_tensor_constant\d$")
        self.assertEqual(self.labels(self.program("constants_in_lists"), "buffer"), ["scales.0", "shifts.last.1"])

    def test_absent_tensors_are_null_and_infinities_are_texts(self):
        index = self.ops(self.program("constants"), "index.Tensor")[0]
        self.assertEqual([type(each) for each in index["inputs"]], [str, list])
        self.assertEqual(index["inputs"][1][0], None)
        flash = self.ops(self.program("gpt2_block_in_mixed_precision"), "flash_attention_backward")[0]
        self.assertEqual(flash["inputs"][6:8], [None, None])
        self.assertIn("-inf", (self.folder / "nested_inputs.json").read_text())
        for path in self.folder.glob("*.json"):
            self.assertNotRegex(path.read_text(), r"NaN|Infinity")
            self.assertFalse([node["name"] for node in json.loads(path.read_text())["nodes"]
                              if node.get("inputs", [0])[-1:] == [None]], path.stem)

    def test_a_number_less_a_tensor_is_told_from_a_tensor_less_a_number(self):
        differences = [(node["op"], node["args"]["positional"]) for node in self.program("number_first")["nodes"]
                       if "sub" in node.get("op", "")]
        self.assertEqual(differences, [("aten.rsub.Scalar", [1, 1]), ("aten.sub.Tensor", [2.0, 1])])

    def test_attention_is_what_cuda_runs(self):
        kernels = {name: sorted({node["op"].split(".")[1] for node in self.ops(self.program(name), "scaled_dot")})
                   for name in ("gpt2_block", "gpt2_block_in_mixed_precision", "module_in_bf16", "llama_block",
                                "llama_block_in_f32", "llama_block_forward", "autocast", "autocast_on_cpu")}
        flash = ["_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward"]
        efficient = [name.replace("flash", "efficient") for name in flash]
        self.assertEqual(kernels, {
            "gpt2_block": efficient, "gpt2_block_in_mixed_precision": flash, "module_in_bf16": flash,
            "llama_block": flash, "llama_block_in_f32": [], "llama_block_forward": flash[:1], "autocast": flash,
            "autocast_on_cpu": flash})

    def test_a_scale_of_attention_is_kept_also_where_it_is_zero(self):
        for name, scale in (("attention_scaled_by_zero", 0.0), ("attention_scaled_by_its_width", 36**-0.5)):
            kernels = self.ops(self.program(name), "flash_attention")
            self.assertEqual([kernel["args"]["positional"][-1] for kernel in kernels], [scale, scale], name)

    def test_what_is_no_tensor_is_left_out_with_a_note(self):
        self.assertIn("shardlab.export: the program leaves out output.record, a Record, because it is no tensor\n",
                      self.stderr)
        self.assertEqual(self.labels(self.program("output_with_a_record"), "output"), ["output.x"])

    def test_norms_keep_statistics_in_f32_and_autocast_computes_softmax_in_f32(self):
        norm = self.ops(self.program("module_in_bf16"), "native_layer_norm.default")[0]
        self.assertEqual([output["dtype"] for output in norm["outputs"]], ["bf16", "f32", "f32"])
        softmax = self.ops(self.program("autocast"), "_softmax.default")[-1]
        self.assertEqual(softmax["outputs"][0]["dtype"], "f32")

    def test_mixed_precision_reads_parameters_through_casts_and_casts_gradients_back(self):
        program = self.program("gpt2_block_in_mixed_precision")
        nodes = {node["name"]: node for node in program["nodes"]}
        for node in program["nodes"]:
            for source in node.get("inputs", []):
                read = nodes.get(source) if isinstance(source, str) else None
                if read and read.get("kind") == "parameter":
                    self.assertEqual((node["op"], node["args"]["positional"][0]), ("aten._to_copy.default", "bf16"))
            if node.get("kind") == "gradient":
                cast = nodes[node["inputs"][0]]
                self.assertEqual((cast["op"], cast["args"]["positional"][0]), ("aten._to_copy.default", "f32"))

    def test_a_forward_pass_has_no_backward(self):
        program = self.program("llama_block_forward")
        self.assertEqual({node["phase"] for node in program["nodes"]}, {"forward"})
        self.assertEqual(program["pairs"], [])

    # --- The command line -----------------------------------------------------------------------------

    def run_script(self, *words):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        out = self.folder / "script.out"
        ran = subprocess.run([oracle_python(), SCRIPT, "--out", out, *words], check=False, capture_output=True,
                             text=True, env=environment)
        self.assertNotIn("Traceback", ran.stderr)
        return ran.returncode, ran.stderr.strip(), out

    def test_the_default_is_the_block_that_is_shipped(self):
        code, error, out = self.run_script()
        self.assertEqual((code, error), (0, ""))

        def content(path):
            program = json.loads(path.read_text())
            nodes = [{key: value for key, value in node.items() if key != "label"} for node in program["nodes"]]
            return program["name"], nodes, program["pairs"]

        self.assertEqual(content(out), content(ROOT / "configs" / "programs" / "transformer-block.json"))

    def test_a_factory_that_converts_its_module_and_has_keyword_inputs_is_exported(self):
        code, error, out = self.run_script("--factory", "export_program_test:make_converted", "--no-backward",
                                           "--mixed-precision", "bf16")
        self.assertEqual((code, error), (0, ""))
        program = json.loads(out.read_text())
        self.assertEqual((program["name"], self.labels(program, "input")), ("Linear", ["input"]))

    def test_tensors_that_a_factory_keeps_in_its_module_are_buffers_of_the_program(self):
        code, error, out = self.run_script("--factory", "export_program_test:make_with_tensors_of_its_own")
        self.assertEqual((code, error), (0, ""))
        labels = self.labels(json.loads(out.read_text()), "buffer")
        self.assertEqual(labels, ["positions", "scales.0"])

    def test_a_sparse_buffer_that_forward_does_not_read_is_no_part_of_the_program(self):
        self.assertEqual(self.labels(self.program("sparse_buffer_that_is_not_read"), "buffer"), [])

    def test_wrong_arguments_are_refused_with_what_is_valid(self):
        of = "export_program_test"
        for factory, expected, message in (
            ("nowhere", 2, r'found --factory "nowhere"; valid: MODULE:FUNCTION'),
            ("nowhere:make", 2, r'found --factory "nowhere:make", whose module cannot be imported '
                                r"\(ModuleNotFoundError: No module named 'nowhere'\); valid: a module on .*"),
            (f"{of}:mak", 2, rf'found --factory "{of}:mak"; valid: a function of {of}: .*make_converted.*'),
            (f"{of}:make_module_alone", 2, r"found .*, which returns \(Linear\); valid: \(module, inputs\) or .*"),
            (f"{of}:make_nothing", 1, r"found .*, which raises ValueError: nothing here at .*_test\.py:\d+; valid: .*"),
            (f"{of}:branches_on_values", 1, REFUSED["branches_on_values"]),
        ):
            with self.subTest(factory=factory):
                code, error, _ = self.run_script("--factory", factory)
                self.assertEqual(code, expected)
                self.assertRegex(error, f"^{message}$")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--export"]:
        export_all(sys.argv[2])
    else:
        unittest.main()
