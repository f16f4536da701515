"""Lets the agent read PyTorch's own record of this rank's collectives (its flight recorder), which it does when ranks seem to
stand still: PyTorch answers by threads in C++, so also while this one holds Python's lock.

PyTorch 2.15 records every backend's collectives; older ones, NCCL's alone. The record does not say which ranks a group has,
except NCCL's: that is in a file beside the socket."""
import atexit
import contextlib
import ctypes
import functools
import inspect
import json
import os

_VARIABLE = "DDPRUN_RECORD"  # a path: PyTorch's socket is <path>.sock, the groups' ranks are in <path>.groups
_SPARE_THREADS = 64          # that others may start meanwhile
_ERROR = 2                   # the lowest level of c10's log at which the server's lines are not printed


@functools.cache
def open_once():
    """Once there is a process group. Nothing is opened where PyTorch has no such server, or this is no worker of ddprun."""
    if path := os.environ.get(_VARIABLE):
        with contextlib.suppress(Exception):  # the script is what counts
            from torch.distributed import distributed_c10d
            _Groups(path).follow(distributed_c10d)


def _open(path):
    import torch
    from torch._C._distributed_c10d import _WorkerServer
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    log_level = ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    if not _has_room_for(max(8, os.cpu_count() - 1) + _SPARE_THREADS):
        return
    folder, name = os.path.split(path)
    socket = path + ".sock"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket)  # of the round before
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    level, log_level.value = log_level.value, max(log_level.value, _ERROR)
    try:
        server = _WorkerServer(f"/proc/self/fd/{opened}/{name}.sock")  # a socket's path is 107 bytes at most
    finally:
        log_level.value = level
        os.close(opened)
    os.chmod(socket, 0o600)
    # For the life of the process: to shut it down may wait for ever (its thread may not listen yet), and prints lines.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    atexit.register(_forget, path, os.getpid())


def _has_room_for(threads):
    """The server's threads, one for each processor but one, are started by C++, which aborts where one cannot be had."""
    import resource
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most != resource.RLIM_INFINITY and os.getuid() != 0:
        with open("/proc/loadavg", encoding="ascii") as file:  # "0.1 0.2 0.3 1/345 6789": those of all users
            if most - int(file.read().split()[3].split("/")[1]) < threads:
                return False
    return all(left >= threads for left in _left_in_cgroups())


def _left_in_cgroups():
    with open("/proc/self/cgroup", encoding="ascii", errors="replace") as file:
        for line in file:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            if controllers not in ("", "pids"):
                continue
            root = "/sys/fs/cgroup" + ("/pids" if controllers else "")
            while True:
                with contextlib.suppress(OSError, ValueError):  # "max" is no number
                    yield _number_in(f"{root}{group}/pids.max") - _number_in(f"{root}{group}/pids.current")
                if group in ("", "/"):
                    break
                group = os.path.dirname(group)


def _number_in(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


def _forget(path, pid):
    """At the end nobody is to ask: what answers is about to be destroyed."""
    if pid == os.getpid():
        for ending in ".sock", ".groups":
            with contextlib.suppress(OSError):
                os.unlink(path + ending)


class _Groups:
    """The global ranks of each process group that this rank is in, by name; [] means all."""

    def __init__(self, path):
        self.path = path
        self.ranks = {}
        self.opened = False

    def follow(self, distributed_c10d):
        world = distributed_c10d._world
        for group, ranks in world.pg_group_ranks.items():
            self.ranks[world.pg_names[group]] = sorted(ranks)
        if self.ranks:
            self.write()
        make = distributed_c10d._new_process_group_helper
        parameters = inspect.signature(make)

        @functools.wraps(make)
        def make_group(*args, **options):
            try:
                made = make(*args, **options)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next  # our frame is none of the script's
                raise
            with contextlib.suppress(Exception):
                given = parameters.bind(*args, **options).arguments
                ranks = list(given["global_ranks_in_group"])
                if not ranks or int(os.environ["RANK"]) in ranks:
                    self.ranks[given["group_name"]] = ranks
                    self.write()
            return made
        distributed_c10d._new_process_group_helper = make_group

    def write(self):
        if not self.opened:
            self.opened = True
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with contextlib.suppress(Exception):
                _open(self.path)
        with open(self.path + ".groups.new", "w", encoding="utf-8") as file:
            json.dump(self.ranks, file)
        os.replace(self.path + ".groups.new", self.path + ".groups")
