"""Reading markdown into the tree: examples, safety, hostile input, and the cost of a plain text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hermes.domain.chats.capabilities import Flavour, TextUnit
from hermes.stream.text.markdown import (
    Align,
    Block,
    Code,
    CodeBlock,
    Emphasis,
    Heading,
    Image,
    Inline,
    ItemList,
    LineBreak,
    Link,
    Paragraph,
    Quote,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
    parse,
    safe_url,
)
from hermes.stream.text.print import print_markdown
from hermes.stream.text.split import split
from tests.effort import grows_evenly
from tests.stream.shown import visible


def t(text: str) -> Text:
    return Text(text=text)


def p(*inlines: Inline) -> Paragraph:
    return Paragraph(children=inlines)


def items(*blocks: Block, start: int = 1, ordered: bool = False) -> ItemList:
    return ItemList(ordered=ordered, start=start, items=tuple((block,) for block in blocks))


BLOCKS: dict[str, tuple[Block, ...]] = {
    "": (),
    "hi there.": (p(t("hi there.")),),
    "one\n two\n\n\nthree": (p(t("one"), LineBreak(), t("two")), p(t("three"))),
    "a  \nb\\\nc *d*": (
        p(t("a"), LineBreak(hard=True), t("b"), LineBreak(hard=True), t("c "), Emphasis(children=(t("d"),))),
    ),
    "## T *e* ##": (Heading(level=2, children=(t("T "), Emphasis(children=(t("e"),)))),),
    "a\nb\n---": (Heading(level=2, children=(t("a b"),)),),
    "```py x=1\na\n\n b\n```": (CodeBlock(lang="py", text="a\n\n b"),),
    "~~~\nopen": (CodeBlock(lang="", text="open"),),
    "    code": (CodeBlock(lang="", text="code"),),
    "> a\n> > b": (Quote(blocks=(p(t("a")), Quote(blocks=(p(t("b")),)))),),
    "- a\n- b": (items(p(t("a")), p(t("b"))),),
    "0. a\n1. b": (items(p(t("a")), p(t("b")), start=0, ordered=True),),
    "***": (Rule(),),
    "|a|b|\n|:-|-:|\n|1|": (
        Table(aligns=(Align.LEFT, Align.RIGHT), header=((t("a"),), (t("b"),)), rows=(((t("1"),), ()),)),
    ),
    "<b>html</b> is *text*": (p(t("<b>html</b> is "), Emphasis(children=(t("text"),))),),
}

INLINES: dict[str, tuple[Inline, ...]] = {
    "**a** _b_ ~~c~~ `d`": (
        Strong(children=(t("a"),)),
        t(" "),
        Emphasis(children=(t("b"),)),
        t(" "),
        Strike(children=(t("c"),)),
        t(" "),
        Code(text="d"),
    ),
    "**a __b__ c**": (Strong(children=(t("a b c"),)),),
    "**a**__b__": (Strong(children=(t("ab"),)),),
    '[a *b*](https://x.y/?a=b "title")': (
        Link(url="https://x.y/?a=b", children=(t("a "), Emphasis(children=(t("b"),)))),
    ),
    "<https://x.y>": (Link(url="https://x.y", children=(t("https://x.y"),)),),
    "[a][r]\n\n[r]: http://x.y": (Link(url="http://x.y", children=(t("a"),)),),
    "![alt *x*](http://x.y/i.png)": (Image(url="http://x.y/i.png", alt="alt x"),),
    "[![alt](http://x.y/i)](http://x.y)": (Link(url="http://x.y", children=(t("alt"),)),),
    "[a](javascript:alert(1))": (t("a (javascript:alert(1))"),),
    "[a](JavaScript:x) &amp; \\*": (t("a (JavaScript:x) & *"),),
    "[a](data:text/html,x)": (t("a (data:text/html,x)"),),
    "[a](/relative)": (t("a (/relative)"),),
    "![a](javascript:x)": (t("a"),),
}


@pytest.mark.parametrize("text", list(BLOCKS))
def test_blocks(text: str) -> None:
    assert parse(text).blocks == BLOCKS[text]


@pytest.mark.parametrize("text", list(INLINES))
def test_inlines(text: str) -> None:
    assert parse(text).blocks == (Paragraph(children=INLINES[text]),)


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://x.y/ü (1)", "https://x.y/ü%20(1)"),
        ("HTTP://x.y", "HTTP://x.y"),
        ('http://x.y/"><b>', "http://x.y/%22%3E%3Cb%3E"),
        ("mailto:a@b.c", "mailto:a@b.c"),
        ("java\nscript:x", None),
        ("vbscript:x", None),
        ("file:///etc/passwd", None),
        ("", None),
    ],
)
def test_only_harmless_urls_are_links(url: str, safe: str | None) -> None:
    assert safe_url(url) == safe


def test_a_text_with_an_open_fence_is_not_kept_as_it_was_written() -> None:
    """What is written below such a text would be code."""
    assert parse("a\n\n```\nclosed\n```").source
    assert not parse("a\n\n```\nopen").source
    assert not parse("a\n\n```py").source


def hostile(size: int) -> dict[str, str]:
    """Texts of about a million characters by what is hard about them, if `size` is a thousand."""
    return {
        "stars": "a" + "*" * 1000 * size,
        "star words": "*a **b " * 140 * size,
        "brackets": "[" * 1000 * size,
        "images": "![" * 500 * size,
        "bracket lines": ("[" * 60 + "\n\n") * 16 * size,
        "links": "[a](" * 250 * size,
        "quotes": ">" * 1000 * size,
        "quotes apart": "> " * 500 * size + "end",
        "bullets": "- " * 500 * size + "end",
        "deep bullets": "".join("  " * depth + "- x\n" for depth in range(size)),
        "ticks": "`" * 500 * size + "a" + "`" * (500 * size - 1),
        "angles": "<" * 1000 * size,
        "entities": "&" * 1000 * size,
        "backslashes": "\\" * 1000 * size,
        "short lines": "x\n" * 100 * size + "*",
        "items": "1. a\n" * 50 * size,
        "cells": "|a|b|\n|-|-|\n" + "|x\n" * 60 * size,
        "columns": "|a" * 100 * size + "|\n" + "|-" * 100 * size + "|\n",
        "definitions": "[a]: b\n" * 40 * size,
        "nested styles": "*a **b " * 3 * size + "c** d*" * 3 * size,
    }


@pytest.mark.parametrize("name", list(hostile(1)))
def test_hostile_text_costs_what_its_length_costs(name: str, full: bool) -> None:
    size = 100 if full else 20
    assert grows_evenly(parse, hostile(size)[name], hostile(2 * size)[name])


@pytest.mark.parametrize("name", list(hostile(1)))
def test_nothing_of_a_hostile_text_is_lost(name: str, full: bool) -> None:
    text = hostile(1000 if full else 100)[name]
    doc = parse(text)
    if name in ("quotes apart", "bullets", "deep bullets"):
        ending = text.split()[-1]
        assert visible(doc.blocks).endswith(ending)
    assert len(print_markdown(doc, Flavour.TELEGRAM_HTML)) < 10 * len(text)


@pytest.mark.parametrize("flavour", list(Flavour))
def test_hostile_text_is_split(flavour: Flavour) -> None:
    text = "[" * 20_000 + "\n\n" + "> " * 5_000 + "a\n\n" + "*" * 20_000 + "b\n\n" + "- " * 500 + "c"
    assert len(split(text, limit=2000, unit=TextUnit.CHARS, flavour=flavour)) > 20


def test_plain_text_needs_no_parser() -> None:
    program = (
        "import sys; from hermes.stream.text.markdown import parse; import hermes.stream.text.split;"
        "parse('hi there.\\n\\nAll (fine) - so far: 1.5 + 2 = 3.5!');"
        "print('markdown_it' in sys.modules, 'regex' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False"]
