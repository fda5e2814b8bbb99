"""Whether a sandbox works on this machine, found by starting one: what is wrong with it, and the remedy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module

from msgspec import Struct

from hermes.domain.ports.world import Boundary
from hermes.domain.settings.settings import TerminalSettings


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
    "bubblewrap": "hermes.execution.sandboxes.bubblewrap:probe_bubblewrap",
    "landlock": "hermes.execution.sandboxes.landlock:probe_landlock",
}
"""Where the probe of each backend is; loaded when it is asked for."""


async def probe_sandbox(name: str, environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    """What is found now; whoever asks often keeps the answer."""
    module, _, function = PROBES[name].partition(":")
    probe: Probe = getattr(import_module(module), function)
    return await probe(environ, terminal)
