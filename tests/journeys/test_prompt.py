"""The prompt of a session: asked for with who begins it, then frozen; what tells of the chat is behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.sessions.submission import BOUND, SessionTarget
from hermes.domain.chats.address import Source
from hermes.domain.ids import SessionId
from hermes.domain.turns.session import FrozenPrompt, Session
from hermes.domain.word import replace
from hermes.testing import harness
from hermes.testing.harness import Journey
from tests.journeys.test_first_words import hear, named_words


async def test_a_session_keeps_the_prompt_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[bool, str | None]] = []

    async def prompt(session: Session | None, source: Source | None) -> FrozenPrompt:
        asked.append((session is not None, None if source is None else source.address.platform))
        return FrozenPrompt(text=f"You are number {len(asked)}.", tool_list="[]")

    monkeypatch.setattr(harness, "_prompt", prompt)
    async with Journey(folder=tmp_path) as chat:
        for text in ("one", "two"):
            await hear(chat, (await chat.gateway.ask(named_words(text))).turn.id)
        chat.world.write("hello")
        await chat.until(lambda: len(chat.model.requests) == 3)
        await chat.until_idle()
        systems = [request.system for request in chat.model.requests]
        assert systems[:2] == ["You are number 1."] * 2
        assert asked[0] == (False, "api_server") and asked[-1] == (True, "fake")
        frozen, place = systems[2].split("\n\n", 1)
        assert frozen == f"You are number {len(asked)}." and place.startswith("# Where you speak")
        named = await chat.database.read(lambda tx: tx.sessions.get(SessionId("tea")))
        assert named is not None and (named.tool_list, named.place_prompt) == ("[]", None)


async def test_only_a_session_without_a_prompt_waits_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Source | None] = []

    async def prompt(session: Session | None, source: Source | None) -> FrozenPrompt:
        asked.append(source)
        return FrozenPrompt(text="You are slow.", tool_list="[]")

    monkeypatch.setattr(harness, "_prompt", prompt)
    bound = replace(named_words("hello"), place=BOUND)
    async with Journey(folder=tmp_path) as chat:
        for words in (named_words("one"), named_words("two"), bound, bound, named_words("three"), bound):
            submitted = await chat.gateway.ask(words)
            assert submitted.claim is not None
            await hear(chat, submitted.turn.id)
            await chat.until(lambda: not chat.gateway.actors.workers.active)
        after = replace(bound, place=SessionTarget(after=submitted.turn.id))
        await hear(chat, (await chat.gateway.ask(after)).turn.id)
        assert len(asked) == 2, "one for each session"
        assert {request.system for request in chat.model.requests} == {"You are slow."}
