"""Prints the marks of Slack and WhatsApp. There are no escapes: an invisible blank keeps a mark literal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from hermes.stream.text import markdown as md
from hermes.stream.text.flavours.plain import PlainPrinter, fenced, without_strong

BLANK = "\u200b"
_STYLE_MARKS: dict[type[md.Style], str] = {md.Strong: "*", md.Emphasis: "_", md.Strike: "~"}

# A mark inside a word or between blanks is no markup to these platforms, nor is one inside an address.
_MARK = re.compile(r"https?://[^\s<>]+|(?<!\w)[*_~]|[*_~](?!\w)|`")
_QUOTE_START = re.compile(r"^(?=\s*(?:>|&gt;))", re.MULTILINE)


class MarksPrinter(PlainPrinter):
    """The walk for platforms that style with single marks, per line and at word boundaries only."""

    def text(self, text: str) -> str:
        return _MARK.sub(_unhinged, text)

    def style(self, node: md.Style) -> str:
        """Each line between its own marks, with the blanks at its ends outside of them."""
        mark = _STYLE_MARKS[type(node)]
        lines: list[str] = []
        for line in self.inlines(node.children).split("\n"):
            core = line.strip()
            lines.append(line.replace(core, f"{mark}{core}{mark}", 1) if core else line)
        return "\n".join(lines)

    def inlines(self, inlines: Sequence[md.Inline]) -> str:
        printed = ""
        parts: list[str] = []
        after_style = False
        for inline in inlines:
            before, printed = printed, self.inline(inline)
            is_style = isinstance(inline, md.Style)
            glued = before[-1:].isalnum() if is_style else after_style and printed[:1].isalnum()
            parts += (BLANK, printed) if glued or (is_style and after_style) else (printed,)
            after_style = is_style
        return "".join(parts)

    def paragraph(self, node: md.Paragraph) -> str:
        return _QUOTE_START.sub(BLANK, self.inlines(node.children))

    def heading(self, node: md.Heading) -> str:
        return self.style(md.Strong(children=without_strong(node.children)))

    def code_block(self, node: md.CodeBlock) -> str:
        return fenced(node.text)

    def quote(self, node: md.Quote) -> str:
        return self.flat_quote(node)


class WhatsAppPrinter(MarksPrinter):
    bullet = "-"

    def code(self, text: str) -> str:
        return self.text(text) if "`" in text else f"```{text}```"


class SlackPrinter(MarksPrinter):
    def text(self, text: str) -> str:
        return escape(super().text(text), quote=False)

    def code(self, text: str) -> str:
        return self.text(text) if "`" in text else f"`{escape(text, quote=False)}`"

    def link(self, node: md.Link) -> str:
        url = escape(node.url, quote=False)
        label = md.visible_inlines(node.children)
        return f"<{url}>" if label == node.url else f"<{url}|{self.text(label)}>"

    def code_block(self, node: md.CodeBlock) -> str:
        return escape(fenced(node.text), quote=False)


def _unhinged(match: re.Match[str]) -> str:
    mark = match[0]
    if len(mark) > 1:
        return mark
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 1]
    if before.isspace() and after.isspace():
        return mark
    return ("" if before.isspace() else BLANK) + mark + ("" if after.isspace() else BLANK)
