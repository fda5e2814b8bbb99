"""Parts of a text as messages: cut to a platform's limit, kept with their print, and queued as outbox rows.

A part keeps its Markdown for hooks, reports and later changes, and its print for the adapter, so a text is
parsed once between its author and the platform."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from hermes.domain.address import Address
from hermes.domain.capabilities import Capabilities
from hermes.domain.ids import TurnId
from hermes.domain.message import Body, PrintedText
from hermes.domain.rows import OutboxRow
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


def outbox_rows(
    bodies: Iterable[Body],
    *,
    key: str,
    to: Address,
    now: datetime,
    reply_to: str | None = None,
    turn: TurnId | None = None,
    first: int = 0,
) -> tuple[OutboxRow, ...]:
    """One row per body, in order, with numbered keys. Those of a turn are its parts from `first` on."""
    return tuple(
        OutboxRow(
            key=f"{key}:{number}",
            to=to,
            body=body,
            created_at=now,
            turn=turn,
            part=0 if turn is None else number,
            reply_to=reply_to if number == first else None,
        )
        for number, body in enumerate(bodies, first)
    )
