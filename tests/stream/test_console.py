"""A turn on a terminal: words as they come, one line per tool, nothing that could disguise itself."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.domain.ids import CallId, QuestionId, TurnId
from hermes.domain.text import showable
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Ending,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    Notice,
    QuestionKind,
    Record,
    Reset,
    Retrying,
    Snapshot,
    Stopped,
    Summarised,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    UserSaid,
    Verdict,
)
from hermes.stream.faces.console import Console, QuietConsole

MANY = settings(
    max_examples=2000 if os.environ.get("HERMES_TEST_SCALE") == "full" else 150,
    deadline=None,
    derandomize=True,
    database=None,
)


def entry(seq: int, record: Record) -> Entry:
    return Entry(seq=seq, turn=TurnId("turn_1"), at=datetime(2026, 1, 2, tzinfo=UTC), record=record)


def delta(text: str) -> TextDelta:
    return TextDelta(text=text)


def call(id: str = "c1", name: str = "read_file", arguments: str = '{"path": "notes.txt"}') -> ToolCall:
    return ToolCall(id=CallId(id), name=name, arguments=arguments)


def started(id: str = "c1", name: str = "read_file") -> ToolStarted:
    return ToolStarted(call=CallId(id), name=name, effect=Effect.READ, key="k")


def finished(id: str = "c1", *, failed: bool = False) -> ToolFinished:
    return ToolFinished(call=CallId(id), text="out", failed=failed)


def written(*items: FeedItem, console: Console | QuietConsole | None = None) -> str:
    console = console or Console()
    return "".join(console.see(item) for item in items)


AGAIN = "— interrupted, saying it again —"
QUESTION = Asked(question=QuestionId("q"), kind=QuestionKind.CLARIFY, text="Which\none?", options=("a", "b"))


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([delta("Hel"), delta("lo"), entry(1, ModelSaid(text="Hello")), entry(2, Finished())], "Hello\n"),
        ([entry(1, ModelSaid(text="Hello")), entry(2, Finished(note="n"))], "Hello\nn\n"),
        ([Snapshot(text="Hel"), Snapshot(text="Hello"), delta("!")], "Hello!"),
        ([delta("Hel"), Snapshot(text="Other")], f"Hel\n{AGAIN}\nOther"),
        ([delta("Half"), Reset(), delta("Whole")], f"Half\n{AGAIN}\nWhole"),
        ([Reset(), delta("Whole")], "Whole"),
        ([delta("Half"), entry(1, ModelSaid(text="Half and more"))], "Half and more"),
        ([entry(1, ModelSaid(text="A")), entry(1, ModelSaid(text="A")), delta("B")], "A\n\nB"),
        ([entry(1, ModelSaid(text="A ", ending=Ending.LENGTH)), delta("B")], "A B"),
        ([delta("<think>x</think>Hi")], "Hi"),
        ([ThoughtDelta(text="hm"), delta("Hi")], "Hi"),
        ([delta("a\x1b[31m\u202eb\r\n")], "a[31mb\n"),
        ([delta("Hi"), entry(1, Failed(reason="it\nbroke"))], "Hi\n✗ it broke\n"),
        ([delta("Hi"), entry(1, Stopped(reason="enough"))], "Hi\n— stopped: enough —\n"),
        ([entry(1, Stopped())], "— stopped —\n"),
        ([Retrying(reason="busy", after=2.0)], "… busy (again in 2 s)\n"),
        ([Notice(text="now by b")], "… now by b\n"),
        ([delta("Hi"), entry(1, QUESTION)], "Hi\n? Which\n  one?\n  1. a\n  2. b\n"),
        ([entry(1, Answered(question=QuestionId("q"), verdict=Verdict.REPLY, text="b"))], "→ b\n"),
        ([entry(1, Answered(question=QuestionId("q"), verdict=Verdict.EXPIRED))], "→ expired\n"),
        ([entry(1, Asked(question=QuestionId("q"), kind=QuestionKind.CHILD, text="x"))], ""),
        ([entry(1, UserSaid(text="x")), entry(2, Summarised(upto=0, text="s"))], ""),
        ([ToolOutput(call=CallId("c1"), text="x")], ""),
    ],
)
def test_what_is_written(items: list[FeedItem], text: str) -> None:
    assert written(*items) == text


def test_tools_have_one_line_each() -> None:
    feed: list[FeedItem] = [
        delta("Look."),
        entry(1, ModelSaid(text="Look.", calls=(call(),))),
        entry(2, started()),
        entry(3, finished()),
        delta("Done."),
        entry(4, ModelSaid(text="Done.")),
        entry(5, Finished()),
    ]
    assert written(*feed) == "Look.\n· read_file notes.txt … done\n\nDone.\n"
    assert written(*feed, console=Console(show_tools=False)) == "Look.\n\nDone.\n"


def test_tools_that_run_together_end_on_lines_of_their_own() -> None:
    said = ModelSaid(calls=(call(), call("c2", "terminal", '{"command": "ls"}'), call("c3", "_x")))
    feed: list[FeedItem] = [
        entry(1, said),
        entry(2, started()),
        entry(3, started("c2", "terminal")),
        entry(4, started("c3", "_x")),
        entry(5, finished()),
        entry(6, finished("c2", failed=True)),
        entry(7, finished("c3")),
    ]
    assert written(*feed).splitlines() == [
        "· read_file notes.txt …",
        "· terminal ls …",
        "· read_file notes.txt … done",
        "· terminal ls … failed",
    ]


def test_thoughts_are_shown_when_asked_for() -> None:
    said = entry(1, ModelSaid(text="Hi", thought="hm, well"))
    thoughts = Console(show_thoughts=True)
    assert written(ThoughtDelta(text="hm, "), ThoughtDelta(text="well"), delta("Hi"), console=thoughts) == (
        "hm, well\nHi"
    )
    assert thoughts.see(said) == ""
    assert written(said, console=Console(show_thoughts=True)) == "hm, well\nHi"


def test_colours_only_when_wanted() -> None:
    feed: list[FeedItem] = [entry(1, QUESTION), entry(2, started()), entry(3, Failed(reason="x"))]
    assert "\x1b" not in written(*feed)
    painted = written(*feed, console=Console(colour=True))
    assert "\x1b[31m✗ x\x1b[0m" in painted
    assert re.sub(r"\x1b\[\d+m", "", painted) == written(*feed)


def test_lines_keep_to_the_width() -> None:
    wide = call(arguments='{"path": "' + "x" * 300 + '"}')
    ask = Asked(question=QuestionId("q"), kind=QuestionKind.CONFIRM, text="word " * 40, options=("y" * 99,))
    feed: list[FeedItem] = [entry(1, ModelSaid(calls=(wide,))), entry(2, started()), entry(3, finished())]
    lines = written(*feed, entry(4, ask), console=Console(60)).splitlines()
    assert max(map(len, lines)) <= 60


def test_quiet_writes_only_the_answer() -> None:
    feed: list[FeedItem] = [
        delta("Look."),
        entry(1, ModelSaid(text="Look.", calls=(call(),))),
        entry(2, started()),
        entry(3, finished()),
        entry(4, ModelSaid(text="<think>x</think>Done.\x1b")),
        entry(5, Finished(note="n")),
        entry(5, Finished(note="n")),
    ]
    assert written(*feed, console=QuietConsole()) == "Done.\n"


@pytest.mark.parametrize("end", [Failed(reason="broke"), Stopped(reason="broke")])
def test_quiet_tells_a_failure_apart(end: Record) -> None:
    quiet = QuietConsole()
    assert written(entry(1, ModelSaid(text="Half", partial=True)), entry(2, end), console=quiet) == ""
    assert quiet.failure == "broke"


@MANY
@given(st.lists(st.text(max_size=8), max_size=20), st.integers(0, 20))
def test_every_word_is_written_once_however_it_comes(pieces: list[str], joined: int) -> None:
    text = "".join(pieces)
    feed: list[FeedItem] = [delta(piece) for piece in pieces]
    if joined < len(pieces):
        feed[: joined + 1] = [Snapshot(text="".join(pieces[: joined + 1]))]
    said = written(*feed, entry(1, ModelSaid(text=text)))
    expected = showable(text.lstrip("\n"))
    assert said == (expected if "<" not in text else said)
    assert said == written(entry(1, ModelSaid(text=text)))
    assert showable(said) == said


def test_the_output_of_a_command_keeps_its_lines_and_columns() -> None:
    table = "Filesystem  Size\n/dev/x        1G\x1b[2J\n\n/dev/y       20G"
    console = Console(80)
    console.see(entry(1, UserSaid(text="/disk")))
    shown = console.see(entry(2, Finished(note=table)))
    assert shown == "Filesystem  Size\n/dev/x        1G" + showable("\x1b") + "[2J\n\n/dev/y       20G\n"
    dim = Console(80, colour=True)
    assert dim.see(entry(1, Finished(note="a  b\nc"))) == "\x1b[2ma  b\x1b[0m\n\x1b[2mc\x1b[0m\n"
