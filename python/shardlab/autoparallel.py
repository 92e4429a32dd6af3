"""Turns a live problem of AutoParallel into what shardlab solves: export_autoparallel.

    with AutoParallel(model, input_fn, mesh, policy) as autop:
        autop.add_parameter_memory_constraint()
        autop.add_input_constraints([batch])
        autop.optimize_placement()
        files = export_autoparallel(autop.sharding_optimizer).write("mlp")
    # then: shardlab solve mlp/program.json, followed by the words of mlp/arguments.json

The program is the optimizer's own graph, node by node: its mixed precision, its decompositions and the operators that
it chose for its device, which shardlab.export does not reproduce. The arguments say what `shardlab solve` needs to
state the same problem: the mesh, the stack, a pin for every node that a constraint holds, the budget of parameters and
the ties of repeated layers. The plan is the optimizer's, if it has been solved; `solve --diff` and `simulate --plan`
read it.

What AutoParallel's problem has and shardlab's has not is listed in `notes`.

Nothing is imported from AutoParallel: the optimizer is only read. Source: meta-pytorch/autoparallel at a54c252
(optimize_sharding.py says what the constraints mean, placement_options.py what a local_map region may do).
"""

import dataclasses
import json
import operator
import os
import pathlib
import re
import shlex
import sys

import torch
from torch._functorch._aot_autograd import descriptors
from torch.distributed.device_mesh import _mesh_resources

from . import exporting

KINDS = {
    descriptors.ParamAOTInput: ("parameter", "forward"),
    descriptors.BufferAOTInput: ("buffer", "forward"),
    descriptors.PlainAOTInput: ("input", "forward"),
    descriptors.TangentAOTInput: ("tangent", "backward"),
}
# A frame of a stack trace: file, line, and the marks below the line.
FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*(?:\n(?! *File)[^\n]*)?(?:\n([ ~^]+)(?=\n|$))?')
PHASES = {"is_forward": "forward", "is_backward": "backward"}
# Regions that AutoParallel takes as they are, and for whose kernels it charges nothing.
TOPOLOGIES = {"A100": ("a100", 8), "H100": ("h100", 8), "B200": ("b200", 8)}
DEFAULT_MODEL = (
    "the world of {world} devices is no multiple of a host's, or the device is unknown, so AutoParallel takes its "
    "default model, DTensor's rings, and not NCCL's tuning"
)
LISTED = {"local_map": "autoparallel.local_map", "flex_attention": "autoparallel.flex_attention"}


@dataclasses.dataclass
class AutoParallelExport:
    """A problem of AutoParallel: its program, the arguments for `shardlab solve`, and the plan, if there is one."""

    program: dict
    arguments: list[str]
    plan: dict | None
    notes: list[str]

    def write(self, folder):
        """Writes program.json, arguments.json and, where the problem was solved, plan.json. Returns their paths."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "program": exporting.text_of(self.program),
            "arguments": json.dumps(self.arguments) + "\n",
        }
        if self.plan is not None:
            nodes = ",\n".join(json.dumps(node) for node in self.plan["nodes"])
            texts["plan"] = f'{{"mesh": {json.dumps(self.plan["mesh"])},\n"nodes": [\n{nodes}]}}\n'
        paths = {}
        for name, text in texts.items():
            paths[name] = folder / f"{name}.json"
            paths[name].write_text(text, encoding="utf-8")
        return paths

    def command(self, folder):
        """The command line that solves what was written to the folder."""
        words = ["shardlab", "solve", os.path.join(folder, "program.json"), *self.arguments]
        return " ".join(shlex.quote(word) for word in words)


# --- Layouts ----------------------------------------------------------------------------------------------


def layout_text(placements):
    """Placements as shardlab writes them: "S(0)R"."""
    return "".join(placement_text(each) for each in placements)


def placement_text(placement):
    """One placement: "R", "S(0)", "P(sum)", or what the embedding makes, which is no sum yet."""
    kind = type(placement).__name__
    if kind == "_MaskPartial":
        dim = placement.offset_dim
        extent = placement.offset_shape[dim] if placement.offset_shape else 0
        return f"MP({dim},{extent})" if dim or extent else "MP"
    if kind == "_StridedShard":
        return f"_S({placement.dim},{placement.split_factor})"
    if placement.is_partial():
        return f"P({placement.reduce_op})"
    return f"S({placement.dim})" if placement.is_shard() else "R"


def specs_of(specs):
    """The specs of one tensor, or of those tensors of a tuple that exist."""
    if isinstance(specs, (list, tuple)):
        return [spec for spec in specs if spec is not None]
    return [] if specs is None else [specs]


# --- The graph --------------------------------------------------------------------------------------------


class Nodes:
    """The nodes of an optimizer's graph as those of a program."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.strategies = optimizer.strats
        self.graph = optimizer.graph
        self.names = {}  # node of the graph -> the name under which its readers read it
        self.parts = {}  # node with several outputs -> which of them are tensors
        self.labels = {}
        self.nodes, self.pairs, self.notes = [], [], []
        self.written = set()  # names of the program's nodes
        self.results = self.named_results()

    def named_results(self):
        """For each node that only names a value that leaves the graph: the kind of that value, and what it is tied to."""
        output = self.graph.find_nodes(op="output")[0]
        results = {}
        for value, desc in zip(output.args[0], output.meta["desc"]):
            if not isinstance(value, torch.fx.Node):
                continue
            is_name = value.target is torch.ops.aten.alias.default and list(value.users) == [output]
            if is_name and value not in results:
                results[value] = desc
        return results

    def run(self):
        """Writes all nodes and pairs."""
        backward = set()
        for node in self.graph.nodes:
            tangent = isinstance(node.meta.get("desc"), descriptors.TangentAOTInput)
            if tangent or set(node.all_input_nodes) & backward:
                backward.add(node)
            if node.op == "output" or node not in self.strategies:
                continue
            phase = PHASES.get(node.meta.get("partitioner_tag"), "backward" if node in backward else "forward")
            if node.op in ("placeholder", "get_attr"):
                self.add_source(node)
            elif node.target is operator.getitem:
                self.add_part(node, phase)
            elif isinstance(node.target, torch._ops.OpOverload):  # pylint: disable=protected-access
                self.add_op(node, phase)
            else:
                self.add_listed(node, phase)
        self.add_pairs()
        self.note_repeated_arguments()

    def add(self, node, label, outputs, phase, **rest):
        """A node, with a label where there is one."""
        entry = {"name": node.name, **({"label": label} if label else {}), **rest}
        trace = trace_of(node)
        if trace:
            entry["trace"] = trace
        self.nodes.append({**entry, "outputs": outputs, "phase": phase})
        self.names[node] = node.name
        self.written.add(node.name)

    def add_source(self, node):
        """A parameter, buffer, input or tangent."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return  # a number or a text that the trace baked in
        desc = node.meta.get("desc")
        kind, phase = KINDS.get(type(desc), ("buffer", "forward"))
        label = getattr(desc, "target", "") if kind in ("parameter", "buffer") else ""
        self.labels[desc] = label
        self.add(node, label, [exporting.meta_json(value)], phase, kind=kind)

    def add_part(self, node, phase):
        """A node that shows one of several outputs."""
        of, index = node.args
        if index not in self.parts.get(of, ()):
            return  # an output that is None
        output = self.parts[of].index(index)
        source = self.names[of] + (f":{output}" if output else "")
        outputs = [exporting.meta_json(node.meta["val"])]
        self.add(node, label_of(of), outputs, phase, op="_operator.getitem", inputs=[source])

    def tensors_of(self, node):
        """The tensors that a node makes."""
        made = node.meta.get("val")
        tensors = list(made) if isinstance(made, (list, tuple)) else [made]
        self.parts[node] = [i for i, tensor in enumerate(tensors) if isinstance(tensor, torch.Tensor)]
        return [exporting.meta_json(tensors[i]) for i in self.parts[node]]

    def add_op(self, node, phase):
        """A call of an operator, or a name for a value that leaves."""
        outputs = self.tensors_of(node)
        rest = {"op": str(node.target), **exporting.call_json(node, self.names)}
        label = label_of(node)
        if node in self.results:
            kind, label, phase = self.result_of(self.results[node])
            rest["kind"] = kind
        self.add(node, label, outputs, phase, **rest)

    def result_of(self, desc):
        """The kind, label and phase of a value that leaves."""
        if isinstance(desc, descriptors.GradAOTOutput):
            return "gradient", self.labels.get(desc.grad_of, ""), "backward"
        if isinstance(desc, descriptors.InputMutationAOTOutput):
            plain = isinstance(desc.mutated_input, descriptors.PlainAOTInput)
            return "output" if plain else "buffer_update", self.labels.get(desc.mutated_input, ""), "forward"
        return "output", "", "forward"

    def add_listed(self, node, phase):
        """A region whose strategies are those that AutoParallel lists: local_map, flex_attention."""
        kind = "local_map" if node.meta.get("local_map_kwargs") else "flex_attention"
        read = [each for each in self.optimizer._all_input_nodes(node) if each in self.names]
        listed = self.strategies[node].strategies
        # An input for which the region states no layout is taken as it comes, and has no edge.
        stated = [i for i, _ in enumerate(read) if listed[0].input_specs[i] is not None]
        outputs = self.tensors_of(node)
        rows = []
        for strategy in listed:
            made = list(strategy.output_specs) if isinstance(strategy.output_specs, (list, tuple)) else [
                strategy.output_specs]
            whole = "R" * self.optimizer.mesh.ndim
            made = [whole if i >= len(made) or made[i] is None else layout_text(made[i].placements)
                    for i in self.parts[node]]
            rows.append([*made, *(layout_text(strategy.input_specs[i].placements) for i in stated)])
        self.add(node, label_of(node), outputs, phase, op=LISTED[kind],
                 inputs=[self.names[read[i]] for i in stated], args={"positional": rows})

    # -- What AutoParallel ties --------------------------------------------------------------------

    def add_pairs(self):
        """Parameters and inputs with their gradients, outputs with their tangents."""
        output = self.graph.find_nodes(op="output")[0]
        made = {}
        for value, desc in zip(output.args[0], output.meta["desc"]):
            if isinstance(value, torch.fx.Node):
                made[desc] = value
        sources = {node.meta["desc"]: node for node in self.graph.nodes
                   if node.op == "placeholder" and "desc" in node.meta}
        for desc, value in made.items():
            first, second = None, value
            if isinstance(desc, descriptors.GradAOTOutput):
                if isinstance(desc.grad_of, (descriptors.ParamAOTInput, descriptors.PlainAOTInput)):
                    first = sources.get(desc.grad_of)
            elif isinstance(desc, descriptors.PlainAOTOutput):
                first, second = value, sources.get(descriptors.TangentAOTInput(desc))
            if first is not None and second is not None:
                self.pairs.append([first.name, second.name])

    def note_repeated_arguments(self):
        """AutoParallel ties only the first of the arguments that one producer feeds."""
        twice = []
        for node in self.graph.nodes:
            if node.op == "call_function" and node in self.strategies:
                read = self.optimizer._all_input_nodes(node)  # pylint: disable=protected-access
                if len(set(read)) < len(read):
                    twice.append(node.name)
        if twice:
            self.notes.append(
                f"{', '.join(twice)}: reads one tensor twice, and AutoParallel lets the second argument claim any "
                "layout that the producer could have, while shardlab's has the one that the producer has"
            )


def label_of(node):
    """The full name of the module that an op comes from."""
    return re.sub(r"^(L\['self'\]|_export_root)\.?", "", exporting.module_label(node))


def trace_of(node):
    """The places in the model's code that a node comes from, and where in their storages the tensors begin that it reads.

    A place is a file, a line and, where Python marks it, the part of the line. Nodes of repeated layers agree in all of
    this; the parts of one tensor, which one expression may handle, differ in where they begin.
    """
    words = []
    for file, line, mark in FRAME.findall(node.meta.get("stack_trace") or ""):
        at = f":{len(mark) - len(mark.lstrip())}+{len(mark.strip())}" if mark.strip() else ""
        words.append(f"{os.path.basename(file)}:{line}{at}")
    for each in node.all_input_nodes:
        value = each.meta.get("val")
        if isinstance(value, torch.Tensor) and value.storage_offset() != 0:
            words.append(f"+{value.storage_offset()}")
    return " ".join(words)


# --- The arguments ----------------------------------------------------------------------------------------


def first_layout(strategy):
    """The layout of the first tensor that a strategy makes."""
    return layout_text(specs_of(strategy.output_specs)[0].placements)


def pins_of(optimizer, written):
    """NAME=LAYOUT for each node that a constraint holds."""
    nodes = {node.name: node for node in optimizer.nodes}
    pins = {}
    for constraint, name in optimizer._node_constraint_names.items():
        if constraint not in optimizer.prob.constraints or name not in written:
            continue
        layouts = set()
        for variable in optimizer.prob.constraints[constraint]:
            at = int(re.search(r"output_p[=_](\d+)", variable.name).group(1))
            layouts.add(first_layout(optimizer.strats[nodes[name]].strategies[at]))
        if len(layouts) == 1:
            pins[name] = layouts.pop()
    return [f"{name}={layout}" for name, layout in pins.items()]


def environment_of(optimizer):
    """The words that name the stack and the topology, and notes on what they do not express.

    AutoParallel keeps its topology in a global, and reads the GPU from the name of the current device.
    """
    module = sys.modules.get("autoparallel.cost_models.collective_runtime_estimation")
    config = module.get_nccl_topo_config() if module else None
    estimation = sys.modules.get("autoparallel.cost_models.compute_estimation")
    device = estimation._get_device_limit().name if estimation else "H100"  # pylint: disable=protected-access
    notes = []
    if device not in TOPOLOGIES:
        notes.append(f"kernels are priced as on an H100: shardlab has no topology of {device}")
    topology, per_host = TOPOLOGIES.get(device, TOPOLOGIES["H100"])
    words = ["--topology", topology]
    if config is not None:
        hosts = config.gpus_per_node
        words += ["--stack", stack_named("ap-nccl")]
        standard = detected(config)
        if standard is not None and dataclasses.replace(config, num_nodes=standard.num_nodes) != standard:
            notes.append(f"the optimizer has a topology of its own, and ap-nccl that of its preset: {config}")
    else:
        hosts = _mesh_resources.num_devices_per_host(optimizer.mesh.device_type)
        words += ["--stack", stack_named("ap-default")]
        notes.append(DEFAULT_MODEL.format(world=optimizer.mesh.size()))
    if hosts != per_host:
        words += ["--set", f"devices_per_host={hosts}"]
    return words, notes


def stack_named(name):
    """The stack with the rules of the PyTorch that runs: AutoParallel borrows most of its rules there."""
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return name if release < (2, 15) else f"{name}-2.15"


def detected(config):
    """What AutoParallel's preset says for the architecture of a topology."""
    presets = sys.modules.get("autoparallel.cost_models.nccl_cost_model")
    makers = {"AMPERE": "a100", "HOPPER": "h100", "BLACKWELL": "gb200"}
    make = getattr(presets, f"{makers.get(config.arch.name)}_topo_config", None)
    return make(config.num_nodes, config.gpus_per_node) if make else None


def arguments_of(optimizer, written):
    """The words of `shardlab solve` after the program, and notes on what they do not express."""
    words = ["--mesh", "x".join(str(extent) for extent in optimizer.mesh.shape)]
    environment, notes = environment_of(optimizer)
    words += environment
    for pin in pins_of(optimizer, written):
        words += ["--pin", pin]
    if optimizer._memory_constraint is not None:
        low, high = optimizer._memory_constraint
        words += ["--parameter-budget", repr(min(float(high), 1.0))]
        if low > 0.0:
            notes.append(f"parameters have to keep a fraction of at least {low}, which solve does not ask")
    if optimizer.cluster_links:
        words.append("--tie-repeated")
    if not optimizer.force_grad_reduce_in_higher_precision:
        words.append("--narrow-reduction")
    return words, notes


# --- The plan ---------------------------------------------------------------------------------------------


def plan_of(optimizer, written):
    """The layouts that the optimizer chose, as AutoParallel's own JSON has them; None before it has solved."""
    chosen = {}
    for node_index, _, out, _ in getattr(optimizer, "selected_keys", []):
        chosen[optimizer.nodes[node_index]] = out
    if not chosen:
        return None
    nodes = []
    for node, out in chosen.items():
        if node.name not in written:
            continue
        strategy = optimizer.strats[node].strategies[out]
        made = [layout_text(spec.placements) for spec in specs_of(strategy.output_specs)]
        placement = made[0] if len(made) == 1 else "(" + ", ".join(made) + ")"
        is_source = node.op in ("placeholder", "get_attr") or not optimizer._all_input_nodes(node)
        wanted = [] if is_source else [spec for spec in strategy.input_specs if spec is not None]
        nodes.append({"name": node.name, "op": node.op, "placement": placement,
                      "inputs": [{"dst_placement": layout_text(spec.placements)} for spec in wanted]})
    mesh = optimizer.mesh
    return {"mesh": {"shape": list(mesh.shape), "dim_names": list(mesh.mesh_dim_names or [])}, "nodes": nodes}


# --- The whole --------------------------------------------------------------------------------------------


def export_autoparallel(optimizer, *, name="autoparallel"):
    """The problem of a live ShardingOptimizer, such as autop.sharding_optimizer: program, arguments, plan and notes.

    Call it inside `with AutoParallel(...)`, since AutoParallel keeps its topology only there. Raises ExportError, a
    ValueError, for a graph that has no program.
    """
    for needed in ("strats", "graph", "mesh", "prob", "cluster_links"):
        if not hasattr(optimizer, needed):
            raise exporting.ArgumentError(
                f"found an optimizer of type {type(optimizer).__name__}; valid: AutoParallel's ShardingOptimizer, "
                "such as autop.sharding_optimizer"
            )
    nodes = Nodes(optimizer)
    nodes.run()
    arguments, notes = arguments_of(optimizer, nodes.written)
    program = {
        "schema": "shardlab/program/1",
        "name": name,
        "source": f"exported from AutoParallel under PyTorch {torch.__version__}",
        "nodes": nodes.nodes,
        "pairs": nodes.pairs,
    }
    return AutoParallelExport(program, arguments, plan_of(optimizer, nodes.written), nodes.notes + notes)
