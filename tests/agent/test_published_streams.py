"""Streams as vendors publish them, in their documents and in the test suites of their SDKs. Each file says in
its first lines where it is from; words for people are ours. However a stream is cut into reads, the same is
understood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.agent.models.assembly import ReplyAssembly, ReplyBody
from hermes.agent.models.formats import load_format
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.providers import ANTHROPIC_MESSAGES, CODEX_RESPONSES
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelEnd
from hermes.domain.turns.event import Ending, TextDelta

STREAMS = Path(__file__).with_name("streams")
FILES = sorted(STREAMS.glob("*.sse"))
WEATHER = ("get_weather", '{"location": "Oslo"}')
FIRST_SIZE = 7


def read(name: str, size: int = 1 << 20) -> tuple[str, str, ModelEnd]:
    """Words, thoughts and the end."""
    wire = load_format(ANTHROPIC_MESSAGES if name.startswith("anthropic") else CODEX_RESPONSES)
    reply = ReplyAssembly(model="asked-for")
    body = ReplyBody(reply, wire.reader(reply))
    data = (STREAMS / f"{name}.sse").read_bytes()
    pieces = [piece for at in range(0, len(data), size) for piece in body.feed(data[at : at + size])]
    pieces += body.close()
    words = "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))
    thoughts = "".join(piece.text for piece in pieces if not isinstance(piece, TextDelta))
    return words, thoughts, reply.end()


def calls_of(end: ModelEnd) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in end.calls]


@pytest.mark.parametrize("name", ["anthropic_text", "responses_text"])
def test_text(name: str) -> None:
    words, _, end = read(name)
    assert (words, end.ending, end.kept) == ("Good day", Ending.STOP, None)
    assert end.usage == Usage(prompt=4225, completion=15, cached=3000, cache_written=1200)
    assert end.model in ("claude-opus-4-6", "gpt-4.1-2025-04-14")


@pytest.mark.parametrize("name", ["anthropic_tool", "responses_tool"])
def test_calls(name: str) -> None:
    words, _, end = read(name)
    assert (words, end.ending) == ("Let me look", Ending.CALLS)
    (weather, (other, arguments)) = calls_of(end)
    assert weather == WEATHER and other == "get_time" and arguments in ("", "{}")
    assert (end.usage.prompt, end.usage.completion) == (472, 89)
    assert end.calls[0].id in ("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "call_1234xyz")


def test_signed_and_redacted_thoughts_are_kept_as_they_came() -> None:
    words, thoughts, end = read("anthropic_thinking")
    assert (words, thoughts) == ("It is 42.", "First the tens, then the ones.")
    assert end.usage.reasoning == 12 and end.kept is not None
    assert (end.kept.format, end.kept.model) == (ANTHROPIC_MESSAGES, "asked-for")
    signed = {"signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", "thinking": "First the tens, then the ones."}
    assert json.loads(end.kept.text) == [
        {"type": "thinking", **signed},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
        {"text": 9},
    ]


def test_encrypted_thoughts_and_phases_are_kept_as_they_came() -> None:
    _, thoughts, end = read("responses_tool")
    assert thoughts == "Two cities.\n\nBoth at once." and end.usage.reasoning == 40
    assert end.kept is not None and end.kept.format == CODEX_RESPONSES
    sealed, *marks = json.loads(end.kept.text)
    assert (sealed["id"], sealed["encrypted_content"]) == ("rs_1", "gAAAAABsealed")
    assert marks == [{"text": 11, "phase": "commentary"}, {"call": 0}, {"call": 1}]


def test_a_service_without_indexes() -> None:
    words, _, end = read("responses_llamacpp")
    assert words == "Let me look" and calls_of(end) == [WEATHER]
    assert (end.usage.prompt, end.usage.cached) == (32, 31)


def test_a_refusal_in_words_that_is_cut() -> None:
    words, _, end = read("responses_incomplete")
    assert (words, end.ending) == ("I would rather not", Ending.LENGTH)


@pytest.mark.parametrize(
    ("name", "kind", "quote"),
    [
        ("anthropic_error", FaultKind.BUSY, "Overloaded"),
        ("anthropic_refusal", FaultKind.FILTERED, "It may harm."),
        ("responses_failed", FaultKind.BROKEN, "The model failed to generate a response"),
    ],
)
def test_faults(name: str, kind: FaultKind, quote: str) -> None:
    with pytest.raises(ModelFault) as caught:
        read(name)
    assert (caught.value.kind, caught.value.quote) == (kind, quote)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_how_a_stream_is_cut_makes_no_difference(path: Path) -> None:
    def understood(size: int) -> object:
        try:
            return read(path.stem, size)
        except ModelFault as fault:
            return fault.kind, fault.quote

    whole = understood(1 << 20)
    assert all(understood(size) == whole for size in range(FIRST_SIZE, 200, 31))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_stream_that_breaks_off_is_no_answer(path: Path) -> None:
    """Wherever a whole event is missing, up to the one that says how it ends."""
    events = path.read_text().split("\n\n")[:-1]
    endings = ("message_delta", "message_stop", *(f"response.{end}" for end in ("completed", "incomplete")))
    last = next((at for at, event in enumerate(events) if any(end in event for end in endings)), 0)
    wire = load_format(ANTHROPIC_MESSAGES if path.stem.startswith("anthropic") else CODEX_RESPONSES)
    for end in range(last):
        reply = ReplyAssembly(model="asked-for")
        body = ReplyBody(reply, wire.reader(reply))
        body.feed("\n\n".join([*events[: end + 1], ""]).encode())
        body.close()
        with pytest.raises(ModelFault) as caught:
            reply.end()
        assert caught.value.kind is FaultKind.BROKEN


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_says_where_it_is_from(path: Path) -> None:
    first = path.read_text().partition("\n")[0]
    assert first.startswith(": ") and "/" in first
