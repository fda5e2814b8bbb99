"""The conversations of OpenClaw. Each is a tree of events that grows at its end: in `<session>.jsonl`, or in
newer releases in rows of the agent's database. `sessions.json`, or a row, says which chat it is open in. What
the model was still told is the way from the root to the last event, from the last summary on.

Facts: docs/reference/session-management-compaction.md of openclaw/openclaw, and homes that its releases
2026.6.1 and 2026.9.6 made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, CallId
from hermes.domain.text import one_line, storable
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.moving import MovedMessage, MovedSession
from hermes.domain.turns.session import session_key
from hermes.domain.turns.turn import Speaker
from hermes.state.home.jsonfile import read_mapping
from hermes.state.moving.old_database import opened, rows

PROGRAM = "OpenClaw"
HINT = "Start OpenClaw once, so that it mends it, stop it, and try again."
_DATABASE = "agent/openclaw-agent.sqlite"
_WINDOWS = """SELECT w.session_id, w.session_key, n.current_session_id, n.entry_json FROM session_windows w
    LEFT JOIN session_nodes n ON n.session_key = w.session_key ORDER BY w.created_at, w.session_id"""
_EVENTS = "SELECT event_json FROM transcript_events WHERE session_id = ? ORDER BY seq"
_LARGEST_INDEX = 256 * 1024 * 1024
_SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.AGENT, "toolResult": Speaker.TOOL}
_KINDS = {
    "direct": SourceKind.PRIVATE,
    "dm": SourceKind.PRIVATE,
    "group": SourceKind.GROUP,
    "channel": SourceKind.CHANNEL,
}
_INNER = frozenset(("cron", "hook", "subagent", "acp", "heartbeat"))
_SUMMARY = "What was said before, in short:\n\n"
Event = dict[str, Any]


class OldSession(Struct):
    """As it is stored. `key` is the one it has or had; `entry` is empty if no chat is in it any more."""

    id: str
    key: str
    entry: Mapping[str, Any]
    lines: Iterable[str]


class OldSessions:
    """Those of one agent's folder. `left` says, after they were read, which were left out."""

    def __init__(self, agent: Path) -> None:
        self._agent = agent
        self._inner = self._broken = self._packed = 0

    @property
    def left(self) -> list[str]:
        told = {
            "runs of jobs, hooks and helpers: no conversations": self._inner,
            "lines of conversations: damaged": self._broken,
            "packed conversations: OpenClaw alone can unpack them": self._packed,
        }
        return [f"{count} {what}" for what, count in told.items() if count]

    def __iter__(self) -> Iterator[MovedSession]:
        self._inner = self._broken = self._packed = 0
        seen: set[str] = set()
        for stored in chain(self._of_database(), self._of_files()):
            if stored.id in seen:
                continue
            seen.add(stored.id)
            if not _INNER.isdisjoint(stored.key.split(":")[:3]):
                self._inner += 1
            elif (moved := _moved(stored, list(self._events(stored.lines)))) is not None:
                yield moved

    def _of_database(self) -> Iterator[OldSession]:
        path = self._agent / _DATABASE
        if not path.is_file():
            return
        with opened(path, PROGRAM, HINT) as db:
            for row in list(rows(db, _WINDOWS)):
                ident, current = str(row["session_id"]), row["current_session_id"] == row["session_id"]
                entry = read_object(row["entry_json"]) if current else {}
                yield OldSession(
                    id=ident,
                    key=str(row["session_key"]),
                    entry=entry,
                    lines=[str(event["event_json"]) for event in rows(db, _EVENTS, ident)],
                )

    def _of_files(self) -> Iterator[OldSession]:
        folder = self._agent / "sessions"
        index = folder / "sessions.json"
        known: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for key, entry in read_mapping(index, _LARGEST_INDEX).items():
            if isinstance(entry, dict):
                named = Path(str(entry.get("sessionFile") or f"{entry.get('sessionId')}.jsonl")).name
                known[named] = (key, entry)
        for path in sorted(folder.glob("*.jsonl*")):
            ident, _, ending = path.name.partition(".jsonl")
            if (
                not path.is_file()
                or path.is_symlink()
                or ident.endswith(".trajectory")
                or ".checkpoint." in ident
            ):
                continue
            if ending.endswith((".gz", ".zst")):
                self._packed += 1
            elif not ending or ending.startswith(".reset."):
                key, entry = known.get(path.name, ("", {}))
                yield OldSession(id=ident, key=key, entry=entry, lines=_lines(path))

    def _events(self, lines: Iterable[str]) -> Iterator[Event]:
        for line in lines:
            try:
                event = json.loads(line) if line.strip() else {}
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict):
                yield event
            else:
                self._broken += 1


def read_object(text: object) -> dict[str, Any]:
    """What a text holds, nothing if that is no object."""
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).", hint="Make it readable.") from None


def _moved(stored: OldSession, events: list[Event]) -> MovedSession | None:
    way = _way(events)
    messages = tuple(_messages(way))
    if not messages:
        return None
    entry, models = stored.entry, [event["message"].get("model") for event in way if _is_message(event)]
    named = entry.get("label") or entry.get("displayName") or entry.get("subject")
    return MovedSession(
        id=stored.id,
        title=one_line(named, 200) if isinstance(named, str) else "",
        model=next((model for model in reversed(models) if isinstance(model, str)), ""),
        created_at=messages[0].at,
        updated_at=max(message.at for message in messages),
        key=_key(stored.key, entry) if entry else "",
        messages=messages,
    )


# --- events ------------------------------------------------------------------------------------------


def _way(events: list[Event]) -> list[Event]:
    """From the root to the last event; as they stand where they name no parents."""
    by_id = {
        event["id"]: event for event in events if isinstance(event.get("id"), str) and "parentId" in event
    }
    if not by_id:
        return _since_summary(events)
    way: list[Event] = []
    event: Event | None = next(reversed(by_id.values()))
    while event is not None and len(way) <= len(by_id):
        way.append(event)
        parent = event["parentId"]
        event = by_id.get(parent) if isinstance(parent, str) else None
    return _since_summary(way[::-1])


def _since_summary(way: list[Event]) -> list[Event]:
    for place in reversed(range(len(way))):
        if way[place].get("type") == "compaction":
            kept = way[place].get("firstKeptEntryId")
            first = next((at for at, event in enumerate(way[:place]) if event.get("id") == kept), place)
            return [way[place], *way[first:place], *way[place + 1 :]]
    return way


def _is_message(event: Event) -> bool:
    return event.get("type") == "message" and isinstance(event.get("message"), dict)


def _messages(way: list[Event]) -> Iterator[MovedMessage]:
    for event in way:
        if event.get("type") == "compaction" and isinstance(summary := event.get("summary"), str):
            yield MovedMessage(by=Speaker.USER, at=_moment(event), text=storable(_SUMMARY + summary))
        if not _is_message(event):
            continue
        message = event["message"]
        speaker = _SPEAKERS.get(str(message.get("role")))
        if speaker is not None:
            parts = _parts(message.get("content"))
            yield MovedMessage(
                by=speaker,
                at=_moment(event),
                text=_joined(parts, "text"),
                calls=tuple(_calls(parts)) if speaker is Speaker.AGENT else (),
                call=str(message.get("toolCallId", "")),
                thought=_joined(parts, "thinking"),
            )


def _parts(content: object) -> list[Event]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _joined(parts: list[Event], kind: str) -> str:
    return storable("\n".join(str(part.get(kind, "")) for part in parts if part.get("type") == kind))


def _calls(parts: list[Event]) -> Iterator[ToolCall]:
    for part in parts:
        if part.get("type") == "toolCall" and part.get("id") and part.get("name"):
            arguments = part.get("arguments") or {}
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            yield ToolCall(
                id=CallId(str(part["id"])), name=storable(str(part["name"])), arguments=storable(text)
            )


def _moment(event: Event) -> datetime:
    """An event has its time in words; the message in it in milliseconds."""
    inner = event.get("message")
    stamps = (event.get("timestamp"), inner.get("timestamp") if isinstance(inner, dict) else None)
    for stamp in stamps:
        try:
            if isinstance(stamp, str):
                at = datetime.fromisoformat(stamp)
                return at if at.tzinfo else at.replace(tzinfo=UTC)
            if isinstance(stamp, int | float):
                return datetime.fromtimestamp(stamp / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            continue
    return datetime.fromtimestamp(0, UTC)


# --- chats -------------------------------------------------------------------------------------------


def _key(key: str, entry: Mapping[str, Any]) -> str:
    """The chat that a session is open in, as this program says it; empty if it is in none. All private chats
    may share one session: it goes to the chat that was answered last."""
    _, _, platform, *rest = (*key.split(":"), "", "", "")
    kind, chat = _KINDS.get(rest[0]), ":".join(filter(None, rest[1:]))
    if kind is None:
        kind, platform, chat = SourceKind.PRIVATE, *_last_route(entry)
    chat, _, thread = chat.partition(":topic:")
    if not platform or not chat or (not thread and ":" in chat and not chat.startswith("!")):
        return ""
    address = Address(platform=platform, chat=chat, thread=thread or None)
    kind = SourceKind.THREAD if thread else kind
    return str(session_key(Source(address=address, kind=kind), MAIN_AGENT))  # one for all who write there


def _last_route(entry: Mapping[str, Any]) -> tuple[str, str]:
    for place in ("delivery", "deliveryContext", "route"):
        route = entry.get(place)
        if isinstance(route, dict) and route.get("channel") and route.get("to"):
            return platform_and_chat(route["channel"], route["to"])
    return platform_and_chat(entry.get("lastChannel"), entry.get("lastTo"))


def platform_and_chat(channel: object, to: object) -> tuple[str, str]:
    """Where a message goes: a platform and a chat of it; OpenClaw writes `telegram:77`, `channel:C1`, too."""
    platform, chat = str(channel or ""), str(to or "")
    for prefix in (f"{platform}:", "group:", "channel:", "user:"):
        chat = chat.removeprefix(prefix)
    return platform, chat
