"""Instructions of one launch, counted by callgrind: a number that a busy machine leaves alone, so growth is seen.

Keeper and agent with all their threads, and what their workers do before exec; not the workers' own program. valgrind
runs the threads one at a time and knows neither pidfds' calls nor futex_waitv(2): the first are stood in for by
libpidfd_shim.so, for the second ddprun takes its way for older kernels. The environment is empty, since it costs, too.
By hand:
  env -i PATH=/usr/bin:/bin LD_PRELOAD=$PWD/build/release/lib/libpidfd_shim.so valgrind --tool=callgrind \
    --callgrind-out-file=/tmp/launch.%p build/release/bin/ddprun --nproc_per_node=2 /bin/true
The sum of the two files' `totals` is the figure; callgrind_annotate --inclusive=yes shows where it comes from. What is done
before the agent is forked is in both.
"""
import pathlib
import re
import subprocess
import tempfile

from table import Row
from tools import DDPRUN, TRUE, ddprun

WHAT = "instructions of a launch of 2 x true"
GROWTH = 1.05


def shim(program):
    return pathlib.Path(program).parents[1] / "lib/libpidfd_shim.so"


def instructions(*callgrind_options, program=DDPRUN, tunables=""):
    environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(shim(program)), "GLIBC_TUNABLES": tunables}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        done = subprocess.run(["valgrind", "-q", "--tool=callgrind", *callgrind_options, f"--callgrind-out-file={folder}/%p",
                               program, *ddprun(2, TRUE)[1:]], env=environment, capture_output=True, text=True)
        totals = [int(re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE)[1])
                  for file in pathlib.Path(folder).iterdir()]
    if done.returncode != 0 or len(totals) != 2:
        raise RuntimeError(f"callgrind counted {len(totals)} processes, ddprun ended with {done.returncode}:\n{done.stderr}")
    return sum(totals)


def bench(samples, page):
    last = page.figure_of(WHAT)
    now = [instructions() for _ in range(samples(3))]
    yield Row(WHAT, "instructions", now, "last kept" if last else "none kept yet", [last] if last else [],
              (f"<= {GROWTH} x the last", lambda mine, _: not last or mine <= GROWTH * last))
