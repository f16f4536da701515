"""A program that is a zip file or a folder."""
import os
import sys

import appcode

if os.environ["RANK"] == "0":
    print(__name__, repr(__package__), __spec__.name, os.path.basename(sys.path[0]), os.path.basename(sys.argv[0]), sys.argv[1:])
    print(os.path.relpath(__file__, sys.path[0]), type(__loader__).__name__, appcode.GREETING)
