"""%%ddprun in a real kernel: python notebook_test.py DDPRUN, by a Python that has ipykernel and cloudpickle."""
import os
import pathlib
import queue
import re
import sys
import tempfile
import unittest

from jupyter_client.manager import KernelManager

from programs import LIMIT, package_environment, processes_with, wait_until

DDPRUN = os.path.abspath(sys.argv.pop(1))


class Cell:
    """What a cell that was executed has shown."""

    def __init__(self, kernel, text):
        self._kernel, self.text = kernel, text
        self.shown, self.error, self.status, self.messages = "", None, None, 0
        self._id = kernel.client.execute(text)

    def wait_for(self, text):
        while text not in self.shown:
            if self.status:
                raise AssertionError(f"the cell ended without '{text}': {self.shown} {self.error}")
            self._next()
        return self

    def ended(self):
        while not self.status:
            self._next()
        return self

    def _next(self):
        try:
            message = self._kernel.client.get_iopub_msg(timeout=LIMIT)
        except queue.Empty:
            raise AssertionError(f"no more from the cell after {LIMIT} s: {self.shown}") from None
        if message["parent_header"].get("msg_id") != self._id:
            return
        content = message["content"]
        if message["msg_type"] == "stream":
            self.shown += content["text"]
            self.messages += 1
        elif message["msg_type"] == "execute_result":
            self.shown += content["data"]["text/plain"]
        elif message["msg_type"] == "error":
            self.error = "\n".join(content["traceback"])
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            self.status = "error" if self.error else "ok"


class Kernel:
    def __init__(self, folder, **environment):
        self.manager = KernelManager(transport="ipc", ip=os.path.join(folder, "kernel"))
        self.manager.start_kernel(env={**package_environment(DDPRUN), **environment}, cwd=folder)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT)
        self.run("%load_ext ddprun")

    def begin(self, text):
        return Cell(self, text)

    def run(self, text):
        return Cell(self, text).ended()

    def close(self):
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)


class InOneKernel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = pathlib.Path(os.path.realpath(folder.name))
        cls.kernel = Kernel(folder.name)
        cls.addClassCleanup(cls.kernel.close)

    def run_cell(self, text, status="ok"):
        cell = self.kernel.run(text)
        self.assertEqual(cell.status, status, (cell.shown, cell.error))
        return cell

    def test_rank_0_is_shown_and_others_where_they_are_asked_for(self):
        program = "\nimport os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"
        self.assertEqual(self.run_cell("%%ddprun -n 3" + program).shown, "rank 0 of 3\n")
        two = self.run_cell("%%ddprun -n 3 --see 1,2" + program).shown
        self.assertEqual(sorted(two.splitlines()), ["[1] rank 1 of 3", "[2] rank 2 of 3"])
        self.assertEqual(len(self.run_cell("%%ddprun -n 3 --see all" + program).shown.splitlines()), 3)

    def test_lines_are_shown_before_the_end_and_none_is_lost_there(self):
        seen = self.path / "seen"
        cell = self.kernel.begin("%%ddprun -n 2\nimport os, sys, time\nprint('first')\n"
                                 f"while not os.path.exists('{seen}'): time.sleep(0.01)\n"
                                 "for i in range(1000): print(i)\nsys.stdout.write('last')")
        cell.wait_for("first\n")
        seen.touch()
        self.assertEqual(cell.ended().shown, "first\n" + "".join(f"{i}\n" for i in range(1000)) + "last")
        self.assertLess(cell.messages, 500)  # a kernel drops messages of which a thousand wait

    def test_the_cell_is_a_program_of_its_own_with_arguments_and_the_folder_s_modules(self):
        (self.path / "mine.py").write_text("def twice(x):\n    return 2 * x\n")
        shown = self.run_cell("%%ddprun -- --lr 0.1 'a b'\nfrom __future__ import annotations\nimport sys, mine\n"
                              "if __name__ == '__main__':\n    print(sys.argv[1:], mine.twice(4))").shown
        self.assertEqual(shown, "['--lr', '0.1', 'a b'] 8\n")

    def test_a_cell_may_be_kept_in_a_file_and_imports_what_is_beside_it(self):
        (self.path / "lib").mkdir()
        (self.path / "lib/beside.py").write_text("x = 7\n")
        self.assertEqual(self.run_cell("%%ddprun --file lib/kept.py\nimport beside\nprint(beside.x, __file__)").shown,
                         f"7 {self.path}/lib/kept.py\n")
        self.assertEqual((self.path / "lib/kept.py").read_text(),
                         "# %%ddprun --file lib/kept.py\nimport beside\nprint(beside.x, __file__)\n")
        self.assertIn("ddprun: cannot write", self.run_cell("%%ddprun --file no/such/a.py\n1", "error").error)

    def test_variables_go_in_and_come_back(self):
        self.run_cell("class Net:\n    w = 1\nnet, lr = Net(), 0.5")
        self.run_cell("%%ddprun -n 2 --push net,lr --pull net,loss --from-rank 1 -o result\nimport os\n"
                      "net.w = lr + int(os.environ['RANK'])\nloss = lambda: net.w\nprint('trained')")
        shown = self.run_cell("type(net) is Net, net.w, loss(), result.exit_code, result.values['net'].w, result.output").shown
        self.assertEqual(shown, "(True, 1.5, 1.5, 0, 1.5, 'trained\\n')")  # rank 1's

    def test_what_cannot_go_or_come_is_one_sentence(self):
        run = self.run_cell
        self.assertEqual(run("%%ddprun --push nosuch\n1", "error").error, "ddprun: --push: the notebook has no nosuch.")
        self.assertIn("NameError: --pull: the cell has set no nosuch on rank 0", run("%%ddprun --pull nosuch\n1", "error").error)
        run("import threading\nlock = threading.Lock(); big = bytes(2_000_000)")
        self.assertIn("ddprun: --push: lock cannot be passed on: TypeError", run("%%ddprun --push big,lock\n1", "error").error)
        self.assertEqual(run("%%ddprun --push big --limit 1M\n1", "error").error,
                         "ddprun: --push: big take 1.91 MiB, and --limit is 1 MiB. Raise it, or write a file.")
        self.assertIn("--limit is 1 MiB", run("%%ddprun --pull big --limit 1M\nbig = bytes(2_000_000)", "error").error)

    def test_a_failing_rank_is_told_in_a_few_lines_with_the_cell_s_own_line_numbers(self):
        failed = self.run_cell("%%ddprun -n 2\nimport os, time\ndef f():\n    raise ValueError('boom')\n"
                               "if os.environ['RANK'] == '1': f()\ntime.sleep(1000)", "error")
        self.assertEqual(failed.error, "ddprun: rank 1 failed:\n  File \"cell\", line 5, in <module>\n"
                         "    if os.environ['RANK'] == '1': f()\n                                  ^^^\n"
                         "  File \"cell\", line 4, in f\n    raise ValueError('boom')\nValueError: boom")
        self.assertEqual(failed.shown, "")
        killed = self.run_cell("%%ddprun\nimport os\nos.kill(os.getpid(), 11)", "error").error
        self.assertIn("rank 0 was killed by SIGSEGV", killed)
        self.assertEqual(self.run_cell("%%ddprun\nprint('next')").shown, "next\n")

    def test_a_function_of_a_cell_that_fails_is_shown_with_its_lines(self):
        failed = self.run_cell("import ddprun\ndef divides(x):\n    return x / 0  # here\nddprun.launch(divides, 1)", "error").error
        self.assertIn("line 3, in divides\n    return x / 0  # here\n", failed)

    def test_mistakes_are_a_line_or_two(self):
        run = self.run_cell
        self.assertEqual(run("%%ddprun --nosuch\n1", "error").error,
                         "ddprun: there is no option --nosuch; ddprun --help lists its own, and the cell's come after --.")
        self.assertIn("ddprun: --rdzv is ambiguous", run("%%ddprun --rdzv x\n1", "error").error)
        self.assertEqual(run("%%ddprun -n\n1", "error").error, "ddprun: argument -n: expected one argument.")
        self.assertEqual(run("%%ddprun -n 2 --see x\n1", "error").error,
                         "ddprun: argument --see: 'x' is neither all nor ranks such as 0,1 or 2-5.")
        self.assertEqual(run("%%ddprun -n 2 --see 0,2\n1", "error").error,
                         "ddprun: --see: there is no rank 2 with -n 2: ranks count from 0.")
        self.assertIn("--background, or leave it out", run("%%ddprun --name job\n1", "error").error)
        self.assertIn("leave out one of them", run("%%ddprun -n 2 --nproc_per_node 3\n1", "error").error)
        self.assertIn("'4' is no option", run("%%ddprun 4\n1", "error").error)
        self.assertIn("'train.py' is no option", run("%%ddprun -n 2 --max-restarts 1 train.py\n1", "error").error)
        mistaken = run("%%ddprun\nx = = 1", "error").error
        self.assertRegex(mistaken, r'^ddprun: File "cell", line 2\n    x = = 1\n +\^\nSyntaxError: invalid syntax$')
        self.assertIn("no magics and no shell commands in it", run("%%ddprun\n!ls", "error").error)
        self.assertIn("takes status, log, wait or stop", run("%ddprun -n 2", "error").error)
        run("import os; launcher = os.environ.pop('DDPRUN_LAUNCHER'); path = os.environ['PATH']; os.environ['PATH'] = ''")
        try:
            self.assertRegex(run("%%ddprun\n1", "error").error, "^ddprun: there is no program ddprun .*Install ddprun.*$")
        finally:
            run("os.environ.update(DDPRUN_LAUNCHER=launcher, PATH=path)")

    def test_what_is_almost_an_option_or_act_of_the_magic_is_told_so(self):
        run = self.run_cell
        for typed, meant in {"--puhs x": "push", "--pul x": "pull", "--backgroud": "background", "--form-rank 1": "from-rank"}.items():
            self.assertEqual(run(f"%%ddprun {typed}\nprint('ran')", "error").error,
                             f"ddprun: there is no option {typed.split()[0]}. Did you mean '--{meant}'?")
        self.assertEqual(run("%%ddprun --from_rank 0 --log_dir=/dev/null\nprint('ran')").shown, "ran\n")
        self.assertIn("Did you mean '--from-rank'?", run("%%ddprun --form_rank 1\n1", "error").error)
        self.assertIn("Did you mean '--max-restarts'?", run("%%ddprun --max-restart=1 --max-restrats=1\n1", "error").error)
        self.assertTrue(run("%ddprun statsu", "error").error.endswith(" Did you mean 'status'?"))
        self.assertTrue(run("%ddprun frobnicate", "error").error.endswith("that ddprun runs."))
        self.assertEqual(run("%%ddprun --nproc 2 --tee=3 --log-dir=/dev/null -- --puhs\nimport sys\n"
                             "print(sys.argv[1])").shown.count("--puhs"), 1)

    def test_help_shows_the_magic_s_own_options_and_runs_nothing(self):
        shown = self.run_cell("%%ddprun --help\nprint('ran')").shown
        self.assertTrue(shown.startswith("%%ddprun [-n N] [--see RANKS]"), shown)
        for part in ("--push a,b", "--pull a,b", "--background", "%ddprun status | log | wait | stop [NAME]"):
            self.assertIn(part, shown)
        self.assertNotIn("usage:", shown)
        self.assertNotIn("ran\n", shown)
        for alone in ("%%ddprun --help", "%%ddprun -n 2 -h\n\n", "%ddprun --help", "%ddprun -h"):
            self.assertEqual(self.run_cell(alone).shown, shown)
        self.assertEqual(self.run_cell("%%ddprun -- --help\nimport sys\nprint(sys.argv[1])").shown, "--help\n")
        self.run_cell("%reload_ext ddprun")
        self.assertEqual(self.run_cell("%%ddprun --help").shown, shown)

    def test_a_job_in_the_background(self):
        go = self.path / "go"
        started = self.run_cell("%%ddprun -n 2 --background --pull x\nimport os, time\nprint('up', flush=True)\n"
                                f"while not os.path.exists('{go}'): time.sleep(0.01)\nprint('done')\nx = 5").shown
        self.assertIn("ddprun: job 1 runs in the background", started)
        wait_until(lambda: self.run_cell("%ddprun log").shown == "up\n", "the job's first line")
        self.assertRegex(self.run_cell("%ddprun status").shown, r"^ddprun: job 1 runs for \d+ s \(process \d+\)\.\n$")
        go.touch()
        self.assertEqual(self.run_cell("%ddprun wait 1").shown, "up\ndone\n")
        self.assertEqual(self.run_cell("x").shown, "5")
        self.assertEqual(self.run_cell("%ddprun status").shown, "ddprun: no job runs in the background.\n")
        self.assertIn("no job 1 in the background (there: none)", self.run_cell("%ddprun log 1", "error").error)

    def test_a_job_in_the_background_is_stopped_or_tells_its_failure(self):
        waits = "%%ddprun --background --name {}\nimport time\nprint('up', flush=True)\ntime.sleep(1000)"
        self.run_cell(waits.format("long"))
        self.assertIn("a job long runs already", self.run_cell(waits.format("long"), "error").error)
        wait_until(lambda: "up" in self.run_cell("%ddprun log long").shown, "the job's first line")
        self.assertEqual(self.run_cell("%ddprun stop long").shown, "ddprun: job long has ended with exit code 143.\n")
        self.run_cell("%%ddprun --background\n1 / 0")
        self.assertIn("ZeroDivisionError", self.run_cell("%ddprun wait", "error").error)

    def test_a_job_in_the_background_outlives_the_thread_that_started_it(self):
        self.run_cell("import threading\nshell = get_ipython()\nthread = threading.Thread(target=lambda: shell.run_cell_magic("
                      "'ddprun', '--background --name threaded', 'import time\\ntime.sleep(1000)'))\nthread.start(); thread.join()")
        self.assertIn("job threaded runs for", self.run_cell("%ddprun status threaded").shown)
        self.assertEqual(self.run_cell("%ddprun stop threaded").shown, "ddprun: job threaded has ended with exit code 143.\n")

    def test_an_interrupt_ends_the_job_and_leaves_the_kernel(self):
        self.run_cell("kept = 1; import os; os.environ['MARK'] = 'interrupted'")
        cell = self.kernel.begin("%%ddprun -n 2\nimport time\nprint('up')\ntime.sleep(1000)").wait_for("up\n")
        self.kernel.manager.interrupt_kernel()
        self.assertEqual(cell.ended().error, "ddprun: interrupted; the job has ended.")
        self.assertEqual(processes_with("MARK=interrupted"), [])
        self.assertEqual(self.run_cell("kept").shown, "1")
        self.run_cell("del os.environ['MARK']")

    def test_a_library_that_no_fork_may_meet_is_used_in_the_kernel_before(self):
        # As CUDA is: an initialised driver does not work in a fork.
        self.run_cell("import os, threading\nforks = []\nos.register_at_fork(before=lambda: forks.append(1))\n"
                      "threading.Thread(target=threading.Event().wait, daemon=True).start()")
        self.run_cell("%%ddprun -n 2\nprint('trained')")
        self.assertEqual(self.run_cell("forks").shown, "[]")


class Killed(unittest.TestCase):
    def test_a_killed_kernel_leaves_no_worker(self):
        with tempfile.TemporaryDirectory() as folder:
            kernel = Kernel(folder, MARK=folder)
            try:
                kernel.run("%%ddprun --background -n 2\nimport time\ntime.sleep(1000)")
                kernel.begin("%%ddprun -n 2\nimport time\nprint('up')\ntime.sleep(1000)").wait_for("up\n")
                # The kernel, two ddpruns of two processes each, and workers.
                wait_until(lambda: len(processes_with(f"MARK={folder}")) >= 7, "all are there")
                kernel.manager.provisioner.process.kill()
                wait_until(lambda: not processes_with(f"MARK={folder}"), "the jobs' processes end")
            finally:
                kernel.close()


if __name__ == "__main__":
    unittest.main()
