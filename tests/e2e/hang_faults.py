"""What a rank of a hang's test does wrong: "FAULT..." in its words, on one rank, at one step, in the job's first round."""
import os
import signal
import threading


class Faults:
    def __init__(self, words, rank, step):
        self.words, self.step = words.split(), int(step)
        self.here = os.environ["RANK"] == rank and os.environ["DDPRUN_ROUND"] == "1"

    def is_due(self, fault, step):
        """Says so first, once for each."""
        if not self.here or fault not in self.words or step != self.step:
            return False
        print("fault", flush=True)
        return True


def spin_forever():
    while True:
        pass


def lock_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def stop_here():
    os.kill(os.getpid(), signal.SIGSTOP)
