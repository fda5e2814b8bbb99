"""What events do not tell themselves: which channel a thread belongs to, who has which role. Learnt from what
the gateway says of servers, and asked for where it did not: after a session was taken up it says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hermes.domain.errors import Refused
from hermes.entry.kit.payload import Recent, as_dicts, dig
from hermes.entry.platforms.discord.api import DiscordApi
from hermes.entry.platforms.discord.convert import (
    DiscordChannel,
    DiscordContext,
    DiscordIdentity,
    is_snowflake,
    place_of,
)

_MOST_PLACES = 10_000


class DiscordDirectory:
    def __init__(
        self, rest: DiscordApi, *, asks_roles: bool, threads: bool, flat: Iterable[str] = ()
    ) -> None:
        self._rest = rest
        self._asks_roles = asks_roles
        self._threads = threads
        self.flat = set(flat)
        """The channels where no thread is begun for who mentions us."""
        self._places: Recent[str, DiscordChannel | None] = Recent(_MOST_PLACES)
        """Threads are channels, too, and begin all the time; one that is forgotten is asked for."""
        self._roles: dict[tuple[str, str], tuple[str, ...]] = {}

    async def of(
        self, data: Mapping[str, Any], me: DiscordIdentity, guild: str | None = None
    ) -> DiscordContext:
        """Of a message or a reaction; `guild` is the server of one from the history."""
        server, channel = data.get("guild_id") or guild, data.get("channel_id")
        if not is_snowflake(server) or not is_snowflake(channel) or "token" in data:
            return DiscordContext()
        mine = await self._roles_of(str(server), me.id) if data.get("mention_roles") else ()
        place = await self.place(str(channel))
        return DiscordContext(
            place=place,
            threads=self._threads
            and place is not None
            and place.opens
            and self.flat.isdisjoint({channel, "*"}),
            guild=str(server),
            mine=frozenset(mine),
            roles=await self._authors_roles(str(server), data),
        )

    async def place(self, channel: str) -> DiscordChannel | None:
        if channel not in self._places:
            try:
                self._places[channel] = place_of(await self._rest.read(f"/channels/{channel}"))
            except Refused:
                self._places[channel] = None
        return self._places[channel]

    def see(self, channels: Any) -> None:
        """The gateway told of channels."""
        for channel in as_dicts(channels):
            if is_snowflake(channel.get("id")):
                self._places[channel["id"]] = place_of(channel)

    async def _authors_roles(self, guild: str, data: Mapping[str, Any]) -> tuple[str, ...]:
        """A message of the history does not tell its author's roles; they are asked for where they count."""
        author = data.get("author")
        if "member" in data or not self._asks_roles or not isinstance(author, dict):
            return ()
        return await self._roles_of(guild, str(author.get("id")))

    async def _roles_of(self, guild: str, user: str) -> tuple[str, ...]:
        key = (guild, user)
        if key not in self._roles:
            self._roles[key] = await self._ask(*key) if is_snowflake(user) else ()
        return self._roles[key]

    async def _ask(self, guild: str, user: str) -> tuple[str, ...]:
        try:
            told = await self._rest.read(f"/guilds/{guild}/members/{user}")
        except Refused:
            return ()
        return tuple(role for role in dig(told, "roles") or () if is_snowflake(role))
