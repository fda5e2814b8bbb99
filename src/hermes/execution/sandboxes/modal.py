"""The backend `modal`: commands in a sandbox of Modal's service, by its own SDK (`modal` 1.6).

One sandbox per agent, workspace and network. What lasts is an image of its files, taken every few minutes and
when it ends; the next sandbox begins with it. The image's id is in the home. A sandbox that a killed gateway
left running is found by its name: its files are kept, and it ends before another one begins, so that nothing
runs on in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from importlib import import_module
from typing import Any

from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ports.world import BackendRequest, Boundary, World
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.execution.far.backend import FarBackend
from hermes.execution.far.pipes import Pipes, RemotePipes
from hermes.execution.far.shipping import FarFacts
from hermes.execution.sandboxes.kept import KeptSandbox, kept_file, place_digest, read_kept, write_kept

log = logging.getLogger("hermes.backend")
NAME = "modal"
_APP = "hermes-gateway"
_IDLE = ("sh", "-c", "while :; do sleep 3600; done")
_SECONDS = 50.0
_END_SECONDS = 5.0
_LIFE_SECONDS = 24 * 3600
"""The longest that the service allows."""
_SAVE_SECONDS = 600.0
_KEPT_SECONDS = 180 * 24 * 3600
_TOKEN = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
_SET_TOKEN = f"Write {_TOKEN[0]}=… and {_TOKEN[1]}=… into .env (hermes config path tells where it is)."


def make_modal(request: BackendRequest) -> FarBackend:
    """The entry `modal` of the group `hermes.backends`."""
    place = ModalPlace(request)
    given = {name: request.environ[name] for name in request.passthrough if name in request.environ}
    return FarBackend(place, states=place.states, given=given)


class ModalAccount:
    """The connection to the service, which all sandboxes of one token share. The SDK ends it with the
    process."""

    def __init__(self, token: Sequence[str]) -> None:
        self._token = token
        self._client: Any = None
        self._connecting = asyncio.Lock()

    async def connect(self, sdk: Any) -> Any:
        if not all(self._token):
            raise UserError("The backend modal needs a token.", hint=_SET_TOKEN)
        async with self._connecting:
            if self._client is None:
                self._client = await _ask(sdk.Client.from_credentials.aio(*self._token))
            return self._client


def account_of(request: BackendRequest) -> ModalAccount:
    token = tuple(map(request.variable, _TOKEN))
    return request.share((NAME, *token), lambda: ModalAccount(token))


class ModalPlace:
    """The far world of one sandbox."""

    alone = False

    def __init__(self, request: BackendRequest) -> None:
        self._request = request
        self._settings = request.profile.settings.terminal
        digest = place_digest(request, self._settings.modal_image)
        self.states = request.home / "cache/shells" / f"{NAME}-{digest}"
        self.kept = kept_file(request.home, NAME, digest)
        self._sandbox: Any = None
        self._failed: Any = None
        self._making = asyncio.Lock()
        self._saving: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    def world(self, facts: FarFacts | None) -> World | None:
        if facts is None:
            return None
        home = facts.home or "/root"
        return World(
            workspace=home,
            home=home,
            system=f"{facts.system} (sandbox of Modal)",
            shell="bash, or sh where there is none",
            sandbox="container",
            host=NAME,
            boundary=Boundary.CONTAINER,
            network=self._request.network,
        )

    async def open(self) -> None:
        if self._request.network.hosts and not self._request.network.open:
            raise UserError(
                "The backend modal cannot limit the network to some hosts.",
                hint="Choose another (terminal.backend), or set the network to none or open.",
            )
        async with self._making:
            await self._have()
        if self._settings.container_persistent and self._saving is None:
            self._saving = asyncio.create_task(self._save_often(), name="modal saves")

    async def start(self, argv: Sequence[str]) -> Pipes:
        async with self._making:
            if self._sandbox is None:
                await self._have()
            sandbox = self._sandbox
        process: Any = None

        async def send(data: bytes) -> None:
            process.stdin.write(data)
            await process.stdin.drain.aio()

        async def hang_up() -> None:
            if process is not None:
                process.stdin.write_eof()
                await process.stdin.drain.aio()

        pipes = RemotePipes(send, hang_up)
        try:
            async with asyncio.timeout(_SECONDS):
                quiet = _load().stream_type.StreamType.DEVNULL
                process = await sandbox.exec.aio(*argv, text=False, stderr=quiet)
        except Exception as error:  # whatever the SDK raises
            self._failed = sandbox
            pipes.end(255, one_line(str(error), 200) or "it did not answer")
            pipes.close()
        except BaseException:
            pipes.close()
            raise
        else:
            pipes.watched_by(asyncio.create_task(_hear(process, pipes), name="modal stream"))
        return pipes

    async def explain(self, words: str) -> HermesError | None:
        """A sandbox that has ended is followed by another one, with the files that were kept last."""
        async with self._making:
            if self._sandbox is not self._failed:
                return None
            if self._sandbox is not None and await _ask(self._sandbox.poll.aio()) is None:
                why = one_line(words, 200) or "it does not say why"
                return Unreachable(f"the sandbox cannot run anything ({why})")
            await self._have()
            return None

    async def close(self, *, only_orphans: bool = False) -> None:
        if only_orphans or self._sandbox is None:
            return
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.wait((self._saving,))
            self._saving = None
        sandbox, self._sandbox = self._sandbox, None
        # It may take longer than somebody waits; who opens next waits on, or finds it left by the gateway.
        self._ending = asyncio.create_task(self._end(sandbox), name="modal end")
        self._ending.add_done_callback(_note)
        await asyncio.shield(self._ending)

    # --- the sandbox ---

    async def _have(self) -> None:
        """Make one anew, with the files of the last one."""
        self._sandbox = None
        sdk = await asyncio.to_thread(_load)
        if self._ending is not None:
            await asyncio.wait((self._ending,))
        kept = await asyncio.to_thread(read_kept, self.kept)
        client = await account_of(self._request).connect(sdk)
        app = await _ask(sdk.App.lookup.aio(_APP, create_if_missing=True, client=client))
        try:
            left = await sdk.Sandbox.from_name.aio(_APP, kept.name, client=client)
        except sdk.exception.NotFoundError:
            pass
        except Exception as error:
            raise _fault(error) from error
        else:
            await self._end(left)
            kept = await asyncio.to_thread(read_kept, self.kept)
        image = await self._image(sdk, app, kept)
        order = {"name": kept.name, "app": app, "client": client, "image": image}
        self._sandbox = await _ask(sdk.Sandbox.create.aio(*_IDLE, **order, **self._limits()), making=True)

    async def _image(self, sdk: Any, app: Any, kept: KeptSandbox) -> Any:
        if kept.image and self._settings.container_persistent:
            try:
                return await sdk.Image.from_id(kept.image).build.aio(app)
            except sdk.exception.NotFoundError as error:
                raise UserError(
                    "Modal no longer has the files that were kept of this sandbox.",
                    hint=f"Remove {self.kept} to begin without them.",
                ) from error
            except Exception as error:
                raise _fault(error) from error
        chosen = self._settings.modal_image
        return sdk.Image.from_id(chosen) if chosen.startswith("im-") else sdk.Image.from_registry(chosen)

    def _limits(self) -> dict[str, Any]:
        cpu, memory = self._settings.container_cpu, self._settings.container_memory
        limits: dict[str, Any] = {"timeout": _LIFE_SECONDS, "block_network": not self._request.network.open}
        if cpu:
            limits["cpu"] = (min(cpu, 0.125), cpu)
        if memory:
            limits["memory"] = (min(memory, 128), memory)
        return limits

    async def _end(self, sandbox: Any) -> None:
        """Not before its files are kept."""
        if self._settings.container_persistent:
            await self._save(sandbox)
        await _ask(sandbox.terminate.aio(wait=True))

    async def _save(self, sandbox: Any) -> None:
        """Unless the agent was deleted meanwhile: who gets its id and folder next must not have its files."""
        image = await _ask(sandbox.snapshot_filesystem.aio(timeout=int(_SECONDS), ttl=_KEPT_SECONDS))
        if await asyncio.to_thread(self.kept.exists):
            kept = await asyncio.to_thread(read_kept, self.kept)
            await asyncio.to_thread(write_kept, self.kept, replace(kept, image=image.object_id))

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(_SAVE_SECONDS)
            if self._sandbox is not None:
                try:
                    await self._save(self._sandbox)
                except HermesError as error:
                    log.warning("modal.not_saved why=%s", error)


async def _hear(process: Any, pipes: RemotePipes) -> None:
    code, words = 255, ""
    try:
        async for piece in process.stdout:
            await pipes.feed(piece)
        async with asyncio.timeout(_END_SECONDS):
            code = await process.wait.aio()
    except Exception as error:  # whatever the SDK raises: the stream is lost
        words = one_line(str(error), 200)
    pipes.end(code, words)
    pipes.close()


def _note(ending: asyncio.Task[None]) -> None:
    if not ending.cancelled() and (error := ending.exception()) is not None:
        log.warning("modal.not_ended why=%s", error)


def _load() -> Any:
    try:
        return import_module(NAME)
    except ImportError as error:
        raise UserError(
            "The backend modal needs its packages, which are not installed.",
            hint="Run: hermes platforms install modal",
        ) from error


async def _ask(asked: Awaitable[Any], *, making: bool = False) -> Any:
    """What the SDK raises becomes one sentence."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await asked
    except Exception as error:
        raise _fault(error, making=making) from error


def _fault(error: Exception, *, making: bool = False) -> HermesError:
    kinds, why = import_module(NAME).exception, one_line(str(error), 200)
    if isinstance(error, kinds.AuthError):
        return UserError("Modal refuses the token.", hint=_SET_TOKEN)
    if isinstance(error, (kinds.ResourceExhaustedError, kinds.PermissionDeniedError)):
        return UserError(f"Modal refuses the sandbox: {why}", hint="See the limits of your account there.")
    if making and isinstance(error, (kinds.InvalidError, kinds.NotFoundError, kinds.ImageBuildError)):
        return UserError(f"Modal cannot make the sandbox: {why}", hint="See terminal.modal_image.")
    if making and isinstance(error, TimeoutError):
        return Unreachable("Modal has not made the sandbox yet: it may be fetching the image, so try again")
    return Unreachable(f"Modal does not do what it is asked ({why or 'no answer in time'})")
