"""The backend `daytona`: commands in a sandbox of Daytona's service, by its own SDK (`daytona` 0.226).

One sandbox per agent, workspace and network, found again by its name, which is in the home. It is stopped
after its last use, which keeps its files, and started for the next; without `container_persistent` it is
deleted. One that a killed gateway left running is stopped first, so that nothing runs on in it. Streams are
terminals in raw mode: of all that the SDK has, only they take input and keep bytes."""

from __future__ import annotations

import asyncio
import contextlib
import math
import shlex
import uuid
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ports.world import BackendRequest, Boundary, World
from hermes.domain.text import one_line
from hermes.execution.far.backend import FarBackend
from hermes.execution.far.pipes import Pipes, RemotePipes
from hermes.execution.far.shipping import FarFacts
from hermes.execution.sandboxes.kept import kept_file, place_digest, read_kept

NAME = "daytona"
_SECONDS = 50.0
_STOP_SECONDS = 6.0
_STAY_SECONDS = 300.0
_IDLE_MINUTES = 30
_SET_KEY = "Run: hermes config set DAYTONA_API_KEY, which asks."
_MARK = b"\x01HERMES\x01"
# The line is echoed before the terminal is told not to, with its backslashes as they are.
_READY = r"""exec sh -c 'stty raw -echo && printf "\001HERMES\001" && eval "$(head -c %d)"'"""


def make_daytona(request: BackendRequest) -> FarBackend:
    """The entry `daytona` of the group `hermes.backends`."""
    place = DaytonaPlace(request)
    given = {name: request.environ[name] for name in request.passthrough if name in request.environ}
    return FarBackend(place, states=place.states, given=given)


class DaytonaPlace:
    """The far world of one sandbox."""

    alone = False

    def __init__(self, request: BackendRequest) -> None:
        self._request = request
        self._settings = request.profile.settings.terminal
        digest = place_digest(request, self._settings.daytona_image)
        self.kept = kept_file(request.home, NAME, digest)
        self._name = ""
        self.states = request.home / "cache/shells" / f"{NAME}-{digest}"
        self._client: Any = None
        self._sandbox: Any = None
        self._making = asyncio.Lock()
        self._staying: asyncio.Task[None] | None = None

    def world(self, facts: FarFacts | None) -> World | None:
        if facts is None:
            return None
        return World(
            workspace=facts.home,
            home=facts.home,
            system=f"{facts.system} (sandbox of Daytona)",
            shell="bash, or sh where there is none",
            sandbox="container",
            host=NAME,
            boundary=Boundary.CONTAINER,
            network=self._request.network,
        )

    async def open(self) -> None:
        if self._request.network.hosts and not self._request.network.open:
            raise UserError(
                "The backend daytona cannot limit the network to some hosts.",
                hint="Choose another (terminal.backend), or set the network to none or open.",
            )
        async with self._making:
            await self._have(fresh=True)
        if self._staying is None:
            self._staying = asyncio.create_task(self._stay(), name="daytona sandbox stays")

    async def start(self, argv: Sequence[str]) -> Pipes:
        async with self._making:
            if self._sandbox is None:
                await self._have(fresh=False)
        text = shlex.join(argv) + " 2>/dev/null"
        heard, ready = bytearray(), asyncio.Event()
        terminal: Any = None

        async def send(data: bytes) -> None:
            await terminal.send_input(data)

        async def hang_up() -> None:
            if terminal is not None:
                with contextlib.suppress(Exception):
                    await terminal.kill()
                await terminal.disconnect()

        pipes = RemotePipes(send, hang_up)

        async def hear(data: bytes) -> None:
            if ready.is_set():
                await pipes.feed(data)
                return
            heard.extend(data)
            _, mark, rest = bytes(heard).partition(_MARK)
            if mark:
                ready.set()
                await pipes.feed(rest)

        try:
            async with asyncio.timeout(_SECONDS):
                name = f"hermes-{uuid.uuid4().hex[:12]}"
                terminal = await self._sandbox.process.create_pty_session(name, hear)
                script = text.encode("utf-8", "surrogateescape")
                await terminal.send_input(f"{_READY % len(script)}\n")
                await ready.wait()
                await terminal.send_input(script)
        except TimeoutError:
            pipes.end(255, "it did not answer")
        except Exception as error:  # whatever the SDK raises
            pipes.end(255, one_line(str(error), 200))
        except BaseException:
            pipes.close()
            raise
        else:
            ending = asyncio.create_task(_see_end(terminal, pipes), name="daytona terminal")
            pipes.watched_by(ending)
        return pipes

    async def explain(self, words: str) -> HermesError | None:
        """A sandbox that is gone or stopped is had again."""
        was = self._sandbox
        async with self._making:
            if self._sandbox is not was or await self._have(fresh=False):
                return None
        return Unreachable(
            f"the sandbox cannot run anything ({one_line(words, 200) or 'it does not say why'})"
        )

    async def close(self, *, only_orphans: bool = False) -> None:
        if only_orphans or self._client is None:
            return
        client, sandbox = self._client, self._sandbox
        self._client = self._sandbox = None
        if self._staying is not None:
            self._staying.cancel()
            self._staying = None
        try:
            if sandbox is not None:
                async with asyncio.timeout(_STOP_SECONDS):
                    await _ask(sandbox.stop() if self._settings.container_persistent else sandbox.delete())
        except TimeoutError:
            pass  # it was asked to; the next opening waits for it
        finally:
            await client.close()

    async def _stay(self) -> None:
        """The service stops a sandbox of which nobody asks anything for a while, whatever runs in it."""
        while True:
            await asyncio.sleep(_STAY_SECONDS)
            with contextlib.suppress(Exception):
                await self._sandbox.refresh_activity()

    async def _have(self, *, fresh: bool) -> bool:
        """It runs afterwards; if it is to be `fresh`, nothing in it that was there before. Tells whether it
        had to be made or started."""
        sdk = await asyncio.to_thread(_load)
        if self._client is None:
            self._client = sdk.AsyncDaytona(self._config(sdk))
        self._name = (await asyncio.to_thread(read_kept, self.kept)).name
        try:
            async with asyncio.timeout(_SECONDS):
                sandbox = await self._client.get(self._name)
        except sdk.DaytonaNotFoundError:
            sandbox = None
        except Exception as error:
            raise _fault(error) from error
        if sandbox is not None and fresh and not self._settings.container_persistent:
            await _ask(sandbox.delete(timeout=_SECONDS, wait=True))
            sandbox = None
        if sandbox is None:
            self._sandbox = await _ask(self._client.create(self._order(sdk), timeout=_SECONDS))
            return True
        state = _state(sandbox)
        if state in ("error", "build_failed"):
            raise UserError(
                f"Daytona's sandbox {self._name} is broken: {one_line(sandbox.error_reason or state, 200)}",
                hint="Mend it there, or delete it there with the files in it.",
            )
        was_up = state == "started" and not fresh
        if state == "started" and fresh:
            await _ask(sandbox.stop(timeout=_SECONDS, force=True))
        elif state == "stopping":
            await _ask(sandbox.wait_for_sandbox_stop(timeout=_SECONDS))
        if _state(sandbox) in ("stopped", "archived"):
            await _ask(sandbox.start(timeout=_SECONDS))
        else:
            await _ask(sandbox.wait_for_sandbox_start(timeout=_SECONDS))
        self._sandbox = sandbox
        return not was_up

    def _config(self, sdk: Any) -> Any:
        said = self._request.variable
        if not (key := said("DAYTONA_API_KEY")):
            raise UserError("The backend daytona needs a key.", hint=_SET_KEY)
        url = said("DAYTONA_API_URL") or "https://app.daytona.io/api"
        return sdk.DaytonaConfig(api_key=key, api_url=url, target=said("DAYTONA_TARGET") or None)

    def _order(self, sdk: Any) -> Any:
        chosen = self._settings
        common: dict[str, Any] = {
            "name": self._name,
            "labels": {"hermes.agent": str(self._request.profile.agent)},
            "auto_stop_interval": _IDLE_MINUTES,
            "ephemeral": not chosen.container_persistent,
            "network_block_all": not self._request.network.open,
        }
        if not chosen.daytona_image:
            return sdk.CreateSandboxFromSnapshotParams(**common)
        resources = sdk.Resources(
            cpu=math.ceil(chosen.container_cpu) or None,
            memory=math.ceil(chosen.container_memory / 1024) or None,
        )
        return sdk.CreateSandboxFromImageParams(image=chosen.daytona_image, resources=resources, **common)


def _state(sandbox: Any) -> str:
    return str(getattr(sandbox.state, "value", sandbox.state))


async def _see_end(terminal: Any, pipes: RemotePipes) -> None:
    code = 255
    with contextlib.suppress(Exception):
        code = (await terminal.wait()).exit_code
    pipes.end(255 if code is None else code)


def _load() -> Any:
    try:
        return import_module("daytona")
    except ImportError as error:
        raise UserError(
            "The backend daytona needs its packages, which are not installed.",
            hint="Run: hermes platforms install daytona",
        ) from error


async def _ask(asked: Any) -> Any:
    """What the SDK raises becomes one sentence."""
    try:
        return await asked
    except Exception as error:
        raise _fault(error) from error


def _fault(error: Exception) -> HermesError:
    status, why = getattr(error, "status_code", None), one_line(str(error), 200) or "it takes too long"
    if status == 401:
        return UserError("Daytona refuses the key.", hint=_SET_KEY)
    if status in (402, 403, 429):
        return UserError(f"Daytona refuses the sandbox: {why}", hint="See the limits of your account there.")
    if status in (400, 404, 422):
        return UserError(f"Daytona cannot make the sandbox: {why}", hint="See terminal.daytona_image.")
    return Unreachable(f"Daytona does not answer ({why})")
