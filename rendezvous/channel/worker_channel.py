"""The worker channel in Python: a worker reports to the ddprun that started it, and ddprun sends it requests.

Every worker that ddprun starts can import it; so can who has installed the wheel. As a file of its own it is
share/ddprun/worker_channel.py, to be copied next to a script. Where it finds ddprun's libddprun_channel.so, that does what a
training step reports, in a third of the time.

    from ddprun import channel

    channel.attach()                      # once, in the main thread
    channel.handle_signals()              # a SIGTERM asks all ranks to save, and ends nobody
    channel.phase(channel.TRAINING)
    for step in range(first, last):
        ...
        channel.step(step)                # a microsecond at most: cheap enough for every step
        request = channel.request()
        if request == channel.LEAVE:      # without saving: the job stops because of a failure
            break
        if request is not None and request.kind == "save" and step >= request.step:
            save(step)
            channel.snapshot(step)
            break
        if request is not None and request.kind == "snapshot" and step >= request.step:
            save(step)                    # ddprun ctl snapshot: the same, and goes on
            channel.snapshot(step)

A script with PyTorch gets most of it by one line, after its DistributedDataParallel:

    channel.watch(model)                  # reports phases, steps and beats; see there. It needs the package ddprun

Beats tell the culprit of a hang from its victims, and a slow loader from slow computing:

    channel.beat(channel.LOAD)            # a microsecond each, too
    batch = next(batches)
    channel.beat(channel.COMPUTE)
    ...
    with channel.wait("reduce"):          # blocks until all ranks have called it
        all_reduce(gradients)

Under ddprun --memory-snapshots a rank may keep bytes that outlive it, for the next round:

    channel.keep(step, buffer)            # a copy, no disk
    for step in channel.kept_steps():     # of the rounds before, the newest first; two at most
        buffer = channel.kept(step)
    channel.keep(step, buffer, copy=True) # the next node has a copy: for states that differ by rank

Everything is optional. Where nothing was attached, because no ddprun started the program, the functions do nothing. If a
worker that attached dies, the agent detects it in 0.1 ms; otherwise the kernel reports it only after it has freed the
worker's memory, 50 to 100 ms per GB.

Schedulers that preempt a job often send SIGTERM to every process of it. handle_signals() makes that a notice to ddprun
instead of the worker's end: all ranks are then asked to save.

The channel belongs to the process that attached: in a child of os.fork() the functions do nothing. worker_channel.h does
the same for C and C++, and describes the page.
"""
import collections
import contextlib
import ctypes
import functools
import mmap
import os
import signal
import struct
import sys
import threading
import time

LOADING, JOINING, TRAINING, EVALUATING, SAVING, FINISHING = range(1, 7)
NONE, LOAD, COMPUTE, WAIT = range(4)  # beats

Request = collections.namedtuple("Request", "kind step")
LEAVE = Request("leave", 0)

_VARIABLE = "DDPRUN_CHANNEL_FD"
_PREEMPT_SIGNALS_VARIABLE = "DDPRUN_PREEMPT_SIGNALS"  # numbers, "15,10"; not set: 15
_MAGIC, _VERSION, _BYTES = 0x6C6E6863706464, 1, 4096
_ATTACHED, _LOCK_OFFSET, _NOTICES, _INFERRED, _LOCK, _LOCK_BYTES = 64, 68, 72, 76, 128, 128
_STEP, _PHASE, _SNAPSHOT, _THROUGHPUT, _REQUEST, _NOTICE = (offset // 8 for offset in (256, 320, 384, 448, 512, 576))
_BEAT_OFFSET, _PHASE_TIMES_OFFSET, _FIRST_STEP, _OUTLOOK = 640, 3840, 3968 // 8, 4032 // 8
_FILE = _SNAPSHOT + 4
_BEAT, _BEAT_TIME = _BEAT_OFFSET // 8, _BEAT_OFFSET // 8 + 2
_MIX, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
_MIX_TWICE = _MIX * _MIX & _MASK
_ONE_WAIT = 1 << 8  # in the beat's first word, above its kind
_TID_MASK, _OWNER_DEAD, _FUTEX_WAKE = 0x3FFFFFFF, 130, 1
_MAP_FAILED = ctypes.c_void_p(-1).value
_PR_SET_PTRACER = 0x59616D61
_SYS_FUTEX = {"x86_64": 202, "ppc64le": 221, "s390x": 238}.get(os.uname().machine, 98)

_page = None   # the mapping
_words = None  # the page as 64-bit words
_library_beat = _library_step = _library_signals = None  # channel_library.cpp's, or nothing
_library_computes = _library_stepped = _library_use = None
_is_child = False  # of os.fork(): the page is the parent's
_script_steps = False  # the script reports its steps itself
_last_beat = (-1,)     # what beat() has written, and parts of its checks
_read_beat = struct.Struct("Q8xQ8x3Q").unpack_from  # first, time_ns, spent_ns
_store_beat = struct.Struct("8Q").pack_into
_PHASE_TIMES = struct.Struct("10Q")  # phase, time_ns, attached_ns, work_ns, spent_ns
_now = time.monotonic_ns


def attach():
    """True if there is a channel. Call it in the main thread; a second call does no harm."""
    _watch.leave_to_script()
    return _attach()


def _attach():
    if _page is None:
        _map()
        if _page is not None:
            struct.pack_into("I", _page, _INFERRED, 0)
    if _page is not None:  # the agent, and what it starts, may read this process, to print its stacks if it hangs
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(os.getppid()), *[ctypes.c_ulong()] * 3)
    if _page is not None and _thread_id() == os.getpid() and not _take_lock():
        _detach()
    if _words is not None and _PHASE_TIMES.unpack_from(_words, _PHASE_TIMES_OFFSET)[2] == 0:
        _write_phase_times(0)
    return _page is not None


def phase(phase):
    """What the worker is about to do: LOADING, JOINING, TRAINING, EVALUATING, SAVING or FINISHING. TRAINING begins with
    the beat COMPUTE; time in other phases is not counted, but for waits."""
    if _words is not None:
        _write_phase(phase)
        beat(COMPUTE if phase == TRAINING else NONE)


def beat(kind, _named=0):
    """Reports what this worker does from now on: LOAD (waits for data) or COMPUTE, or NONE. WAIT within a wait changes
    nothing; else it begins one without a name. Returns the beat before."""
    if _library_beat is not None:
        return _library_beat(kind, _named)
    # One function, and no more operations on large numbers than these: it has to take about 1 us. The checks are those of
    # worker_channel.h, with the parts kept that seldom change.
    global _last_beat
    words = _words
    if words is None:
        return NONE
    if words[_BEAT_TIME] != _last_beat[0]:  # the first one, or somebody else's, as the C++ library's
        _last_beat = _beat_of_page()
    since, before, waits, mixed_waits, load, compute, waited, mixed_spent = _last_beat
    now = _now()
    if before == COMPUTE:
        compute += now - since
        mixed_spent = mixed_spent + (now - since) * _MIX & _MASK
    elif before == LOAD:
        load += now - since
    elif before == WAIT:
        if kind == WAIT:
            return WAIT
        waited += now - since
        mixed_spent = mixed_spent + now - since & _MASK
    if kind == WAIT:
        waits += _ONE_WAIT
        mixed_waits = (_MIX ^ waits) * _MIX_TWICE & _MASK
        check = mixed_waits + _MIXED_KINDS[WAIT] + _named * _MIX + now & _MASK
    else:
        check = mixed_waits + _MIXED_KINDS[kind] + now & _MASK
    _store_beat(words, _BEAT_OFFSET, waits + kind, _named, now, check, load, compute, waited,
                (check ^ load) * _MIX_TWICE + mixed_spent & _MASK)
    _last_beat = now, kind, waits, mixed_waits, load, compute, waited, mixed_spent
    return before


def begin_wait(collective):
    """Reports that this worker waits for the other ranks in a collective of this name (up to 8 characters are kept): pass
    what it returns, the beat before, to beat() when it is over. Within a wait it changes nothing: the outer name counts."""
    return beat(WAIT, _name(collective))


class wait:
    """Waits in a collective while the block runs: with channel.wait("reduce"): ..."""
    __slots__ = ("_collective", "_before")

    def __init__(self, collective):
        self._collective = collective

    def __enter__(self):
        self._before = begin_wait(self._collective)

    def __exit__(self, *_):
        beat(self._before)


def step(step):
    """Reports that this step is done."""
    global _script_steps
    if _words is not None:
        # The first one that the script reports is the one that watch() has reported just now.
        repeated = not _script_steps and _watch.reported_steps
        if not _script_steps:
            _write(_FIRST_STEP, step)
            _watch.steady = None
        _script_steps = True
        _report_step(step, not repeated)


def snapshot(step, size=0):
    """Reports that a snapshot of the state after this step is complete and safe on disk.

    size: the bytes that this rank has written for it, 0 if they are not known."""
    if _words is not None:
        _write(_SNAPSHOT, step, size)


def throughput(samples_per_s):
    if _words is not None:
        _write(_THROUGHPUT, struct.unpack("Q", struct.pack("d", samples_per_s))[0])


def loss(step, value):
    """The training loss of this step, as ddprun status and its metrics show it: once a second is enough."""
    if _words is not None:
        _write_outlook(struct.unpack("Q", struct.pack("d", value))[0], step, _words[_OUTLOOK + 2])


def total_steps(steps):
    """The number of the step that will be the last one."""
    if _words is not None:
        known = _words[_OUTLOOK + 3] != 0
        no_loss = struct.unpack("Q", struct.pack("d", float("nan")))[0]
        _write_outlook(_words[_OUTLOOK] if known else no_loss, _words[_OUTLOOK + 1], steps)


def request():
    """None, LEAVE, Request("save", step): save at the end of that step, the same one on every rank, then exit, or
    Request("snapshot", step): the same without the exit; it is over once snapshot() reports that step or a later one."""
    if _words is None:
        return None
    kind, at_step, at, check = _words[_REQUEST:_REQUEST + 4]
    if check != _check(kind, at_step, at):
        return None  # there is none, or it is just being written
    if kind == 3:
        step, second, since, its_check = _words[_SNAPSHOT:_SNAPSHOT + 4]
        done = its_check == _check(step, second, since) and since >= at and step >= at_step
        return None if done else Request("snapshot", at_step)
    return {1: Request("save", at_step), 2: LEAVE}.get(kind)


def keep(step, data, copy=False):
    """Keeps these bytes (anything with a buffer) as the state after that step, for the next round of the job; those of the
    step before stay, too. True if they are kept: ddprun --memory-snapshots has room for two in each rank's share of it.

    With copy=True they are this rank's in a world of this size, and the next node of the round gets a copy, so that the
    rank finds them again if this node is lost. All ranks keep the same steps, with a collective between two of them; room
    is for a third of what fits without copies. Waits until the copy of the step before has arrived; once that has taken
    ten seconds it goes on, and waits no more until a copy arrives. A program keeps all its snapshots with copies, or none."""
    view = memoryview(data).cast("B")
    if copy:
        return _keep_with_copy(step, view)
    fd, _, _, bytes_max = _snapshot_memory()
    if fd < 0 or view.nbytes > bytes_max:
        return False
    kept = _kept_slots(fd)
    # One of a step that this round does again, else the older one.
    slot = min((0, 1), key=lambda slot: (kept[slot][1] < step, kept[slot][0]) if slot in kept else (False, 0))
    sequence = max((one[0] for one in kept.values()), default=0) + 1
    place = _slot_place(slot)
    os.pwrite(fd, struct.pack("Q", 0), place)
    _write_all(fd, view, place + _PAGE)
    os.pwrite(fd, struct.pack("5Q", 0, step, sequence, view.nbytes, 0), place + 8)
    os.pwrite(fd, struct.pack("Q", 1), place)  # from now on it counts
    return True


def kept_steps():
    """The steps of what this rank's place on this node has kept, the newest first. Ranks may differ by one step, and a
    node that has joined has none: agree on one before loading.

    Of snapshots with copies: what was kept for this rank of a world of this size, on any node. When a round begins that is
    the newest step that all ranks have kept, or none; a rank that could not get its own has none."""
    if _copies_are_kept():
        return sorted({step for _, step, _, _ in _copies()}, reverse=True)
    kept = sorted(_kept_slots(_snapshot_memory()[0]).values(), reverse=True)
    return [step for at, (_, step, _) in enumerate(kept) if at == 0 or step < kept[0][1]]  # else of a round that went back


def kept(step):
    """The bytes that were kept for that step, or None."""
    if _copies_are_kept():
        # Of the last round, in its own slots if they have it: the agent writes the others.
        found = max((one for one in _copies() if one[1] == step), key=lambda one: (one[0], -one[2]), default=None)
        return _read_all(_copy_memory()[0], found[2], found[3]) if found else None
    fd = _snapshot_memory()[0]
    for slot, (_, of_step, size) in _kept_slots(fd).items():
        if of_step == step and step in kept_steps():
            return _read_all(fd, _slot_place(slot) + _PAGE, size)
    return None


def notice(signum):
    """Reports that this process got a signal by which a preemption may be announced: ddprun then asks all ranks to save."""
    if _words is not None:
        _write(_NOTICE, signum)
        _add(_NOTICES)


def on_signal(signum, frame=None):
    """For programs with a handler of their own: call it there. Before a request the signal is a notice, after a request to
    save and exit nothing, and after one to leave it ends the process, as ddprun sends it then."""
    asked = request()
    if asked == LEAVE or _words is None:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
    elif asked is None or asked.kind == "snapshot":
        notice(signum)


def handle_signals():
    """Handles the signals that announce a preemption by on_signal() from now on, where the program has no handler. Call it
    in the main thread, after attach(), the sooner the better: a worker without it ends by them, and what it has done since
    its last snapshot is lost. Where ddprun's library is found the handler is compiled: it also runs while Python waits in a
    call, as in a collective; to Python the signal then seems to have none."""
    if _words is None:
        return
    if _library_signals is not None:
        return _library_signals[0]()
    for number in _preempt_signals():
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, on_signal)


def _leave_signals():
    """The handlers of handle_signals() are removed."""
    if _library_signals is not None:
        return _library_signals[1]()
    for number in _preempt_signals():
        if signal.getsignal(number) == on_signal:
            signal.signal(number, signal.SIG_DFL)


def _preempt_signals():
    return [int(number) for number in os.environ.get(_PREEMPT_SIGNALS_VARIABLE, "15").split(",") if number.isdigit()]


# The layout is that of rendezvous/memory/snapshot_memory.h.
_MEMORY_VARIABLE, _MEMORY_MAGIC, _MEMORY_VERSION, _PAGE = "DDPRUN_SNAPSHOT_MEMORY", 0x70616E73706464, 1, 4096


@functools.lru_cache(maxsize=None)
def _snapshot_memory():
    """Its descriptor (-1: there is none), the place of this rank's first slot, the distance to the second, and the most
    bytes of one snapshot."""
    try:
        fd, local_rank = map(int, os.environ[_MEMORY_VARIABLE].split(":"))
        magic, version, areas, size = struct.unpack("4Q", os.pread(fd, 32, 0))
        if (magic, version) == (_MEMORY_MAGIC, _MEMORY_VERSION) and 0 <= local_rank < areas - 1:
            span = _PAGE + -(-(size // 2) // _PAGE) * _PAGE
            return fd, _PAGE + 2 * (1 + local_rank) * span, span, size // 2 // (areas - 1)
    except (KeyError, ValueError, OSError, OverflowError, struct.error):
        pass
    return -1, 0, 0, 0


def _slot_place(slot):
    _, first, span, _ = _snapshot_memory()
    return first + slot * span


def _kept_slots(fd):
    """By slot: sequence, step and size of what is complete."""
    slots = {}
    for slot in (0, 1) if fd >= 0 else ():
        complete, _, step, sequence, size, _ = struct.unpack("6Q", os.pread(fd, 48, _slot_place(slot)))
        if complete == 1:
            slots[slot] = sequence, step, size
    return slots


def _write_all(fd, view, place):
    done = 0
    while done < view.nbytes:
        done += os.pwrite(fd, view[done:], place + done)


def _read_all(fd, place, size):
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size and (count := os.preadv(fd, [view[done:]], place + done)):
        done += count
    return bytes(data) if done == size else None


# The layout is that of rendezvous/memory/copy_memory.h.
_COPIES_VARIABLE, _COPIES_MAGIC, _COPIES_VERSION, _COPY_SLOTS = "DDPRUN_SNAPSHOT_COPIES", 0x79706F63706464, 1, 3
_COPIED_AT, _NEIGHBOUR_AT, _WANTED_AT = 56, 56, 64
_COPY_LIMIT_S = 10.0  # for the copy of the step before to arrive

_copy_is_late = False
_Round = collections.namedtuple("Round", "number rank world_size")


@functools.lru_cache(maxsize=None)
def _copy_memory():
    """Its descriptor (-1: there is none), the local rank, a node's local ranks, and the bytes of one slot."""
    try:
        fd, local_rank = int(os.environ[_COPIES_VARIABLE]), int(os.environ[_MEMORY_VARIABLE].split(":")[1])
        magic, version, places, size = struct.unpack("4Q", os.pread(fd, 32, 0))
        if (magic, version) == (_COPIES_MAGIC, _COPIES_VERSION) and 0 <= local_rank < places:
            return fd, local_rank, places, size
    except (KeyError, ValueError, IndexError, OSError, OverflowError, struct.error):
        pass
    return -1, 0, 0, 0


def _round_of_copies():
    fd, local_rank, _, _ = _copy_memory()
    number, first_rank, world_size = struct.unpack("3Q", os.pread(fd, 24, 32))
    return _Round(number, first_rank + local_rank, world_size)


def _number_at(fd, place):
    return struct.unpack("Q", os.pread(fd, 8, place))[0]


def _copies_are_kept():
    fd = _copy_memory()[0]
    return fd >= 0 and _number_at(fd, _WANTED_AT) != 0


def _copy_slot_place(slot):
    size = _copy_memory()[3]
    return _PAGE + slot * (_PAGE + -(-size // _PAGE) * _PAGE)


def _copy_slot(slot):
    """Complete or not, round, step, rank, world size, size, sequence, sequence that the next node has."""
    return struct.unpack("8Q", os.pread(_copy_memory()[0], 64, _copy_slot_place(slot)))


def _copies():
    """What is complete of this rank: round, step, place and size of the content."""
    fd, _, places, _ = _copy_memory()
    now = _round_of_copies()
    for slot in range(2 * _COPY_SLOTS * places) if fd >= 0 else ():
        complete, number, step, rank, world_size, size, _, _ = _copy_slot(slot)
        if complete == 1 and (rank, world_size) == (now.rank, now.world_size):
            yield number, step, _copy_slot_place(slot) + _PAGE, size


def _keep_with_copy(step, view):
    fd, local_rank, _, bytes_max = _copy_memory()
    if fd < 0 or view.nbytes > bytes_max:
        return False
    now = _round_of_copies()
    own = range(_COPY_SLOTS * local_rank, _COPY_SLOTS * (local_rank + 1))
    slots = {slot: _copy_slot(slot) for slot in own}
    complete = {slot: head[1:3] for slot, head in slots.items() if head[0] == 1}  # round and step
    if complete:
        _await_copy(fd, max(complete, key=complete.get))
    # One of the same step, an empty one, or the oldest.
    slot = min(own, key=lambda slot: (complete.get(slot) != (now.number, step), slot in complete, complete.get(slot, ())))
    sequence = max(head[6] for head in slots.values()) + 1
    place = _copy_slot_place(slot)
    os.pwrite(fd, struct.pack("8Q", 0, now.number, step, now.rank, now.world_size, view.nbytes, sequence, 0), place)
    _write_all(fd, view, place + _PAGE)
    os.pwrite(fd, struct.pack("Q", 1), _WANTED_AT)
    os.pwrite(fd, struct.pack("Q", 1), place)  # from now on it counts
    return True


def _await_copy(fd, slot):
    global _copy_is_late
    sequence, copied_at, pause = _copy_slot(slot)[6], _copy_slot_place(slot) + _COPIED_AT, 0.0002
    limit = time.monotonic() + (0 if _copy_is_late else _COPY_LIMIT_S)
    while _number_at(fd, copied_at) != sequence and _number_at(fd, _NEIGHBOUR_AT) == 1:
        if time.monotonic() >= limit:
            _copy_is_late = True
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.005)
    _copy_is_late = False


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


def _write_outlook(loss, loss_step, total):
    now = _now()
    check = (_check(loss, loss_step, total) ^ now) * _MIX & _MASK
    for at, value in enumerate((loss, loss_step, total, now, check)):
        _words[_OUTLOOK + at] = value


def _write_phase(phase):
    _write(_PHASE, phase)
    _write_phase_times(phase)


def _write_phase_times(phase):
    """As ddprun_channel_write_times_() of worker_channel.h."""
    before, since, attached, began, *spent = _PHASE_TIMES.unpack_from(_words, _PHASE_TIMES_OFFSET)
    now = _now()
    if began and LOADING <= before <= FINISHING and now > since:
        spent[before - LOADING] = spent[before - LOADING] + now - since & _MASK
    if not began and phase in (TRAINING, EVALUATING):
        began = now
    values = phase & _MASK, now, attached or now, began, *spent
    check = _MIX
    for value in values:
        check = (check ^ value) * _MIX & _MASK
    _PHASE_TIMES.pack_into(_words, _PHASE_TIMES_OFFSET, *values)
    _words[_PHASE_TIMES_OFFSET // 8 + len(values)] = check


def _report_step(step, more):
    if _library_step is not None:
        _library_step(step, more)
    else:
        _write(_STEP, step, _words[_STEP + 1] + more & _MASK)


def _beat_of_page():
    """As _last_beat, with sums that stay below 64 bits."""
    first, since, *spent = _read_beat(_words, _BEAT_OFFSET)
    kind, waits = first & 0xFF, first & _MASK - 0xFF
    load, compute, waited = (time_ns & _MASK >> 1 for time_ns in spent)
    return (min(since, _now()), kind if kind <= WAIT else NONE, waits, (_MIX ^ waits) * _MIX_TWICE & _MASK,
            load, compute, waited, compute * _MIX + waited & _MASK)


@functools.lru_cache
def _name(collective):
    return int.from_bytes(collective.encode("ascii", "replace")[:8].ljust(8, b"\0"), sys.byteorder)


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
        _load_library()


def _library_paths():
    """Where ddprun keeps it: beside the program that is this worker's parent, and beside this file where it is installed."""
    folders = []
    with contextlib.suppress(OSError):
        folders.append(os.path.dirname(os.path.dirname(os.readlink(f"/proc/{os.getppid()}/exe"))))
    here = os.path.dirname(os.path.abspath(__file__))
    for place in "/share/ddprun", "/share/ddprun/python/ddprun":
        if here.endswith(place):
            folders.append(here[:-len(place)])
    return [path for folder in folders if os.path.exists(path := folder + "/lib/ddprun/libddprun_channel.so")]


def _load_library():
    global _library_beat, _library_step, _library_signals, _library_computes, _library_stepped, _library_use
    for path in _library_paths():
        with contextlib.suppress(OSError, AttributeError):  # for another machine, or of another version
            library = ctypes.PyDLL(path)  # keeps Python's lock: a report is shorter than giving it up
            use, beats, steps = library.ddprun_channel_v1_use, library.ddprun_channel_v1_beat, library.ddprun_channel_v1_step
            use.argtypes, use.restype = [ctypes.c_void_p], None
            beats.argtypes, beats.restype = [ctypes.c_uint, ctypes.c_uint64], ctypes.c_uint
            steps.argtypes, steps.restype = [ctypes.c_uint64, ctypes.c_uint], None
            use(ctypes.addressof(_page))
            _library_beat, _library_step, _library_use = beats, steps, use
            with contextlib.suppress(AttributeError, ValueError):  # an older one; a Python without these functions
                function = library.ddprun_channel_v2_function
                function.argtypes, function.restype = [ctypes.c_uint], ctypes.py_object
                _library_beat, _library_step, _library_computes, _library_stepped = map(function, range(4))
            with contextlib.suppress(AttributeError):  # an older one
                _library_signals = library.ddprun_channel_v1_handle_signals, library.ddprun_channel_v1_leave_signals
            return


def _detach():
    global _page, _words, _library_beat, _library_step, _library_signals, _library_computes, _library_stepped
    if _is_child and _library_use is not None:
        _library_use(None)  # for who has kept one of its functions
    _page = _words = _library_beat = _library_step = _library_signals = _library_computes = _library_stepped = None


def _after_fork():
    global _is_child
    _watch.unasked, _is_child = 0, True
    _detach()


def _thread_id():
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


os.register_at_fork(after_in_child=_after_fork)

# What each kind adds to (_MIX ^ first) * _MIX_TWICE, where `first` is the number of waits without a kind.
_MIXED_KINDS = tuple(((_MIX ^ kind) - _MIX) * _MIX_TWICE & _MASK for kind in (NONE, LOAD, COMPUTE, WAIT))


def watch(model, collectives=True, saves=True):
    """Reports phases, steps and beats of a training script with PyTorch; call it once after wrapping the model:

        model = DistributedDataParallel(model)
        channel.watch(model)

    It attaches, and returns the model. Results stay the same bit for bit: there is no communication hook, and no tensor is
    touched. Without ddprun it changes nothing.
    - A forward pass begins COMPUTE; one in eval mode or without gradients, also of the module within
      DistributedDataParallel, is the phase EVALUATING, until the next one that trains.
    - DistributedDataParallel's wait for gradients at the end of backward is WAIT "grads".
    - After an optimizer's step LOAD begins, until the next forward pass. The step is reported, counted from 1; as soon as
      the script calls step() itself, its numbers count.
    - collectives: blocking collectives of torch.distributed are WAIT, and the iterator of a DataLoader is LOAD while it
      waits. Both are replaced where they are looked up, so call watch() before `from torch.distributed import barrier`.
    - saves: torch.save() is the phase SAVING for its duration.
    Only the calling thread is reported. With NCCL a collective returns once it is enqueued, so the time spent in it is
    reported where the script waits for the GPU. A model that is pickled leaves the hooks behind. PyTorch 2.3 or later. The
    rest of it is in the package ddprun, which every worker that ddprun starts can import.
    """
    if attach() and (watching := _pytorch_watch()) is not None:
        watching.collectives, watching.saves = collectives, saves
        watching.watch_model(model)
    return model


def _pytorch_watch():
    """What watches PyTorch in this process: it is in the package ddprun, and reports by this module."""
    global _watch
    if isinstance(_watch, _Unwatched):
        try:
            from ddprun import _pytorch
        except ImportError as error:
            if os.environ.get("RANK") == "0":
                sys.stderr.write(f"ddprun: channel.watch() reports nothing, as it needs the Python package ddprun ({error}): "
                                 "add its folder, share/ddprun/python of ddprun, to PYTHONPATH\n")
            return None
        _watch = _pytorch.Watch(sys.modules[__name__])
    return _watch


class _Unwatched:
    """Until something is watched. It and its methods are also the hooks of models that were pickled with those of ddprun 0.1."""
    reported_steps, unasked = False, 0

    def __call__(self, *_):
        pass

    leave_to_script = before_forward = after_forward = __call__


_watch, _ParallelForward = _Unwatched(), _Unwatched
