"""What a script sees of itself as the module __main__."""
import os
import sys

import sibling

answer: int = 42
if os.environ["RANK"] == "0":
    print(__doc__)
    print(os.path.basename(__file__), os.path.isabs(__file__), os.path.basename(sys.path[0]), len(sys.path))
    print(__name__, __spec__ is None, __package__, __cached__, __annotations__, type(__loader__).__name__)
    print(sorted(name for name in globals() if name.startswith("__")), type(__builtins__).__name__)
    print(sys.modules["__main__"].__dict__ is globals(), __import__("__main__").answer)
    print(sibling.__name__, os.path.basename(sibling.__file__), sibling.caller())
    print(sys._getframe().f_back, sys._getframe().f_code.co_filename == __file__, sys._getframe().f_code.co_name)
    print(sys.exc_info(), hasattr(sys, "last_value"), hasattr(sys, "ps1"), sys.excepthook is sys.__excepthook__)
