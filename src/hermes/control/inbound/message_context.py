"""What the model is told before one message of a chat: the time, the quoted message, what others said since.

What stays the same while a session lasts is in its system prompt (`turn/chat_prompt.py`). Words of others are
data: each line begins with `>`, so that none can be mistaken for the gateway's own. Only what was said in
the very chat a message comes from is quoted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from hermes.control.turn.chat_prompt import describe_place, quote_name
from hermes.domain.chats.address import CHAT_KINDS, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound
from hermes.domain.chats.rows import OverheardMessage
from hermes.domain.clock import zone_named
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line, showable
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Guidance
from hermes.domain.word import replace

MOST_QUOTED = 500
MOST_SAID = 1000
MOST_TALK = 8000


class MessageContext(Struct, frozen=True, kw_only=True):
    """One message for a session. `fresh` says that the session was begun for it, `note` is what else the
    model has to know in this turn."""

    inbound: Inbound
    session: Session
    settings: Settings
    fresh: bool
    note: str = ""

    @property
    def guidance(self) -> Guidance:
        """What holds in this turn alone: the note, and what the operator wants said in this very channel. A
        model that was chosen in the session wins over the channel's."""
        source = self.inbound.source
        extra = self.settings.block(source.address).extra
        spots = [one for one in (source.address.chat, source.address.thread, source.parent_chat) if one]

        def first(key: str) -> str:
            found = (extra.get(key.format(spot), "") for spot in spots)
            return next(filter(None, found), "")

        words = (first("channel_overrides.{}.system_prompt"), first("channel_prompts.{}"), self.note)
        return Guidance(
            instructions="\n\n".join(part for part in words if part.strip()),
            model="" if self.session.model else first("channel_overrides.{}.model"),
        )

    def context(self, tx: Tx) -> str:
        blocks = (self._time(), self._elsewhere(), self._talk(tx), self._quote(tx))
        return "\n\n".join(block for block in blocks if block)

    def _time(self) -> str:
        if not self.settings.gateway.message_timestamps:
            return ""
        return f"[{self.inbound.at.astimezone(zone_named(self.settings.timezone)):%a %Y-%m-%d %H:%M %Z}]"

    def _elsewhere(self) -> str:
        """A session that is carried on from another chat is told so."""
        source = self.inbound.source
        if self.session.place in (None, str(source.address)) or source.kind not in CHAT_KINDS:
            return ""
        return f"[This message comes from {describe_place(source)}; the answer goes there.]"

    def _talk(self, tx: Tx) -> str:
        if self.inbound.source.kind is SourceKind.PRIVATE or not observes(self.inbound.source, self.settings):
            return ""
        since = None if self.fresh else self.session.created_at
        place = self.inbound.source.address
        if self.inbound.ref == place.thread:
            # It begins a thread, and was itself said in the chat.
            place = replace(place, thread=None)
        talk = tx.talk.take(self.session.id, place, since)
        return "\n".join(["[Said here before, and not to you:]", *_fitting(talk)]) if talk else ""

    def _quote(self, tx: Tx) -> str:
        answered = self.inbound.reply_to
        if answered is None:
            return ""
        text, mine = answered.text, answered.mine
        if not text.strip():
            text = "" if mine else _words_of(tx, self.inbound)
        if not text.strip():
            # Some platforms do not tell whose message that was.
            text = tx.talk.sent(self.inbound.source.address, answered.ref) or ""
            mine = True
        if not text.strip():
            return ""
        whose = "of yours" if mine else f"by {quote_name(answered.author or 'somebody')}"
        return "\n".join([f"[It answers this message {whose}:]", *quoted(_cut(text, MOST_QUOTED))])


def quoted(text: str) -> list[str]:
    """Words of others, each line marked."""
    return [f"> {line}" for line in showable(text).splitlines()]


def _cut(text: str, most: int) -> str:
    text = text.strip()
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _fitting(talk: Sequence[OverheardMessage]) -> list[str]:
    """The latest that fit, oldest first."""
    lines: list[str] = []
    room = MOST_TALK
    for said in reversed(talk):
        block = quoted(f"{said.author}: {said.text}")
        room -= sum(len(line) for line in block)
        if room < 0:
            break
        lines = block + lines
    return lines


def _words_of(tx: Tx, inbound: Inbound) -> str:
    """What was answered to, if it reached us, and in this very chat."""
    assert inbound.reply_to is not None
    for row in tx.inbox.find(inbound.reply_to.ref):
        said = row.inbound
        if said.ref == inbound.reply_to.ref and said.source.address == inbound.source.address:
            return described(said)
    return ""


# --- talk that is not for us -----------------------------------------------------------------------


def observes(source: Source, settings: Settings) -> bool:
    block = settings.block(source.address)
    return block.observe_unmentioned_group_messages and block.history_backfill_limit > 0


def overhear(tx: Tx, inbound: Inbound, settings: Settings, now: datetime) -> None:
    """Keep what somebody who may write said in a shared chat without speaking to us."""
    text = described(inbound)
    if not text.strip() or not observes(inbound.source, settings):
        return
    said = OverheardMessage(
        author=inbound.source.speaker, text=_cut(text, MOST_SAID), at=now, ref=inbound.ref
    )
    limit = settings.block(inbound.source.address).history_backfill_limit
    tx.talk.keep(inbound.source.address, said, limit)


def described(inbound: Inbound) -> str:
    """A message in words alone."""
    return "\n".join(part for part in (inbound.text.strip(), *map(_named, inbound.attachments)) if part)


def _named(file: Attachment) -> str:
    name = one_line(file.name or "", 120).replace("[", "(").replace("]", ")")
    return f"[{file.kind.value}{': ' + name if name else ''}]"
