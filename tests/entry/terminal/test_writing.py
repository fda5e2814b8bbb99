"""The line that is being written, without a terminal: keys from bytes, editing, answers, the row."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.domain.ids import QuestionId
from hermes.domain.text import width
from hermes.domain.turns.event import Asked, QuestionKind, Verdict
from hermes.entry.terminal.editor import MOST, Editor, LineEnd, LineHistory
from hermes.entry.terminal.keyboard import KeyReader, NamedKey, Press, TypedText
from hermes.entry.terminal.talk import ParsedAnswer, how_to_answer, read_answer, refusal


def together(presses: list[Press]) -> list[Press]:
    """Neighbouring characters as one piece."""
    joined: list[Press] = []
    for press in presses:
        if isinstance(press, TypedText) and joined and isinstance(joined[-1], TypedText):
            joined[-1] = TypedText(text=joined[-1].text + press.text)
        else:
            joined.append(press)
    return joined


PIECES = st.sampled_from(
    [
        "a",
        "grüße",
        "😀",
        "\r",
        "\n",
        "\x7f",
        "\x1b[A",
        "\x1b[1;5D",
        "\x1bb",
        "\x1b[200~x\ry\x1bz\x1b[201~",
        "\t",
    ]
)


@given(st.lists(PIECES, max_size=8), st.lists(st.integers(1, 5), min_size=1, max_size=10))
def test_the_size_of_pieces_does_not_matter(words: list[str], sizes: list[int]) -> None:
    data = "".join(words).encode()
    whole = together(KeyReader().feed(data))
    reader, presses, at = KeyReader(), [], 0
    while at < len(data):
        size = sizes[at % len(sizes)]
        presses += reader.feed(data[at : at + size])
        at += size
    assert together(presses) == whole


@given(st.binary(max_size=60))
def test_no_bytes_break_it(data: bytes) -> None:
    editor, reader = Editor(), KeyReader()
    for press in reader.feed(data) + reader.feed(data):
        editor.press(press)
        assert 0 <= editor.place <= len(editor.text)


def test_an_escape_alone_is_nothing() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert together(reader.feed(b"[A")) == [NamedKey.UP]
    assert reader.feed(b"\x1b\r") == [NamedKey.NEWLINE]
    assert reader.give_up() == [] and not reader.is_unsure


def test_an_escape_that_nothing_follows_swallows_nothing() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == [] and reader.is_unsure
    assert reader.give_up() == [NamedKey.ESCAPE] and not reader.is_unsure
    assert reader.feed(b"hello") == [TypedText(text="hello")]
    assert reader.feed(b"\x1b[") == [] and reader.give_up() == []
    assert reader.feed(b"\x1b[200~half\x1b") == [] and not reader.is_unsure


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("hello world\x17", "hello "),
        ("hello world\x1bb\x0b", "hello "),
        ("hello\x01\x1b[3~J", "Jello"),
        ("abc\x02\x02\x15", "bc"),
        ("abc\x7f\x7f", "a"),
        ("\x04", ""),
        ("ab\x01\x04", "b"),
        ("a\\\rb", "a\nb"),
        ("/wh\t", "/whoami "),
        ("/\t", "/"),
        ("a\tb", "a\tb"),
        ("one\x1b[A", "old"),
        ("one\x1b[A\x1b[B", "one"),
    ],
)
def test_editing(keys: str, text: str) -> None:
    editor = Editor(["older", "old"], ["whoami", "help"])
    for press in KeyReader().feed(keys.encode()):
        editor.press(press)
    assert editor.text == text


def test_a_line_ends_by_enter_or_by_leaving() -> None:
    editor = Editor()
    assert editor.press(NamedKey.EOF) is LineEnd.LEFT
    editor.press(TypedText(text="x"))
    assert editor.press(NamedKey.EOF) is None and editor.press(NamedKey.ENTER) is LineEnd.SENT
    assert editor.take() == "x" and editor.text == ""


def test_what_is_too_much_is_counted() -> None:
    editor = Editor()
    editor.press(TypedText(text="x" * (MOST + 5)))
    assert len(editor.text) == MOST and editor.lost == 5
    editor.take()
    assert editor.lost == 0


@given(st.text(max_size=80), st.integers(0, 80), st.integers(1, 30))
def test_the_row_fits_and_shows_the_cursor(text: str, place: int, room: int) -> None:
    editor = Editor()
    editor.put(text)
    editor.place = min(place, len(text))
    row, cursor = editor.row(room)
    assert width(row) <= room and 0 <= cursor <= width(row) and "\n" not in row


APPROVAL = Asked(question=QuestionId("q_1"), kind=QuestionKind.APPROVAL, text="May I?")
CLARIFY = Asked(question=QuestionId("q_2"), kind=QuestionKind.CLARIFY, text="Which?", options=("red", "blue"))


@pytest.mark.parametrize(
    ("line", "reading"),
    [
        ("yes", ParsedAnswer(verdict=Verdict.ONCE)),
        (" 1 ", ParsedAnswer(verdict=Verdict.ONCE)),
        ("2", ParsedAnswer(verdict=Verdict.SESSION)),
        ("Always!", ParsedAnswer(verdict=Verdict.ALWAYS)),
        ("no, too risky", ParsedAnswer(verdict=Verdict.DENY, text="too risky")),
        ("4", ParsedAnswer(verdict=Verdict.DENY)),
        ("5", None),
        ("0", None),
        ("yes please do it", None),
        ("²", None),
        ("9" * 5000, None),
    ],
)
def test_answers_to_an_approval(line: str, reading: ParsedAnswer | None) -> None:
    assert read_answer(APPROVAL, line) == reading


def test_answers_to_a_clarification() -> None:
    assert read_answer(CLARIFY, "2") == ParsedAnswer(verdict=Verdict.REPLY, text="blue")
    assert read_answer(CLARIFY, "yes") == ParsedAnswer(verdict=Verdict.REPLY, text="yes")
    assert "1 red, 2 blue" in how_to_answer(CLARIFY)
    assert refusal(APPROVAL).verdict is Verdict.DENY and refusal(CLARIFY).verdict is Verdict.REPLY


def test_history_survives_anything(tmp_path: Path) -> None:
    history = LineHistory(tmp_path / "lines")
    history.add("one")
    history.add("two\nlines \ud800")
    with (tmp_path / "lines").open("ab") as file:
        file.write(b"\xff garbage\n[1]\n")
    assert LineHistory(tmp_path / "lines").read() == ["one", "two\nlines \ud800"]
    assert (tmp_path / "lines").stat().st_mode & 0o077 == 0
    LineHistory(tmp_path / "no" / "folder").add("x")
    assert LineHistory(None).read() == [] and LineHistory(tmp_path).read() == []
