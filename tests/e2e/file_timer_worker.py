"""Sets one of torchrun's file timers on itself and hangs: argv[1] seconds, argv[2] signal."""

import os
import signal
import sys
import time

from torch.distributed.elastic.timer import FileTimerClient

client = FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"], signal=signal.Signals[sys.argv[2]])
client.acquire("released", time.time() + 0.1)
client.release("released")
time.sleep(0.2)
client.acquire("step", time.time() + float(sys.argv[1]))
print("armed", flush=True)
time.sleep(60)
