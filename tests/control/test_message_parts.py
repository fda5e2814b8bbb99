"""A part's Markdown and its print travel together, and the lane prints again only what has to be."""

from __future__ import annotations

import pytest

from hermes.domain.chats.capabilities import Capabilities, Flavour
from hermes.domain.chats.message import Body, PrintedText
from hermes.domain.word import replace
from hermes.state.store.codec import decode, encode
from hermes.stream.text import print as printing
from hermes.stream.text.print import for_adapter
from hermes.stream.text.split import split_bodies

ABLE = Capabilities(max_text=100, flavour=Flavour.TELEGRAM_HTML)
TEXT = "some **bold** words & more.\n\n" * 8


@pytest.fixture
def no_second_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse_again(text: str) -> None:
        raise AssertionError(f"parsed again: {text!r}")

    monkeypatch.setattr(printing, "parse", parse_again)


@pytest.mark.usefixtures("no_second_reading")
def test_a_stored_part_is_sent_as_it_was_printed() -> None:
    parts = [decode(Body, encode(body)) for body in split_bodies(TEXT, ABLE)]
    assert len(parts) > 1
    for body in parts:
        sent = for_adapter(body, ABLE)
        assert sent.text.startswith("some <b>bold</b> words &amp; more.") and len(sent.text) <= 100
        assert sent.printed is None, "an adapter gets one text"
        assert body.text.startswith("some **bold** words & more.")


@pytest.mark.parametrize(
    "body",
    [
        Body(text="**a** & b"),
        decode(Body, '{"text": "**a** & b"}'),
        split_bodies("before", ABLE)[0].with_text("**a** & b"),
        split_bodies("**a** & b", replace(ABLE, flavour=Flavour.PLAIN))[0],
        replace(
            split_bodies("**a** & b", ABLE)[0], printed=PrintedText(text="?", flavour=ABLE.flavour, limit=200)
        ),
    ],
    ids=["never printed", "row of an older version", "changed text", "another flavour", "another limit"],
)
def test_what_has_no_print_for_this_platform_is_printed(body: Body) -> None:
    assert for_adapter(body, ABLE).text == "<b>a</b> &amp; b"
