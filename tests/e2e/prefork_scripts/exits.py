"""Rank 1 ends as argv[1] says; rank 0 waits until ddprun stops it."""
import atexit
import os
import signal
import sys

if os.environ["RANK"] == "0":
    signal.pause()
atexit.register(sys.stdout.write, "rank 1: handler\n")
way = sys.argv[1]
if way == "code":
    sys.exit(3)
if way == "text":
    sys.exit("no data found")
if way == "at_once":
    os._exit(4)
if way == "interrupt":
    raise KeyboardInterrupt
if way == "abort":
    os.abort()
if way == "segfault":
    os.kill(os.getpid(), signal.SIGSEGV)
if way == "syntax":
    compile("1 +", "model.py", "exec")
