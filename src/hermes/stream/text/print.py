"""Prints a markdown tree in the markup of a platform. What each flavour looks like is in `flavours/`."""

from __future__ import annotations

from functools import cache
from typing import assert_never

from hermes.domain.capabilities import Flavour
from hermes.stream.text.flavours.plain import PlainPrinter
from hermes.stream.text.markdown import Document


def print_markdown(doc: Document, flavour: Flavour) -> str:
    """The document as text that the platform shows as its author meant it."""
    return printer(flavour).document(doc.blocks)


@cache
def printer(flavour: Flavour) -> PlainPrinter:
    """The printer of a flavour; each is imported when it is first used."""
    match flavour:
        case Flavour.PLAIN:
            return PlainPrinter()
        case Flavour.COMMONMARK:
            from hermes.stream.text.flavours.commonmark import CommonmarkPrinter

            return CommonmarkPrinter()
        case Flavour.DISCORD:
            from hermes.stream.text.flavours.discord import DiscordPrinter

            return DiscordPrinter()
        case Flavour.TELEGRAM_HTML:
            from hermes.stream.text.flavours.telegram import TelegramPrinter

            return TelegramPrinter()
        case Flavour.SLACK_MRKDWN:
            from hermes.stream.text.flavours.slack import SlackPrinter

            return SlackPrinter()
        case Flavour.WHATSAPP:
            from hermes.stream.text.flavours.whatsapp import WhatsAppPrinter

            return WhatsAppPrinter()
        case Flavour.HTML:
            from hermes.stream.text.flavours.html import HtmlPrinter

            return HtmlPrinter()
        case _:
            assert_never(flavour)
