#!/usr/bin/env python3
"""Records the suites of training programs that others wrote: torchtitan, Hugging Face transformers, NeMo Automodel.

Each program runs one training step (forward, backward, clipping, optimizer) of a published model at full width on a fake
process group with fake tensors: one process, no GPU, little memory. What DTensor is asked on the way is the suite.

    scripts/record_public_suites.py torchtitan-llama3-8b-fsdp-tp
    scripts/record_public_suites.py --all --out configs/suites --torch ./venv-2.14/bin/python --torch ./venv-2.15/bin/python

Without --out, a suite is written over configs/suites/NAME.json. --torch names Pythons that have PyTorch; a suite takes
the one whose release it was recorded with. The packages of a suite are installed by pip into an environment of their own
below --environments, which sees that PyTorch. shardlab must be built (scripts/build), or named by SHARDLAB_BINARY.

A program stands in scripts/public_suites. It only puts together what its package offers: parallel plans and functions,
losses and clipping are the package's own. Three things differ from a run on GPUs, and none of them changes a question:
tensors have no values, so routers are taken to send equally many tokens to every expert; kernels that exist on CUDA only
(`_fused_rms_norm`, flash attention) are asked for on the CPU all the same; and a model is cut to two layers, since every
further layer asks the same.
"""

import argparse
import importlib
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLASSIC = ["torchtitan==0.2.2"]
FULL = ["torchtitan==0.3.0"]
TRANSFORMERS = ["transformers==5.23.0", "accelerate==1.15.0"]
IDLE_OPS = {"aten.detach.default", "aten.alias.default"}  # They return their input.
# Only the rules of AutoParallel have these, and a stack that lacks an op refuses the whole suite.
UNCOVERED_OPS = {"aten.view_as_complex.default", "aten.view_as_real.default"}


@dataclass
class Suite:
    program: str  # module in scripts/public_suites
    title: str
    source: str
    world: int
    requires: list
    runs: list  # arguments of the program's `prepare`, one set a run
    alone: list = field(default_factory=list)  # packages that are installed without what they depend on
    torch: str = "2.15.0"


def variants(batches_and_lengths, **arguments):
    return [{**arguments, "batch": batch, "seqlen": length} for batch, length in batches_and_lengths]


def classic(degrees, function, shapes, **arguments):
    return {"program": "torchtitan_classic", "requires": CLASSIC, "runs": variants(shapes, layers=2, **arguments, **degrees),
            "source": "torchtitan 0.2.2 (https://github.com/pytorch/torchtitan, tag v0.2.2), "
                      f"torchtitan/models/{arguments['model']}/infra/parallelize.py:{function}, "
                      f"model {arguments['model']} {arguments['flavor']}"}


def hugging_face(settings, model, shapes, **degrees):
    return {"program": "transformers_models", "requires": TRANSFORMERS,
            "runs": variants(shapes, layers=2, settings=settings, **degrees),
            "source": "transformers 5.23.0 (https://github.com/huggingface/transformers, tag v5.23.0), "
                      f"PreTrainedModel.maybe_distribute_model with the plans of {model}"}


def degrees(shard, tensor, context=1, expert=1):
    return {"data_parallel_shard_degree": shard, "tensor_parallel_degree": tensor,
            "context_parallel_degree": context, "expert_parallel_degree": expert}


SDPA = {"attn_type": "sdpa", "attn_mask_type": "causal"}
SHORT, LONG, SPARSE = [(1, 8192), (8, 2048)], [(1, 32768), (1, 131072)], [(1, 4096), (4, 4096)]
SUITES = {
    "torchtitan-llama3-8b-fsdp-tp": Suite(
        title="torchtitan's Llama 3 8B: FSDP2 8 x tensor and sequence parallel 8", world=64,
        **classic(degrees(8, 8), "parallelize_llama", SHORT, model="llama3", flavor="8B")),
    "torchtitan-llama3-8b-cp": Suite(
        title="torchtitan's Llama 3 8B: FSDP2 2 x context parallel 4 x tensor and sequence parallel 8", world=64,
        **classic(degrees(2, 8, context=4), "parallelize_llama", LONG, model="llama3", flavor="8B")),
    "torchtitan-qwen3-30b-a3b-ep": Suite(
        title="torchtitan's Qwen3 30B-A3B: FSDP2 8 x tensor and sequence parallel 4, experts on 8", world=32,
        **classic(degrees(8, 4, expert=8), "parallelize_qwen3", SPARSE, model="qwen3", flavor="30B-A3B")),
    "torchtitan-deepseek-v3-16b-ep": Suite(
        title="torchtitan's DeepSeek V3 16B: FSDP2 8 x tensor and sequence parallel 4, experts on 8", world=32,
        **classic(degrees(8, 4, expert=8), "parallelize_deepseekv3", SPARSE, model="deepseek_v3", flavor="16B",
                  changes=SDPA)),
    "torchtitan-llama3-8b-full-dtensor": Suite(
        program="torchtitan_full", title="torchtitan's Llama 3 8B, all tensors DTensors: FSDP2 8 x tensor and sequence parallel 8",
        source="torchtitan 0.3.0 (https://github.com/pytorch/torchtitan, tag v0.3.0), "
               "torchtitan/models/llama3/parallelize.py:parallelize_llama with spmd_backend=full_dtensor, "
               "configuration llama3_8b",
        world=64, requires=FULL,
        # One run: a second one in a process meets meshes of the first that torchtitan keeps.
        runs=variants([(1, 8192)], configuration="llama3.llama3_8b", layers=2, data_parallel_shard_degree=8,
                      tensor_parallel_degree=8)),
    "transformers-llama3-8b-tp": Suite(
        title="transformers' Llama 3 8B under its own plan: tensor parallel 8", world=8,
        **hugging_face("LLAMA3_8B", "Meta-Llama-3-8B", SHORT, tp_size=8)),
    "transformers-llama3-8b-fsdp-tp": Suite(
        title="transformers' Llama 3 8B under its own plans: FSDP2 8 x tensor parallel 8", world=64,
        **hugging_face("LLAMA3_8B", "Meta-Llama-3-8B", SHORT, tp_size=8, fsdp_size=8)),
    "transformers-qwen3-30b-a3b-ep": Suite(
        title="transformers' Qwen3 30B-A3B under its own plans: FSDP2 8 x tensor parallel 4, experts on 8", world=32,
        **hugging_face("QWEN3_30B_A3B", "Qwen3-30B-A3B", SPARSE, tp_size=4, fsdp_size=8, ep_size=8)),
    "nemo-llama3-8b-fsdp-sp": Suite(
        program="nemo_llama", title="NeMo Automodel's Llama 3 8B: FSDP2 8 x tensor and sequence parallel 8",
        source="NeMo Automodel 0.7.0 (https://github.com/NVIDIA-NeMo/Automodel, tag v0.7.0), "
               "components/distributed/parallelizer.py:fsdp2_strategy_parallelize with sequence_parallel=True, over "
               "LlamaForCausalLM of transformers 5.18.0, configuration Meta-Llama-3-8B",
        world=64, requires=["transformers==5.18.0", "pyyaml", "pillow"], alone=["nemo-automodel==0.7.0", "torchvision"],
        torch="2.14.1",  # NeMo 0.7.0 reaches into FSDP2 as it was before 2.15
        runs=variants(SHORT, layers=2, fsdp=8, tp=8)),
}


def fail(text):
    sys.exit(f"record_public_suites: {text}")


def installed_torch(python):
    """The release and the folder of a Python's PyTorch."""
    ask = "import pathlib, torch; print(torch.__version__.split('+')[0], pathlib.Path(torch.__file__).parents[1])"
    try:
        answer = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"--torch: {python}: {error}; valid: a Python that has PyTorch")
    return answer.stdout.strip().split(" ", 1)


def environment(folder, python, torch_folder, suite):
    """The Python of an environment that has the packages of `suite` and sees that PyTorch."""
    name = "-".join([*suite.requires, *suite.alone, suite.torch]).replace("==", "-")
    path = folder / name
    own, done = path / "bin" / "python", path / "complete"
    if not done.exists():
        print(f"installing {', '.join(suite.requires + suite.alone)} into {path}", file=sys.stderr)
        subprocess.run([python, "-m", "venv", "--clear", path], check=True)
        site = subprocess.run([own, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True,
                              capture_output=True, text=True).stdout.strip()
        Path(site, "torch.pth").write_text(f"{torch_folder}\n")
        pip = [own, "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *suite.requires], check=True)
        if suite.alone:
            subprocess.run([*pip, "--no-deps", *suite.alone], check=True)
        done.touch()
    return own


def record_here(name, out):
    """Records one suite in this process, whose Python has what the suite requires."""
    import torch
    import record_suite
    from fake_tensors import fake_tensors

    suite = SUITES[name]
    torch.set_num_threads(1)
    program = importlib.import_module(f"public_suites.{suite.program}")
    recorder = record_suite.Recorder(record_suite.known_ops() - IDLE_OPS - UNCOVERED_OPS, Path(program.__file__))
    record_suite.Oracle(torch).enter((suite.world,), devices_per_host=8)
    for run in suite.runs:
        with fake_tensors() as values:
            record_suite.observe(recorder, program.prepare(values, **run))
    shapes = ", ".join(f"{run['batch']} x {run['seqlen']}" for run in suite.runs)
    source = (f"recorded by scripts/record_public_suites.py {name}, torch {torch.__version__.split('+')[0]}: {suite.source}, "
              f"full width, 2 layers; one training step (forward, backward, clipping, AdamW) on {suite.world} ranks for each "
              f"of these local batches and lengths: {shapes}")
    out.write_text(record_suite.suite_text(name, source, recorder, suite.title))
    print(f"{out}: {len(recorder.questions)} questions", file=sys.stderr)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    option = parser.add_argument
    option("names", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    option("--all", action="store_true", help="record every suite")
    option("--out", metavar="FOLDER", type=Path, default=ROOT / "configs" / "suites", help="default: configs/suites")
    option("--torch", metavar="PYTHON", action="append", help="a Python that has PyTorch; may be repeated (default: python3)")
    option("--environments", metavar="FOLDER", type=Path, default=ROOT / "build" / "public_suites",
           help="where packages are installed (default: build/public_suites)")
    option("--here", action="store_true", help="record with this Python, which has the packages; install nothing")
    arguments = parser.parse_args(argv)
    names = list(SUITES) if arguments.all else arguments.names
    unknown = sorted(set(names) - set(SUITES))
    if unknown or not names:
        parser.error(f"found {', '.join(unknown) or 'no suite'}; valid: {', '.join(SUITES)}, or --all")
    if arguments.here:
        for name in names:
            record_here(name, arguments.out / f"{name}.json")
        return
    torches = {}
    for python in arguments.torch or ["python3"]:
        release, folder = installed_torch(python)
        torches[release] = python, folder
    for name in names:
        suite = SUITES[name]
        if suite.torch not in torches:
            fail(f"{name} is recorded with PyTorch {suite.torch}; found {', '.join(torches)} (name its Python by --torch)")
        python = environment(arguments.environments, *torches[suite.torch], suite)
        subprocess.run([python, __file__, "--here", name, "--out", arguments.out], check=True)


if __name__ == "__main__":
    main()
