#!/usr/bin/env python3
"""Profiles training steps of a LLaMA on one GPU, for `shardlab step --profile` and `shardlab validate`.

    scripts/profile_step.py --layers 1 --seq 4096 --micro-batch 2 --out eager.json.gz
    scripts/profile_step.py --layers 1 --seq 4096 --micro-batch 2 --compile --out compiled.json.gz

The model is the one that `shardlab step llama3-8b` predicts, with as many blocks as --layers says: an embedding, blocks
of RMS norms, grouped-query attention with rotary embedding and a gated feed-forward layer, and an output with its
loss. It trains as torchtitan trains: FSDP2 on a mesh of one rank, weights of f32 that are cast to bf16, gradients of
f32, FlashAttention, AdamW in one fused kernel; with --compile each block is compiled by itself.

The trace holds a few steps after some that warm up, with the shapes of all operators. The script prints the command
that predicts the same step. --device cpu is a rehearsal: its trace has no kernels.

Needs PyTorch 2.6 or newer, and nothing of shardlab.
"""

import argparse
import pathlib
import sys

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.profiler import ProfilerActivity, profile, schedule
except ImportError:
    sys.exit("profile_step: found no PyTorch 2.6 or newer; valid: the Python of an environment that has it")


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="trace to write, such as eager.json.gz")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--seq", type=int, default=4096, help="tokens of a sequence")
    parser.add_argument("--micro-batch", type=int, default=1, help="sequences of a step")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--ffn", type=int, default=14336)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--compile", action="store_true", help="compile each block by itself")
    parser.add_argument("--warmup", type=int, default=5, help="steps before those that are traced")
    parser.add_argument("--steps", type=int, default=3, help="steps that are traced")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    for name in ("layers", "seq", "micro_batch", "width", "heads", "kv_heads", "ffn", "vocabulary", "steps"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: found {getattr(arguments, name)}; valid: at least 1")
    if arguments.warmup < 0:
        parser.error(f"--warmup: found {arguments.warmup}; valid: at least 0")
    if arguments.width % arguments.heads or arguments.heads % arguments.kv_heads:
        parser.error("--heads: must divide --width, and --kv-heads must divide --heads")
    if arguments.width // arguments.heads % 2:
        parser.error("--heads: the width of a head must be even, since rotary embedding turns pairs")
    return arguments


def rotated(x, cosines, sines):
    """Turns each pair of elements of a head, half a head apart, by the angle of its position."""
    left, right = x.float().chunk(2, dim=-1)
    return torch.cat((left * cosines - right * sines, right * cosines + left * sines), dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Causal attention whose queries share the heads of keys and values in groups."""

    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.head_dim = width // heads
        self.groups = heads // kv_heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.value = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, *turns):
        batch, tokens, _ = x.shape
        query, key, value = (
            part(x).view(batch, tokens, -1, self.head_dim) for part in (self.query, self.key, self.value)
        )
        query, key = rotated(query, *turns), rotated(key, *turns)
        key, value = (part.repeat_interleave(self.groups, dim=2) for part in (key, value))
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        out = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(out.transpose(1, 2).reshape(batch, tokens, -1))


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, ffn):
        super().__init__()
        self.attention_norm = nn.RMSNorm(width)
        self.attention = Attention(width, heads, kv_heads)
        self.ffn_norm = nn.RMSNorm(width)
        self.gate = nn.Linear(width, ffn, bias=False)
        self.up = nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x, *turns):
        x = x + self.attention(self.attention_norm(x), *turns)
        y = self.ffn_norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, arguments):
        super().__init__()
        self.embedding = nn.Embedding(arguments.vocabulary, arguments.width)
        self.blocks = nn.ModuleList(
            Block(arguments.width, arguments.heads, arguments.kv_heads, arguments.ffn) for _ in range(arguments.layers)
        )
        self.norm = nn.RMSNorm(arguments.width)
        self.output = nn.Linear(arguments.width, arguments.vocabulary, bias=False)

    def forward(self, tokens, *turns):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, *turns)
        return self.output(self.norm(x))


def turns_of(arguments):
    """Cosines and sines of the angle of each position and pair, for all heads: LLaMA 3's base of 500,000."""
    head_dim = arguments.width // arguments.heads
    rates = 500000.0 ** -(torch.arange(0, head_dim, 2, device=arguments.device).float() / head_dim)
    angles = torch.outer(torch.arange(arguments.seq, device=arguments.device).float(), rates)[:, None, :]
    return angles.cos(), angles.sin()


def sharded_model(arguments):
    model = Llama(arguments).to(arguments.device)
    mesh = init_device_mesh(arguments.device, (1,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for i, block in enumerate(model.blocks):
        if arguments.compile:
            block = torch.compile(block)
            model.blocks[i] = block
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def topology_option(arguments):
    """The option that names this GPU; none where no topology of it is shipped."""
    name = torch.cuda.get_device_name(0).lower() if arguments.device == "cuda" else ""
    for gpu in ("gh200", "gb200", "h200", "h100", "b200", "a100"):
        if gpu in name:
            return "" if gpu == "gh200" else f" --topology {gpu}"
    return ""


def predicting_command(arguments):
    return (
        f"shardlab step llama3-8b --mesh fsdp=1 --sharding full{topology_option(arguments)} --layers {arguments.layers} --width {arguments.width} "
        f"--heads {arguments.heads} --kv-heads {arguments.kv_heads} --ffn {arguments.ffn} "
        f"--vocabulary {arguments.vocabulary} --seq {arguments.seq} --micro-batch {arguments.micro_batch}"
        f"{' --compile' if arguments.compile else ''} --profile {arguments.out}"
    )


def write_trace(arguments, steps, step):
    """Traces calls of `step`, with the shapes of all operators, after --warmup of them, into the file --out."""
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if arguments.device == "cuda" else [])
    plan = schedule(wait=0, warmup=arguments.warmup, active=steps, repeat=1)
    with profile(activities=activities, schedule=plan, record_shapes=True) as profiler:
        for _ in range(arguments.warmup + steps):
            step()
            if arguments.device == "cuda":
                torch.cuda.synchronize()  # so that the marks of a step hold the kernels that it launched
            profiler.step()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(arguments.out))


def run(arguments):
    torch.manual_seed(0)
    model = sharded_model(arguments)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    turns = turns_of(arguments)
    shape = (arguments.micro_batch, arguments.seq)
    tokens, targets = (torch.randint(arguments.vocabulary, shape, device=arguments.device) for _ in range(2))

    def step():
        logits = model(tokens, *turns)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    write_trace(arguments, arguments.steps, step)


def main():
    arguments = parsed_arguments()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("profile_step: found no GPU that PyTorch can use; valid: a machine with one, or --device cpu")
    backend = "nccl" if arguments.device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        if arguments.device == "cuda":
            torch.cuda.set_device(0)
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                run(arguments)
        else:
            run(arguments)
    finally:
        dist.destroy_process_group()
    print(predicting_command(arguments))


if __name__ == "__main__":
    main()
