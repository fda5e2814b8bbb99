"""Turns. Every write after the first start carries the attempt: a stale one is refused with `Lost`.

What a client brought along is a row of its own, written once: a turn's row is written anew with each record,
and megabytes of somebody's history must not be."""

from __future__ import annotations

from dataclasses import replace

from hermes.domain.address import Source
from hermes.domain.errors import Lost
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.turn import (
    NO_GUIDANCE,
    BusyMode,
    Cause,
    Guidance,
    ReplyPlace,
    Turn,
    TurnInput,
    TurnState,
)
from hermes.state.codec import decode, encode, stamp, stamp_or_none, unstamp, unstamp_or_none
from hermes.state.db import Db, Row

_COLUMNS = (
    "id, session, agent, cause, state, input, source, reply, busy, attempt, progress, crashes,"
    " ready_at, stop, absorbed_by, ephemeral, created_at"
)
_READ = f"{_COLUMNS}, (SELECT body FROM guidance WHERE turn = turns.id)"
_OPEN = "state IN ('accepted', 'running', 'waiting')"


class TurnsTable:
    def __init__(self, db: Db, agent: AgentId) -> None:
        self._db = db
        self._agent = agent

    def add(self, turn: Turn, *, epoch: int = 0) -> None:
        if turn.agent != self._agent:
            raise Lost(f"a turn of agent {turn.agent} in the store of {self._agent}")
        added = self._db.run(
            f"INSERT INTO turns ({_COLUMNS}, epoch)"
            " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18"
            " WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?2 AND agent = ?3)",
            turn.id,
            turn.session,
            turn.agent,
            turn.cause.value,
            turn.state.value,
            _encode_input(turn.input),
            None if turn.source is None else encode(turn.source),
            None if turn.reply is None else encode(turn.reply),
            turn.busy.value,
            turn.attempt,
            turn.progress,
            turn.crashes,
            stamp_or_none(turn.ready_at),
            turn.stop,
            turn.absorbed_by,
            int(turn.ephemeral),
            stamp(turn.created_at),
            epoch,
        )
        if not added:
            raise Lost(f"session {turn.session} is gone")
        if turn.input.guidance != NO_GUIDANCE:
            body = encode(turn.input.guidance)
            self._db.run("INSERT INTO guidance VALUES (?, ?, ?, ?)", turn.id, turn.agent, turn.session, body)

    def get(self, turn: TurnId) -> Turn | None:
        row = self._db.one(f"SELECT {_READ} FROM turns WHERE id = ? AND agent = ?", turn, self._agent)
        return None if row is None else _turn(row)

    def open_of(self, session: SessionId, limit: int = 64) -> list[Turn]:
        rows = self._db.all(
            f"SELECT {_READ} FROM turns INDEXED BY turns_open"
            f" WHERE session = ? AND {_OPEN} AND agent = ? ORDER BY n LIMIT ?",
            session,
            self._agent,
            limit,
        )
        return [_turn(row) for row in rows]

    def save(self, turn: Turn, *, attempt: int, epoch: int | None = None) -> None:
        changed = self._db.run(
            "UPDATE turns SET state = ?, input = ?, attempt = ?, progress = ?, crashes = ?, ready_at = ?,"
            " stop = ?, absorbed_by = ?, epoch = coalesce(?, epoch)"
            f" WHERE id = ? AND agent = ? AND attempt = ? AND {_OPEN}",
            turn.state.value,
            _encode_input(turn.input),
            turn.attempt,
            turn.progress,
            turn.crashes,
            stamp_or_none(turn.ready_at),
            turn.stop,
            turn.absorbed_by,
            epoch,
            turn.id,
            self._agent,
            attempt,
        )
        _fenced(changed, turn.id)

    def advance(self, turn: TurnId, *, attempt: int, records: int, state: TurnState) -> None:
        changed = self._db.run(
            # What waits for an answer waits for whoever brings it, so it no longer hangs on a client.
            "UPDATE turns SET state = ?1, progress = progress + ?2,"
            " ephemeral = ephemeral AND ?1 != 'waiting' WHERE id = ?3 AND agent = ?4"
            " AND attempt = ?5 AND state = 'running'",
            state.value,
            records,
            turn,
            self._agent,
            attempt,
        )
        _fenced(changed, turn)


def _encode_input(given: TurnInput) -> bytes:
    plain = given.guidance == NO_GUIDANCE
    return encode(given if plain else replace(given, guidance=NO_GUIDANCE))


def _fenced(changed: int, turn: TurnId) -> None:
    if not changed:
        raise Lost(f"{turn} has ended or was started again")


def _turn(row: Row) -> Turn:
    (
        turn, session, agent, cause, state, given, source, reply, busy, attempt, progress, crashes,
        ready_at, stop, absorbed_by, ephemeral, created_at, guidance,
    ) = row  # fmt: skip
    said = decode(TurnInput, given)
    return Turn(
        id=TurnId(turn),
        session=SessionId(session),
        agent=AgentId(agent),
        cause=Cause(cause),
        input=said if guidance is None else replace(said, guidance=decode(Guidance, guidance)),
        created_at=unstamp(created_at),
        state=TurnState(state),
        source=None if source is None else decode(Source, source),
        reply=None if reply is None else decode(ReplyPlace, reply),
        busy=BusyMode(busy),
        attempt=attempt,
        progress=progress,
        crashes=crashes,
        ready_at=unstamp_or_none(ready_at),
        stop=stop,
        absorbed_by=None if absorbed_by is None else TurnId(absorbed_by),
        ephemeral=bool(ephemeral),
    )
