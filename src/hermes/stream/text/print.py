"""Prints a markdown tree in the markup of a platform. What each flavour looks like is in `flavours/`."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from hermes.domain.chats.capabilities import Capabilities, Flavour
from hermes.domain.chats.message import Body
from hermes.stream.text.flavours.plain import PlainPrinter
from hermes.stream.text.markdown import Document, parse

_PRINTERS = {
    Flavour.PLAIN: ("plain", "PlainPrinter"),
    Flavour.COMMONMARK: ("commonmark", "CommonmarkPrinter"),
    Flavour.DISCORD: ("discord", "DiscordPrinter"),
    Flavour.TELEGRAM_HTML: ("html", "TelegramPrinter"),
    Flavour.SLACK_MRKDWN: ("marks", "SlackPrinter"),
    Flavour.WHATSAPP: ("marks", "WhatsAppPrinter"),
    Flavour.HTML: ("html", "HtmlPrinter"),
}


def print_markdown(doc: Document, flavour: Flavour) -> str:
    """The document as text that the platform shows as its author meant it."""
    return printer(flavour).document(doc.blocks)


@cache
def printer(flavour: Flavour) -> PlainPrinter:
    """The printer of a flavour; each is imported when it is first used."""
    module, name = _PRINTERS[flavour]
    made: PlainPrinter = getattr(import_module(f"hermes.stream.text.flavours.{module}"), name)()
    return made


def for_adapter(body: Body, able: Capabilities) -> Body:
    """The body with its text printed for the platform. The stored print is used if it was made for this
    flavour and fits; a text that was changed since, or stored by an older version, has none."""
    printed = body.printed
    if printed is None or printed.flavour != able.flavour or printed.limit > able.max_text:
        return body.with_text(print_markdown(parse(body.text), able.flavour))
    return body.with_text(printed.text)
