"""Run by -m: relative imports, and the module's own names."""
import os
import sys
from pathlib import Path

from . import data
from .data import describe

if __name__ == "__main__" and os.environ["RANK"] == "0":
    print(data.__name__, describe())
    print(__name__, __package__, __spec__.name, __spec__.parent, type(__loader__).__name__)
    print(Path(__file__).parts[-2:], Path(__spec__.origin).parts[-2:], __cached__ is not None)
    print(Path(sys.argv[0]).parts[-2:], sys.argv[1:], os.path.basename(sys.path[0]))
    print(sorted(name for name in globals() if name.startswith("__")))
    print(sorted(name for name in sys.modules if name.startswith("trainpkg")))
    print(sys.modules["__main__"].describe is describe)
