#!/usr/bin/env python3
"""PyTorch's own stores, for a test of our client.

  stock_stores.py              one of libuv's, then a plain one: "ports P Q". Each holds "here" of PyTorch's client, which
                               says what ours sets: "heard VALUE". They serve until they are killed.
  stock_stores.py count PORT   a rank 0 that waits for one more client: "counted"
"""
import datetime
import signal
import sys
import threading

from torch.distributed import TCPStore


def hear(store):
    print(f"heard {store.get('ours').decode()}", flush=True)


if sys.argv[1:2] == ["count"]:
    TCPStore("127.0.0.1", int(sys.argv[2]), 2, True, timeout=datetime.timedelta(seconds=180))
    print("counted", flush=True)
else:
    stores = [TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, use_libuv=uv) for uv in (True, False)]
    for store in stores:
        store.set("here", "PyTorch")
        threading.Thread(target=hear, args=(store,), daemon=True).start()
    print("ports", *(store.port for store in stores), flush=True)
    signal.pause()
