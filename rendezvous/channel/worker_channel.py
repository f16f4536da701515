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

    channel.watch(model)                  # reports phases, steps and beats; see there

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
import weakref

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
_library_beat = _library_step = None  # channel_library.cpp's, or nothing
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
    its last snapshot is lost."""
    if _words is None:
        return
    for number in os.environ.get(_PREEMPT_SIGNALS_VARIABLE, "15").split(","):
        if number.isdigit() and signal.getsignal(int(number)) == signal.SIG_DFL:
            signal.signal(int(number), on_signal)


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
    global _library_beat, _library_step
    for path in _library_paths():
        with contextlib.suppress(OSError, AttributeError):  # for another machine, or of another version
            library = ctypes.PyDLL(path)  # keeps Python's lock: a report is shorter than giving it up
            use, beats, steps = library.ddprun_channel_v1_use, library.ddprun_channel_v1_beat, library.ddprun_channel_v1_step
            use.argtypes, use.restype = [ctypes.c_void_p], None
            beats.argtypes, beats.restype = [ctypes.c_uint, ctypes.c_uint64], ctypes.c_uint
            steps.argtypes, steps.restype = [ctypes.c_uint64, ctypes.c_uint], None
            use(ctypes.addressof(_page))
            _library_beat, _library_step = beats, steps
            return


def _detach():
    global _page, _words, _library_beat, _library_step
    _page = _words = _library_beat = _library_step = None


def _after_fork():
    _watch.unasked = 0
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
    reported where the script waits for the GPU. A model that is pickled as a whole keeps its hooks: where it is loaded,
    this file has to be importable. PyTorch 2.3 or later.
    """
    if attach():
        _watch.collectives, _watch.saves = collectives, saves
        _watch_model(model)
    return model


def _watch_model(model):
    from torch.nn.parallel import DistributedDataParallel
    _watch.begin()
    parallel = getattr(model, "_orig_mod", model)  # torch.compile() holds it there
    if parallel in _watch.models:
        return model
    _watch.models.add(parallel)
    if _watch.collectives:
        _watch.replace_collectives()
    if _watch.saves:
        _watch.replace_save()
    hook = _Unasked if _watch.unasked else lambda hook, _=None: hook
    if not isinstance(parallel, DistributedDataParallel):
        model.register_forward_pre_hook(hook(_watch.before_forward), prepend=True)
        return model
    if parallel.find_unused_parameters or parallel.static_graph:
        model.register_forward_pre_hook(hook(_watch.before_forward), prepend=True)
        model.register_forward_hook(hook(_watch.after_forward, (contextlib.nullcontext(), "__exit__")))
    else:
        model.register_forward_pre_hook(hook(_ParallelForward()), prepend=True)
    if parallel is model and not hasattr(model.module, "_orig_mod"):
        model.module.register_forward_pre_hook(_InnerForward(), prepend=True)
    return model


# The collectives that block, by their names in a beat, which the C++ library uses, too.
_COLLECTIVES = {
    "alltoall": ["all_to_all", "all_to_all_single"],
    "barrier": ["barrier", "monitored_barrier"],
    "bcast": ["broadcast", "broadcast_object_list"],
    "gather": ["all_gather", "all_gather_into_tensor", "all_gather_object", "gather", "gather_object"],
    "recv": ["recv"],
    "redscat": ["reduce_scatter", "reduce_scatter_tensor"],
    "reduce": ["all_reduce", "reduce"],
    "scatter": ["scatter", "scatter_object_list"],
    "send": ["send"],
}


class _ParallelForward:
    """Before the forward pass of a DistributedDataParallel all of whose parameters get gradients: one of them tells of
    each backward, as a hook that stays costs less than one on every output. It is on the node that accumulates the
    gradient, which the reducer keeps alive; the tensor has none."""

    def __init__(self):
        self.hooked = False
        self.expected = False  # the backward of the last forward pass ends in a wait for gradients

    def __call__(self, module, inputs):
        _watch.before_forward(module, inputs)
        if _words is not None and not _watch.off and module.require_backward_grad_sync and _watch.torch.is_grad_enabled():
            _watch.in_backward = False  # the pass before may have ended by an exception
            self.expected = True
            if not self.hooked:
                self.hook(module)

    def hook(self, parallel):
        self.hooked = True
        for name, parameter in parallel.module.named_parameters():
            if parameter.requires_grad and name not in parallel.parameters_to_ignore:
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
                return node.register_prehook(self.before_gradient)

    def before_gradient(self, gradients):
        if self.expected:
            self.expected = False
            _watch.before_backward(gradients)

    def __reduce__(self):  # a copy has nodes of its own
        return _ParallelForward, ()


class _Unasked:
    """A hook of ddprun --watch. A model that is pickled leaves it behind, since nobody expects it where the model is loaded:
    `left` does nothing there. One that is copied has it, too."""

    def __init__(self, hook, left=({}, "get")):
        self.hook, self.left = hook, left

    def __call__(self, *args):
        return self.hook(*args)

    def __deepcopy__(self, memo):
        return _Unasked(_ParallelForward() if isinstance(self.hook, _ParallelForward) else self.hook, self.left)

    def __reduce__(self):
        return getattr, self.left


class _InnerForward:
    """Before the forward pass of a module within DistributedDataParallel, which a rank may evaluate by itself."""

    def __call__(self, module, inputs):
        if not _watch.trains(module) and _watch.reports_here() and _words[_PHASE] != EVALUATING:
            phase(EVALUATING)

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):  # where the module is loaded this file may be missing: there it returns the inputs as they are
        return getattr, ({}, "get")


class _Watch:
    """What watch() adds to PyTorch, once in a process."""

    def __init__(self):
        self.thread = None           # the one that called watch()
        self.torch = None
        self.trained = False         # a forward pass that trains has begun since the last step
        self.reported_steps = False
        self.in_backward = False     # of a pass that ends in a wait for gradients
        self.static_graph = False    # of some model
        self.before_gradients = NONE
        self.replaced = set()
        self.models = weakref.WeakSet()
        self.collectives = self.saves = True
        self.off = False             # the script reports by itself
        self.unasked = 0             # of ddprun --watch: the page's `inferred`; 0: the script has asked
        self.optimizer = self.other = None  # whose steps count there, and the last other one
        self.finds_model = None      # a hook on all modules, until the first one that trains
        self.warning = None          # the filter of PyTorch's warning about that hook
        self.has_model = True

    def __reduce__(self):  # a model that is pickled or copied has the hooks, too
        return "_watch"

    def begin(self):
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook
        if self.torch is None:
            register_optimizer_step_post_hook(self.after_optimizer)
        self.torch, self.thread = torch, threading.get_ident()
        if _page is None:
            return
        self.off = False
        struct.pack_into("I", _page, _INFERRED, self.unasked or 1)
        if _words[_PHASE] == 0:
            phase(LOADING)

    # Of ddprun --watch. Nothing is attached before something trains.
    def begin_unasked(self, inferred):
        from torch.nn.parallel import DistributedDataParallel
        from torch.compiler import is_compiling  # PyTorch 2.3
        self.unasked = inferred
        self.begin()
        original = DistributedDataParallel.__init__

        @functools.wraps(original)
        def construct(parallel, *args, **options):
            original(parallel, *args, **options)
            if self.unasked:
                self.carefully(self.found_parallel, parallel)
        DistributedDataParallel.__init__ = construct

    def carefully(self, do, *args):
        """The script is what counts: it gets no exception of ours."""
        try:
            do(*args)
        except Exception as error:
            self.unasked, self.off = 0, True
            self.stop_finding()
            if os.environ.get("RANK") == "0":
                sys.stderr.write(f"ddprun: --watch sees no more of this script: {type(error).__name__}: {error}\n")

    def attach_unasked(self):
        if threading.get_ident() != self.thread:
            return False
        if _page is None:
            _map()
            if _page is None or struct.unpack_from("I", _page, _ATTACHED)[0] != 0:  # by C++, or a copy of this file
                self.unasked = 0
                _detach()
                return False
        if not _attach():
            self.unasked = 0
        return self.unasked != 0

    def found_parallel(self, parallel):
        if self.attach_unasked():
            self.stop_finding()
            _watch_model(parallel)

    def leave_to_script(self):
        """It uses the channel itself: what it does not ask for is not watched."""
        if self.unasked:
            self.unasked, self.off = 0, True
            self.stop_finding()
            if _page is not None:
                struct.pack_into("I", _page, _INFERRED, 0)

    def first_step_without_model(self):
        if not self.attach_unasked():
            return
        self.begin()
        self.replace_collectives()
        self.replace_save()
        import warnings
        from torch.nn.modules.module import register_module_forward_pre_hook
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")  # which is ours
        self.warning = warnings.filters[0]
        self.finds_model, self.has_model = register_module_forward_pre_hook(self.found_model), False
        phase(TRAINING)

    def found_model(self, module, inputs):
        if not self.torch.compiler.is_compiling() and self.trains(module):
            self.carefully(self.use_model, module, inputs)

    def use_model(self, module, inputs):
        self.stop_finding()
        module.register_forward_pre_hook(_Unasked(self.before_forward), prepend=True)
        self.has_model = True
        self.before_forward(module, inputs)

    def stop_finding(self):
        if self.finds_model is not None:
            import warnings
            self.finds_model.remove()
            self.finds_model = None
            with contextlib.suppress(ValueError):  # the script may have reset them
                warnings.filters.remove(self.warning)

    def trains(self, module):
        return module.training and self.torch.is_grad_enabled()

    def before_forward(self, module, inputs):
        if self.torch is None or self.torch.compiler.is_compiling() or _words is None or self.off:
            return  # in a process that has loaded the model, in a graph that is being made, in one that is not watched
        if not self.trains(module):
            if _words[_PHASE] != EVALUATING:
                phase(EVALUATING)
            return
        self.trained = True
        if _words[_PHASE] == TRAINING:
            beat(COMPUTE)
        else:
            phase(TRAINING)

    def after_forward(self, module, inputs, outputs):
        self.in_backward = False  # the pass before may have ended by an exception
        if _words is None or self.off or not module.require_backward_grad_sync or not self.torch.is_grad_enabled():
            return
        self.static_graph = self.static_graph or module.static_graph
        for tensor in _tensors(outputs, self.torch.Tensor):
            if tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(self.before_backward)

    # The engine runs callbacks after the whole backward, in the order in which they were queued. The reducer's, which
    # waits, was queued by the last gradient; in a static graph's first pass a callback that comes after ours queues it.
    def before_backward(self, gradients):
        if not self.in_backward:
            self.in_backward = True
            self.queue(self.before_wait)

    def before_wait(self):
        self.before_gradients = begin_wait("grads")
        self.queue(self.queue_after_wait if self.static_graph else self.after_wait)

    def queue_after_wait(self):
        self.queue(self.after_wait)

    def after_wait(self):
        self.in_backward = False
        beat(self.before_gradients)

    def queue(self, callback):
        self.torch.autograd.Variable._execution_engine.queue_callback(callback)

    def after_optimizer(self, optimizer, inputs, options):
        if _words is None and self.unasked:
            self.carefully(self.first_step_without_model)
        if _words is None or self.off:
            return
        if self.unasked and struct.unpack_from("I", _page, _INFERRED)[0] != self.unasked:
            self.unasked, self.off = 0, True  # the script reports by a copy of this file
            return self.stop_finding()
        # A compiled model does not tell when it trains.
        done = self.counts(optimizer) if self.unasked else self.trained
        if done and not _script_steps:
            self.reported_steps = True
            _report_step(_words[_STEP] + 1, 1)
        self.trained = False
        if _words[_BEAT] & 0xFF != NONE and self.has_model:
            beat(LOAD)

    def counts(self, optimizer):
        """Of several, as of two networks, one's steps are the job's: the first one's, until another one steps alone."""
        counted, other = self.optimizer and self.optimizer(), self.other and self.other()
        if counted is None or optimizer is counted or optimizer is other:
            self.optimizer, self.other = self.optimizer if optimizer is counted else weakref.ref(optimizer), None
            return True
        self.other = weakref.ref(optimizer)
        return False

    def replace(self, owner, name, make):
        original = getattr(owner, name, None)
        if original is not None and (owner, name) not in self.replaced:
            self.replaced.add((owner, name))
            setattr(owner, name, functools.wraps(original)(make(original)))

    def replace_collectives(self):
        from torch import distributed
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import dataloader
        for name, functions in _COLLECTIVES.items():
            for function in functions:
                self.replace(distributed, function, functools.partial(self.waiting, name))
        self.replace(DistributedDataParallel, "_sync_buffers", functools.partial(self.waiting, "buffers"))
        self.replace(dataloader._BaseDataLoaderIter, "__next__", self.loading)

    def replace_save(self):
        self.replace(self.torch, "save", self.saving)

    def reports_here(self):
        """torch.compile() shall see the original functions only."""
        return not self.torch.compiler.is_compiling() and _words is not None and not self.off and threading.get_ident() == self.thread

    def waiting(self, name, function):
        import inspect  # slow to import, and PyTorch has done it
        parameters = list(inspect.signature(function).parameters)
        asynchronous = parameters.index("async_op") if "async_op" in parameters else len(parameters)

        def wait_in(*args, **options):
            if not self.collectives or not self.reports_here() or options.get("async_op") or args[asynchronous:asynchronous + 1] == (True,):
                return function(*args, **options)
            before = begin_wait(name)
            try:
                return function(*args, **options)
            finally:
                beat(before)
        return wait_in

    def loading(self, function):
        def load(iterator):
            if not self.collectives or not self.reports_here() or _words[_BEAT] & 0xFF != COMPUTE:
                return function(iterator)
            beat(LOAD)
            try:
                return function(iterator)
            finally:
                beat(COMPUTE)
        return load

    def saving(self, function):
        def save(*args, **options):
            if not self.saves or not self.reports_here() or _words[_BEAT] & 0xFF == WAIT:
                return function(*args, **options)
            doing, before = _words[_PHASE], _words[_BEAT] & 0xFF
            phase(SAVING)
            try:
                return function(*args, **options)
            finally:
                _write_phase(doing)
                beat(before)
        return save


def _tensors(value, kind):
    """In what a forward pass returns, as DistributedDataParallel looks for them."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one, kind)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one, kind)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _tensors(getattr(value, name), kind)


def _watch_all(mode):
    """By ddprun --watch, when torch has been imported."""
    if _page is None and _VARIABLE in os.environ:
        _watch.begin_unasked({"see": 2, "act": 3}[mode])


_watch = _Watch()
