"""What a restored database leaves open, settled so that nothing is lost without a word and nothing is done
twice without a mark. What is known to be as it was at the last moment goes on as after a crash; a turn that
has begun nothing is taken again; what may have gone on since is not done again, and its chat is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermes.domain.address import Address, Source
from hermes.domain.message import Body, Inbound
from hermes.domain.rows import OutboxRow
from hermes.domain.turn import ReplyPlace
from hermes.state.codec import decode, stamp, unstamp
from hermes.state.engine import SqliteDb
from hermes.state.outbox import OutboxTable
from hermes.state.salvage import Salvaged

RESTORED = "restored from a backup"
_AS_TURN = "turn"
_MOST_TIMES = 5
_OPEN_TURNS = (
    "SELECT n, id, session, state, attempt, progress, created_at, reply FROM turns"
    " WHERE state IN ('accepted', 'running', 'waiting') ORDER BY n"
)


class _Doubt(StrEnum):
    """What a chat is told of its messages."""

    BEGUN = "was being worked on; some of it may have been done, or even answered"
    UNKNOWN = "may have been lost or may have been answered; nobody can tell"
    UNSENT = "was answered, but the answer may not have been sent"
    NONE = ""


@dataclass(slots=True)
class Settled:
    """How much of what was open goes on, is taken again, was stopped, and may be sent a second time."""

    going_on: int = 0
    again: int = 0
    stopped: int = 0
    unsure: int = 0
    unsent: int = 0
    lost: int = 0
    blind: bool = False
    told: int = 0
    doubts: dict[Address, dict[_Doubt, list[datetime]]] = field(default_factory=dict)

    def doubt(self, to: Address, doubt: _Doubt, at: datetime) -> None:
        self.doubts.setdefault(to, {}).setdefault(doubt, []).append(at)

    def __str__(self) -> str:
        counted = {
            "open turns go on": self.going_on,
            "messages are taken again": self.again,
            "turns were stopped, since they may have gone on": self.stopped,
            "messages may have been answered or not": self.unsure,
            "unsent messages may have been sent already": self.unsent,
            "incoming messages could not be read": self.lost or self.blind,
            "chats are told": self.told,
        }
        told = [f"{'some' if count is True else count} {what}" for what, count in counted.items() if count]
        return ", ".join(told) or "nothing was open"


def settle(db: SqliteDb, saved: Salvaged, now: datetime) -> Settled:
    """Within a transaction of the replacement."""
    settled = Settled()
    for row in db.all(_OPEN_TURNS):
        _settle_turn(db, saved, settled, row)
    _settle_inbox(db, saved, settled)
    if "outbox" not in saved.whole:
        _settle_outbox(db, saved, settled)
    db.run("UPDATE leases SET until = 0")
    # That life did not end by a crash of its turns.
    db.run("UPDATE boots SET closed_at = ? WHERE closed_at IS NULL", stamp(now))
    settled.lost, settled.blind = sum(saved.lost.values()), saved.blind
    words = {to: _words(doubts) for to, doubts in settled.doubts.items()}
    if saved.has_lost_messages:
        words = dict.fromkeys(_places_since(db, saved.since), _lost_words(saved.since)) | words
    for to, text in words.items():
        told = OutboxRow(
            key=f"{RESTORED}:{now.timestamp():.0f}:{to}", to=to, body=Body(text=text), created_at=now
        )
        OutboxTable(db).add(told)
    settled.told = len(words)
    return settled


def _places_since(db: SqliteDb, since: float) -> set[Address]:
    """Home channels, and chats in which somebody wrote since then (or in the hour before: they are noted once
    an hour)."""
    noted = "SELECT address FROM homes UNION SELECT address FROM channels WHERE seen_at > ?"
    bound = (
        "SELECT source FROM bindings WHERE at > ?1"
        " OR session IN (SELECT id FROM sessions WHERE updated_at > ?1)"
    )
    places = {Address.parse(row[0]) for row in db.all(noted, since - 3600)}
    return places | {decode(Source, row[0]).address for row in db.all(bound, since)}


# --- turns ---


def _settle_turn(db: SqliteDb, saved: Salvaged, settled: Settled, row: tuple[object, ...]) -> None:
    n, turn, session, state, attempt, progress, created_at, reply = row
    assert isinstance(n, int) and isinstance(progress, int) and isinstance(created_at, float)
    untouched = state == "accepted" or (state == "running" and attempt == 1 and progress == 0)
    current = saved.is_current("turns", n)
    if current and not db.one("SELECT 1 FROM sessions WHERE id = ?", session):
        # Nothing can run without its session; who writes again gets a new one.
        db.run("DELETE FROM turns WHERE n = ?", n)
        if untouched and db.run("UPDATE inbox SET outcome = NULL, turn = NULL WHERE turn = ?", turn):
            settled.again += 1
            return
    elif current and _is_whole(db, saved, row):
        settled.going_on += 1
        return
    elif current and untouched:
        # Its opening words are lost, and nothing came after them.
        db.run("UPDATE turns SET state = 'accepted' WHERE n = ?", n)
        settled.again += 1
        return
    db.run(
        "UPDATE turns SET stop = coalesce(stop, ?), state = iif(state = 'waiting', 'running', state)"
        " WHERE n = ?",
        RESTORED,
        n,
    )
    settled.stopped += 1
    if isinstance(reply, (bytes, str)):
        settled.doubt(decode(ReplyPlace, reply).to, _Doubt.BEGUN, unstamp(created_at))


def _is_whole(db: SqliteDb, saved: Salvaged, row: tuple[object, ...]) -> bool:
    """Whether everything is there that a turn goes on from."""
    _, turn, _, state, attempt, progress, _, _ = row
    asked = db.one("SELECT 1 FROM questions WHERE turn = ?", turn)
    if state == "waiting" and asked is None:
        return False
    if "journal" in saved.whole or attempt == 0:
        return True
    found = db.one("SELECT count(*), max(seq) - min(seq) + 1 FROM journal WHERE turn = ?", turn)
    assert found is not None and isinstance(progress, int)
    # `progress` counts since the last start alone, and leaves out the words that begin a turn.
    return bool(attempt == 1 and found[0] > progress and found[0] == found[1])


# --- messages that came in ---


def _settle_inbox(db: SqliteDb, saved: Salvaged, settled: Settled) -> None:
    missing = (
        "SELECT n, body, accepted_at, outcome, turn FROM inbox WHERE outcome IS NULL"
        " OR (turn IS NOT NULL AND NOT EXISTS (SELECT 1 FROM turns WHERE id = inbox.turn))"
    )
    for n, body, accepted_at, outcome, turn in db.all(missing):
        if outcome is None and saved.is_current("inbox", n):
            continue
        if outcome is not None and (not saved.is_news("inbox", n) or "turns" in saved.whole):
            continue
        inbound = decode(Inbound, body)
        if outcome is not None and (ended := _how_it_ended(db, saved, turn)) is not None:
            if ended:
                settled.doubt(inbound.source.address, ended, unstamp(accepted_at))
            continue
        if outcome == _AS_TURN and _is_unbegun(db, saved, turn, inbound):
            db.run("DELETE FROM journal WHERE turn = ?", turn)
            db.run("UPDATE inbox SET outcome = NULL, turn = NULL WHERE n = ?", n)
            settled.again += 1
            continue
        db.run("UPDATE inbox SET outcome = coalesce(outcome, ?) WHERE n = ?", RESTORED, n)
        settled.unsure += 1
        settled.doubt(inbound.source.address, _Doubt.UNKNOWN, unstamp(accepted_at))


def _how_it_ended(db: SqliteDb, saved: Salvaged, turn: str) -> _Doubt | None:
    """Whether an answer, or its last record, shows that a turn whose row is lost has ended; and what is not
    sure of that."""
    if db.one("SELECT 1 FROM outbox WHERE turn = ? AND draft = 0", turn):
        return _Doubt.NONE
    ended = "SELECT 1 FROM journal WHERE turn = ? AND kind IN ('finished', 'failed', 'stopped')"
    if db.one(ended, turn) is None:
        return None
    return _Doubt.NONE if "outbox" in saved.whole else _Doubt.UNSENT


def _is_unbegun(db: SqliteDb, saved: Salvaged, turn: str, inbound: Inbound) -> bool:
    """Whether a turn whose row is lost can have done nothing yet: no tool, and its words were not taken into
    another turn on its way."""
    if "journal" not in saved.whole:
        return False
    begun = db.one("SELECT 1 FROM journal WHERE turn = ? AND kind = 'tool_started'", turn)
    steered = db.one(
        "SELECT 1 FROM journal WHERE n > ? AND kind = 'user_said' AND json_extract(body, '$.steering')"
        " AND json_extract(body, '$.text') = ?",
        saved.known["journal"],
        inbound.text,
    )
    return begun is None and steered is None


# --- messages on their way out ---


def _settle_outbox(db: SqliteDb, saved: Salvaged, settled: Settled) -> None:
    settled.unsent = db.run(
        "UPDATE outbox SET state = 'unknown' WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown')"
    )
    # A shown draft may have become the final answer since: editing it could take words back.
    db.run("UPDATE outbox SET state = 'gone' WHERE draft = 1 AND state IN ('attempting', 'shown')")
    ended = (
        "SELECT n, created_at, reply FROM turns WHERE reply IS NOT NULL AND absorbed_by IS NULL"
        " AND state IN ('done', 'failed', 'stopped') AND n >= ?"
        " AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn = turns.id AND draft = 0)"
    )
    first = min((*saved.opened["turns"], saved.known["turns"] + 1))
    for n, created_at, reply in db.all(ended, first):
        if saved.is_news("turns", n):
            settled.doubt(decode(ReplyPlace, reply).to, _Doubt.UNSENT, unstamp(created_at))


# --- words ---


def _words(doubts: dict[_Doubt, list[datetime]]) -> str:
    lines = [f"Your message of {_times(times)} {doubt.value}." for doubt, times in doubts.items()]
    told = "\n".join(lines)
    return f"⚠️ My database was damaged and restored.\n{told}\nSend again what you still need."


def _lost_words(since: float) -> str:
    moment = f" after {unstamp(since).astimezone():%Y-%m-%d %H:%M}" if since else ""
    return (
        f"⚠️ My database was damaged and restored. A message that was sent here{moment} may have been lost,"
        " or may have been answered; nobody can tell. Send again what you still need."
    )


def _times(moments: Iterable[datetime]) -> str:
    told = list(dict.fromkeys(f"{moment.astimezone():%H:%M}" for moment in moments))
    more = len(told) - _MOST_TIMES
    return ", ".join(told[:_MOST_TIMES]) + (f" and {more} more times" if more > 0 else "")
