"""A real Synapse, started for the tests in an environment of its own: one process for a run of them, on
loopback, with a database in a folder that is thrown away."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from hermes.domain.chats.address import Address
from hermes.testing.ports import free_port
from tests.foreign.environments import python_of
from tests.platforms.matrix.bed import MatrixBed
from tests.platforms.matrix.front import Answer, Asked
from tests.platforms.matrix.people import Person

PATIENCE = 180.0
SECRET = "of the tests alone"
RATES = (
    "message", "registration", "registration_token_validity", "joins_per_room", "3pid_validation",
    "invites", "joins", "admin_redaction", "login", "room_creation", "reports", "media_create",
)  # fmt: skip


@contextlib.contextmanager
def synapse(*, limits: bool = False) -> Iterator[str]:
    """Its address, for as long as it runs. It takes whatever comes, or with `limits` what it takes by default
    (config/ratelimiting.py)."""
    python = python_of("synapse")
    with tempfile.TemporaryDirectory(prefix="hermes-synapse-") as name:
        folder = Path(name)
        port = free_port()
        environ = {"PATH": os.environ["PATH"], "HOME": name}
        start = [str(python), "-m", "synapse.app.homeserver", "--config-path", "homeserver.yaml"]
        subprocess.run(
            [*start, "--server-name", "localhost", "--generate-config", "--report-stats=no"],
            cwd=folder, env=environ, check=True, capture_output=True,
        )  # fmt: skip
        # JSON is YAML, too.
        (folder / "overlay.yaml").write_text(json.dumps(_overlay(folder, port, limits)))
        with (folder / "out.log").open("wb") as out:
            process = subprocess.Popen(
                [*start, "--config-path", "overlay.yaml"], cwd=folder, env=environ, stdout=out, stderr=out
            )
        try:
            url = f"http://127.0.0.1:{port}"
            _await_answer(url, process, folder / "out.log")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _overlay(folder: Path, port: int, limits: bool) -> dict[str, object]:
    logs = folder / "log.json"
    logs.write_text(
        json.dumps({"version": 1, "root": {"level": "WARNING"}, "disable_existing_loggers": False})
    )
    free = {"per_second": 100_000, "burst_count": 100_000}
    rates: dict[str, object] = {f"rc_{name}": free for name in RATES}
    rates["rc_login"] = {"address": free, "account": free, "failed_attempts": free}
    rates["rc_joins"] = {"local": free, "remote": free}
    rates["rc_invites"] = {"per_room": free, "per_user": free, "per_issuer": free}
    return {
        "listeners": [
            {
                "port": port,
                "bind_addresses": ["127.0.0.1"],
                "type": "http",
                "tls": False,
                "resources": [{"names": ["client", "media"]}],
            }
        ],
        "registration_shared_secret": SECRET,
        "bcrypt_rounds": 4,
        "log_config": str(logs),
        "trusted_key_servers": [],
        "presence": {"enabled": False},
        # Two beginnings in two minutes get the same answer otherwise.
        "caches": {"sync_response_cache_duration": "0s"},
        **({} if limits else rates),
    }


def _await_answer(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-3000:]
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"{url}/_matrix/client/versions", timeout=5):
                return
        time.sleep(0.1)
    raise AssertionError(f"Synapse does not answer\n{log.read_text()[-3000:]}")


class Remote:
    """Asks a homeserver over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, asked: Asked) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        headers = {"Content-Type": asked.mime}
        if asked.token:
            headers["Authorization"] = f"Bearer {asked.token}"
        query = f"?{urlencode(asked.query, quote_via=quote)}" if asked.query else ""
        url = URL(self._url + asked.path + query, encoded=True)
        async with self._session.request(asked.method, url, data=asked.body, headers=headers) as response:
            body = await response.read()
            mime = response.headers.get("Content-Type", "application/json")
            return Answer(status=response.status, body=body, mime=mime)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def register(self, name: str, password: str = "a password", *, admin: bool = False) -> Person:
        where = "/_synapse/admin/v1/register"
        nonce = (await self(Asked(method="GET", path=where))).json["nonce"]
        parts = (nonce, name, password, "admin" if admin else "notadmin")
        mac = hmac.new(SECRET.encode(), "\0".join(parts).encode(), hashlib.sha1).hexdigest()
        told = {"nonce": nonce, "username": name, "password": password, "admin": admin, "mac": mac}
        answer = await self(Asked(method="POST", path=where, body=json.dumps(told).encode()))
        assert answer.status == 200, answer.body
        return Person(self, answer.json["user_id"], answer.json["access_token"])


class SynapseBed(MatrixBed):
    """The same promises on a real homeserver: new people for each bed, faults by the front before it."""

    url = ""
    password = "a password"
    short = 4.0
    most_chats = 0

    async def register(self) -> tuple[Person, Person, Person]:
        self.remote = Remote(self.url)
        tail = secrets.token_hex(4)
        found = [
            await self.remote.register(f"{name}-{tail}", self.password) for name in ("hermes", "ann", "bob")
        ]
        await found[0].call("PUT", "profile", found[0].id, "displayname", displayname="Hermes")
        return found[0], found[1], found[2]

    async def open(self) -> None:
        await super().open()
        rooms = (self.ann.room(self.bot, direct=True) for _ in range(self.most_chats))
        self._chats += await asyncio.gather(*rooms)

    async def close(self) -> None:
        await super().close()
        await self.remote.close()

    def chats(self, count: int) -> list[Address]:
        assert count <= self.most_chats
        return [Address(platform="matrix", chat=room) for room in self._chats[1 : count + 1]]


class LimitedBed(SynapseBed):
    """A homeserver with its default limits, which count for the bot; an admin has exempted the people, as the
    page says how."""

    async def register(self) -> tuple[Person, Person, Person]:
        bot, ann, bob = await super().register()
        admin = await self.remote.register(f"admin-{secrets.token_hex(4)}", admin=True)
        for person in (ann, bob):
            where = f"/_synapse/admin/v1/users/{quote(person.id)}/override_ratelimit"
            body = json.dumps({"messages_per_second": 0, "burst_count": 0}).encode()
            answer = await self.remote(Asked(method="POST", path=where, token=admin.token, body=body))
            assert answer.status == 200, answer.body
        return bot, ann, bob


class ManyRooms(SynapseBed):
    """Rooms cost a homeserver more than anything else; so they are made where they are needed."""

    most_chats = 5


__all__ = ["LimitedBed", "ManyRooms", "Remote", "SynapseBed", "synapse"]
