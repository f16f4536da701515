"""ddprun.launch(): python launch_test.py DDPRUN, by a Python that has cloudpickle."""
import contextlib
import errno
import io
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import cloudpickle
from programs import LIMIT, Script, package_environment, processes_with, wait_until

DDPRUN = os.path.abspath(sys.argv.pop(1))
os.environ.update({name: package_environment(DDPRUN)[name] for name in ("PYTHONPATH", "DDPRUN_LAUNCHER")})
sys.path.insert(0, os.environ["PYTHONPATH"])
import ddprun  # noqa: E402


class Net:
    def __init__(self, weight):
        self.weight = weight


class Doubles:
    def __call__(self, x):
        return 2 * x


def main(net):  # the name of many a program's function
    return net.weight


FACTOR = 3


def train(weight):
    net = Net(weight * FACTOR + int(os.environ["RANK"]))
    assert type(pickle.loads(pickle.dumps(net))) is Net  # as torch.save() does
    return net


def quietly(*arguments, **options):
    """launch() with what it shows: the value, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        value = ddprun.launch(*arguments, **options)
    return value, out.getvalue(), err.getvalue()


class Values(unittest.TestCase):
    def test_rank_0s_value_comes_back_with_its_own_type(self):
        net = ddprun.launch(train, 5, nproc_per_node=2)
        self.assertIs(type(net), Net)
        self.assertEqual(net.weight, 15)

    def test_all_ranks_values_come_in_their_order(self):
        nets = ddprun.launch(train, 5, nproc_per_node=4, return_all=True)
        self.assertEqual([net.weight for net in nets], [15, 16, 17, 18])

    def test_modules_beside_the_program_are_found_and_travel_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "mine.py").write_text("def f():\n    return __name__, __file__\n")
            script = Script(folder, "import ddprun, mine\nprint(ddprun.launch(mine.f))\n", DDPRUN)
            code, out, err = script.ended()
        self.assertEqual((code, out, err), (0, f"('mine', '{folder}/mine.py')\n", ""))

    def test_variables_and_the_working_directory_reach_the_workers(self):
        found = ddprun.launch(lambda: (os.environ["COLOUR"], os.getcwd()), env={"COLOUR": "red"})
        self.assertEqual(found, ("red", os.getcwd()))

    def test_a_script_runs_with_its_arguments(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("import sys; print(sys.argv[1:])\n")
            file.flush()
            value, out, _ = quietly(file.name, 1, "a b", nproc_per_node=1)
        self.assertEqual((value, out), (None, "['1', 'a b']\n"))

    def test_after_a_restart_the_values_are_those_of_the_last_round(self):
        def once_more():
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                os._exit(3)
            return os.environ["TORCHELASTIC_RESTART_COUNT"]
        value, _, err = quietly(once_more, nproc_per_node=1, max_restarts=1)
        self.assertEqual(value, "1")
        self.assertIn("restart 1 of 1", err)

    def test_processes_that_a_function_spawns_know_its_program_s_classes(self):
        def spawns():
            import multiprocessing
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                return pool.apply(main, (Net(4),))
        self.assertEqual(ddprun.launch(spawns), 4)

    def test_a_job_around_the_program_does_not_reach_into_its_own(self):
        around = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_RDZV_ENDPOINT": "nowhere:1", "SLURM_NNODES": "2"}
        with mock.patch.dict(os.environ, around):
            self.assertEqual(ddprun.launch(lambda: os.environ["WORLD_SIZE"], nproc_per_node=1), "1")

    def test_what_a_function_does_to_its_streams_is_its_own_affair(self):
        self.assertEqual(ddprun.launch(lambda: sys.stdout.close()), None)

    def test_objects_that_can_be_called_are_functions_too(self):
        self.assertEqual(ddprun.launch(Doubles(), 4), 8)

    def test_several_threads_launch_at_a_time(self):
        with ThreadPoolExecutor(3) as threads:
            self.assertEqual(list(threads.map(lambda n: ddprun.launch(lambda: n), range(3))), [0, 1, 2])

    def test_this_process_is_never_forked(self):
        forked = []
        os.register_at_fork(before=lambda: forked.append(os.getpid()))
        ddprun.launch(train, 1, nproc_per_node=2)
        self.assertEqual(forked, [])


class WithoutPidfds(unittest.TestCase):
    """Python 3.8, and Linux before 5.4."""

    def check(self):
        self.assertEqual(ddprun.launch(main, Net(4), nproc_per_node=2), 4)
        with self.assertRaises(ddprun.LaunchFailed) as failed:
            quietly(os._exit, 7, nproc_per_node=1, max_restarts=0)
        self.assertIn("exited with code 7", str(failed.exception))

    def test_of_the_kernel(self):
        with mock.patch.object(os, "pidfd_open", side_effect=OSError(errno.ENOSYS, "no pidfds")):
            self.check()

    def test_of_python(self):
        with mock.patch.object(os, "pidfd_open"):
            del os.pidfd_open
            self.check()


class Failures(unittest.TestCase):
    def failed(self, *arguments, **options):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), self.assertRaises(ddprun.LaunchFailed) as failed:
            ddprun.launch(*arguments, **options)
        return failed.exception, err.getvalue()

    def test_an_exception_comes_back_once_with_rank_and_traceback(self):
        def one_fails(text):
            if os.environ["RANK"] == "1":
                raise KeyError(text)
            import time
            time.sleep(1000)
        error, err = self.failed(one_fails, "weights", nproc_per_node=2)
        self.assertEqual((error.rank, error.exit_code, repr(error.exception)), (1, 1, "KeyError('weights')"))
        self.assertTrue(str(error).startswith("rank 1 failed: KeyError: 'weights'\n\nTraceback (most recent call last):\n"))
        self.assertIn("in one_fails\n    raise KeyError(text)", str(error))
        self.assertNotIn("_worker.py", str(error))
        self.assertEqual(err, "")  # the exception says it all

    def test_a_traceback_has_files_and_lines_also_where_cloudpickle_leaves_them_out(self):
        def outer():
            def inner():
                raise KeyError("weights")
            inner()
        table = cloudpickle.Pickler.dispatch_table
        of_code = table[types.CodeType]

        def without_file(code):  # as cloudpickle 3.1.3 does
            return of_code(code.replace(co_filename="<dynamic-code>"))
        with mock.patch.object(cloudpickle.Pickler, "dispatch_table", {**table, types.CodeType: without_file}):
            error, _ = self.failed(outer)
        for function, line in (("outer", "inner()"), ("inner", 'raise KeyError("weights")')):
            self.assertRegex(error.traceback, rf'File "{re.escape(__file__)}", line \d+, in {function}\n    {re.escape(line)}\n')

    def test_a_rank_that_is_killed_is_named_with_its_last_lines(self):
        def dies():
            print("last words", file=sys.stderr)
            os.kill(os.getpid(), signal.SIGKILL)
        error, _ = self.failed(dies)
        self.assertEqual(error.rank, 0)
        self.assertIn("rank 0 was killed by SIGKILL", str(error))
        self.assertIn("| last words", str(error))
        self.assertIsNone(error.exception)

    def test_an_exception_of_an_earlier_round_is_not_the_cause(self):
        def fails_differently():
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                raise ValueError("of the first round")
            os.kill(os.getpid(), signal.SIGKILL)
        error, _ = self.failed(fails_differently, max_restarts=1)
        self.assertIn("killed by SIGKILL", str(error))
        self.assertIsNone(error.exception)

    def test_a_failure_can_be_passed_on_itself(self):
        error, _ = self.failed(lambda: 1 / 0)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.rank, repr(again.exception)), (str(error), 0, "ZeroDivisionError('division by zero')"))

    def test_rank_0_s_value_is_not_another_one_s(self):
        def leaves():
            if os.environ["RANK"] == "0":
                sys.exit(0)
            return 7
        for all_of_them in (False, True):
            self.assertIn("rank 0 has left no value", str(self.failed(leaves, nproc_per_node=2, return_all=all_of_them)[0]))

    def test_what_cannot_be_passed_on_is_named(self):
        self.assertIn("an argument of it, cannot be passed on: TypeError", str(self.failed(train, threading.Lock())[0]))
        self.assertIn("the value of rank 0 cannot be passed on: TypeError", str(self.failed(threading.Lock)[0]))

    def test_a_function_that_ends_its_process_has_no_value(self):
        self.assertIn("rank 0 has left no value", str(self.failed(sys.exit, 0)[0]))
        self.assertEqual(self.failed(sys.exit, 5)[0].exit_code, 1)

    def test_wrong_values_are_one_sentence(self):
        error, err = self.failed(train, 1, tee="x")
        self.assertEqual(str(error), "--tee is 'x', which is not one of 0 (none), 1 (stdout), 2 (stderr), 3 (both).")
        self.assertEqual((error.exit_code, err), (2, ""))
        for wrong in (lambda: ddprun.launch(3), lambda: ddprun.launch(train, 1, env="COLOUR=red")):
            with self.assertRaises(TypeError) as refused:
                wrong()
            self.assertIn("launch() takes", str(refused.exception))

    def refused(self, **options):
        with self.assertRaises(TypeError) as refused:
            ddprun.launch(train, 1, **options)
        return str(refused.exception)

    def test_keywords_are_exact_and_the_nearest_one_is_named(self):
        for wrong, meant in (("nproc_pernode", "nproc_per_node"), ("nproc_per", "nproc_per_node"), ("num_processes", "nproc_per_node"),
                             ("logdir", "log_dir")):
            self.assertEqual(self.refused(**{wrong: 2}), f"launch() got an unexpected keyword argument '{wrong}'. Did you mean '{meant}'?")
        self.assertEqual(self.refused(frobnicate=1), "launch() got an unexpected keyword argument 'frobnicate'; ddprun --help lists the "
                         "options.")

    def test_a_keyword_of_the_function_is_no_option_which_is_said(self):
        self.assertEqual(self.refused(weight=5), "launch() got an unexpected keyword argument 'weight'; ddprun --help lists the options. "
                         "Keywords of launch() are ddprun's options: those of the function are given by "
                         "functools.partial(train, weight=...).")

    def test_a_missing_program_is_one_sentence(self):
        with mock.patch.dict(os.environ, DDPRUN_LAUNCHER="/no/such/ddprun"):
            self.assertIn("/no/such/ddprun (DDPRUN_LAUNCHER) is not a program", str(self.failed(train, 1)[0]))


class Output(unittest.TestCase):
    def test_a_stream_of_another_encoding_or_none_at_all_loses_nothing_but_letters(self):
        out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(None):
            self.assertEqual(ddprun.launch(lambda: print("ä", file=sys.stdout) or print("b", file=sys.stderr) or 3), 3)
        self.assertEqual(out.buffer.getvalue(), b"\\xe4\n")

    def test_lines_appear_as_they_come(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = os.path.join(folder, "seen")

            class Stream(io.StringIO):
                def write(self, text):
                    if "ready" in text:
                        open(seen, "w").close()
                    return super().write(text)

            def waits_to_be_seen():
                import time
                print("ready ä", flush=True)
                while not os.path.exists(seen):
                    time.sleep(0.01)
                sys.stdout.write("no newline at the end")
            out = Stream()
            with contextlib.redirect_stdout(out):
                ddprun.launch(waits_to_be_seen)
        self.assertEqual(out.getvalue(), "ready ä\nno newline at the end")


WAITS = """
import os, sys, time, ddprun
def waits():
    print("up", flush=True)
    time.sleep(1000)
try:
    ddprun.launch(waits, nproc_per_node=1, env={"MARK": os.environ["NUMBER"]})
except KeyboardInterrupt:
    print("still here")
"""


class Ends(unittest.TestCase):
    def script(self, text=WAITS):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.mark = f"MARK={folder.name}"
        script = Script(folder.name, text, DDPRUN, NUMBER=folder.name)
        script.wait_for_line("up")
        self.assertEqual(len(processes_with(self.mark)), 3)  # keeper, agent, worker
        return script

    def test_an_interrupt_ends_the_job_and_not_the_program(self):
        script = self.script()
        script.process.send_signal(signal.SIGINT)
        self.assertEqual(script.ended()[:2], (0, "still here\n"))
        self.assertEqual(processes_with(self.mark), [])

    def test_a_second_interrupt_kills_a_job_that_takes_its_time(self):
        script = self.script(WAITS.replace("    print(", "    import signal; signal.signal(15, signal.SIG_IGN)\n    print("))
        while script.process.poll() is None:
            script.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                script.process.wait(0.5)
        self.assertIn("still here\n", script.ended()[1])
        wait_until(lambda: not processes_with(self.mark), "the job's processes end")

    def test_if_the_program_is_killed_no_worker_stays(self):
        script = self.script()
        script.process.kill()
        script.ended()
        wait_until(lambda: not processes_with(self.mark), "the job's processes end")

    def test_a_starter_that_is_dead_starts_nothing_and_one_that_is_no_parent_does_not_count(self):
        gone = subprocess.Popen(["true"])
        os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
        for is_reaped in (False, True):
            if is_reaped:
                gone.wait()
            ended = subprocess.run([DDPRUN, "echo", "started"], env={**os.environ, "DDPRUN_STARTED_BY": str(gone.pid)},
                                   capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual((ended.returncode, ended.stdout), (137, ""), is_reaped)
        ended = subprocess.run(["sh", "-c", f'"{DDPRUN}" --max-restarts=0 sh -c "exit 3"; exit $?'], timeout=LIMIT, capture_output=True,
                               text=True, env={**os.environ, "DDPRUN_STARTED_BY": str(os.getpid())})
        self.assertEqual(ended.returncode, 1)
        self.assertIn("exited with code 3", ended.stderr)


if __name__ == "__main__":
    unittest.main()
