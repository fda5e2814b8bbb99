"""A turn as the named events of a session's chat stream."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hermes.domain.ids import CallId, TurnId
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    Record,
    Reset,
    Snapshot,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    UserSaid,
)
from hermes.stream.faces.session_events import SessionEvents
from tests.stream.feeds import parse

START = datetime(2026, 1, 2, tzinfo=UTC)


def entry(seq: int, record: Record) -> Entry:
    return Entry(seq=seq, turn=TurnId("turn_1"), at=START + timedelta(seconds=seq), record=record)


def seen(*feed: FeedItem) -> list[tuple[str, dict[str, Any]]]:
    events = SessionEvents(session="s", run="run_1", now=lambda: 5.0)
    written = [events.start("hi"), *(events.see(item) for item in feed)]
    return [(one.name, json.loads(one.data)) for one in parse(written)][2:]


def test_words_that_are_said_again_are_announced() -> None:
    told = seen(
        entry(1, UserSaid(text="hi")),
        TextDelta(text="Hel"),
        Reset(),
        Reset(),
        TextDelta(text="Good "),
        Snapshot(text="Good day"),
        entry(2, ModelSaid(text="Good day.")),
        entry(2, ModelSaid(text="Good day.")),
        entry(3, Finished()),
    )
    names = [name for name, _ in told]
    assert names == [
        "assistant.delta",
        "assistant.reset",
        "assistant.delta",
        "assistant.delta",
        "assistant.delta",
        "assistant.completed",
        "run.completed",
        "done",
    ]
    assert "".join(data.get("delta", "") for _, data in told[2:]) == "Good day."
    assert [data["seq"] for _, data in told] == list(range(3, 3 + len(told)))


def test_a_tool_that_fails_and_one_that_is_nobodys_business() -> None:
    calls = tuple(ToolCall(id=CallId(name), name=name, arguments="{}") for name in ("look", "_own"))
    told = seen(
        entry(1, ModelSaid(calls=calls)),
        *(
            entry(n, ToolStarted(call=c.id, name=c.name, effect=Effect.READ, key="k"))
            for n, c in enumerate(calls, 2)
        ),
        ToolOutput(call=CallId("look"), text="half"),
        ToolOutput(call=CallId("_own"), text="hidden"),
        entry(5, ToolFinished(call=CallId("look"), text="no", failed=True)),
        entry(6, ToolFinished(call=CallId("_own"), text="yes")),
        entry(7, Failed(reason="It broke.")),
    )
    assert [name for name, _ in told] == [
        "tool.started",
        "tool.progress",
        "tool.failed",
        "error",
        "assistant.completed",
        "run.failed",
        "done",
    ]
    assert told[1][1]["delta"] == "half"
    assert told[2][1]["duration"] == 3.0
    assert told[3][1]["message"] == "It broke."
    assert told[4][1]["completed"] is False
    assert (told[5][1]["completed"], told[5][1]["error"]) == (False, "It broke.")
