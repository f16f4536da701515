"""The ranks of a Python script, forked from one process that has imported what the script imports: torch takes longer to import than
most scripts take to run.

  forked_ranks.py COUNT SCRIPT [ARGUMENT ...]    "{rank}" in an argument or a variable becomes the rank

Rank 0's output is all that is printed; the end is 0 if that of each rank is, and the first other one ends all.
"""
import ast
import importlib
import os
import runpy
import signal
import sys
import traceback

COUNT, SCRIPT = int(sys.argv[1]), sys.argv[2]


def import_what_it_imports():
    sys.path[0] = os.path.dirname(SCRIPT)
    with open(SCRIPT) as file:
        lines = ast.parse(file.read()).body
    names = [alias.name for line in lines if isinstance(line, ast.Import) for alias in line.names]
    for name in names + [line.module for line in lines if isinstance(line, ast.ImportFrom)]:
        try:
            importlib.import_module(name)
        except ImportError:  # the script adds to sys.path
            pass


def run(rank):
    os.environ.update({name: value.replace("{rank}", str(rank)) for name, value in os.environ.items()})
    sys.argv = [word.replace("{rank}", str(rank)) for word in sys.argv[2:]]
    if rank != 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    runpy.run_path(SCRIPT, run_name="__main__")
    sys.stdout.flush()


def main():
    import_what_it_imports()
    ranks = []
    for rank in range(COUNT):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            try:
                run(rank)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
    for _ in range(COUNT):
        rank, status = os.wait()
        ranks.remove(rank)
        if status != 0:
            for other in ranks:
                os.kill(other, signal.SIGKILL)
            os._exit(1)
    os._exit(0)


main()
