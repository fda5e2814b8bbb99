"""What holds for every test: no network but this machine's, one place that knows the scale, and what each
test costs."""

import os
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hermes.state.store.care import reserve
from tests import nursery

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


# What takes longest in the full run begins first, so that no worker is left alone with it at the end.
LONGEST = (
    "tests/journeys/test_agent_isolation.py",
    "tests/stream/test_split_properties.py",
    "tests/entry/http/test_openapi.py",
    "tests/crash/test_random_kills.py",
    "tests/state/test_store_machine.py",
    "tests/state/test_power.py",
    "tests/state/test_store_pending.py",
    "tests/crash/test_recovery.py",
    "tests/entry/http/test_streams.py",
    "tests/platforms/email/test_email.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    for item in items:
        if item.get_closest_marker("root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if item.get_closest_marker("full") and not FULL:
            item.add_marker(pytest.mark.skip(reason="in the full run"))


# --- a test that hangs fails, and the others go on ---

LONGEST_SECONDS = 900 if FULL else 300


def _hangs(number: int, frame: object) -> None:
    pytest.fail(f"It hangs: nothing came of it in {LONGEST_SECONDS} seconds.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(LONGEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """A gateway that a terminal of a test has started would linger."""
    try:
        return (yield)
    finally:
        if (command := sys.modules.get("tests.cli.command")) is not None:
            command.end_gateways()


# --- what a test costs: `--costs=20` shows the twenty that take most ---

BEGAN = pytest.StashKey[float]()


def _cpu() -> float:
    """Seconds of CPU that this process took, with those of its processes that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return nursery.spent + sum(one.ru_utime + one.ru_stime for one in used)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "show the N tests that take most CPU, with the processes they start"
    parser.addoption("--costs", type=int, default=0, metavar="N", help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGAN] = _cpu()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
    report = yield
    if call.when == "teardown":
        report.user_properties.append(("cpu", _cpu() - item.stash.get(BEGAN, _cpu())))
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = [one for kind in terminalreporter.stats.values() for one in kind]
    over = [one for one in reports if getattr(one, "when", "") == "teardown"]
    costs = sorted(((dict(one.user_properties)["cpu"], one.nodeid) for one in over), reverse=True)
    if wanted := config.getoption("--costs"):
        terminalreporter.section(f"{sum(cpu for cpu, _ in costs):.0f} s of CPU; the dearest tests")
        for cpu, name in costs[:wanted]:
            terminalreporter.write_line(f"{cpu:7.1f} s  {name}")
