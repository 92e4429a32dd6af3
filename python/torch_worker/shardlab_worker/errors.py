"""Errors as the protocol tells them: type, message, the place in the user's file, and the lines that led there."""

import os
import traceback

LONGEST_MESSAGE = 4000
TRACEBACK_LINES = 12


class Sentence(Exception):
    """An error whose message says all: the worker's own place in the source would add nothing."""


class RequestError(Sentence):
    """The request itself is wrong: its form, an operator that does not exist, an argument too many."""


class ReleaseError(Sentence):
    """This PyTorch is older than the first release that can be asked."""


class UserError(Sentence):
    """What the user named or wrote is wrong."""


class MissingFileError(UserError):
    """There is no such file of the user's."""


class OverlayError(UserError):
    """The overlay's folder holds no torch.distributed.tensor."""


class CostError(UserError):
    """The cost function cannot be found, or has a number of parameters that is neither three nor five."""


class PriceError(Exception):
    """A cost function gave something that is no price. The message names the call with its arguments."""


class NotRows(Sentence):
    """The operator's strategy is a function of the whole mesh, so it has no rows of one mesh dim."""


class UserFiles:
    """The files that are the user's: single files (patches, cost functions, rules), and the folder of an overlay."""

    def __init__(self):
        self.files, self.folder = set(), None

    def add_file(self, path):
        self.files.add(os.path.abspath(path))

    def set_overlay(self, folder):
        self.folder = os.path.join(os.path.abspath(folder), "")

    def holds(self, filename):
        """Whether the file is the user's in any way."""
        path = os.path.abspath(filename)
        return path in self.files or (self.folder is not None and path.startswith(self.folder))

    def holds_as_single_file(self, filename):
        """Whether the file is a patch, a file of rules or one of a cost function."""
        return os.path.abspath(filename) in self.files


def chain_of(error):
    """The error and the errors that led to it, latest first."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return seen


def frames_of(error):
    """(file, line) of each frame, outermost first. A syntax error's own place comes last."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    return frames


def place_of(error, user_files):
    """(file, line) of the innermost frame in a file of the user's; where there is none, of the innermost frame. A price
    that is wrong has no place, since the function that returned it has ended."""
    for one in chain_of(error):
        mine = [frame for frame in frames_of(one) if user_files.holds(frame[0])]
        if mine:
            return mine[-1]
    frames = frames_of(error)
    return frames[-1] if frames and not isinstance(error, PriceError) else (None, None)


def message_of(error):
    if isinstance(error, KeyError) and error.args:
        text = f"The key {error.args[0]!r} is missing."
    elif isinstance(error, SyntaxError):
        text = error.msg or str(error)  # Without the place, which is told beside the message.
    else:
        text = str(error)
    return text[:LONGEST_MESSAGE]


def lacks_torch(error):
    """Whether the error says that there is no PyTorch, whoever asked for it."""
    return isinstance(error, ModuleNotFoundError) and error.name == "torch"


def is_of_user(error, user_files):
    """Whether a file of the user's is what has to be mended: it is missing, it is no Python, or it fails."""
    if isinstance(error, UserError):
        return True
    chain = chain_of(error)
    if any(lacks_torch(one) for one in chain):
        return False
    return any(file and user_files.holds(file) for one in chain for file, _ in frames_of(one))


def lines_of(error, user_files):
    """The frames in files of the user's, outermost first, each with its line of the source. A syntax error shows its
    own line. Where no file of the user's took part, the last lines of the whole traceback."""
    lines = []
    for one in reversed(chain_of(error)):
        for frame in traceback.extract_tb(one.__traceback__):
            if user_files.holds(frame.filename):
                lines.append(f"{frame.filename}, line {frame.lineno}, in {frame.name}")
                lines.append(f"  {frame.line}")
        if isinstance(one, SyntaxError) and one.filename and user_files.holds(one.filename):
            source = (one.text or "").rstrip().expandtabs()
            lines.append(one.filename + (f", line {one.lineno}" if one.lineno else ""))
            if source:
                lines.append(f"  {source.lstrip()}")
            if one.offset and source:
                indent = len(source) - len(source.lstrip())
                lines.append("  " + " " * max(one.offset - 1 - indent, 0) + "^")
    if not lines:
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip().splitlines()
    return [line[:400] for line in lines[-TRACEBACK_LINES:]]


def described(error, user_files):
    """The error as an object of the protocol."""
    if isinstance(error, Sentence):
        return {"type": type(error).__name__, "message": message_of(error), "file": None, "line": None,
                "of_user": is_of_user(error, user_files), "traceback": []}
    file, line = place_of(error, user_files)
    return {"type": type(error).__name__, "message": message_of(error), "file": file, "line": line,
            "of_user": is_of_user(error, user_files), "traceback": lines_of(error, user_files)}
