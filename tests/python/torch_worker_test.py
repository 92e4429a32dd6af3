"""The worker behind `torch:` stacks answers from a live PyTorch, and ends as it should. Skipped without PyTorch."""

import json
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKER = ROOT / "python" / "torch_worker" / "worker.py"
GOLDEN = ROOT / "tests" / "differential" / "golden" / "2.13"
PATIENCE = 240  # seconds: importing torch alone takes several, more on a busy machine


def oracle_python():
    given = os.environ.get("SHARDLAB_ORACLE_PYTHON")
    installed = ROOT / "build" / "oracle" / "bin" / "python"
    return given or (str(installed) if installed.exists() else "")


pytestmark = pytest.mark.skipif(not oracle_python(), reason="no PyTorch: run scripts/setup --with-oracle")


class Worker:
    """A running worker. `ask` returns the answers to one request."""

    def __init__(self, **start):
        self.process = subprocess.Popen([oracle_python(), "-u", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.lines, self.stderr, self.asked = queue.Queue(), [], 0
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.stderr.extend(self.process.stderr), daemon=True).start()
        start = {"overlay": None, "patches": [], "cost": None, "rules": [], **start}
        self.started = self.ask("start", **start)[0]
        self.info = self.started.get("ok")

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def send(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.lines.get(timeout=PATIENCE)
        assert line is not None, b"".join(self.stderr).decode()
        return line

    def ask(self, do, **fields):
        self.asked += 1
        self.send(json.dumps({"id": self.asked, "do": do, **fields}))
        items = [value for key, value in fields.items() if key in ("calls", "questions", "transitions")]
        expected = len(items[0]) if items else 1
        answers = []
        while len(answers) < expected:
            answers.append(self.answer())
            assert answers[-1]["id"] == self.asked
            if "index" not in answers[-1]:
                break
        return answers

    def oks(self, do, **fields):
        answers = self.ask(do, **fields)
        assert all("ok" in answer for answer in answers), answers
        return [answer["ok"] for answer in answers]

    def error(self, do, **fields):
        return self.ask(do, **fields)[0]["error"]

    def close(self):
        self.process.stdin.close()
        return self.process.wait(timeout=30)


@pytest.fixture
def starting():
    """Starts workers and ends them."""
    workers = []

    def start(**fields):
        workers.append(Worker(**fields))
        return workers[-1]

    yield start
    for worker in workers:
        worker.process.kill()
        worker.process.wait()


@pytest.fixture(scope="module")
def plain():
    """A worker to which the user brought nothing."""
    worker = Worker()
    assert worker.info, worker.started
    yield worker
    assert worker.close() == 0


def release(worker):
    return tuple(int(part) for part in worker.info["torch"].split(".")[:2])


def rows(worker, op, *inputs, args=()):
    return worker.oks("rows", calls=[{"op": op, "inputs": list(inputs), "args": list(args)}])[0]


def transition(source="S(0)", target="R", gib=0.001, mesh="2x4", mesh_dim=1, devices_per_host=8):
    return {"from": source, "to": target, "mesh": mesh, "devices_per_host": devices_per_host, "mesh_dim": mesh_dim,
            "gib": gib}


MM = {"op": "aten.mm.default", "mesh": "2x4", "devices_per_host": 8, "args": [],
      "inputs": ["f32[16,32] S(0)R", "f32[32,64] S(0)S(1)"]}


# ---- What PyTorch says ---------------------------------------------------------------------------------------------


def test_the_start_says_who_answers(plain):
    assert release(plain) >= (2, 13)
    assert plain.info["cost_parameters"] is None
    ops = plain.info["ops"]
    assert ops["aten.mm.default"] == {"kind": "rows", "uneven": False, "filter": False, "different_mesh": False,
                                      "fingerprint": ops["aten.mm.default"]["fingerprint"]}
    assert ops["aten.view.default"]["kind"] == "mesh"
    assert ops["aten._fused_adam_.default"]["different_mesh"]
    assert ops["aten.mean.dim"]["filter"] == (release(plain) >= (2, 14))
    assert all(re.fullmatch("[0-9a-f]{16}", op["fingerprint"]) for op in ops.values() if op["kind"] != "decomposed")
    fingerprints = plain.info["fingerprints"]
    assert "unknown" not in fingerprints.values()
    for name in ("_collective_utils.redistribute_cost", "_sharding_prop._select_min_cost_strategy",
                 "_redistribute.DTensorRedistributePlanner.find_min_cost_path",
                 "_ops.utils.expand_to_full_mesh_op_strategy", "_dispatch.OpDispatcher.redistribute_local_args"):
        assert name in fingerprints


def test_the_rows_of_a_product(plain):
    answer = rows(plain, "aten.mm.default", "f32[16,32]", "f32[32,64]")
    assert answer["outputs"] == ["f32[16,64]"]
    assert answer["rows"][:3] == ["P(sum)|?1,?0", "?0|?0,R", "?1|R,?1"]


def test_rows_of_lists_are_those_of_their_elements(plain):
    answer = rows(plain, "aten._foreach_add.List", "[f32[8]; f32[8,2]]", "[f32[8]; f32[8,2]]")
    single = rows(plain, "aten.add.Tensor", "f32[8,2]", "f32[8,2]")
    assert [child["outputs"] for child in answer["children"]] == [["f32[8]"], ["f32[8,2]"]]
    assert answer["children"][1] == single


def test_masks_norms_and_absent_outputs_have_texts(plain):
    masked = rows(plain, "aten.embedding.default", "f32[1000,64]", "i64[8]")
    assert any("MP(0,1000)" in row for row in masked["rows"])
    backward = rows(plain, "aten.convolution_backward.default", "f32[4,8,8]", "f32[4,4,8]", "f32[8,4,1]",
                    args=[[8], [1], [0], [1], False, [0], 1, [True, True, False]])
    assert backward["outputs"] == ["f32[4,4,8]", "f32[8,4,1]", "none"]


def test_a_function_of_the_whole_mesh_has_no_rows(plain):
    error = plain.error("rows", calls=[{"op": "aten.view.default", "inputs": ["f32[8,8]"], "args": [[64]]}])
    assert error["type"] == "NotRows"
    softmax = plain.ask("rows", calls=[{"op": "aten._softmax.default", "inputs": ["f32[8,8]"], "args": [1, False]}])[0]
    assert ("error" in softmax) == (plain.info["ops"]["aten._softmax.default"]["kind"] == "mesh")


def test_decisions_equal_the_recorded_ones(plain):
    if release(plain) != (2, 13):
        pytest.skip("the recorded decisions are those of 2.13.0")
    rng = random.Random(11)
    for family in ("matmul", "pointwise", "softmax", "reduction", "norm", "tensor"):
        cases = json.loads((GOLDEN / f"selections_{family}.json").read_text())["cases"]
        cases = rng.sample([case for case in cases if case["mesh"].count("x") < 2], 8)
        for case, answer in zip(cases, plain.oks("decisions", questions=cases)):
            expected = {key: value for key, value in case.items()
                        if key not in ("op", "mesh", "devices_per_host", "inputs", "args")}
            assert {key: answer.get(key) for key in expected} == expected, case


def test_candidates_are_those_of_the_decision_without_prices(plain):
    questions = [MM, {"op": "aten.view.default", "mesh": "2x2", "inputs": ["f32[8,8] S(0)S(1)"], "args": [[64]]},
                 {"op": "aten.mean.dim", "mesh": "2x4", "inputs": ["f32[8,12] S(0)P(sum)"], "args": [[0], False]},
                 {"op": "aten._foreach_sin.default", "mesh": "4", "inputs": ["[f32[8] S(0); f32[4,4] R]"], "args": []}]
    decided = plain.oks("decisions", questions=questions, list=True)
    listed = plain.oks("candidates", questions=questions)
    for decision, candidates in zip(decided, listed):
        pairs = zip(decision.get("children", [decision]), candidates.get("children", [candidates]))
        assert all([line.split(" ")[0] for line in whole["list"]] == light["list"] for whole, light in pairs)
    assert decided[0]["candidates"] == len(decided[0]["list"]) == listed[0]["candidates"]


def test_a_refusal_of_pytorch_is_an_answer(plain):
    question = {"op": "aten.sin_.default", "mesh": "2", "inputs": ["f32[8] P(sum)"], "args": []}
    answer = plain.oks("decisions", questions=[question, MM])
    assert "in-place" in answer[0]["error"]
    assert answer[1]["chosen"]["outputs"] == ["S(0)S(1)"]


def test_a_call_that_pytorch_refuses_late_keeps_its_elements(plain):
    pairs = ["[f32[2] RS(0); f32[2] S(0)S(0)]"] * 5
    question = {"op": "aten._fused_adamw.default", "mesh": "2x2", "args": [0.01, 0.9, 0.99, 0.0, 1e-8, True, False],
                "inputs": [*pairs, "[f32[] RR; f32[] P(sum)R]", "f32[] RR", "none"]}
    for do in ("decisions", "candidates"):
        answer = plain.oks(do, questions=[question])[0]
        assert len(answer["children"]) == 2
        assert do == "candidates" or "list[TensorMeta]" in answer["refused"]


def test_none_is_an_empty_list_where_pytorch_takes_a_list(plain):
    """An optimizer without AMSGrad has no maxima; its schema takes an empty list of them, and no None."""
    lists = ["[f32[8] S(0); f32[8] S(0)]"] * 4
    question = {"op": "aten._fused_adamw_.default", "mesh": "2", "args": [0.001, 0.9, 0.95, 0.1, 1e-8, False, False],
                "inputs": [*lists, "none", "[f32[] R; f32[] R]"]}
    answer = plain.oks("decisions", questions=[question])[0]
    assert [child["total_us"] for child in answer["children"]] == [0.0, 0.0]
    assert "refused" not in answer


def test_shard_orders_and_strided_shards_are_read(plain):
    def ordered(layout):
        return {"op": "aten.neg.default", "mesh": "2x2", "inputs": [f"f32[8,8] {layout}"], "args": []}

    layouts = ["S(0)[1]S(0)[0]", "_S(0,2)S(0)", "_S(1,2)S(1)"]
    answers = plain.oks("decisions", questions=list(map(ordered, layouts)))
    assert answers[1]["chosen"]["inputs"][0].startswith("_S(0,2)")
    assert answers[1]["order"] == "unspecified"
    assert "error" not in answers[0] and "error" not in answers[2]


def test_strided_shards_of_views_have_another_price(plain):
    def product(layout):
        return {"op": "aten.mm.default", "mesh": "4", "inputs": [f"f32[8192,64] {layout}", "f32[64,64] S(1)"], "args": []}

    of_view, encoded = plain.oks("decisions", questions=[product("_S(0,2)[0]"), product("_S(0,2)")])
    assert of_view["chosen"]["outputs"] == ["S(1)"]
    assert encoded["chosen"]["outputs"] == ["_S(0,2)"]


def test_a_mask_partial_of_no_embedding_is_read_and_written(plain):
    """shardlab writes MP without arguments, and MP(0,1000) where it knows the embedding."""
    priced = plain.oks("prices", transitions=[transition("MP", "R"), transition("MP(0,1000)", "R")])
    assert priced[0] == priced[1] and priced[0]["us"] > 0
    question = {"mesh": "2x4", "devices_per_host": 8, "tensor": "f32[16,32]", "from": "MPR", "to": "RR"}
    assert plain.oks("plans", questions=[question])[0]["steps"] == [[0, "MP", "R", [16, 32]]]


def test_prices_of_transitions(plain):
    answers = plain.oks("prices", transitions=[
        transition(), transition("S(0)", "P(sum)"), transition("R", "S(1)"),
        transition(mesh_dim=0, devices_per_host=4)])
    gathered = 0.004 * 3 / 4 / 87.7 * 1e6 + 6.6 + 3 * 0.6
    assert answers[0] == {"us": pytest.approx(gathered, rel=1e-12), "gib": 0.004}
    assert answers[1]["us"] is None
    assert answers[2] == {"us": 0.0, "gib": 0.00025}
    assert answers[3]["us"] == pytest.approx(0.002 / 2 / (87.7 * 0.22) * 1e6 + 6.6 + 2.7, rel=1e-12)


def test_plans_have_steps(plain):
    asked = {"mesh": "2x4", "devices_per_host": 8, "tensor": "f32[16,32]", "from": "S(0)S(0)", "to": "RS(0)"}
    greedy, graph = plain.oks("plans", questions=[asked, {**asked, "planner": "graph"}])
    assert greedy["steps"] == [[1, "S(0)", "R", [8, 32]], [0, "S(0)", "R", [16, 32]], [1, "R", "S(0)", [8, 32]]]
    assert greedy["us"] == graph["us"] > 0


def test_equal_sources_have_equal_fingerprints_in_every_python(plain):
    """The fingerprint of a function does not see comments, docstrings, layout and annotations; it sees the rest."""
    code = (f"import sys; sys.path.insert(0, {str(WORKER.parent)!r})\n"
            "from shardlab_worker.fingerprints import Sources\n"
            "import json, fingerprinted as f\n"
            "sources = Sources()\n"
            "print(json.dumps([sources.own_hash(sources.function_of(vars(f)[name])) for name in 'abcdghijk']))\n")
    source = ("def a(x: int, y=2.5) -> float:\n    '''Says something.'''\n    z: float = x * y  # a product\n"
              "    return z\n"
              "def b(x, y=2.5):\n\n    z = (x\n         * y)\n    return z\n"
              "def c(x, y=2.50001):\n    z = x * y\n    return z\n"
              "def d(x, y=2.5):\n    return f'{x!r:>{y}} and {{}}' if x else [i for i in (x, y, None, -1)]\n"
              "import contextlib, functools\n"
              "def wrapped(function):\n    @functools.wraps(function)\n"
              "    def run(*args):\n        return -function(*args)\n"
              "    return run\n"
              "g, h = wrapped(a), wrapped(c)\n"
              "i = functools.cache(a)\n"
              "j, k = contextlib.contextmanager(a), wrapped(contextlib.contextmanager(a))\n")
    seen = set()
    for python in {oracle_python(), sys.executable, "/usr/bin/python3"}:
        if not pathlib.Path(python).exists():
            continue
        folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"fingerprinted-{os.getpid()}"
        folder.mkdir(exist_ok=True)
        try:
            (folder / "fingerprinted.py").write_text(source)
            ran = subprocess.run([python, "-B", "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
                                 capture_output=True, text=True, check=True)
        finally:
            shutil.rmtree(folder)
        seen.add(ran.stdout)
    assert len(seen) == 1
    a, b, c, d, g, h, i, j, k = json.loads(seen.pop())
    assert a == b == i == j and g == k, "a cache and a context manager do what their functions do"
    assert len({a, c, d, g, h}) == 5, "a function that wraps another one may do anything"


# ---- What is wrong is said, and the worker goes on -----------------------------------------------------------------


def test_wrong_requests_are_answered(plain):
    plain.send("this is no JSON")
    assert plain.answer()["error"]["type"] == "RequestError"
    plain.send("[1, 2]")
    assert plain.answer()["error"]["type"] == "RequestError"
    assert "There is no request 'fly'" in plain.error("fly")["message"]
    assert "`calls`" in plain.error("rows")["message"]
    assert "started already" in plain.error("start")["message"]
    wrong = [{"op": "aten.mmm.default", "inputs": []}, {"op": "mm"}, {"inputs": []}, 7,
             {"op": "aten.mm.default", "inputs": ["f32[2,2]"]},
             {"op": "aten.mm.default", "inputs": ["f32[2,2]"] * 3},
             {"op": "aten.mm.default", "inputs": ["f32[2,2]", "f33[2,2]"]},
             {"op": "aten.mm.default", "inputs": ["f32[2,2]", "f32[2,two]"]},
             {"op": "aten.mm.default", "inputs": ["f32[2,2]", "[f32[2,2]]"]}]
    for answer in plain.ask("rows", calls=wrong):
        assert answer["error"]["type"] == "RequestError" and answer["error"]["message"][-1] in ".)]", answer
    for change in ({"mesh": "2by4"}, {"mesh": "0x2"}, {"inputs": ["f32[16,32] S(0)", "f32[32,64] RR"]},
                   {"inputs": ["f32[16,32] S(5)R", "f32[32,64] RR"]}, {"inputs": ["f32[16,32] Q(0)R", "f32[32,64] RR"]},
                   {"inputs": ["f32[16,32] S(0)[1]S(0)[1]", "f32[32,64] RR"]}, {"devices_per_host": 0}):
        assert plain.error("decisions", questions=[{**MM, **change}])["type"] == "RequestError", change
    for change in ({"from": "S"}, {"mesh_dim": 2}, {"gib": "much"}, {"mesh": "2"}):
        assert plain.error("prices", transitions=[{**transition(), **change}])["type"] == "RequestError", change
    shapes = plain.error("rows", calls=[{"op": "aten.mm.default", "inputs": ["f32[2,3]", "f32[5,7]"]}])
    assert shapes["type"] == "RuntimeError"
    assert rows(plain, "aten.mm.default", "f32[2,2]", "f32[2,2]")["outputs"] == ["f32[2,2]"]


# ---- What the user brings ------------------------------------------------------------------------------------------


def installed_package():
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    ran = subprocess.run([oracle_python(), "-c", code], capture_output=True, text=True, check=True)
    return pathlib.Path(ran.stdout.strip()) / "distributed" / "tensor"


def checkout(folder, name="_collective_utils.py", change=lambda text: text):
    """A copy of the installed torch/distributed/tensor as a checkout, with one file changed."""
    package = folder / "checkout" / "torch" / "distributed" / "tensor"
    shutil.copytree(installed_package(), package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / name).write_text(change((package / name).read_text()))
    return folder / "checkout"


def test_an_overlay_makes_all_reduce_dearer(plain, starting, tmp_path):
    def dearer(text):
        before, after = text.split("def allreduce_cost", 1)
        return before + "def allreduce_cost" + after.replace("latency = 6.6", "latency = 16.6", 1)

    folder = checkout(tmp_path, change=dearer)
    worker = starting(overlay=str(folder))
    asked = [transition("P(sum)", "R"), transition("S(0)", "R")]
    ours, theirs = (one.oks("prices", transitions=asked) for one in (worker, plain))
    assert ours[0]["us"] == pytest.approx(theirs[0]["us"] + 10, rel=1e-12)
    assert ours[1] == theirs[1]
    changed = {name for name, mark in worker.info["fingerprints"].items() if plain.info["fingerprints"][name] != mark}
    assert changed == {"_collective_utils.allreduce_cost"}
    assert worker.info["ops"] == plain.info["ops"]
    partial = {"op": "aten.neg.default", "mesh": "4", "inputs": ["f32[8] P(max)"], "args": []}
    dear, cheap = (one.oks("decisions", questions=[partial])[0]["list"][0] for one in (worker, plain))
    assert float(dear.split(" ")[1]) == pytest.approx(float(cheap.split(" ")[1]) + 10, rel=1e-12)
    assert not list(folder.rglob("__pycache__")), "the user's checkout is left as it was"


def test_the_mesh_is_one_of_gpus(plain, starting, tmp_path):
    def of_gpus(text):
        return text.replace("base_bw = 87.7", 'base_bw = {"cuda": 400.0}.get(mesh.device_type, 87.7)')

    worker = starting(overlay=str(checkout(tmp_path, change=of_gpus)))
    latency = 6.6 + 3 * 0.6
    before, after = (one.oks("prices", transitions=[transition()])[0]["us"] - latency for one in (plain, worker))
    assert after == pytest.approx(before * 87.7 / 400.0, rel=1e-9)
    plan = {"mesh": "2x4", "devices_per_host": 8, "tensor": "f32[16,32]", "from": "RS(0)", "to": "RR"}
    assert worker.oks("plans", questions=[plan])[0]["us"] < plain.oks("plans", questions=[plan])[0]["us"]


def test_shapes_need_no_gpu(plain):
    """Fake tensors of these operators ask the driver of a GPU where the mesh is one of GPUs."""
    norm = {"op": "aten._batch_norm_with_update.default", "mesh": "2", "args": [0.1, 1e-05],
            "inputs": ["f32[5,6,8] R", "f32[6] R", "f32[6] R", "f32[6] R", "f32[6] R"]}
    pairs = ["[f32[2] R]"] * 5
    adam = {"op": "aten._fused_adam.tensor_lr", "mesh": "2", "args": [0.9, 0.99, 0.0, 1e-08, True, False],
            "inputs": [*pairs, "[f32[] R]", "f32[] R", "none", "none"]}
    assert not any("error" in answer for answer in plain.oks("decisions", questions=[norm, adam]))


def test_a_patch_replaces_a_function_and_may_print(plain, starting, tmp_path):
    patch = tmp_path / "patch.py"
    patch.write_text("""
import os
import torch.distributed.tensor._collective_utils as costs
import torch.distributed.tensor._sharding_prop as choice

print('{"id": 1, "ok": "garbage"}')
os.write(1, b"more garbage\\n")
own = costs._compute_placement_transition_cost


def by_size(current_placement, target_placement, mesh_topo, mesh_dim, comm_bytes_gb):
    print("called")
    if current_placement.is_shard() and target_placement.is_shard() and current_placement != target_placement:
        return 5.0 + 1e6 * comm_bytes_gb, comm_bytes_gb
    return own(current_placement, target_placement, mesh_topo, mesh_dim, comm_bytes_gb)


costs._compute_placement_transition_cost = by_size
selection = choice._select_min_cost_strategy


def last(strategy, op_schema=None):
    return strategy.strategies[-1]


choice._select_min_cost_strategy = last
""")
    worker = starting(patches=[str(patch)])
    assert worker.oks("prices", transitions=[transition("S(0)", "S(1)")]) == [{"us": 1005.0, "gib": 0.001}]
    fingerprints = worker.info["fingerprints"]
    changed = {name for name, mark in fingerprints.items() if plain.info["fingerprints"].get(name) != mark}
    assert changed == {"_collective_utils._compute_placement_transition_cost",
                       "_sharding_prop._select_min_cost_strategy"}
    assert "unknown" not in fingerprints.values()
    decision = worker.oks("decisions", questions=[MM], list=True)[0]
    layouts = decision["list"][-1].split(" ")[0].split("|")
    assert decision["chosen"] == {"inputs": layouts[0].split(";"), "outputs": layouts[1].split(";")}
    assert worker.close() == 0
    assert b"garbage" in b"".join(worker.stderr)


def test_a_constant_and_a_function_around_pytorchs_own_are_seen(plain, starting, tmp_path):
    patch = tmp_path / "patch.py"
    patch.write_text("""
import functools
import torch.distributed.tensor._collective_utils as costs
import torch.distributed.tensor._redistribute as redistribute

own = costs.allgather_cost


@functools.wraps(own)
def dearer(*arguments):
    return 10 * own(*arguments)


costs.allgather_cost = dearer
redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN = True
redistribute._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION = True
""")
    worker, before = starting(patches=[str(patch)]), plain.info["fingerprints"]
    after = worker.info["fingerprints"]
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {
        "_collective_utils.allgather_cost", "_redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN",
        "_redistribute._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION"}
    constants = {name for name in before if name.rpartition(".")[2].isupper()}
    assert constants >= {"_redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN",
                         "_redistribute._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION"}


def test_an_imported_name_that_means_something_else_is_seen(plain, starting, tmp_path):
    patch = tmp_path / "patch.py"
    patch.write_text("""
import torch.distributed.tensor._collective_utils as costs
import torch.distributed.tensor._ops.utils as utils
import torch.distributed.device_mesh as meshes

utils.redistribute_cost = lambda source, target: 1.0
costs.one_step_redistribute_cost = lambda *arguments: 1.0
meshes._MeshEnv.num_devices_per_host = staticmethod(lambda device_type: 2)
""")
    assert plain.info["rebound"] == []
    # What _redistribute imported is PyTorch's own still.
    assert starting(patches=[str(patch)]).info["rebound"] == [
        "_ops.utils.redistribute_cost", "device_mesh._mesh_resources.num_devices_per_host"]

    def imports_another(text):
        return text.replace("from torch.distributed.tensor._collective_utils import redistribute_cost",
                            "from math import dist as redistribute_cost", 1)

    folder = checkout(tmp_path, "_ops/utils.py", imports_another)
    assert starting(overlay=str(folder)).info["rebound"] == ["_ops.utils.redistribute_cost"]


def test_a_file_of_rules_takes_part_as_if_it_were_imported(plain, starting, tmp_path):
    file = tmp_path / "rules.py"
    file.write_text("""
import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._op_schema import OpSpec, OpStrategy
from torch.distributed.tensor._ops.single_dim_strategy import _ShardingPlaceholder, register_single_dim_strategy
from torch.distributed.tensor._ops.utils import register_op_strategy
from torch.distributed.tensor.placement_types import Partial, Replicate

aten = torch.ops.aten


@register_single_dim_strategy(aten.mm.default)
def wrong(op, args_schema, kwargs_schema):
    return [[_ShardingPlaceholder(0), _ShardingPlaceholder(0), _ShardingPlaceholder(0)],
            [Partial(), _ShardingPlaceholder(1), _ShardingPlaceholder(0)]]


@register_single_dim_strategy(aten.view.default)
def never(op, args_schema, kwargs_schema):
    return [[Partial("max"), Partial("max")]]


@register_op_strategy(aten.neg.default)
def whole(op_schema):
    spec = op_schema.args_schema[0].strategies[0].output_spec
    return OpStrategy([OpSpec(spec, [spec], [[0.0]])])


@register_op_strategy(aten.relu.default)
def in_place_of_the_first(op_schema):
    return whole(op_schema)


del DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs[aten.relu.default]
""")
    worker = starting(rules=[str(file)])
    assert plain.info["ignored_registrations"] == []
    assert worker.info["ignored_registrations"] == [
        {"op": "aten.neg.default", "table": "op_strategy_funcs", "found_in": "op_single_dim_strategy_funcs"}]
    kinds = {op: worker.info["ops"][op]["kind"] for op, about in worker.info["ops"].items()
             if about != plain.info["ops"].get(op)}
    assert kinds == {"aten.mm.default": "rows", "aten.view.default": "rows", "aten.relu.default": "mesh"}
    assert rows(worker, "aten.mm.default", "f32[4,4]", "f32[4,4]")["rows"] == ["?0|?0,?0", "P(sum)|?1,?0"]
    assert rows(worker, "aten.view.default", "f32[8,8]", args=[[64]])["rows"] == ["P(max)|P(max)"]
    product = {"op": "aten.mm.default", "mesh": "2", "inputs": ["f32[4,4] S(0)", "f32[4,4] S(0)"], "args": []}
    whole, ignored = ({"op": op, "mesh": "2", "inputs": ["f32[4,4] P(max)"], "args": []}
                      for op in ("aten.relu.default", "aten.neg.default"))
    answers = worker.oks("decisions", questions=[product, whole, ignored])
    assert answers[0]["chosen"] == {"inputs": ["S(0)", "S(0)"], "outputs": ["S(0)"]}
    assert answers[1]["list"] == ["P(max)|P(max) 0.0"]
    assert answers[2] == plain.oks("decisions", questions=[ignored])[0]


COST_OF_FIVE = """
import math, sys, time
calls = []


def fn(current_placement, target_placement, mesh_topo, mesh_dim, comm_bytes_gb):
    calls.append(comm_bytes_gb)
    print("priced")
    if current_placement == target_placement:
        return 0.0, comm_bytes_gb
    if current_placement.is_shard() and target_placement.is_partial():
        return math.inf, comm_bytes_gb
    if comm_bytes_gb == 1.0:
        raise ValueError("too large")
    if comm_bytes_gb == 7.0:
        sys.exit(3)
    if comm_bytes_gb == 8.0:
        while True:
            time.sleep(0.01)
    answers = {2.0: (math.nan, 1.0), 3.0: (math.inf, 1.0), 4.0: (-1.0, 1.0), 5.0: 12.0, 6.0: ("12", 1.0)}
    return answers.get(comm_bytes_gb, (100.0 + mesh_topo.mesh_dim_devices[mesh_dim], comm_bytes_gb))
"""


def test_a_cost_function_of_five_parameters(starting, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(COST_OF_FIVE)
    worker = starting(cost=f"{file}:fn")
    assert worker.info["cost_parameters"] == 5
    assert worker.oks("prices", transitions=[transition(), transition("S(0)", "P(sum)")]) == [
        {"us": 104.0, "gib": 0.001}, {"us": None, "gib": 0.001}]
    wrong = worker.ask("prices", transitions=[transition(gib=float(gib)) for gib in range(1, 8)])
    errors = [answer["error"] for answer in wrong]
    assert [error["type"] for error in errors] == ["ValueError", *["PriceError"] * 5, "SystemExit"]
    assert all("fn(S(0), R, mesh 2x4, mesh_dim=1, " in error["message"] for error in errors[:-1]), errors
    line = 1 + COST_OF_FIVE.split("\n").index('        raise ValueError("too large")')
    assert (errors[0]["file"], errors[0]["line"]) == (str(file), line)
    assert "NaN" in errors[1]["message"] and "negative" in errors[3]["message"]
    gathered = {**MM, "inputs": ["f32[16,32] S(0)S(0)", "f32[32,64] RR"]}
    decision = worker.oks("decisions", questions=[gathered], list=True)[0]
    prices = {float(cost) for line in decision["list"] for cost in line.split(" ")[1].split(";")}
    assert {104.0, 206.0} <= prices <= {102.0 * outer + 104.0 * inner for outer in range(3) for inner in range(3)} | {
        float("inf")}
    # A function that never returns does not outlive the parent's pipe.
    worker.send(json.dumps({"id": 99, "do": "prices", "transitions": [transition(gib=8.0)]}))
    time.sleep(0.5)
    assert worker.close() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_of_a_cost_function_does_not_answer_too(starting, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import os, sys\n"
                    "def fn(current, target, topo, dim, gib):\n"
                    "    child = os.fork()\n"
                    "    if child:\n        return float(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), gib\n"
                    "    if gib == 1.0:\n        sys.exit(7)\n"
                    "    if gib == 2.0:\n        sys.exit('no number')\n"
                    "    if gib == 3.0:\n        raise ValueError\n"
                    "    return 5.0, gib\n")
    worker = starting(torch=False, cost=f"{file}:fn")
    answers = worker.oks("prices", transitions=[transition(gib=float(gib)) for gib in range(1, 5)])
    assert [answer["us"] for answer in answers] == [7.0, 1.0, 1.0, 0.0]
    assert worker.close() == 0 and worker.lines.get(timeout=PATIENCE) is None


def test_a_failing_cost_function_fails_the_decision(starting, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def fn(current, target, topo, dim, gib):\n    return float('nan'), gib\n")
    worker = starting(cost=f"{file}:fn")
    error = worker.error("decisions", questions=[MM])
    assert error["type"] == "PriceError" and "gave NaN" in error["message"]
    through_a_decomposition = {"op": "aten.relu6.default", "mesh": "2", "inputs": ["f32[8] P(sum)"], "args": []}
    assert worker.error("decisions", questions=[through_a_decomposition])["type"] == "PriceError"
    assert worker.error("plans", questions=[{"mesh": "2", "tensor": "f32[8]", "from": "S(0)", "to": "R"}])["type"] == (
        "PriceError")


def test_a_cost_function_of_three_parameters(starting, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def fn(collective: str, bytes: float, group) -> float:\n"
                    "    if collective == 'broadcast':\n        return float('inf')\n"
                    "    return group.ranks * 1000 + group.hosts * 100 + group.ranks_per_host * 10\n")
    worker = starting(cost=f"{file}:fn")
    assert worker.info["cost_parameters"] == 3
    asked = {"collective": "all_reduce", "bytes": 4096, "ranks": 8, "hosts": 2, "ranks_per_host": 4}
    assert worker.oks("prices", transitions=[asked]) == [{"us": 8240.0}]
    error = worker.error("prices", transitions=[{**asked, "collective": "broadcast"}])
    assert error["type"] == "PriceError" and "fn('broadcast', 4096.0, Group(ranks=8, hosts=2" in error["message"]
    between_hosts = transition(mesh_dim=0, devices_per_host=4)
    assert worker.oks("prices", transitions=[between_hosts]) == [{"us": 2210.0, "gib": 0.002}]
    one_is_alone = transition(mesh="5", mesh_dim=0, devices_per_host=4)
    assert worker.oks("prices", transitions=[one_is_alone])[0]["us"] == 5210.0


@pytest.mark.parametrize(("parameters", "count"), [
    ("a, b, c, x=3.0, y=1", 3), ("a, b, c, x=1", 3), ("a, b, c=1", 3), ("a, b, c, d, e=1", 5),
    ("a, b, c, d, e, f=1", 5)])
def test_parameters_without_defaults_say_how_a_cost_function_is_called(starting, tmp_path, parameters, count):
    file = tmp_path / "mine.py"
    file.write_text(f"def fn({parameters}):\n    return 1.0\n")
    assert starting(torch=False, cost=f"{file}:fn").info["cost_parameters"] == count


def test_an_all_to_all_keeps_pytorchs_penalty(starting, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def fn(collective, bytes, group):\n    return 7.0\n")
    swap = transition("S(0)", "S(1)")
    assert starting(cost=f"{file}:fn").oks("prices", transitions=[transition(), swap]) == [
        {"us": 7.0, "gib": 0.004}, {"us": 8.0, "gib": 0.001}]


# ---- Without PyTorch -------------------------------------------------------------------------------------------


def test_a_cost_function_alone_needs_no_torch(starting, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def fn(current, target, topo, dim, gib):\n"
                    "    assert 'torch' not in __import__('sys').modules\n"
                    "    kinds = current.is_shard(), current.is_partial('sum'), target.is_replicate()\n"
                    "    return sum(kinds) * 100.0 + topo.mesh_dim_latency[dim] + topo.mesh_dim_bandwidth[dim], gib\n")
    worker = starting(torch=False, cost=f"{file}:fn")
    assert worker.info["torch"] is None and worker.info["cost_parameters"] == 5
    asked = [transition("P(sum)", "R"), transition("S(1)", "R", mesh_dim=0, devices_per_host=4),
             transition("_S(0,2)", "R"), transition("MP(0,1000)", "NP(2)")]
    with_torch = starting(cost=f"{file}:fn", patches=[])
    assert with_torch.ask("prices", transitions=asked[:1])[0]["error"]["type"] == "PriceError"
    prices = [answer["us"] for answer in worker.oks("prices", transitions=asked)]
    assert prices == [200.0 + 0.6 + 87.7, 200.0 + 2.7 + 87.7 * 0.22, 100.0 + 0.6 + 87.7, 100.0 + 0.6 + 87.7]
    assert "prices alone" in worker.error("rows", calls=[{}])["message"]


def test_the_topology_without_torch_is_pytorchs(starting, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def fn(current, target, topo, dim, gib):\n"
                    "    return topo.mesh_dim_bandwidth[dim] * 1000 + topo.mesh_dim_latency[dim] + "
                    "topo.mesh_dim_devices[dim], gib\n")
    asked = [transition(mesh=mesh, mesh_dim=dim, devices_per_host=hosts)
             for mesh, dims in (("2x4", 2), ("8", 1), ("2x2x4", 3)) for dim in range(dims) for hosts in (1, 4, 8)]
    alone, with_torch = starting(torch=False, cost=f"{file}:fn"), starting(cost=f"{file}:fn")
    assert alone.oks("prices", transitions=asked) == with_torch.oks("prices", transitions=asked)


@pytest.mark.parametrize("is_late", [False, True], ids=["at its beginning", "in the function"])
def test_a_file_that_imports_torch_gets_pytorchs_own_placements(starting, tmp_path, is_late):
    file, wanted = tmp_path / "mine.py", "from torch.distributed.tensor import Shard\n"
    file.write_text(("" if is_late else wanted) + "def fn(current, target, topo, dim, gib):\n"
                    "    if current == target:\n        return 0.0, gib\n" + is_late * f"    {wanted}"
                    + "    return (1.0 if isinstance(current, Shard) else 2.0) * topo.mesh.size(0), gib\n")
    worker = starting(torch=False, cost=f"{file}:fn")
    assert (worker.info["torch"] is None) == is_late
    asked = [transition("R", "R"), transition("S(0)", "R"), transition("P(sum)", "R")]
    assert worker.oks("prices", transitions=asked) == [{"us": us, "gib": 0.001} for us in (0.0, 2.0, 4.0)]


def test_placements_without_torch_have_pytorchs_texts(starting, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def fn(current, target, topo, dim, gib):\n"
                    "    raise ValueError(f'{current} {current!r} {target} {target!r}')\n")
    asked = [transition("R", "S(1)"), transition("P(sum)", "P(max)"), transition("_S(0,2)", "MP"), transition("NP(2)")]
    alone, with_torch = starting(torch=False, cost=f"{file}:fn"), starting(cost=f"{file}:fn")
    texts = [[answer["error"]["message"] for answer in one.ask("prices", transitions=asked)]
             for one in (alone, with_torch)]
    assert texts[0] == texts[1]
    assert texts[0][1].startswith("P(sum) Partial(sum) P(max) Partial(max) ")


@pytest.mark.parametrize(("start", "kind", "words"), [
    ({"overlay": "/nowhere/at/all"}, "OverlayError", "not a folder"),
    ({"overlay": str(ROOT / "tests")}, "OverlayError", "neither a PyTorch checkout"),
    ({"patches": ["/nowhere/patch.py"]}, "MissingFileError", "/nowhere/patch.py"),
    ({"cost": "mine.py"}, "CostError", "FILE.py:FUNCTION")])
def test_what_is_not_there_is_named(starting, start, kind, words):
    worker = starting(**start)
    assert worker.started["error"]["type"] == kind and words in worker.started["error"]["message"]
    assert worker.started["error"]["of_user"]
    assert "has not started" in worker.error("rows", calls=[{}])["message"]
    assert worker.close() == 0


def test_mistakes_in_the_users_files_are_placed(starting, tmp_path):
    def broken(text):
        return text.replace("def allreduce_cost", "def def allreduce_cost", 1)

    folder = checkout(tmp_path, change=broken)
    error = starting(overlay=str(folder)).started["error"]
    file = folder / "torch" / "distributed" / "tensor" / "_collective_utils.py"
    line = file.read_text()[:file.read_text().index("def def")].count("\n") + 1
    assert (error["type"], error["file"], error["line"]) == ("SyntaxError", str(file), line)
    patch = tmp_path / "patch.py"
    patch.write_text("import torch\n\n\ndef apply():\n    torch.no_such_thing()\n\n\napply()\n")
    error = starting(patches=[str(patch)]).started["error"]
    assert (error["type"], error["file"], error["line"]) == ("AttributeError", str(patch), 5)
    assert "no_such_thing" in error["traceback"][-1]
    cost = tmp_path / "cost.py"
    cost.write_text("def fn(one):\n    return 1.0\n")
    assert "takes 1 parameters" in starting(cost=f"{cost}:fn").started["error"]["message"]


# ---- Ends ----------------------------------------------------------------------------------------------------------


def test_stop_ends_the_worker(starting):
    worker = starting(overlay="/nowhere")
    assert worker.ask("stop") == [{"id": 2, "ok": {}}]
    assert worker.process.wait(timeout=30) == 0


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_no_worker_outlives_a_killed_parent(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("while True:\n    pass\n")
    parent = tmp_path / "parent.py"
    # Another process keeps the write end of the worker's stdin open, so that only the parent's death can end it.
    parent.write_text(f"""
import json, os, subprocess, time
worker = subprocess.Popen([{oracle_python()!r}, "-u", {str(WORKER)!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
request = {{"id": 0, "do": "start", "overlay": None, "patches": [{str(file)!r}], "cost": None, "rules": []}}
worker.stdin.write(json.dumps(request).encode() + b"\\n")
worker.stdin.flush()
holder = subprocess.Popen(["sleep", "600"], pass_fds=[worker.stdin.fileno()], stdout=subprocess.DEVNULL)
print(worker.pid, holder.pid, flush=True)
time.sleep(600)
""")
    with subprocess.Popen([sys.executable, parent], stdout=subprocess.PIPE) as running:
        worker, holder = map(int, running.stdout.readline().split())
        try:
            time.sleep(5)
            assert is_alive(worker)
            running.send_signal(signal.SIGKILL)
            running.wait()
            deadline = time.monotonic() + 30
            while is_alive(worker) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not is_alive(worker)
        finally:
            os.kill(holder, signal.SIGKILL)
