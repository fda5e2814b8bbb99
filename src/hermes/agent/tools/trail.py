"""What a session's tools left behind that counts later: the files that they wrote, whose texts are judged
before a command runs them, and the world that they worked in, so that the model hears when it is another.
Kept in the store with the session; what has been read stays in memory."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.domain.ports.store import Store
from hermes.domain.ports.world import World

_MOST_SESSIONS = 500
_MOST_PATHS = 2000
_WROTE, _WORLD = "wrote", "world"
_MOVED = (
    "[Since the last call, this session works in another place: {now}. Before: {before}. What was exported, "
    "entered with cd or left running there is not here, and files may differ.]"
)


class SessionTrail:
    """Without a store it lasts as long as this object."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._paths: dict[str, set[str]] = {}
        self._worlds: dict[str, str] = {}

    async def note_written(self, session: str, paths: Iterable[str]) -> None:
        kept = await self._load(session)
        room = _MOST_PATHS + 1 - len(kept)
        new = sorted(set(paths) - kept)[: max(room, 0)]
        kept.update(new)
        if new and self._store is not None:
            await self._store.write(lambda tx: tx.traces.add(session, _WROTE, new))

    async def wrote(self, session: str, path: str) -> bool:
        """Where so much was written that nobody counts any more, every file."""
        kept = await self._load(session)
        return path in kept or len(kept) > _MOST_PATHS

    async def enter(self, session: str, world: World) -> str:
        """A sentence if the session worked in another world before; once for each change."""
        await self._load(session)
        now = f"{world.elsewhere or 'the machine of the gateway'}, in {world.workspace}"
        before = self._worlds.get(session)
        if before == now:
            return ""
        self._worlds[session] = now
        if self._store is not None:
            await self._store.write(lambda tx: tx.traces.put(session, _WORLD, now))
        return "" if before is None else _MOVED.format(now=now, before=before)

    async def _load(self, session: str) -> set[str]:
        if session not in self._paths:
            rows = [] if self._store is None else await self._store.read(lambda tx: tx.traces.of(session))
            if session not in self._paths:  # nobody else has read it meanwhile
                self._paths[session] = {text for kind, text in rows if kind == _WROTE}
                self._worlds.update((session, text) for kind, text in rows if kind == _WORLD)
            if len(self._paths) > _MOST_SESSIONS:
                self._forget(next(iter(self._paths)))
        return self._paths[session]

    def _forget(self, session: str) -> None:
        self._paths.pop(session)
        self._worlds.pop(session, None)
