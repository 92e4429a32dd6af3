"""Fingerprints of functions: equal for sources that differ in comments, docstrings, layout and annotations alone.

A fingerprint is the first 16 hex digits of SHA-256 over the syntax tree. The tree is written in a form of this file's
own, since ast.unparse and ast.dump print equal trees differently from one Python to the next. The constants of modules
in which these functions stand have fingerprints too, those of their values.
"""

import ast
import contextlib
import functools
import hashlib
import sys
import types

UNKNOWN = "unknown"
NAMES = "torch.distributed.tensor."
OPS = NAMES + "_ops."
# Fields that say nothing about what a function does.
SKIPPED = {"annotation", "returns", "type_comment", "ctx", "kind", "type_params", "type_ignores", "simple"}

# What decides prices, plans, expansion and selection. A name that a release lacks is left out of the answer.
MACHINERY = {
    "_collective_utils": ["MeshTopoInfo", "spec_to_bytes", "allgather_cost", "allreduce_cost", "reduce_scatter_cost",
                          "_compute_placement_transition_cost", "one_step_redistribute_cost", "redistribute_cost"],
    "_redistribute": ["_redistribute_cost_sort_key", "use_min_cost_redistribution_plan", "_TransformInfo",
                      "_FlattenedTransformInfo", "_update_shard_order_and_placements",
                      "_get_flattened_mesh_by_layout_impl", "_get_flattened_mesh_by_layout",
                      "_optimize_transform_infos", "get_redistribute_planner", "DTensorRedistributePlanner",
                      "_gen_transform_infos_non_cached", "_gen_transform_infos"],
    "_sharding_prop": ["_propagate_use_strided_shard_flag", "_length", "_get_expected_num_tensor_outputs",
                       "_validate_tensor_meta_count", "_select_min_redistribute_cost", "_select_min_cost_strategy",
                       "ShardingPropagator.propagate_op_sharding_non_cached",
                       "ShardingPropagator._propagate_tensor_meta_non_cached",
                       "ShardingPropagator._create_output_spec_with_new_tensor_meta",
                       "ShardingPropagator._wrap_with_op_strategy"],
    "_ops.single_dim_strategy": ["_is_sharding", "_ShardingPlaceholder", "_SingleDimStrategyInfo",
                                 "_insert_single_dim_replication_strategy", "_fill_single_dim_strategy_placeholders",
                                 "_get_unique_placements", "_get_num_tensor_inputs", "_build_output_specs",
                                 "_PreparedSingleDimStrategy", "_has_default_value", "_normalize_schema_type",
                                 "_schema_args_match", "_op_namespace_and_base_name", "_get_overload_packet",
                                 "_get_packet_overload", "_resolve_foreach_elementwise_overload",
                                 "_expand_single_dim_strategy_to_mesh"],
    "_ops.utils": ["is_tensor_shardable", "is_tensor_evenly_shardable", "is_tensor_evenly_shardable_on_dim",
                   "is_tensor_dim_sharded", "generate_redistribute_costs", "expand_to_full_mesh_op_strategy"],
    "_op_schema": ["OpSpec", "OpStrategy", "TupleStrategy", "OpSchema"],
    "_dispatch": ["OpDispatcher.redistribute_local_args", "OpDispatcher._unwrap_to_op_info_impl",
                  "OpDispatcher._try_replicate_spec_for_scalar_tensor"],
    "_dtensor_spec": ["DTensorSpec"],
    "_decompositions": ["PlacementTrackingMode", "DecompShardingStrategy"],
    "_utils": ["try_find_mesh_from_args", "compute_local_shape_and_global_offset", "_get_shard_size_and_offsets",
               "_compute_local_shape_and_global_offset"],
    "placement_types": [f"{owner}.{method}" for owner in ("Placement", "Shard", "_StridedShard", "Partial", "Replicate")
                        for method in ("is_shard", "is_replicate", "is_partial", "local_shard_size_and_offset",
                                       "_local_shard_size_and_offset", "_get_shard_size_and_offsets")],
}
# What PyTorch runs around a decision when it dispatches an operator, besides its handlers of single operators. No answer of
# the worker runs it, and a change of it is told to the user.
DISPATCH = ["_propagate_op_sharding_dispatch_slow_path", "_dispatch_get_local_results_slow_path",
            "_dispatch_fast_path_python_tail"]
# What contextlib.contextmanager makes of a function. It changes from one Python to the next and decides nothing.
CONTEXT_MANAGER = contextlib.contextmanager(lambda: None).__code__
# Methods that print and compare decide nothing.
LEFT_OUT = {"__repr__", "__str__", "__hash__", "__eq__", "_stable_hash", "stringify_transform_infos", "childs"}


# ---- The tree as text ------------------------------------------------------------------------------------------


def is_text(statement):
    """Whether a statement is a docstring, or another text that stands alone."""
    return (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str))


def write(node, out):
    """Appends the canonical form of a syntax tree to a list of texts."""
    if isinstance(node, ast.AnnAssign):
        if node.value is None:
            out.append("declare ")
            write(node.target, out)
            return
        assign = ast.Assign(targets=[node.target], value=node.value)
        write(assign, out)
    elif isinstance(node, ast.AST):
        out.append(f"({type(node).__name__}")
        for field in node._fields:
            value = getattr(node, field, None)
            if field in SKIPPED or value is None or value == []:
                continue
            if field == "body" and isinstance(value, list):
                value = [statement for statement in value if not is_text(statement)]
            out.append(f" {field}=")
            write(value, out)
        out.append(")")
    elif isinstance(node, list):
        out.append("[")
        for item in node:
            write(item, out)
            out.append(";")
        out.append("]")
    else:
        out.append(f"{type(node).__name__}:{node!r}")


def digest(*texts):
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


# ---- Sources ---------------------------------------------------------------------------------------------------


class Sources:
    """The syntax trees of functions, from the files in which they stand. Each file is parsed once."""

    def __init__(self):
        self.files, self.own, self.reached, self.direct = {}, {}, {}, {}

    def definitions(self, filename):
        """{line: definitions and lambdas that begin there} of a file; a definition begins at its first decorator."""
        if filename not in self.files:
            found = {}
            try:
                with open(filename, "rb") as stream:
                    tree = ast.parse(stream.read())
            except (OSError, SyntaxError, ValueError):
                tree = ast.Module(body=[], type_ignores=[])
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                    found.setdefault((line, node.name), node)
                elif isinstance(node, ast.Lambda):
                    found.setdefault((node.lineno, "<lambda>"), node)
            self.files[filename] = found
        return self.files[filename]

    def own_hash(self, function):
        """The fingerprint of a function's source, and of those of the functions that it wraps (functools.wraps). The
        name under which it is defined does not count."""
        own = self.source_hash(function.__code__)
        inner = self.function_of(getattr(function, "__wrapped__", None))
        if inner is None or own == UNKNOWN:
            return own
        wrapped = self.own_hash(inner)
        return UNKNOWN if wrapped == UNKNOWN else digest(own, wrapped)

    def source_hash(self, code):
        """The fingerprint of the source of one function alone."""
        if code not in self.own:
            node = self.definitions(code.co_filename).get((code.co_firstlineno, code.co_name))
            if node is None:
                self.own[code] = UNKNOWN
            else:
                out = []
                for field in ("decorator_list", "args", "body"):
                    value = getattr(node, field, [])
                    if field == "body" and isinstance(value, list):
                        value = [statement for statement in value if not is_text(statement)]
                    out.append(field)
                    write(value, out)
                self.own[code] = digest("".join(out))
        return self.own[code]

    def function_of(self, value):
        """The Python function in a method, a property, a cache or a partial call, or None. A function that wraps
        another one is itself the answer, since it may do something else than that one."""
        for _ in range(8):
            if isinstance(value, types.FunctionType) and value.__code__ is not CONTEXT_MANAGER:
                return value
            if isinstance(value, property):
                value = value.fget
            elif isinstance(value, functools.partial):
                value = value.func
            elif hasattr(value, "__wrapped__"):
                value = value.__wrapped__
            elif hasattr(value, "__func__"):
                value = value.__func__
            elif isinstance(value, functools.cached_property):
                value = value.func
            else:
                return None
        return None

    # ---- What a function reaches ----

    def reaches(self, function):
        """The functions that a strategy uses by name, and the plain values that it is closed over or defaults to."""
        if function in self.direct:
            return self.direct[function]
        functions, values = [], []
        pending, names = [function.__code__], set()
        while pending:
            code = pending.pop()
            names.update(code.co_names)
            pending.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
        seen = [(name, function.__globals__[name]) for name in sorted(names) if name in function.__globals__]
        seen += zip(function.__code__.co_freevars, (self.content(cell) for cell in function.__closure__ or ()))
        seen += [("default", value) for value in function.__defaults__ or ()]
        seen += sorted((function.__kwdefaults__ or {}).items())
        for name, value in seen:
            self.sort_in(name, value, functions, values)
        self.direct[function] = functions, values
        return self.direct[function]

    @staticmethod
    def content(cell):
        try:
            return cell.cell_contents
        except ValueError:
            return None

    def sort_in(self, name, value, functions, values):
        inner = self.function_of(value)
        if inner is not None:
            if self.is_followed(inner.__module__):
                functions.append(inner)
            else:
                values.append(f"{name}:{inner.__module__}.{inner.__qualname__}")
            if isinstance(value, functools.partial):
                values.append(f"{name}:{self.plain(value.args)}{self.plain(value.keywords)}")
        elif isinstance(value, type):
            if value.__module__.startswith(OPS) or not value.__module__.startswith("torch") and (
                    self.is_followed(value.__module__)):
                methods = [self.function_of(method) for _, method in sorted(vars(value).items(), key=str)]
                functions.extend(method for method in methods if method is not None
                                 and method.__code__.co_filename != "<string>")
        else:
            values.append(f"{name}:{self.plain(value)}")

    @staticmethod
    def is_followed(module):
        """Whether a function's own helpers are followed: those of the operators' files and of the user's."""
        return module is not None and module.startswith((OPS, "shardlab_patch_", "shardlab_rules_"))

    def plain(self, value, depth=0):
        """A value as text if its text says all, else its type."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        if depth < 3 and isinstance(value, (tuple, list)):
            return f"[{','.join(self.plain(item, depth + 1) for item in value)}]"
        if depth < 3 and isinstance(value, (set, frozenset)):
            return f"{{{','.join(sorted(self.plain(item, depth + 1) for item in value))}}}"
        if depth < 3 and isinstance(value, dict):
            return f"{{{','.join(sorted(self.plain(list(item), depth + 1) for item in value.items()))}}}"
        inner = self.function_of(value)
        if inner is not None:
            return self.own_hash(inner)
        if type(value).__module__.startswith("torch") and type(value).__name__ in ("OpOverload", "Partial", "Shard",
                                                                                    "Replicate", "dtype"):
            return str(value)
        return type(value).__name__

    def whole_hash(self, function):
        """The fingerprint of a strategy: its own source, that of all helpers in the operators' files, and the values
        that it is closed over. It changes wherever an edit of those files can change its answers."""
        function = self.function_of(function)
        if function is None:
            return UNKNOWN
        if function not in self.reached:
            pending, seen = [function], {}
            while pending:
                one = pending.pop()
                if one in seen:
                    continue
                own = self.own_hash(one)
                functions, values = self.reaches(one)
                seen[one] = f"{own} {' '.join(values)}"
                pending.extend(functions)
            if self.own_hash(function) == UNKNOWN:
                self.reached[function] = UNKNOWN
            else:
                self.reached[function] = digest(seen[function], *sorted(set(seen.values())))
        return self.reached[function]


def is_constant(value):
    """Whether a global can only change by being replaced, and its text says all of it."""
    if isinstance(value, (tuple, frozenset)):
        return all(is_constant(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))


# ---- Answers of `start` ----------------------------------------------------------------------------------------


def of_machinery(session):
    """{qualified name: fingerprint} of every function that decides prices, plans, expansion and selection, and of the
    constants of their modules."""
    session.sources = sources = Sources()
    answer = {}
    for module_name, names in MACHINERY.items():
        module = sys.modules.get(NAMES + module_name)
        if module is not None:
            add_constants(sources, module, module_name, answer)
        for name in names if module is not None else ():
            owner, _, method = name.rpartition(".")
            value = vars(module).get(name) if not owner else vars(vars(module).get(owner, object)).get(method)
            if isinstance(value, type):
                of_class(sources, value, f"{module_name}.{name}", answer)
            elif value is not None:
                add(sources, value, f"{module_name}.{name}", answer)
    add_dispatch(sources, session.dispatcher, answer)
    return answer


def add_dispatch(sources, dispatcher, answer):
    """Adds the fingerprints of the dispatcher's own methods and of its handlers of single operators."""
    found = {f"_dispatch.OpDispatcher.{name}": getattr(dispatcher, name, None) for name in DISPATCH}
    found["_sharding_prop.ShardingPropagator.propagate"] = getattr(dispatcher.sharding_propagator, "propagate", None)
    for op, handler in getattr(dispatcher, "_custom_op_handlers", {}).items():
        found[f"_dispatch.OpDispatcher._custom_op_handlers[{op}]"] = handler
    for name, function in found.items():
        if function is not None:
            add(sources, getattr(function, "__func__", function), name, answer)


def defined_machinery():
    """{name: (module, what it defines)} of the functions and classes that decide."""
    found = {}
    for module_name, names in MACHINERY.items():
        module = sys.modules.get(NAMES + module_name)
        for name in names if module is not None else ():
            if name in vars(module):
                found[name] = module, vars(module)[name]
    return found


def rebound(session, originals):
    """The imported names, such as "_ops.utils.redistribute_cost", that mean something else than the definition does,
    since a file of the user's rebound them or a branch imports them from elsewhere. `originals` is what was defined
    before the user's files were executed: where one replaces a definition, other modules still hold the original."""
    found, defined = [], defined_machinery()
    for module in session.user_modules():
        for name in vars(module).keys() & defined.keys() if module.__name__.startswith(NAMES) else ():
            home, definition = defined[name]
            original = originals.get(name, defined[name])[1]
            if module is not home and vars(module)[name] is not definition and vars(module)[name] is not original:
                found.append(f"{module.__name__}.{name}".removeprefix(NAMES))
    if session.mesh_resources.num_devices_per_host is not session.host_size:
        found.append("device_mesh._mesh_resources.num_devices_per_host")
    return sorted(found)


def add_constants(sources, module, module_name, answer):
    """Adds the fingerprints of a module's constants, by their values. What only a branch has is read by a function that
    the branch has changed."""
    for name, value in vars(module).items():
        if name.isupper() and is_constant(value):
            answer[f"{module_name}.{name}"] = digest(sources.plain(value))


def of_class(sources, owner, name, answer):
    """Adds the fingerprints of a class's methods, and one for its fields and constants."""
    fields = [f"{key}:{sources.plain(value)}" for key, value in sorted(vars(owner).items())
              if sources.function_of(value) is None and not key.startswith("__")]
    declared = sorted(owner.__dict__.get("__annotations__", {}))
    if fields or declared:
        answer[name] = digest(*fields, *declared)
    for key, value in sorted(vars(owner).items()):
        function = sources.function_of(value)
        if function is None or key in LEFT_OUT or function.__code__.co_filename == "<string>":
            continue  # A method without a file is one that dataclasses made.
        add(sources, value, f"{name}.{key}", answer)


def add(sources, value, name, answer):
    function = sources.function_of(value)
    if function is None and name.startswith("placement_types."):
        return  # Some of a placement's methods are C++ in PyTorch itself, and no overlay reaches those.
    answer[name] = UNKNOWN if function is None else sources.own_hash(function)


def of_operators(session):
    """{operator: what kind of strategy answers for it}, in the order in which PyTorch looks for one."""
    sources, answer = session.sources, {}
    by_rows, by_mesh, by_rule = session.tables()
    for op, info in by_rows.items():
        function = getattr(info, "func", info)
        check = getattr(info, "full_mesh_strategy_filter", None)
        marks = sources.whole_hash(function)
        if check is not None:
            marks = digest(marks, sources.whole_hash(check))
        answer[str(op)] = {"kind": "rows", "uneven": bool(getattr(info, "allow_uneven_sharding", False)),
                           "filter": check is not None,
                           "different_mesh": bool(getattr(info, "different_mesh_args", None)), "fingerprint": marks}
    for table in (by_mesh, by_rule):
        for op, function in table.items():
            answer.setdefault(str(op), {"kind": "mesh", "uneven": False, "filter": False, "different_mesh": False,
                                        "fingerprint": sources.whole_hash(function)})
    from torch._decomp import decomposition_table

    for op in decomposition_table:
        answer.setdefault(str(op), {"kind": "decomposed", "uneven": False, "filter": False, "different_mesh": False,
                                    "fingerprint": UNKNOWN})
    return answer
