"""Several of the scripts beside it as one: each start of a Python with torch takes seconds."""
import contextlib
import io
import pathlib
import sys

with contextlib.redirect_stdout(io.StringIO()) as printed:  # line by line, which the other rank's may come between
    exec(pathlib.Path(__file__).with_name("main_module.py").read_text())
sys.stdout.write(f"{printed.getvalue()}{sys._getframe().f_back} {sys._getframe().f_code.co_filename == __file__}\n")
for name in "arguments.py", "process_state.py", "uncaught.py":
    exec(compile(pathlib.Path(__file__).with_name(name).read_text(), name, "exec"))
