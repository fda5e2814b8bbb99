"""What a restored database leaves open, settled so that nothing is lost without a word and nothing is done
twice without a mark. What is known to be as it was at the last moment goes on as after a crash; a turn that
has begun nothing is taken again; what may have gone on since is not done again, and its chat is told."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field

from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.message import Body, Inbound
from hermes.domain.chats.rows import OutboxRow
from hermes.domain.ids import TurnId
from hermes.domain.turns.turn import ReplyPlace, TurnInput
from hermes.state.store.care.salvage import SalvageReport
from hermes.state.store.codec import decode, stamp, unstamp
from hermes.state.store.sqlite import SqliteDb
from hermes.state.store.table import Row
from hermes.state.store.tables.outbox import OutboxTable

RESTORED = "restored from a backup"
_AS_TURN = "turn"
_EDITED_BEFORE = "edit: taken with its message"
_ENDS = {"finished": "done", "failed": "failed", "stopped": "stopped"}
_MOST_TIMES = 5
_MOST_LOST = 1_000_000
_OPEN_TURNS = """SELECT n, id, session, state, attempt, progress, created_at, reply FROM turns
    WHERE state IN ('accepted', 'running', 'waiting') ORDER BY n"""


class _Doubt(StrEnum):
    """What a chat is told of its messages."""

    BEGUN = "was being worked on; some of it may have been done, or even answered"
    UNKNOWN = "may have been lost or may have been answered; nobody can tell"
    UNSENT = "was answered, but the answer may not have been sent"
    MAIL = "A message for this chat may not have been sent."
    NONE = ""


class RestoreReport(Struct):
    """How much of what was open goes on, is taken again, was stopped, and may be sent a second time."""

    going_on: int = 0
    again: int = 0
    stopped: int = 0
    unsure: int = 0
    unsent: int = 0
    lost: int = 0
    blind: bool = False
    chats_notified: int = 0
    first: dict[Address, int] = field(default_factory=dict)
    """The first message of each chat that is taken again."""
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
            "chats are told": self.chats_notified,
        }
        counts = [f"{'some' if count is True else count} {what}" for what, count in counted.items() if count]
        return ", ".join(counts) or "nothing was open"


def settle_restored(db: SqliteDb, saved: SalvageReport, now: datetime) -> RestoreReport:
    """Within a transaction of the replacement."""
    settled = RestoreReport()
    # Rows and records may be lost, so a turn's first record says nothing, and records are looked for by
    # turns that have no row; the index for that is here alone.
    db.run("UPDATE turns SET since = NULL")
    db.run("CREATE INDEX journal_turn ON journal (turn)")
    for row in db.all(_OPEN_TURNS):
        _settle_turn(db, saved, settled, row)
    _settle_inbox(db, saved, settled)
    db.run("DROP INDEX journal_turn")
    _settle_questions(db, saved)
    if "outbox" not in saved.whole:
        _settle_outbox(db, saved, settled)
    _remove_drafts(db, now)
    # Numbers of rows that are lost must not be given again: keys of messages that were sent hold them.
    db.run("UPDATE sqlite_sequence SET seq = seq + ?", _MOST_LOST)
    db.run("UPDATE leases SET until = 0")
    # That life did not end by a crash of its turns.
    db.run("UPDATE boots SET closed_at = ? WHERE closed_at IS NULL", stamp(now))
    settled.lost, settled.blind = sum(saved.lost.values()), saved.blind
    words = {to: _words(doubts) for to, doubts in settled.doubts.items()}
    if saved.has_lost_messages:
        words = dict.fromkeys(_places_since(db, saved.since), _lost_words(saved.since)) | words
    for to, text in words.items():
        notice = OutboxRow(
            key=f"{RESTORED}:{now.timestamp():.0f}:{to}", to=to, body=Body(text=text), created_at=now
        )
        OutboxTable(db).add(notice)
    settled.chats_notified = len(words)
    return settled


def _places_since(db: SqliteDb, since: float) -> set[Address]:
    """Home channels, and chats in which somebody wrote since then; chats are noted once an hour."""
    noted = "SELECT address FROM homes UNION SELECT address FROM channels WHERE seen_at > ?"
    bound = """SELECT source FROM bindings WHERE at > ?1
        OR session IN (SELECT id FROM sessions WHERE updated_at > ?1)"""
    places = {Address.parse(row[0]) for row in db.all(noted, since - 3600)}
    return places | {decode(Source, row[0]).address for row in db.all(bound, since)}


# --- turns ---


def _settle_turn(db: SqliteDb, saved: SalvageReport, settled: RestoreReport, row: Row) -> None:
    n, turn, session, state, attempt, progress, created_at, reply = row
    untouched = state == "accepted" or (state == "running" and attempt == 1 and progress == 0)
    current = saved.is_current("turns", n)
    if not current and _how_it_ended(db, saved, turn) is not None:
        db.run("UPDATE turns SET state = ? WHERE n = ?", _ENDS[_end_of(db, turn) or "finished"], n)
        return
    if not current and _stays_unbegun(db, saved, turn):
        db.run("DELETE FROM journal WHERE turn = ?", turn)
        db.run("UPDATE turns SET state = 'accepted' WHERE n = ?", n)
        settled.again += 1
        return
    if not current and _begin_again(db, saved, settled, turn):
        return
    if current and not db.one("SELECT 1 FROM sessions WHERE id = ?", session):
        # Nothing can run without its session; who writes again gets a new one.
        db.run("DELETE FROM turns WHERE n = ?", n)
        if untouched and (again := _take_again(db, turn)):
            settled.again += again
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


def _stays_unbegun(db: SqliteDb, saved: SalvageReport, turn: str) -> bool:
    """Whether the row of a turn says all there is to say, though it is old: nothing was done or said, and
    neither edits nor further pieces of its message came since. So it keeps its place."""
    row = db.one("SELECT input FROM turns WHERE id = ? AND stop IS NULL", turn)
    later = db.one("SELECT 1 FROM inbox WHERE turn = ? AND n > ?", turn, saved.highest["inbox"])
    answered = db.one("SELECT 1 FROM outbox WHERE turn = ? AND draft = 0", turn)
    if row is None or later or answered or not {"inbox", "outbox"} <= saved.whole:
        return False
    return _is_unbegun(db, saved, turn, decode(TurnInput, row[0]).text)


def _begin_again(db: SqliteDb, saved: SalvageReport, settled: RestoreReport, turn: str) -> bool:
    """Take the messages of a turn again, if they are there and it can have done nothing yet."""
    rows = db.all("SELECT n, body FROM inbox WHERE turn = ? AND outcome = ? ORDER BY n", turn, _AS_TURN)
    messages = [decode(Inbound, body) for _, body in rows]
    if not rows or not all(_is_unbegun(db, saved, turn, message.text) for message in messages):
        return False
    place, first = messages[0].source.address, rows[0][0]
    db.run("DELETE FROM turns WHERE id = ?", turn)
    db.run("DELETE FROM journal WHERE turn = ?", turn)
    settled.again += _take_again(db, turn)
    settled.first[place] = min(first, settled.first.get(place, first))
    return True


def _is_whole(db: SqliteDb, saved: SalvageReport, row: Row) -> bool:
    """Whether everything is there that a turn goes on from."""
    _, turn, _, state, attempt, progress, _, _ = row
    asked = db.one("SELECT 1 FROM questions WHERE turn = ?", turn)
    if state == "waiting" and asked is None:
        return False
    if "journal" in saved.whole or attempt == 0:
        return True
    records = db.one("SELECT count(*), max(seq) - min(seq) + 1 FROM journal WHERE turn = ?", turn)
    assert records is not None
    # `progress` counts since the last start alone, and leaves out the words that begin a turn.
    return bool(attempt == 1 and records[0] > progress and records[0] == records[1])


# --- messages that came in ---


def _settle_inbox(db: SqliteDb, saved: SalvageReport, settled: RestoreReport) -> None:
    missing = """SELECT n, body, accepted_at, outcome, turn FROM inbox WHERE outcome IS NULL
        OR (turn IS NOT NULL AND NOT EXISTS (SELECT 1 FROM turns WHERE id = inbox.turn)) ORDER BY n"""
    again: set[str] = set()
    for n, body, accepted_at, outcome, turn in db.all(missing):
        if turn in again or (outcome is None and saved.is_current("inbox", n)):
            continue
        if outcome is not None and (not saved.is_news("inbox", n) or "turns" in saved.whole):
            continue
        inbound = decode(Inbound, body)
        if outcome is not None and (ended := _how_it_ended(db, saved, turn)) is not None:
            if ended:
                settled.doubt(inbound.source.address, ended, unstamp(accepted_at))
            continue
        if outcome == _AS_TURN and _begin_again(db, saved, settled, turn):
            again.add(turn)
            continue
        db.run("UPDATE inbox SET outcome = coalesce(outcome, ?) WHERE n = ?", RESTORED, n)
        settled.unsure += 1
        settled.doubt(inbound.source.address, _Doubt.UNKNOWN, unstamp(accepted_at))
    if settled.first:
        _keep_order(db, settled)


def _take_again(db: SqliteDb, turn: str) -> int:
    """Let the rows that became a turn be taken as if nobody had looked at them; how many."""
    messages = db.all(
        "SELECT n, account, ref, body FROM inbox WHERE turn = ? AND outcome = ?", turn, _AS_TURN
    )
    edits = "SELECT n, body FROM inbox WHERE account = ? AND ref = ? AND n > ? AND outcome = ?"
    for n, account, ref, body in messages:
        place = decode(Inbound, body).source.address
        for edit, edited in db.all(edits, account, ref, n, _EDITED_BEFORE):
            # Messages of other chats can have the same ref.
            if decode(Inbound, edited).source.address == place:
                db.run("UPDATE inbox SET outcome = NULL WHERE n = ?", edit)
    return db.run("UPDATE inbox SET outcome = NULL, turn = NULL WHERE turn = ?", turn)


def _keep_order(db: SqliteDb, settled: RestoreReport) -> None:
    """What waits behind a message that is taken again is taken again too, or it would be answered before."""
    behind = """SELECT inbox.n, inbox.body, turns.id FROM inbox JOIN turns ON turns.id = inbox.turn
        WHERE inbox.n > ? AND outcome = ? AND state = 'accepted' AND attempt = 0 AND stop IS NULL"""
    for n, body, turn in db.all(behind, min(settled.first.values()), _AS_TURN):
        place = decode(Inbound, body).source.address
        if settled.first.get(place, n) < n and db.run("DELETE FROM turns WHERE id = ?", turn):
            settled.going_on -= 1
            settled.again += _take_again(db, turn)


def _how_it_ended(db: SqliteDb, saved: SalvageReport, turn: str) -> _Doubt | None:
    """What is in doubt about a turn whose answer or last record shows that it has ended; else None."""
    answered = db.one("SELECT 1 FROM outbox WHERE turn = ? AND draft = 0", turn)
    # What it said before it asked something does not end a turn.
    if answered and "questions" in saved.whole and not db.one("SELECT 1 FROM questions WHERE turn = ?", turn):
        return _Doubt.NONE
    if _end_of(db, turn) is None:
        return None
    return _Doubt.NONE if "outbox" in saved.whole else _Doubt.UNSENT


def _end_of(db: SqliteDb, turn: str) -> str | None:
    """The kind of record that ended a turn."""
    ends = "SELECT kind FROM journal WHERE turn = ? AND kind IN ('finished', 'failed', 'stopped')"
    kind: str | None = db.value(ends, turn)
    return kind


def _is_unbegun(db: SqliteDb, saved: SalvageReport, turn: str, text: str) -> bool:
    """Whether a turn whose row is lost can have done nothing yet: no tool, and its words were not taken into
    another turn on its way."""
    if "journal" not in saved.whole:
        return False
    begun = db.one("SELECT 1 FROM journal WHERE turn = ? AND kind = 'tool_started'", turn)
    steered = db.one(
        "SELECT 1 FROM journal WHERE n > ? AND kind = 'user_said' AND json_extract(body, '$.steering')"
        " AND json_extract(body, '$.text') = ?",
        saved.highest["journal"],
        text,
    )
    return begun is None and steered is None


def _settle_questions(db: SqliteDb, saved: SalvageReport) -> None:
    """Nobody is left to hear the answer, and it must not swallow the next message. A turn that is stopped
    withdraws its own, if its records tell of them."""
    db.run(
        "DELETE FROM questions WHERE verdict IS NULL AND NOT EXISTS (SELECT 1 FROM turns WHERE"
        " id = questions.turn AND state IN ('accepted', 'running', 'waiting') AND stop IS NOT ?)",
        "" if "journal" in saved.whole else RESTORED,
    )


# --- messages on their way out ---


def _settle_outbox(db: SqliteDb, saved: SalvageReport, settled: RestoreReport) -> None:
    settled.unsent = db.run(
        "UPDATE outbox SET state = 'unknown' WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown')"
    )
    # A shown draft may have become the final answer since: editing it could take words back.
    db.run("UPDATE outbox SET state = 'gone' WHERE draft = 1 AND state IN ('attempting', 'shown')")
    ended = """SELECT n, created_at, reply FROM turns WHERE reply IS NOT NULL AND absorbed_by IS NULL
        AND state IN ('done', 'failed', 'stopped') AND n >= ?
        AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn = turns.id AND draft = 0)"""
    first = min((*saved.opened["turns"], saved.highest["turns"] + 1))
    for n, created_at, reply in db.all(ended, first):
        if saved.is_news("turns", n):
            settled.doubt(decode(ReplyPlace, reply).to, _Doubt.UNSENT, unstamp(created_at))
    for to in saved.lost_mail - set(settled.doubts):
        settled.doubts[to] = {_Doubt.MAIL: []}


def _remove_drafts(db: SqliteDb, now: datetime) -> None:
    """A row that says nothing takes away what is shown of a turn that is no more."""
    shown = """SELECT turn, lane, min(part) FROM outbox AS shown WHERE draft = 1
        AND state IN ('attempting', 'shown') AND NOT EXISTS (SELECT 1 FROM turns WHERE id = shown.turn)
        AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn = shown.turn AND draft = 0) GROUP BY turn, lane"""
    for turn, lane, part in db.all(shown):
        to, key = Address.parse(lane), f"{turn}:{part}"
        OutboxTable(db).add(
            OutboxRow(key=key, to=to, body=Body(), created_at=now, turn=TurnId(turn), part=part)
        )


# --- words ---


def _words(doubts: dict[_Doubt, list[datetime]]) -> str:
    lines = [
        f"Your message of {_times(times)} {doubt.value}." if times else doubt.value
        for doubt, times in doubts.items()
    ]
    sentences = "\n".join(lines)
    return f"⚠️ My database was damaged and restored.\n{sentences}\nSend again what you still need."


def _lost_words(since: float) -> str:
    moment = f" after {unstamp(since).astimezone():%Y-%m-%d %H:%M}" if since else ""
    return (
        f"⚠️ My database was damaged and restored. A message that was sent here{moment} may have been lost,"
        " or may have been answered; nobody can tell. Send again what you still need."
    )


def _times(moments: Iterable[datetime]) -> str:
    times = list(dict.fromkeys(f"{moment.astimezone():%H:%M}" for moment in moments))
    more = len(times) - _MOST_TIMES
    return ", ".join(times[:_MOST_TIMES]) + (f" and {more} more times" if more > 0 else "")
