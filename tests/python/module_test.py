"""The Python module says what the commands say."""

import doctest
import json
import math
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading

import pytest

import shardlab

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SHARDLAB_BINARY", str(ROOT / "build" / "release" / "bin" / "shardlab"))
QUESTION = {"mesh": "2x4", "tensor": "bf16[8192,4096]"}


def command(*words):
    result = subprocess.run([BINARY, *words, "--format", "json"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_plan_is_the_commands_document():
    assert shardlab.plan("S(0)R", "RS(1)", stack="dtensor-v3", **QUESTION) == command(
        "plan", "--mesh", "2x4", "--tensor", "bf16[8192,4096]", "--from", "S(0)R", "--to", "RS(1)", "--stack",
        "dtensor-v3")


def test_the_page_about_the_module_shows_what_it_gives():
    result = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)
    assert result.attempted > 15 and result.failed == 0


def test_select_is_the_commands_document():
    inputs = ["f32[8,8] P(max)", "f32[8,8] R"]
    ours = shardlab.select("aten.mul.Tensor", inputs, mesh="4", stack="dtensor-v3", set={"devices_per_host": 1})
    assert ours == command("select", "--op", "aten.mul.Tensor", "--mesh", "4", "--inputs", *inputs, "--stack",
                           "dtensor-v3", "--set", "devices_per_host=1")
    assert ours["selected"]["total_us"] == 22.81853570377591  # the tie of pytorch/pytorch#172282
    assert len(ours["ties"]) == 3


def test_arguments_and_tensor_lists_reach_the_op():
    assert shardlab.select("aten.sum.dim_IntList", ["f32[16,16] S(0)"], args=[[0]], mesh="4")["selected"][
        "outputs"] == ["P(sum)"]
    lists = shardlab.select("aten.cat.default", ["[f32[8,8] S(1); f32[8,8] S(1)]"], args=[0], mesh="2")
    assert lists["selected"]["outputs"] == ["S(1)"]


def test_prices_agree_with_plans():
    pricer = shardlab.Pricer("dtensor-v3")
    assert pricer.stack == "dtensor-v3"
    for src, dst in [("S(0)R", "RS(1)"), ("S(0)S(0)", "RR"), ("P(sum)R", "S(0)R"), ("RR", "RR")]:
        planned = shardlab.plan(src, dst, stack="dtensor-v3", **QUESTION)["price_us"]
        assert pricer.price(src, dst, **QUESTION) == planned
        assert shardlab.price(src, dst, stack="dtensor-v3", **QUESTION) == planned
    assert pricer.price("RR", "P(sum)R", **QUESTION) == 0.0


def test_one_collective_has_its_parts():
    parts = shardlab.Pricer("alpha-beta").collective("all_gather", 1 << 20, mesh="8")
    assert parts["total_us"] == pytest.approx(parts["latency_us"] + parts["transfer_us"], rel=1e-12)
    twice = shardlab.Pricer("alpha-beta").collective("all_gather", 1 << 21, mesh="8")
    assert twice["transfer_us"] == pytest.approx(2 * parts["transfer_us"])


def test_configurations_may_be_changed_dicts():
    stack = shardlab.stack("alpha-beta")
    topology = shardlab.topology("h100")
    base = shardlab.price("S(0)", "R", mesh="8", tensor="f32[4096,4096]", stack=stack, topology=topology)
    assert base == shardlab.price("S(0)", "R", mesh="8", tensor="f32[4096,4096]", stack="alpha-beta")
    topology["links"][0]["bandwidth_gb_per_s"] /= 2
    assert shardlab.price("S(0)", "R", mesh="8", tensor="f32[4096,4096]", stack=stack, topology=topology) > base


def test_a_program_is_solved_and_simulated():
    program = shardlab.program("mlp")
    named = shardlab.solve("mlp", mesh="8")
    given = shardlab.solve(program, mesh="8")
    assert named["optimal"] and given["objective_us"] == named["objective_us"]
    assert named["stack"] == "calibrated-h100" and named["executed_us"] == pytest.approx(named["objective_us"])
    assert shardlab.solve(program, mesh="8", stack="ap-nccl", time_limit=60)["stack"] == "ap-nccl"
    pinned = shardlab.solve(program, mesh="8", pins={"x": "R"})
    assert pinned["objective_us"] >= named["objective_us"]
    assert pinned["assignment"][0]["layout_out"] == "R"
    asked = shardlab.solve(program, mesh="8", recipe="fsdp", greedy=True, sensitivity=True, budget_curve=5)
    assert asked["recipe"] == "fsdp" and asked["objective_us"] >= named["objective_us"]
    assert {"greedy", "sensitivity", "budget_curves"} <= set(asked)
    assert shardlab.simulate("S(0)", "R", mesh="4", tensor="f32[8,4]")["verified"] is True


def test_a_plan_is_written_as_python_for_the_mesh_and_topology_that_it_was_solved_for(tmp_path):
    program, topology = shardlab.program("mlp"), shardlab.topology("h100")
    topology["devices_per_host"] = 2
    plan = shardlab.solve(program, mesh="dp=2,tp=4", topology=topology, pins={"up": "S(0)[1]S(0)[0]"})
    assert isinstance(plan, shardlab.Plan) and isinstance(plan, dict) and plan["optimal"]
    assert plan.sizes == {"dp": 2, "tp": 4}
    assert shardlab.solve("mlp", mesh="8").sizes == {"0": 8}
    plan.write(tmp_path / "sharded.py")
    text = (tmp_path / "sharded.py").read_text()
    assert '"up": Layout((4096, 14336), torch.bfloat16, [_StridedShard(0, split_factor=4), Shard(0)])' in text
    assert "def apply(model, mesh):" in text
    impossible = shardlab.solve("mlp", mesh="8", memory_budget_bytes=1)
    for refused in (impossible.placements, lambda: impossible.write(tmp_path / "none.py")):
        with pytest.raises(shardlab.InputError, match="found no plan .no assignment satisfies"):
            refused()


def test_registries_and_measurements():
    assert "dtensor-2.13" in shardlab.names("stacks")
    name = shardlab.names("measurements")[0]
    assert shardlab.measurements(name)["schema"] == "shardlab/measurements/1"
    assert shardlab.suite("ops-small")["schema"] == "shardlab/suite/1"


def test_calibrated_stacks_validate(tmp_path):
    name = next(name for name in shardlab.names("measurements") if "h100" in name)
    fitted = shardlab.calibrate([name], topology="h100")
    assert fitted["rows_used"] > 0 and fitted["parameters"]
    checked = shardlab.validate([name], stack=fitted["stack"])
    assert checked["points"] > 0 and checked["median_ape_percent"] < 50


@pytest.mark.parametrize("ask, message", [
    (lambda: shardlab.plan("S(0)R", "RS(9)", **QUESTION), "--to: layout"),
    (lambda: shardlab.plan("S(0)R", "RS(1)", mesh="2x4"), "tensor: found None"),
    (lambda: shardlab.plan("S(0)R", "RS(1)", stack="dtensor-v33", **QUESTION), "did you mean"),
    (lambda: shardlab.plan(3, "RS(1)", **QUESTION), "layout: found 3"),
    (lambda: shardlab.Pricer("dtensor-v3").collective("gather", 1, mesh="8"), "valid: all_gather"),
    (lambda: shardlab.Pricer("dtensor-v3").collective("all_gather", 1, mesh="8", mesh_dim=1), "valid: 0 to 0"),
    (lambda: shardlab.solve({"schema": "shardlab/program/1"}, mesh="8"), "name"),
    (lambda: shardlab.run("plam"), "plam"),
    (lambda: shardlab.run("plan", "--help"), "a call for help"),
    (lambda: shardlab.plan("S(0)R", "RS(1)", mesh=(2, 4), tensor="bf16[8]"), "mesh: found (2, 4); valid: a text"),
    (lambda: shardlab.plan("S(0)R", "RS(1)", mesh="2x4", tensor=(8, 8)), "tensor: found (8, 8); valid: a text"),
    (lambda: shardlab.plan("S(0)R", "RS(1)", set=["x"], **QUESTION), "set: found ['x']; valid: a dict"),
    (lambda: shardlab.solve("mlp", mesh="8", pins=["x=R"]), "pins: found ['x=R']; valid: a dict"),
    (lambda: shardlab.validate("nope.txt", stack="nccl"), 'nope.txt'),
    (lambda: shardlab.validate(3, stack="nccl"), "files: found 3; valid: a list"),
])
def test_bad_input_is_a_value_error_that_says_what_is_valid(ask, message):
    with pytest.raises(ValueError) as error:
        ask()
    assert message in str(error.value)


@pytest.mark.parametrize("ask, message", [
    (lambda: shardlab.run(), "run: found no command"),
    (lambda: shardlab.plan("S(0)R", "RS(1)", stack=None, **QUESTION), "found None as a configuration; valid: a name"),
    (lambda: shardlab.run("completion", "bash"), "which has no document (completion bash)"),
    (lambda: shardlab.validate([], stack="nccl"), "files: found an empty list"),
    (lambda: shardlab.select("aten.mm.default", [], mesh="8"), "inputs: found []"),
    (lambda: shardlab.select("aten.mm.default", ["f32[8,8] R"] * 2, mesh="8", args=[object]), "args: found [<class"),
    (lambda: shardlab.simulate("S(0)R", "RS(1)", data="off", **QUESTION), "data: found 'off'; valid: True, False"),
    (lambda: shardlab.price("S(0)R", "RS(1)", topology="", **QUESTION), 'unknown topology ""'),
    (lambda: shardlab.solve("mlp", mesh="8", memory_budget_bytes="80GB"), "memory_budget_bytes: found '80GB'"),
])
def test_what_is_no_answer_to_the_question_is_refused(ask, message):
    with pytest.raises(shardlab.InputError) as error:
        ask()
    assert message in str(error.value)


def test_a_mistake_in_a_dict_is_named_without_a_file():
    program = shardlab.program("mlp")
    program["nodes"][3]["inputs"] = ["nope"]
    with pytest.raises(shardlab.InputError) as error:
        shardlab.solve(program, mesh="8")
    assert str(error.value).startswith("the dict 'mlp':/nodes/3/inputs/0: found"), error.value
    with pytest.raises(shardlab.InputError, match="found what JSON cannot hold"):
        shardlab.price("S(0)R", "RS(1)", stack={"name": object()}, **QUESTION)


def test_a_mesh_dim_may_have_any_name():
    plan = shardlab.solve("mlp", mesh="expert=2,axis=4")
    assert plan.sizes == {"expert": 2, "axis": 4}
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and again.sizes == plan.sizes


def test_a_plan_with_a_cost_function_of_ours_is_not_pickled():
    plan = shardlab.solve("mlp", mesh="2", stack=shardlab.stack("alpha-beta", cost=ring))
    with pytest.raises(shardlab.InputError, match="can't be pickled"):
        pickle.dumps(plan)


def test_ctrl_c_during_a_search_is_a_keyboard_interrupt(tmp_path):
    program = str(tmp_path / "llama.json")
    assert shardlab.run("program", "llama3-8b", "--out", program) == {}
    code = """
import os, signal, sys, threading, shardlab
for _ in range(2):  # the second time the handler must still be Python's
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        shardlab.solve(sys.argv[1], mesh="2x2x2", time_limit=100)
        print("no interrupt")
    except KeyboardInterrupt:
        print("interrupt")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    done = subprocess.run([sys.executable, "-c", code, program], capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    assert done.stdout == "interrupt\ninterrupt\nTrue\n", done.stdout + done.stderr


def test_one_of_a_list_may_stand_alone():
    assert shardlab.select("aten.neg.default", "f32[16,16] S(0)", mesh="2")["selected"]["inputs"] == ["S(0)"]
    one = shardlab.compare(baseline="dtensor-v3", candidates="alpha-beta", suite="moe-ep")
    assert one["questions"] == 77


def test_measure_is_left_to_the_program():
    with pytest.raises(RuntimeError, match="shardlab measure"):
        shardlab.run("measure", "--collective", "all_reduce")


def test_threads_may_run_commands_at_the_same_time():
    want = shardlab.plan("S(0)R", "RS(1)", **QUESTION)
    got = []
    threads = [threading.Thread(target=lambda: got.append(shardlab.plan("S(0)R", "RS(1)", **QUESTION)))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [want] * 4


class Meta:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


class Ranks:
    def __init__(self, shape, first=0):
        self.shape, self._first = shape, first

    def flatten(self):
        return self

    def tolist(self):
        return list(range(self._first, self._first + math.prod(self.shape)))


class Mesh:
    def __init__(self, shape, names=None, first=0):
        self.mesh, self.mesh_dim_names = Ranks(shape, first), names
        self.key = (shape, names, first)

    def __eq__(self, other):
        return self.key == other.key

    def __repr__(self):
        return f"Mesh{self.key[0]}"


class Shard:
    def __init__(self, dim):
        self.dim = dim


class Replicate:
    pass


class _StridedShard:
    def __init__(self, dim, split_factor):
        self.dim, self.split_factor = dim, split_factor


class ShardOrderEntry:
    def __init__(self, tensor_dim, mesh_dims):
        self.tensor_dim, self.mesh_dims = tensor_dim, mesh_dims


class Spec:
    def __init__(self, mesh, placements, meta, shard_order=None):
        self.mesh, self.placements, self.tensor_meta, self.shard_order = mesh, placements, meta, shard_order


def test_specs_are_read_by_their_attributes():
    meta = Meta((8192, 4096), "torch.bfloat16")
    src = Spec(Mesh((2, 4), ("dp", "tp")), (Shard(0), Replicate()), meta)
    dst = Spec(Mesh((2, 4), ("dp", "tp")), (Replicate(), Shard(1)), meta)
    plan = shardlab.plan(src, dst)
    assert plan["mesh"] == "dp=2,tp=4" and plan["from"] == "S(0)R" and plan["to"] == "RS(1)"
    assert plan["price_us"] == shardlab.plan("S(0)R", "RS(1)", **QUESTION)["price_us"]
    with pytest.raises(ValueError, match="row-major"):
        shardlab.plan(Spec(Mesh((2, 4), None, first=8), src.placements, meta), "RR")
    with pytest.raises(ValueError, match="found float7"):
        shardlab.tensor_text(Meta((1,), "torch.float7"))


def test_specs_of_two_meshes_or_tensors_have_no_common_price():
    a = Spec(Mesh((8,)), (Shard(0),), Meta((8, 8), "torch.float32"))
    b = Spec(Mesh((8,)), (Replicate(),), Meta((16, 8), "torch.float32"))
    c = Spec(Mesh((4,)), (Replicate(),), Meta((8, 8), "torch.float32"))
    assert math.isinf(shardlab.price(a, c))
    for ask, message in ((lambda: shardlab.plan(a, c), "dst: found a spec on Mesh(4,); valid: one on the mesh of src, Mesh(8,)"),
                         (lambda: shardlab.price(a, b), "dst: found a spec of f32[16,8]; valid: one of f32[8,8]"),
                         (lambda: shardlab.price(a, "R", mesh="2x4"), "src: found a spec on the mesh 8; valid: one on 2x4")):
        with pytest.raises(shardlab.InputError) as error:
            ask()
        assert message in str(error.value)


def test_specs_keep_their_shard_order():
    def text(placements, *orders):
        return shardlab.layout_text(Spec(Mesh((2, 4)), placements, None, [ShardOrderEntry(0, order) for order in orders]))
    assert text((Shard(0), Shard(0)), (0, 1)) == "S(0)S(0)"
    assert text((Shard(0), Shard(0)), (1, 0)) == "S(0)[1]S(0)[0]"
    # What a view made has a place in the shard order; what encodes an order has none.
    assert text((Shard(0), _StridedShard(0, 4)), (0, 1)) == "S(0)[0]_S(0,4)[1]"
    assert text((_StridedShard(0, 4), Shard(0))) == "_S(0,4)S(0)"


def said_with_torch(*words):
    """What the oracle's Python prints, which has PyTorch and finds this module."""
    python = os.environ.get("SHARDLAB_ORACLE_PYTHON") or str(ROOT / "build" / "oracle" / "bin" / "python")
    if not os.path.exists(python):
        pytest.skip("torch is not installed: scripts/setup --with-oracle")
    result = subprocess.run([python, *words], capture_output=True, text=True, timeout=250,
                            env={**os.environ, "PYTHONPATH": str(pathlib.Path(shardlab.__file__).parents[1])})
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_swapping_dtensors_cost_function():
    def swapped(stack):
        return said_with_torch(str(ROOT / "python" / "examples" / "swap_cost_function.py"), "--stack", stack)

    assert "\n0 of 8 ops changed" in swapped("dtensor-2.13")  # the same costs, the same choices
    assert "changed\n" in swapped("alpha-beta")


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "in a call"])
def test_a_cost_function_gets_pytorchs_placements_where_they_are_loaded(tmp_path, is_late):
    wanted = "from torch.distributed.tensor import Partial, Shard\n"
    program = tmp_path / "program.py"
    program.write_text(("" if is_late else wanted) + "import sys, shardlab\n"
                       "def price(current, target, topo, dim, gib):\n    " + is_late * wanted + """
    assert topo.mesh.mesh_dim_names == ("dp", "tp") and topo.mesh.shape == (2, 4)
    if target.is_partial() and not current.is_replicate():
        return float("inf"), gib
    return 100.0 * isinstance(current, Shard) + 300.0 * isinstance(current, Partial), gib
stack = shardlab.stack("dtensor-2.13", cost=price)
print("torch" in sys.modules, *(shardlab.price(source, "RR", mesh="dp=2,tp=4", tensor="bf16[64,64]", stack=stack)
                                for source in ("RS(0)", "P(sum)R")))
""")
    assert said_with_torch(str(program)) == f"{not is_late} 100.0 300.0\n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))


# ---- Cost functions of the caller's own ----------------------------------------------------------------------------


def ring(collective, bytes, group):
    """What the model of dtensor-2.13 says."""
    hops = (2 if collective == "all_reduce" else 1) * (group.ranks - 1)
    hop, bandwidth = (2.7, 87.7 * 0.22) if group.hosts > 1 else (0.6, 87.7)
    return 6.6 + hops * hop + bytes / 1024**3 * hops / group.ranks / bandwidth * 1e6


def doubled(current, target, mesh_topo, mesh_dim, gib):
    ranks = mesh_topo.mesh_dim_devices[mesh_dim]
    if current.is_partial() and target.is_replicate():
        return 100.0, gib
    if target.is_partial() and not current.is_replicate():
        return float("inf"), gib
    return 7.0, gib * ranks if target.is_replicate() else gib


def test_a_stack_takes_a_cost_function_of_ours():
    stacks = [shardlab.stack("dtensor-2.13", cost=ring), shardlab.stack(shardlab.stack("dtensor-2.13"), cost=doubled)]
    document = shardlab.compare(baseline="dtensor-2.13", candidates=stacks, suite="ops-small")
    assert {flip["stack"] for flip in document["flips"]} == {os.fspath(stacks[1])}
    assert shardlab.price("P(sum)R", "RR", stack=stacks[1], **QUESTION) == 100.0
    assert shardlab.plan("P(sum)R", "RR", stack=stacks[0], **QUESTION)["price_us"] == shardlab.price(
        "P(sum)R", "RR", stack="dtensor-2.13", **QUESTION)


def test_a_failing_cost_function_is_named_with_the_call():
    def raises(collective, bytes, group):
        raise KeyError("no such link")

    def endless(collective, bytes, group):
        return math.inf

    with pytest.raises(shardlab.ConfigError, match=r"raises: .*KeyError: 'no such link' \(raised by raises\('all_reduce'"):
        shardlab.price("P(sum)R", "RR", stack=shardlab.stack("dtensor-2.13", cost=raises), **QUESTION)
    with pytest.raises(shardlab.ConfigError, match=r"endless\(.* gave an infinite price"):
        shardlab.compare(baseline="dtensor-2.13", candidates=[shardlab.stack("dtensor-2.13", cost=endless)],
                         suite="ops-small")
    with pytest.raises(shardlab.InputError, match="takes 2 parameters"):
        shardlab.stack("dtensor-2.13", cost=lambda a, b: 1.0)


def test_cost_stacks_end_with_their_last_name():
    stack = shardlab.stack("dtensor-2.13", cost=ring)
    name = os.fspath(stack)
    assert shardlab.Pricer(stack).stack == name
    del stack
    with pytest.raises(Exception, match="ring"):
        shardlab.price("P(sum)R", "RR", stack=name, **QUESTION)
