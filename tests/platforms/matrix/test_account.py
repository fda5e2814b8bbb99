"""The account and its homeserver: where it answers, how long a login lasts, what it takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.message import Attachment, Body, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.entry.platforms.matrix.api import MatrixClient
from hermes.testing.platform_suite import Does, Inboxes, hosted, running, until
from tests.platforms.matrix.bed import MatrixBed
from tests.platforms.matrix.front import said, wrong


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"m.homeserver": {"base_url": "https://matrix.invalid/"}}, "https://matrix.invalid"),
        ({"m.homeserver": {"base_url": 7}}, None),
        ({"m.homeserver": []}, None),
        ([], None),
        (None, None),
    ],
)
async def test_a_name_says_where_its_homeserver_is(told: Any, found: str | None) -> None:
    async with MatrixBed() as bed:
        fake = bed.front.homeserver

        async def homeserver(asked: Any) -> Any:
            if asked.path == "/.well-known/matrix/client":
                return wrong(404, "M_NOT_FOUND", "no") if told is None else said(told)
            return await fake(asked)

        bed.front.homeserver = homeserver
        client = MatrixClient("matrix.invalid")
        assert client.url == "https://matrix.invalid"
        # A name is asked over https, which no test has.
        client.url, client.token = bed.front.url, "secret"
        await client.discover()
        assert client.url == (found or bed.front.url)
        await client.discover()
        await client.close()
        assert [one.token for one in bed.front.asked] == [""], "it is asked once, and told nothing"


async def test_an_address_is_taken_as_it_is_said() -> None:
    async with MatrixBed() as bed:
        assert (await bed.connect().check())[0].good
        assert not any("well-known" in one.path for one in bed.front.asked)


async def test_a_name_that_leads_nowhere() -> None:
    async with MatrixBed() as bed:

        async def homeserver(asked: Any) -> Any:
            return said({"m.homeserver": {"base_url": "ftp://x"}})

        bed.front.homeserver = homeserver
        client = MatrixClient("matrix.invalid")
        client.url = bed.front.url
        with pytest.raises(UserError, match="names no address"):
            await client.discover()
        await client.close()


def with_password(bed: MatrixBed, folder: Path) -> None:
    bed.folder = folder
    bed.said |= {
        "MATRIX_ACCESS_TOKEN": "",
        "MATRIX_USER_ID": bed.bot.id,
        "MATRIX_PASSWORD": "secret of hermes",
    }


def logins(bed: MatrixBed) -> int:
    return len([one for one in bed.front.asked if one.path.endswith("/login")])


async def test_a_login_outlives_the_gateway(tmp_path: Path) -> None:
    """Synapse takes five logins and then one in 333 s (`rc_login` in its config/ratelimiting.py)."""
    async with MatrixBed() as bed:
        with_password(bed, tmp_path)
        bed.server.left["login"] = 1
        for number in range(4):
            inboxes = Inboxes()
            async with running(bed.connect(), inboxes.accept, None):
                await until(lambda: inboxes.cursor is not None, "it does not begin")  # noqa: B023
                await bed.ann.say(bed.chat.chat, f"life {number}")
                await until(lambda: inboxes.texts == [f"life {number}"], "it hears nothing")  # noqa: B023
        assert logins(bed) == 1
        kept = tmp_path / "login.json"
        assert kept.stat().st_mode & 0o777 == 0o600 and "secret of hermes" not in kept.read_text()
        bed.said["MATRIX_PASSWORD"] = "another"
        with pytest.raises(Unreachable, match="slower"):
            await bed.connect().check()
        assert logins(bed) == 2, "another password is another login"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"of": 1}'])
async def test_a_kept_login_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    async with MatrixBed() as bed:
        with_password(bed, tmp_path)
        (tmp_path / "login.json").write_text(text)
        assert (await bed.connect().check())[0].good and logins(bed) == 1


async def test_a_login_that_was_ended_needs_no_wait_and_one_that_is_useless_does(tmp_path: Path) -> None:
    async with MatrixBed() as bed:
        with_password(bed, tmp_path)
        inboxes = Inboxes()
        platform = bed.connect()
        serve = asyncio.create_task(platform.run(inboxes.accept, None))
        await until(lambda: inboxes.cursor is not None, "it does not begin")
        bed.server.tokens = {one: user for one, user in bed.server.tokens.items() if user != bed.bot.id}
        await bed.ann.say(bed.chat.chat, "wake up")
        with pytest.raises(Unreachable, match="ended the login") as ended:
            await serve
        assert ended.value.after == 0.0
        fake = bed.front.homeserver

        async def homeserver(asked: Any) -> Any:
            useless = asked.path.endswith("/sync")
            return wrong(401, "M_UNKNOWN_TOKEN", "no") if useless else await fake(asked)

        bed.front.homeserver = homeserver
        with pytest.raises(Unreachable, match="ended the login") as ended:
            await bed.connect().run(inboxes.accept, inboxes.cursor)
        assert ended.value.after is None, "the host waits longer each time"


@pytest.mark.parametrize("status", [307, 308])
async def test_a_file_may_be_elsewhere(status: int) -> None:
    async with MatrixBed() as bed:
        url = await bed.ann.upload(b"far away", "text/plain")
        bed.server.media_elsewhere, bed.server.media_status = f"{bed.front.url}/cdn", status
        pieces: list[bytes] = []

        async def sink(piece: bytes) -> None:
            pieces.append(piece)

        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.fetch(url, sink)
            assert b"".join(pieces) == b"far away"
            assert [one.token for one in bed.front.asked if one.path.startswith("/cdn/")] == [""]
            bed.server.media_elsewhere = "ftp://elsewhere.invalid"
            with pytest.raises(Refused, match="not safe"):
                await platform.fetch(url, sink)
            bed.server.media_elsewhere = f"{bed.front.url}/_matrix/client/v1/media/download/localhost"
            with pytest.raises((Refused, NeedsLogin)):
                await platform.fetch(url, sink)
            assert len(bed.front.asked) < 40, "it goes round in a circle"


async def test_a_login_that_expires_is_made_anew(tmp_path: Path) -> None:
    """A token of a password that the homeserver takes back while the adapter runs parks nothing."""
    async with MatrixBed() as bed:
        with_password(bed, tmp_path)
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await until(lambda: inboxes.cursor is not None, "it does not begin")
            bed.server.tokens = {one: user for one, user in bed.server.tokens.items() if user != bed.bot.id}
            bed.front.cut()
            await bed.ann.say(bed.chat.chat, "are you there?")
            await until(lambda: inboxes.texts == ["are you there?"], lambda: f"got {inboxes.texts}")
        assert len([one for one in bed.front.asked if one.path.endswith("/login")]) == 2


@pytest.mark.parametrize("way", ["/_matrix/client/v1/media/config", "/_matrix/media/v3/config"])
async def test_a_file_that_is_too_large_is_not_sent_at_all(way: str) -> None:
    async with MatrixBed() as bed:
        fake, sizes = bed.front.homeserver, [3_000_000, 900_000, 2_000_000]

        async def homeserver(asked: Any) -> Any:
            if asked.path.endswith("/config"):
                known = asked.path == way
                return said({"m.upload.size": 2_000_000}) if known else wrong(404, "M_UNRECOGNIZED", "no")
            return await fake(asked)

        async def open_file(file: Attachment) -> bytes:
            return bytes(sizes.pop(0))

        bed.front.homeserver, bed.open_file = homeserver, open_file
        body = Body(attachments=(Attachment(kind=MediaKind.FILE, ref="x", name="big"),))
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="2,000,000 bytes"):
                await platform.send(bed.chat, body, key="k1", reply_to=None)
            assert not bed.front.uploads
            for key in ("k2", "k3"):
                await platform.send(bed.chat, body, key=key, reply_to=None)
        assert [len(one) for one in bed.front.uploads.values()] == [900_000, 2_000_000]
        asked = [one.path for one in bed.front.asked if one.path.endswith("/config")]
        assert len(asked) == len(set(asked)), "it is asked once"


async def test_somebody_asks_to_verify_the_bot() -> None:
    """What programs say to each other is not what the model is to answer."""
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed._listening()
            asked = {
                "msgtype": "m.key.verification.request",
                "body": "Ann asks to verify your key",
                "from_device": "ABC",
                "to": bed.bot.id,
                "methods": ["m.sas.v1"],
            }
            await bed.ann.send(bed.chat.chat, asked)
            await bed.do(Does.TEXT, "did it work?")
            await until(lambda: inboxes.texts == ["did it work?"], lambda: f"got {inboxes.texts}")


async def test_sent_out_of_a_room_while_it_is_read() -> None:
    """What the room does not give any more is left, and nothing else is held up by it."""
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "it did not come")
        for number in range(60):
            await bed.ann.say(bed.group, f"more than is told at once {number}")
        fake = bed.front.homeserver

        async def homeserver(asked: Any) -> Any:
            if bed.group in asked.parts and asked.parts[-1] in ("messages", "joined_members"):
                return wrong(403, "M_FORBIDDEN", "User not in room")
            return await fake(asked)

        bed.front.homeserver = homeserver
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            await bed.do(Does.TEXT, "second")
            await until(lambda: inboxes.texts == ["first", "second"], lambda: f"got {inboxes.texts}")


async def test_a_sync_that_is_forbidden_loses_no_place() -> None:
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "it did not come")
        await bed.ann.say(bed.chat.chat, "while nobody may listen")
        fake, before = bed.front.homeserver, inboxes.cursor

        async def homeserver(asked: Any) -> Any:
            if asked.path.endswith("/sync") and "since" in asked.query:
                return wrong(403, "M_CONSENT_NOT_GIVEN", "Agree to the terms first")
            return await fake(asked)

        bed.front.homeserver = homeserver
        with pytest.raises(Refused, match="M_CONSENT_NOT_GIVEN"):
            await bed.connect().run(inboxes.accept, inboxes.cursor)
        assert inboxes.cursor == before
        bed.front.homeserver = fake
        async with hosted(bed, inboxes):
            await until(lambda: len(inboxes.texts) == 2, "it was lost")
