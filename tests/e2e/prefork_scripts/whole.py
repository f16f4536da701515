"""Several of the scripts beside it as one: each start of a Python with torch takes seconds."""
import pathlib

for name in "arguments.py", "main_module.py", "process_state.py", "uncaught.py":
    exec(compile(pathlib.Path(__file__).with_name(name).read_text(), name, "exec"))
