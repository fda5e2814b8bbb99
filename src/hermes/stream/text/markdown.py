"""Markdown as a small tree: what the blocks and inlines are, and how a text is read into them.

A text is parsed once; printing it for a platform and splitting it both work on the tree. The tree is
safe by construction: links carry only harmless schemes, styles never nest in themselves, depth is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from hermes.domain.safety.late_pattern import late_pattern


class Text(Struct, frozen=True, kw_only=True):
    text: str


class Strong(Struct, frozen=True, kw_only=True):
    children: tuple[Inline, ...]


class Emphasis(Struct, frozen=True, kw_only=True):
    children: tuple[Inline, ...]


class Strike(Struct, frozen=True, kw_only=True):
    children: tuple[Inline, ...]


class Code(Struct, frozen=True, kw_only=True):
    text: str


class Link(Struct, frozen=True, kw_only=True):
    """A link with its label; a bare address is a link whose label is its url."""

    url: str
    children: tuple[Inline, ...]


class Image(Struct, frozen=True, kw_only=True):
    url: str
    alt: str


class LineBreak(Struct, frozen=True, kw_only=True):
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


class Paragraph(Struct, frozen=True, kw_only=True):
    children: tuple[Inline, ...]


class Heading(Struct, frozen=True, kw_only=True):
    level: int
    children: tuple[Inline, ...]


class CodeBlock(Struct, frozen=True, kw_only=True):
    lang: str
    text: str


class Quote(Struct, frozen=True, kw_only=True):
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    """A list; `tight` only says how its author spaced it, so it does not take part in equality."""

    ordered: bool
    start: int
    items: tuple[tuple[Block, ...], ...]
    tight: bool = field(default=True, compare=False)


class Table(Struct, frozen=True, kw_only=True):
    """A table; a header of empty cells is the header of a table that continues an earlier one."""

    aligns: tuple[Align, ...]
    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


class Rule(Struct, frozen=True, kw_only=True):
    pass


Block = Paragraph | Heading | CodeBlock | Quote | ItemList | Table | Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The blocks of a text. `source` is the text, or empty if its last fence is open: what would be written
    below such a text would be code."""

    blocks: tuple[Block, ...]
    source: str = field(default="", compare=False, repr=False)


# A text without any of these is a few paragraphs of plain lines, and no parser is needed to see that.
_MARKUP = late_pattern(r"[\\`*_\[&<>~#|\t]|^ *(?:[-+=]|\d+[.)])|^ {4}|  $", re.MULTILINE)
INLINE_MARKUP = late_pattern(r"[\\`*_\[&<~]|  $", re.MULTILINE)
# Characters that some renderers take for a line end or for nothing at all.
_ODD_BLANKS = late_pattern("\r\n?|[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_BLANK_LINES = late_pattern(r"\n(?:[^\S\n]*\n)+")
_LINKABLE = late_pattern(r"(?:(?:https?|ftp|tg)://|(?:mailto|tel|sms|geo|xmpp|matrix):)\S", re.IGNORECASE)
_URL_UNSAFE = late_pattern(r"[\s<>\"\\`|{}^\x00-\x1f\x7f\ud800-\udfff]")
_LANG = late_pattern(r"[\w+#./-]{1,30}")


_MEANINGFUL = late_pattern(r"[\\`*_\[\]&<>~#|]|^[-+=]|(?<=\d)[.)]", re.MULTILINE)


def literal(text: str) -> str:
    """Markdown that shows exactly this text: for what a person decides about by reading it."""
    return _MEANINGFUL.sub(r"\\\g<0>", text)


def parse(text: str) -> Document:
    """Read a markdown text. Never fails: what is hostile (too deep, too dense) is kept as plain text."""
    if not text.isascii() or "\r" in text or not text.isprintable():
        text = _ODD_BLANKS.sub(_plain_blank, text)
    if not _MARKUP.search(text):
        return Document(blocks=plain_blocks(text), source=text)
    from hermes.stream.text.reader import read

    return read(text)


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


def label_and_url(label: str, url: str) -> str:
    """A link where links cannot be shown: its label and its address, once if they are the same."""
    if not label or label == url or f"mailto:{label}" == url:
        return label or url
    return f"{label} ({url})"


def safe_url(url: str) -> str | None:
    """The url as it may be written into any markup, or None if it is not one to link to."""
    if not _LINKABLE.match(url):
        return None
    return _URL_UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in _utf8(match[0])), url)


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


def trimmed(inlines: Sequence[Inline]) -> tuple[Inline, ...]:
    """The inlines without blanks and line breaks at either end."""
    return _trimmed_at(_trimmed_at(tuple(inlines), 0), -1)


def _trimmed_at(inlines: tuple[Inline, ...], edge: Literal[0, -1]) -> tuple[Inline, ...]:
    while inlines:
        kept = _stripped(inlines[edge], edge)
        if kept is inlines[edge]:
            return inlines
        rest = inlines[1:] if edge == 0 else inlines[:-1]
        if kept is not None:
            return (kept, *rest) if edge == 0 else (*rest, kept)
        inlines = rest
    return ()


def _stripped(inline: Inline, edge: Literal[0, -1]) -> Inline | None:
    match inline:
        case Text():
            text = inline.text.lstrip() if edge == 0 else inline.text.rstrip()
            return inline if text == inline.text else Text(text=text) if text else None
        case LineBreak():
            return None
        case Strong() | Emphasis() | Strike():
            children = _trimmed_at(inline.children, edge)
            if children is inline.children:
                return inline
            return type(inline)(children=children) if children else None
        case Code() | Link() | Image():
            return inline


def _plain_blank(match: re.Match[str]) -> str:
    return "\n" if match[0][0] in "\r\u2028\u2029\x85" else " "


def _utf8(char: str) -> bytes:
    return char.encode("utf-8", "replace")
