"""The service under a real systemd: Debian's, booted from a folder, with this checkout in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.execution.beds import install

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.xdist_group("systemd")]
ROOT = Path(__file__).resolve().parents[2]
HOME = "/var/lib/hermes"
PATIENCE = 90.0


def until(what: Callable[[], bool], why: str) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > end:
            pytest.fail(why)
        time.sleep(0.2)


@pytest.fixture(scope="module")
def machine() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    if os.geteuid() != 0:
        pytest.skip("only root can boot a systemd")
    install("debootstrap", "debootstrap")
    install("systemd-container", "systemd-nspawn")
    tree = Path("/var/tmp/hermes-tests/systemd")  # made once on a machine: it takes two minutes
    if not (tree / "made").exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        packages = "--include=systemd,systemd-sysv,dbus,procps"
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", packages, "bookworm", str(tree)],
            capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        if made.returncode:
            pytest.skip(f"Debian cannot be had: {made.stdout[-200:]}")
        (tree / "made").touch()
    shutil.rmtree(tree / HOME.lstrip("/"), ignore_errors=True)
    (tree / "etc/systemd/system/hermes-gateway.service").unlink(missing_ok=True)
    seen = [f"--bind-ro={place}" for place in dict.fromkeys((str(ROOT), sys.prefix, sys.base_prefix))]
    boot = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--tmpfs=/tmp"]
    container = subprocess.Popen(
        [*boot, "-D", str(tree), *seen, "-b"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def inside(*words: str) -> subprocess.CompletedProcess[str]:
        children = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
        first = children[0] if children else "0"
        enter = [
            "nsenter",
            "-t",
            first,
            "-m",
            "-p",
            "-u",
            "-i",
            "-n",
            "env",
            f"HERMES_HOME={HOME}",
            "HOME=/root",
        ]
        environ = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"PYTHONPATH={ROOT / 'src'}", "HERMES_NO_PROBE=1"]
        return subprocess.run(
            [*enter, *environ, *words], capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    try:
        end = time.monotonic() + PATIENCE
        while inside("systemctl", "is-system-running").stdout.strip() not in ("running", "degraded"):
            if container.poll() is not None or time.monotonic() > end:
                pytest.skip("a systemd cannot be booted here")
            time.sleep(0.5)
        yield inside
    finally:
        container.send_signal(signal.SIGKILL)
        container.wait()


def test_the_service_lives_through_kills_restarts_and_reloads(
    machine: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    def hermes(*words: str) -> str:
        done = machine(sys.executable, "-P", "-m", "hermes", *words)
        assert done.returncode == 0, done
        return done.stdout

    def shown(name: str) -> str:
        return machine("systemctl", "show", "hermes-gateway", "--property", name, "--value").stdout.strip()

    def is_new(pid: str) -> bool:
        return shown("ActiveState") == "active" and shown("MainPID") not in ("0", pid)

    assert "is a service now" in hermes("gateway", "install", "--system")
    assert shown("ActiveState") == "active" and shown("StatusText") == "running"
    assert "systemd, hermes-gateway.service" in hermes("status")
    for act in (
        lambda: machine("systemctl", "kill", "-s", "KILL", "hermes-gateway"),
        lambda: machine("systemctl", "reload", "hermes-gateway"),
        lambda: hermes("gateway", "restart"),
    ):
        before = shown("MainPID")
        act()
        until(lambda before=before: is_new(before), "it did not come back")  # type: ignore[misc]
    assert int(shown("NRestarts")) == 3
    hermes("gateway", "stop")
    until(lambda: shown("ActiveState") == "inactive", "it did not stay stopped")
    assert "removed" in hermes("gateway", "uninstall", "--system")
    assert shown("LoadState") == "not-found"
