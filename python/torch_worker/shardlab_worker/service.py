"""The protocol: a line in, one line or several out."""

import json
import os

from .errors import RequestError, described
from .plain import PlainSession, settled
from .session import Session

# What is asked: the key of its items, the room that answers, and the room's method.
BATCHES = {
    "rows": ("calls", "rows", "Rows", "answer"),
    "decisions": ("questions", "decisions", "Decisions", "answer"),
    "candidates": ("questions", "decisions", "Decisions", "candidates"),
    "prices": ("transitions", "costs", "Prices", "answer"),
    "plans": ("questions", "plans", "Plans", "answer"),
}


class Service:
    """Answers requests, one line each, on the descriptor of the parent's pipe."""

    def __init__(self, descriptor):
        self.descriptor, self.session, self.rooms = descriptor, Session(), {}
        self.process = os.getpid()

    def end_a_child(self, error=None):
        """Ends the process if it is one that the user's code forked. Such a child is not to answer a second time; what
        it raised, such as the SystemExit of sys.exit(), says its status."""
        if os.getpid() == self.process:
            return
        status = error.code if isinstance(error, SystemExit) else error
        os._exit(status if isinstance(status, int) else status is not None)

    def say(self, answer):
        """Writes one line. A parent that no longer listens ends the worker."""
        self.end_a_child()
        try:
            data = json.dumps(answer, separators=(",", ":"), allow_nan=False).encode() + b"\n"
            while data:
                data = data[os.write(self.descriptor, data):]
        except BrokenPipeError:
            os._exit(0)

    def answer(self, line):
        """Answers one line. False means that the parent wants the worker to stop."""
        head = {"id": None}
        try:
            try:
                request = json.loads(line)
            except ValueError as error:
                raise RequestError(f"The line is not JSON: {error}.") from None
            if not isinstance(request, dict):
                raise RequestError("A request is an object with the keys `id` and `do`.")
            head = {"id": request.get("id")}
            do = request.get("do")
            if do == "stop":
                self.say({**head, "ok": {}})
                return False
            if do == "start":
                self.say({**head, "ok": self.start(request)})
            elif isinstance(do, str) and do in BATCHES:
                self.batch(do, head, request)
            else:
                raise RequestError(f"There is no request {do!r}. The requests are start, {', '.join(BATCHES)}, stop.")
        except BaseException as error:  # noqa: BLE001: user code may raise SystemExit or KeyboardInterrupt
            self.end_a_child(error)
            self.say({**head, "error": described(error, self.session.user_files)})
        return True

    def start(self, request):
        """Starts with PyTorch; or without it, where the parent wants a cost function alone and its file does not import
        torch by itself."""
        if request.get("torch", True) or self.session.started:
            return self.session.start(request)
        self.session, self.begun = PlainSession(), request
        answer = self.session.start(request)
        return self.start_with_torch() if self.session.needs_torch else answer

    def start_with_torch(self):
        """Starts once more, since the user's file has imported torch by itself."""
        self.session, self.rooms = Session(), {}
        return self.session.start(self.begun)

    def takes_pytorchs(self):
        """Whether the worker has just become one of the PyTorch that the user's function has imported."""
        if not isinstance(self.session, PlainSession) or not self.session.misses_torch():
            return False
        self.start_with_torch()
        return True

    def batch(self, do, head, request):
        """Answers item by item, each on a line of its own."""
        key, module, room, method = BATCHES[do]
        items = request.get(key)
        if not isinstance(items, list):
            raise RequestError(f"The request {do} has a list under the key `{key}`.")
        if not getattr(self.session, "ready", False):
            raise RequestError("The worker has not started, or its start failed. Send a request `start` first.")
        if isinstance(self.session, PlainSession) and do != "prices":
            self.session.refuse(do)
        for index, item in enumerate(items):
            place = {**head, "index": index}
            try:
                line = {**place, "ok": settled(lambda: getattr(self.room(module, room), method)(item, request),
                                               self.takes_pytorchs)}
            except BaseException as error:  # noqa: BLE001: as above
                self.end_a_child(error)
                line = {**place, "error": described(error, self.session.user_files)}
            self.say(line)
            self.session.tidy()

    def room(self, module, name):
        """The room that answers; it is made once."""
        if name not in self.rooms:
            import importlib

            found = importlib.import_module(f"{__package__}.{module}")
            self.rooms[name] = getattr(found, name)(self.session)
        return self.rooms[name]
