"""Prints CommonMark with tables and strikethrough, for platforms that read it and for parts of a cut text.

Marks of a style work only beside certain characters. Where they would not, the style is printed without them,
so a reader never sees a stray mark.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, count

from hermes.stream.text import markdown as md
from hermes.stream.text.flavours.plain import MAX_NUMBER, PlainPrinter, prefixed

_MARKUP = re.compile(
    r"[\\*`\[\]]"
    r"|(?<![^\W_])_+|_+(?![^\W_])"
    r"|^~|~$|~(?=~)|(?<=~)~"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#|\w+;)"
)
_LINE_START = re.compile(r"^([-+>#=|]|:(?=-)|\d{1,9}(?=[.)]))", re.MULTILINE)
_LINE_EDGES = re.compile(r"^[^\S\n]+|(?<![^\S\n])[^\S\n]+$", re.MULTILINE)
_ENTITY = re.compile(r"&(?=#|\w+;)")
_TICKS = re.compile("`+")
_DELIMITERS = {md.Align.NONE: "---", md.Align.LEFT: ":--", md.Align.CENTER: ":-:", md.Align.RIGHT: "--:"}

_STYLE_MARKS: dict[type[md.Style], tuple[str, ...]] = {
    md.Strong: ("**",),
    md.Emphasis: ("*", "_"),
    md.Strike: ("~~",),
}


class CommonmarkPrinter(PlainPrinter):
    rule_line = "***"
    indents_code = True

    def __init__(self, bullet: str = "-", dot: str = ".") -> None:
        self.bullet = bullet
        self._dot = dot

    def document(self, blocks: Sequence[md.Block]) -> str:
        return self.gap.join(self._siblings(blocks))

    def _siblings(self, blocks: Sequence[md.Block], *, in_item: bool = False) -> list[str]:
        """The printed blocks. Of two lists in a row the second has other markers, or they would be one; so
        has a list that begins an item, or a row of markers could be a rule."""
        printed: list[str] = []
        other = False
        before: md.Block | None = None
        for block in blocks:
            if in_item and before is None:
                other = isinstance(block, md.ItemList) and self.bullet == _LISTS.bullet
            else:
                other = isinstance(block, md.ItemList) and isinstance(before, md.ItemList) and not other
            printed.append((_OTHER_LISTS if other else _LISTS).block(block))
            before = block
        return printed

    def text(self, text: str) -> str:
        return _MARKUP.sub(_escaped, text)

    def code(self, text: str) -> str:
        runs = set(map(len, _TICKS.findall(text)))
        ticks = next("`" * size for size in count(1) if size not in runs)
        needs_pad = text[0] == "`" or text[-1] == "`" or (text[0] == text[-1] == " " and text.strip(" "))
        pad = " " if needs_pad else ""
        return f"{ticks}{pad}{text}{pad}{ticks}"

    def link(self, node: md.Link) -> str:
        if node.children == (md.Text(text=node.url),) and "mailto:" not in node.url:
            return f"<{node.url}>"
        return f"[{self.inlines(node.children)}]({_target(node.url)})"

    def inline(self, inline: md.Inline) -> str:
        if isinstance(inline, md.Image):
            return f"![{self.text(inline.alt)}]({_target(inline.url)})"
        return super().inline(inline)

    def line_break(self, node: md.LineBreak) -> str:
        return "\\\n" if node.hard else "\n"

    def inlines(self, inlines: Sequence[md.Inline]) -> str:
        return self._between("", inlines, "")

    def _between(self, before: str, inlines: Sequence[md.Inline], after: str) -> str:
        """Print siblings that stand between these two characters; none stands for the end of a line."""
        parts: list[str] = []
        for place, inline in enumerate(inlines):
            left = parts[-1][-1:] if parts else before
            match inline:
                case md.Strong() | md.Emphasis() | md.Strike():
                    right = _first_char(inlines[place + 1]) if place + 1 < len(inlines) else after
                    styled = self._styled(left, inline, right)
                    if styled is None and place and isinstance(inlines[place - 1], md.Style):
                        # The style before it counts on a mark here, so none of them has marks.
                        bare = (i.children if isinstance(i, md.Style) else (i,) for i in inlines)
                        return self._between(before, tuple(chain.from_iterable(bare)), after)
                    parts.append(self._between(left, inline.children, right) if styled is None else styled)
                case md.Code() if place and isinstance(inlines[place - 1], md.Code):
                    parts.append(self.text(inline.text))  # side by side, their ticks would be one run
                case md.Link() if left == "!":
                    parts[-1] = parts[-1][:-1] + "\\!"
                    parts.append(self.link(inline))
                case _:
                    parts.append(self.inline(inline))
        return "".join(parts)

    def _styled(self, before: str, node: md.Style, after: str) -> str | None:
        """The style with its marks; None if no marks work between these characters."""
        for mark in _STYLE_MARKS[type(node)]:
            inner = self._between(mark[0], node.children, mark[0])
            if not (_marks_work(before, inner[:1]) and _marks_work(after, inner[-1:])):
                continue
            # A single star is not told from the stars beside it; underscores do nothing inside of a word.
            whole_strong = len(node.children) == 1 and isinstance(node.children[0], md.Strong)
            beside = (before, after) if whole_strong else (before, after, inner[:1], inner[-1:])
            if mark == "*" and "*" in beside:
                continue
            if mark == "_" and ("_" in beside or not (_is_boundary(before) and _is_boundary(after))):
                continue
            return f"{mark}{inner}{mark}"
        return None

    def paragraph(self, node: md.Paragraph) -> str:
        lines = _LINE_EDGES.sub(_as_entities, self.inlines(node.children))
        return _LINE_START.sub(_line_start, lines)

    def heading(self, node: md.Heading) -> str:
        text = _LINE_EDGES.sub(_as_entities, self.inlines(node.children))
        return f"{'#' * node.level} {text[:-1]}\\#" if text.endswith("#") else f"{'#' * node.level} {text}"

    def code_block(self, node: md.CodeBlock) -> str:
        longest = max(map(len, _TICKS.findall(node.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{node.lang}\n{node.text}\n{fence}" if node.text else f"{fence}{node.lang}\n{fence}"

    def quote(self, node: md.Quote) -> str:
        return prefixed(self.document(node.blocks), "> ")

    def marker(self, node: md.ItemList, number: int) -> str:
        return f"{min(number, MAX_NUMBER)}{self._dot}" if node.ordered else self.bullet

    def item(self, blocks: Sequence[md.Block], marker: str, *, tight: bool) -> str:
        if not blocks:
            return marker
        indent = " " * (len(marker) + 1)
        # A list whose first item is empty does not end the paragraph above it.
        runs_on = any(isinstance(block, md.ItemList) and not block.items[0] for block in blocks[1:])
        between = "\n" if tight and not runs_on else self.gap
        body = between.join(self._siblings(blocks, in_item=True))
        return marker + prefixed(body, indent)[len(marker) :]

    def table(self, node: md.Table) -> str:
        delimiters = "|".join(_DELIMITERS[align] for align in node.aligns)
        rows = (self._row(node.header), f"|{delimiters}|", *map(self._row, node.rows))
        return "\n".join(rows)

    def _row(self, cells: Sequence[md.Cell]) -> str:
        printed = (_LINE_EDGES.sub(_as_entities, self.inlines(cell)).replace("|", "\\|") for cell in cells)
        return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in printed)}|"


_LISTS = CommonmarkPrinter()
_OTHER_LISTS = CommonmarkPrinter(bullet="+", dot=")")


def _first_char(inline: md.Inline) -> str:
    """The first character of an inline as it is printed, or another one of the same sort."""
    match inline:
        case md.Text():
            return inline.text[:1]
        case md.Strong() | md.Emphasis() | md.Strike():
            return _STYLE_MARKS[type(inline)][0][0]
        case md.LineBreak():
            return "\n"
        case _:
            return "["


def _marks_work(outside: str, inside: str) -> bool:
    """Whether a mark between these two begins or ends a style."""
    if not inside.strip():
        return False
    return inside.isalnum() or unicodedata.category(inside)[0] == "M" or _is_boundary(outside)


def _is_boundary(char: str) -> bool:
    return not char.strip() or (char.isascii() and not char.isalnum()) or unicodedata.category(char)[0] == "P"


def _escaped(match: re.Match[str]) -> str:
    return "".join("\\" + char for char in match[0])


def _line_start(match: re.Match[str]) -> str:
    return match[0] + "\\" if match[0].isdigit() else "\\" + match[0]


def _as_entities(match: re.Match[str]) -> str:
    return "".join(f"&#{ord(char)};" for char in match[0])


def _target(url: str) -> str:
    url = _ENTITY.sub("&amp;", url)
    return f"<{url}>" if "(" in url or ")" in url else url
