"""The home of Hermes Agent. Most of it is used as it stands: config.yaml, .env, SOUL.md, memories, skills,
hooks, jobs and pairings have the same names here. Its conversations are in `state.db`; this reads them.
Facts: the tables `sessions` and `messages` of hermes-agent 0.19.0 (`hermes_state.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from hermes.domain.ids import CallId
from hermes.domain.text import storable
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.moving import MovedMessage, MovedSession
from hermes.domain.turns.turn import Speaker
from hermes.state.moving.old_database import opened, rows

DATABASE = "state.db"
_SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.AGENT, "tool": Speaker.TOOL}
_SESSIONS = "SELECT * FROM sessions ORDER BY started_at, id"
_MESSAGES = "SELECT * FROM messages WHERE session_id = ? ORDER BY id"


class StoredSessions:
    """The conversations in which something was said; a `UserError` if the file is none of that program.
    `left` says, after they were read, what was left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._broken = 0

    @property
    def left(self) -> list[str]:
        return [f"{self._broken} × what tools were asked to do in a message: damaged"] * bool(self._broken)

    def __iter__(self) -> Iterator[MovedSession]:
        self._broken = 0
        with opened(
            self._path, "Hermes Agent", "It must be of version 0.19 or later; start that once, and try again."
        ) as db:
            for row in rows(db, _SESSIONS):
                began = _moment(row["started_at"]) or datetime.fromtimestamp(0, UTC)
                messages = tuple(self._messages(db, str(row["id"]), began))
                if messages:
                    yield _session(row, began, messages)

    def _messages(self, db: apsw.Connection, session: str, at: datetime) -> Iterator[MovedMessage]:
        """What the model was still told of: not what was taken back, nor what a summary stands for."""
        for row in rows(db, _MESSAGES, session):
            speaker = _SPEAKERS.get(str(row["role"]))
            if speaker is None or not row.get("active", 1) or row.get("compacted", 0):
                continue
            try:
                calls = tuple(_calls(row.get("tool_calls")))
            except ValueError:
                calls, self._broken = (), self._broken + 1
            at = _moment(row["timestamp"]) or at  # else the time of what was said before
            yield MovedMessage(
                by=speaker,
                at=at,
                text=_text(row["content"]),
                calls=calls,
                call=_text(row.get("tool_call_id")),
                thought=_text(row.get("reasoning_content") or row.get("reasoning")),
            )


def _session(row: Mapping[str, Any], began: datetime, messages: tuple[MovedMessage, ...]) -> MovedSession:
    open_in_chat = row.get("ended_at") is None and row.get("session_key")
    return MovedSession(
        id=str(row["id"]),
        title=_text(row.get("title")),
        model=_text(row.get("model")),
        created_at=began,
        updated_at=max(messages[-1].at, began),
        key=_text(row["session_key"]) if open_in_chat else "",
        messages=messages,
    )


def _calls(content: object) -> Iterator[ToolCall]:
    """In OpenAI's format, as text."""
    listed = json.loads(content) if isinstance(content, str) and content else []
    for item in listed if isinstance(listed, list) else []:
        function = item.get("function") if isinstance(item, dict) else None
        if isinstance(function, dict) and item.get("id") and function.get("name"):
            arguments = _text(function.get("arguments")) or "{}"
            yield ToolCall(id=CallId(str(item["id"])), name=_text(function["name"]), arguments=arguments)


def _text(value: object) -> str:
    """Contents with pictures are stored as JSON behind a mark; their words are kept."""
    if not isinstance(value, str):
        return ""
    if value.startswith("\0json:"):
        try:
            parts = json.loads(value.removeprefix("\0json:"))
        except ValueError:
            return storable(value.lstrip("\0"))
        texts = (
            [part.get("text", "") for part in parts if isinstance(part, dict)]
            if isinstance(parts, list)
            else []
        )
        return storable("\n".join(filter(None, texts)))
    return storable(value)


def _moment(seconds: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(float(seconds), UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return None
