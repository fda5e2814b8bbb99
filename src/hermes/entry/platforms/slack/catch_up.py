"""What happened while nobody listened: Socket Mode keeps nothing for who is away, and calls that fail are
repeated for minutes only. So at every connect the conversations are read since the stored mark.

A conversation's history has no answers in threads; a thread is found by the message it hangs on, which tells
of its latest answer. Those are looked for a week back."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Receipt
from hermes.domain.clock import Clock
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.entry.kit.payload import as_dicts, as_text, dig
from hermes.entry.platforms.slack.api import SlackApi
from hermes.entry.platforms.slack.compose import is_sent_as
from hermes.entry.platforms.slack.convert import seconds

log = logging.getLogger("hermes.slack")
OVERLAP = 60.0
"""Events of different conversations may come out of order; what is read twice counts once."""
WEEK = 7 * 86_400.0
_TYPES = {"im": "im", "mpim": "mpim", "private_channel": "group", "public_channel": "channel"}
_PAGE = 200
_MOST_PAGES = 50
_MOST_BACK = 3
_PATIENCE = 20


class SlackCursor(Struct):
    """Up to where everything is stored. It stands still while something before may be missing (`whole` is
    not yet)."""

    since: float
    highest: float
    whole: bool

    @classmethod
    def of(cls, cursor: str | None, now: float) -> SlackCursor:
        """From a stored cursor, but not from longer ago than a week: nobody waits for an answer any more. Who
        comes for the first time begins now."""
        since = seconds(cursor)
        oldest = now if since is None else max(since, now - WEEK)
        return cls(since=oldest, highest=0.0, whole=since is None)

    def saw(self, moment: float | None) -> None:
        self.highest = max(self.highest, moment or 0.0)

    @property
    def cursor(self) -> str | None:
        if not self.whole:
            return None
        self.since = max(self.since, self.highest - OVERLAP)
        return f"{self.since:.6f}"


class SlackCatchUp:
    """Reads conversations since a moment, as events."""

    def __init__(self, api: SlackApi, clock: Clock, since: float) -> None:
        self._api = api
        self._clock = clock
        self._since = since

    async def events(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Batches of what was missed, in order within a conversation."""
        for types, kind in _TYPES.items():
            asked = {"types": types, "exclude_archived": True, "limit": _PAGE}
            try:
                async for rooms in _pages(self._patiently, "users.conversations", "channels", asked):
                    for room in filter(None, (as_text(room.get("id")) for room in rooms)):
                        if events := await self._of(room, kind):
                            yield events
            except NeedsLogin as error:
                if "permission" not in str(error):
                    raise
                log.warning("slack.missed_unread types=%s why=%s", types, error)

    async def _of(self, room: str, kind: str) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        threads: list[str] = []
        back = 0
        asked = {"channel": room, "oldest": f"{max(0.0, self._since - WEEK):.6f}", "limit": _PAGE}
        try:
            async for page in _pages(self._patiently, "conversations.history", "messages", asked):
                messages += page
                threads += [str(message.get("ts")) for message in page if self._goes_on(message)]
                back += not any(self._is_new(message) for message in page)
                if back >= _MOST_BACK:
                    break
            for thread in threads:
                asked = {"channel": room, "ts": thread, "oldest": f"{self._since:.6f}", "limit": _PAGE}
                async for page in _pages(self._patiently, "conversations.replies", "messages", asked):
                    messages += [reply for reply in page if reply.get("ts") != thread]
        except Refused as error:
            log.info("slack.missed_unread room=%s why=%s", room, error)
        messages.sort(key=lambda message: seconds(message.get("ts")) or 0.0)
        return [event for message in messages for event in self._events_of(message, room, kind)]

    def _goes_on(self, message: Mapping[str, Any]) -> bool:
        latest = seconds(message.get("latest_reply"))
        return bool(message.get("reply_count")) and (latest is None or latest > self._since)

    def _is_new(self, message: Mapping[str, Any]) -> bool:
        return (seconds(message.get("ts")) or 0.0) > self._since

    def _events_of(self, message: dict[str, Any], room: str, kind: str) -> list[dict[str, Any]]:
        place = {"type": "message", "channel": room, "channel_type": kind}
        events: list[dict[str, Any]] = []
        if self._is_new(message):
            events.append({"subtype": None, **message, **place})
        # What was heard before may have been changed since; what was not is read as it is now.
        heard = (seconds(message.get("ts")) or 0.0) <= self._since + OVERLAP
        if heard and (seconds(dig(message, "edited", "ts")) or 0.0) > self._since:
            events.append({"subtype": "message_changed", "message": message, **place})
        return [{"type": "event_callback", "event": event} for event in events]

    async def _patiently(self, method: str, **asked: Any) -> dict[str, Any]:
        """There may be many conversations, and few calls a minute."""
        for _ in range(_PATIENCE):
            try:
                return await self._api.call(method, **asked)
            except Unreachable as error:
                if error.after is None:
                    raise
                await self._clock.sleep(error.after)
        raise Unreachable("Slack wants us to be slower, again and again")


async def find_sent(api: SlackApi, me: str, to: Address, key: str, since: float) -> Receipt | None:
    """The message of ours that was sent there under a key, since a moment."""
    method = "conversations.history"
    asked = {"channel": to.chat, "include_all_metadata": True, "oldest": f"{since:.6f}", "limit": _PAGE}
    if to.thread is not None:
        method, asked = "conversations.replies", {**asked, "ts": to.thread}

    try:
        async for page in _pages(api.call, method, "messages", asked):
            for message in page:
                if message.get("user") == me and is_sent_as(message, key):
                    return Receipt(to=to, ref=str(message.get("ts")))
    except Refused as error:
        log.info("slack.not_found why=%s", error)
    return None


async def _pages(
    ask: Callable[..., Awaitable[dict[str, Any]]], method: str, name: str, asked: Mapping[str, Any]
) -> AsyncIterator[list[dict[str, Any]]]:
    more: dict[str, Any] = {}
    for _ in range(_MOST_PAGES):
        answer = await ask(method, **asked, **more)
        yield as_dicts(answer.get(name))
        cursor = as_text(dig(answer, "response_metadata", "next_cursor"))
        if not cursor:
            return
        more = {"cursor": cursor}
    log.warning("slack.unread method=%s: there is too much of it", method)
