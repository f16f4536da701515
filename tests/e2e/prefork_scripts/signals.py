"""Handlers of signals that the script installs and raises, and a timer."""
import os
import signal
import sys
import threading

calls = []


def note(number, frame):
    calls.append((signal.Signals(number).name, frame.f_code.co_name, threading.current_thread() is threading.main_thread()))


def main():
    previous = [signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGCHLD)]
    os.kill(os.getpid(), signal.SIGTERM)
    signal.raise_signal(signal.SIGUSR1)
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while len(calls) < 4:
        signal.pause()
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        calls.append("KeyboardInterrupt")
    sys.stdout.write(f"rank {os.environ['RANK']}: {previous} {calls}\n")
    sys.exit(0)


main()
