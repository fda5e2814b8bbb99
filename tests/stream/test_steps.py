"""What every face takes from the fold: each case once, and properties of all faces over generated feeds."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.domain.ids import CallId, QuestionId
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Ending,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    QuestionKind,
    Reset,
    Snapshot,
    Stopped,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnd,
    UserSaid,
    Verdict,
)
from hermes.domain.turns.thoughts import without_thoughts
from hermes.stream.fold.steps import RemainingText, Steps
from tests.stream.feeds import any_feed, entry, joined, records, replayed, turn
from tests.stream.test_recorded_bytes import faces

MANY = settings(
    max_examples=2000 if os.environ.get("HERMES_TEST_SCALE") == "full" else 150,
    deadline=None,
    derandomize=True,
    database=None,
)
SEEDS = st.integers(0, 1_000_000).map(Random)


class Listed(Steps[list[str]]):
    """A face that lists its steps."""

    def __init__(self, **options: Any) -> None:
        super().__init__([], **options)

    def _words(self, words: str) -> list[str]:
        return [self._spaced(words)]

    def _again(self) -> list[str]:
        return ["void"]

    def _tool_began(self, call: ToolCall) -> list[str]:
        return [f"began {call.name}"]

    def _tool_printed(self, call: ToolCall, text: str) -> list[str]:
        return [f"printed {text}"]

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> list[str]:
        return [f"ended {call.name} {seconds}"]

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> list[str]:
        return [f"people {asked.question} {call.name if call else ''}".rstrip()]

    def _client_asked(self, asked: Asked, call: ToolCall, last: bool) -> list[str]:
        return [f"client {call.id} {last}"]

    def _answered(self, answer: Answered, asked: Asked | None) -> list[str]:
        return [f"answered {asked.question if asked else 'unknown'}"]

    def _ended(self, end: TurnEnd) -> list[str]:
        words = end.note if isinstance(end, Finished) else end.reason
        return [f"{type(end).__name__.lower()} {words}".rstrip()]


def steps(*feed: FeedItem, **options: Any) -> list[str]:
    face = Listed(**options)
    return [step for item in feed for step in face.see(item)]


def delta(text: str) -> TextDelta:
    return TextDelta(text=text)


def call(id: str, name: str = "look") -> ToolCall:
    return ToolCall(id=CallId(id), name=name, arguments="{}")


def started(id: str, name: str = "look") -> ToolStarted:
    return ToolStarted(call=CallId(id), name=name, effect=Effect.ONCE, key="k")


def finished(id: str) -> ToolFinished:
    return ToolFinished(call=CallId(id), text="out")


def asked(id: str, kind: QuestionKind, call: str | None = None) -> Asked:
    return Asked(question=QuestionId(id), kind=kind, text="?", call=CallId(call) if call else None)


def answered(id: str) -> Answered:
    return Answered(question=QuestionId(id), verdict=Verdict.ONCE)


CLIENT = QuestionKind.CLIENT_TOOL


@pytest.mark.parametrize(
    ("feed", "expected"),
    [
        ([delta("Hel"), delta("lo"), entry(1, ModelSaid(text="Hello"))], ["Hel", "lo"]),
        ([delta("Hel"), entry(1, ModelSaid(text="Hello"))], ["Hel", "lo"]),
        ([entry(1, ModelSaid(text="\nHello"))], ["Hello"]),
        ([delta("<think>x</think>Hi"), entry(1, ModelSaid(text="<think>x</think>Hi"))], ["Hi"]),
        ([Snapshot(text="Hel"), Snapshot(text="Hello"), delta("!")], ["Hel", "lo", "!"]),
        ([delta("Hel"), Snapshot(text="Other")], ["Hel", "void", "Other"]),
        ([delta("Half"), Reset(), Reset(), delta("Whole")], ["Half", "void", "Whole"]),
        ([Reset(), delta("Whole")], ["Whole"]),
        ([delta("Half"), entry(1, ModelSaid(text="Other"))], ["Half", "void", "Other"]),
        ([entry(1, ModelSaid(text="A")), entry(1, ModelSaid(text="A")), delta("B")], ["A", "\n\nB"]),
        ([entry(1, ModelSaid(text="A ", ending=Ending.BROKEN, partial=True)), delta("B")], ["A ", "B"]),
        ([entry(1, ModelSaid(text="<think>x</think>")), delta("B")], ["B"]),
        ([entry(1, UserSaid(text="x")), entry(2, Finished(note="n"))], ["finished n"]),
        ([entry(1, Failed(reason="r"))], ["failed r"]),
        ([entry(1, Stopped(reason="r"))], ["stopped r"]),
        (
            [entry(1, ModelSaid(calls=(call("c"),))), entry(2, started("c")), entry(5, finished("c"))],
            ["began look", "ended look 3.0"],
        ),
        ([entry(1, ModelSaid(calls=(call("c"),))), entry(2, finished("c"))], ["ended look None"]),
        ([entry(1, finished("c")), ToolOutput(call=CallId("c"), text="x")], []),
        ([entry(1, started("c")), ToolOutput(call=CallId("c"), text="x")], ["began look", "printed x"]),
        (
            [
                entry(1, ModelSaid(calls=(call("c", "_own"),))),
                entry(2, started("c", "_own")),
                ToolOutput(call=CallId("c"), text="x"),
                entry(3, finished("c")),
            ],
            [],
        ),
        (
            [
                entry(1, ModelSaid(calls=(call("c"),))),
                entry(2, asked("q", QuestionKind.APPROVAL, "c")),
                entry(3, answered("q")),
                entry(4, answered("other")),
            ],
            ["people q look", "answered q", "answered unknown"],
        ),
        ([entry(1, asked("q", QuestionKind.CHILD)), entry(2, asked("r", CLIENT, "c"))], []),
        (
            [
                entry(1, ModelSaid(calls=(call("a"), call("b"), call("c")))),
                entry(2, finished("b")),
                entry(3, asked("q", CLIENT, "a")),
                entry(4, asked("r", CLIENT, "c")),
            ],
            ["ended look None", "client a False", "client c True"],
        ),
    ],
)
def test_the_steps_of_a_feed(feed: list[FeedItem], expected: list[str]) -> None:
    assert steps(*feed) == expected


def test_records_that_another_stream_told_are_no_steps_but_their_calls_are_known() -> None:
    feed: list[FeedItem] = [
        entry(1, ModelSaid(text="A", calls=(call("a"), call("b")))),
        entry(2, asked("q", QuestionKind.APPROVAL, "a")),
        entry(3, answered("q")),
        entry(4, finished("a")),
        entry(5, asked("r", CLIENT, "b")),
        delta("B"),
    ]
    assert steps(*feed, after=2) == ["answered unknown", "ended look None", "client b True", "B"]


# --- all faces, over generated feeds


@MANY
@given(SEEDS)
def test_no_face_shows_a_record_twice(random: Random) -> None:
    feed = turn(random)
    again, once = faces(replayed(random, feed), -1), faces(feed, -1)
    # The last event is read from stored records, which never come twice.
    assert {**again, "last event": ""} == {**once, "last event": ""}


@MANY
@given(SEEDS)
def test_no_face_shows_an_internal_tool(random: Random) -> None:
    for name, written in faces(any_feed(random), -1).items():
        assert name in ("session", "last event") or "_plan" not in written


class Reader(Listed):
    """Somebody who reads along, and forgets what is void."""

    def __init__(self, feed: list[FeedItem]) -> None:
        super().__init__()
        self.replies: list[str] = []
        self._heard = ""
        for item in feed:
            self.see(item)

    def _words(self, words: str) -> list[str]:
        self._heard += words
        return []

    def _again(self) -> list[str]:
        self._heard = ""
        return []

    def _replied(self, reply: ModelSaid, text: str, rest: RemainingText) -> list[str]:
        written = super()._replied(reply, text, rest)
        self.replies.append(self._heard.strip())
        self._heard = ""
        return written


@MANY
@given(SEEDS)
def test_however_the_words_come_a_reader_has_every_reply_whole(random: Random) -> None:
    feed = turn(random)
    replies = [
        without_thoughts(one.record.text) for one in records(feed) if isinstance(one.record, ModelSaid)
    ]
    expected = [text.strip() for text in replies]
    assert Reader(feed).replies == Reader(list(records(feed))).replies == expected
    assert Reader(joined(random, feed)).replies == expected
