"""Prints Slack's mrkdwn."""

from __future__ import annotations

from html import escape

from hermes.stream.text.flavours.marks import MarksPrinter
from hermes.stream.text.flavours.plain import fenced
from hermes.stream.text.markdown import CodeBlock, Link, visible_inlines


class SlackPrinter(MarksPrinter):
    def text(self, text: str) -> str:
        return escape(super().text(text), quote=False)

    def code(self, text: str) -> str:
        return self.text(text) if "`" in text else f"`{escape(text, quote=False)}`"

    def link(self, node: Link) -> str:
        url = escape(node.url, quote=False)
        label = visible_inlines(node.children)
        return f"<{url}>" if label == node.url else f"<{url}|{self.text(label)}>"

    def code_block(self, node: CodeBlock) -> str:
        return escape(fenced(node.text), quote=False)
