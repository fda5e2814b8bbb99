"""Threads: opened by name, and begun from a message that mentioned us.

A thread that is begun from a message has that message's id, and there is one at most. So its address is known
before it exists, and nothing has to be remembered: who writes there and finds nothing begins it, in this life
or in the next. Where that is not allowed the answer goes to the channel, as a reply."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from hermes.domain.address import Address
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.text import one_line
from hermes.entry.kit.payload import dig
from hermes.entry.platforms.discord.api import DiscordApi, DiscordResponse
from hermes.entry.platforms.discord.convert import channel_id, is_snowflake, thread_name
from hermes.entry.platforms.discord.scenes import DiscordDirectory

log = logging.getLogger("hermes.discord")
UNKNOWN_CHANNEL, THREAD_EXISTS = 10003, 160004
_QUIET_MINUTES = 1440
"""After a day without a word it is put away; the next word brings it back."""
Ask = Callable[[str], Awaitable[DiscordResponse]]
"""A request about a channel."""


class DiscordThreads:
    def __init__(self, rest: DiscordApi, scenes: DiscordDirectory) -> None:
        self._rest = rest
        self._scenes = scenes

    async def open(self, parent: Address, name: str) -> Address:
        """A new thread, or a post in a forum."""
        channel, title = channel_id(replace(parent, thread=None)), one_line(name, 100) or "…"
        place = await self._scenes.place(channel)
        if place is not None and place.direct:
            raise Refused("a private chat has no threads")
        asked: dict[str, Any] = {"name": title, "auto_archive_duration": _QUIET_MINUTES}
        asked |= {"message": {"content": title}} if place is not None and place.forum else {"type": 11}
        told = await self._rest.call("POST", f"/channels/{channel}/threads", asked)
        if not is_snowflake(dig(told, "id")):
            raise Unreachable("Discord does not say which thread it opened", maybe_done=True)
        self._scenes.see([told])
        return replace(parent, thread=told["id"])

    async def inside(self, to: Address, ask: Ask) -> tuple[DiscordResponse, str]:
        """Do something where an address points to, and in which channel it was done: begin the thread if it
        is not there, or do it in the channel that it would belong to."""
        channel = channel_id(to)
        told = await ask(channel)
        if to.thread is None or told.status != 404 or told.code != UNKNOWN_CHANNEL:
            return told, channel
        parent = channel_id(replace(to, thread=None))
        path = f"/channels/{parent}/messages/{channel}"
        root = await self._rest.ask("GET", path)
        if root.status == 404:
            # It was another's thread, and is gone: what was said in it is not for the channel.
            return told, channel
        if await self._begin(parent, path, _answered(root)):
            told = await ask(channel)
            if told.status != 403:
                return told, channel
        return (await ask(parent), parent) if root.status < 300 else (told, channel)

    async def _begin(self, parent: str, path: str, message: Any) -> bool:
        """Begin the thread of a message; whether it is there now."""
        asked = {"name": thread_name(message), "auto_archive_duration": _QUIET_MINUTES}
        told = await self._rest.ask("POST", f"{path}/threads", asked)
        if told.code == THREAD_EXISTS:
            return True
        begun = _answered(told)
        if begun is not None:
            self._scenes.see([begun])
            return True
        log.info("discord.no_thread channel=%s why=%s", parent, told.error)
        if told.status == 403:
            self._scenes.flat.add(parent)
        return False


def _answered(response: DiscordResponse) -> Any:
    """What was asked for; None if it is refused, an error of ours if nothing is decided."""
    refused = response.status >= 300 and isinstance(response.error, Refused)
    return None if refused else response.result
