"""Notices: messages of the gateway's own, such as that one could not be delivered. Each is sent once."""

from __future__ import annotations

from datetime import datetime

from hermes.control.outbound.outgoing_files import name_files
from hermes.control.outbound.targets import home_channel
from hermes.control.outbound.topics import lane_of, real_place
from hermes.domain.address import Address
from hermes.domain.message import Body
from hermes.domain.ports.store import Tx
from hermes.domain.rows import OutboxRow
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line

_UNSENT_FILES = "unsent:"
_REPORT = "report:"
_SHOWN = 120


def notify(tx: Tx, key: str, to: Address, text: str, now: datetime, reply_to: str | None = None) -> bool:
    """Queue a notice, once for this key; False if that was done before."""
    if tx.outbox.get(key) is not None:
        return False
    tx.outbox.add(OutboxRow(key=key, to=to, body=Body(text=text), created_at=now, reply_to=reply_to))
    return True


def report_undelivered(tx: Tx, row: OutboxRow, settings: Settings, now: datetime) -> Address | None:
    """Tell the operator once, in the home channel, that a row was given up; where that will be read. The chat
    itself is not shut out: the next message to it is tried as any other."""
    files = name_files(row.body.attachments)
    if files and not row.body.text:
        # Whoever waits in the chat for files that came without words hears of it there.
        text = f"📎 {files} could not be sent: {one_line(row.error, _SHOWN)}"
        notify(tx, _UNSENT_FILES + row.key, row.to, text, now)
    home = home_channel(tx, settings, row.to)
    home = None if home is None else lane_of(tx, home)
    if home is None or home in (row.to, real_place(tx, row.to)) or row.key.startswith(_REPORT):
        return None
    quoted = "(not kept)" if row.body.fleeting else one_line(row.body.text or files, _SHOWN)
    text = f"⚠️ A message to {row.to} could not be delivered ({row.error}): {quoted}"
    return home if notify(tx, _REPORT + row.key, home, text, now) else None


def is_missed(row: OutboxRow) -> bool:
    """Whether somebody misses a row that is given up: not if it is a finishing touch, or tells of files whose
    loss is reported anyway."""
    says_something = bool(row.body.text or row.body.attachments)
    return says_something and row.body.replaces is None and not row.key.startswith(_UNSENT_FILES)
