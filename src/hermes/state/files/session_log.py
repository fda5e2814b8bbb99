"""Session logs: each session as an append-only JSONL file in OpenAI's message format, beside the database.

The journal is the truth and a log is a copy of it: line n is the n-th message. Its life: what was committed
is noted without waiting, a task writes it a moment later, off the loop. A session that is new to this process
is compared first: a torn last line is cut away, what a crash kept from being written is taken from the
journal. A log that cannot be written is told of and made good at the session's next write. A session that is
to be forgotten has no log, unless somebody comes back to it: then it is written whole."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hermes.domain.errors import HermesError, UserError
from hermes.domain.event import Entry, ModelSaid, Record, ToolFinished, UserSaid
from hermes.domain.ids import AgentId, CallId, SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.tool import ToolCall
from hermes.domain.transcript import as_messages

log = logging.getLogger("hermes.session_log")
FOLDER = "sessions"
GATHER_SECONDS = 0.2
_MOST_NOTED = 2000
_MOST_KNOWN = 1000
_LONGEST_NAME = 120
Place = tuple[AgentId, SessionId]


def log_path(folder: Path, session: SessionId) -> Path:
    """Where a session's log is; ids that people choose are spelled so that they stay in the folder."""
    name = quote(session, safe="")[:_LONGEST_NAME].replace(".", "%2E")
    return folder / f"{name}.jsonl"


class SessionLogs:
    """`committed` is the observer of committed entries; `live` writes until it is cancelled; `write`
    writes what is left. `redact` takes secrets out of each line."""

    def __init__(self, folder: Path, store: Store, redact: Callable[[str], str] = str) -> None:
        self._folder = folder
        self._store = store
        self._redact = redact
        self._noted: dict[Place, list[Entry]] = {}
        self._lengths: OrderedDict[SessionId, int] = OrderedDict()
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()

    def committed(self, agent: AgentId, session: SessionId, entries: Sequence[Entry]) -> None:
        """Note what was committed. Never waits; what grows too large is read again from the journal."""
        if not entries:
            return
        noted = self._noted.setdefault((agent, session), [])
        noted += entries
        if len(noted) > _MOST_NOTED:
            del noted[:-1]
            self._lengths.pop(session, None)
        self._news.set()

    async def live(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(GATHER_SECONDS)
            await self.write()

    async def forget(self, agent: AgentId, session: SessionId) -> None:
        """The session was deleted: its log goes too, and nothing of it is written any more."""
        async with self._writing:
            self._noted.pop((agent, session), None)
            self._lengths.pop(session, None)
            try:
                await asyncio.to_thread(log_path(self._folder, session).unlink, missing_ok=True)
            except OSError as error:
                log.warning("session_log.not_deleted session=%s why=%s", session, error)

    async def write(self) -> None:
        """Write everything that is noted."""
        async with self._writing:
            self._news.clear()
            noted, self._noted = self._noted, {}
            news = {place: entries for place, entries in noted.items() if not self._goes_on(place, entries)}
            found = await self._look_up(news)
            for place, entries in noted.items():
                if place not in news:
                    await self._write(place, entries, self._lengths.pop(place[1]))
                elif place in found:
                    await self._write(place, found[place], None)

    def _goes_on(self, place: Place, entries: Sequence[Entry]) -> bool:
        """Whether the log of a session is known to end right before these entries, or in them."""
        last = self._lengths.get(place[1])
        return last is not None and entries[0].seq <= last + 1

    async def _look_up(self, noted: Mapping[Place, Sequence[Entry]]) -> dict[Place, Sequence[Entry]]:
        """What belongs into the logs of sessions that are new to this process: one query for an agent's,
        for most of them get none."""
        found: dict[Place, Sequence[Entry]] = {}
        for agent in {agent for agent, _ in noted}:
            ours = {place: entries for place, entries in noted.items() if place[0] == agent}
            for _, session in ours:
                self._lengths.pop(session, None)
            try:
                found |= await self._store.scoped(agent).read(partial(_to_write, ours))
            except HermesError as error:
                log.warning("session_log.failed sessions=%d why=%s", len(ours), error)
        return found

    async def _write(self, place: Place, entries: Sequence[Entry], last: int | None) -> None:
        session = place[1]
        try:
            job = _LogAppend(path=log_path(self._folder, session), entries=entries, after=last)
            await asyncio.to_thread(job.run, self._redact)
        except (OSError, HermesError) as error:
            log.warning("session_log.failed session=%s why=%s", session, error)
            return
        if entries:
            self._lengths[session] = max(last or 0, entries[-1].seq)
        while len(self._lengths) > _MOST_KNOWN:
            self._lengths.popitem(last=False)


def _to_write(noted: Mapping[Place, Sequence[Entry]], tx: Tx) -> dict[Place, Sequence[Entry]]:
    """What belongs into the logs of sessions that are new to this process, of those that get one."""
    found: dict[Place, Sequence[Entry]] = {}
    for place, entries in noted.items():
        known = tx.sessions.get(place[1])
        if known is not None and known.expires_at is None:
            found[place] = tx.journal.read(known.id) if entries[0].seq > 1 else entries
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogAppend:
    """Entries to append, in a thread: those behind `after`, or all for which there is no line yet."""

    path: Path
    entries: Sequence[Entry]
    after: int | None

    def run(self, redact: Callable[[str], str]) -> None:
        messages = as_messages(entry for entry in self.entries if entry.seq > (self.after or 0))
        if not messages:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(self.path, flags, 0o600), "r+b", buffering=0) as file:
            if self.after is None:
                messages = messages[_whole_lines(file.fileno()) :]
            lines = [redact(json.dumps(message, ensure_ascii=False)) + "\n" for message in messages]
            _write_all(file.fileno(), "".join(lines).encode("utf-8", "replace"))


def _whole_lines(descriptor: int) -> int:
    """How many lines a file has, after cutting off one that was not written to its end."""
    count, size, end = 0, 0, 0
    while piece := os.pread(descriptor, 1 << 20, size):
        count += piece.count(b"\n")
        if (last := piece.rfind(b"\n")) >= 0:
            end = size + last + 1
        size += len(piece)
    if end < size:
        os.ftruncate(descriptor, end)
    return count


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


# --- the way back ------------------------------------------------------------------------------------


def as_records(messages: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Messages in OpenAI's format as records. System messages are no part of a transcript."""
    records: list[Record] = []
    for message in messages:
        text = message_text(message)
        match message.get("role"):
            case "user":
                records.append(UserSaid(text=text))
            case "assistant":
                records.append(ModelSaid(text=text, calls=tuple(_calls(message))))
            case "tool":
                records.append(ToolFinished(call=CallId(str(message.get("tool_call_id", ""))), text=text))
            case "system" | "developer":
                pass
            case role:
                raise UserError(
                    f"“{role}” is not a role of a message.", hint="user, assistant, tool, system."
                )
    return records


def message_text(message: Mapping[str, Any]) -> str:
    """The words of a message, whose content may be a text or parts."""
    return content_text(message.get("content"))


def content_text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise UserError("The content of a message must be a text or a list of parts.")
    texts = []
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") not in ("text", "input_text"):
            raise UserError("Only text parts can be sent to the model in this version.")
        texts.append(str(part.get("text", "")))
    return "\n".join(texts)


def _calls(message: Mapping[str, Any]) -> Iterable[ToolCall]:
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield ToolCall(
            id=CallId(str(call.get("id", ""))),
            name=str(function.get("name", "")),
            arguments=str(function.get("arguments", "{}")),
        )
