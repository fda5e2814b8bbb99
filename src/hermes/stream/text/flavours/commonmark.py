"""Prints CommonMark (with tables and strikethrough) that reads back into the very same tree.

The splitter stores what this prints, so exactness comes before beauty: styles are read back, and printed
without marks in the rare case that no marks give them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from hermes.stream.text.flavours.plain import MAX_NUMBER, PlainPrinter, prefixed
from hermes.stream.text.markdown import (
    Align,
    Block,
    Cell,
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
    Strike,
    Strong,
    Style,
    Table,
    Text,
    joined,
    without_styles,
)

_MARKUP = re.compile(
    r"[\\*`\[\]]"
    r"|(?<![^\W_])_+|_+(?![^\W_])"
    r"|^~|~$|~(?=~)|(?<=~)~"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#|\w+;)"
)
_LINE_START = re.compile(r"^([-+>#=|]|:(?=-)|\d{1,9}(?=[.)]))", re.MULTILINE)
_LINE_EDGES = re.compile(r"^[^\S\n]+|[^\S\n]+$", re.MULTILINE)
_ENTITY = re.compile(r"&(?=#|\w+;)")
_TICKS = re.compile("`+")
_DELIMITERS = {Align.NONE: "---", Align.LEFT: ":--", Align.CENTER: ":-:", Align.RIGHT: "--:"}


class CommonmarkPrinter(PlainPrinter):
    rule_line = "***"
    indents_code = True

    def __init__(self, emphasis_mark: str = "*", bullet: str = "-", dot: str = ".") -> None:
        self._emphasis_mark = emphasis_mark
        self.bullet = bullet
        self._dot = dot

    def document(self, blocks: Sequence[Block]) -> str:
        return self.gap.join(self._siblings(blocks))

    def _siblings(self, blocks: Sequence[Block]) -> list[str]:
        """The printed blocks; of two lists in a row the second has other markers, or they would be one."""
        printed: list[str] = []
        other = False
        before: Block | None = None
        for block in blocks:
            after_list = isinstance(block, ItemList) and isinstance(before, ItemList)
            other = after_list and not other
            printed.append((_OTHER_LISTS if other else _LISTS).block(block))
            before = block
        return printed

    def text(self, text: str) -> str:
        return _MARKUP.sub(_escaped, text)

    def strong(self, node: Strong) -> str:
        return f"**{self.inlines(node.children)}**"

    def emphasis(self, node: Emphasis) -> str:
        return f"{self._emphasis_mark}{self.inlines(node.children)}{self._emphasis_mark}"

    def strike(self, node: Strike) -> str:
        return f"~~{self.inlines(node.children)}~~"

    def code(self, text: str) -> str:
        longest = max(map(len, _TICKS.findall(text)), default=0)
        ticks = next("`" * size for size in range(1, longest + 2) if size not in _runs(text))
        needs_pad = text[0] == "`" or text[-1] == "`" or (text[0] == text[-1] == " " and text.strip(" "))
        pad = " " if needs_pad else ""
        return f"{ticks}{pad}{text}{pad}{ticks}"

    def link(self, node: Link) -> str:
        if node.children == (Text(text=node.url),) and "mailto:" not in node.url:
            return f"<{node.url}>"
        return f"[{self.inlines(node.children)}]({_target(node.url)})"

    def inline(self, inline: Inline) -> str:
        if isinstance(inline, Image):
            return f"![{self.text(inline.alt)}]({_target(inline.url)})"
        return super().inline(inline)

    def line_break(self, node: LineBreak) -> str:
        return "\\\n" if node.hard else "\n"

    def inlines(self, inlines: Sequence[Inline]) -> str:
        parts: list[str] = []
        for inline in inlines:
            if isinstance(inline, Link) and parts and parts[-1].endswith("!"):
                parts[-1] = parts[-1][:-1] + "\\!"
            parts.append(self.inline(inline))
        return "".join(parts)

    def paragraph(self, node: Paragraph) -> str:
        lines = _LINE_EDGES.sub(_as_entities, self._exact(node.children))
        return _LINE_START.sub(_line_start, lines)

    def heading(self, node: Heading) -> str:
        text = _LINE_EDGES.sub(_as_entities, self._exact(node.children))
        return f"{'#' * node.level} {text[:-1]}\\#" if text.endswith("#") else f"{'#' * node.level} {text}"

    def _exact(self, inlines: tuple[Inline, ...]) -> str:
        if not any(isinstance(inline, Style | Link) for inline in inlines):
            return self.inlines(inlines)
        printed = self._read_back(inlines)
        if printed is None:
            # Perhaps only some of the styles are at fault, and the others can stay.
            sound = ((i,) if self._read_back((i,)) is not None else without_styles((i,)) for i in inlines)
            printed = self._read_back(joined(tuple(chain.from_iterable(sound))))
        return self.inlines(joined(without_styles(inlines))) if printed is None else printed

    def _read_back(self, inlines: tuple[Inline, ...]) -> str | None:
        from hermes.stream.text.reader import read_inlines

        for printer in (self, _UNDERSCORES):
            printed = printer.inlines(inlines)
            if read_inlines(printed) == inlines:
                return printed
        return None

    def code_block(self, node: CodeBlock) -> str:
        longest = max(map(len, _TICKS.findall(node.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{node.lang}\n{node.text}\n{fence}" if node.text else f"{fence}{node.lang}\n{fence}"

    def quote(self, node: Quote) -> str:
        return prefixed(self.document(node.blocks), "> ")

    def marker(self, node: ItemList, number: int) -> str:
        return f"{min(number, MAX_NUMBER)}{self._dot}" if node.ordered else self.bullet

    def item(self, blocks: Sequence[Block], marker: str, *, tight: bool) -> str:
        if not blocks:
            return marker
        indent = " " * (len(marker) + 1)
        body = ("\n" if tight else self.gap).join(self._siblings(blocks))
        return marker + prefixed(body, indent)[len(marker) :]

    def table(self, node: Table) -> str:
        delimiters = "|".join(_DELIMITERS[align] for align in node.aligns)
        rows = (self._row(node.header), f"|{delimiters}|", *map(self._row, node.rows))
        return "\n".join(rows)

    def _row(self, cells: Sequence[Cell]) -> str:
        printed = (_LINE_EDGES.sub(_as_entities, self._exact(cell)).replace("|", "\\|") for cell in cells)
        return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in printed)}|"


_UNDERSCORES = CommonmarkPrinter(emphasis_mark="_")
_LISTS = CommonmarkPrinter()
_OTHER_LISTS = CommonmarkPrinter(bullet="+", dot=")")


def _escaped(found: re.Match[str]) -> str:
    return "".join("\\" + char for char in found[0])


def _line_start(found: re.Match[str]) -> str:
    return found[0] + "\\" if found[0].isdigit() else "\\" + found[0]


def _as_entities(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(char)};" for char in found[0])


def _runs(text: str) -> set[int]:
    return set(map(len, _TICKS.findall(text)))


def _target(url: str) -> str:
    url = _ENTITY.sub("&amp;", url)
    return f"<{url}>" if "(" in url or ")" in url else url
