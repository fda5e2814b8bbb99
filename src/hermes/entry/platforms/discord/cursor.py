"""How far we have read: what is stored as the cursor.

Discord acknowledges nothing. A session that is still valid replays what was missed. Without one, each channel
is read from the newest stored message on; until that is done the stored cursor names no session, so after a
crash the channels are read again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec

from hermes.domain.chats.address import Source
from hermes.entry.kit.payload import Recent
from hermes.entry.platforms.discord.convert import is_snowflake
from hermes.entry.platforms.discord.manifest import BOOSTED, MAX_FILE

OLDEST = timedelta(days=7)
_OVERLAP_MS = 60_000
_MOST_CHATS = 200


class DiscordCursor(msgspec.Struct, kw_only=True):
    """`began`: where the first connection ever began; `newest`: the newest message since then; `since`: from
    where a gap has to be read, while there is one. What Discord does not list is remembered: `directs`, the
    private chats and their people; `threads`, which may be put away meanwhile, and their servers. `boosts`:
    the levels of boosted servers, of which Discord tells when a session begins and when they change."""

    session: str | None = None
    number: int = 0
    url: str = ""
    resumes: int = 0
    """How often the session was to be taken up again since Discord last told something in it."""
    began: int = 0
    newest: int = 0
    since: int | None = None
    directs: dict[str, str] = {}
    threads: dict[str, str] = {}
    boosts: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Of very many, those that were silent longest are forgotten."""
        for name in ("directs", "threads", "boosts"):
            setattr(self, name, Recent(_MOST_CHATS, getattr(self, name)))

    @classmethod
    def read(cls, cursor: str | None) -> DiscordCursor:
        try:
            return msgspec.json.decode(cursor or "{}", type=cls)
        except msgspec.DecodeError:
            return cls()

    def cursor(self) -> str:
        stored: dict[str, Any] = {"began": self.began, "newest": self.newest}
        stored |= {"directs": self.directs, "threads": self.threads}
        if self.boosts:
            stored["boosts"] = self.boosts
        if self.since is not None:
            stored["newest"] = self.since
        elif self.session is not None:
            stored |= {"session": self.session, "number": self.number, "url": self.url}
            stored |= {"resumes": self.resumes} if self.resumes else {}
        return json.dumps(stored, separators=(",", ":"))

    @property
    def is_new(self) -> bool:
        return not self.began

    def saw(self, message: Any) -> None:
        if is_snowflake(message):
            self.newest = max(self.newest, int(message))

    def know(self, source: Source) -> None:
        """A place where somebody wrote to us."""
        channel = source.address.thread or source.address.chat
        if source.guild is None and source.user:
            self.directs[channel] = source.user
        elif source.guild is not None and source.address.thread:
            self.threads[channel] = source.guild

    def know_guild(self, guild: Any) -> None:
        """What Discord says of a server: how much it is boosted."""
        number, level = guild.get("id"), guild.get("premium_tier")
        if is_snowflake(number):
            self.boosts.pop(number, None)
            if isinstance(level, int) and level in BOOSTED:
                self.boosts[number] = str(level)

    def most_bytes(self, guild: str | None) -> int:
        """How large a file may be on a server; None is a private chat."""
        return BOOSTED.get(int(self.boosts.get(guild or "", 0)), MAX_FILE)

    def lose(self) -> None:
        """There is no session any more: what came since has to be read."""
        self.session, self.number, self.resumes = None, 0, 0
        if not self.is_new and self.since is None:
            self.since = self.newest

    def gap(self, oldest: int) -> int:
        """The id after which to read: a little before the newest, for what came late."""
        return max(self.began, (self.since or 0) - (_OVERLAP_MS << 22), oldest, 0)
