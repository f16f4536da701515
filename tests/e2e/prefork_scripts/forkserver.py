"""A Process by the start method "forkserver", with a queue, a lock and shared memory."""
import multiprocessing as mp
import os
import sys
from multiprocessing import shared_memory


def work(queue, lock, name):
    memory = shared_memory.SharedMemory(name)
    with lock:
        memory.buf[0] = 42
    memory.close()
    queue.put((__name__, sys.argv[1:], os.environ["LOCAL_RANK"], os.path.basename(sys.path[0])))


if __name__ == "__main__":
    mp.set_start_method("forkserver")
    memory = shared_memory.SharedMemory(create=True, size=8)
    queue, lock = mp.Queue(), mp.Lock()
    process = mp.Process(target=work, args=(queue, lock, memory.name))
    process.start()
    answer = queue.get()
    process.join()
    sys.stdout.write(f"rank {os.environ['RANK']}: {answer} {memory.buf[0]} exit code {process.exitcode}\n")
    memory.close()
    memory.unlink()
