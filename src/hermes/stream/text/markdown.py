"""Markdown as a small tree: what the blocks and inlines are, and how a text is read into them.

A text is parsed once; printing it for a platform and splitting it both work on the tree. The tree is
safe by construction: links carry only harmless schemes, styles never nest in themselves, depth is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strong:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Emphasis:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link with its label; a bare address is a link whose label is its url."""

    url: str
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    url: str
    alt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBreak:
    """The end of a line inside a paragraph; `hard` when the author insisted on it."""

    hard: bool = False


Style = Strong | Emphasis | Strike
Inline = Text | Strong | Emphasis | Strike | Code | Link | Image | LineBreak
Cell = tuple[Inline, ...]


class Align(StrEnum):
    NONE = "none"
    LEFT = "left"
    CENTER = "center"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    level: int
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock:
    lang: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    """A list; `tight` only says how its author spaced it, so it does not take part in equality."""

    ordered: bool
    start: int
    items: tuple[tuple[Block, ...], ...]
    tight: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table; a header of empty cells is the header of a table that continues an earlier one."""

    aligns: tuple[Align, ...]
    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    pass


Block = Paragraph | Heading | CodeBlock | Quote | ItemList | Table | Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The blocks of a text. `source` holds its lines and `spans` the half-open line range of each block,
    or None for a block that its lines, read alone, would not give again. `items` holds the first line of
    each item of a list whose items can be read alone too; else, and for other blocks, it has no lines."""

    blocks: tuple[Block, ...]
    source: tuple[str, ...] = field(default=(), compare=False, repr=False)
    spans: tuple[tuple[int, int] | None, ...] = field(default=(), compare=False, repr=False)
    items: tuple[tuple[int, ...], ...] = field(default=(), compare=False, repr=False)

    def lines(self, start: int, end: int) -> str:
        """The source from one line up to another, without the blank lines at its end."""
        while end > start and not self.source[end - 1].strip():
            end -= 1
        return "\n".join(self.source[start:end])


# A text without any of these is a few paragraphs of plain lines, and no parser is needed to see that.
_MARKUP = re.compile(r"[\\`*_\[&<>~#|\t]|^ *(?:[-+=]|\d+[.)])|^ {4}|  $", re.MULTILINE)
INLINE_MARKUP = re.compile(r"[\\`*_\[&<~]|  $", re.MULTILINE)
# Characters that some renderers take for a line end or for nothing at all.
_ODD_BLANKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_LINKABLE = re.compile(r"(?:(?:https?|ftp|tg)://|(?:mailto|tel|sms|geo|xmpp|matrix):)\S", re.IGNORECASE)
_URL_UNSAFE = re.compile(r"[\s<>\"\\`|{}^\x00-\x1f\x7f\ud800-\udfff]")
_LANG = re.compile(r"[\w+#./-]{1,30}")


_MEANINGFUL = re.compile(r"[\\`*_\[\]&<>~#|]|^[-+=]|(?<=\d)[.)]", re.MULTILINE)


def literal(text: str) -> str:
    """Markdown that shows exactly this text: for what a person decides about by reading it."""
    return _MEANINGFUL.sub(r"\\\g<0>", text)


def parse(text: str) -> Document:
    """Read a markdown text. Never fails: what is hostile (too deep, too dense) is kept as plain text."""
    if not text.isascii() or "\r" in text or not text.isprintable():
        text = _ODD_BLANKS.sub(_plain_blank, text)
    if not _MARKUP.search(text):
        return _plain_document(text)
    from hermes.stream.text.reader import read

    return read(text)


def visible(blocks: Iterable[Block]) -> str:
    """What a reader sees, without any markup, bullets or decoration; one line per block or line."""
    return "\n".join(visible_block(block) for block in blocks)


def visible_block(block: Block) -> str:
    match block:
        case Paragraph() | Heading():
            return visible_inlines(block.children)
        case CodeBlock():
            return block.text
        case Quote():
            return visible(block.blocks)
        case ItemList():
            return "\n".join(visible(item) for item in block.items)
        case Table():
            rows = (block.header, *block.rows)
            return "\n".join("\t".join(visible_inlines(cell) for cell in row) for row in rows)
        case Rule():
            return ""
        case _:
            assert_never(block)


def visible_inlines(inlines: Iterable[Inline]) -> str:
    return "".join(map(_visible_inline, inlines))


def _visible_inline(inline: Inline) -> str:
    match inline:
        case Text() | Code():
            return inline.text
        case Strong() | Emphasis() | Strike():
            return visible_inlines(inline.children)
        case Link():
            return label_and_url(visible_inlines(inline.children), inline.url)
        case Image():
            return label_and_url(inline.alt, inline.url)
        case LineBreak():
            return "\n"
        case _:
            assert_never(inline)


def label_and_url(label: str, url: str) -> str:
    """A link where links cannot be shown: its label and its address, once if they are the same."""
    if not label or label == url or f"mailto:{label}" == url:
        return label or url
    return f"{label} ({url})"


def safe_url(url: str) -> str | None:
    """The url as it may be written into any markup, or None if it is not one to link to."""
    if not _LINKABLE.match(url):
        return None
    return _URL_UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in _utf8(found[0])), url)


def safe_lang(info: str) -> str:
    words = info.split(maxsplit=1)
    return words[0] if words and _LANG.fullmatch(words[0]) else ""


def plain_blocks(text: str) -> tuple[Block, ...]:
    """The text as paragraphs of plain lines, whatever markup it seems to hold."""
    paragraphs = (plain_inlines(part) for part in _BLANK_LINES.split(text))
    return tuple(Paragraph(children=inlines) for inlines in paragraphs if inlines)


def plain_inlines(text: str) -> tuple[Inline, ...]:
    if "\n" not in text:
        text = text.strip()
        return (Text(text=text),) if text else ()
    inlines: list[Inline] = []
    for line in text.strip().split("\n"):
        if line := line.strip():
            inlines += (Text(text=line), LineBreak())
    return tuple(inlines[:-1])


def joined(inlines: Sequence[Inline]) -> tuple[Inline, ...]:
    """The inlines with neighbours of the same kind made one and empty ones left out."""
    result: list[Inline] = []
    run: list[Inline] = []
    for inline in inlines:
        if isinstance(inline, Text) and not inline.text:
            continue
        if run and not (isinstance(inline, Text | Style) and type(inline) is type(run[0])):
            result += _merged(run)
            run = []
        run.append(inline)
    return (*result, *_merged(run))


def _merged(run: list[Inline]) -> list[Inline]:
    if not run:
        return []
    first = run[0]
    match first:
        case Text():
            return [Text(text="".join(inline.text for inline in run if isinstance(inline, Text)))]
        case Strong() | Emphasis() | Strike():
            if len(run) == 1 and first.children:
                return run
            inner = [child for inline in run if isinstance(inline, Style) for child in inline.children]
            children = joined(inner)
            return [type(first)(children=children)] if children else []
        case Code() | Link() | Image() | LineBreak():
            return run
        case _:
            assert_never(first)


def without_styles(inlines: Sequence[Inline]) -> list[Inline]:
    """The inlines with nothing bold, slanted or struck out; words, code and links stay."""
    bare: list[Inline] = []
    for inline in inlines:
        if isinstance(inline, Style):
            bare.extend(without_styles(inline.children))
        elif isinstance(inline, Link):
            bare.append(Link(url=inline.url, children=joined(without_styles(inline.children))))
        else:
            bare.append(inline)
    return bare


def trimmed(inlines: Sequence[Inline]) -> tuple[Inline, ...]:
    """The inlines without blanks and line breaks at either end."""
    start, end = 0, len(inlines)
    first: Inline | None = None
    while start < end and (first := _stripped(inlines[start], left=True)) is None:
        start += 1
    if first is None:
        return ()
    last: Inline | None = None
    while end - start > 1 and (last := _stripped(inlines[end - 1], left=False)) is None:
        end -= 1
    if last is None:
        only = _stripped(first, left=False)
        return (only,) if only is not None else ()
    if first is inlines[start] and last is inlines[end - 1]:
        return tuple(inlines[start:end])
    return (first, *inlines[start + 1 : end - 1], last)


def _stripped(inline: Inline, *, left: bool) -> Inline | None:
    match inline:
        case Text():
            text = inline.text.lstrip() if left else inline.text.rstrip()
            return inline if text == inline.text else Text(text=text) if text else None
        case LineBreak():
            return None
        case Strong() | Emphasis() | Strike():
            children = list(inline.children)
            edge = 0 if left else -1
            while children and (kept := _stripped(children[edge], left=left)) is not children[edge]:
                if kept is None:
                    del children[edge]
                else:
                    children[edge] = kept
            return _restyled(inline, tuple(children))
        case Code() | Link() | Image():
            return inline
        case _:
            assert_never(inline)


def _restyled(style: Style, children: tuple[Inline, ...]) -> Style | None:
    if not children:
        return None
    return style if children == style.children else type(style)(children=children)


def _plain_document(text: str) -> Document:
    blocks = plain_blocks(text)
    if len(blocks) <= 1:
        return Document(blocks=blocks, source=(text.strip("\n"),), spans=((0, 1),) if blocks else ())
    source = text.split("\n")
    spans: list[tuple[int, int]] = []
    start: int | None = None
    for number, line in enumerate((*source, "")):
        if line and not line.isspace():
            start = number if start is None else start
        elif start is not None:
            spans.append((start, number))
            start = None
    return Document(blocks=blocks, source=tuple(source), spans=tuple(spans))


def _plain_blank(found: re.Match[str]) -> str:
    return "\n" if found[0][0] in "\r\u2028\u2029\x85" else " "


def _utf8(char: str) -> bytes:
    return char.encode("utf-8", "replace")
