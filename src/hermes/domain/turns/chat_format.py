"""Records as messages in OpenAI's chat format: what logs, exports and clients are shown of a transcript."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hermes.domain.turns.event import (
    Answered,
    Asked,
    Cleared,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Record,
    Restored,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
)


def as_message(record: Record) -> dict[str, Any] | None:
    """A record as a message, None for what no model is told. A record is always the same message."""
    match record:
        case UserSaid():
            notes = [f"[attached: {file.kind.value}, {file.name or file.ref}]" for file in record.attachments]
            return {"role": "user", "content": "\n".join([record.text, *notes] if record.text else notes)}
        case ModelSaid():
            message: dict[str, Any] = {"role": "assistant", "content": record.text or None}
            if record.calls:
                message["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in record.calls
                ]
            return message
        case ToolFinished():
            return {"role": "tool", "tool_call_id": record.call, "content": record.text}
        case Summarised():
            return {"role": "system", "content": f"[What was said before, summarised:]\n{record.text}"}
        case Undone():
            return {"role": "system", "content": f"[Taken back: everything since record {record.since}.]"}
        case ToolStarted() | Asked() | Answered() | Cleared() | Restored():
            return None
        case Finished() | Failed() | Stopped():
            return None


def as_messages(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [message for entry in entries if (message := as_message(entry.record)) is not None]
