"""A feed folded into the view of a turn, and a turn's records as text."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.domain.ids import CallId, QuestionId, TurnId
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
    Undone,
    UserSaid,
    Verdict,
)
from hermes.stream.fold.answer import answer_text
from hermes.stream.fold.questions import choices, question_text
from hermes.stream.fold.steps import RemainingText, ShownText
from hermes.stream.fold.tool_lines import ProgressLevel, preview
from hermes.stream.fold.turn_fold import Fold

MANY = settings(
    max_examples=2000 if os.environ.get("HERMES_TEST_SCALE") == "full" else 150,
    deadline=None,
    derandomize=True,
    database=None,
)


def entry(seq: int, record: Record) -> Entry:
    return Entry(seq=seq, turn=TurnId("turn_1"), at=datetime(2026, 1, 2, tzinfo=UTC), record=record)


def entries(*records: Record) -> list[Entry]:
    return [entry(seq, record) for seq, record in enumerate(records, 1)]


def call(id: str = "c1", name: str = "read_file", arguments: str = '{"path": "notes.txt"}') -> ToolCall:
    return ToolCall(id=CallId(id), name=name, arguments=arguments)


def started(id: str = "c1", name: str = "read_file") -> ToolStarted:
    return ToolStarted(call=CallId(id), name=name, effect=Effect.READ, key="k")


def finished(id: str = "c1", *, failed: bool = False, unknown: bool = False) -> ToolFinished:
    return ToolFinished(call=CallId(id), text="out", failed=failed, unknown=unknown)


def asked(id: str = "q1", kind: QuestionKind = QuestionKind.CLARIFY) -> Asked:
    return Asked(question=QuestionId(id), kind=kind, text="Which?", options=("a", "b"))


def folded(*items: FeedItem) -> Fold:
    fold = Fold()
    for item in items:
        fold.see(item)
    return fold


def delta(text: str) -> TextDelta:
    return TextDelta(text=text)


SAID = ModelSaid(text="Whole.")


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([delta("Hel"), delta("lo")], "Hello"),
        ([Snapshot(text="Hello"), delta(" you")], "Hello you"),
        ([delta("Hel"), Snapshot(text="Hello")], "Hello"),
        ([delta("Half"), Reset()], ""),
        ([delta("Half"), Reset(), delta("Whole")], "Whole"),
        ([delta("Half"), Retrying(reason="x", after=1.0), delta(" more")], "Half more"),
        ([delta("Half"), entry(1, SAID)], "Whole."),
        ([entry(1, SAID), Reset()], "Whole."),
        ([entry(1, SAID), entry(1, SAID), delta("Next")], "Whole.\n\nNext"),
        ([entry(1, SAID), delta("Ne"), entry(1, SAID), Snapshot(text="Next")], "Whole.\n\nNext"),
        ([entry(1, ModelSaid(text="One and ", ending=Ending.LENGTH)), delta("two")], "One and two"),
        ([entry(1, ModelSaid(text="A", ending=Ending.BROKEN)), entry(2, ModelSaid(text="B"))], "AB"),
        (
            [
                entry(1, ModelSaid(text="A", ending=Ending.LENGTH)),
                entry(2, UserSaid(text="x", steering=True)),
                delta("B"),
            ],
            "A\n\nB",
        ),
        ([entry(1, ModelSaid(text="Par", partial=True)), entry(2, Stopped())], "Par"),
        ([delta("<thi"), delta("nk>x</think>Hi")], "Hi"),
        ([delta("<think>x"), entry(1, ModelSaid(text="<think>x</think>Hi"))], "Hi"),
        ([ThoughtDelta(text="hm"), ToolOutput(call=CallId("c"), text="x")], ""),
        ([delta("See\nMEDIA:/tmp/a.p")], "See"),
        ([delta("See [[as_doc")], "See"),
        ([delta("NO_RE")], ""),
        ([delta("NO_RE"), delta("GRETS")], "NO_REGRETS"),
        ([delta("Hm."), entry(1, ModelSaid(text="[SILENT]")), entry(2, Finished())], ""),
        ([entry(3, SAID), entry(4, Undone(since=3))], ""),
        ([entry(3, SAID), entry(4, Summarised(upto=2, text="s"))], "Whole."),
    ],
)
def test_the_visible_text(items: list[FeedItem], text: str) -> None:
    assert folded(*items).text == text


def test_tools_are_lines_between_the_texts() -> None:
    feed: list[FeedItem] = [
        entry(
            1, ModelSaid(text="Let me look.", calls=(call(), call("c2", "terminal", '{"command":"`ls`"}')))
        ),
        entry(2, started()),
        entry(3, started("c2", "terminal")),
        entry(4, finished("c2", failed=True)),
    ]
    fold = folded(*feed, delta("Hm"))
    assert fold.draft() == "Let me look.\n\n📖 `read_file notes.txt` …\n💻 `terminal 'ls'` … failed\n\nHm"
    assert fold.draft(ProgressLevel.OFF) == fold.text == "Let me look.\n\nHm"
    fold.see(entry(5, finished()))
    assert "`read_file notes.txt` … done\n💻 `terminal 'ls'` … failed" in fold.draft()
    assert '{"path": "notes.txt"}' in fold.draft(ProgressLevel.VERBOSE)


def test_a_call_that_runs_again_keeps_its_line_and_an_end_leaves_none_running() -> None:
    fold = folded(entry(1, ModelSaid(calls=(call(),))), entry(2, started()), entry(3, started()))
    assert fold.draft() == "📖 `read_file notes.txt` …"
    for end in (Stopped(reason="enough"), Failed(reason="broke"), Finished()):
        fold = folded(entry(1, ModelSaid(calls=(call(),))), entry(2, started()), entry(3, end))
        assert fold.draft() == "📖 `read_file notes.txt` … outcome unknown"


def test_a_call_settled_without_a_start_is_shown_and_an_unheard_one_is_not() -> None:
    said = entry(1, ModelSaid(calls=(call(),)))
    assert folded(said, entry(2, finished(failed=True))).draft() == "📖 `read_file notes.txt` … failed"
    assert folded(said, entry(2, finished("c9"))).draft() == ""


def test_long_rows_internal_tools_and_repeated_tools() -> None:
    many = [entry(seq, started(f"c{seq}", f"tool_{seq}")) for seq in range(1, 10)]
    assert folded(*many).draft().startswith("… 3 earlier\n⚙️ `tool_4` …\n")
    assert folded(entry(1, started(name="_plan"))).draft() == ""
    same = [entry(seq, started(f"c{seq}")) for seq in range(1, 4)]
    assert folded(*same).draft(ProgressLevel.NEW).count("\n") == 0
    assert folded(*same).draft(ProgressLevel.ALL).count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("", ""),
        ("{}", ""),
        ('{"n": 1, "other": "x", "command": "ls\\n -l"}', "ls -l"),
        ('{"n": 1, "other": "x"}', "x"),
        ('{"command": " ", "path": "p"}', "p"),
        ("not { json", "not { json"),
        ("[1, 2]", "[1, 2]"),
        ('{"path": "' + "x" * 60 + '"}', "x" * 47 + "…"),
        ('{"path": "a\\u202eb\\u001b[0m"}', "ab[0m"),
        ("[" * 100_000, "[" * 47 + "…"),
    ],
)
def test_previews(arguments: str, shown: str) -> None:
    assert preview(arguments) == shown


def test_question_text() -> None:
    approval = Asked(question=QuestionId("q"), kind=QuestionKind.APPROVAL, text="Sure?")
    assert choices(approval) == ("once", "session", "always", "deny")
    assert question_text(asked()) == "Which?\n\n1. a\n2. b"
    assert question_text(Asked(question=QuestionId("q"), kind=QuestionKind.CLARIFY, text="?")) == "?"


@pytest.mark.parametrize(
    ("heard", "whole", "left"),
    [
        ("", "abc", RemainingText(text="abc")),
        ("ab", "abc", RemainingText(text="c")),
        ("abc\n", "abc", RemainingText(text="")),
        ("abx", "abc", RemainingText(text="abc", void=True)),
        ("<think>y</think>ab", "abc", RemainingText(text="c")),
        ("a <", "a <", RemainingText(text="<")),
    ],
)
def test_what_is_left_to_show_when_a_call_closes(heard: str, whole: str, left: RemainingText) -> None:
    spoken = ShownText()
    spoken.more(heard)
    assert spoken.close(whole) == left
    assert spoken.text == ""


# --- records as text


@pytest.mark.parametrize(
    ("records", "answer"),
    [
        ([], ""),
        ([UserSaid(text="hi"), ModelSaid(text="Hello \n"), Finished()], "Hello"),
        ([ModelSaid(text="Hello"), Finished(note="n")], "Hello\n\nn"),
        (
            [
                ModelSaid(text="Look", calls=(call(),)),
                started(),
                finished(),
                ModelSaid(text="Done"),
                Finished(),
            ],
            "Done",
        ),
        ([ModelSaid(text="Look", calls=(call(),)), Failed(reason="broke")], "broke"),
        ([ModelSaid(text="Par", partial=True), Stopped()], "Par"),
        ([ModelSaid(text="A ", ending=Ending.LENGTH), ModelSaid(text="B", ending=Ending.LENGTH)], "A B"),
        ([ModelSaid(text="<think>x</think>\nMEDIA:/a.png")], "MEDIA:/a.png"),
    ],
)
def test_texts_of_a_turn(records: list[Record], answer: str) -> None:
    assert answer_text(entries(*records)) == answer


def test_the_answer_without_its_footer() -> None:
    assert answer_text(entries(ModelSaid(text="Hi"), Finished(note="n")), footer=False) == "Hi"


# --- properties

RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(UserSaid, text=st.just("x")),
    st.builds(
        ModelSaid,
        text=st.text(alphabet="ab<\n", max_size=6),
        calls=st.sampled_from([(), (call(),), (call(), call("c2", "_x"))]),
        ending=st.sampled_from(Ending),
    ),
    st.sampled_from([started(), started("c2", "_x"), finished(), finished("c2", unknown=True)]),
    st.sampled_from([asked(), Answered(question=QuestionId("q1"), verdict=Verdict.ONCE)]),
    st.builds(Undone, since=st.integers(0, 10)),
    st.sampled_from([Finished(), Failed(reason="r"), Stopped()]),
)
LIVE: st.SearchStrategy[FeedItem] = st.one_of(
    st.builds(TextDelta, text=st.text(alphabet="ab<\n", max_size=6)),
    st.builds(Snapshot, text=st.text(alphabet="ab<\n", max_size=6)),
    st.just(Reset()),
)


@MANY
@given(st.lists(RECORDS, max_size=12), st.data())
def test_a_feed_with_replays_folds_like_its_records(records: list[Record], data: st.DataObject) -> None:
    story = entries(*records)
    fold = Fold()
    for place, item in enumerate(story):
        for live in data.draw(st.lists(LIVE, max_size=3)):
            fold.see(live)
        for again in story[data.draw(st.integers(0, place)) : place]:
            fold.see(again)
        fold.see(item)
    fold.see(Reset())
    plain = folded(*story)
    assert fold.draft() == plain.draft()


@MANY
@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_deltas_fold_like_a_snapshot(text: str, places: list[int]) -> None:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    pieces = [delta(text[start:end]) for start, end in pairwise(edges)]
    assert folded(*pieces).text == folded(Snapshot(text=text)).text
