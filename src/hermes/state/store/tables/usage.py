"""What models took: sums for each day, agent, person, job, model and role. They follow the journal and the
calls beside it in batches, behind a cursor that moves in the same transaction, so a plain turn writes nothing
for them and nothing is counted twice. What is deleted is counted first. Days are those of UTC."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from hermes.domain.chats.address import Source
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.models.spending import Spender, spender_of
from hermes.domain.models.usage import TOKENS, AuxiliaryCall, UsageGroup, UsageSum
from hermes.domain.word import field_names
from hermes.state.store.codec import decode, stamp
from hermes.state.store.table import UNREADABLE, Db, Row, ScopedTable

NAMES = ("day", "agent", "person", "job", "model", "role")
_BATCH = 1000
_SUMS = tuple(field_names(UsageSum))
_TOKENS = ", ".join(f"coalesce(sum(json_extract(body, '$.usage.{part}')), 0)" for part in TOKENS)
_COST = "json_extract(body, '$.usage.cost')"
_KINDS = "('model_said', 'tool_started', 'tool_finished', 'asked', 'summarised', 'failed', 'stopped')"
# A reply without a model that took nothing is no call: it was written down for somebody else.
_MODEL = "coalesce(json_extract(body, iif(kind = 'model_said', '$.model', '$.usage.model')), '')"
_ROLE = """CASE WHEN kind IN ('model_said', 'failed', 'stopped') THEN 'main'
  WHEN kind = 'summarised' THEN 'summary' WHEN kind = 'tool_finished'
  THEN coalesce(json_extract(body, '$.usage.role'), 'tool') ELSE 'approval' END"""
_CALLS = f"""(SELECT n, session, seq, turn, at, kind, iif(json_valid(body), body, 'null') AS body
  FROM journal WHERE kind IN {_KINDS} AND {{meant}})"""
_IS_CALL = f"""json_extract(body, '$.usage') IS NOT NULL
  AND (kind != 'model_said' OR {_MODEL} != '' OR json_extract(body, '$.usage') != '{{{{}}}}')"""
# Records of a copy belong to no turn: they were counted where they were made.
_OF_JOURNAL = f"""SELECT date(j.at, 'unixepoch'), t.agent, t.source,
  (SELECT json_extract(CAST(g.body AS TEXT), '$.origin') FROM guidance g WHERE g.turn = t.id), '',
  {_MODEL} AS model, {_ROLE} AS role, count(*), {_TOKENS},
  coalesce(sum({_COST}), 0), count(*) - count({_COST})
FROM {_CALLS} j JOIN turns t ON t.id = j.turn WHERE {_IS_CALL} GROUP BY 1, 2, 3, 4, 6, 7"""
_ASIDE = ", ".join(f"sum(a.{part})" for part in TOKENS)
_OF_ASIDE = f"""SELECT date(a.at, 'unixepoch'), a.agent, t.source,
  (SELECT json_extract(CAST(g.body AS TEXT), '$.origin') FROM guidance g WHERE g.turn = t.id),
  (SELECT owner FROM sessions WHERE id = a.session), a.model, a.role,
  count(*), {_ASIDE}, coalesce(sum(a.cost), 0), count(*) - count(a.cost)
FROM (SELECT * FROM auxiliary_calls WHERE {{meant}}) a LEFT JOIN turns t ON t.id = a.turn
GROUP BY 1, 2, 3, 4, 5, 6, 7"""
_ADD = f"""INSERT INTO usage_days ({", ".join((*NAMES, *_SUMS))})
VALUES ({", ".join("?" * (len(NAMES) + len(_SUMS)))})
ON CONFLICT DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)}"""
_QUEUES = {"journal": ("usage_journal", _OF_JOURNAL), "auxiliary_calls": ("usage_calls", _OF_ASIDE)}
"""Each source of usage: its cursor, and how it is summed up."""
_NOT_YET = "n > coalesce((SELECT value FROM facts WHERE name = '{cursor}'), 0) + 0"


def count_batch(db: Db) -> int:
    """Count the next records and calls; how many there were."""
    done = 0
    for table, (cursor, sums) in _QUEUES.items():
        after = int(db.value("SELECT value FROM facts WHERE name = ?", cursor) or 0)
        page = f"SELECT n FROM {table} WHERE n > ? ORDER BY n LIMIT ?"
        upto, rows = db.all(f"SELECT max(n), count(*) FROM ({page})", after, _BATCH)[0]
        if rows:
            _add(db, db.all(sums.format(meant="n > ? AND n <= ?"), after, upto))
            db.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", cursor, str(upto))
            done += rows
    return done


def count_session(db: Db, session: SessionId) -> None:
    """Count what was not counted of a session that is about to be deleted."""
    for cursor, sums in _QUEUES.values():
        _add(db, db.all(sums.format(meant=f"session = ? AND {_NOT_YET.format(cursor=cursor)}"), session))


def _add(db: Db, rows: Iterable[Row]) -> None:
    for day, agent, source, origin, owner, model, role, *sums in rows:
        spender = _spender(AgentId(agent), source, origin)
        db.run(_ADD, day, agent, spender.person or owner or "", spender.job, model, role, *sums)


def _spender(agent: AgentId, source: bytes | str | None, origin: str | None) -> Spender:
    try:
        made_by = None if origin is None else decode(Source, origin)
        return spender_of(agent, None if source is None else decode(Source, source), made_by)
    except UNREADABLE:  # what it took is counted for nobody rather than not at all
        return Spender(agent=agent)


class UsageTable(ScopedTable):
    def note(self, call: AuxiliaryCall) -> None:
        names = ("agent", "session", "turn", "at", "role", "model", *TOKENS, "cost")
        tokens = [getattr(call.usage, part) for part in TOKENS]
        sql = f"INSERT INTO auxiliary_calls ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        at, used = stamp(call.at), call.usage
        self._db.run(
            sql, self._agent, call.session, call.turn, at, call.role.value, call.model, *tokens, used.cost
        )

    def count(self) -> int:
        return count_batch(self._db)

    def of_session(self, session: SessionId) -> list[UsageGroup]:
        groups: dict[tuple[str, ...], Row] = {}
        for _, sums in _QUEUES.values():
            for row in self._db.all(sums.format(meant="session = ?"), session):
                if row[1] == self._agent:
                    key, before = (row[5], row[6]), groups.get((row[5], row[6]), (0,) * len(_SUMS))
                    groups[key] = tuple(map(sum, zip(before, row[7:], strict=True)))
        return [_group(key, sums) for key, sums in groups.items()]

    def sums(self, by: tuple[str, ...], first: date, last: date, person: str = "") -> list[UsageGroup]:
        assert set(by) <= set(NAMES)
        named = ", ".join(by) or "''"
        sums = ", ".join(f"sum({name})" for name in _SUMS)
        sql = f"""SELECT {named}, {sums} FROM usage_days WHERE day BETWEEN ? AND ? AND agent = ?
            AND (? = '' OR person = ?) GROUP BY {named} ORDER BY {named}"""
        rows = self._db.all(sql, first.isoformat(), last.isoformat(), self._agent, person, person)
        width = len(by) or 1
        return [_group(row[:width], row[width:]) for row in rows]


def _group(key: tuple[str, ...], sums: Row) -> UsageGroup:
    return UsageGroup(key=key, used=UsageSum(**dict(zip(_SUMS, sums, strict=True))))
