"""Prints Discord's markdown: three heading levels, no tables, no nested quotes, links only to the web."""

from __future__ import annotations

import re
from typing import ClassVar

from hermes.stream.text import markdown as md
from hermes.stream.text.flavours.plain import PlainPrinter, fenced, without_strong

# A bare address is left as it is: Discord links it and would show the backslashes.
_MARKUP = re.compile(
    r"https?://[^\s<>]+"
    r"|[\\*`\[\]]"
    r"|(?<![^\W_])_|_(?![^\W_])"
    r"|~(?=~)|(?<=~)~|\|(?=\|)|(?<=\|)\|"
    r"|<(?=[@#:/ait])"
)
_LINE_START = re.compile(r"^(\s*)(?=[-+>#]|\d+[.)] )(\d*)", re.MULTILINE)
_PARENTHESES = str.maketrans({"(": "%28", ")": "%29"})


class DiscordPrinter(PlainPrinter):
    bullet = "-"
    styles: ClassVar = {md.Strong: ("**", "**"), md.Emphasis: ("*", "*"), md.Strike: ("~~", "~~")}

    def text(self, text: str) -> str:
        return _MARKUP.sub(lambda match: match[0] if len(match[0]) > 1 else "\\" + match[0], text)

    def code(self, text: str) -> str:
        return f"`` {text} ``" if "`" in text else f"`{text}`"

    def link(self, node: md.Link) -> str:
        label = md.visible_inlines(node.children)
        if label == node.url:
            return node.url
        if not node.url.startswith(("http://", "https://")):
            return self.text(md.label_and_url(label, node.url))
        return f"[{self.inlines(node.children)}]({node.url.translate(_PARENTHESES)})"

    def paragraph(self, node: md.Paragraph) -> str:
        return _LINE_START.sub(r"\1\2\\", self.inlines(node.children))

    def heading(self, node: md.Heading) -> str:
        if node.level > 3:
            return f"**{self.inlines(without_strong(node.children))}**"
        return f"{'#' * node.level} {self.inlines(node.children)}"

    def code_block(self, node: md.CodeBlock) -> str:
        return fenced(node.text, node.lang)

    def quote(self, node: md.Quote) -> str:
        return self.flat_quote(node)
