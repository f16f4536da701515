"""A TCP port for a program that must name one before anybody listens on it; free_port.h says what is promised."""
import random
import socket

FIRST, LAST = 10000, 28999
_reserved = []  # open until this process ends


def _ephemeral_range():
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            return tuple(map(int, file.read().split()))
    except OSError:
        return 32768, 60999


def free_port() -> int:
    first, last = _ephemeral_range()
    for port in random.sample([port for port in range(FIRST, LAST + 1) if not first <= port <= last], 1000):
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0ddprun-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            name.close()
            continue
        _reserved.append(name)
        return port
    raise RuntimeError(f"no port from {FIRST} to {LAST} is free")
