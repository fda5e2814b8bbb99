"""The backend `ssh`: commands and files of another machine. It is no sandbox: what runs there may do what the
user there may, and reaches what that machine reaches.

One master connection is shared by all streams and lives a while longer than its last use. The far end of a
stream ends its commands when the connection does, however that ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ports.world import BackendRequest, Boundary, World
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.execution.far.backend import FarBackend
from hermes.execution.far.pipes import Pipes, start_program
from hermes.execution.far.programs import run_program
from hermes.execution.far.shipping import FarFacts, quoted
from hermes.execution.sandboxes.probe import SandboxProbe

NAME = "ssh"
_CONNECT_SECONDS = 10
_PERSIST_SECONDS = 300
_PROBE_SECONDS = 15.0
_LOOK_AT = "See terminal.ssh_host and terminal.ssh_port, and whether a firewall stands between."
_TOOL_ENV = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SSH_AUTH_SOCK")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_HOST = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9._:%\]-]{0,254}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@\\+-]{0,127}")


def make_ssh(request: BackendRequest) -> FarBackend:
    """The entry `ssh` of the group `hermes.backends`."""
    place = SshPlace(request)
    given = {name: request.environ[name] for name in request.passthrough if name in request.environ}
    return FarBackend(place, states=place.states, given=given)


class SshPlace:
    """The far world of another machine."""

    alone = False

    def __init__(self, request: BackendRequest) -> None:
        self._request = request
        self._settings = settings = request.profile.settings.terminal
        environ = request.environ
        self.tool_env = {name: environ[name] for name in _TOOL_ENV if environ.get(name)}
        self.tool_env.setdefault("PATH", _PATH)
        user = f"{settings.ssh_user}@" if settings.ssh_user else ""
        port = f":{settings.ssh_port}" if settings.ssh_port != 22 else ""
        self.name = f"{user}{settings.ssh_host}{port}"
        digest = hashlib.sha256(f"{request.home}|{self.name}".encode()).hexdigest()[:12]
        self.states = request.home / "cache/shells" / f"ssh-{digest}"
        self._known_hosts = request.home / "ssh" / "known_hosts"
        runtime = environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        self._folder = Path(runtime) / f"hermes-{os.getuid()}-{digest}"

    def world(self, facts: FarFacts | None) -> World | None:
        if facts is None:
            return None
        return World(
            workspace=facts.home,
            home=facts.home,
            system=facts.system,
            shell=os.path.basename(facts.shell),
            host=self.name,
            boundary=Boundary.NONE,
        )

    async def start(self, argv: Sequence[str]) -> Pipes:
        return await start_program(self.reach(argv), self.tool_env)

    def reach(self, argv: Sequence[str]) -> list[str]:
        return [*self._options(), "-o", "ControlMaster=no", *self._target(), quoted(argv)]

    async def open(self) -> None:
        if not self._request.network.open:
            raise UserError(
                "The backend ssh cannot limit the network of another machine, and here it must.",
                hint="Choose another (terminal.backend, routes[].backend), or set the network to open.",
            )
        await asyncio.to_thread(self._check)
        if await self._has_master():
            return
        log = self._folder / "log"
        argv = [*self._options(), "-E", str(log), "-M", "-N", "-f", *self._target()]
        started = await run_program(argv, self.tool_env, _CONNECT_SECONDS * 2)
        if started.code and not await self._has_master():
            raise self._why(await asyncio.to_thread(_read, log))

    async def explain(self, words: str) -> HermesError | None:
        await asyncio.to_thread(self._check)
        return self._why(words)

    async def close(self, *, only_orphans: bool = False) -> None:
        """The far ends of streams end what they started, also when they lose us."""
        if not only_orphans and await asyncio.to_thread(self._folder.is_dir):
            await run_program(
                [*self._options(), "-O", "exit", *self._target()], self.tool_env, _CONNECT_SECONDS
            )
            await asyncio.to_thread(shutil.rmtree, self._folder, True)

    # --- the command line ---

    def _options(self) -> list[str]:
        settings = self._settings
        chosen = {
            "BatchMode": "yes", "StrictHostKeyChecking": "accept-new", "UpdateHostKeys": "no",
            "UserKnownHostsFile": str(self._known_hosts), "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": str(_CONNECT_SECONDS), "ServerAliveInterval": "15", "ServerAliveCountMax": "3",
            "ControlPath": str(self._folder / "master"), "ControlPersist": str(_PERSIST_SECONDS),
            "ForwardAgent": "no", "ForwardX11": "no", "ClearAllForwardings": "yes",
            "PermitLocalCommand": "no", "RequestTTY": "no", "RemoteCommand": "none", "EscapeChar": "none",
        }  # fmt: skip
        words = ["ssh", *(word for name, value in chosen.items() for word in ("-o", f"{name}={value}"))]
        if settings.ssh_key:
            words += ["-i", os.path.expanduser(settings.ssh_key), "-o", "IdentitiesOnly=yes"]
        return words

    def _target(self) -> list[str]:
        user = ["-l", self._settings.ssh_user] if self._settings.ssh_user else []
        return ["-p", str(self._settings.ssh_port), *user, "--", self._settings.ssh_host]

    async def _has_master(self) -> bool:
        argv = [*self._options(), "-O", "check", *self._target()]
        return (await run_program(argv, self.tool_env, _CONNECT_SECONDS)).code == 0

    def _check(self) -> None:
        """What can be known before a connection; makes the folders that it needs."""
        settings = self._settings
        if not settings.ssh_host:
            raise UserError("No machine is named for the backend ssh.", hint="Set terminal.ssh_host.")
        if not _HOST.fullmatch(settings.ssh_host) or not _USER.fullmatch(settings.ssh_user or "x"):
            raise UserError(f"“{one_line(self.name, 60)}” is no host of ssh.", hint="Set terminal.ssh_host.")
        if shutil.which("ssh", path=f"{self.tool_env['PATH']}:{_PATH}") is None:
            raise UserError("ssh is not installed here.", hint="Install openssh-client.")
        key = os.path.expanduser(settings.ssh_key)
        if key and not os.access(key, os.R_OK):
            raise UserError(
                f"The key {one_line(key, 100)} for {self.name} is not there or cannot be read.",
                hint="Set terminal.ssh_key to the file with the private key.",
            )
        self._known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        info = self._folder.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
            raise UserError(
                f"{self._folder} is not ours alone, so no connection is kept in it.", hint="Remove it."
            )

    def _why(self, words: str) -> HermesError:
        name, said = self.name, words.lower()
        port, host = self._settings.ssh_port, self._settings.ssh_host
        known = host if port == 22 else f"[{host}]:{port}"
        if "identification has changed" in said or "host key verification failed" in said:
            return UserError(
                f"{name} shows another host key than before: it may be another machine.",
                hint=f"If that is right, forget the old one: ssh-keygen -R '{known}' -f {self._known_hosts}",
            )
        if "unprotected private key" in said or "bad permissions" in said:
            return UserError(
                f"Others may read the key for {name}, so ssh does not use it.",
                hint=f"Run: chmod 600 {self._settings.ssh_key}",
            )
        if "permission denied" in said or "too many authentication failures" in said:
            return UserError(
                f"{name} refused the login.",
                hint="Put the public key into ~/.ssh/authorized_keys there, and see terminal.ssh_user and "
                "terminal.ssh_key.",
            )
        if "could not resolve" in said:
            return UserError(f"There is no machine named {host}.", hint="See terminal.ssh_host.")
        if "connection refused" in said:
            return UserError(
                f"{name} takes no ssh connections.", hint="See terminal.ssh_host and terminal.ssh_port."
            )
        lines = words.strip().splitlines()
        return Unreachable(
            f"{name} cannot be reached by ssh ({one_line(lines[-1], 200) if lines else 'no answer'})"
        )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")[-2000:]
    except OSError:
        return ""


async def probe_ssh(request: BackendRequest) -> SandboxProbe:
    """Whether the machine of the settings lets us in. It is no sandbox, so nothing chooses it by itself. The
    connection is one of its own: that of a gateway goes on."""
    why, remedy = "", _LOOK_AT
    with tempfile.TemporaryDirectory(prefix="hermes-ssh-") as runtime:
        place = SshPlace(replace(request, environ={**request.environ, "XDG_RUNTIME_DIR": runtime}))
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await place.open()
        except UserError as error:
            why, remedy = error.message, error.hint or ""
        except Unreachable as error:
            why = f"{error}."
        except TimeoutError:
            why = f"{place.name} did not answer within {_PROBE_SECONDS:g} s."
        finally:
            await place.close()
    return SandboxProbe(
        name=NAME, boundary=Boundary.NONE, works=not why, why=why, remedy=remedy if why else ""
    )
