"""Rows: the placements that an operator's strategy lists for one mesh dim, with the shapes of its outputs."""

from .calls import inputs_and_args, item_fields
from .errors import NotRows, RequestError
from .texts import parts_of_list, row_text, strides_of, tensor_of, tensor_text

LIST_OPERATORS = ("aten::_foreach_", "aten::_amp_foreach_", "aten::_fused_")
MOST_TENSORS = 20_000


class Rows:
    """Answers {"op", "inputs", "args"} by {"rows", "outputs"}; an operator on lists of tensors by {"children"}."""

    def __init__(self, session):
        self.session, self.tensors, self.trusted = session, {}, {}

    def tensor(self, text):
        """The TensorMeta of a text, a list of them, or None."""
        if text == "none":
            return None
        parts = parts_of_list(text)
        if parts is not None:
            return [self.tensor(part) for part in parts]
        if text not in self.tensors:
            if len(self.tensors) >= MOST_TENSORS:
                self.tensors.clear()
            shape, dtype = tensor_of(self.session.torch, text)
            self.tensors[text] = self.session.specs.TensorMeta(self.session.torch.Size(shape), strides_of(shape), dtype)
        return self.tensors[text]

    def answer(self, item, request):
        name, = item_fields(item, "op")
        inputs, args = inputs_and_args(item)
        session = self.session
        op = session.operators.named(name)
        positional, keywords = session.operators.bind(op, [self.tensor(text) for text in inputs], args)
        info = session.propagator.op_single_dim_strategy_funcs.get(op)
        if info is None:
            known = any(op in table for table in session.tables())
            raise NotRows(f"{name} is answered by a function of the whole mesh." if known else
                          f"{name} has no strategy of its own; PyTorch may find one through its decomposition.")
        outputs = self.outputs(op, positional, keywords)
        function = getattr(info, "func", info)
        if op.name().startswith(LIST_OPERATORS) and any(map(self.is_list_of_tensors, positional)):
            return {"children": self.children(op, function, positional, keywords, outputs)}
        positional = tuple(map(self.as_schema_shows_it, positional))
        keywords = {key: self.as_schema_shows_it(value) for key, value in keywords.items()}
        return self.rows_of(op, function, positional, keywords, outputs)

    def is_tensor(self, value):
        return isinstance(value, self.session.specs.TensorMeta)

    def is_list_of_tensors(self, value):
        return isinstance(value, list) and bool(value) and all(map(self.is_tensor, value))

    def as_schema_shows_it(self, value):
        """A list of tensors is a tuple to a strategy; a list with None among its tensors stays a list."""
        return tuple(value) if self.is_list_of_tensors(value) else value

    def count(self, value):
        """How many tensors a value holds."""
        if self.is_tensor(value):
            return 1
        return sum(map(self.count, value)) if isinstance(value, (list, tuple)) else 0

    def outputs(self, op, positional, keywords):
        """What PyTorch finds as the outputs: a TensorMeta, a tuple or list of them, or None.

        PyTorch runs the operator on fake tensors, which takes milliseconds. Tensors on the meta device are some five
        times as fast, but a few operators answer differently on them (the statistics of a norm have another dtype).
        So the first call of each kind is made both ways, and only kinds that agree are trusted to the meta device."""
        if str(op) == "aten.equal.default":
            return None  # PyTorch makes this exception, since the outcome depends on data.
        flat = [*positional, *keywords.values()]
        kind = (op, *(tuple(map(self.dtypes, flat))), *(value for value in flat if isinstance(value, bool)))
        if self.trusted.get(kind):
            try:
                return self.run(op, positional, keywords, "meta")
            except Exception:  # noqa: BLE001: the fake tensors say what PyTorch says of this call
                pass
        with self.session.fake_mode():
            found = self.run(op, positional, keywords, "cpu")
        if kind not in self.trusted:
            try:
                self.trusted[kind] = self.run(op, positional, keywords, "meta") == found
            except Exception:  # noqa: BLE001: no meta kernel
                self.trusted[kind] = False
        return found

    def dtypes(self, value):
        """The dtypes of the tensors in an argument."""
        if self.is_tensor(value):
            return value.dtype
        return tuple(map(self.dtypes, value)) if isinstance(value, list) else None

    def run(self, op, positional, keywords, device):
        def empty(value):
            if self.is_tensor(value):
                return self.session.torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=device)
            return [empty(one) for one in value] if isinstance(value, list) else value

        out = op(*map(empty, positional), **{key: empty(value) for key, value in keywords.items()})
        if isinstance(out, (tuple, list)):
            return type(out)(map(self.meta_of, out)) if type(out) is list else tuple(map(self.meta_of, out))
        return self.meta_of(out)

    def meta_of(self, value):
        if not isinstance(value, self.session.torch.Tensor):
            return None
        return self.session.specs.TensorMeta(value.shape, value.stride(), value.dtype)

    def rows_of(self, op, function, positional, keywords, outputs):
        rows = [list(row) for row in function(op, positional, keywords)]
        inputs = sum(map(self.count, positional)) + sum(map(self.count, keywords.values()))
        lengths = {len(row) for row in rows}
        if len(lengths) > 1 or any(length < inputs for length in lengths):
            raise RequestError(f"The strategy of {op} gave rows of {sorted(lengths)} entries for {inputs} inputs.")
        single = outputs is None or self.is_tensor(outputs)
        metas = ([] if outputs is None else [outputs]) if single else outputs
        return {"rows": [row_text(row, len(row) - inputs) for row in rows],
                "outputs": ["none" if meta is None else tensor_text(meta.shape, meta.dtype) for meta in metas]}

    def children(self, op, function, positional, keywords, outputs):
        """The rows for each element, as PyTorch asks for them: by the operator on single tensors, if there is one."""
        lengths = {len(value) for value in positional if self.is_list_of_tensors(value)}
        if len(lengths) > 1:
            raise RequestError(f"{op} has lists of {sorted(lengths)} tensors; they must be equally long.")
        resolve = getattr(self.session.single_dim, "_resolve_foreach_elementwise_overload", lambda op: None)
        element_op = resolve(op) or op
        keywords = {key: self.as_schema_shows_it(value) for key, value in keywords.items()}
        children = []
        for index in range(lengths.pop()):
            own = tuple(value[index] if self.is_list_of_tensors(value) else value for value in positional)
            output = outputs[index] if outputs is not None else None
            children.append(self.rows_of(element_op, function, own, keywords, output))
        return children
