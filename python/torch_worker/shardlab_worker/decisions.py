"""Whole decisions of PyTorch: the candidates with their prices, and the choice. Also candidates without prices."""

import contextlib
import math
from itertools import chain

from .calls import inputs_and_args, item_fields
from .errors import PriceError, RequestError, chain_of, frames_of, place_of
from .hooks import Enough
from .texts import layout_text, mesh_of, parts_of_list, placements_of, strides_of, tensor_of

MOST_LISTED = 24
MASKS = ("output_mask", "grad_input_mask")  # say which outputs a backward pass computes


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def finite(cost):
    return None if math.isinf(cost) else cost


def error_text(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:400]


class Specs:
    """DTensorSpecs from texts, on the session's present mesh."""

    def __init__(self, session):
        self.session = session

    def spec(self, text, opaque=False):
        """The spec of `f32[16,32] S(0)R`. A layout that is left out is R on every mesh dim."""
        session = self.session
        tensor, _, layout = text.strip().partition("]")
        shape, dtype = tensor_of(session.torch, tensor + "]")
        return self.laid_out(shape, dtype, layout.strip() or "R" * session.mesh.ndim, opaque)

    def laid_out(self, shape, dtype, layout, opaque=False):
        session = self.session
        placements, order, own = placements_of(layout, session.types, session.mesh.ndim)
        for placement in placements:
            if getattr(placement, "dim", -1) >= len(shape):
                raise RequestError(f"The layout {layout!r} cuts a dim that a tensor of {len(shape)} dims lacks.")
        meta = session.specs.TensorMeta(session.torch.Size(shape), strides_of(shape), dtype)
        entries = order and tuple(session.specs.ShardOrderEntry(dim, tuple(mesh_dims))
                                  for dim, mesh_dims in sorted(order.items()))
        opaque = own or opaque and any(type(p).__name__ == "_StridedShard" for p in placements)
        return session.specs.DTensorSpec(session.mesh, placements, meta, shard_order=entries,
                                         use_strided_shard_as_shard_order=False if opaque else None)

    def input(self, text, opaque):
        """A spec, a list of them (with None among them), or None."""
        if text.strip() == "none":
            return None
        parts = parts_of_list(text)
        return self.spec(text, opaque) if parts is None else [self.input(part, opaque) for part in parts]


class Question:
    """One call of an operator on laid-out tensors."""

    def __init__(self, session, item):
        name, mesh = item_fields(item, "op", "mesh")
        shape, names = mesh_of(mesh)
        session.enter(shape, item.get("devices_per_host", 1), names, item.get("rank", 0))
        texts, args = inputs_and_args(item)
        self.op = session.operators.named(name)
        specs, opaque = Specs(session), item.get("strided") == "opaque"
        self.inputs = [specs.input(text, opaque) for text in texts]
        flat = [spec for value in self.inputs for spec in (value if isinstance(value, list) else [value])]
        self.specs = [spec for spec in flat if spec is not None]
        if not self.specs:
            raise RequestError(f"The question about {name} has no tensor.")
        self.own = list(map(layout_text, self.specs))
        self.call = (name, str([self.tensor_of(value) for value in self.inputs]), repr(args))
        propagator = session.propagator
        info = propagator.op_to_schema_info.get(self.op)
        info = info or propagator.op_to_schema_info_for_single_dim_strategy.get(self.op)
        positional, keywords = session.operators.bind(self.op, self.inputs, args)
        self.schema = session.schemas.OpSchema(self.op, positional, keywords, schema_info=info)
        outputs = [str(result.type) for result in self.op._schema.returns]
        self.outputs = "bool" if outputs == ["bool"] else len(outputs)
        self.has_mask = any(parameter.name in MASKS for parameter in self.op._schema.arguments)
        self.specified = self._order_is_specified(propagator)

    def tensor_of(self, value):
        """What an input is without its layout."""
        if isinstance(value, list):
            return list(map(self.tensor_of, value))
        return value and (tuple(value.tensor_meta.shape), value.tensor_meta.dtype)

    def _order_is_specified(self, propagator):
        """Whether PyTorch lists the candidates in an order that does not come from a hash set."""
        by_rows = self.op in propagator.op_single_dim_strategy_funcs
        tables = propagator.op_strategy_funcs, propagator.op_to_rules
        decomposed = not by_rows and not any(self.op in table for table in tables)
        kinds = {getattr(p, "split_factor", 1) for spec in self.specs for p in spec.placements if hasattr(p, "dim")}
        return not decomposed and (len(kinds) < 2 or not by_rows)


class Decisions:
    """Answers {"op", "mesh", "devices_per_host", "inputs", "args"} by PyTorch's own whole decision."""

    def __init__(self, session):
        self.session = session

    # ---- Whole decisions ----

    def answer(self, item, request):
        question, hooks = Question(self.session, item), self.session.hooks
        everything = bool(request.get("list") or item.get("list"))
        try:
            result = hooks.settled(lambda: self.whole(question, everything))
        except Exception as error:
            if self.is_the_users_failure(error):
                raise
            file, line = place_of(error, self.session.user_files)
            return {"error": error_text(error), "file": file, "line": line}
        finally:
            hooks.begin(None)
        if result is None:
            return {"order": "unsettled"}
        return result if question.specified else {"order": "unspecified", **result}

    def is_the_users_failure(self, error):
        """Whether a patch, a cost function or a rule failed, rather than PyTorch refusing the question."""
        for one in chain_of(error):
            frames = frames_of(one)
            if isinstance(one, (PriceError, RequestError)) or frames and (
                    self.session.user_files.holds_as_single_file(frames[-1][0])):
                return True
        return False

    def propagate(self, question):
        """Runs the decision. What the hooks saw of it is the answer; what it returned serves where they saw nothing."""
        hooks, cost = self.session.hooks, self.session.cost
        self.session.forget()
        hooks.begin(question.schema, question.call)
        if cost is not None:
            cost.failure = None
        try:
            outcome = self.session.propagator.propagate_op_sharding_non_cached(question.schema)
            if cost is not None and cost.failure is not None:
                raise cost.failure
            return outcome
        except Exception as error:
            if cost is not None and cost.failure is not None:
                raise cost.failure from None
            seen = hooks.choice is not None or hooks.children and all(chosen for _, chosen in hooks.children)
            if not seen or self.is_the_users_failure(error):
                raise
            hooks.refusal = hooks.refusal or error_text(error)
            hooks.finish_elements()
            return None

    def whole(self, question, everything):
        hooks, outcome = self.session.hooks, self.propagate(question)
        refused = {"refused": hooks.refusal} if hooks.refusal else {}
        if hooks.single is not None:
            return {**self.describe(hooks.single, hooks.choice, question, question.specs, everything), **refused}
        if hooks.children:
            return {"children": [self.describe(strategy, chosen, question, self.element(question, index), everything,
                                               child=True)
                                 for index, (strategy, chosen) in enumerate(hooks.children)], **refused}
        return self.outcome_alone(question, outcome)

    @staticmethod
    def element(question, index):
        """The specs of one element of the lists; a tensor that is no list belongs to each element."""
        return [value[index] if isinstance(value, list) else value for value in question.inputs if value]

    def outcome_alone(self, question, outcome):
        """The answer of a decision that did not pass by PyTorch's selection among candidates."""
        schema, outputs = outcome.redistribute_schema, outcome.output_spec
        wanted = question.specs if schema is None else list(schema.args_spec) or question.specs
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        cost = self.session.collectives.redistribute_cost
        return {"candidates": None, "digest": None,
                "chosen": {"inputs": list(map(layout_text, wanted)),
                           "outputs": [layout_text(spec) for spec in outputs if spec is not None]},
                "total_us": finite(sum(cost(a, b) for a, b in zip(question.specs, wanted)))}

    def describe(self, strategy, chosen, question, sources, everything, child=False):
        """The candidates of one OpStrategy and the one that PyTorch takes."""
        rows, own = [], list(map(layout_text, sources))
        for candidate in strategy.strategies:
            costs = self.costs_of(candidate, sources)
            layouts = self.layouts_of(candidate, question, own, child)
            rows.append((layouts, f"{layouts} {';'.join(map(repr, costs))}", sum(costs)))
        answer = {"candidates": len(rows)}
        totals = [total for _, _, total in rows]
        if not question.specified:
            rows.sort()
            cheapest = [layouts for layouts, _, total in rows if total == min(totals)]
            unchanged = [layouts for layouts in cheapest if layouts.startswith(";".join(own) + "|")]
            if len(cheapest) > 1 and (min(totals) > 0 or len(unchanged) != 1):
                chosen = None
        answer["digest"] = fnv1a("\n".join(layouts for layouts, _, _ in rows))
        if everything or len(rows) <= MOST_LISTED:
            answer["list"] = [line for _, line, _ in rows]
        if chosen is None:
            return {**answer, "chosen": None, "total_us": finite(min(totals))}
        positional = 1 if child else len(question.schema.args_spec)
        layouts = {"inputs": self.inputs_of(chosen, own, positional),
                   "outputs": self.outputs_of(chosen, 1 if child else question.outputs, question)}
        return {**answer, "chosen": layouts, "total_us": finite(sum(self.costs_of(chosen, sources)))}

    def layouts_of(self, candidate, question, own, child):
        positional = 1 if child else len(question.schema.args_spec)
        return (";".join(self.inputs_of(candidate, own, positional)) + "|"
                + ";".join(self.outputs_of(candidate, 1 if child else question.outputs, question)))

    def inputs_of(self, candidate, own, positional):
        """The layouts that a candidate wants of the inputs, as the propagator reads it. If the candidate names no
        inputs, they are those of the positional arguments; an `out` tensor that it does not name stays as it is."""
        specs = candidate.input_specs
        specs = [candidate.output_specs] * positional if specs is None else specs
        texts = [layout_text(spec) for spec in specs if spec is not None]
        return texts + own[len(texts):]

    def outputs_of(self, candidate, outputs, question):
        """The layouts of all outputs. Where PyTorch has one for all of them, `outputs` says how many there are; "bool"
        stands for an output that is no tensor: the minimum of what the shards say."""
        if outputs == "bool":
            # Since PyTorch 2.14 a candidate names no output that is no tensor.
            spec, types = candidate.output_specs or candidate.input_specs[0], self.session.types
            verdict = tuple(types.Partial("min") if hasattr(p, "dim") else p for p in spec.placements)
            return [layout_text(self.session.specs.DTensorSpec(spec.mesh, verdict))]
        specs = candidate.output_specs
        specs = specs if isinstance(specs, (tuple, list)) else [specs] * outputs
        metas = self.session.hooks.meta
        metas = metas if isinstance(metas, (tuple, list)) and not hasattr(metas, "dtype") else [metas]
        off = {i for i, meta in enumerate(metas) if question.has_mask and meta is None}
        return [layout_text(spec) for i, spec in enumerate(specs) if spec is not None and i not in off]

    def costs_of(self, candidate, sources):
        """The price of each input; if the candidate has none, what the layouts that it asks for cost."""
        if candidate.redistribute_cost is None:
            wanted = candidate.input_specs or [
                candidate.output_specs.shallow_copy_with_tensor_meta(spec.tensor_meta) for spec in sources]
            cost = self.session.collectives.redistribute_cost
            return [cost(a, b) for a, b in zip(sources, wanted)]
        costs = [float(cost) for cost in chain.from_iterable(candidate.redistribute_cost)]
        return costs + [0.0] * (len(sources) - len(costs))

    # ---- Candidates without prices ----

    def candidates(self, item, request):
        """{"candidates", "list"} or {"children"}: candidates in PyTorch's order, `inputs|outputs`, without prices."""
        question, hooks = Question(self.session, item), self.session.hooks
        hooks.free_of_charge = True
        try:
            with contextlib.suppress(Enough):
                self.propagate(question)
            result = self.listed(question)
        except Exception as error:
            if self.is_the_users_failure(error):
                raise
            file, line = place_of(error, self.session.user_files)
            return {"error": error_text(error), "file": file, "line": line}
        finally:
            hooks.free_of_charge = False
            hooks.begin(None)
        return result if question.specified else {"order": "unspecified", **result}

    def listed(self, question):
        hooks = self.session.hooks
        if hooks.single is not None:
            lines = [self.layouts_of(candidate, question, question.own, False)
                     for candidate in hooks.single.strategies]
            return {"candidates": len(lines), "list": lines}
        if hooks.children:
            children = []
            for index, (strategy, _) in enumerate(hooks.children):
                own = list(map(layout_text, self.element(question, index)))
                lines = [self.layouts_of(candidate, question, own, True) for candidate in strategy.strategies]
                children.append({"candidates": len(lines), "list": lines})
            return {"children": children}
        raise RequestError(f"{question.op} is decided without a list of candidates; ask for the whole decision.")
