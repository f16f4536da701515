"""A call in a file, and what became of it on each rank: for the program that launches and for its workers.

Functions and classes of the program itself (__main__, a notebook) travel by value, if cloudpickle is there; what can be
imported travels by name.
"""
import dataclasses
import glob
import io
import linecache
import os
import pickle
import sys
import types
from typing import Any, Optional

try:
    import cloudpickle
except ImportError:
    cloudpickle = None


class CannotPass(RuntimeError):
    pass


if cloudpickle:
    class _Pickler(cloudpickle.Pickler):
        """Code keeps the name of its file: cloudpickle 3.1.3 leaves it out, and tracebacks then show no line."""

        def reducer_override(self, obj):
            if not isinstance(obj, types.CodeType):
                return super().reducer_override(obj)
            make, parts = self.dispatch_table[types.CodeType](obj)[:2]
            if make(*parts).co_filename == obj.co_filename:
                return make, parts
            return _code, (make, parts, obj.co_filename)


def _code(make, parts, filename):
    return make(*parts).replace(co_filename=filename)


def _pickled(value):
    if not cloudpickle:
        return pickle.dumps(value)
    with io.BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


@dataclasses.dataclass
class Value:
    pickled: bytes


@dataclasses.dataclass
class Raised:
    summary: str                       # "ValueError: bad shapes"
    traceback: str                     # as Python prints it
    exception: Optional[bytes] = None  # pickled, where that is possible


@dataclasses.dataclass
class Left:
    """The function has ended its process, with exit code 0."""


def dumps(value: Any, what: str) -> bytes:
    try:
        return _pickled(value)
    except Exception as error:
        hint = "" if cloudpickle else " (cloudpickle is not installed: with it, functions of this program can be passed, too)"
        raise CannotPass(f"{what} cannot be passed on: {type(error).__name__}: {error}{hint}") from error


def write_call(folder, function, arguments):
    main = getattr(function, "__module__", None) == "__main__"
    if main and cloudpickle is None:
        raise CannotPass("a function of the program itself can only be passed on with cloudpickle. Run `pip install "
                         "cloudpickle`, or move the function into a module.")
    call = dumps((function, arguments), "the function, or an argument of it,")
    described = {"sys.path": [path or os.getcwd() for path in sys.path], "sources": _sources_of_no_file(), "call": call}
    _write(os.path.join(folder, "call"), pickle.dumps(described))


def read_call(folder):
    with open(os.path.join(folder, "call"), "rb") as file:
        call = pickle.load(file)
    sys.path[:] = call["sys.path"]
    linecache.cache.update(call["sources"])
    return pickle.loads(call["call"])


def _sources_of_no_file():
    """The texts of notebooks' cells, which are in this process alone: for the workers' tracebacks."""
    kept = {name: entry for name, entry in linecache.cache.items() if len(entry) == 4 and not os.path.exists(name)}
    return {name: (size, None, lines, full_name) for name, (size, _, lines, full_name) in kept.items()}


def forget_outcomes(folder, rank):
    """Of earlier rounds: if this one ends in another way, they are not its outcome."""
    for file in glob.glob(_outcome_file(glob.escape(folder), rank, "*")):
        os.remove(file)


def write_outcome(folder, rank, restart, outcome):
    _write(_outcome_file(folder, rank, restart), pickle.dumps(outcome))


def read_outcome(folder, rank):
    """Of the last round that left one; None if there is none."""
    files = glob.glob(_outcome_file(glob.escape(folder), rank, "*"))
    if not files:
        return None
    with open(max(files, key=lambda file: int(file.rsplit(".", 1)[1])), "rb") as file:
        return pickle.load(file)


def ranks_of_last_round(folder):
    """Those that left an outcome in the last round that has any: an earlier one may have had more ranks."""
    found = [file.rsplit(".", 2)[1:] for file in glob.glob(_outcome_file(glob.escape(folder), "*", "*"))]
    last = max((int(restart) for _, restart in found), default=0)
    return sorted(int(rank) for rank, restart in found if int(restart) == last)


def _outcome_file(folder, rank, restart):
    return os.path.join(folder, f"rank.{rank}.{restart}")


def _write(path, data):
    folder, name = os.path.split(path)
    new = os.path.join(folder, ".new." + name)  # no outcome of that name is looked for
    with open(new, "wb") as file:
        file.write(data)
    os.replace(new, path)


LIMIT = 1 << 30


def dumps_within(values, option, limit):
    """A dict of variables, pickled. `limit` in bytes: what a notebook and its workers exchange goes through files."""
    try:
        pickled = dumps(values, "")
    except CannotPass:
        for name, value in values.items():
            dumps(value, f"{option}: {name}")
        raise
    if len(pickled) > limit:
        raise CannotPass(f"{option}: {', '.join(values)} take {in_words(len(pickled))}, and --limit is {in_words(limit)}. Raise it, "
                         "or write a file.")
    return pickled


def in_words(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"
