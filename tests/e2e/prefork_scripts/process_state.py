"""What a process inherits or is started with."""
import faulthandler
import gc
import locale
import os
import resource
import signal
import sys
import threading


def status(name):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(name + ":"))


def open_descriptors():
    names = [name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]  # less the folder's own
    return sorted("ddprun's" if name == os.environ.get("DDPRUN_CHANNEL_FD") else name for name in names)


def children():
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None


umask = os.umask(0)
os.umask(umask)
handlers = [signal.getsignal(getattr(signal, name)) for name in "SIGINT SIGTERM SIGPIPE SIGHUP SIGCHLD SIGUSR1".split()]
streams = [sys.stdin, sys.stdout, sys.stderr]
facts = {
    "cwd": os.getcwd(), "umask": umask, "handlers": handlers, "blocked": status("SigBlk"), "ignored": status("SigIgn"),
    "caught": status("SigCgt"), "nice": os.nice(0), "core": resource.getrlimit(resource.RLIMIT_CORE),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE), "oom_score_adj": open("/proc/self/oom_score_adj").read().strip(),
    "isatty": [stream.isatty() for stream in streams], "encoding": [(stream.encoding, stream.errors) for stream in streams],
    "buffering": [(stream.line_buffering, stream.write_through) for stream in streams],
    "names": [(stream.name, stream.mode, type(stream.buffer).__name__) for stream in streams],
    "originals": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    "descriptors": open_descriptors(), "children": children(), "session": os.getsid(0) == os.getpid(),
    "group": os.getpgid(0) == os.getpid(), "cpus": len(os.sched_getaffinity(0)), "comm": open("/proc/self/comm").read().strip(),
    "threads": status("Threads"), "main thread": threading.current_thread() is threading.main_thread(),
    "thread": (threading.current_thread().name, threading.main_thread().native_id == os.getpid(), threading.active_count()),
    "gc": (gc.isenabled(), gc.get_threshold(), gc.get_debug()), "faulthandler": faulthandler.is_enabled(),
    "limits": (sys.getrecursionlimit(), sys.getswitchinterval()), "locale": locale.setlocale(locale.LC_ALL),
    "trace": (sys.gettrace(), sys.getprofile()), "flags": sys.flags, "executable": os.path.basename(sys.executable),
    "prefix": sys.prefix != sys.base_prefix, "argv": sys.argv,
}
sys.stdout.write("".join(f"rank {os.environ['RANK']}: {name}: {value}\n" for name, value in facts.items()))
sys.stderr.write(f"rank {os.environ['RANK']}: on stderr\n")
