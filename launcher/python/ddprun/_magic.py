"""%%ddprun and %ddprun in notebooks and IPython."""
import argparse
import inspect
import json
import os
import pickle
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from IPython.core.magic import Magics, line_cell_magic, magics_class

from ddprun import _call, _cell, _job, _launch, _program

_CELL = os.path.abspath(_cell.__file__)
_REPORT_LINES = 40
_LOOK_AGAIN_S = 0.1  # at the output of a job in the background, while somebody waits for it
_ACTS = ("status", "log", "wait", "stop")
_PLACES = ("your program's stand after its name", "the cell's come after --")  # of arguments
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class CellFailed(_launch.LaunchFailed):
    """Shown in a few lines: what is between the magic and the worker helps nobody."""

    def _render_traceback_(self):
        lines = str(self).splitlines()
        if len(lines) > _REPORT_LINES:
            lines = [*lines[:3], f"  ... {len(lines) - _REPORT_LINES} lines ...", *lines[3 - _REPORT_LINES:]]
        return ["ddprun: " + lines[0], *lines[1:]] if lines else []


class CellInterrupted(KeyboardInterrupt):
    def _render_traceback_(self):
        return [f"ddprun: interrupted; {self}"]


_background = {}  # jobs by name; they stay when the extension is loaded again


class Mistake(RuntimeError):
    def _render_traceback_(self):
        return [f"ddprun: {self}"]


def load(shell):
    shell.register_magics(Ddprun(shell))
    shell.input_transformers_cleanup.append(_without_cell)


def unload(shell):
    if _without_cell in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(_without_cell)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("ddprun", None)


def _without_cell(lines):
    """IPython refuses a %%ddprun without a cell before it is asked; for --help there need not be one."""
    alone = len(lines) > 0 and lines[0].startswith("%%ddprun") and not "".join(lines[1:]).strip()
    return [lines[0][1:], *lines[1:]] if alone and _asks_for_help(lines[0].split()[1:]) else lines


def _asks_for_help(words):
    own = words[:words.index("--")] if "--" in words else words
    return "--help" in own or "-h" in own


@magics_class
class Ddprun(Magics):
    def __init__(self, shell):
        super().__init__(shell)
        self._background = _background

    @line_cell_magic
    def ddprun(self, line, cell=None):
        """%%ddprun [-n N] [--see RANKS] [--push NAMES] [--pull NAMES] [any option of ddprun] [-- arguments]

        Runs the cell as a program of its own on N ranks, as `ddprun --nproc-per-node=N cell.py arguments` would: new
        processes, not forks of this kernel, which interrupting or a failing rank does not harm.

        -n N             workers (--nproc-per-node)
        --see RANKS      whose output is shown: 0 (the default), 0,1 or all; of several with the rank before each line
        --push a,b       variables of the notebook that the cell finds set
        --pull a,b       variables of the cell that the notebook gets when it has ended
        --from-rank R    whose (0)
        --limit SIZE     of what is pushed or pulled at most (1G)
        -o NAME          a variable for the outcome: .exit_code, .output, .values, .seconds
        --file PATH      where the cell is saved, to import what is beside it; else a file that is removed, and imports
                         from the notebook's working directory
        --background     go on at once, and then: %ddprun status | log | wait | stop [NAME]
        --name NAME      of a job in the background (1, 2, ...)

        !ddprun --help shows ddprun's own options.
        """
        if _asks_for_help(line.split()):
            return print(inspect.cleandoc(Ddprun.ddprun.__doc__))
        if cell is None:
            return self._control(line)
        asked = _asked(line)
        if not asked.background:
            run = _Run(asked, line, cell, self.shell.user_ns)
            return self._finish(run, run.in_foreground())
        name = asked.name or str(next(n for n in range(1, sys.maxsize) if str(n) not in self._background))
        if name in self._background and not self._background[name].job.has_ended():
            raise Mistake(f"a job {name} runs already. Choose another --name, or end it by %ddprun stop {name}.")
        run = _Run(asked, line, cell, self.shell.user_ns)
        run.in_background()
        self._background[name] = run
        print(f"ddprun: job {name} runs in the background: %ddprun status, log, wait or stop {name}.")

    def _finish(self, run, end):
        values = run.values(end)
        if run.asked.out:
            self.shell.user_ns[run.asked.out] = run.outcome(end, values)
        run.remove()
        if end["exit_code"] != 0:
            raise run.failed
        self.shell.user_ns.update(values)

    def _control(self, line):
        words = line.split()
        acts = dict(zip(_ACTS, (self._status, self._log, self._wait, self._stop)))
        if not words or words[0] not in acts or len(words) > 2:
            raise Mistake("%ddprun takes status, log, wait or stop, and the name of a job in the background; %%ddprun, with two %, "
                          "begins a cell that ddprun runs." + _hint_at_act(words))
        if words[0] == "status" and len(words) == 1:
            for name in self._background:
                self._status(name, self._background[name])
            if not self._background:
                print("ddprun: no job runs in the background.")
            return
        name = words[1] if len(words) == 2 else self._last()
        if name not in self._background:
            known = ", ".join(self._background) or "none"
            raise Mistake(f"there is no job {name} in the background (there: {known}).")
        acts[words[0]](name, self._background[name])

    def _last(self):
        if not self._background:
            raise Mistake("no job runs in the background: %%ddprun --background starts one.")
        return list(self._background)[-1]

    def _status(self, name, run):
        print(f"ddprun: job {name} {run.state()}.")

    def _log(self, name, run):
        sys.stdout.write(run.log())

    def _wait(self, name, run):
        try:
            end = run.wait()
        except KeyboardInterrupt:
            raise CellInterrupted(f"job {name} runs on; %ddprun stop {name} ends it.") from None
        del self._background[name]
        self._finish(run, end)

    def _stop(self, name, run):
        if not run.job.has_ended():
            run.job.interrupt(signal.SIGTERM)
        run.job.process.wait()
        self._status(name, run)
        self._background.pop(name).remove()


class Outcome:
    """Of a cell: .exit_code of ddprun, .output as shown, .values pulled, .seconds it took."""

    def __init__(self, exit_code, output, values, seconds):
        self.exit_code, self.output, self.values, self.seconds = exit_code, output, values, seconds

    def __repr__(self):
        return f"<exit code {self.exit_code} after {self.seconds:.1f} s, {len(self.values)} values>"


class _Run:
    """One cell's job: its folder, its command, its end."""

    def __init__(self, asked, line, cell, variables):
        self.asked = asked
        self.failed = None
        self.job = None
        self._folder = tempfile.TemporaryDirectory(prefix="ddprun-cell-")
        try:
            self._write(line, cell, variables)
            self._words = self._command()
        except BaseException:
            self.remove()
            raise

    def in_foreground(self):
        self._begun = time.monotonic()
        with open(os.path.join(self._folder.name, "output"), "w", encoding="utf-8") as copy:
            streams = [stream and _Both(stream, copy) for stream in (sys.stdout, sys.stderr)]
            try:
                return self._ended(_launch.run(self._words, self._folder.name, self._environment(), streams))
            except KeyboardInterrupt:
                self.remove()
                raise CellInterrupted("the job has ended.") from None

    def in_background(self):
        self._begun = time.monotonic()
        self._shown = 0
        with open(os.path.join(self._folder.name, "output"), "wb") as output:
            self.job = _job.Job(self._words, self._folder.name, self._environment(), stdout=output, stderr=subprocess.STDOUT)

    def wait(self):
        """Shows the output as it comes, until the end."""
        while not self.job.wait_for(_LOOK_AGAIN_S):
            sys.stdout.write(self.new_output())
            sys.stdout.flush()
        sys.stdout.write(self.new_output())
        return self._ended(self.job.end())

    def state(self):
        if not self.job.has_ended():
            return f"runs for {time.monotonic() - self._begun:.0f} s (process {self.job.process.pid})"
        return f"has ended with exit code {self.job.end()['exit_code']}"

    def log(self):
        return self.output()

    def new_output(self):
        with open(os.path.join(self._folder.name, "output"), "rb") as file:
            file.seek(self._shown)
            data = file.read()
        whole = data.rfind(b"\n") + 1 if not self.job.has_ended() else len(data)
        self._shown += whole
        return data[:whole].decode("utf-8", "replace")

    def output(self):
        with open(os.path.join(self._folder.name, "output"), encoding="utf-8", errors="replace", newline="") as file:
            return file.read()

    def outcome(self, end, values):
        return Outcome(end["exit_code"], self.output(), values, self._seconds)

    def values(self, end):
        if end["exit_code"] != 0:
            failed = _launch.failure(end, self._folder.name)
            self.failed = CellFailed(_short(failed), failed.exit_code, failed.rank, failed.host, failed.exception, failed.traceback)
            return {}
        if not self.asked.pull:
            return {}
        outcome = _call.read_outcome(self._folder.name, self.asked.from_rank)
        if outcome is None:
            raise Mistake(f"--pull: rank {self.asked.from_rank} has left no values: there is no such rank, or it has ended its process.")
        try:
            return pickle.loads(outcome.pickled)
        except Exception as error:
            raise Mistake(f"--pull: the values cannot be read here: {type(error).__name__}: {error}.") from None

    def remove(self):
        self._folder.cleanup()

    def _ended(self, end):
        self._seconds = time.monotonic() - self._begun
        return end

    def _environment(self):
        return _launch.environment_of(self._words)

    def _write(self, line, cell, variables):
        named = self.asked.file and os.path.abspath(os.path.expanduser(self.asked.file))
        path = named or os.path.join(self._folder.name, "cell.py")
        text = f"# %%ddprun {line}\n{cell}"  # a line for the magic's own: lines count as in the notebook
        _check(text)
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise Mistake(f"cannot write {path} (--file): {error.strerror}.") from None
        described = {"file": path, "unnamed": not named, "directory": os.path.dirname(path) if named else os.getcwd(),
                     "arguments": self.asked.arguments, "pull": self.asked.pull, "from_rank": self.asked.from_rank,
                     "limit": self.asked.limit}
        with open(os.path.join(self._folder.name, "cell.json"), "w", encoding="utf-8") as file:
            json.dump(described, file)
        if self.asked.push:
            missing = [name for name in self.asked.push if name not in variables]
            if missing:
                raise Mistake(f"--push: the notebook has no {', '.join(missing)}.")
            try:
                pickled = _call.dumps_within({name: variables[name] for name in self.asked.push}, "--push", self.asked.limit)
            except _call.CannotPass as error:
                raise Mistake(str(error)) from None
            with open(os.path.join(self._folder.name, "push"), "wb") as file:
                file.write(pickled)

    def _command(self):
        try:
            program = _program.find_program()
        except _program.NotFound as error:
            raise Mistake(str(error)) from None
        options = list(self.asked.options)
        own = _names_of(options)
        if self.asked.workers is not None:
            options.append(f"--nproc-per-node={self.asked.workers}")
        if self.asked.see != "all":
            options.append(f"--local-ranks-filter={self.asked.see}")
        if self.asked.see != "0" and not own & {"--tee", "-t"}:
            options += ["--tee=3", "--log-prefix=[${rank}] "]
            if "--log-dir" not in own:
                options.append("--log-dir=/dev/null")
        if "--max-restarts" not in own:
            options.append("--max-restarts=0")
        options += _launch.this_machine_alone(options)
        return [program, *options, "--no-python", sys.executable, _CELL, self._folder.name]


class _Both:
    """A stream whose text is kept in a file, too."""

    def __init__(self, stream, copy):
        self._stream, self._copy = stream, copy

    def write(self, text):
        self._copy.write(text)
        return self._stream.write(text)

    def flush(self):
        self._stream.flush()


def _check(text):
    """A mistake in the cell is told before anything starts."""
    try:
        compile(text, _cell.NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        told = "".join(traceback.format_exception_only(type(error), error)).strip()
        magic = (error.text or "").lstrip().startswith(("%", "!"))
        raise Mistake(told + ("\nThe cell is a program of its own: no magics and no shell commands in it." if magic else "")) from None


def _short(failed):
    """The traceback without its usual first line, if there is one; else ddprun's sentences, as they are for a cell."""
    if not failed.traceback:
        return str(failed).replace(*_PLACES)
    lines = failed.traceback.rstrip().splitlines()
    if lines and lines[0].startswith("Traceback ("):
        del lines[0]
    return "\n".join([f"rank {failed.rank} failed:", *lines])


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Mistake(f"{message}.")


def _names(text):
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not name.isidentifier():
            raise argparse.ArgumentTypeError(f"'{name}' is no name of a variable")
    return names


def _size(text):
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    try:
        return int(float(number) * _UNITS[unit])
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"'{text}' is no size such as 500M or 2G") from None


def _ranks(text):
    for part in text.split(",") if text != "all" else []:
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise argparse.ArgumentTypeError(f"'{text}' is neither all nor ranks such as 0,1 or 2-5")
    return text


def _meant(names, own):
    """Those of a magic's own words that names which ddprun has not may be meant for."""
    try:
        meant = _program.options_meant(_program.find_program(), names, own)
    except _program.NotFound:
        return {}  # the cell will tell
    known = [word.replace("-", "_") for word in own]
    return {name: own[known.index(word)] for name, word in meant.items() if word in known and word != name}


def _hint_at_act(words):
    return _program.did_you_mean(_meant(words[:1], _ACTS).get(words[0])) if words and words[0].isidentifier() else ""


def _find_typos(parser, options):
    """Of the magic's own options: ddprun tells those of its own."""
    own = [word[2:] for action in parser._actions for word in action.option_strings if word.startswith("--")]
    names = [word[2:].split("=")[0] for word in options if word.startswith("--")]
    for name, meant in _meant([name for name in names if name.replace("-", "_").isidentifier()], own).items():
        raise Mistake(f"there is no option --{name}.{_program.did_you_mean('--' + meant)}")


def _find_contradictions(asked):
    """What would otherwise be ignored."""
    if asked.name and not asked.background:
        raise Mistake("--name is the name of a job in the background: add --background, or leave it out.")
    own = _names_of(asked.options)
    if asked.workers is not None and "--nproc-per-node" in own:
        raise Mistake("-n and --nproc-per-node both say how many ranks there are: leave out one of them.")
    for part in asked.see.split(","):
        last = part.rpartition("-")[2]
        if str(asked.workers).isdigit() and last.isdigit() and int(last) >= int(asked.workers) > 0:
            raise Mistake(f"--see: there is no rank {last} with -n {asked.workers}: ranks count from 0.")


def _names_of(words):
    return {word.split("=")[0].replace("_", "-") for word in words if word.startswith("-")}


def _asked(line):
    """What the magic's line asks for. What is not the magic's own goes to ddprun as it is."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise Mistake(f"{error} in: {line}") from None
    arguments = []
    if "--" in words:
        at = words.index("--")
        words, arguments = words[:at], words[at + 1:]
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", dest="workers")
    parser.add_argument("--see", type=_ranks, default="0")
    parser.add_argument("--push", type=_names, default=[])
    parser.add_argument("--pull", type=_names, default=[])
    parser.add_argument("--from-rank", "--from_rank", type=int, default=0)
    parser.add_argument("--limit", type=_size, default=_call.LIMIT)
    parser.add_argument("-o", "--out")
    parser.add_argument("--file")
    parser.add_argument("--background", action="store_true")
    parser.add_argument("--name")
    asked, asked_options = parser.parse_known_args(words)
    _find_typos(parser, asked_options)
    for before, word in zip(["", *asked_options], asked_options):
        if not word.startswith("-") and (not before.startswith("-") or "=" in before):
            raise Mistake(f"'{word}' is no option. The cell is the program; its own arguments come after --.")
    asked.options, asked.arguments = asked_options, arguments
    _find_contradictions(asked)
    if asked.out and not asked.out.isidentifier():
        raise Mistake(f"-o: '{asked.out}' is no name of a variable.")
    return asked
