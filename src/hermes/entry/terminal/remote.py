"""The gateway of another process, reached through the owner's socket.

The connection: one stream stays open and tells that the gateway is there, and of turns that no terminal
started. When it breaks the gateway is away; it is looked for again and again, and after a while no longer.
Requests fail at once while it is away, only watching waits: it goes on from the last record that was seen.
Words that were being said meanwhile are safe to say again with their key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp

from hermes.control.commands.run import CallerReply
from hermes.control.turn.questions import AnswerResult
from hermes.domain.errors import HermesError, Refused, UserError
from hermes.domain.event import Entry, FeedItem, ModelSaid, Reset, Snapshot, TextDelta, Verdict
from hermes.domain.ids import QuestionId, SessionId, TurnId
from hermes.domain.sse import SseEvent, SseParser
from hermes.domain.turn import Turn
from hermes.entry.terminal.door import GatewayGone, Presence, ResumedSession, SessionChoice, Visit
from hermes.stream.wire.socket import END, HELLO, SEEN, TURN, decode, decode_seen, encode

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_SILENT_SECONDS = 45.0
"""Longer than the gateway leaves a stream without a sign of life."""
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 1.0
_NOT_DONE = "The gateway is not there, so this was not done. Try again when it is back."
_UNSURE = "The gateway went away before it answered; this may or may not have been done."
_BROKEN = (aiohttp.ClientError, OSError, TimeoutError)
_DRAINING = 503


class GatewayConnection:
    """The connection with a gateway: `async with Line(path) as line`. `hear` is told when it goes and comes,
    `follow` of turns that were not begun by a request of ours."""

    def __init__(self, path: Path, patience: float = PATIENCE_SECONDS) -> None:
        self._path = path
        self._patience = patience
        self._open: aiohttp.ClientSession | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.presence = Presence.AWAY
        self.facts: Mapping[str, Any] = {}
        self.hear: Callable[[Presence], None] = lambda presence: None
        self.follow: Callable[[Turn], None] = lambda turn: None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_SILENT_SECONDS)
        connector = aiohttp.UnixConnector(str(self._path), limit=0, force_close=True)
        self._open = aiohttp.ClientSession("http://gateway", connector=connector, timeout=timeout)
        self._keeping = asyncio.create_task(self._keep(), name="gateway line")
        try:
            await asyncio.wait_for(self._wait_here(), _ANSWER_SECONDS)
        except TimeoutError:
            await self.__aexit__()
            raise GatewayGone("The gateway does not answer.") from None
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        if self._open is not None:
            await self._open.close()

    # --- what others ask for ---

    async def ask(self, path: str, body: Mapping[str, Any], kind: type[T]) -> T:
        """One request and its answer; `GatewayGone` if nobody is there to answer it."""
        if self.presence is not Presence.HERE:
            raise GatewayGone(_NOT_DONE)
        headers, timeout = {"Content-Type": "application/json"}, aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        try:
            async with self._http.post(path, data=encode(body), headers=headers, timeout=timeout) as response:
                data = await response.read()
        except aiohttp.ClientConnectorError as error:
            raise GatewayGone(_NOT_DONE) from error
        except _BROKEN as error:
            raise GatewayGone(_UNSURE, maybe_done=True) from error
        if response.status != 200:
            raise as_error(response.status, data)
        return decode(kind, data)

    async def events(self, path: str, after: int) -> AsyncGenerator[SseEvent]:
        """The events of a stream to its end; `GatewayGone` if it is cut off before."""
        try:
            async with self._http.get(path, params={"after": after}) as response:
                if response.status != 200:
                    raise as_error(response.status, await response.read())
                parser = SseParser()
                async for data in response.content.iter_any():
                    for event in parser.feed(data):
                        yield event
        except _BROKEN as error:
            raise GatewayGone(_NOT_DONE) from error

    async def back(self) -> None:
        """Wait until the gateway is back; `GatewayGone` once we stop waiting. Never returns at once, so
        that a caller who loops lets other tasks run."""
        await asyncio.sleep(_FIRST_DELAY)
        await self._wait_here()

    # --- its life ---

    @property
    def _http(self) -> aiohttp.ClientSession:
        assert self._open is not None, "the line is not open"
        return self._open

    async def _wait_here(self) -> None:
        while self.presence is Presence.AWAY:
            self._news.clear()
            await self._news.wait()
        if self.presence is Presence.LOST:
            raise GatewayGone(Presence.LOST)

    async def _keep(self) -> None:
        delay, since = _FIRST_DELAY, time.monotonic()
        while True:
            try:
                async for event in self.events("/control/events", 0):
                    self._take(event)
            except HermesError:
                pass
            if self.presence is Presence.HERE:
                delay, since = _FIRST_DELAY, time.monotonic()
                self._tell(Presence.AWAY)
            elif time.monotonic() - since > self._patience:
                self._tell(Presence.LOST)
                return
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    def _take(self, event: SseEvent) -> None:
        if event.name == HELLO:
            self.facts = decode(dict[str, Any], event.data)
            self._tell(Presence.HERE)
        elif event.name == TURN:
            self.follow(decode(Turn, event.data))

    def _tell(self, presence: Presence) -> None:
        self.presence = presence
        self._news.set()
        self.hear(presence)


class RemoteDoor:
    """A conversation over a line. It knows itself which session it is in, so that a gateway that was started
    anew can go on with it. A `steady` one never takes words back: what a gateway that came back says again is
    only shown from where it was cut off, unless it is something else."""

    def __init__(
        self, line: GatewayConnection, session: SessionId | None, model: str | None, *, steady: bool = False
    ) -> None:
        self._line = line
        self._session = session
        self._model = model
        self._steady = steady

    async def say(self, text: str, key: str) -> Turn:
        turn = await self._line.ask("/control/say", {**self._inside, "text": text, "key": key}, Turn)
        self._session = turn.session
        return turn

    async def watch(self, turn: TurnId, after: int) -> AsyncIterator[FeedItem]:
        shown = ReplayFilter(steady=self._steady)
        while True:
            try:
                async with aclosing(self._line.events(f"/control/turns/{turn}/events", after)) as events:
                    async for event in events:
                        if event.name == END:
                            return
                        seen = decode_seen(event.data) if event.name == SEEN else None
                        after = seen.seq if isinstance(seen, Entry) else after
                        for item in () if seen is None else shown.see(seen):
                            yield item
            except GatewayGone:
                pass
            await self._line.back()
            shown.cut_off()

    async def answer(self, question: QuestionId, verdict: Verdict, text: str) -> AnswerResult:
        given = {"question": question, "verdict": verdict, "text": text}
        return await self._line.ask("/control/answer", given, AnswerResult)

    async def stop(self, turn: TurnId) -> bool:
        return await self._line.ask("/control/stop", {"turn": turn}, bool)

    async def command(self, text: str) -> CallerReply:
        replied = await self._line.ask("/control/command", {**self._inside, "text": text}, CallerReply)
        self._session = replied.session
        return replied

    @property
    def _inside(self) -> dict[str, str | None]:
        return {"session": self._session, "model": None if self._session else self._model}


class ReplayFilter:
    """What a watcher was shown of the open model call, and how it goes on after the stream was cut off."""

    def __init__(self, *, steady: bool) -> None:
        self._steady = steady
        self._text = ""
        self._before = ""
        self._again = ""

    def cut_off(self) -> None:
        self._before = self._text or self._before
        self._text = self._again = ""

    def see(self, seen: FeedItem) -> list[FeedItem]:
        match seen:
            case Entry(record=ModelSaid(text=text)):
                void = self._is_void(text)
                self._text = self._before = self._again = ""
                return [Reset(), seen] if void else [seen]
            case TextDelta() | Snapshot() if self._before:
                return self._hear_again(seen)
            case Snapshot(text=text):
                self._text = text
            case TextDelta(text=text):
                self._text += text
            case Reset() if self._before:
                return []
            case Reset():
                self._text = ""
            case _:
                pass
        return [seen]

    def _hear_again(self, seen: TextDelta | Snapshot) -> list[FeedItem]:
        """Words that may have been shown before: nothing is written until they are more than that."""
        again = seen.text if isinstance(seen, Snapshot) else self._again + seen.text
        before, self._again = self._before, again
        if before.startswith(again):
            return []
        void = self._is_void(again)
        self._text, self._before, self._again = again, "", ""
        return [Reset(), TextDelta(text=again)] if void else [TextDelta(text=again[len(before) :])]

    def _is_void(self, text: str) -> bool:
        """Whether what was shown before is to be shown again, whole: an answer that lines of ours have broken
        in two is easier to read in one piece."""
        if not self._before or text.strip() == self._before.strip():
            return False
        return not self._steady or not text.startswith(self._before)


async def enter_remote(line: GatewayConnection, wish: SessionChoice, *, steady: bool = False) -> Visit:
    """Come in to the gateway at the other end of a line."""
    found = await line.ask("/control/enter", {"wish": wish}, ResumedSession)
    session = None if found.session is None else found.session.id
    door = RemoteDoor(line, session, wish.model, steady=steady)
    return Visit(
        door=door,
        session=found.session,
        turns=found.turns,
        settled=found.settled,
        commands=found.commands,
        back=line.back,
    )


def as_error(status: int, data: bytes) -> HermesError:
    """What a gateway answers instead, as an error of ours."""
    try:
        told = decode(dict[str, Any], data)["error"]
        message, code = str(told["message"]), str(told["code"])
    except (Refused, LookupError, TypeError):
        return Refused(f"The gateway could not do it ({status}); its log has the details")
    if status == _DRAINING and code == "gateway_draining":
        return GatewayGone(_NOT_DONE)
    return UserError(message) if status < 500 else Refused(message.removesuffix("."))
