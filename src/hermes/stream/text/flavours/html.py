"""Prints HTML: ordinary for mail and Matrix, and the few tags that Telegram's bot interface allows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import ClassVar

from hermes.stream.text import markdown as md
from hermes.stream.text.flavours.plain import PlainPrinter, without_strong


class _TagPrinter(PlainPrinter):
    def text(self, text: str) -> str:
        return escape(text, quote=False)

    def code(self, text: str) -> str:
        return f"<code>{escape(text, quote=False)}</code>"

    def link(self, node: md.Link) -> str:
        return f'<a href="{escape(node.url)}">{self.inlines(node.children)}</a>'


class HtmlPrinter(_TagPrinter):
    gap = "\n"
    rule_line = "<hr>"
    styles: ClassVar = {
        md.Strong: ("<strong>", "</strong>"),
        md.Emphasis: ("<em>", "</em>"),
        md.Strike: ("<del>", "</del>"),
    }

    def line_break(self, node: md.LineBreak) -> str:
        return "<br>"

    def paragraph(self, node: md.Paragraph) -> str:
        return f"<p>{self.inlines(node.children)}</p>"

    def heading(self, node: md.Heading) -> str:
        return f"<h{node.level}>{self.inlines(node.children)}</h{node.level}>"

    def code_block(self, node: md.CodeBlock) -> str:
        lang = f' class="language-{escape(node.lang)}"' if node.lang else ""
        return f"<pre><code{lang}>{escape(node.text, quote=False)}</code></pre>"

    def quote(self, node: md.Quote) -> str:
        return f"<blockquote>{self.document(node.blocks)}</blockquote>"

    def item_list(self, node: md.ItemList) -> str:
        items = "".join(self.list_item(item, tight=node.tight) for item in node.items)
        if not node.ordered:
            return f"<ul>{items}</ul>"
        start = "" if node.start == 1 else f' start="{node.start}"'
        return f"<ol{start}>{items}</ol>"

    def list_item(self, blocks: Sequence[md.Block], *, tight: bool) -> str:
        if not tight:
            return f"<li>{self.document(blocks)}</li>"
        inner = self.gap.join(
            self.inlines(block.children) if isinstance(block, md.Paragraph) else self.block(block)
            for block in blocks
        )
        return f"<li>{inner}</li>"

    def table(self, node: md.Table) -> str:
        header = self.row(node.header, "th") if any(node.header) else ""
        body = "".join(self.row(row, "td") for row in node.rows)
        return f"<table>{header}{body}</table>"

    def row(self, cells: Sequence[md.Cell], tag: str) -> str:
        printed = "".join(f"<{tag}>{self.inlines(cell)}</{tag}>" for cell in cells)
        return f"<tr>{printed}</tr>"


class TelegramPrinter(_TagPrinter):
    styles: ClassVar = {md.Strong: ("<b>", "</b>"), md.Emphasis: ("<i>", "</i>"), md.Strike: ("<s>", "</s>")}

    def heading(self, node: md.Heading) -> str:
        return f"<b>{self.inlines(without_strong(node.children))}</b>"

    def code_block(self, node: md.CodeBlock) -> str:
        text = escape(node.text, quote=False)
        if not node.lang:
            return f"<pre>{text}</pre>"
        return f'<pre><code class="language-{escape(node.lang)}">{text}</code></pre>'

    def quote(self, node: md.Quote) -> str:
        # Telegram refuses a quote inside a quote; lists may bring one in, so the tags are removed as text.
        inner = self.document(node.blocks).replace("<blockquote>", "").replace("</blockquote>", "")
        return f"<blockquote>{inner}</blockquote>"
