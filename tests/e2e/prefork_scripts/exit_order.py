"""What runs at the end of a script, in which order: the rest of main, threads, handlers, finalizers, buffers."""
import atexit
import itertools
import os
import sys
import threading
import weakref

import torch  # noqa: F401: what it registers comes before what the script does

numbers = itertools.count(1)
main_ended = threading.Event()


def say(text):
    sys.stdout.write(f"rank {os.environ['RANK']}: {next(numbers)} {text}\n")


class Model:
    pass


def finish_late():
    main_ended.wait()
    threading.main_thread().join()
    say("thread ends after main")


unflushed = os.fdopen(os.dup(1), "w", buffering=1024)  # its buffer is written when the interpreter ends
unflushed.write(f"rank {os.environ['RANK']}: 7 buffered text\n")
atexit.register(say, "first handler")
atexit.register(say, "second handler")
model = Model()
weakref.finalize(model, say, "finalizer")
threading._register_atexit(say, "thread module's handler")
threading.Thread(target=finish_late).start()
say("main ends")
main_ended.set()
