"""A running ddprun: its process, its output, its end."""
import codecs
import concurrent.futures
import errno
import json
import os
import queue
import select
import selectors
import signal
import subprocess
import sys
import threading
import time

# A notebook sends a message at each flush, and drops those that its browser does not take in time: of a thousand lines
# printed at once each must not be one.
_FLUSH_EVERY_S = 0.1


class Job:
    """Started by its constructor. It ends with this process, however that ends: the kernel then kills ddprun, which
    leaves no worker behind. In a session of its own, so that a terminal's Ctrl-C reaches this program alone, which says
    to ddprun what it means."""

    def __init__(self, words, folder, environment, cwd=None, stdout=None, stderr=None):
        self._end_file = os.path.join(folder, "end")
        environment = {**environment, "DDPRUN_STARTED_BY": str(os.getpid()), "DDPRUN_END_FILE": self._end_file}
        started = _start(words, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                         start_new_session=True)
        try:
            self.process = started.result()
            self._ended_fd = _descriptor_of_end(self.process.pid)
        except BaseException:  # an interrupt may come before it runs
            started.add_done_callback(_end_at_once)
            raise

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()

    def has_ended(self):
        return self.process.poll() is not None

    def wait_for(self, seconds):
        """Whether it has ended, at the latest after this time."""
        poll = select.poll()
        poll.register(self._ended_fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def wait(self, streams=()):
        """Copies what comes out of the pipes to these streams, stdout's and stderr's, until ddprun has ended. A
        KeyboardInterrupt ends the job first; a second one kills it. Nothing of it runs any more when this returns."""
        copies = [_Copy(pipe, stream) for pipe, stream in zip((self.process.stdout, self.process.stderr), streams) if pipe]
        signals = [signal.SIGINT, signal.SIGKILL]
        interrupt = None
        try:
            while True:
                try:
                    if interrupt and signals:
                        self.interrupt(signals.pop(0))
                    self._copy(copies)
                    break
                except KeyboardInterrupt as error:
                    interrupt = error
        finally:
            if not self.has_ended():
                self.kill()
            self.process.wait()
            for copy in copies:
                copy.close()
        if interrupt:
            raise interrupt

    def end(self):
        """How it ended, as ddprun tells (docs/events.md); if it was killed, there is only an exit code."""
        code = self.process.wait()
        try:
            with open(self._end_file, encoding="utf-8", errors="replace") as file:
                return json.load(file)
        except (OSError, ValueError):
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            return {"exit_code": code if code >= 0 else 128 - code, "message": f"ddprun {how}.", "first_failure": None}

    def _copy(self, copies):
        with selectors.DefaultSelector() as selector:
            for copy in copies:
                if not copy.at_end:
                    selector.register(copy.pipe, selectors.EVENT_READ, copy)
            selector.register(self._ended_fd, selectors.EVENT_READ)
            ended = False
            while not ended:
                due = [copy.flush_in for copy in copies if copy.flush_in is not None]
                for key, _ in selector.select(min(due, default=None)):
                    if key.data is None:
                        ended = True
                    elif not key.data.some():
                        selector.unregister(key.fileobj)
                for copy in copies:
                    if copy.flush_in == 0:
                        copy.flush()
            for copy in copies:
                copy.rest()
                copy.flush()

    def __del__(self):
        if hasattr(self, "_ended_fd"):
            os.close(self._ended_fd)


def _descriptor_of_end(pid):
    """Becomes readable when this child of ours has ended. Python 3.8, Linux before 5.4 and some containers have no
    pidfds: there a thread waits for the end."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", errno.ENOSYS) not in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            raise
    ours, its = os.pipe()
    try:
        threading.Thread(target=_tell_of_end, args=(pid, its), name="ddprun-end", daemon=True).start()
    except BaseException:
        os.close(ours)
        os.close(its)
        raise
    return ours


def _tell_of_end(pid, pipe):
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # it was reaped
        pass
    try:
        os.write(pipe, b"x")  # a process that was forked meanwhile may have this end, too
    except OSError:  # nobody waits any more
        pass
    os.close(pipe)


class _Copy:
    """Copies bytes of a pipe to a text stream."""

    def __init__(self, pipe, stream):
        self.pipe, self.at_end = pipe, False
        self._stream = stream
        self._flush_at, self._flushed_at = None, 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        os.set_blocking(pipe.fileno(), False)

    def some(self):
        """False at the pipe's end."""
        try:
            data = os.read(self.pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        self.at_end = not data
        text = self._decoder.decode(data, final=self.at_end)
        if text:
            self._write(text)
        return bool(data)

    def rest(self):
        """What is in the pipe now: a process that has left the job may hold its other end for long."""
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        while not self.at_end and poll.poll(0):
            self.some()

    def close(self):
        self.pipe.close()

    def _write(self, text):
        try:
            self._stream.write(text)
        except UnicodeEncodeError:  # a stream of another encoding
            encoding = getattr(self._stream, "encoding", None) or "ascii"
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        if self._flush_at is None:
            self._flush_at = self._flushed_at + _FLUSH_EVERY_S

    @property
    def flush_in(self):
        """The seconds until what was written is to be flushed; None: nothing was."""
        return None if self._flush_at is None else max(self._flush_at - time.monotonic(), 0)

    def flush(self):
        if self._flush_at is not None:
            self._flush_at, self._flushed_at = None, time.monotonic()
            self._stream.flush()


def passes_through(stream, number):
    """Whether this stream is the process' own descriptor, which a child may write to itself."""
    try:
        return stream.fileno() == number and stream in (sys.__stdout__, sys.__stderr__)
    except (OSError, ValueError, AttributeError):
        return False


class _Starter:
    """Starts processes in a thread that lives as long as this process: the kernel kills ddprun when the thread that
    started it ends."""

    def __init__(self):
        self.pid = os.getpid()
        self._calls = queue.SimpleQueue()
        threading.Thread(target=self._run, name="ddprun-starter", daemon=True).start()

    def __call__(self, *arguments, **options):
        started = concurrent.futures.Future()
        self._calls.put((started, arguments, options))
        return started

    def _run(self):
        while True:
            started, arguments, options = self._calls.get()
            try:
                started.set_result(subprocess.Popen(*arguments, **options))
            except BaseException as error:
                started.set_exception(error)
            del started, arguments, options  # while it waits for the next call it holds none


_starter = None


def _end_at_once(started):
    if not started.exception():
        started.result().kill()
        started.result().wait()


def _start(*arguments, **options):
    global _starter
    if _starter is None or _starter.pid != os.getpid():  # a child of os.fork() has no such thread
        _starter = _Starter()
    return _starter(*arguments, **options)
