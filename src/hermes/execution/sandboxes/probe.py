"""Whether a sandbox works on this machine, found by starting one: what is wrong with it, and the remedy.
A gateway has this done in a process of its own, which takes all that it loaded with it when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module

import msgspec
from msgspec import Struct

from hermes.domain.ports.world import Boundary
from hermes.domain.settings.settings import TerminalSettings
from hermes.domain.system.border import Border, describe
from hermes.domain.text import one_line

PROBE_SECONDS = 20.0
_END_SECONDS = 5.0
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")


class SandboxProbe(Struct, frozen=True, kw_only=True):
    """What was found about the backend `name`. `why` says what is wrong if it does not work, `remedy` what to
    do about it; both are for people."""

    name: str
    boundary: Boundary
    works: bool
    why: str = ""
    remedy: str = ""


Probe = Callable[[Mapping[str, str], TerminalSettings], Awaitable[SandboxProbe]]
"""Starts one for a moment, with everything that is promised of it. Takes the variables and the settings of
the gateway."""

PROBES = {
    "docker": "hermes.execution.sandboxes.container:probe_docker",
    "podman": "hermes.execution.sandboxes.container:probe_podman",
    "singularity": "hermes.execution.sandboxes.singularity:probe_singularity",
    "apptainer": "hermes.execution.sandboxes.singularity:probe_apptainer",
    "bubblewrap": "hermes.execution.sandboxes.bubblewrap:probe_bubblewrap",
    "landlock": "hermes.execution.sandboxes.landlock:probe_landlock",
}
"""Where the probe of each backend is; loaded when it is asked for."""


class _Question(Struct, frozen=True):
    """What the process is asked: the gateway's variables and settings."""

    environ: dict[str, str]
    terminal: TerminalSettings


_Answer = tuple[SandboxProbe, ...]


async def probe_in_child(environ: Mapping[str, str], terminal: TerminalSettings) -> _Answer:
    """All of them, in a process of their own."""
    own = {name: os.environ[name] for name in os.environ if name in _PASSED_ON or name.startswith("PYTHON")}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=own,
    )
    try:
        answer, _ = await child.communicate(msgspec.json.encode(_Question(dict(environ), terminal)))
    finally:
        if child.returncode is None:
            await _end(child)
    try:
        return msgspec.json.decode(answer, type=_Answer)
    except msgspec.DecodeError:
        why = f"the process that tries it ended with code {child.returncode}"
        return tuple(_useless(name, why) for name in PROBES)


async def _end(child: asyncio.subprocess.Process) -> None:
    """It cleans up what it has begun; nobody waits for one that cannot."""
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await child.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def main() -> None:
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=_Question)
    try:
        probes = asyncio.run(_probe_until_told(question))
    except asyncio.CancelledError:
        sys.exit(1)
    sys.stdout.buffer.write(msgspec.json.encode(probes))


async def _probe_until_told(question: _Question) -> _Answer:
    """Told to end, it is cancelled where it waits: an exception in the middle of an import would leave the
    interpreter's import lock held, and its threads waiting for ever."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await probe_all(question.environ, question.terminal)


async def probe_all(environ: Mapping[str, str], terminal: TerminalSettings) -> _Answer:
    return tuple(await asyncio.gather(*(_try(name, environ, terminal) for name in PROBES)))


async def _try(name: str, environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            with Border():
                return await probe_sandbox(name, environ, terminal)
    except TimeoutError:
        return _useless(name, f"it did not start within {PROBE_SECONDS:g} s")
    except Exception as error:  # whatever keeps it from working is what is asked for
        return _useless(name, one_line(describe(error), 200))


def _useless(name: str, why: str) -> SandboxProbe:
    return SandboxProbe(name=name, boundary=Boundary.NONE, works=False, why=why)


async def probe_sandbox(name: str, environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    """What is found now; whoever asks often keeps the answer."""
    module, _, function = PROBES[name].partition(":")
    probe: Probe = getattr(import_module(module), function)
    return await probe(environ, terminal)


if __name__ == "__main__":
    main()
