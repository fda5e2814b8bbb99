"""Prints the tree as plain text, and is the walk that every other flavour refines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from hermes.domain.text import width
from hermes.stream.text import markdown as md

MAX_NUMBER = 999_999_999
# Wider cells of a table stick out instead of padding every other row to their width.
MAX_WIDTH = 32


class PlainPrinter:
    """Each method prints one kind of node. Blocks are printed alone and joined with `gap`, so that the
    length of a document is the sum of its blocks and gaps; the splitter relies on it."""

    gap = "\n\n"
    bullet = "•"
    rule_line = "———"
    styles: ClassVar[Mapping[type[md.Style], tuple[str, str]]] = {}
    """What stands before and after a style."""
    indents_code = False

    def document(self, blocks: Sequence[md.Block]) -> str:
        return self.gap.join(map(self.block, blocks))

    def block(self, block: md.Block) -> str:
        match block:
            case md.Paragraph():
                return self.paragraph(block)
            case md.Heading():
                return self.heading(block)
            case md.CodeBlock():
                return self.code_block(block)
            case md.Quote():
                return self.quote(block)
            case md.ItemList():
                return self.item_list(block)
            case md.Table():
                return self.table(block)
            case md.Rule():
                return self.rule_line

    def inline(self, inline: md.Inline) -> str:
        match inline:
            case md.Text():
                return self.text(inline.text)
            case md.Strong() | md.Emphasis() | md.Strike():
                return self.style(inline)
            case md.Code():
                return self.code(inline.text)
            case md.Link():
                return self.link(inline)
            case md.Image():
                return self.link(md.Link(url=inline.url, children=(md.Text(text=inline.alt or inline.url),)))
            case md.LineBreak():
                return self.line_break(inline)

    def inlines(self, inlines: Sequence[md.Inline]) -> str:
        return "".join(map(self.inline, inlines))

    def text(self, text: str) -> str:
        return text

    def style(self, node: md.Style) -> str:
        before, after = self.styles.get(type(node), ("", ""))
        return f"{before}{self.inlines(node.children)}{after}"

    def code(self, text: str) -> str:
        return text

    def link(self, node: md.Link) -> str:
        return self.text(md.label_and_url(md.visible_inlines(node.children), node.url))

    def line_break(self, node: md.LineBreak) -> str:
        return "\n"

    def paragraph(self, node: md.Paragraph) -> str:
        return self.inlines(node.children)

    def heading(self, node: md.Heading) -> str:
        return self.inlines(node.children)

    def code_block(self, node: md.CodeBlock) -> str:
        return node.text

    def quote(self, node: md.Quote) -> str:
        return prefixed(self.document(node.blocks), "> ")

    def flat_quote(self, node: md.Quote) -> str:
        """For platforms that have no quotes within quotes."""
        inner = (
            self.document(block.blocks) if isinstance(block, md.Quote) else self.block(block)
            for block in node.blocks
        )
        return prefixed(self.gap.join(inner), "> ")

    def table(self, node: md.Table) -> str:
        return self.code_block(md.CodeBlock(lang="", text=_aligned(node)))

    def item_list(self, node: md.ItemList) -> str:
        items = (
            self.item(blocks, self.marker(node, number), tight=node.tight)
            for number, blocks in enumerate(node.items, node.start)
        )
        return ("\n" if node.tight else self.gap).join(items)

    def marker(self, node: md.ItemList, number: int) -> str:
        return f"{min(number, MAX_NUMBER)}." if node.ordered else self.bullet

    def item(self, blocks: Sequence[md.Block], marker: str, *, tight: bool) -> str:
        if not blocks:
            return marker
        indent = " " * (len(marker) + 1)
        printed = [self.item_block(block, indent) for block in blocks]
        first = printed[0]
        # Code that stands at the margin cannot share the line of its bullet.
        printed[0] = marker + first[len(marker) :] if first.startswith(indent) else f"{marker}\n{first}"
        return ("\n" if tight else self.gap).join(printed)

    def item_block(self, block: md.Block, indent: str) -> str:
        text = self.block(block)
        if isinstance(block, md.CodeBlock | md.Table) and not self.indents_code:
            return text
        return prefixed(text, indent)


def prefixed(text: str, prefix: str) -> str:
    """The text with the prefix before each line, without blanks at the ends of empty lines."""
    bare = prefix.rstrip()
    return "\n".join(prefix + line if line else bare for line in text.split("\n"))


def without_strong(inlines: Sequence[md.Inline]) -> tuple[md.Inline, ...]:
    """The inlines for a place that is bold already."""
    plain: list[md.Inline] = []
    for inline in inlines:
        if isinstance(inline, md.Strong):
            plain.extend(without_strong(inline.children))
        elif isinstance(inline, md.Style):
            plain.append(type(inline)(children=without_strong(inline.children)))
        else:
            plain.append(inline)
    return tuple(plain)


def fenced(text: str, lang: str = "") -> str:
    """A fenced block for platforms that know only a fence of three backticks."""
    apart = text.replace("```", "`\u200b`\u200b`")
    return f"```{lang}\n{apart}\n```"


def _aligned(table: md.Table) -> str:
    """A table in columns, for platforms that have none; the header, unless it is empty, is underlined."""
    header = [md.visible_inlines(cell) for cell in table.header]
    rows = [[md.visible_inlines(cell) for cell in row] for row in table.rows]
    shown = [header, *rows] if any(header) else rows
    widths = [min(MAX_WIDTH, max(map(width, column), default=0)) for column in zip(*shown, strict=True)]
    lines = [_line(row, widths, table.aligns) for row in shown]
    if any(header):
        lines.insert(1, "-+-".join("-" * size for size in widths))
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int], aligns: Sequence[md.Align]) -> str:
    cells = zip(row, widths, aligns, strict=True)
    return " | ".join(_padded(text, size, align) for text, size, align in cells).rstrip()


def _padded(text: str, size: int, align: md.Align) -> str:
    missing = max(0, size - width(text))
    match align:
        case md.Align.RIGHT:
            return " " * missing + text
        case md.Align.CENTER:
            return " " * (missing // 2) + text + " " * (missing - missing // 2)
        case md.Align.LEFT | md.Align.NONE:
            return text + " " * missing
