"""Channels and threads: what events do not tell of them, and how threads begin.

Which channel a thread belongs to and who has which role is learnt from what the gateway says of servers, and
asked for where it did not: after a session was taken up it says nothing.

A thread that is begun from a message has that message's id, and there is one at most. So its address is known
before it exists, and nothing has to be remembered: who writes there and finds nothing begins it, in this life
or in the next. Where that is not allowed the answer goes to the channel, as a reply."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.entry.kit.payload import Recent, as_dicts, dig
from hermes.entry.platforms.discord import convert
from hermes.entry.platforms.discord.api import DiscordApi, DiscordResponse

log = logging.getLogger("hermes.discord")
UNKNOWN_CHANNEL, THREAD_EXISTS = 10003, 160004
_QUIET_MINUTES = 1440
"""After a day without a word it is put away; the next word brings it back."""
_MOST_PLACES = 10_000


class DiscordChannels:
    def __init__(self, api: DiscordApi, *, asks_roles: bool, threads: bool, flat: Iterable[str] = ()) -> None:
        self._api = api
        self._asks_roles = asks_roles
        self._threads = threads
        self._flat = set(flat)
        """The channels where no thread is begun for who mentions us."""
        self._places: Recent[str, convert.DiscordChannel | None] = Recent(_MOST_PLACES)
        """Threads are channels, too, and begin all the time; one that is forgotten is asked for."""
        self._roles: dict[tuple[str, str], tuple[str, ...]] = {}

    async def of(
        self, data: Mapping[str, Any], me: convert.DiscordIdentity, guild: str | None = None
    ) -> convert.DiscordContext:
        """Of a message or a reaction; `guild` is the server of one from the history."""
        server, channel = data.get("guild_id") or guild, data.get("channel_id")
        if not convert.is_snowflake(server) or not convert.is_snowflake(channel) or "token" in data:
            return convert.DiscordContext(me=me)
        mine = await self._roles_of(server, me.id) if data.get("mention_roles") else ()
        place = await self.place(channel)
        roles: tuple[str, ...] = ()
        if self._asks_roles and "member" not in data:
            # A message of the history does not tell its author's roles.
            roles = await self._roles_of(server, dig(data, "author", "id"))
        opens = place is not None and place.opens and self._flat.isdisjoint({channel, "*"})
        return convert.DiscordContext(
            me=me,
            place=place,
            threads=self._threads and opens,
            guild=server,
            mine=frozenset(mine),
            roles=roles,
        )

    async def place(self, channel: str) -> convert.DiscordChannel | None:
        if channel not in self._places:
            try:
                self._places[channel] = convert.place_of(await self._api.read(f"/channels/{channel}"))
            except Refused:
                self._places[channel] = None
        return self._places[channel]

    def see(self, channels: Any) -> None:
        for channel in as_dicts(channels):
            if convert.is_snowflake(channel.get("id")):
                self._places[channel["id"]] = convert.place_of(channel)

    async def _roles_of(self, guild: str, user: Any) -> tuple[str, ...]:
        if not convert.is_snowflake(user):
            return ()
        if (guild, user) not in self._roles:
            member = None
            with suppress(Refused):
                member = await self._api.read(f"/guilds/{guild}/members/{user}")
            self._roles[guild, user] = tuple(filter(convert.is_snowflake, dig(member, "roles") or ()))
        return self._roles[guild, user]

    async def open(self, parent: Address, name: str) -> Address:
        """A new thread, or a post in a forum."""
        channel, title = convert.channel_id(replace(parent, thread=None)), one_line(name, 100) or "…"
        place = await self.place(channel)
        if place is not None and place.direct:
            raise Refused("a private chat has no threads")
        asked: dict[str, Any] = {"name": title, "auto_archive_duration": _QUIET_MINUTES}
        forum = place is not None and place.forum
        asked |= {"message": {"content": title}} if forum else {"type": 11}
        if place is not None and place.tag:
            asked["applied_tags"] = [place.tag]
        try:
            thread = await self._api.call("POST", f"/channels/{channel}/threads", asked)
        except Refused:
            if forum:
                raise
            thread = await self._open_at_message(channel, title)
        if not convert.is_snowflake(dig(thread, "id")):
            raise Unreachable("Discord does not say which thread it opened", maybe_done=True)
        self.see([thread])
        return replace(parent, thread=thread["id"])

    async def _open_at_message(self, channel: str, title: str) -> Any:
        """Where a thread by itself is not permitted, one that hangs on a message may be."""
        said = {"content": title, "allowed_mentions": {"parse": []}}
        seed = await self._api.call("POST", f"/channels/{channel}/messages", said)
        path = f"/channels/{channel}/messages/{dig(seed, 'id')}"
        try:
            asked = {"name": title, "auto_archive_duration": _QUIET_MINUTES}
            return await self._api.call("POST", f"{path}/threads", asked)
        except Refused:
            await self._api.ask("DELETE", path)
            raise

    async def inside(
        self, to: Address, ask: Callable[[str], Awaitable[DiscordResponse]]
    ) -> tuple[DiscordResponse, str]:
        """Do something where an address points to, and in which channel it was done: begin the thread if it
        is not there, or do it in the channel that it would belong to."""
        channel = convert.channel_id(to)
        response = await ask(channel)
        if to.thread is None or response.status != 404 or response.code != UNKNOWN_CHANNEL:
            return response, channel
        parent = convert.channel_id(replace(to, thread=None))
        path = f"/channels/{parent}/messages/{channel}"
        root = await self._api.ask("GET", path)
        if root.status == 404:
            # It was another's thread, and is gone: what was said in it is not for the channel.
            return response, channel
        if await self._begin(parent, path, _answered(root)):
            response = await ask(channel)
            if response.status != 403:
                return response, channel
        return (await ask(parent), parent) if root.status < 300 else (response, channel)

    async def _begin(self, parent: str, path: str, message: Any) -> bool:
        """Begin the thread of a message; whether it is there now."""
        asked = {"name": convert.thread_name(message), "auto_archive_duration": _QUIET_MINUTES}
        response = await self._api.ask("POST", f"{path}/threads", asked)
        if response.code == THREAD_EXISTS:
            return True
        begun = _answered(response)
        if begun is not None:
            self.see([begun])
            return True
        log.info("discord.no_thread channel=%s why=%s", parent, response.error)
        if response.status == 403:
            self._flat.add(parent)
        return False


def _answered(response: DiscordResponse) -> Any:
    """What was asked for; None if it is refused, an error of ours if nothing is decided."""
    refused = response.status >= 300 and isinstance(response.error, Refused)
    return None if refused else response.result
