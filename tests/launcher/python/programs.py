"""For the tests of launcher/python: the programs that they start, and what they wait for."""
import os
import pathlib
import subprocess
import sys
import time

os.environ["XDG_STATE_HOME"] = "/dev/null"  # no job leaves a record in the home of who runs the tests
LIMIT = 60  # seconds until a test gives up; nothing is expected to take this long


def package_environment(ddprun):
    """For programs that import the package from the sources and start this ddprun."""
    package = pathlib.Path(__file__).resolve().parents[3] / "launcher/python"
    return {**os.environ, "PYTHONPATH": str(package), "DDPRUN_LAUNCHER": os.path.abspath(ddprun), "PYTHONDONTWRITEBYTECODE": "1"}


def wait_until(holds, what):
    """What it returned, once it is true."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        value = holds()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited for {LIMIT} s: {what}")


def processes_with(variable):
    """The pids of this machine whose environment has NAME=VALUE."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environment = pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended, or is not ours
            if variable.encode() in environment:
                found.append(int(entry))
    return found


class Script:
    """A Python program in a file of its own, started with its output in pipes."""

    def __init__(self, folder, text, ddprun, **environment):
        path = os.path.join(folder, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.process = subprocess.Popen([sys.executable, "-u", path], cwd=folder, env={**package_environment(ddprun), **environment},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for_line(self, line):
        for read in self.process.stdout:
            if read == line + "\n":
                return
        raise AssertionError(f"the script ended without the line '{line}': {self.process.stderr.read()}")

    def ended(self):
        """Its exit code, and what it wrote since."""
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, out, err
