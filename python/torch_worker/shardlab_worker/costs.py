"""Prices of one transition, by PyTorch's function or by one of the user's."""

import inspect
import math
import numbers
from collections import Counter, OrderedDict

from . import overlay
from .calls import item_fields
from .errors import CostError, PriceError, RequestError
from .texts import PLACEMENT, PLACEMENT_FORMS, mesh_of, placement_text

MOST_TOPOLOGIES = 256
MOST_PLACEMENTS = 10_000
GIB = 1024**3


# PyTorch prices an all-to-all as an all-gather of the local bytes, and adds this many microseconds so that it prefers
# an all-gather (2.13.0 to 2.15.0, _compute_placement_transition_cost).
ALL_TO_ALL_PENALTY_US = 1.0
MOST_COUNTED_RANKS = 1 << 20


class Group:
    """The ranks of a collective, as a cost function of three parameters sees them."""

    __slots__ = ("ranks", "hosts", "ranks_per_host")

    def __init__(self, ranks, hosts, ranks_per_host):
        self.ranks, self.hosts, self.ranks_per_host = ranks, hosts, ranks_per_host

    def __repr__(self):
        return f"Group(ranks={self.ranks}, hosts={self.hosts}, ranks_per_host={self.ranks_per_host})"


def worst_group(sizes, mesh_dim, devices_per_host):
    """The most hosts that a group along a mesh dim touches, and the fewest ranks that one has on any of its hosts."""
    size, stride, world = sizes[mesh_dim], math.prod(sizes[mesh_dim + 1:]), math.prod(sizes)
    if world <= devices_per_host:
        return Group(size, 1, size)
    extent = size * stride
    starts = [first for first in range(min(world, MOST_COUNTED_RANKS)) if first % extent < stride]
    on_hosts = [Counter((first + i * stride) // devices_per_host for i in range(size)) for first in starts]
    return Group(size, max(map(len, on_hosts)), min(min(ranks.values()) for ranks in on_hosts))


def parameters_of(function, name):
    """Three or five: how many positional parameters the user's function takes. Where it takes both, since some have
    defaults, the number of those without defaults counts."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise CostError(f"The parameters of {name} cannot be read.") from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    keywords = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    for count in (needed, len(positional)):
        if count in (3, 5) and not keywords:
            return count
    raise CostError(f"{name} takes {len(positional)} parameters. A cost function takes five (current placement, target "
                    "placement, mesh_topo, mesh_dim, comm_bytes_gb) or three (collective, bytes, group).")


def text_of_call(name, current, target, topology, mesh_dim, gib):
    mesh = "x".join(map(str, topology.mesh_dim_devices)) if hasattr(topology, "mesh_dim_devices") else topology
    return f"{name}({placement_text(current)}, {placement_text(target)}, mesh {mesh}, mesh_dim={mesh_dim}, {gib!r} GiB)"


def number_of(value, what, call):
    """The value as a float, if it is a number that can be a price. `call` gives the text of the call that gave it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise PriceError(f"{call()} gave {value!r} as {what}, which is no number.")
    try:
        value = float(value)
    except OverflowError:
        raise PriceError(f"{call()} gave {value!r} as {what}, which no float can hold.") from None
    if math.isnan(value):
        raise PriceError(f"{call()} gave NaN as {what}.")
    if value < 0:
        raise PriceError(f"{call()} gave {value!r} as {what}, which is negative.")
    return value


def pair_of(result, call):
    """(microseconds, GiB) that a function of five parameters gave; the first may be infinite."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise PriceError(f"{call()} gave {result!r}, not a pair of microseconds and the new GiB.")
    gib = number_of(result[1], "the new GiB", call)
    if math.isinf(gib):
        raise PriceError(f"{call()} gave infinity as the new GiB.")
    return number_of(result[0], "the price", call), gib


class Cost:
    """A cost function of the user's, in the place of PyTorch's _compute_placement_transition_cost. What the user's
    function gives is checked on every call, also inside PyTorch."""

    def __init__(self, function, name):
        self.function, self.name, self.failure = function, name, None
        self.parameters = parameters_of(function, name)
        self.groups = {}

    def bind_alone(self, is_impossible):
        """A function of five parameters that is called without PyTorch around it, and whose prices are checked."""
        return self._of_five(lambda current, target, *_: (math.inf if is_impossible(current, target) else 0.0, 0.0))

    def bind(self, own_transition):
        """The function that takes the place of PyTorch's own."""
        checked = self._of_five(own_transition) if self.parameters == 5 else self._of_three(own_transition)

        def _compute_placement_transition_cost(
                current_placement, target_placement, mesh_topo, mesh_dim, comm_bytes_gb):
            try:
                return checked(current_placement, target_placement, mesh_topo, mesh_dim, comm_bytes_gb)
            except BaseException as error:
                self.failure = error  # PyTorch passes over some errors, as in decompositions; the worker does not.
                raise

        return _compute_placement_transition_cost

    def call(self, text, *arguments):
        """Calls the user's function; the message of what it raises names the call."""
        try:
            return self.function(*arguments)
        except Exception as error:
            note = f" (raised by {text()})"
            if len(error.args) == 1 and isinstance(error.args[0], str) and not isinstance(error, KeyError):
                error.args = (error.args[0] + note,)
                raise
            raise PriceError(f"{type(error).__name__}: {error}{note}") from error

    def collective(self, collective, size, group):
        """The price in microseconds of one collective, by a function of three parameters."""
        def text():
            return f"{self.name}({collective!r}, {size!r}, {group!r})"

        price = number_of(self.call(text, collective, size, group), "the price", text)
        if math.isinf(price):
            raise PriceError(f"{text()} gave an infinite price.")
        return price

    def _of_five(self, own_transition):
        def transition(*arguments):
            def text():
                return text_of_call(self.name, *arguments)

            price, gib = pair_of(self.call(text, *arguments), text)
            if math.isinf(price) and not math.isinf(own_transition(*arguments)[0]):
                raise PriceError(f"{text()} gave an infinite price for a transition that PyTorch can make.")
            return price, gib

        return transition

    def _of_three(self, own_transition):
        def transition(current, target, topology, mesh_dim, before):
            price, after = own_transition(current, target, topology, mesh_dim, before)
            if price == 0 or math.isinf(price):
                return price, after
            if current.is_partial():
                collective, moved = "all_reduce" if target.is_replicate() else "reduce_scatter", before
            else:
                collective, moved = "all_gather" if target.is_replicate() else "all_to_all", after
            penalty = ALL_TO_ALL_PENALTY_US if collective == "all_to_all" else 0.0
            return self.collective(collective, moved * GIB, self.group_of(topology, mesh_dim)) + penalty, after

        return transition

    def group_of(self, topology, mesh_dim):
        devices_per_host = getattr(topology, "shardlab_devices_per_host", None) or self.devices_per_host()
        key = (tuple(topology.mesh_dim_devices), mesh_dim, devices_per_host)
        if key not in self.groups:
            if len(self.groups) >= MOST_PLACEMENTS:
                self.groups.clear()
            self.groups[key] = worst_group(*key)
        return self.groups[key]


def function_of(text, user_files):
    """The user's cost function from FILE.py:FUNCTION."""
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise CostError(f"A cost function is written as FILE.py:FUNCTION, not {text!r}.")
    module = overlay.execute(path, "shardlab_cost", user_files)
    if not callable(getattr(module, name, None)):
        raise CostError(f"{path} has no function {name}.")
    return Cost(getattr(module, name), name)


def replace_everywhere(session):
    """Puts the user's cost function in the place of PyTorch's in every module that imported it."""
    session.cost.devices_per_host = lambda: session.devices_per_host
    old = session.collectives._compute_placement_transition_cost
    session.transition = session.cost.bind(old)
    for module in session.user_modules():
        if vars(module).get(old.__name__) is old:
            setattr(module, old.__name__, session.transition)


class Prices:
    """Answers {"from", "to", "mesh", "devices_per_host", "mesh_dim", "gib"}, or {"collective", "bytes", "ranks",
    "hosts", "ranks_per_host"} where the user's function takes three parameters."""

    def __init__(self, session):
        self.session, self.topologies, self.placements = session, OrderedDict(), {}

    def placement(self, text):
        if text not in self.placements:
            found = PLACEMENT.fullmatch(text) if isinstance(text, str) else None
            if not found or found["order"]:
                raise RequestError(f"{text!r} is no placement. A placement is {PLACEMENT_FORMS}.")
            if len(self.placements) >= MOST_PLACEMENTS:
                self.placements.clear()
            self.placements[text] = self.session.placement(found)
        return self.placements[text]

    def topology(self, mesh, devices_per_host):
        """PyTorch's MeshTopoInfo of a mesh. It stays valid when the worker enters another world."""
        key = (mesh, devices_per_host)
        if key not in self.topologies:
            self.topologies[key] = self.session.topology(*mesh_of(mesh), devices_per_host)
            if len(self.topologies) > MOST_TOPOLOGIES:
                self.topologies.popitem(last=False)
        return self.topologies[key]

    def answer(self, item, request):
        if isinstance(item, dict) and "collective" in item:
            return self.collective(item)
        source, target, mesh, mesh_dim, gib = item_fields(item, "from", "to", "mesh", "mesh_dim", "gib")
        topology = self.topology(mesh, item.get("devices_per_host", 1))
        if not isinstance(mesh_dim, int) or not 0 <= mesh_dim < len(mesh_of(mesh)[0]):
            raise RequestError(f"The mesh {mesh} has no dim {mesh_dim!r}.")
        if isinstance(gib, bool) or not isinstance(gib, (int, float)) or gib < 0:
            raise RequestError(f"`gib` is a number of GiB, not {gib!r}.")
        transition = self.session.transition
        if transition is None:
            raise RequestError("A cost function of three parameters prices collectives, not transitions.")
        arguments = (self.placement(source), self.placement(target), topology, mesh_dim, float(gib))
        price, gib = pair_of(transition(*arguments), lambda: text_of_call(transition.__name__, *arguments))
        return {"us": None if math.isinf(price) else price, "gib": gib}

    def collective(self, item):
        cost = self.session.cost
        if cost is None or cost.parameters != 3:
            raise RequestError("Only a cost function of three parameters prices a collective by itself.")
        collective, size, *group = item_fields(item, "collective", "bytes", "ranks", "hosts", "ranks_per_host")
        return {"us": cost.collective(collective, float(size), Group(*group))}
