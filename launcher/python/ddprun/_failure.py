"""An exception that ends a worker: for ddprun's report, and for the program that launched it."""
import json
import os
import sys
import time
import traceback

from ddprun import _call


def report(error, *own_files):
    """Tells ddprun, and returns what the launching program is told. Frames of `own_files` at the top are left out."""
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    text = "".join(traceback.format_exception(type(error), error, _without(error.__traceback__, own_files)))
    _write_error_file(summary, text)
    try:
        pickled = _call.dumps(error, "an exception")
    except _call.CannotPass:
        pickled = None
    return _call.Raised(summary, text, pickled)


def code_of(leaving):
    """The exit code of a SystemExit, whose text goes to stderr, as when Python ends by it."""
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    print(leaving.code, file=sys.stderr)
    return 1


def _without(frames, files):
    while frames is not None and frames.tb_frame.f_code.co_filename in files:
        frames = frames.tb_next
    return frames


def _write_error_file(summary, text):
    """In the format of torch.distributed.elastic's record()."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    told = {"message": summary, "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time()))}}
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"message": told}, file)
    except OSError:
        pass  # the exception itself reaches the launching program by another way
