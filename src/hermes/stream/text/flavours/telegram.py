"""Prints the few HTML tags that Telegram's bot interface allows; everything else becomes text."""

from __future__ import annotations

from html import escape
from typing import ClassVar

from hermes.stream.text.flavours.plain import PlainPrinter, without_strong
from hermes.stream.text.markdown import CodeBlock, Emphasis, Heading, Link, Quote, Strike, Strong


class TelegramPrinter(PlainPrinter):
    styles: ClassVar = {Strong: ("<b>", "</b>"), Emphasis: ("<i>", "</i>"), Strike: ("<s>", "</s>")}

    def text(self, text: str) -> str:
        return escape(text, quote=False)

    def code(self, text: str) -> str:
        return f"<code>{escape(text, quote=False)}</code>"

    def link(self, node: Link) -> str:
        return f'<a href="{escape(node.url)}">{self.inlines(node.children)}</a>'

    def heading(self, node: Heading) -> str:
        return f"<b>{self.inlines(without_strong(node.children))}</b>"

    def code_block(self, node: CodeBlock) -> str:
        text = escape(node.text, quote=False)
        if not node.lang:
            return f"<pre>{text}</pre>"
        return f'<pre><code class="language-{escape(node.lang)}">{text}</code></pre>'

    def quote(self, node: Quote) -> str:
        # Telegram refuses a quote inside a quote; lists may bring one in, so the tags are removed as text.
        inner = self.document(node.blocks).replace("<blockquote>", "").replace("</blockquote>", "")
        return f"<blockquote>{inner}</blockquote>"
