"""The demo model drives the real tools of a whole gateway, in a folder of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.models.demo import FOOTER, DemoProvider
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, AgentId, TurnId
from hermes.domain.tools.toolbox import ToolsetLimit
from hermes.domain.turns.event import Asked, Entry, FeedItem, Record, TextDelta, ToolFinished, Verdict
from hermes.domain.turns.turn import Answer, TurnInput
from hermes.stream.fold.answer import answer_text

ME = Source(address=Address(platform="terminal", chat="here"), kind=SourceKind.PRIVATE, user="me")


@contextlib.asynccontextmanager
async def living(home: Path, given: AppOverrides) -> AsyncIterator[App]:
    app = App(home, {"PATH": os.environ["PATH"], "HOME": str(home.parent)}, given)
    async with app.running():
        yield app


async def say(
    app: App, text: str, allow: Verdict = Verdict.DENY, source: Source = ME, agent: AgentId = MAIN_AGENT
) -> list[Record]:
    turn = await app.gateway.submit(Submission(agent=agent, source=source, input=TurnInput(text=text)))
    return await follow(app, turn.id, allow, agent)


async def follow(
    app: App, turn: TurnId, allow: Verdict = Verdict.DENY, agent: AgentId = MAIN_AGENT
) -> list[Record]:
    records: list[Record] = []
    async for seen in app.gateway.watch(agent, turn):
        if isinstance(seen, Entry):
            records.append(seen.record)
        if isinstance(seen, Entry) and isinstance(seen.record, Asked):
            answer = Answer(question=seen.record.question, verdict=allow, text="blue", by="me")
            await app.gateway.answer(agent, answer)
    return records


async def answer(
    app: App, text: str, allow: Verdict = Verdict.DENY, source: Source = ME, agent: AgentId = MAIN_AGENT
) -> str:
    records = await say(app, text, allow, source, agent)
    at = [
        Entry(seq=n, turn=TurnId("t"), at=app._given.clock.now(), record=one) for n, one in enumerate(records)
    ]
    return answer_text(at)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


def given(home: Path, **more: Any) -> AppOverrides:
    return AppOverrides(provider=DemoProvider(delay=0), platforms={}, workspace=home.parent / "work", **more)


async def test_the_first_minute(home: Path) -> None:
    work = home.parent / "work"
    async with living(home, given(home)) as app:
        assert "Wrote notes.txt" in await answer(app, "write notes.txt: buy milk")
        assert (work / "notes.txt").read_text() == "buy milk\n"
        assert "notes.txt" in await answer(app, "list files")
        assert "notes.txt" in await answer(app, "What is in this folder?")
        assert "notes.txt" in await answer(app, "what files are in this directory?")
        assert "1|buy milk" in await answer(app, "read notes.txt")
        assert "notes.txt" in await answer(app, "find milk")
        assert str(work) in await answer(app, "run: pwd")
        assert "You answered: blue" in await answer(app, "ask me", Verdict.REPLY)
        assert "[>] a" in await answer(app, "todo: a, b")
        assert "There is no nowhere.txt" in await answer(app, "read nowhere.txt")


def chat(platform: str, name: str, user: str) -> Source:
    return Source(address=Address(platform=platform, chat=name), kind=SourceKind.PRIVATE, user=user)


async def test_a_second_conversation_finds_what_the_first_one_said(home: Path) -> None:
    later = chat("terminal", "there", "me")
    async with living(home, given(home)) as app:
        await answer(app, "my neighbour grows heirloom apples")
        told = await answer(app, "search history for apples", source=later)
        first, second = await app.store.scoped(MAIN_AGENT).read(
            lambda tx: sorted(tx.sessions.find(""), key=lambda one: str(one.place))
        )
        assert "user: my neighbour grows heirloom apples" in told
        assert first.id in told and second.id not in told
    async with living(home, given(home)) as app:
        told = await answer(app, "what did I say about heirloom apples?", source=later)
        assert "user: my neighbour grows heirloom apples" in told and first.id in told
        told = await answer(app, "what did I say about elephants?", source=later)
        assert "No earlier message matches “elephants”." in told
        assert first.id in await answer(app, "search history ???"), "without words the latest ones are told"


async def test_history_keeps_agents_and_people_apart(home: Path) -> None:
    (home / "config.yaml").write_text("agents: {other: {}}\n")
    other = AgentId("other")
    ann, ben = chat("fake", "ann", "1"), chat("fake", "ben", "2")
    async with living(home, given(home)) as app:
        await answer(app, "plums for the other one", agent=other)
        await answer(app, "plums for ann", source=ann)
        question = "search history for plums"
        assert "plums for ann" in await answer(app, question, source=chat("fake", "again", "1"))
        assert "No earlier message matches" in await answer(app, question, source=ben)
        told = await answer(app, question)
        assert "plums for ann" in told and "other one" not in told
        told = await answer(app, question, source=chat("terminal", "there", "me"), agent=other)
        assert "plums for the other one" in told and "ann" not in told


async def test_what_is_dangerous_is_asked_first(home: Path) -> None:
    outside = home.parent / "outside"
    outside.mkdir()
    async with living(home, given(home)) as app:
        assert "Denied" in await answer(app, f"run: rm -rf {outside}")
        assert outside.exists()
        assert "I ran" in await answer(app, f"run: rm -rf {outside}", Verdict.ONCE)
        assert not outside.exists()


async def test_toolsets_can_be_switched_off(home: Path) -> None:
    async with living(home, given(home, toolsets=ToolsetLimit(disabled=("terminal",)))) as app:
        assert "does not have it" in await answer(app, "run: ls")
        assert "Wrote a" in await answer(app, "write a: x")
    async with living(home, given(home, toolsets=ToolsetLimit(enabled=("none",)))) as app:
        assert "read_file is not available any more" in await answer(app, "list files"), "its session goes on"


async def test_a_turn_that_was_cut_off_goes_on_to_the_same_words(home: Path) -> None:
    slow = AppOverrides(provider=DemoProvider(delay=0.01), platforms={}, workspace=home.parent / "work")
    async with living(home, slow) as app:
        turn = await app.gateway.submit(
            Submission(agent=MAIN_AGENT, source=ME, input=TurnInput(text="count to 400"))
        )
        heard: list[FeedItem] = []
        async for seen in app.gateway.watch(MAIN_AGENT, turn.id):
            heard.append(seen)
            if sum(isinstance(one, TextDelta) for one in heard) > 5:
                break
        app.gateway.hurry()
    async with living(home, given(home)) as app:
        records = await follow(app, turn.id)
        assert not any(isinstance(record, ToolFinished) for record in records)
        numbers = " ".join(map(str, range(1, 401)))
        assert any(getattr(record, "text", "") == f"{numbers}\n\n{FOOTER}" for record in records)


async def test_the_prompt_is_kept_and_the_session_is_logged(home: Path) -> None:
    (home / "SOUL.md").write_text("You are Ada.")
    async with living(home, given(home)) as app:
        await answer(app, "write a.txt: x")
        (session,) = await app.store.scoped(MAIN_AGENT).read(lambda tx: tx.sessions.find(""))
        assert session.system_prompt is not None and session.system_prompt.startswith("You are Ada.")
        (home / "SOUL.md").write_text("You are Bob.")
        await answer(app, "read a.txt")
        (later,) = await app.store.scoped(MAIN_AGENT).read(lambda tx: tx.sessions.find(""))
        assert later.system_prompt == session.system_prompt
    lines = (home / "sessions" / f"{session.id}.jsonl").read_text().splitlines()
    roles = [line.split('"')[3] for line in lines]
    assert roles == ["user", "assistant", "tool", "assistant"] * 2
    assert "You are Ada" not in "".join(lines)


async def test_no_log_if_nobody_wants_one(home: Path) -> None:
    (home / "config.yaml").write_text("sessions: {write_json: false}\n")
    async with living(home, given(home)) as app:
        await answer(app, "hi")
    assert not (home / "sessions").exists()
