"""Cost functions of the caller's own, in the place of a stack's prices."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from . import _shardlab
from .torch_worker.shardlab_worker import costs, errors, plain

_numbers = itertools.count(1)


class _Prices:
    """Answers questions about the prices of a function. Where this process has loaded PyTorch's placements, a function
    of five parameters gets those, and stand-ins with their names and methods elsewhere."""

    def __init__(self, cost: Callable[..., Any], name: str):
        self.session = plain.PlainSession.holding(cost, name)
        self._prices = costs.Prices(self.session)

    def answer(self, question: dict) -> dict:
        return plain.settled(lambda: self._prices.answer(question, {}), self._takes_pytorchs)

    def _takes_pytorchs(self) -> bool:
        if not self.session.takes_pytorchs():
            return False
        self._prices = costs.Prices(self.session)
        return True


class CostStack(os.PathLike):
    """A stack with a Python function as its cost function; it goes wherever a stack does.

    The function takes PyTorch's five parameters (current placement, target placement, mesh_topo, mesh_dim,
    comm_bytes_gb) and returns microseconds and the new GiB, or three (collective, bytes, group) and returns
    microseconds. Placements and topology are PyTorch's own where the process has loaded torch.distributed.tensor, and
    have the names, methods and texts of PyTorch's elsewhere. The function is called by one thread at a time, and within
    one command about once for each distinct set of arguments. A live PyTorch as the base is refused: it takes the name
    "torch:PYTHON+cost=FILE.py:FUNCTION".
    """

    def __init__(self, base: str | os.PathLike | Mapping[str, Any], cost: Callable[..., Any]):
        name = getattr(cost, "__name__", type(cost).__name__)
        try:
            prices = _Prices(cost, name)
        except errors.CostError as error:
            raise _shardlab.InputError(str(error)) from None
        self._folder = None
        if isinstance(base, Mapping):
            self._folder = tempfile.TemporaryDirectory(prefix="shardlab-")
            path = pathlib.Path(self._folder.name) / "stack.json"
            path.write_text(json.dumps(base))
            title = str(base.get("name", "stack"))
        else:
            path = os.fspath(base)
            title = path
        self.name = f"{title}+cost={name}#{next(_numbers)}"
        session, one_at_a_time = prices.session, threading.RLock()

        def answer(question: str) -> str:
            try:
                with one_at_a_time:
                    return json.dumps({"ok": prices.answer(json.loads(question))})
            except Exception as error:  # noqa: BLE001: it is the user's, and is raised again with the call's name
                return json.dumps({"error": errors.described(error, session.user_files)})

        _shardlab.add_cost_stack(self.name, str(path), session.cost.parameters, answer)
        weakref.finalize(self, _shardlab.remove_cost_stack, self.name)

    def __fspath__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        raise _shardlab.InputError(f"{self.name}: a cost function of this process can't be pickled, nor can a plan that was "
                                   "solved with it; valid: a stack by its name, such as \"dtensor-2.15+cost=FILE.py:FUNCTION\"")

    def __repr__(self) -> str:
        return f"CostStack({self.name!r})"
