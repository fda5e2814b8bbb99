"""Ports of servers whose address must be known before they listen, or that return to it after they were away.

They lie outside the range from which the system gives ports to whoever does not care: one from there may be
somebody else's a moment later."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

_LOWEST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody uses now, and that this process was not given before."""
    highest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    while True:
        port = _LOWEST + secrets.randbelow(highest - _LOWEST)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
