"""launch(): runs a function or a script in workers of ddprun, from within a program."""
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from ddprun import _call, _job, _program

_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_worker.py")
_OF_SEVERAL_NODES = ("nnodes", "node-rank", "rdzv-", "master-", "scheduler", "config")
# Of a job around this program: its workers' errors and timers are not this program's.
_OF_OTHERS = ("TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_TIMER_FILE")


class LaunchFailed(RuntimeError):
    """A job that failed. str() says who failed first and why, with the traceback of a Python exception."""

    def __init__(self, message, exit_code, rank=None, host=None, exception=None, traceback=""):
        super().__init__(message)
        self.exit_code = exit_code  # ddprun's: 1 a worker failed, 2 wrong options, 75 start it again, 128 + N signal N
        self.rank = rank            # of the worker whose failure ended the job; None: no worker's failure did
        self.host = host            # its machine
        self.exception = exception  # what the function raised there, if it can be pickled
        self.traceback = traceback  # of that exception, as text

    def __reduce__(self):
        return type(self), (str(self), self.exit_code, self.rank, self.host, self.exception, self.traceback)


def launch(function, *args, nproc_per_node=1, return_all=False, env=None, max_restarts=0, **options):
    """Runs function(*args) in nproc_per_node processes, and returns what it returned on rank 0.

    The workers are new processes of this Python, started by ddprun with the environment that torchrun gives (RANK,
    WORLD_SIZE, MASTER_ADDR …), never forks of this one: threads, CUDA and loggers of this program do them no harm. What
    they need comes by pickle: functions of this program and of notebooks by value, those of modules by name, with this
    program's sys.path, working directory and environment. With a path instead of a function, the script runs with args
    as its command line, and None is returned.

    return_all    the values of all ranks of this machine, in a list by rank
    env           further variables for the workers: {"NCCL_DEBUG": "INFO"}
    options       any option of ddprun: log_dir="logs", tee=3, nnodes=2, node_rank=0, master_addr="a", max_restarts=3

    Output appears in sys.stdout and sys.stderr as it comes. A rank that raises or dies ends the job, and LaunchFailed
    tells which one and why. KeyboardInterrupt ends the job, which may take --stop-grace, then it is raised here; a second
    one kills the job. If this program dies, the job is killed. On several machines each runs this call with a node_rank of its
    own, and gets the value of the lowest rank it has.
    """
    if not callable(function) and not isinstance(function, (str, os.PathLike)):
        raise TypeError(f"launch() takes a function or the path of a script, not {type(function).__name__}")
    if env is not None and not isinstance(env, Mapping):
        raise TypeError(f"launch() takes variables in a dict, such as env={{'NCCL_DEBUG': 'INFO'}}, not {type(env).__name__}")
    ddprun = _find()
    _check_keywords(ddprun, function, options)
    words = _program.words_of({"nproc_per_node": nproc_per_node, "max_restarts": max_restarts, **options})
    words += this_machine_alone(words)
    environment = {**environment_of(words), **{name: str(value) for name, value in (env or {}).items()}}
    with tempfile.TemporaryDirectory(prefix="ddprun-launch-") as folder:
        if callable(function):
            try:
                _call.write_call(folder, function, args)
            except _call.CannotPass as error:
                raise LaunchFailed(str(error), 2) from error.__cause__
            words += ["--no-python", sys.executable, _WORKER, folder]
        else:
            words += [os.fspath(function), *map(str, args)]
        end = run([ddprun, *words], folder, environment)
        if end["exit_code"] != 0:
            raise failure(end, folder)
        return _values(folder, return_all, of_rank_0=_is_alone(words)) if callable(function) else None


def _check_keywords(ddprun, function, options):
    """Raises TypeError for those that are no options of ddprun. An abbreviation, which its command line takes, is none."""
    meant = _program.options_meant(ddprun, options)
    unknown = [name for name in options if meant.get(name, name) != name]
    if not unknown:
        return
    sentences = [f"launch() got an unexpected keyword argument '{name}'{_hint(meant[name])}" for name in unknown]
    own = [f"{name}=..." for name in unknown if name in _parameters(function)]
    if own:
        called = getattr(function, "__name__", "function")
        sentences.append("Keywords of launch() are ddprun's options: those of the function are given by "
                         f"functools.partial({called}, {', '.join(own)}).")
    raise TypeError(" ".join(sentences))


def _hint(meant):
    return f".{_program.did_you_mean(meant)}" if meant else "; ddprun --help lists the options."


def _parameters(function):
    try:
        return inspect.signature(function).parameters if callable(function) else ()
    except (TypeError, ValueError):
        return ()


def _is_alone(words):
    return "--scheduler=none" in words


def this_machine_alone(words):
    """Further options, where these tell nothing of several nodes: also within a step of Slurm, or another job."""
    names = [word.split("=")[0].lstrip("-").replace("_", "-") for word in words if word.startswith("-")]
    return [] if any(name.startswith(_OF_SEVERAL_NODES) for name in names) else ["--nnodes=1", "--scheduler=none"]


def environment_of(words):
    """For ddprun: this program's, without what belongs to a job that it may be part of."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_OTHERS}
    if _is_alone(words):
        names = [name for name in environment if name.startswith("PET_")]
        for name in names:
            if name[len("PET_"):].lower().replace("_", "-").startswith(_OF_SEVERAL_NODES):
                del environment[name]
    return {**environment, "PYTHON_EXEC": sys.executable}


def run(words, folder, environment, streams=None):
    """Runs ddprun to its end with its output in these streams, and returns how it ended."""
    streams = streams or (sys.stdout, sys.stderr)
    targets = []
    for number, stream in enumerate(streams, 1):
        if stream is not None:
            stream.flush()
        targets.append(subprocess.DEVNULL if stream is None else None if _job.passes_through(stream, number) else subprocess.PIPE)
    job = _job.Job(words, folder, environment, stdout=targets[0], stderr=targets[1])
    job.wait(streams)
    return job.end()


def failure(end, folder):
    """The exception for a job that ended in this way."""
    first, code = end["first_failure"], end["exit_code"]
    if first is None:
        return LaunchFailed(end["message"], code)
    rank, host = first["global_rank"], first["hostname"]
    raised = _call.read_outcome(folder, rank)
    if not isinstance(raised, _call.Raised):
        return LaunchFailed(end["message"].rstrip("\n"), code, rank, host)
    return LaunchFailed(f"rank {rank} failed: {raised.summary}\n\n{raised.traceback.rstrip()}", code, rank, host,
                        _loaded(raised.exception), raised.traceback)


def _find():
    try:
        return _program.find_program()
    except _program.NotFound as error:
        raise LaunchFailed(str(error), 2) from None


def _loaded(pickled):
    try:
        return pickle.loads(pickled) if pickled else None
    except Exception:
        return None  # exceptions with arguments of their own often cannot be made again


def _values(folder, return_all, of_rank_0):
    ranks = _call.ranks_of_last_round(folder)
    if not ranks or (of_rank_0 and ranks[0] != 0):
        raise LaunchFailed("the workers succeeded, but rank 0 has left no value: the function ended its process.", 1)
    return [_value(folder, rank) for rank in ranks] if return_all else _value(folder, ranks[0])


def _value(folder, rank):
    outcome = _call.read_outcome(folder, rank)
    if not isinstance(outcome, _call.Value):
        raise LaunchFailed(f"the workers succeeded, but rank {rank} has left no value: the function ended its process.", 1, rank)
    try:
        return pickle.loads(outcome.pickled)
    except Exception as error:
        raise LaunchFailed(f"the value of rank {rank} cannot be read here: {type(error).__name__}: {error}", 1, rank) from error
