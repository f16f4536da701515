"""A worker of ddprun.launch(): calls the function in the folder that its argument names, and leaves there what it
returned or raised."""
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__":
    if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # its files are no modules of their own
        del sys.path[0]
    sys.path.insert(0, os.path.dirname(_HERE))  # this package, and no other one of that name
    import ddprun
    sys.path.append(sys.path.pop(0))

import atexit
import threading
import types

from ddprun import _call, _failure

_FOLDER = "DDPRUN_CALL_FOLDER"  # for processes that this one spawns


def main(folder):
    rank, restart = os.environ.get("RANK", "0"), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    _call.forget_outcomes(folder, rank)
    os.environ[_FOLDER] = folder
    try:
        function, arguments = _call.read_call(folder)
        program = types.ModuleType("__main__")  # without this file's own names, of which a program may have some, too
        program.__file__ = __file__
        _publish(function, program.__dict__)
        sys.modules["__main__"] = program
        value = function(*arguments)
        outcome = _call.Value(_call.dumps(value, f"the value of rank {rank}"))
    except SystemExit as leaving:
        code = _failure.code_of(leaving)
        if code == 0:
            _call.write_outcome(folder, rank, restart, _call.Left())
        return code
    except BaseException as error:
        _call.write_outcome(folder, rank, restart, _failure.report(error, __file__))
        return 1
    _call.write_outcome(folder, rank, restart, outcome)
    return 0


def _publish(function, names):
    """Pickle looks up classes of a program in __main__: torch.save() of a model, data loaders that spawn."""
    if getattr(function, "__module__", None) != "__main__":
        return
    for name, value in [*getattr(function, "__globals__", {}).items(), (getattr(function, "__name__", None), function)]:
        if name and not name.startswith("__"):  # spawned processes find this file by __file__
            names[name] = value


def show_lines():
    """As on a terminal, though it is a pipe: each line at once, and in one piece."""
    sys.stdout.reconfigure(line_buffering=True)


def leave(code):
    """As a process of multiprocessing ends: without the interpreter's own end, in which threads of collectives may crash."""
    import ctypes
    streams = [getattr(stream, "flush", None) for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)]
    for step in (threading._shutdown, atexit._run_exitfuncs, *streams, lambda: ctypes.CDLL(None).fflush(None)):
        try:
            if step:
                step()
        except BaseException:  # what it returned counts: a closed stream is no failure
            pass
    os._exit(code)


if __name__ == "__mp_main__" and _FOLDER in os.environ:  # in a process that the function has spawned
    _publish(_call.read_call(os.environ[_FOLDER])[0], globals())
if __name__ == "__main__":
    this_module = sys.modules["__main__"]  # kept: the program's takes its place
    show_lines()
    sys.argv[1:], folder = [], sys.argv[1]
    leave(main(folder))
