"""The fake homeserver is judged by matrix-nio, which we did not write, before our adapter may trust it: it logs
in, receives, replies, edits, reacts, deletes, uploads and reads back. The same program runs against a real
Synapse: where the two differ, the fake is wrong."""

from __future__ import annotations

import secrets

import pytest

from tests.platforms.matrix.bed import MatrixBed
from tests.platforms.matrix.judge import heard
from tests.platforms.matrix.synapse import SynapseBed, synapse

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("synapse")]


async def judged(bed: MatrixBed, password: str) -> dict[str, object]:
    async with bed:
        text = await bed.ann.say(bed.chat.chat, "hello")
        await bed.ann.call("POST", "createRoom", invite=[bed.bot.id])
        found = await heard("matrix_nio.py", bed.front.url, bed.bot.id, password, bed.chat.chat, text)
        names = {bed.ann.id: "ann", bed.bot.id: "hermes"}
        found["members"] = sorted(names[one] for one in found["members"])
        found["login"], found["seen"][1] = names[found["login"]], names[found["seen"][1]]
        return found


EXPECTED = {
    "wrong password": "LoginError",
    "login": "hermes",
    "rooms": [2, 1],
    "joined": "JoinResponse",
    "seen": ["hello", "ann"],
    "members": ["ann", "hermes"],
    "once": True,
    "typing": "RoomTypingResponse",
    "file": True,
    "no file": "M_NOT_FOUND",
    "news": ["RoomMessageText", "RoomMessageText", "ReactionEvent", "RedactedEvent", "RedactionEvent"],
    "deleted": "RedactedEvent",
    "no event": "M_NOT_FOUND",
    "history": [3, True, True],
    "reactions": ["👍"],
    "forbidden": "M_FORBIDDEN",
    "made": ["RoomCreateResponse", "New"],
    "unknown token": "M_UNKNOWN_TOKEN",
}


async def test_matrix_nio_accepts_the_fake() -> None:
    assert await judged(MatrixBed(), "secret of hermes") == EXPECTED


async def test_matrix_nio_sees_the_same_on_synapse() -> None:
    with synapse() as url:
        SynapseBed.url, SynapseBed.password = url, secrets.token_hex(8)
        SynapseBed.most_chats, most = 0, SynapseBed.most_chats
        try:
            assert await judged(SynapseBed(), SynapseBed.password) == EXPECTED
        finally:
            SynapseBed.most_chats = most
