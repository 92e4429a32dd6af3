"""shardlab from Python: plans, choices, prices and proofs as plain dicts.

    import shardlab
    shardlab.plan("S(0)R", "RS(1)", mesh="2x4", tensor="bf16[8192,4096]")["price_us"]

Texts are shardlab's: a mesh "8x8" or "dp=8,tp=8", a tensor "bf16[8192,4096]" (dtype and global shape), a
layout "S(0)R" (a placement per mesh dim). Where a layout is wanted, a DTensorSpec of torch.distributed.tensor
will do; mesh and tensor come from it then. torch is imported by the exports and by the methods of a Plan alone.

Prices are in microseconds. Every dict has the keys of the command of the same
name (`shardlab plan --format json`). Bad input raises InputError, a ValueError, whose message names what was found
and what is valid; what the machine lacks raises EnvironmentError, a RuntimeError.
"""

from __future__ import annotations

import functools
import json
import math
import numbers
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

# Where pip put the shipped configurations: in share/ of the environment, which is a folder above the package.
for _above in pathlib.Path(__file__).resolve().parents[1:6]:
    if (_above / "share" / "shardlab" / "configs" / "stacks").is_dir():
        os.environ.setdefault("SHARDLAB_CONFIGS", str(_above / "share" / "shardlab" / "configs"))
        break

from ._shardlab import ConfigError, EnvironmentError, InputError, LimitError  # noqa: E402
from ._shardlab import Pricer as _Pricer  # noqa: E402
from ._shardlab import run as _run  # noqa: E402
from ._shardlab import version as __version__  # noqa: E402
from .costs import CostStack  # noqa: E402
from .plans import Plan  # noqa: E402
from .specs import Layout, are_on_two_meshes, layout_text, mesh_text, spec_texts, tensor_text  # noqa: E402

__all__ = [
    "ConfigError", "CostStack", "EnvironmentError", "InputError", "LimitError", "Plan", "Pricer", "calibrate", "compare",
    "describe", "export", "export_autoparallel", "layout_text", "measurements", "mesh_text", "names", "plan", "price", "program",
    "run", "select", "simulate",
    "solve", "stack", "suite", "tensor_text", "topology", "validate",
]

Json = dict[str, Any]
Config = str | os.PathLike | Mapping[str, Any]  # a shipped name, a path, or the file's content


class _Words:
    """The words of a command. What is given as content becomes a file that lives as long as this object."""

    def __init__(self, *words: str):
        self.words = list(words)
        self._folder: tempfile.TemporaryDirectory | None = None
        self._contents: dict[str, str] = {}  # what messages call each file that the caller does not know

    def __enter__(self) -> "_Words":
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, option: str, value: object) -> "_Words":
        """An option that is left out where the value is None or False, and a flag where it is True."""
        if value is None or value is False:
            return self
        self.words += [option] if value is True else [option, str(value)]
        return self

    def each(self, option: str, values: Iterable[object]) -> "_Words":
        for value in values:
            self.add(option, value)
        return self

    def file(self, config: Config) -> str:
        """The name or path of a configuration."""
        if isinstance(config, (str, os.PathLike)):
            return os.fspath(config)
        if not isinstance(config, Mapping):
            raise InputError(f"found {config!r} as a configuration; valid: a name, a path, or a dict with a file's content")
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="shardlab-")
        path = pathlib.Path(self._folder.name) / f"{len(list(pathlib.Path(self._folder.name).iterdir()))}.json"
        try:
            path.write_text(json.dumps(config))
        except TypeError as error:
            raise InputError(f"a dict: found what JSON cannot hold ({error}); valid: the content of a file") from None
        self._contents[str(path)] = f"the dict {config['name']!r}" if isinstance(config.get("name"), str) else "the dict"
        return str(path)

    def common(self, topology: Config | None, set: Mapping[str, Any] | None) -> "_Words":
        if topology is not None:
            self.add("--topology", self.file(topology))
        return self.each("--set", _assignments(set))

    def run(self) -> Json:
        try:
            return json.loads(_run(self.words + ["--format", "json"])[1])
        except InputError as error:
            text = str(error)
            for path, name in self._contents.items():
                text = text.replace(path, name)
            raise type(error)(text) from None


def _listed(name: str, values: Any) -> list[Any]:
    """The values as a list; a single value may stand without one."""
    if isinstance(values, (str, os.PathLike, Mapping)):
        return [values]
    try:
        return list(values)
    except TypeError:
        raise InputError(f"{name}: found {values!r}; valid: a list") from None


def _pairs(name: str, values: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    if values is not None and not isinstance(values, Mapping):
        raise InputError(f"{name}: found {values!r}; valid: a dict")
    return list((values or {}).items())


def _assignments(set: Mapping[str, Any] | None) -> list[str]:
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in _pairs("set", set)]


def _is_amount(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def run(*words: str) -> Json:
    """Runs any command by its words, e.g. run("ties", "--suite", "ops-small"), and returns its JSON document.

    A gate that says no (exit code 1 of the program) is not an error here: the document says it. A command that only
    writes a file, such as program --out, gives an empty dict.
    """
    text_only = ("--help", "-h", "--version", "help", "completion")
    if not words or words[0] in text_only or any(word in text_only[:3] for word in words):
        found = f"a call for help or a script, which has no document ({' '.join(words)})" if words else "no command"
        raise InputError(f"run: found {found}; valid: a command and its options (shardlab COMMAND --help)")
    return json.loads(_run([*words, "--format", "json"])[1] or "{}")


def plan(src: Layout, dst: Layout, *, mesh: str | None = None, tensor: str | None = None,
         stack: Config = "dtensor", topology: Config | None = None, planner: str | None = None,
         flatten: Sequence[str] = (), set: Mapping[str, Any] | None = None) -> Json:
    """The steps that take a tensor from one layout to another, and their price.

    mesh, tensor: from the DTensorSpecs where src or dst is one. planner: "greedy" or "graph" instead of the
    stack's. flatten: axes of flattened meshes, "dp,tp". set: changes to the configuration, e.g.
    {"devices_per_host": 4, "stack.transition_us": 1}.

    Keys: path, steps (collective, mesh_dims, from, to, full_bytes, price_us, parts_us), price_us (None: there is none,
    with the reason as `impossible`), executed_us, bounds, transition_us (what select adds for a tensor that moves).
    """
    mesh, tensor, src, dst = spec_texts(src, dst, mesh, tensor)
    with _Words("plan", "--mesh", mesh, "--tensor", tensor, "--from", src, "--to", dst) as words:
        words.add("--stack", words.file(stack)).add("--planner", planner).each("--flatten", flatten)
        return words.common(topology, set).run()


def price(src: Layout, dst: Layout, *, mesh: str | None = None, tensor: str | None = None,
          stack: Config = "dtensor", topology: Config | None = None,
          set: Mapping[str, Any] | None = None) -> float:
    """What a redistribution costs in microseconds; infinity where it is impossible. To ask often, make a Pricer.

    As in PyTorch's redistribute_cost, specs on two meshes have an infinite price. What select adds for each tensor that
    moves (the stack's transition_us) is not in it.
    """
    return Pricer(stack, topology, set).price(src, dst, mesh=mesh, tensor=tensor)


class Pricer:
    """Prices under one stack; asking again costs microseconds. Not for several threads at once."""

    def __init__(self, stack: Config = "dtensor", topology: Config | None = None,
                 set: Mapping[str, Any] | None = None):
        with _Words() as words:
            place = words.file("h100" if topology is None else topology)
            self._pricer = _Pricer(words.file(stack), place, _assignments(set))

    @property
    def stack(self) -> str:
        """The stack's name."""
        return self._pricer.stack

    def price(self, src: Layout, dst: Layout, *, mesh: str | None = None, tensor: str | None = None) -> float:
        """What a redistribution costs in microseconds; infinity where it is impossible, as between two meshes."""
        if are_on_two_meshes(src, dst):
            return math.inf
        mesh, tensor, src, dst = spec_texts(src, dst, mesh, tensor)
        return self._pricer.price(mesh, tensor, src, dst)

    def collective(self, collective: str, full_bytes: float, *, mesh: Any, mesh_dim: int = 0) -> dict[str, float]:
        """Microseconds of one collective over a mesh dim (a text or a DeviceMesh).

        full_bytes: the larger of the two buffers of one rank, as `full_bytes` of a plan's step: what an all_gather gives
        or a reduce_scatter takes, and of an all_to_all what one rank holds.
        """
        total, latency, transfer, compute, straggler = self._pricer.collective(
            collective, full_bytes, mesh_text(mesh), mesh_dim)
        return {"total_us": total, "latency_us": latency, "transfer_us": transfer, "compute_us": compute,
                "straggler_us": straggler}


def select(op: str, inputs: Sequence[str], *, mesh: Any, args: Sequence[Any] = (), stack: Config = "dtensor",
           topology: Config | None = None, search: str | None = None, order: str | None = None,
           set: Mapping[str, Any] | None = None) -> Json:
    """The candidates of one op, their prices and the choice.

    inputs: one text per tensor, "f32[16,16] S(0)"; a tensor list is "[f32[8,8] R; f32[8,8] S(0)]". args: the
    positional arguments that are not tensors. mesh: a text or a DeviceMesh. Keys: candidates, selected, ties, margin_us,
    flips_with_order, output_positions (which results the outputs are, where a mask leaves some out), unexecutable (why
    the choice has a price but can't run, or None).
    """
    texts = _listed("inputs", inputs)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(f"inputs: found {inputs!r}; valid: one text for each tensor argument, such as \"f32[8,8] S(0)\"")
    try:
        given = json.dumps(list(args)) if args else None
    except TypeError:
        raise InputError(f"args: found {args!r}; valid: numbers, texts, lists of them, True, False and None; a dtype is "
                         "a text, such as \"bf16\"") from None
    with _Words("select", "--op", op, "--mesh", mesh_text(mesh)) as words:
        words.words += ["--inputs", *texts]
        words.add("--args", given).add("--stack", words.file(stack))
        words.add("--search", search).add("--order", order)
        return words.common(topology, set).run()


def simulate(src: Layout, dst: Layout, *, mesh: str | None = None, tensor: str | None = None,
             stack: Config = "dtensor", topology: Config | None = None, data: bool = True,
             straggler: str | None = None, set: Mapping[str, Any] | None = None) -> Json:
    """Runs a redistribution on virtual ranks. Keys: verified, replicas_bitwise_equal, time_us, steps."""
    if type(data).__name__ not in ("bool", "bool_"):
        raise InputError(f"data: found {data!r}; valid: True, False")
    mesh, tensor, src, dst = spec_texts(src, dst, mesh, tensor)
    with _Words("simulate", "--mesh", mesh, "--tensor", tensor, "--from", src, "--to", dst) as words:
        words.add("--stack", words.file(stack)).add("--data", "on" if data else "off")
        words.add("--straggler", straggler)
        return words.common(topology, set).run()


def solve(program: Config, *, mesh: Any, stack: Config | None = None, topology: Config | None = None,
          pins: Mapping[str, str] | None = None, pin_inputs: str | None = None, pin_outputs: str | None = None,
          parameter_budget: float | None = None, memory_budget_bytes: float | None = None, margins: bool = False,
          best: int | None = None, explain: str | None = None, strided: bool = False, tie_repeated: bool = False,
          narrow_reduction: bool = False, recipe: Config | None = None, greedy: bool = False, sensitivity: bool = False,
          budget_curve: int | None = None, time_limit: float | None = None, recompute: str | None = None,
          reshard_after_forward: bool = False, fit: bool = True, objective: str | None = None,
          set: Mapping[str, Any] | None = None) -> Plan:
    """The best layouts of a whole program, with a proof.

        plan = shardlab.solve(shardlab.export(model, (tokens,)), mesh="2x4")
        plan.placements()       # {"layers.0.wq.weight": [Shard(0), Replicate()], ...}
        plan.apply(model)       # the model is distributed, and runs the plan

    stack: None is the stack that was fitted to the topology's GPU, or else alpha-beta. time_limit: seconds after which
    the best plan so far is taken, with its gap to the proved bound. recompute: "none", "full", "selective", "every:N",
    "full:N", "selective:N" or "auto". memory_budget_bytes: what a step may take at its peak; None is the memory of the
    topology's device. fit=False takes a plan of any size. objective: "sum", or "step" for a search by simulated time.

    Keys: objective_us, lower_bound_us, optimal, gap (where it is not optimal), executed_us, breakdown_us, assignment (node, op, layout_in, layout_out,
    compute_us, communication_us, transition_us, margin_us), timing; greedy, sensitivity, budget_curves where asked for.
    A pin's key is a node's name, or the label that one parameter, buffer, input or tangent has.
    """
    with _Words("solve") as words:
        words.words.append(words.file(program))
        words.add("--mesh", mesh_text(mesh)).add("--stack", None if stack is None else words.file(stack))
        words.add("--time-limit", time_limit)
        words.add("--recompute", recompute).add("--reshard-after-forward", reshard_after_forward)
        words.add("--no-fit", not fit).add("--objective", objective)
        words.each("--pin", [f"{node}={layout}" for node, layout in _pairs("pins", pins)])
        words.add("--pin-inputs", pin_inputs).add("--pin-outputs", pin_outputs)
        words.add("--parameter-budget", parameter_budget)
        if memory_budget_bytes is not None and not _is_amount(memory_budget_bytes):
            raise InputError(f"memory_budget_bytes: found {memory_budget_bytes!r}; valid: a number of bytes")
        words.add("--memory-budget", None if memory_budget_bytes is None else f"{memory_budget_bytes:.0f}B")
        words.add("--margins", margins).add("--best", best).add("--explain", explain).add("--strided", strided)
        words.add("--tie-repeated", tie_repeated).add("--narrow-reduction", narrow_reduction)
        words.add("--recipe", None if recipe is None else words.file(recipe)).add("--greedy", greedy)
        words.add("--sensitivity", sensitivity).add("--budget-curve", budget_curve)
        document = words.common(topology, set).run()

    return Plan(document, functools.partial(_nodes_of, program), functools.partial(_write_plan, program, stack, topology, set))


def _nodes_of(program: Config) -> list[Json]:
    return list((program if isinstance(program, Mapping) else describe("program", program))["nodes"])


def _write_plan(program: Config, stack: Config | None, topology: Config | None, set: Mapping[str, Any] | None,
                document: Json, path: str) -> None:
    with _Words("apply") as words:
        words.words.append(words.file(program))
        words.add("--plan", words.file(document)).add("--stack", None if stack is None else words.file(stack))
        words.add("--out", path).common(topology, set).run()


def calibrate(files: Sequence[str | os.PathLike], *, topology: Config | None = None, model: str | None = None,
              out: str | os.PathLike | None = None, hold_out: bool = False) -> Json:
    """Fits a stack to measured times: nccl-tests text or JSON, or measurement sets. Keys: parameters (value,
    low_95, high_95, and for curves bytes), not_identified, rows_used, rows_refused, stack (what `out` would hold)."""
    with _Words("calibrate", *map(os.fspath, _listed("files", files))) as words, tempfile.TemporaryDirectory() as folder:
        path = os.fspath(out) if out is not None else os.path.join(folder, "stack.json")
        words.add("--out", path).add("--model", model).add("--hold-out", hold_out)
        result = words.common(topology, None).run()
        result["stack"] = json.loads(pathlib.Path(path).read_text())
        return result


def validate(files: Sequence[str | os.PathLike], *, stack: Config, topology: Config | None = None,
             rows: bool = False) -> Json:
    """Compares predicted with measured times. Keys: points, median_ape_percent, p90_ape_percent, by, worst."""
    paths = list(map(os.fspath, _listed("files", files)))
    if not paths:
        raise InputError("files: found an empty list; valid: measurement sets or logs, such as those of measurements()")
    with _Words("validate", *paths) as words:
        return words.add("--stack", words.file(stack)).add("--rows", rows).common(topology, None).run()


def compare(*, baseline: Config, candidates: Sequence[Config], suite: Config, reference: Config | None = None,
            topology: Config | None = None, out: str | os.PathLike | None = None,
            set: Mapping[str, Any] | None = None) -> Json:
    """What a change of the stack flips over a suite, and at what regret; `out`: a folder for the report."""
    with _Words("compare") as words:
        words.add("--baseline", words.file(baseline)).each("--candidate", map(words.file, _listed("candidates", candidates)))
        words.add("--suite", words.file(suite))
        if reference is not None:
            words.add("--reference", words.file(reference))
        words.add("--out", None if out is None else os.fspath(out))
        return words.common(topology, set).run()


def names(kind: str) -> list[str]:
    """The names in a registry: stacks, models, topologies, ops, placements, suites, regressions, programs, recipes,
    experiments, measurements."""
    return run("list", kind)[kind]


def describe(kind: str, name: str | os.PathLike) -> Json:
    """One entry of a registry, read in full: stack, model, topology, op, placement, suite, regression, program, recipe,
    experiment, measurement, tuner."""
    return run("describe", kind, os.fspath(name))


@overload
def stack(name: Config, cost: None = None) -> Json: ...


@overload
def stack(name: Config, cost: Callable[..., Any]) -> CostStack: ...


def stack(name: Config, cost: Callable[..., Any] | None = None) -> Json | CostStack:
    """A stack with every default filled in; change it and hand it to `stack=`. With a cost function: the stack of this
    name with that function's prices (CostStack), to be handed on as it is."""
    if cost is not None:
        return CostStack(name, cost)
    with _Words() as words:
        return describe("stack", words.file(name))


def topology(name: str | os.PathLike) -> Json:
    """A topology: devices per host, link levels, what a device computes and holds."""
    return describe("topology", name)


def suite(name: str | os.PathLike) -> Json:
    """A suite of questions."""
    return describe("suite", name)


def program(name: str | os.PathLike) -> Json:
    """A program: nodes with ops, shapes, inputs."""
    return describe("program", name)


def export(model: Any, inputs: Any, kwargs: Mapping[str, Any] | None = None, *, name: str | None = None,
           mixed_precision: str | None = None, backward: bool = True, decompositions: str = "core") -> Json:
    """A PyTorch module's training step, or with backward=False its forward pass, as a program for solve.

        shardlab.solve(shardlab.export(model, (tokens,)), mesh="2x4")

    inputs, kwargs: the arguments of forward; only their shapes and dtypes matter, so that tensors of the device
    "meta" will do. mixed_precision: "bf16" or "f16" reads parameters and inputs through a cast, as FSDP2 does. Buffers keep
    their dtype: solve refuses a product of two dtypes, as PyTorch would when it runs. decompositions: "core", or
    "inductor" for those of a compiled model, which AutoParallel has too. Nothing is computed, and no
    GPU is needed. Imports torch, 2.13 or newer. A module that cannot be exported raises a ValueError.
    """
    from .exporting import export as exported  # here, since it imports torch

    return exported(model, inputs, kwargs, name=name, mixed_precision=mixed_precision, backward=backward,
                    decompositions=decompositions)


def export_autoparallel(optimizer: Any, *, name: str = "autoparallel") -> Any:
    """The problem of a live ShardingOptimizer of AutoParallel, such as autop.sharding_optimizer, with its constraints.

        exported = shardlab.export_autoparallel(autop.sharding_optimizer)
        shardlab.run("solve", str(exported.write("mlp")["program"]), *exported.arguments)["objective_us"]

    Fields: program (a dict), arguments (the words of `shardlab solve` after the program), plan (what AutoParallel chose,
    or None), notes (what its problem has and shardlab's has not). Call it inside `with AutoParallel(...)`.
    """
    from .autoparallel import export_autoparallel as exported  # here, since it imports torch

    return exported(optimizer, name=name)


def measurements(name: str | os.PathLike) -> Json:
    """A measurement set, from a shipped name, shardlab's JSON, or nccl-tests text or JSON."""
    return describe("measurement", name)
