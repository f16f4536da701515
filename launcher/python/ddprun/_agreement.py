"""All ranks save after the same step when ddprun asks them by the channel: what trainer/ddp/snapshot/save_gate.h describes, for the
trainers of _trainers.py.

The ranks receive a request at different steps. Each first closes its gate, so that its training thread stops at the end of its
current step; then it tells the others where that is, and all save at the latest of these. A thread of its own does so, as the
training one may wait in a collective for a rank that stands at its gate.
"""
import datetime
import os
import threading
import time

ENDING, GOING_ON = "ending", "going on"  # what a rank does after the save

_SAVE, _SNAPSHOT = 1, 3   # the page's requests
_LIMIT_S = 10             # for all ranks to say where they would stop
_SNAPSHOT_LIMIT_S = 3     # the same for a snapshot on the way, which is only left out then
_STORE_LIMIT_S = 3        # for one call
_POLL_S, _ANSWER_POLL_S = 0.1, 0.01
_CLOSED, _FIRST, _OPEN = 0, 1, 1 << 63

_agreements = 0  # of this process: the ranks count them alike, as all take part in all


class NotAgreed(Exception):
    pass


class Agreement:
    """The training thread calls reached() after each step, and end(). Positions are steps plus one."""

    served = 0  # the time of the last request that this process has carried out

    def __init__(self, channel, step):
        self.channel = channel
        self.next = step + 1 + 1
        self.last = _OPEN
        self.changed = threading.Condition()
        self.failure = None
        self.ends = True
        self.woken = 0  # the time of the last request for which reached() woke the thread
        self.passed = self.over = False
        self.wake = threading.Event()
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.thread = threading.Thread(target=self._agree_when_requested, name="ddprun", daemon=True)
        if self.world_size > 1:
            self.thread.start()

    def reached(self, step):
        """What to do after this step: None, ENDING or GOING_ON. Throws NotAgreed."""
        self.next = step + 2
        request = self._request()
        if self.world_size == 1:
            return self._alone(request)
        if request is not None and request[1] != self.woken:
            self.woken = request[1]
            self.wake.set()
        if self.last == _CLOSED:
            self._wait()
        if self.failure:
            raise NotAgreed(self.failure)
        if step + 1 < self.last:
            return None
        if self.ends:
            self.thread.join(_STORE_LIMIT_S)
            return ENDING
        self.last, self.passed = _OPEN, True
        self.wake.set()
        return GOING_ON

    def end(self):
        self.over = True
        self.wake.set()
        self._open(_OPEN)

    def asked_to_end(self):
        request = self._request()
        return request is not None and request[0] == _SAVE

    def _alone(self, request):
        if request is None:
            return None
        if request[0] == _SNAPSHOT:
            Agreement.served = request[1]
        return ENDING if request[0] == _SAVE else GOING_ON

    def _request(self):
        """Kind and time of one that is not carried out yet."""
        channel = self.channel
        if channel._words is None:  # in a fork
            return None
        kind, step, at, check = channel._words[channel._REQUEST:channel._REQUEST + 4]
        is_new = kind == _SAVE or kind == _SNAPSHOT and at != self.served
        return (kind, at) if is_new and check == channel._check(kind, step, at) else None

    def _wait(self):
        with self.channel.wait("save"), self.changed:
            if not self.changed.wait_for(lambda: self.last != _CLOSED or self.failure or self.over, _LIMIT_S + _STORE_LIMIT_S):
                self.failure = "the ranks have not agreed in time at which step"

    def _close(self):
        self.last = _CLOSED
        return self.next

    def _open(self, position):
        with self.changed:
            self.last = position
            self.changed.notify_all()

    def _fail(self, why):
        with self.changed:
            self.failure = why
            self.changed.notify_all()
        return False

    def _agree_when_requested(self):
        global _agreements
        while not self.over:
            request = self._request()
            if request is None:
                self.wake.wait(_POLL_S)
                self.wake.clear()
                continue
            prefix = f"ddprun/trainer/{_agreements}/"
            _agreements += 1
            if not self._agree(request, prefix):
                return

    def _agree(self, request, prefix):
        """False: there is nothing to agree on any more."""
        ends = request[0] == _SAVE
        offered = False
        stop = self._close()
        try:
            from torch import distributed
            store = distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
                                         timeout=datetime.timedelta(seconds=_STORE_LIMIT_S), wait_for_workers=False)
            agreed = self._agreed(store, prefix)
            missed = agreed is not None  # the others had a request that this rank has not seen, and gave it up
            if not missed:
                self._offer(store, prefix, stop, ends)
                offered = True
                end = time.monotonic() + (_LIMIT_S if ends else _SNAPSHOT_LIMIT_S)
                while agreed is None and time.monotonic() < end and not self.over:
                    time.sleep(_ANSWER_POLL_S)
                    agreed = self._agreed(store, prefix)
                if agreed is None and not ends and not self.over:
                    agreed = _read(store.compare_set(prefix + "save_at", "", _text(_CLOSED, True)))
            if agreed is None:
                return self._fail("not all ranks have answered")
            if not ends and not missed:
                Agreement.served = request[1]
            position, self.ends = agreed
            if position == _CLOSED:
                self._open(_OPEN)
                return True
            self.passed = False
            self._open(position)
            self._wait_until_all_know(store, prefix)
        except Exception as error:
            if not ends and not offered:
                Agreement.served = request[1]
                self._open(_OPEN)
                return True
            return self._fail(f"{error}")
        while not (self.ends or self.passed or self.over):
            self.wake.wait(_POLL_S)
            self.wake.clear()
        return not self.ends

    def _offer(self, store, prefix, stop, ends):
        store.set(f"{prefix}stop/{os.environ['RANK']}", _text(stop, ends))
        if store.add(prefix + "stopping", 1) == self.world_size:  # the last rank computes the latest
            offers = [_read(store.get(f"{prefix}stop/{rank}")) for rank in range(self.world_size)]
            at, all_end = max(_FIRST, *(offer[0] for offer in offers)), all(offer[1] for offer in offers)
            store.compare_set(prefix + "save_at", "", _text(at, all_end))  # one may have given up

    def _agreed(self, store, prefix):
        return _read(store.get(prefix + "save_at")) if store.check([prefix + "save_at"]) else None

    def _wait_until_all_know(self, store, prefix):
        """A rank that leaves early may end its node's store."""
        try:
            if store.add(prefix + "knowing", 1) == self.world_size:
                store.set(prefix + "all_know", "")
            end = time.monotonic() + _STORE_LIMIT_S
            while not store.check([prefix + "all_know"]) and time.monotonic() < end:
                time.sleep(_ANSWER_POLL_S)
        except Exception:  # a peer has died, or left already and so knew
            pass


def _text(position, ends):
    return f"{position} {int(ends)}"


def _read(text):
    position, ends = text.decode().split()
    return int(position), ends == "1"
