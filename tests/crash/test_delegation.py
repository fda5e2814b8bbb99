"""Children that are stopped before and after each write, with one that has to ask: each task is done once,
the person is asked once, what was allowed happens once, and the result reaches the parent exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.control.turn.children import child_turn
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import Asked, Finished, ModelSaid, QuestionKind, ToolFinished
from hermes.testing.harness import Journey
from hermes.testing.model import Say, call, say
from hermes.testing.world import Deed
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_delegation import delegating, journey

TASKS = [{"goal": "count"}, {"goal": "dare", "agent": "researcher"}, {"goal": "last"}]


def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
    if goal != "dare":
        return say(f"answer to {goal}")
    return say(f"so: {results[-1].text}") if results else call("danger", '{"token": "x"}')


def make(folder: Path) -> Journey:
    first = call("delegate_task", json.dumps({"tasks": TASKS}), id="d1")
    return journey(folder, first, child, **delegating(max_concurrent_children=1))


async def live(chat: Journey) -> None:
    """A person who asks, presses what they are asked to, and reads the answer."""
    if not chat.world.updates:
        chat.world.write("go")
    await chat.until(lambda: _prompt(chat) is not None or _is_told(chat))
    if not _is_told(chat) and not any(update.button for update in chat.world.updates):
        chat.world.write("", button=_prompt(chat))
    await chat.until(lambda: _is_told(chat))
    await chat.until_idle()
    await judge(chat)


def _is_told(chat: Journey) -> bool:
    return any("TOLD" in seen for seen in chat.world.seen())


def _prompt(chat: Journey) -> str | None:
    buttons = [value for message in chat.world.messages.values() for value in message.buttons]
    return next((value for value in buttons if value.endswith(":once")), None)


async def judge(chat: Journey) -> None:
    [answer] = [seen for seen in chat.world.seen() if "TOLD" in seen]
    for words in ("answer to count", "answer to last"):
        assert answer.count(words) == 1, answer
    # A `once` call that a crash cut off is not repeated, and that is said.
    done, unknown = answer.count("so: danger did x"), answer.count("so: Interrupted")
    assert (done, unknown) in ((1, 0), (0, 1)), answer
    effects = len(chat.world.did(Deed.EFFECT))
    assert done <= effects <= 1, "what was allowed once happened more than once, or was only told"
    [session] = await chat.database.read(
        lambda tx: [one for one in tx.sessions.find("") if one.parent is None]
    )
    records = [entry.record for entry in await chat.database.read(lambda tx: tx.journal.read(session.id))]
    assert sum(isinstance(record, Finished) for record in records) == 1
    assert sum(isinstance(record, ToolFinished) for record in records) == 1, "a result came twice"
    asked = [record for record in records if isinstance(record, Asked)]
    assert [one.kind for one in asked] == [QuestionKind.CHILD] * 3 + [QuestionKind.APPROVAL]
    for one in asked[:3]:
        assert one.child is not None
        store = chat.database.scoped(AgentId(one.child.agent) if one.child.agent else MAIN_AGENT)
        below = child_turn(one.question)
        entries = await store.read(lambda tx, below=below: tx.journal.of_turn(below))
        own = [entry.record for entry in entries]
        assert sum(isinstance(record, Finished) for record in own) == 1
        assert sum(isinstance(record, ModelSaid) for record in own) == (2 if one.child.agent else 1)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    writes = await cut_everywhere(tmp_path, make, live, after=after, full=full)
    assert writes > 12, "the story is too short to have been one of children"
