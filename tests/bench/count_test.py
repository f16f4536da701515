"""A launch of 2 x true keeps to its budget of instructions, which are the same on every machine: count_test.py DDPRUN.

Counted is what main() does in keeper and agent, without what depends on the machine: how many control groups it has, what its
libc's functions do with its processor. Whoever adds 2 % sees it here, and raises the budget where it is worth that.
"""
import pathlib
import shutil
import sys

from count import instructions, shim

BUDGET = 615_000
MARGIN = 0.02
# A function named here stops the counting at its begin, and starts it at its end. valgrind gives a child of vfork a copy of the memory,
# as an emulator does: only then is await_exec called.
OF_THE_MACHINE = ["ddprun::agent::read_cpu_quota(*", "ddprun::agent::read_memory_limit(*", "ddprun::agent::read_oom_counts(*",
                  "ddprun::agent::(anonymous namespace)::await_exec(*"]
# The functions of libc for any x86-64 processor. strcmp without Fast_Unaligned_Load, as that of such processors takes longer near a
# page's end, and asio compares names of types: where the linker puts them would make 2 %.
ANY_PROCESSOR = ("glibc.cpu.hwcaps=-Fast_Unaligned_Load,"
                 "-AVX2,-AVX,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM,-BMI2,-SSSE3,-SSE4_1,-SSE4_2,-LZCNT,-MOVBE")

program = str(pathlib.Path(sys.argv[1]).resolve())
if not shutil.which("valgrind"):
    sys.exit("There is no valgrind here, which counts the instructions: scripts/setup.sh --test installs it.")
if not shim(program).exists():
    sys.exit(f"There is no {shim(program)}, without which valgrind does not run ddprun: build the target pidfd_shim.")

# What threads do while others wait differs by some hundred.
least = min(instructions("--toggle-collect=main", *[f"--toggle-collect={name}" for name in OF_THE_MACHINE], program=program,
                         tunables=ANY_PROCESSOR)
            for _ in range(3))
print(f"a launch of 2 x true: {least:,} instructions, {100 * least / BUDGET - 100:+.1f} % of the budget of {BUDGET:,}")
if least > BUDGET * (1 + MARGIN):
    sys.exit("It costs more than its budget. tests/bench/count.py says how to see where; BUDGET in tests/bench/count_test.py raises it.")
if least < BUDGET * (1 - MARGIN):
    print("It costs less: BUDGET in tests/bench/count_test.py may be lowered, so that it stays so.")
