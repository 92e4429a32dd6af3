"""What recording other people's programs needs: fake tensors whose small values are known, and a recorder that takes mixed
arguments. The recorded suites are checked for their sources. The programs themselves need their packages and are not run.
"""

import json
import os
import pathlib
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
PUBLIC = sorted(path for package in ("torchtitan", "transformers", "nemo")
                for path in (ROOT / "configs" / "suites").glob(f"{package}-*.json"))


def oracle_python():
    given = os.environ.get("SHARDLAB_ORACLE_PYTHON")
    installed = ROOT / "build" / "oracle" / "bin" / "python"
    return given or (str(installed) if installed.exists() else "")


needs_torch = pytest.mark.skipif(not oracle_python(), reason="no PyTorch: run scripts/setup --with-oracle")


def run(body):
    """What `body` prints last, as JSON. It runs beside the scripts, where PyTorch is."""
    head = """
        import json, sys
        sys.path.insert(0, sys.argv[1])
        import torch
        from fake_tensors import UnknownValue, balanced_top_k, fake_tensors, integer_histogram
        import record_suite
        from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
        torch.set_num_threads(1)

        def record(world, step, names=None):
            oracle = record_suite.Oracle(torch)
            oracle.enter(world, devices_per_host=8, names=names)
            recorder = record_suite.Recorder({"aten.mm.default", "aten.add.Tensor", "aten.clamp.Tensor",
                                              "aten._foreach_norm.Scalar", "aten._to_copy.default"},
                                             record_suite.Path("step.py"))
            with fake_tensors() as values:
                record_suite.observe(recorder, lambda: step(oracle.mesh))
            return [question for question, _ in recorder.questions.values()], dict(recorder.skipped)
    """
    script = textwrap.dedent(head) + textwrap.dedent(body)
    ran = subprocess.run([oracle_python(), "-", SCRIPTS], input=script, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


@needs_torch
def test_values_that_follow_from_numbers_are_known():
    assert run("""
        with fake_tensors() as values:
            positions = torch.arange(8).expand(2, 8)
            is_packed = bool((positions.diff(dim=1) != 1).any())
            counts = torch.zeros(4, dtype=torch.int64)
            counts[1:3] += 5
            splits = counts.view(2, 2).sum(1).tolist()
            weights = torch.randn(4096, 4096, 64)  # 4 GiB, of which none is allocated
            loss = (weights * 2).sum().item()
            filled = torch.zeros(3)
            filled.copy_(weights[0, 0, :3])
            try:
                bool((weights > 0).any())
            except UnknownValue as error:
                stopped = str(error)
            try:
                filled.int()[0].item()
                is_forgotten = False
            except UnknownValue:
                is_forgotten = True
        print(json.dumps([is_packed, splits, loss, "torch.bool[]" in stopped, is_forgotten]))
    """) == [False, [5, 5], 1.0, True, True]


@needs_torch
def test_a_router_that_reads_its_counts_sends_equally_many_tokens_to_every_expert():
    assert run("""
        with fake_tensors() as values:
            values.answer(torch.ops.aten.topk.default, balanced_top_k)
            values.answer(torch.ops.aten.histc.default, integer_histogram)
            _, chosen = torch.topk(torch.randn(1024, 16, requires_grad=True), k=2)
            print(json.dumps(torch.histc(chosen.view(-1), bins=16, min=0, max=16).tolist()))
    """) == [128] * 16


@needs_torch
def test_tensors_that_a_call_leaves_out_and_plain_numbers_among_dtensors_are_inputs():
    questions, skipped = run("""
        def step(mesh):
            x = DTensor.from_local(torch.randn(8, 64), mesh, [Shard(0)], run_check=False)
            torch.clamp(x, max=x)
            torch.clamp(x, torch.ones_like(x))
            x + torch.tensor(2.0)
            x.to("cpu", dtype=torch.bfloat16)
        print(json.dumps(record((4,), step)))
    """)
    asked = [(question["op"], question["inputs"], question["args"]) for question in questions]
    row = "f32[32,64] S(0)"
    assert asked == [("aten.clamp.Tensor", [row, "none", row], []), ("aten.clamp.Tensor", [row, row], []),
                     ("aten.add.Tensor", [row, "f32[] R"], []), ("aten._to_copy.default", [row], ["bf16"])]
    assert skipped == {"aten.ones_like.default": 1}


@needs_torch
def test_calls_that_no_strategy_answers_are_counted_and_not_asked():
    questions, skipped = run("""
        from torch.distributed.tensor.parallel import loss_parallel
        def step(mesh):
            logits = DTensor.from_local(torch.randn(8, 64), mesh["tp"], [Shard(1)], run_check=False)
            with loss_parallel():
                torch.nn.functional.cross_entropy(logits, torch.arange(8))
            other = DTensor.from_local(torch.randn(8), mesh["dp"], [Shard(0)], run_check=False)
            torch._foreach_norm([logits, other])
        print(json.dumps(record((2, 4), step, ("dp", "tp"))))
    """)
    assert questions == []
    assert skipped["aten._log_softmax.default (answered by a handler)"] == 1
    assert skipped["aten._foreach_norm.Scalar (DTensors of several meshes)"] == 1


@needs_torch
def test_fsdp_over_tensor_parallel_trains_on_fake_tensors():
    questions, _ = run("""
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        def step(mesh):
            model = torch.nn.Sequential(torch.nn.Linear(4096, 65536, bias=False), torch.nn.Linear(65536, 4096, bias=False))
            model = parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
            fully_shard(model, mesh=mesh["dp"])
            model(torch.randn(2, 4096)).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        print(json.dumps(record((2, 4), step, ("dp", "tp"))))
    """)
    layouts = {(question.get("op", "plan"), question.get("from", ""), question.get("to", "")) for question in questions}
    assert ("plan", "P(sum)", "R") in layouts
    assert ("aten.mm.default", "", "") in layouts
    norms = [question["inputs"] for question in questions if question.get("op") == "aten._foreach_norm.Scalar"]
    # fully_shard shards rows that tensor parallel has sharded before.
    assert norms == [["[f32[65536,4096] _S(0,4)S(0); f32[4096,65536] S(0)S(1)]"]]


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_a_recorded_suite_names_its_source_and_its_lines(path):
    suite = json.loads(path.read_text())
    assert suite["name"] == path.stem and suite["title"]
    assert suite["source"].startswith(f"recorded by scripts/record_public_suites.py {path.stem}, torch 2.")
    assert "https://github.com/" in suite["source"] and "one training step" in suite["source"]
    assert path.stat().st_size < 400_000
    assert all(question["where"] for question in suite["questions"])
    assert not any("/home" in question["where"] or question["where"].startswith("/") for question in suite["questions"])


def test_every_recorded_suite_can_be_recorded_again():
    names = subprocess.run(["python3", "-c", "import record_public_suites as r; print(*r.SUITES)"], cwd=SCRIPTS, text=True,
                           capture_output=True, check=True).stdout.split()
    assert sorted(names) == [path.stem for path in PUBLIC]
