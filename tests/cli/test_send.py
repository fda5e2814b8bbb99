"""`hermes send` and `hermes outbox`: with a gateway that runs, and on a home that nobody works on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.errors import HermesError, Refused
from hermes.testing.wire import WorldServer
from hermes.testing.world import World
from tests.cli import gateway_child
from tests.cli.command import PATIENCE, ROOT, Said, environment, hermes

CONFIG = "platforms: {github: {enabled: true, home_channel: acme/ops, home_thread: '7'}}\n"
LIVE = "platforms: {fake: {allow_all_users: true, home_channel: home}}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "config.yaml").chmod(0o600)
    return folder


def listed(home: Path) -> list[tuple[str, str, str]]:
    rows = json.loads(hermes(home, "outbox", "list", "--json").out)
    return [(row["to"], row["state"], row["text"]) for row in rows]


def test_without_a_gateway_a_message_waits_for_the_next_start(home: Path, tmp_path: Path) -> None:
    sent = hermes(home, "send", "-t", "github", "the build is green")
    assert (sent.code, sent.out) == (0, "On its way to github:acme/ops:7.\n"), sent
    assert "No gateway is running" in sent.err
    letter = tmp_path / "letter.md"
    letter.write_text("from a file")
    assert hermes(home, "send", "-t", "github:acme/web:12", "-f", str(letter), "-s", "News", "-q").out == ""
    piped = hermes(home, "send", "-t", "github:acme/web:12", "--json", "-", given="from a pipe")
    assert json.loads(piped.out)["to"] == ["github:acme/web:12"]
    assert listed(home) == [
        ("github:acme/ops:7", "due", "the build is green"),
        ("github:acme/web:12", "due", "**News**\n\nfrom a file"),
        ("github:acme/web:12", "due", "from a pipe"),
    ]


def test_targets_are_listed(home: Path) -> None:
    (home / "channel_aliases.json").write_text('{"github": {"acme/web": "website"}}')
    told = hermes(home, "send", "-l")
    assert told.code == 0 and "github:acme/ops:7" in told.out and "website" in told.out
    assert "No chats yet" in hermes(home, "send", "-l", "telegram").out
    assert json.loads(hermes(home, "send", "--list", "github", "--json").out)["homes"] == {
        "github": "github:acme/ops:7"
    }
    assert hermes(home, "send", "-t", "github:website:3", "hello").out == "On its way to github:acme/web:3.\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["hello"], 1, "Nobody was named to send to."),
        (["-t", "github"], 1, "There is nothing to send."),
        (["github:acme/web:3", "hello"], 1, "the chat stands behind -t"),
        (["-t", "github", "hello", "there"], 1, "in quotes"),
        (["-t", "telegram", "hello"], 1, "There is no platform “telegram” in use."),
        (["-t", "github:#nowhere", "hello"], 1, "github has no chat called “#nowhere”."),
        (["-t", "local", "hello"], 1, "“local” is no chat"),
        (["-t", "github", "-f", "/no/such/file"], 1, "/no/such/file cannot be read"),
        (["-t", "github", "-f", "/etc/hostname", "both"], 1, "There is both a text and a file."),
        (["--too", "github"], 2, "--too"),
    ],
)
def test_bad_use_is_one_sentence_and_changes_nothing(
    home: Path, words: list[str], code: int, says: str
) -> None:
    said = hermes(home, "send", *words)
    assert said.code == code and says in said.err and said.clean, said
    assert listed(home) == []


def test_messages_are_dropped_and_tried_again_by_key(home: Path) -> None:
    assert "No message waits" in hermes(home, "outbox", "list").out
    for text in ("one", "two"):
        hermes(home, "send", "-t", "github", text)
    first, second = (row["key"] for row in json.loads(hermes(home, "outbox", "list", "--json").out))
    assert first in hermes(home, "outbox", "list").out
    assert "fits 2 messages" in hermes(home, "outbox", "retry", "send:cli-").err
    assert "There is no message “nosuch”" in hermes(home, "outbox", "drop", "nosuch", "-y").err
    assert (
        "This needs a confirmation, and there is no terminal to ask in."
        in hermes(home, "outbox", "drop", first).err
    )
    assert hermes(home, "outbox", "drop").code == 2
    assert "1 message is dropped." in hermes(home, "outbox", "drop", "-y", first).out
    assert "is settled: gone" in hermes(home, "outbox", "retry", first).err
    assert "1 message is tried again at the next start." in hermes(home, "outbox", "retry", second[:-2]).out
    assert "0 messages are tried again" in hermes(home, "outbox", "retry", "--all").out
    assert listed(home) == [("github:acme/ops:7", "due", "two")]


# --- while a gateway runs ---


@asynccontextmanager
async def living(home: Path, world: World) -> AsyncIterator[None]:
    (home / "config.yaml").write_text(LIVE)
    async with WorldServer(world) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, gateway_child.__file__, str(home), str(server.port), "5",
            env={**environment(home), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE):
                while b"ready: home" not in await process.stderr.readline():
                    assert process.returncode is None
            yield
        finally:
            process.kill()
            await process.wait()


async def ask(home: Path, *words: str) -> Said:
    return await asyncio.to_thread(hermes, home, *words)


async def until_seen(world: World, chat: str, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if any(text in seen for seen in world.seen(chat)):
                return
            await asyncio.sleep(0.01)


async def until_waiting(home: Path, count: int) -> Any:
    """Those that wait, once they are so many: what is seen is written down as sent a moment later."""
    async with asyncio.timeout(PATIENCE):
        while True:
            rows = json.loads((await ask(home, "outbox", "list", "--json")).out or "[]")
            if len(rows) == count:
                return rows


async def test_a_running_gateway_sends_at_once_and_tries_again_when_asked(home: Path) -> None:
    blocked = True

    def trouble(what: str, chat: str) -> HermesError | None:
        return Refused("blocked") if blocked and what == "send" and chat == "g9" else None

    world = World(trouble=trouble)
    async with living(home, world):
        sent = await ask(home, "send", "-t", "fake, fake:5", "hello")
        assert sent == Said(0, "Sent to fake:home, fake:5.\n", ""), sent
        await until_seen(world, "home", "hello")
        await until_seen(world, "5", "hello")
        unknown = await ask(home, "send", "-t", "fake:nobody", "hello")
        assert unknown.code == 1 and "fake has no chat called “nobody”" in unknown.err
        world.write("hi", chat="5", user="Ann")
        await until_seen(world, "5", "You said: hi")
        assert "Ann" in (await ask(home, "send", "-l")).out
        refused = await ask(home, "send", "-t", "fake:g9", "news")
        assert refused.code == 1 and "Not sent to fake:g9: blocked." in refused.err
        assert "hermes outbox retry send:cli-" in refused.err
        await until_seen(world, "home", "A message to fake:g9 could not be delivered (blocked)")
        [dead] = await until_waiting(home, 1)
        assert (dead["to"], dead["state"], dead["error"]) == ("fake:g9", "dead", "blocked")
        blocked = False
        assert "1 message is tried again." in (await ask(home, "outbox", "retry", "--all")).out
        await until_seen(world, "g9", "news")
        await until_waiting(home, 0)
        assert "No message waits" in (await ask(home, "outbox", "list")).out
