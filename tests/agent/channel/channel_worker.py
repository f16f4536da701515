"""The same worker as channel_worker.c: python3 channel_worker.py FOLDER_OF_WORKER_CHANNEL MEGABYTES WORD..."""
import importlib.util
import os
import signal
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import worker_channel as channel

if "ALL_IN_PYTHON" in os.environ:  # as where it does not find its library
    channel._library_paths = list


def answer():
    while (asked := channel.request()) != channel.LEAVE:
        if asked is not None:
            print(f"{asked.kind} at {asked.step}", flush=True)
            if asked.kind == "snapshot":
                channel.snapshot(asked.step - 1)  # an older one, that was being written
            channel.snapshot(asked.step)
        time.sleep(0.001)
    print("leave", flush=True)


def report():
    for step in range(1, 1001):
        channel.step(step)
    channel.snapshot(990, 49_000_000)
    channel.throughput(1234.5)
    channel.total_steps(5000)
    channel.loss(1000, 0.25)
    channel.phase(channel.SAVING)


def report_for_ever():
    step = 0
    while True:
        channel.step(step := step + 1)


def beats():
    channel.phase(channel.TRAINING)
    time.sleep(0.02)
    channel.beat(channel.LOAD)
    time.sleep(0.04)
    with channel.wait("barrier"):
        with channel.wait("inner"):
            pass
        time.sleep(0.06)
    channel.begin_wait("a long name")
    channel.step(3)


def phases():
    channel.phase(channel.SAVING)
    time.sleep(0.02)
    channel.phase(channel.EVALUATING)
    time.sleep(0.01)
    channel.phase(channel.TRAINING)
    channel.step(40)
    channel.step(41)
    channel.phase(channel.FINISHING)


def beats_of_two():
    """A script and a library in it report in turns."""
    spec = importlib.util.find_spec("worker_channel")
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    library._library_paths = list
    library.attach()
    for reporter in (channel, library, library, channel, library, channel, channel):
        reporter.beat(reporter.LOAD)
        with reporter.wait("barrier"):
            library.beat(library.WAIT)
        library.beat(library.COMPUTE)
        channel.beat(channel.COMPUTE)
    channel.step(3)


def beat_for_ever():
    waits = 0
    while True:
        waits += 1
        channel.begin_wait("odd" if waits % 2 else "even")
        channel.beat(channel.LOAD)


def compiled_reports():
    """What a watched step calls of the library, instead of phase, beat and step."""
    computes, stepped = channel._library_computes, channel._library_stepped
    inferred = channel.struct.unpack_from("I", channel._page, channel._INFERRED)[0]
    channel.phase(channel.EVALUATING)
    assert not computes() and channel._words[channel._BEAT] & 0xFF == channel.NONE
    channel.phase(channel.TRAINING)
    channel.step(40)
    channel.beat(channel.LOAD)
    assert computes() is True and channel._words[channel._BEAT] & 0xFF == channel.COMPUTE
    assert not stepped(inferred + 1) and channel._words[channel._STEP] == 40
    assert stepped(inferred) is True and channel._words[channel._BEAT] & 0xFF == channel.LOAD
    for wrong in "load", None, 1.5:
        try:
            channel.beat(wrong)
            assert False, wrong
        except TypeError:
            assert channel._words[channel._BEAT] & 0xFF == channel.LOAD
    child = os.fork()
    if child == 0:
        os._exit(computes() or stepped(inferred) or channel.attach() or computes())
    assert os.waitpid(child, 0)[1] == 0


def fork():
    child = os.fork()
    if child == 0:
        channel.beat(channel.LOAD)
        channel.begin_wait("child")
        channel.step(77)
        channel.phase(channel.FINISHING)
        os._exit(0)
    os.waitpid(child, 0)
    channel.phase(channel.EVALUATING)


WORDS = {
    "answer": answer,
    "report": report,
    "report-for-ever": report_for_ever,
    "beats": beats,
    "phases": phases,
    "beats-of-two": beats_of_two,
    "beat-for-ever": beat_for_ever,
    "compiled-reports": compiled_reports,
    "fork": fork,
    "sleep": lambda: time.sleep(60),
    "handle-signals": channel.handle_signals,
    # Not signal.pause(): a handler whose signal comes just before it would wait for the next signal.
    "go-on": lambda: [time.sleep(0.02) for _ in iter(int, 1)],
    "thread": lambda: threading.Thread(target=time.sleep, args=(60,), daemon=True).start(),
    "exit-0": lambda: sys.exit(0),
    "exit-3": lambda: sys.exit(3),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "exec": lambda: os.execv(sys.executable, [sys.executable, *sys.argv[:3], "sleep"]),
}

memory = bytearray(b"x") * (int(sys.argv[2]) << 20)
attached = channel.attach() and channel.attach()
assert (channel._library_beat is not None) == (attached and "ALL_IN_PYTHON" not in os.environ), "its library"
channel.phase(channel.TRAINING)
words = sys.argv[3:]
if words[-1] == "when-asked":
    words.pop()
    answer()
for word in words:
    WORDS[word]()
