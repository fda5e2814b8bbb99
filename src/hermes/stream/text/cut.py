"""Cuts blocks in two at a place in their visible text, and loosens what cannot be cut.

Places are counted along the visible text: its characters in reading order, and one between siblings.
Where to cut is the splitter's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar, assert_never

from msgspec import Struct, field

from hermes.domain.word import replace
from hermes.stream.text import markdown as md

Blocks = tuple[md.Block, ...]
T = TypeVar("T")

_ADDRESS = re.compile(r"[a-z]+://\S+", re.IGNORECASE)
_PLACEHOLDER = "\ufffc"


class VisibleText(Struct, kw_only=True):
    """The visible text of a block from its beginning on. A `solid` stretch can never be cut, a `fragile` one
    (inline code, a bare address) only if there is no other way; `seams` lie between blocks, items, rows."""

    enough: int
    text: str = ""
    seams: list[int] = field(default_factory=list)
    solid: list[tuple[int, int]] = field(default_factory=list)
    fragile: list[tuple[int, int]] = field(default_factory=list)
    _length: int = 0
    _pieces: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, block: md.Block, enough: int) -> VisibleText:
        """The visible text of a block, read a little further than `enough` characters."""
        visible = cls(enough=enough)
        visible._block(block)
        visible.text = "".join(visible._pieces)
        return visible

    @classmethod
    def length(cls, blocks: Sequence[md.Block], enough: int) -> int:
        """How long the visible text of these blocks is, or some number above `enough` if it is longer."""
        visible = cls(enough=enough)
        visible._blocks(blocks)
        return visible._length

    @classmethod
    def length_of_inline(cls, inline: md.Inline, enough: int) -> int:
        if isinstance(inline, md.Text | md.Code):
            return len(inline.text)
        visible = cls(enough=enough)
        visible._inlines((inline,))
        return visible._length

    def _put(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)

    def _seam(self) -> None:
        self.seams.append(self._length)
        self._put("\n")

    def _each(self, parts: Sequence[T], read: Callable[[T], None]) -> None:
        """Read parts with seams between them, until it is enough."""
        for number, part in enumerate(parts):
            if self._length > self.enough:
                return
            if number:
                self._seam()
            read(part)

    def _blocks(self, blocks: Sequence[md.Block]) -> None:
        self._each(blocks, self._block)

    def _block(self, block: md.Block) -> None:
        match block:
            case md.Paragraph() | md.Heading():
                self._inlines(block.children)
            case md.CodeBlock():
                self._put(block.text[: self.enough + 1])
            case md.Quote():
                self._blocks(block.blocks)
            case md.ItemList():
                self._each(block.items, self._blocks)
            case md.Table():
                self._each((block.header, *block.rows), self._row)
            case md.Rule():
                self._put(_PLACEHOLDER)
            case _:
                assert_never(block)

    def _row(self, row: Sequence[md.Cell]) -> None:
        start = self._length
        self._put(_row_text(row))
        self.solid.append((start, self._length))

    def _inlines(self, inlines: Sequence[md.Inline]) -> None:
        for inline in inlines:
            if self._length > self.enough:
                return
            start = self._length
            match inline:
                case md.Text():
                    text = inline.text[: self.enough + 1]
                    self._put(text)
                    if "://" in text:
                        found = (address.span() for address in _ADDRESS.finditer(text))
                        self.fragile += ((start + first, start + last) for first, last in found)
                case md.Strong() | md.Emphasis() | md.Strike():
                    self._inlines(inline.children)
                case md.Code():
                    self._put(inline.text[: self.enough + 1])
                    self.fragile.append((start, start + len(inline.text)))
                case md.Link() | md.Image():
                    self._put(_solid_text(inline))
                    self.solid.append((start, self._length))
                case md.LineBreak():
                    self._put("\n")
                case _:
                    assert_never(inline)


def cut(block: md.Block, at: int) -> tuple[Blocks, Blocks]:
    """The block up to a place in its visible text, and the rest. A cut into something solid falls before it.
    The rest of a list item stands alone: a second bullet would make it look like a second item."""
    match block:
        case md.Paragraph() | md.Heading():
            head, tail = _cut_inlines(block.children, at)
            return _filled(block, md.trimmed(head)), _filled(block, md.trimmed(tail))
        case md.CodeBlock():
            return _code(block, block.text[:at].rstrip("\n")), _code(
                block, block.text[at:].removeprefix("\n")
            )
        case md.Quote():
            first, rest = _cut_blocks(block.blocks, at)
            return _quote(first), _quote(rest)
        case md.ItemList():
            return _cut_list(block, at)
        case md.Table():
            return _cut_table(block, at)
        case md.Rule():
            return ((block,), ()) if at else ((), (block,))


_PARTS: dict[type[md.Block], str] = {
    md.Paragraph: "children",
    md.Heading: "children",
    md.CodeBlock: "text",
    md.Quote: "blocks",
    md.ItemList: "items",
    md.Table: "rows",
}


def leading_part(block: md.Block, enough: int) -> md.Block:
    """As much of a block as a cut up to `enough` can see, so that trying places costs no more than that."""
    name = _PARTS.get(type(block))
    return replace(block, **{name: getattr(block, name)[: enough + 2]}) if name else block


def _filled(block: md.Paragraph | md.Heading, children: tuple[md.Inline, ...]) -> Blocks:
    return (replace(block, children=children),) if children else ()


def _code(block: md.CodeBlock, text: str) -> Blocks:
    return (md.CodeBlock(lang=block.lang, text=text),) if text.strip() else ()


def _quote(blocks: Blocks) -> Blocks:
    return (md.Quote(blocks=blocks),) if blocks else ()


def _place_in(parts: Sequence[T], at: int, size_of: Callable[[T, int], int]) -> tuple[int, int | None]:
    """Which part a place is in, and where in it; None if the place is before it, between two parts. A size
    need not be exact once it is above the number that `size_of` is given."""
    for number, part in enumerate(parts):
        size = size_of(part, at)
        if at < size:
            return number, at
        if at == size:
            return number + 1, None
        at -= size + 1
    return len(parts), None


def _cut_blocks(blocks: Blocks, at: int) -> tuple[Blocks, Blocks]:
    number, inside = _place_in(blocks, at, lambda block, enough: VisibleText.length((block,), enough))
    if inside is None:
        return blocks[:number], blocks[number:]
    head, tail = cut(blocks[number], inside)
    return (*blocks[:number], *head), (*tail, *blocks[number + 1 :])


def _cut_list(block: md.ItemList, at: int) -> tuple[Blocks, Blocks]:
    number, inside = _place_in(block.items, at, VisibleText.length)
    head, tail = ((), ()) if inside is None else _cut_blocks(block.items[number], inside)
    if not head:
        return _items(block, 0, number), _items(block, number, None)
    begun = (replace(block, items=(*block.items[:number], head)),)
    return begun, (*tail, *_items(block, number + 1, None))


def _items(block: md.ItemList, start: int, end: int | None) -> Blocks:
    items = block.items[start:end]
    number = block.start + start if block.ordered else block.start
    return (replace(block, items=items, start=number),) if items else ()


def _cut_table(block: md.Table, at: int) -> tuple[Blocks, Blocks]:
    rows = (block.header, *block.rows)
    whole, _ = _place_in(rows, at, lambda row, enough: len(_row_text(row)))
    if not whole or (whole == 1 and not any(block.header)):
        return (), (block,)
    first = replace(block, rows=block.rows[: whole - 1])
    return (first,), _rows_after(block, whole - 1)


def _rows_after(block: md.Table, number: int) -> Blocks:
    nothing: tuple[md.Cell, ...] = tuple(() for _ in block.header)
    rows = block.rows[number:]
    return (replace(block, header=nothing, rows=rows),) if rows else ()


def _cut_inlines(
    inlines: tuple[md.Inline, ...], at: int
) -> tuple[tuple[md.Inline, ...], tuple[md.Inline, ...]]:
    for number, inline in enumerate(inlines):
        size = VisibleText.length_of_inline(inline, at)
        if at >= size:
            at -= size
            continue
        before, after = inlines[:number], inlines[number + 1 :]
        match inline:
            case md.Text() | md.Code():
                head, tail = replace(inline, text=inline.text[:at]), replace(inline, text=inline.text[at:])
                return (*before, head) if at else before, (tail, *after)
            case md.Strong() | md.Emphasis() | md.Strike():
                inner, rest = _cut_inlines(inline.children, at)
                begun = (replace(inline, children=inner),) if inner else ()
                return (*before, *begun), (replace(inline, children=rest), *after)
            case md.Link() | md.Image() | md.LineBreak():
                return before, (inline, *after)
            case _:
                assert_never(inline)
    return inlines, ()


def _solid_text(inline: md.Link | md.Image) -> str:
    shown = inline.alt if isinstance(inline, md.Image) else md.visible_inlines(inline.children)
    return shown or _PLACEHOLDER


def _row_text(row: Sequence[md.Cell]) -> str:
    return "\t".join(md.visible_inlines(cell) for cell in row)


def loosened(block: md.Block) -> Blocks | None:
    """The block with less around its beginning, or None if nothing is left to take away."""
    match block:
        case md.Quote():
            return (block.blocks[0], *_quote(block.blocks[1:]))
        case md.ItemList():
            return (*block.items[0], *_items(block, 1, None))
        case md.Heading():
            return (md.Paragraph(children=block.children),)
        case md.Table():
            return _first_row_loosened(block)
        case md.CodeBlock(lang=lang) if lang:
            return (md.CodeBlock(lang="", text=block.text),)
        case md.CodeBlock():
            return md.plain_blocks(block.text)
        case md.Paragraph():
            first = _inline_loosened(block.children[0])
            return (
                None
                if first is None
                else _filled(block, md.trimmed(md.joined((*first, *block.children[1:]))))
            )
        case md.Rule():
            return ()


def _first_row_loosened(table: md.Table) -> Blocks:
    has_header = any(table.header)
    row = table.header if has_header or not table.rows else table.rows[0]
    cells = tuple(md.Paragraph(children=cell) for cell in row if cell)
    return (*cells, *_rows_after(table, 0 if has_header else 1))


def _inline_loosened(inline: md.Inline) -> tuple[md.Inline, ...] | None:
    match inline:
        case md.Strong() | md.Emphasis() | md.Strike():
            first, *rest = inline.children
            return (first, replace(inline, children=tuple(rest))) if rest else (first,)
        case md.Code():
            return (md.Text(text=inline.text),)
        case md.Link() | md.Image():
            return (md.Text(text=md.visible_inlines((inline,))),)
        case md.Text():
            return None
        case md.LineBreak():
            return ()
