"""The index of fetched files: what is kept, where, and which rows still name it."""

from __future__ import annotations

import re
from datetime import datetime

from hermes.domain.chats.rows import MediaItem
from hermes.domain.ids import AgentId
from hermes.state.store.codec import stamp
from hermes.state.store.table import Columns, ScopedTable

# Where rows name files. A new table that does belongs here, or its files are swept away.
_NAMING = (
    ("journal", "body"),
    ("turns", "input"),
    ("inbox", "body"),
    ("outbox", "body"),
    ("guidance", "body"),
    ("questions", "body"),
    ("requests", "facts"),
    ("jobs", "body"),
)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PAGE = 500
_ITEM = Columns(MediaItem, "media")


class MediaTable(ScopedTable):
    def add(self, item: MediaItem) -> None:
        again = "ON CONFLICT DO UPDATE SET stored_at = excluded.stored_at"
        _ITEM.insert(self._db, item, again, agent=self._agent)

    def get(self, sha256: str) -> MediaItem | None:
        return _ITEM.one(self._db, "WHERE agent = ? AND sha256 = ?", self._agent, sha256)

    def unused(self, before: datetime, limit: int) -> list[tuple[AgentId, MediaItem]]:
        items = self._owned("agent = ? AND stored_at < ?", self._agent, stamp(before))
        named = self._named() if items else set()
        return [(agent, item) for agent, item in items if item.sha256 not in named][:limit]

    def remove(self, sha256: str, before: datetime) -> bool:
        old = "DELETE FROM media WHERE agent = ? AND sha256 = ? AND stored_at < ?"
        return self._db.run(old, self._agent, sha256, stamp(before)) > 0

    def copies(self, sha256: str) -> list[tuple[AgentId, MediaItem]]:
        return self._owned("sha256 = ?", sha256)

    def _owned(self, condition: str, *values: str | float) -> list[tuple[AgentId, MediaItem]]:
        rows = self._db.all(f"SELECT agent, {_ITEM.names} FROM media WHERE {condition}", *values)
        return [(AgentId(row[0]), _ITEM.read(row[1:])) for row in rows]

    def _named(self) -> set[str]:
        """Every file that some row names, read a page at a time."""
        digests: set[str] = set()
        for table, column in _NAMING:
            last = 0
            while rows := self._db.all(
                f"SELECT rowid, {column} FROM {table} WHERE rowid > ? AND instr({column}, 'sha256') > 0"
                " ORDER BY rowid LIMIT ?",
                last,
                _PAGE,
            ):
                last = rows[-1][0]
                for _, body in rows:
                    text = body if isinstance(body, str) else bytes(body).decode("utf-8", "replace")
                    digests.update(_DIGEST.findall(text))
        return digests
