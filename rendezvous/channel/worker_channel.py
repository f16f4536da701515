"""The worker channel in Python: a worker reports to the ddprun that started it, and ddprun sends it requests.

This file is all you need: put its folder (share/ddprun) on PYTHONPATH, or copy it next to your script.

    import worker_channel as channel

    channel.attach()                      # once, in the main thread
    channel.handle_signals()              # a SIGTERM asks all ranks to save, and ends nobody
    channel.phase(channel.TRAINING)
    for step in range(first, last):
        ...
        channel.step(step)                # a microsecond: cheap enough for every step
        request = channel.request()
        if request == channel.LEAVE:      # without saving: the job stops because of a failure
            break
        if request is not None and request.kind == "save" and step >= request.step:
            save(step)
            channel.snapshot(step)
            break

Everything is optional. Where nothing was attached, because no ddprun started the program, the functions do nothing. If a
worker that attached dies, the agent detects it in 0.1 ms; otherwise the kernel reports it only after it has freed the
worker's memory, 50 to 100 ms per GB.

Schedulers that preempt a job often send SIGTERM to every process of it. handle_signals() makes that a notice to ddprun
instead of the worker's end: all ranks are then asked to save.

The channel belongs to the process that attached: in a child of os.fork() the functions do nothing. worker_channel.h does
the same for C and C++, and describes the page.
"""
import collections
import ctypes
import mmap
import os
import signal
import struct
import time

LOADING, JOINING, TRAINING, EVALUATING, SAVING, FINISHING = range(1, 7)

Request = collections.namedtuple("Request", "kind step")
LEAVE = Request("leave", 0)

_VARIABLE = "DDPRUN_CHANNEL_FD"
_PREEMPT_SIGNALS_VARIABLE = "DDPRUN_PREEMPT_SIGNALS"  # numbers, "15,10"; not set: 15
_MAGIC, _VERSION, _BYTES = 0x6C6E6863706464, 1, 4096
_ATTACHED, _LOCK_OFFSET, _NOTICES, _LOCK, _LOCK_BYTES = 64, 68, 72, 128, 128
_STEP, _PHASE, _SNAPSHOT, _THROUGHPUT, _REQUEST, _NOTICE = (offset // 8 for offset in (256, 320, 384, 448, 512, 576))
_MIX, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
_TID_MASK, _OWNER_DEAD, _FUTEX_WAKE = 0x3FFFFFFF, 130, 1
_MAP_FAILED = ctypes.c_void_p(-1).value
_SYS_FUTEX = {"x86_64": 202, "ppc64le": 221, "s390x": 238}.get(os.uname().machine, 98)

_page = None   # the mapping
_words = None  # the page as 64-bit words


def attach():
    """True if there is a channel. Call it in the main thread; a second call does no harm."""
    if _page is None:
        _map()
    if _page is not None and _thread_id() == os.getpid() and not _take_lock():
        _detach()
    return _page is not None


def phase(phase):
    """What the worker is about to do: LOADING, JOINING, TRAINING, EVALUATING, SAVING or FINISHING."""
    if _words is not None:
        _write(_PHASE, phase)


def step(step):
    """Reports that this step is done."""
    if _words is not None:
        _write(_STEP, step, (_words[_STEP + 1] + 1) & _MASK)


def snapshot(step):
    """Reports that a snapshot of the state after this step is complete and safe on disk."""
    if _words is not None:
        _write(_SNAPSHOT, step)


def throughput(samples_per_s):
    if _words is not None:
        _write(_THROUGHPUT, struct.unpack("Q", struct.pack("d", samples_per_s))[0])


def request():
    """None, LEAVE, or Request("save", step): save at the end of that step, the same one on every rank, then exit."""
    if _words is None:
        return None
    kind, at_step, at, check = _words[_REQUEST:_REQUEST + 4]
    if check != _check(kind, at_step, at):
        return None  # there is none, or it is just being written
    return {1: Request("save", at_step), 2: LEAVE}.get(kind)


def notice(signum):
    """Reports that this process got a signal by which a preemption may be announced: ddprun then asks all ranks to save."""
    if _words is not None:
        _write(_NOTICE, signum)
        _add(_NOTICES)


def on_signal(signum, frame=None):
    """For programs with a handler of their own: call it there. Before a request the signal is a notice, after a request to
    save nothing, and after a request to leave it ends the process, as ddprun sends it then."""
    asked = request()
    if asked == LEAVE or _words is None:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
    elif asked is None:
        notice(signum)


def handle_signals():
    """Handles the signals that announce a preemption by on_signal() from now on, where the program has no handler. Call it
    in the main thread, after attach(), the sooner the better: a worker without it ends by them, and what it has done since
    its last snapshot is lost."""
    if _words is None:
        return
    for number in os.environ.get(_PREEMPT_SIGNALS_VARIABLE, "15").split(","):
        if number.isdigit() and signal.getsignal(int(number)) == signal.SIG_DFL:
            signal.signal(int(number), on_signal)


def _check(first, second, at):
    check = (_MIX ^ first) * _MIX & _MASK
    check = (check ^ second) * _MIX & _MASK
    return (check ^ at) * _MIX & _MASK


def _write(record, first, second=0):
    first &= _MASK
    now = time.monotonic_ns()
    words = _words
    words[record] = first
    words[record + 1] = second
    words[record + 2] = now
    words[record + 3] = _check(first, second, now)


def _map():
    global _page, _words
    try:
        fd = int(os.environ[_VARIABLE])
        if os.fstat(fd).st_size != _BYTES:
            return  # the number is now another file's
    except (KeyError, ValueError, OSError, OverflowError):
        return
    # Not by mmap.mmap: Python would unmap it, and the lock in it, before its shutdown is complete.
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(_BYTES), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd,
                        ctypes.c_long(0))
    if address == _MAP_FAILED:
        return
    page = (ctypes.c_char * _BYTES).from_address(address)
    if struct.unpack_from("QII", page) == (_MAGIC, _VERSION, _BYTES):
        _page, _words = page, memoryview(page).cast("B").cast("Q")


def _detach():
    global _page, _words
    _page = _words = None


def _thread_id():
    import threading
    return threading.get_native_id()


def _at(offset):
    return ctypes.byref(_page, offset)


def _lock_word(thread_id):
    """The C library does not document where in the lock it keeps the owner's thread id: searches for ours."""
    words = struct.unpack_from("10I", _page, _LOCK)
    return next((_LOCK + 4 * i for i, word in enumerate(words) if word & _TID_MASK == thread_id), 0)


def _take_lock():
    """False if another living process has it. The kernel marks it when its owner dies, before it frees any memory."""
    libc = ctypes.CDLL(None)
    if struct.unpack_from("I", _page, _LOCK_OFFSET)[0] == 0:
        kind = ctypes.create_string_buffer(64)
        libc.pthread_mutexattr_init(kind)
        libc.pthread_mutexattr_setpshared(kind, 1)
        libc.pthread_mutexattr_setrobust(kind, 1)
        libc.pthread_mutex_init(_at(_LOCK), kind)
    error = libc.pthread_mutex_trylock(_at(_LOCK))
    if error == _OWNER_DEAD:  # our own, from before an exec
        error = libc.pthread_mutex_consistent(_at(_LOCK))
    if error != 0:
        return _lock_word(_thread_id()) != 0  # a second call
    struct.pack_into("I", _page, _LOCK_OFFSET, _lock_word(_thread_id()))
    _add(_ATTACHED)
    return True


def _add(counter):
    """Increments the counter and wakes who waits for it."""
    struct.pack_into("I", _page, counter, struct.unpack_from("I", _page, counter)[0] + 1 & 0xFFFFFFFF)
    ctypes.CDLL(None).syscall(ctypes.c_long(_SYS_FUTEX), _at(counter), _FUTEX_WAKE, 0x7FFFFFFF, None, None, 0)


os.register_at_fork(after_in_child=_detach)
