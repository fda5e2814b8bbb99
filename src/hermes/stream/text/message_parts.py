"""Parts of a text as messages: cut to a platform's limit and kept with their print.

A part keeps its Markdown for hooks, reports and later changes, and its print for the adapter, so a text is
parsed once between its author and the platform."""

from __future__ import annotations

from hermes.domain.capabilities import Capabilities
from hermes.domain.message import Body, PrintedText
from hermes.stream.text.markdown import parse
from hermes.stream.text.print import print_markdown
from hermes.stream.text.split import split


def cut_text(text: str, able: Capabilities, limit: int | None = None) -> list[Body]:
    """A Markdown text in parts that each fit into one message; none if there is nothing to show."""
    limit = able.max_text if limit is None else limit
    parts = split(text, limit=limit, unit=able.unit, flavour=able.flavour)
    return [
        Body(text=part.text, printed=PrintedText(text=part.printed, flavour=able.flavour, limit=limit))
        for part in parts
    ]


def for_adapter(body: Body, able: Capabilities) -> Body:
    """The body with its text printed for the platform. The stored print is used if it was made for this
    flavour and fits; a text that was changed since, or stored by an older version, has none."""
    printed = body.printed
    if printed is None or printed.flavour != able.flavour or printed.limit > able.max_text:
        return body.with_text(print_markdown(parse(body.text), able.flavour))
    return body.with_text(printed.text)
