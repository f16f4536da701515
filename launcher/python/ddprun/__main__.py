"""`python -m ddprun`: becomes the program ddprun, with this Python for its scripts."""
import os
import sys

from ddprun._program import NotFound, find_program

try:
    program = find_program()
except NotFound as error:
    sys.exit(f"ddprun: {error}")
os.environ.setdefault("PYTHON_EXEC", sys.executable)
os.execv(program, [program, *sys.argv[1:]])
