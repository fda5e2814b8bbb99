"""What stands between the adapter and a mail server that we did not write: wires that can be cut, and on the
way out somebody who answers in the server's place when a fault is wanted (RFC 5321, RFC 3463)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from hermes.testing.platform_suite import Fault
from hermes.testing.ports import free_port

Chaos = Callable[[], tuple[Fault, bool] | None]
_TO = re.compile(rb"RCPT TO:<([^>]*)>", re.IGNORECASE)
_ANSWERS = {
    Fault.TOO_FAST: b"450 4.2.1 The user you are trying to contact is receiving mail too quickly\r\n",
    Fault.TOO_FAST_ALL: b"421 4.7.0 Too many messages, try again later\r\n",
    Fault.GONE: b"550 5.1.1 User unknown\r\n",
    Fault.TOO_LONG: b"552 5.3.4 Message size exceeds fixed limit\r\n",
    Fault.REVOKED: b"535 5.7.8 Authentication credentials invalid\r\n",
}


class Wire:
    """Carries bytes to a port on this machine until it is cut."""

    def __init__(self) -> None:
        self.target = 0
        self.port = free_port()
        self.connections = 0
        self.carried = 0
        """Bytes, in both directions."""
        self.waited = False
        """Whether somebody waits for news."""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port, limit=2**20)

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=40)

    def cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.connections += 1
        behind: asyncio.StreamWriter | None = None
        try:
            answers, behind = await asyncio.open_connection("127.0.0.1", self.target, limit=2**20)
            await self.carry(reader, writer, answers, behind)
        except (OSError, EOFError):
            pass
        finally:
            self._open.discard(writer)
            for one in (writer, behind):
                if one is not None:
                    one.transport.abort()

    async def carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        behind: asyncio.StreamWriter,
    ) -> None:
        ways = [
            asyncio.create_task(self._pump(reader, behind)),
            asyncio.create_task(self._pump(answers, writer)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self.carried += len(data)
                self.waited = self.waited or b" IDLE\r\n" in data
                writer.write(data)
                await writer.drain()


@dataclass(slots=True)
class Taken:
    """A mail that the server took."""

    to: list[str]
    data: bytes


@dataclass(slots=True)
class _Talk:
    to: list[str] = field(default_factory=list)
    fault: tuple[Fault, bool] | None = None
    revoked: bool = False


class SmtpWire(Wire):
    """Knows SMTP: what was taken, and what is to go wrong."""

    def __init__(self, own: str) -> None:
        super().__init__()
        self.own = own
        self.taken: list[Taken] = []
        self.chaos: Chaos = lambda: None
        self._failing: dict[str, tuple[Fault, int, bool]] = {}

    def fail(self, fault: Fault, times: int, done: bool, chat: str) -> None:
        self._failing[chat] = (fault, times, done)

    def calm(self) -> None:
        self._failing.clear()

    def _next(self, chat: str) -> tuple[Fault, bool] | None:
        for name in (chat, ""):
            fault, times, done = self._failing.get(name, (Fault.GONE, 0, False))
            if times > 0:
                self._failing[name] = (fault, times - 1, done)
                return fault, done
        return self.chaos()

    async def carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        behind: asyncio.StreamWriter,
    ) -> None:
        writer.write(await _answer(answers))
        talk = _Talk()
        while line := await reader.readline():
            verb = line[:4].upper()
            said = self._instead(verb, line, talk)
            if verb == b"DATA" and talk.fault is not None and talk.fault[0] is Fault.TOO_LONG:
                # The server behind does not hear of it, and so it is ready for the next mail.
                writer.write(b"354 Go ahead\r\n")
                await reader.readuntil(b"\r\n.\r\n")
                said = _ANSWERS[Fault.TOO_LONG]
            if said is None:
                behind.write(line)
                said = await _answer(answers)
                if verb == b"DATA" and said.startswith(b"354"):
                    writer.write(said)
                    said = await self._data(reader, answers, behind, talk)
                    if said is None:
                        return
                elif verb == b"AUTH" and said.startswith(b"334"):
                    writer.write(said)
                    behind.write(await reader.readline())
                    said = await _answer(answers)
            writer.write(said)
            await writer.drain()
            if said.startswith(b"421"):
                return

    def _instead(self, verb: bytes, line: bytes, talk: _Talk) -> bytes | None:
        """What is answered in the server's place."""
        fault, times, _ = self._failing.get("", (None, 0, False))
        if fault is Fault.REVOKED and verb == b"AUTH":
            # A client may try another way to log in: the password is as wrong there.
            talk.revoked = talk.revoked or self._next("") is not None
        if (verb == b"AUTH" and talk.revoked) or (verb == b"MAIL" and fault is Fault.REVOKED and times > 0):
            return _ANSWERS[Fault.REVOKED]
        if verb in (b"MAIL", b"RSET"):
            talk.to, talk.fault = [], None
        match = _TO.match(line)
        if match is None:
            return None
        to = match[1].decode()
        talk.to.append(to)
        if to != self.own:
            talk.fault = self._next(to)
        if talk.fault is not None and talk.fault[0] in (Fault.TOO_FAST, Fault.TOO_FAST_ALL, Fault.GONE):
            return _ANSWERS[talk.fault[0]]
        return None

    async def _data(
        self,
        reader: asyncio.StreamReader,
        answers: asyncio.StreamReader,
        behind: asyncio.StreamWriter,
        talk: _Talk,
    ) -> bytes | None:
        """The mail itself; None if the connection is to die now."""
        data = await reader.readuntil(b"\r\n.\r\n")
        fault, done = talk.fault or (None, True)
        said = b""
        if done:
            behind.write(data)
            said = await _answer(answers)
            if said.startswith(b"250"):
                plain = data[:-5].replace(b"\r\n..", b"\r\n.")
                self.taken.append(Taken(to=[one for one in talk.to if one != self.own], data=plain))
        if fault is Fault.HANG:
            await reader.read()
        return None if fault in (Fault.HANG, Fault.RESET) else said


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """An answer, which may have several lines."""
    lines = b""
    while True:
        line = await reader.readline()
        if not line:
            raise EOFError
        lines += line
        if line[3:4] != b"-":
            return lines
