import queue


def drain(items):
    items.put("batch")
    drained = []
    try:
        while True:
            drained.append(items.get_nowait())
    except queue.Empty:
        return drained
