"""Checkpoints of workspaces; their files are in shadow stores. Gone with the session."""

from __future__ import annotations

from collections.abc import Collection

from hermes.domain.ids import TurnId
from hermes.domain.text import storable
from hermes.domain.tools.checkpoint import Checkpoint
from hermes.domain.word import replace
from hermes.state.store.table import Columns, ScopedTable

_CHECKPOINT = Columns(Checkpoint, "checkpoints")
_SELECT = f"SELECT {_CHECKPOINT.names} FROM checkpoints WHERE agent = ?"


class CheckpointsTable(ScopedTable):
    def add(self, checkpoint: Checkpoint) -> None:
        kept = replace(checkpoint, label=storable(checkpoint.label))
        _CHECKPOINT.insert(self._db, kept, "ON CONFLICT DO NOTHING", agent=self._agent, id=None)

    def of_turns(self, turns: Collection[TurnId]) -> list[Checkpoint]:
        found = [row for turn in turns for row in self._db.all(f"{_SELECT} AND turn = ?", self._agent, turn)]
        return sorted(map(_CHECKPOINT.read, found), key=lambda checkpoint: -checkpoint.id)

    def of_root(self, root: str, most: int = 1000) -> list[Checkpoint]:
        sql = f"{_SELECT} AND root = ? ORDER BY id DESC LIMIT ?"
        return [*map(_CHECKPOINT.read, self._db.all(sql, self._agent, root, most))]

    def settle(self, turn: TurnId, after: str) -> None:
        self._db.run(
            "UPDATE checkpoints SET after = ? WHERE turn = ? AND agent = ?", after, turn, self._agent
        )

    def remove(self, ids: Collection[int]) -> None:
        for id in ids:
            self._db.run("DELETE FROM checkpoints WHERE id = ? AND agent = ?", id, self._agent)
