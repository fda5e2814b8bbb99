"""Full-text search over what was said. The index follows the journal in batches and remembers how far it
has come. A search first waits until it is up to date, batch by batch, so that no write has to wait for more
than a few; an index that is very far behind (a database from elsewhere) answers with what it has."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from hermes.domain.chats.rows import SearchHit
from hermes.domain.clock import zone_named
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.text import storable
from hermes.domain.tools.tool import ToolContext
from hermes.domain.turns.session import EVERY_SESSION, SessionFilter, Viewer, heard_by
from hermes.domain.word import replace
from hermes.state.store.codec import unstamp
from hermes.state.store.table import Db, Row, ScopedTable
from hermes.state.store.tables.sessions import session_condition

_BATCH = 1000
_BATCHES_AT_ONCE = 4
COMMON = 2000
_LONGEST_QUERY = 2048
_MOST_WORDS = 32
_OPERATORS = ("OR", "NOT", "AND")
_SPACELESS = "[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]"
_WORD = re.compile(r"[^\W_]+(?:['\-][^\W_]+)*")
_PIECES = re.compile(r'"([^"]*)"|\b(OR|NOT|AND)\b|([^\W_]+(?:[\'\-][^\W_]+)*)(\*?)')


def catch_up(db: Db) -> int:
    """Index one batch of the journal; 0 when there was nothing left."""
    done = int(db.value("SELECT value FROM facts WHERE name = 'indexed'") or "0")
    row = db.one(
        "SELECT max(n), count(*) FROM (SELECT n FROM journal WHERE n > ? ORDER BY n LIMIT ?)", done, _BATCH
    )
    if row is None or not row[1]:
        return 0
    for index in ("words", "letters"):
        db.run(
            f"INSERT INTO {index} (rowid, text) SELECT n, text FROM said WHERE n > ? AND n <= ?", done, row[0]
        )
    db.run("UPDATE facts SET value = ? WHERE name = 'indexed'", str(row[0]))
    return int(row[1])


class SearchTable(ScopedTable):
    def catch_up(self) -> int:
        """Index one batch; 0 when there was nothing left."""
        return catch_up(self._db)

    def find(
        self, query: str, limit: int = 20, viewer: Viewer | SessionFilter = EVERY_SESSION
    ) -> list[SearchHit]:
        for _ in range(_BATCHES_AT_ONCE):
            if not self.catch_up():
                break
        query = storable(query[:_LONGEST_QUERY])
        words = _WORD.findall(query)[:_MOST_WORDS]
        if not words:
            return []
        if re.search(_SPACELESS, query):
            return self._like([word for word in words if word not in _OPERATORS] or words, limit, viewer)
        hits = self._match("words", search_phrase(query), limit, viewer)
        # No such words: perhaps parts of some.
        plain = '"' not in query and all(len(word) >= 3 and word not in _OPERATORS for word in words)
        if not hits and plain:
            hits = self._match("letters", " AND ".join(f'"{word}"' for word in words), limit, viewer)
        return hits

    def _match(self, index: str, phrase: str, limit: int, viewer: Viewer | SessionFilter) -> list[SearchHit]:
        # Ranking a word that is nearly everywhere costs hundreds of milliseconds; the newest are as good.
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {index} WHERE {index} MATCH ? LIMIT ?)"
        order = f"{index}.rowid DESC" if self._db.value(sql, phrase, COMMON) >= COMMON else "rank"
        seen, values = _seen_by(viewer)
        sql = f"""SELECT j.session, j.seq, j.at, s.title, j.kind, snippet({index}, 0, '', '', '…', 16)
            FROM {index} JOIN journal j ON j.n = {index}.rowid JOIN sessions s ON s.id = j.session
            WHERE {index} MATCH ? AND s.agent = ?{seen} ORDER BY {order} LIMIT ?"""
        rows = self._db.all(sql, phrase, self._agent, *values, limit)
        return [_hit(row) for row in rows]

    def _like(self, words: list[str], limit: int, viewer: Viewer | SessionFilter) -> list[SearchHit]:
        """Languages without spaces: the trigram index where a word is long enough, a scan where not."""
        condition = " AND ".join(["letters.text LIKE ?"] * len(words))
        seen, values = _seen_by(viewer)
        sql = f"""SELECT j.session, j.seq, j.at, s.title, j.kind, substr(letters.text, 1, 120) FROM letters
            JOIN journal j ON j.n = letters.rowid JOIN sessions s ON s.id = j.session
            WHERE {condition} AND s.agent = ?{seen} ORDER BY letters.rowid DESC LIMIT ?"""
        rows = self._db.all(sql, *(f"%{word}%" for word in words), self._agent, *values, limit)
        return [_hit(row) for row in rows]

    def said(
        self, limit: int, viewer: Viewer, session: SessionId | None = None, around: int = 0
    ) -> list[SearchHit]:
        seen, values = _seen_by(viewer)
        order = "j.n DESC" if session is None else "abs(j.seq - ?), j.seq"
        sql = f"""SELECT j.session, j.seq, j.at, s.title, j.kind, v.text FROM said v
            JOIN journal j ON j.n = v.n JOIN sessions s ON s.id = j.session
            WHERE s.agent = ?{seen} AND v.text != ''{"" if session is None else " AND j.session = ?"}
            ORDER BY {order} LIMIT ?"""
        place = () if session is None else (storable(session), around)
        hits = [_hit(row) for row in self._db.all(sql, self._agent, *values, *place, limit)]
        return hits if session is None else sorted(hits, key=lambda hit: hit.seq)


def recall_from(
    store: Store, zone: str
) -> Callable[[str, int, ToolContext, str, int], Awaitable[list[SearchHit]]]:
    """A search on behalf of a tool's call, with the times in the zone of this name (empty: the machine's)."""

    async def recall(
        query: str, limit: int, context: ToolContext, there: str, around: int
    ) -> list[SearchHit]:
        def find(tx: Tx) -> list[SearchHit]:
            session = tx.sessions.get(context.session)
            if session is None:
                return []
            turn = tx.turns.get(context.turn)
            heard = session if turn is None or turn.source is None else heard_by(session, turn.source)
            viewer = Viewer(session=heard, turn=context.turn)
            if query:
                return tx.search.find(query, limit, viewer)
            return tx.search.said(limit, viewer, SessionId(there) if there else None, around)

        return [replace(hit, at=hit.at.astimezone(zone_named(zone))) for hit in await store.read(find)]

    return recall


def _seen_by(viewer: Viewer | SessionFilter) -> tuple[str, tuple[str | float | None, ...]]:
    """A condition that keeps what a viewer may see: a session is theirs who began it, and in a place that
    shares its sessions, the place's."""
    if isinstance(viewer, SessionFilter):
        return session_condition(viewer)
    here = viewer.session
    if viewer.is_local:
        return " AND j.turn != ?", (viewer.turn,)
    mine = "(s.id = ? OR s.owner = ? OR (s.owner IS NULL AND s.place = ?))"
    return f" AND j.turn != ? AND {mine}", (viewer.turn, here.id, here.owner, here.place)


def search_phrase(query: str) -> str:
    """The query in the index's own language: quoted phrases and trailing `*` kept, AND between words,
    OR and NOT understood, everything else taken as plain words."""
    parts: list[str] = []
    for phrase, operator, word, star in _PIECES.findall(query):
        if len(parts) >= 2 * _MOST_WORDS:
            break
        if operator:
            if parts and parts[-1] not in _OPERATORS:
                parts.append(operator)
            elif parts and operator == "NOT":
                parts[-1] = operator
        elif _WORD.search(phrase) or word:
            if parts and parts[-1] not in _OPERATORS:
                parts.append("AND")
            parts.append(f'"{phrase or word}"{star}')
    if parts and parts[-1] in _OPERATORS:
        parts.pop()
    return " ".join(parts) or '""'


def _hit(row: Row) -> SearchHit:
    session, seq, at, title, kind, excerpt = row
    who = "user" if kind == "user_said" else "agent"
    return SearchHit(
        session=SessionId(session), seq=seq, at=unstamp(at), title=title, who=who, excerpt=excerpt or ""
    )
