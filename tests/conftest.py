"""What holds for every test: no network but this machine's, and one place that knows the scale."""

import os
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hermes.state import reserve

# Hundreds of databases with 32 MB of spare bytes each would fill a disk.
reserve.SIZE = 64 * 1024
os.environ["HERMES_RESERVE_MB"] = "0"

FULL = os.environ.get("HERMES_TEST_SCALE") == "full"

settings.register_profile("sample", deadline=None, derandomize=True, database=None)
settings.register_profile(
    "full", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("full" if FULL else "sample")


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # a string is a Unix socket
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host not in (None, "", "localhost", "::1", "0.0.0.0", "::") and not host.startswith("127."):
        raise RuntimeError(f"A test tried to reach {host}; the real network is forbidden in tests.")


sys.addaudithook(_refuse_network)


@pytest.fixture(scope="session")
def full() -> bool:
    """True under ./test --all: meet the counts in full. Otherwise a small seeded sample."""
    return FULL


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if item.get_closest_marker("full") and not FULL:
            item.add_marker(pytest.mark.skip(reason="in the full run"))
