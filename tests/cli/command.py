"""The real `hermes` command in a process of its own, with a home of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.admin.process.home_files import GATEWAY, home_holder
from hermes.domain.errors import UserError
from tests import nursery

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def clean(self) -> bool:
        return "Traceback" not in self.out + self.err


homes: set[Path] = set()
"""Those that were worked on; a terminal may have started a gateway there."""


def end_gateway(home: Path) -> None:
    """Kill the gateway of a home, and wait until it is gone."""
    end = time.monotonic() + PATIENCE
    while (holder := home_holder(home)) is not None:
        assert time.monotonic() < end, holder
        if holder.pid and holder.what == GATEWAY:
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder.pid, signal.SIGKILL)
        time.sleep(0.01)


def until_gone(home: Path) -> None:
    """Wait until the gateway of a home has left by itself."""
    end = time.monotonic() + PATIENCE
    while home_holder(home) is not None:
        assert time.monotonic() < end, home
        time.sleep(0.02)


def end_gateways() -> None:
    """Of all homes of a test."""
    while homes:
        with contextlib.suppress(UserError):  # it was made to be a bad home
            end_gateway(homes.pop())


def environment(home: Path, **more: str) -> dict[str, str]:
    homes.add(home)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return {
        **kept,
        "HOME": str(home.parent),
        "HERMES_HOME": str(home),
        "PYTHONPATH": str(ROOT / "src"),
        "HERMES_NO_PROBE": "1",
        "HERMES_RESERVE_MB": "0",
        "TERMINAL_ENV": "local",
        "HERMES_RUNTIME_DIR": str(home.parent / "run"),
        **more,
    }


def hermes(
    home: Path, *args: str | bytes, given: str | None = None, before: Sequence[str] = (), **more: str
) -> Said:
    """Run one command to its end. `given` is its stdin; nothing, if not told."""
    done = nursery.run(
        [*before, sys.executable, "-P", "-m", "hermes", *args],
        env=environment(home, **more),
        cwd="/",
        input=given or "",
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=PATIENCE,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@dataclass
class Running:
    process: subprocess.Popen[str]
    log: Path

    @property
    def err(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def until(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self.err:
            assert time.monotonic() < end and self.process.poll() is None, self.err
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def gateway(home: Path, *args: str, script: Sequence[str] = (), **more: str) -> Iterator[Running]:
    """A gateway that is ready, and killed at the end if it still runs."""
    log = home.parent / f"{home.name}.stderr"
    command = [sys.executable, "-P", *(script or ("-m", "hermes", "gateway", "run", *args))]
    with log.open("w") as file:
        process = nursery.Popen(command, env=environment(home, **more), cwd="/", stderr=file, text=True)
    running = Running(process, log)
    try:
        running.until("ready: home")
        yield running
    finally:
        process.kill()
        process.wait()
