"""The splitter by example: where it cuts, what it keeps together, how it behaves on growth and size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from hermes.domain.chats.capabilities import Flavour, TextUnit
from hermes.stream.text.markdown import CodeBlock, ItemList, Table, parse
from hermes.stream.text.print import print_markdown
from hermes.stream.text.split import split
from tests.effort import grows_evenly


def texts(
    text: str, limit: int, flavour: Flavour = Flavour.COMMONMARK, unit: TextUnit = TextUnit.CHARS
) -> list[str]:
    return [part.text for part in split(text, limit=limit, unit=unit, flavour=flavour)]


def test_a_text_that_fits_is_one_part_as_it_was_written() -> None:
    assert texts("hi __there__.", 20) == ["hi __there__."]
    assert texts("+\xa0", 20) == ["+\xa0"], "without its blank it would be a list"
    assert texts("# T\n\n* a\n* b\n", 30) == ["# T\n\n* a\n* b"]


def test_nothing_to_show_is_no_part() -> None:
    assert texts("", 20) == []
    assert texts(" \n\n ", 20) == []


def test_a_limit_that_cannot_hold_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match="20"):
        texts("hi", 19)


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("first paragraph\n\nsecond one\n\nthird", 30, ["first paragraph\n\nsecond one", "third"]),
        ("a line of words\nanother line", 24, ["a line of words", "another line"]),
        ("One sentence. Two sent ences", 20, ["One sentence.", "Two sent ences"]),
        ("some words without any end", 20, ["some words without", "any end"]),
        ("abcdefghij" * 3, 20, ["abcdefghijabcdefghij", "abcdefghij"]),
        ("text before\n\n# Heading\n\nwords after", 30, ["text before", "# Heading\n\nwords after"]),
    ],
    ids=["paragraph", "line", "sentence", "space", "hard", "heading stays with its text"],
)
def test_where_it_cuts(text: str, limit: int, parts: list[str]) -> None:
    assert texts(text, limit) == parts


def test_a_fence_is_closed_and_reopened_with_its_language() -> None:
    text = "```python\n" + "\n".join(f"x{n} = {n}" for n in range(12)) + "\n```"
    parts = texts(text, 50)
    assert len(parts) > 2
    blocks = [parse(part).blocks for part in parts]
    assert all(isinstance(block, CodeBlock) and block.lang == "python" for (block,) in blocks)
    assert all(part.startswith("```python\n") and part.endswith("\n```") for part in parts)


def test_code_keeps_its_indentation_across_a_cut() -> None:
    parts = texts("```\nif a:\n    if b:\n        do()\n```", 27)
    assert parts == ["```\nif a:\n    if b:\n```", "```\n        do()\n```"]


def test_an_open_fence_is_closed() -> None:
    assert texts("words\n\n```py\nx = 1", 40) == ["words\n\n```py\nx = 1\n```"]


def test_styles_go_on_in_the_next_part() -> None:
    assert texts("**some bold words that go on**", 20) == ["**some bold words**", "**that go on**"]


def test_a_link_is_never_broken_but_printed_as_text_if_it_is_too_long() -> None:
    assert texts("see the words [a link](http://x.y) end", 26)[1] == "[a link](http://x.y) end"
    long = "[label](http://example.com/" + "a" * 60 + ")"
    shown = "".join(print_markdown(parse(part), Flavour.PLAIN) for part in texts(long, 30))
    assert shown.replace(" ", "") == "label(http://example.com/" + "a" * 60 + ")"


def test_inline_code_and_addresses_stay_whole_when_they_fit() -> None:
    assert texts("run it with `some long command`", 24) == ["run it with", "`some long command`"]
    assert texts("go to https://a.example/x-y", 20 + 3) == ["go to", "https://a.example/x-y"]


def test_a_list_keeps_its_numbers_and_its_items_are_not_doubled() -> None:
    text = "\n".join(f"{n}. item number {n}" for n in range(1, 8))
    blocks = [block for part in texts(text, 40) for block in parse(part).blocks]
    lists = [block for block in blocks if isinstance(block, ItemList)]
    assert [item.start for item in lists] == [1, 3, 5, 7]
    assert sum(len(item.items) for item in lists) == 7


def test_a_list_is_cut_between_its_items() -> None:
    text = "\n".join(f"* item  __{n}__\n  goes on" for n in range(6))
    parts = texts(text, 60)
    assert len(parts) == 3
    assert "\n".join(parts) == text.replace("__", "**").replace("* item", "- item")


def test_a_list_that_does_not_count_up_is_numbered_as_it_is_shown() -> None:
    parts = texts("\n".join(f"1. item with the letter {letter}" for letter in "abcd"), 60)
    assert parts[1:] == ["3. item with the letter c\n4. item with the letter d"]


def test_a_table_goes_on_without_its_header() -> None:
    text = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {n} |" for n in range(20))
    tables = [block for part in texts(text, 80) for block in parse(part).blocks]
    assert all(isinstance(table, Table) for table in tables)
    assert sum(len(table.rows) for table in tables if isinstance(table, Table)) == 20


def test_reference_links_survive_in_every_part() -> None:
    text = "first [one][a] words\n\nsecond [two][a] words\n\n[a]: http://x.y\n"
    assert texts(text, 45) == ["first [one](http://x.y) words", "second [two](http://x.y) words"]


def test_a_family_is_not_torn_apart() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    parts = texts(family * 9, 20, Flavour.PLAIN, TextUnit.UTF16)
    assert parts == [family * 2] * 4 + [family]


def test_a_character_larger_than_the_limit_is_cut_by_code_points() -> None:
    parts = texts("e" + "\u0301" * 50, 20, Flavour.PLAIN, TextUnit.BYTES)
    assert "".join(parts) == "e" + "\u0301" * 50
    assert all(len(part.encode()) <= 20 for part in parts)


@pytest.mark.parametrize("flavour", list(Flavour))
def test_a_growing_text_keeps_its_first_cuts(flavour: Flavour) -> None:
    text = "Some words here, *and* there. More `code` follows.\nA new line & <more>.\n\nNext one.\n\n" * 6
    text += "- an item with words\n- another item\n\n```py\nx = 1\ny = 2\n```\n\n" * 4
    before: list[str] = []
    for end in (*range(1, len(text), 7), len(text)):
        shown = texts(text[:end], 120, flavour)
        settled = before[:-2]
        assert shown[: len(settled)] == settled
        before = shown


def test_plain_text_keeps_every_cut_as_it_grows() -> None:
    text = " ".join(f"word{n}" for n in range(300))
    stages = [texts(text[:end], 60, Flavour.TELEGRAM_HTML) for end in range(1, len(text), 5)]
    assert all(later[: len(earlier) - 1] == earlier[:-1] for earlier, later in pairwise(stages))


PARAGRAPH = (
    "This is a paragraph with **bold text**, some *emphasis*, `inline code` and a [link](https://e.com/a_b).\n"
    "It goes on for a while so that its lines have an ordinary length & nothing here is odd at all.\n\n"
)
SECTION = f"## A heading\n\n{PARAGRAPH}- first item\n- second\n\n```python\nx = 1\n```\n\n" + PARAGRAPH * 3


LONG: dict[str, Callable[[int], str]] = {
    "answer": lambda size: SECTION * (size // len(SECTION)),
    "words": lambda size: "word " * (size // 5),
    "one word": lambda size: "x" * size,
    "code": lambda size: "```py\n" + "    total = total + 1\n" * (size // 22),
    "list": lambda size: "\n".join(f"{n}. one of very many items of a list" for n in range(size // 42)),
}


def _for_telegram(text: str) -> list[str]:
    return [part.text for part in split(text, limit=4096, unit=TextUnit.UTF16, flavour=Flavour.TELEGRAM_HTML)]


@pytest.mark.parametrize("kind", LONG)
def test_a_long_text_costs_what_its_length_costs(kind: str, full: bool) -> None:
    size = 200_000 if full else 40_000
    assert grows_evenly(_for_telegram, LONG[kind](size), LONG[kind](2 * size))


@pytest.mark.parametrize("kind", LONG)
def test_a_megabyte_is_split(kind: str, full: bool) -> None:
    assert len(_for_telegram(LONG[kind](1_000_000 if full else 250_000))) > (200 if full else 50)


@pytest.mark.parametrize(
    ("text", "limit", "flavour", "unit", "parts"),
    [
        ("*** e\u0301\u0323", 20, Flavour.SLACK_MRKDWN, TextUnit.BYTES, [r"\*\*", "\\* e\u0301\u0323"]),
        ("&&`\u200d \u200d`", 21, Flavour.TELEGRAM_HTML, TextUnit.CHARS, ["&&", "`\u200d \u200d`"]),
        (
            "`a \u200d`" + "\u200d" * 6,
            21,
            Flavour.TELEGRAM_HTML,
            TextUnit.CHARS,
            ["`a \u200d`", "\u200d" * 6],
        ),
    ],
    ids=["escapes that shrink", "code behind", "code before"],
)
def test_narrow_messages(text: str, limit: int, flavour: Flavour, unit: TextUnit, parts: list[str]) -> None:
    """Neither a character nor code that fits is torn where a shorter text takes more room, or where a mark
    belongs to the character on the other side of an edge of code."""
    assert texts(text, limit, flavour, unit) == parts
