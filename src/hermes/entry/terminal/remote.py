"""The gateway, reached through the owner's socket of its home, or over HTTP if it is elsewhere.

The connection: one stream stays open and tells that the gateway is there, and of turns that no terminal
started. When it breaks the gateway is away; it is looked for (and, where nobody runs one, started) again and
again, and after a while no longer. Requests fail at once while it is away, only watching waits: it goes on
from the last record that was seen. Words that were being said meanwhile are safe to say again with their
key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self, TypeVar

from hermes.domain.chats.command_line import CallerReply
from hermes.domain.errors import HermesError, Refused, UserError
from hermes.domain.ids import QuestionId, SessionId, TurnId
from hermes.domain.sse import SseEvent, SseParser
from hermes.domain.turns.event import Entry, FeedItem, ModelSaid, Reset, Snapshot, TextDelta, Verdict
from hermes.domain.turns.turn import AnswerResult, Turn
from hermes.domain.word import replace
from hermes.entry.terminal.door import (
    ChatMenu,
    GatewayGone,
    Presence,
    ResumedSession,
    SessionChoice,
    TerminalState,
    Visit,
    WantedPassword,
    new_words_key,
)
from hermes.entry.terminal.elsewhere import HttpAddress
from hermes.entry.terminal.socket_client import BROKEN, NotListening, SocketResponse, request
from hermes.stream.wire.socket import END, HELLO, PASSWORD, PROGRESS, SEEN, TURN, decode, decode_seen, encode

T = TypeVar("T")
Locate = Callable[[], Path | HttpAddress | None]
"""Where the gateway listens; None if it does not yet. A `UserError` says why it never will."""
PATIENCE_SECONDS = 60.0
_FIRST_PATIENCE = 5.0
"""How long a gateway elsewhere is tried that never answered."""
_ANSWER_SECONDS = 30.0
_COMMAND_SECONDS = 90.0
"""Longer than any command takes; a hand-off has a minute."""
_SILENT_SECONDS = 45.0
"""Longer than the gateway leaves a stream without a sign of life."""
_TRIES = 5
"""How often a gateway is tried again that cannot start."""
_FIRST_DELAY, _LONGEST_DELAY = 0.02, 1.0
_NOT_DONE = "The gateway is not there, so this was not done. Try again when it is back."
_UNSURE = "The gateway went away before it answered; this may or may not have been done."
_UNAVAILABLE = 503


class GatewayConnection:
    """The connection with a gateway: `async with GatewayConnection(locate) as line`. `hear` is told when it
    goes and comes, in words for people, `follow` of turns that were not begun by a request of ours."""

    def __init__(self, locate: Locate, patience: float = PATIENCE_SECONDS) -> None:
        self._locate = locate
        self._patience = patience
        self._place: Path | HttpAddress | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._fault: HermesError | None = None
        self.presence = Presence.AWAY
        self.facts: Mapping[str, Any] = {}
        self.hear: Callable[[Presence, str], None] = lambda presence, words: None
        self.follow: Callable[[Turn], None] = lambda turn: None

    async def __aenter__(self) -> Self:
        self._keeping = asyncio.create_task(self._keep(), name="gateway line")
        try:
            await self._wait_here()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))

    @property
    def is_elsewhere(self) -> bool:
        return isinstance(self._place, HttpAddress)

    # --- what others ask for ---

    async def ask(
        self, path: str, body: Mapping[str, Any], kind: type[T], seconds: float = _ANSWER_SECONDS
    ) -> T:
        """One request and its answer; `GatewayGone` if nobody is there to answer it."""
        if self.presence is not Presence.HERE or self._place is None:
            raise GatewayGone(_NOT_DONE)
        try:
            async with asyncio.timeout(seconds), request(self._place, "POST", path, encode(body)) as response:
                status, data = response.status, await response.read()
        except NotListening as error:
            raise GatewayGone(_NOT_DONE) from error
        except BROKEN as error:
            raise GatewayGone(_UNSURE, maybe_done=True) from error
        if status != 200:
            raise as_error(status, data)
        return decode(kind, data)

    async def events(self, path: str, after: int) -> AsyncGenerator[SseEvent]:
        """The events of a stream to its end; `GatewayGone` if it is cut off before."""
        if self._place is None:
            raise GatewayGone(_NOT_DONE)
        try:
            async with request(self._place, "GET", f"{path}?after={after}") as response:
                if response.status != 200:
                    raise as_error(response.status, await response.read())
                parser = SseParser()
                while data := await _piece(response):
                    for event in parser.feed(data):
                        yield event
        except BROKEN as error:
            raise GatewayGone(_NOT_DONE) from error

    async def gone(self) -> None:
        """Wait until a gateway that leaves has left."""
        while self.presence is Presence.HERE:
            self._news.clear()
            await self._news.wait()

    async def back(self) -> None:
        """Wait until the gateway is back; `GatewayGone` once we stop waiting. Never returns at once, so
        that a caller who loops lets other tasks run."""
        await asyncio.sleep(_FIRST_DELAY)
        await self._wait_here()

    # --- its life ---

    async def _wait_here(self) -> None:
        while self.presence is Presence.AWAY:
            self._news.clear()
            await self._news.wait()
        if self.presence is Presence.LOST:
            raise self._fault or GatewayGone(Presence.LOST)

    async def _keep(self) -> None:
        delay, since = _FIRST_DELAY, time.monotonic()
        why = reason = ""
        while True:
            pause = delay
            try:
                self._place = self._locate()
                if self._place is not None:
                    async for event in self.events("/control/events", 0):
                        self._take(event)
            except UserError as error:
                if not self.facts:
                    self._fault = error
                    self._tell(Presence.LOST)
                    return
                # It was here before: what keeps it from starting may be mended while we wait.
                pause = self._patience / _TRIES
                if str(error) != why:
                    why = str(error)
                    self.hear(Presence.AWAY, why)
            except HermesError as error:
                reason = str(error.__cause__ or error)
            is_new = isinstance(self._place, HttpAddress) and not self.facts
            if self.presence is Presence.HERE:
                delay, since, why = _FIRST_DELAY, time.monotonic(), ""
                self._tell(Presence.AWAY)
            elif time.monotonic() - since > (_FIRST_PATIENCE if is_new else self._patience):
                self._fault = self._absence(reason)
                self._tell(Presence.LOST)
                return
            await asyncio.sleep(pause)
            delay = min(2 * delay, _LONGEST_DELAY) if self._place is not None else _FIRST_DELAY

    def _absence(self, reason: str) -> HermesError | None:
        """What is said of a gateway that is waited for no longer; nothing beside the usual words."""
        if isinstance(self._place, HttpAddress):
            url = self._place.url
            lost = f"{url} did not come back; its gateway goes on with what was said."
            return GatewayGone(lost if self.facts else f"No gateway answers at {url} ({reason}).")
        return None if self.facts else GatewayGone("The gateway does not answer.")

    def _take(self, event: SseEvent) -> None:
        if event.name == HELLO:
            self.facts = decode(dict[str, Any], event.data)
            self._tell(Presence.HERE)
        elif event.name == TURN:
            self.follow(decode(Turn, event.data))

    def _tell(self, presence: Presence) -> None:
        self.presence = presence
        self._news.set()
        self.hear(presence, str(self._fault or presence))


async def _piece(response: SocketResponse) -> bytes:
    async with asyncio.timeout(_SILENT_SECONDS):
        return await response.piece()


class RemoteDoor:
    """A conversation over a line. It knows itself which session it is in, so that a gateway that was started
    anew can go on with it. A `steady` one never takes words back: what a gateway that came back says again is
    only shown from where it was cut off, unless it is something else."""

    def __init__(self, line: GatewayConnection, terminal: TerminalState, *, steady: bool = False) -> None:
        self._line = line
        self._terminal = terminal
        self._steady = steady
        self._key = new_words_key()

    async def say(self, text: str, key: str, images: tuple[str, ...] = ()) -> Turn:
        terminal = replace(self._terminal, images=(*self._terminal.images, *images))
        said = {"terminal": terminal, "text": text, "key": key}
        turn = await self._line.ask("/control/say", said, Turn)
        self._terminal = replace(self._terminal, session=turn.session, images=())
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
        said = {"terminal": self._terminal, "text": text, "key": self._key}
        replied = await self._line.ask("/control/command", said, CallerReply, _COMMAND_SECONDS)
        if replied.agent is None:
            self._be_in(replied.session)
        else:  # the next words begin a conversation with that one
            self._terminal = replace(self._terminal, agent=replied.agent, session=None, model=None)
        return replied

    async def look_back(self, session: SessionId) -> ResumedSession:
        return await self._line.ask("/control/recent", {"session": session}, ResumedSession)

    async def menu(self) -> ChatMenu:
        return await self._line.ask("/control/menu", {"terminal": self._terminal}, ChatMenu)

    async def delete(self, session: str) -> None:
        await self._line.ask("/control/delete", {"session": session}, bool)

    async def progress(self) -> AsyncGenerator[str]:
        """How it stands with the command that is being run."""
        async with aclosing(self._line.events(f"/control/commands/{self._key}/progress", 0)) as events:
            async for event in events:
                if event.name == PROGRESS:
                    yield decode(str, event.data)

    def _be_in(self, session: SessionId) -> None:
        self._terminal = replace(self._terminal, session=session)


class RemotePasswords:
    """The `PasswordLine` over a line."""

    def __init__(self, line: GatewayConnection) -> None:
        self._line = line

    async def wanted(self, turn: TurnId) -> AsyncGenerator[WantedPassword]:
        async with aclosing(self._line.events(f"/control/turns/{turn}/passwords", 0)) as events:
            async for event in events:
                if event.name == PASSWORD:
                    yield decode(WantedPassword, event.data)

    async def give(self, request: str, word: str) -> bool:
        return await self._line.ask("/control/password", {"request": request, "word": word}, bool)


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
    resumed = await line.ask("/control/enter", {"wish": wish}, ResumedSession)
    session = None if resumed.session is None else resumed.session.id
    terminal = replace(wish.terminal, agent=resumed.agent, session=session)
    door = RemoteDoor(line, terminal, steady=steady)
    return Visit(
        door=door,
        agent=resumed.agent,
        model=resumed.model,
        session=resumed.session,
        recent=resumed.recent,
        turns=resumed.turns,
        settled=resumed.settled,
        elsewhere=resumed.elsewhere,
        commands=resumed.commands,
        has=resumed.has,
        back=line.back,
        look_back=door.look_back,
        passwords=None if line.is_elsewhere else RemotePasswords(line),
        progress=door.progress,
        menu=door.menu,
        delete=door.delete,
    )


def as_error(status: int, data: bytes) -> HermesError:
    """What a gateway answers instead, as an error of ours."""
    try:
        told = decode(dict[str, Any], data)["error"]
        message, code = str(told["message"]), str(told["code"])
    except (Refused, LookupError, TypeError):
        return Refused(f"The gateway could not do it ({status}); its log has the details")
    if status == _UNAVAILABLE and code == "gateway_draining":
        return GatewayGone(_NOT_DONE)
    if status < 500 or status == _UNAVAILABLE:
        return UserError(message)
    return Refused(message.removesuffix("."))
