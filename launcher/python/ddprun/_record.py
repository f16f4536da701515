"""Lets the agent read PyTorch's own record of this rank's collectives (its flight recorder), which it does when ranks seem to
stand still: PyTorch answers by a thread in C++, so also while this one holds Python's lock.

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
_ERROR = 2                   # the lowest level of c10's log at which the server's lines are not printed


@functools.cache
def open_once():
    """Nothing is opened where PyTorch has no such server, or this is no worker of ddprun."""
    if path := os.environ.get(_VARIABLE):
        with contextlib.suppress(ImportError, AttributeError, OSError, RuntimeError, ValueError):
            _open(path)


def _open(path):
    import torch
    from torch._C._distributed_c10d import _WorkerServer
    from torch.distributed import distributed_c10d
    log_level = ctypes.c_int.in_dll(ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")), "FLAGS_caffe2_log_level")
    folder, name = os.path.split(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _Groups(path + ".groups").follow(distributed_c10d)
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
    atexit.register(_forget, socket, os.getpid())


def _forget(socket, pid):
    """At the end nobody is to ask: what answers is about to be destroyed."""
    if pid == os.getpid():
        with contextlib.suppress(OSError):
            os.unlink(socket)


class _Groups:
    """The global ranks of each process group that this rank is in, by name; [] means all."""

    def __init__(self, path):
        self.path = path
        self.ranks = {}

    def follow(self, distributed_c10d):
        world = distributed_c10d._world
        for group, ranks in world.pg_group_ranks.items():
            self.ranks[world.pg_names[group]] = sorted(ranks)
        if self.ranks:
            self.write()
        make, parameters = distributed_c10d._new_process_group_helper, None

        @functools.wraps(make)
        def make_group(*args, **options):
            nonlocal parameters
            made = make(*args, **options)
            with contextlib.suppress(Exception):  # the script is what counts
                parameters = parameters or inspect.signature(make)
                given = parameters.bind(*args, **options).arguments
                ranks = list(given["global_ranks_in_group"])
                if not ranks or int(os.environ["RANK"]) in ranks:
                    self.ranks[given["group_name"]] = ranks
                    self.write()
            return made
        distributed_c10d._new_process_group_helper = make_group

    def write(self):
        with open(self.path + ".new", "w") as file:
            json.dump(self.ranks, file)
        os.replace(self.path + ".new", self.path)
