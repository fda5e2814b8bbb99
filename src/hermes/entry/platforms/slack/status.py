"""“… is thinking”: the line that Slack shows in a thread for an app that works, by
`assistant.threads.setStatus`.

Slack takes it away when the app posts there, and after two minutes, but not when the app edits a message. So
it is shown only while we have not spoken since people last did, and an edit takes back what came too late.
What a lost connection forgets Slack ends by itself."""

from __future__ import annotations

import contextlib

from hermes.domain.chats.address import Address
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, Refused
from hermes.entry.kit.payload import Recent
from hermes.entry.platforms.slack.api import SlackApi

_WORDS = "is thinking…"
_AGAIN_SECONDS = 60.0
_MOST = 5000
Place = tuple[str, str]


class SlackStatus:
    def __init__(self, api: SlackApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._shown: Recent[Place, float] = Recent(_MOST)
        self._spoke: Recent[Place, None] = Recent(_MOST)
        self._refused: Recent[Place, None] = Recent(_MOST)

    async def show(self, to: Address) -> None:
        """Outside of threads there is no such line, and nothing is shown."""
        if to.thread is None:
            return
        place, now = (to.chat, to.thread), self._clock.monotonic()
        again = self._shown.get(place, now - _AGAIN_SECONDS) + _AGAIN_SECONDS
        if place in self._spoke or place in self._refused or now < again:
            return
        self._shown[place] = now
        try:
            await self._set(place, _WORDS)
        except Refused:
            # Not in every thread: it is not asked for there again.
            self._refused[place] = None
            raise
        if place in self._spoke:
            # What we said was faster.
            await self._clear(place)

    def heard(self, at: Address) -> None:
        """Somebody said something: who works on it may show that."""
        self._spoke.pop((at.chat, at.thread or ""), None)

    def speak(self, to: Address) -> None:
        """A message is on its way; from then on it shows that we work."""
        if to.thread is not None:
            self._shown.pop((to.chat, to.thread), None)
            self._spoke[to.chat, to.thread] = None

    async def edited(self, at: Address) -> None:
        place = (at.chat, at.thread or "")
        if self._shown.pop(place, None) is not None:
            self._spoke[place] = None
            await self._clear(place)

    async def _clear(self, place: Place) -> None:
        self._shown.pop(place, None)
        with contextlib.suppress(HermesError):
            await self._set(place, "")

    async def _set(self, place: Place, words: str) -> None:
        channel, thread = place
        await self._api.call(
            "assistant.threads.setStatus", channel_id=channel, thread_ts=thread, status=words
        )
