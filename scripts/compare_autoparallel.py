#!/usr/bin/env python3
"""Solves a problem with AutoParallel and with shardlab, and prints where they differ.

    scripts/compare_autoparallel.py --model mlp --mesh 2x4
    scripts/compare_autoparallel.py --factory mymodels:autop --keep build/side-by-side

--model takes one of the models of scripts/autoparallel_models.py and needs no GPU: AutoParallel plans for an H100 on a
fake process group. --factory is that of scripts/export_autoparallel.py, for a model and a mesh of your own.

Printed are the nodes, the lists of strategies and the prices that differ, how many nodes --tie-repeated ties and
AutoParallel does not or the other way round, both objectives, what shardlab says AutoParallel's plan costs, and both
times. AutoParallel's time is that of its strategies and prices and of its solver, without the trace of the model.

Needs PyTorch, AutoParallel and a build of shardlab. Exit code 1: something differs; 2: a wrong argument.
"""

import argparse
import json
import logging
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import export_autoparallel
from export_autoparallel import ROOT, autoparallel, exporting

SHOWN = 5  # differences of a kind that are printed


# --- What AutoParallel has --------------------------------------------------------------------------------


class Theirs:
    """The lists and prices of an optimizer, by the texts that shardlab has for them."""

    def __init__(self, optimizer, written):
        self.optimizer = optimizer
        self.banned = {
            variable.name
            for name, constraint in optimizer.prob.constraints.items()
            if name.startswith(("fwd_param_dtype", "grad_reduce_dtype"))
            for variable in constraint
        }
        self.strategies = {
            node.name: [self.text(node, each) for each in listed.strategies]
            for node, listed in optimizer.strats.items()
            if node.op != "output" and node.name in written
        }
        self.kernels, self.edges = {}, {}
        for (index, argument, out, into), variable in optimizer.decision_vars.items():
            node = optimizer.nodes[index]
            if node.name not in written:
                continue
            inputs = len(variable.strategy.input_specs)
            self.kernels.setdefault(node.name, {})[out] = variable.compute_cost * inputs
            read = optimizer._all_input_nodes(node)  # pylint: disable=protected-access
            if read and variable.input_spec is not None and read[argument].name in written:
                price = variable.comm_cost + variable.sharding_transition_cost
                price = math.inf if variable.var.name in self.banned else price
                edge = self.edges.setdefault((node.name, read[argument].name, argument), {})
                edge[out, into] = price

    def text(self, node, strategy):
        """A strategy as shardlab writes it: "S(0)R<-S(0)R,RR"."""
        specs, layout = autoparallel.specs_of, autoparallel.layout_text
        made = ",".join(layout(spec.placements) for spec in specs(strategy.output_specs))
        source = node.op in ("placeholder", "get_attr")
        # pylint: disable-next=protected-access
        wanted = [] if source or not self.optimizer._all_input_nodes(node) else specs(strategy.input_specs)
        return made + ("<-" + ",".join(layout(spec.placements) for spec in wanted) if wanted else "")

    def plan(self):
        """The objective of its plan, priced again from its tables, which --tie-repeated may leave inconsistent."""
        optimizer = self.optimizer
        chosen = {optimizer.nodes[index]: out for index, _, out, _ in optimizer.selected_keys}
        total = 0.0
        for node, out in chosen.items():
            index = optimizer.node_map[node]
            for argument, _ in enumerate(optimizer.strats[node].strategies[out].input_specs):
                read = optimizer._all_input_nodes(node)  # pylint: disable=protected-access
                into = chosen[read[argument]] if read else 0
                # pylint: disable-next=protected-access
                total += optimizer._resolve_decision_var((index, argument, out, into)).cost
        return total

    def ties(self):
        """For each node that shares another node's variables, the name of that other node."""
        nodes = self.optimizer.nodes
        return {nodes[copy].name: nodes[root].name for (copy, *_), (root, *_) in self.optimizer.cluster_links.items()}


# --- What shardlab has ------------------------------------------------------------------------------------


class Network:
    """The cost-function network that `solve --export-problem` wrote."""

    def __init__(self, text):
        problem = json.loads(text)
        self.limit = float(problem["problem"]["mustbe"][1:])  # a price of this or more stands for infinity
        self.strategies = problem["variables"]
        functions = problem["functions"]
        self.kernels, self.edges = {}, {}
        for function in functions.values():
            costs = function["costs"]
            while isinstance(costs, str):
                costs = functions[costs]["costs"]
            scope = tuple(function["scope"])
            if len(scope) == 1:
                self.kernels[scope[0]] = costs
            else:
                self.edges.setdefault(scope, []).append(costs)

    def price(self, cost):
        """A cost, with infinity for what is forbidden."""
        return math.inf if cost >= self.limit else cost


def agree(one, other):
    """Whether two prices are equal to the six digits that a network is written with."""
    if math.isinf(one) or math.isinf(other):
        return one == other
    return abs(one - other) <= 2e-6 * max(1.0, abs(one))


def tables_differ(theirs, ours, reader, producer, prices):
    """How many prices of an edge differ from those of our table for it that is nearest, and an example."""
    rows = {text: i for i, text in enumerate(ours.strategies[reader])}
    columns = {text: i for i, text in enumerate(ours.strategies[producer])}
    best = None
    for table in ours.edges.get((reader, producer), []):
        different = []
        for (out, into), price in prices.items():
            row = rows.get(theirs.strategies[reader][out])
            column = columns.get(theirs.strategies[producer][into])
            if row is None or column is None:
                continue  # the lists differ, which is said elsewhere
            own = ours.price(table[row * len(columns) + column])
            if not agree(price, own):
                pair = f"{theirs.strategies[producer][into]} to {theirs.strategies[reader][out]}"
                different.append(f"{pair}: {price} and {own}")
        if best is None or len(different) < len(best):
            best = different
    return ["no such edge"] if best is None else best


# --- The comparison ---------------------------------------------------------------------------------------


def compare_networks(theirs, ours):
    """What differs, as {kind: [sentence, ...]}, and how many prices were compared."""
    differ = {"strategies": [], "kernels": [], "edges": []}
    prices = 0
    for name, listed in theirs.strategies.items():
        own = ours.strategies.get(name, [])
        missing, more = set(listed) - set(own), set(own) - set(listed)
        if missing or more:
            differ["strategies"].append(
                f"{name}: AutoParallel alone has {', '.join(sorted(missing)[:3]) or 'none'}; shardlab alone has "
                f"{', '.join(sorted(more)[:3]) or 'none'}"
            )
    for name, by_strategy in theirs.kernels.items():
        own = dict(zip(ours.strategies[name], ours.kernels.get(name, [0.0] * len(ours.strategies[name]))))
        for out, price in by_strategy.items():
            strategy = theirs.strategies[name][out]
            found = ours.price(own.get(strategy, math.inf))
            if math.isinf(found):
                continue  # pinned away, or in no list of ours
            prices += 1
            if not agree(price, found):
                differ["kernels"].append(f"{name} {strategy}: {price} and {found}")
    for (reader, producer, _), by_pair in theirs.edges.items():
        prices += len(by_pair)
        different = tables_differ(theirs, ours, reader, producer, by_pair)
        if different:
            differ["edges"].append(f"{producer} to {reader}: {len(different)} prices, such as {different[0]}")
    return differ, prices


def shardlab(binary, words):
    """Runs `shardlab solve` and returns its JSON."""
    done = subprocess.run([binary, *words, "--format", "json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise exporting.ExportError(done.stderr.strip())
    return json.loads(done.stdout)


def compare(optimizer, seconds, folder, binary, name="autoparallel"):
    """Compares a solved optimizer with shardlab. Returns a dictionary of what was found."""
    exported = autoparallel.export_autoparallel(optimizer, name=name)
    paths = exported.write(folder)
    theirs = Theirs(optimizer, {node["name"] for node in exported.program["nodes"]})
    network = pathlib.Path(folder) / "network.cfn"
    solve = ["solve", str(paths["program"]), *exported.arguments]
    answer = shardlab(binary, [*solve, "--diff", str(paths["plan"])])
    budget = exported.arguments.index("--parameter-budget") if "--parameter-budget" in exported.arguments else None
    kept = exported.arguments if budget is None else [
        *exported.arguments[:budget], *exported.arguments[budget + 2 :]]
    # A network that is written has no budget. Neither has it pins here, which would hide prices.
    kept = [word for i, word in enumerate(kept) if word != "--pin" and (i == 0 or kept[i - 1] != "--pin")]
    shardlab(binary, ["solve", str(paths["program"]), *kept, "--export-problem", str(network)])
    differ, prices = compare_networks(theirs, Network(network.read_text()))
    if optimizer.cluster_links:
        own = {tie["node"]: tie["to"] for tie in answer["ties"]}
        differ["ties"] = [f"{node}: to {theirs.ties().get(node)} and to {own.get(node)}"
                          for node in sorted(set(own) | set(theirs.ties())) if own.get(node) != theirs.ties().get(node)]
    return {
        "name": name,
        "nodes": len(exported.program["nodes"]),
        "prices": prices,
        "differ": differ,
        "objective": sum(
            variable.cost * variable.var.value() * (1 + len(optimizer._root_to_linked.get(key, [])))
            for key, variable in optimizer.decision_vars.items() if variable.var.value()
        ),
        "plan": theirs.plan(),
        "ties": theirs.ties(),
        "own": answer["objective_us"],
        "plan_here": answer["diff"].get("objective_us") if answer.get("diff") else None,
        "notes": exported.notes + answer["notes"],
        "seconds": seconds,
        "own_seconds": answer["timing"]["total_ms"] / 1e3,
    }


def text_of(found):
    """What was found, as lines."""
    differ = found["differ"]
    lines = [f"{found['name']}: {found['nodes']} nodes, {found['prices']} prices"]
    for kind, sentences in differ.items():
        lines.append(f"  {kind} that differ: {len(sentences)}")
        lines += [f"    {sentence}" for sentence in sentences[:SHOWN]]
    own = found["own"] if found["own"] is not None else math.nan
    here = found["plan_here"] if found["plan_here"] is not None else math.inf
    lines.append(f"  objective: AutoParallel {found['objective']:.9f} us, shardlab {own:.9f} us")
    lines.append(f"  AutoParallel's plan: {found['plan']:.9f} us by its own tables, {here:.9f} us by shardlab's")
    times = found["seconds"], found["own_seconds"]
    lines.append(f"  time: AutoParallel {times[0]:.2f} s, shardlab {times[1]:.3f} s, {times[0] / times[1]:.0f} times")
    lines += [f"  note: {note}" for note in found["notes"]]
    return "\n".join(lines)


def is_equal(found):
    """Whether nothing differs, and both objectives agree to 1e-9 of their size."""
    close = found["own"] is not None and abs(found["objective"] - found["own"]) <= 1e-9 * abs(found["own"])
    return close and not any(found["differ"].values())


def parser():
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    made.add_argument("--factory", help="MODULE:FUNCTION that makes AutoParallel's problem")
    made.add_argument("--model", help="instead of --factory: a model of scripts/autoparallel_models.py")
    made.add_argument("--mesh", default="2x4", help="of --model; default: 2x4")
    made.add_argument("--device", default="H100", choices=("A100", "B200", "H100"), help="of --model; default: H100")
    made.add_argument("--no-mixed-precision", action="store_true", help="of --model: compute in f32")
    made.add_argument("--untied", action="store_true", help="of --model: AutoParallel's repeated_subgraphs=False")
    made.add_argument("--keep", type=pathlib.Path,
                      help="folder that keeps the program, the arguments, the plan and, in answers.json, what AutoParallel "
                      "said")
    made.add_argument("--json", action="store_true", help="print one JSON document")
    return made


def run(arguments):
    """Compares and prints. Returns the exit code."""
    binary = os.environ.get("SHARDLAB_BINARY", str(ROOT / "build" / "release" / "bin" / "shardlab"))
    if bool(arguments.factory) == bool(arguments.model):
        raise exporting.ArgumentError("found neither --factory nor --model, or both; valid: one of them")
    if arguments.factory:
        start = time.time()
        optimizer = export_autoparallel.optimizer_of(export_autoparallel.factory_named(arguments.factory),
                                                     arguments.factory)
    else:
        import autoparallel_models  # pylint: disable=import-outside-toplevel

        made = autoparallel_models.problem(arguments.model, arguments.mesh, tied=not arguments.untied,
                                           mixed_precision=not arguments.no_mixed_precision, device=arguments.device)
        start = time.time() - made.seconds
        optimizer = made.optimizer
    optimizer.get_solution()
    seconds = time.time() - start
    with tempfile.TemporaryDirectory() as scratch:
        found = compare(optimizer, seconds, arguments.keep or scratch, binary, arguments.model or "autoparallel")
    if arguments.keep:
        own = found["objective"], found["plan"]
        answers = {"objective": own[0], "plan": own[1], "is_attainable": math.isclose(*own, rel_tol=1e-12),
                   "ties": found["ties"]}
        (arguments.keep / "answers.json").write_text(json.dumps(answers) + "\n")
        (arguments.keep / "network.cfn").unlink()
    print(json.dumps(found) if arguments.json else text_of(found))
    return 0 if is_equal(found) else 1


def main():
    """Runs the command line and returns the exit code."""
    arguments = parser().parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    try:
        return run(arguments)
    except exporting.ExportError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, exporting.ArgumentError) else 1


if __name__ == "__main__":
    sys.exit(main())
