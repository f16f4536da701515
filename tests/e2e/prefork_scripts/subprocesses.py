"""asyncio, and children by subprocess: their arguments, environment and inherited state."""
import asyncio
import os
import subprocess
import sys

CHILD = """
import os, signal, sys
print("child", os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["LR"], sys.argv[1:], sys.path[0] == "",
      signal.getsignal(signal.SIGPIPE), sys.prefix == os.environ["PREFIX"], sys.stdout.write_through, os.listdir("/proc/self/fd"))
"""


async def run_child(name):
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, name, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode().strip(), process.returncode


async def main():
    lines = await asyncio.gather(run_child("one"), run_child("two"))
    return [*lines, await asyncio.to_thread(os.getpid) == os.getpid()]


os.environ |= {"LR": "0.5", "PREFIX": sys.prefix}
lines = asyncio.run(main())
lines.append(subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout.strip())
lines.append(subprocess.run("echo $RANK $LR; exit 5", shell=True, capture_output=True, text=True).stdout.strip())
if os.fork() == 0:
    os._exit(6)
lines.append(os.waitstatus_to_exitcode(os.wait()[1]))
sys.stdout.write("".join(f"rank {os.environ['RANK']}: {line}\n" for line in lines))
