"""Prints the tree as one reads it aloud: no marks, no code, no addresses."""

from __future__ import annotations

from hermes.stream.text import markdown as md
from hermes.stream.text.flavours.plain import PlainPrinter


class SpeechPrinter(PlainPrinter):
    rule_line = ""

    def link(self, node: md.Link) -> str:
        label = md.visible_inlines(node.children)
        return "" if label == node.url else label

    def code_block(self, node: md.CodeBlock) -> str:
        return ""

    def table(self, node: md.Table) -> str:
        rows = [[md.visible_inlines(cell) for cell in row] for row in node.rows]
        return "\n".join(", ".join(filter(None, row)) for row in rows)

    def quote(self, node: md.Quote) -> str:
        return self.document(node.blocks)

    def marker(self, node: md.ItemList, number: int) -> str:
        return f"{number}." if node.ordered else ""
