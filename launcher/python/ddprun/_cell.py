"""A worker that runs a notebook's cell as its program: the file and its surroundings are in the folder that the argument
names."""
import builtins
import json
import os
import pickle
import sys
import types

if __name__ == "__main__":
    _HERE = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # its files are no modules of their own
        del sys.path[0]
    sys.path.append(os.path.dirname(_HERE))

from ddprun import _call, _failure

NAME = "cell"  # in tracebacks, of a cell that is in no file of the user's


def main(folder):
    rank, restart = os.environ.get("RANK", "0"), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    with open(os.path.join(folder, "cell.json"), encoding="utf-8") as file:
        cell = json.load(file)
    _call.forget_outcomes(folder, rank)
    try:
        variables = _run(cell, os.path.join(folder, "push"))
        outcome = _pulled(variables, cell) if rank == str(cell["from_rank"]) else None
    except SystemExit as leaving:
        return _failure.code_of(leaving)
    except BaseException as error:
        raised = _failure.report(error, __file__)
        if cell["unnamed"]:
            raised.traceback = raised.traceback.replace(f'"{cell["file"]}"', f'"{NAME}"')
        _call.write_outcome(folder, rank, restart, raised)
        return 1
    if outcome is not None:
        _call.write_outcome(folder, rank, restart, outcome)
    return 0


def _run(cell, pushed):
    """As Python runs a script: in a module __main__ of its own. Returns its variables."""
    program = types.ModuleType("__main__")
    program.__dict__.update(__file__=cell["file"], __builtins__=builtins)
    sys.modules["__main__"] = program
    sys.argv = [cell["file"], *cell["arguments"]]
    sys.path.insert(0, cell["directory"])
    if os.path.exists(pushed):
        with open(pushed, "rb") as file:
            program.__dict__.update(pickle.load(file))
    with open(cell["file"], encoding="utf-8") as file:
        code = compile(file.read(), cell["file"], "exec", dont_inherit=True)
    exec(code, program.__dict__)
    return program.__dict__


def _pulled(variables, cell):
    missing = [name for name in cell["pull"] if name not in variables]
    if missing:
        raise NameError(f"--pull: the cell has set no {', '.join(missing)} on rank {cell['from_rank']}")
    values = {name: variables[name] for name in cell["pull"]}
    return _call.Value(_call.dumps_within(values, "--pull", cell["limit"]))


if __name__ == "__main__":
    from ddprun import _worker
    this_module = sys.modules["__main__"]  # kept: the cell's module takes its place
    _worker.show_lines()
    _worker.leave(main(sys.argv[1]))
