"""Where the program ddprun is, and its command line."""
import os
import shutil
import subprocess
import sys
import sysconfig


_SHARED = "/share/ddprun/python/ddprun"  # where a program ddprun keeps this package for its workers


class NotFound(RuntimeError):
    pass


def find_program():
    """The one that DDPRUN_LAUNCHER names, else the one installed with this package or beside this Python, else PATH's."""
    named = os.environ.get("DDPRUN_LAUNCHER")
    if named:
        if _is_program(named):
            return named
        raise NotFound(f"the launcher {named} (DDPRUN_LAUNCHER) is not a program that this user may execute.")
    here = os.path.dirname(os.path.abspath(__file__))
    beside = [here[: -len(_SHARED)] + "/bin"] if here.endswith(_SHARED) else []
    folders = [*beside, sysconfig.get_path("scripts"), _user_scripts(), os.path.dirname(sys.executable)]
    for folder in folders:
        if folder and _is_program(os.path.join(folder, "ddprun")):
            return os.path.join(folder, "ddprun")
    found = shutil.which("ddprun")
    if found:
        return found
    raise NotFound("there is no program ddprun beside this Python or in PATH. Install ddprun's wheel into this environment, "
                   "or name the program in DDPRUN_LAUNCHER.")


def options_meant(program, names, others=()):
    """The option that each name is, in Python's spelling: another one, or one of the others, where it may be meant, "" where
    none is near. Empty for a program that cannot tell."""
    if not names:
        return {}
    text = ",".join(names) + (";" + ",".join(others) if others else "")
    asked = subprocess.run([program, "--check-names", text], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lines = [line.partition("=") for line in asked.stdout.splitlines()] if asked.returncode == 0 else []
    return {name: meant.replace("-", "_") for name, _, meant in lines}


def did_you_mean(word):
    """The question in ddprun's own words; nothing if there is no such word."""
    return f" Did you mean '{word}'?" if word else ""


def words_of(options):
    """Options of ddprun as a command line has them: {"nproc_per_node": 2, "verbose": True} → --nproc-per-node=2 --verbose.
    None and False leave an option out; a list is joined by commas, as is a dict of KEY=VALUE."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words.append(f"{flag}={_text(value)}")
    return words


def _text(value):
    if isinstance(value, dict):
        return ",".join(f"{key}={entry}" for key, entry in value.items())
    if isinstance(value, (list, tuple, set, range)):
        return ",".join(str(entry) for entry in value)
    return str(value)


def _is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _user_scripts():
    scheme = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else "posix_user"
    return sysconfig.get_path("scripts", scheme)
