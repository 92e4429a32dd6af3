"""Places in PyTorch at which the worker listens or steps in, while a question is being answered.

The decision itself is made by ShardingPropagator.propagate_op_sharding_non_cached, whatever a branch made of it. The
hooks see the candidates and the choice pass by, find the shapes of outputs without a new fake mode for each, keep the
planner's hash sets in a known order, and can make all prices zero.
"""


MOST_SHAPES = 10_000


class Enough(BaseException):
    """Ends a decision when its candidates are known and nothing more was asked."""


class Hooks:
    """Installed once, after fingerprints were taken, since a hook is no function of PyTorch's."""

    def __init__(self, session):
        self.session = session
        self.schema, self.free_of_charge = None, False
        self.reversed_sets = self.set_order_read = False
        self.shapes = {}
        self.begin(None)
        self._listen_to_choices()
        self._listen_to_elements()
        self._listen_to_shapes()
        self._listen_to_refusals()
        self._order_the_planners_sets()
        self._price_by_request()

    def begin(self, schema, call=None):
        """Forgets what was seen, and listens to what concerns this schema. `call` says the operator, tensors and other
        arguments without layouts; the shapes of outputs follow from it alone, and are kept for the next question."""
        self.call = call
        self.schema, self.single, self.children, self.choice, self.meta = schema, None, [], None, None
        self.refusal = self.elements = None

    def _replace(self, name, old, new, *more):
        """Puts `new` in the place of `old` in every module that holds it under its name."""
        for owner in [*(vars(module) for module in self.session.user_modules()), *more]:
            if owner.get(name) is old:
                owner[name] = new

    def _listen_to_choices(self):
        session, name = self.session, "_select_min_cost_strategy"
        old = getattr(session.sharding, name, None)
        if old is None:
            return

        self.select = old

        def listening(strategy, op_schema=None, *others, **named):
            own = op_schema is not None and op_schema is self.schema
            if own:
                self.single = strategy
                if self.free_of_charge:
                    raise Enough
            elif op_schema is None and self.schema is not None:
                self.children.append([strategy, None])
                place = self.children[-1]
            chosen = old(strategy, op_schema, *others, **named)
            if own:
                self.choice = chosen
            elif op_schema is None and self.schema is not None:
                place[1] = chosen
            return chosen

        propagate = type(session.propagator).propagate_op_sharding_non_cached
        self._replace(name, old, listening, getattr(propagate, "__globals__", {}))

    def _listen_to_elements(self):
        """PyTorch chooses for one element of a list after the other, and refuses some operators after the first."""
        session, name = self.session, "_expand_single_dim_strategy_to_mesh"
        old = getattr(session.sharding, name, None)
        if old is None:
            return

        def listening(mesh, op_schema, *others, **named):
            expand = old(mesh, op_schema, *others, **named)

            def expanded(*arguments):
                strategy = expand(*arguments)
                if self.schema is not None and op_schema.op is self.schema.op and (
                        isinstance(strategy, session.schemas.TupleStrategy)):
                    self.elements = strategy.children
                return strategy

            return expanded

        propagate = type(session.propagator).propagate_op_sharding_non_cached
        self._replace(name, old, listening, getattr(propagate, "__globals__", {}))

    def finish_elements(self):
        """Chooses for the elements that were not reached."""
        for strategy in (self.elements or ())[len(self.children):]:
            self.children.append([strategy, self.select(strategy)])

    def _listen_to_shapes(self):
        from torch._guards import detect_fake_mode

        propagator, name = self.session.propagator, "_propagate_tensor_meta_non_cached"
        old = getattr(propagator, name, None)
        if old is None:
            return

        def listening(op_schema, *others, **named):
            if op_schema is not self.schema or detect_fake_mode() is not None:
                with self.session.shapes_on_cpu():
                    return old(op_schema, *others, **named)
            if self.call not in self.shapes:
                with self.session.fake_mode(), self.session.shapes_on_cpu():
                    found = old(op_schema, *others, **named)
                if len(self.shapes) >= MOST_SHAPES:
                    self.shapes.clear()
                self.shapes[self.call] = found
            self.meta = self.shapes[self.call]
            return list(self.meta) if isinstance(self.meta, list) else self.meta

        setattr(propagator, name, listening)

    def _listen_to_refusals(self):
        """PyTorch counts an operator's outputs before it lists candidates, and refuses some operators by that. The
        refusal is told beside the decision that there would have been."""
        session, name = self.session, "_validate_tensor_meta_count"
        old = getattr(session.sharding, name, None)
        if old is None:
            return

        def listening(op_schema, *others, **named):
            try:
                return old(op_schema, *others, **named)
            except AssertionError as error:
                if op_schema is not self.schema:
                    raise
                self.refusal = f"AssertionError: {error}"[:400]
                return None

        propagate = type(session.propagator).propagate_op_sharding_non_cached
        self._replace(name, old, listening, getattr(propagate, "__globals__", {}))

    def _order_the_planners_sets(self):
        """A new planner for every request, with sets whose order is ours (see `settled`)."""
        hooks, redistribute = self, self.session.redistribute
        old = getattr(redistribute, "get_redistribute_planner", None)
        if old is None:
            return

        class OrderedSet(set):
            def __iter__(self):
                items = sorted(super().__iter__(), key=str)
                hooks.set_order_read |= len(items) > 1
                return iter(items[::-1] if hooks.reversed_sets else items)

        forget = getattr(redistribute, "clear_redistribute_planner_cache", None)

        def new_planner(*arguments, **named):
            if forget is not None:
                forget()
            planner = old(*arguments, **named)
            for name, value in getattr(planner, "__dict__", {}).items():
                if type(value) is set:
                    setattr(planner, name, OrderedSet(value))
            return planner

        self._replace("get_redistribute_planner", old, new_planner)

    def settled(self, question):
        """The answer, or None where it depends on the order in which PyTorch walks a hash set."""
        self.set_order_read = False
        answer = question()
        if self.set_order_read:
            self.reversed_sets = True
            try:
                return answer if question() == answer else None
            finally:
                self.reversed_sets = False
        return answer

    def _price_by_request(self):
        from torch.distributed.tensor._ops import utils

        self._make_free("redistribute_cost", self.session.collectives, lambda source, target: 0.0)
        self._make_free("generate_redistribute_costs", utils, lambda source, target: [0.0] * len(source.strategies))

    def _make_free(self, name, module, free):
        old = getattr(module, name, None)
        if old is None:
            return

        def priced(*arguments, **named):
            if self.free_of_charge and len(arguments) == 2 and not named:
                return free(*arguments)
            return old(*arguments, **named)

        self._replace(name, old, priced)
