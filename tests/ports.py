"""Ports for servers whose address must be known before they run, and stays theirs from life to life."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _LAST = 20_000, 32_768


def free_port() -> int:
    """One that nobody listens on. It is not of those that the system gives to whoever wants any: while the
    server is down, one of those may become the near end of anybody's connection."""
    last = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _LAST
    chance = random.SystemRandom()
    for _ in range(1000):
        port = chance.randrange(min(_FIRST, last // 2), last)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
