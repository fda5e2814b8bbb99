"""Prints WhatsApp's marks."""

from __future__ import annotations

from hermes.stream.text.flavours.marks import MarksPrinter


class WhatsAppPrinter(MarksPrinter):
    bullet = "-"

    def code(self, text: str) -> str:
        return self.text(text) if "`" in text else f"```{text}```"
