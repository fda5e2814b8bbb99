"""Records as messages in OpenAI's chat format, which logs, exports and clients are shown of a transcript;
and such messages as records, which programs bring along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hermes.domain.errors import UserError
from hermes.domain.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Record,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
)
from hermes.domain.ids import CallId
from hermes.domain.tool import ToolCall


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
        case ToolStarted() | Asked() | Answered() | Finished() | Failed() | Stopped():
            return None


def as_messages(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [message for entry in entries if (message := as_message(entry.record)) is not None]


def as_records(messages: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Messages as records. System messages are no part of a transcript."""
    records: list[Record] = []
    for message in messages:
        text = content_text(message.get("content"))
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


def content_text(content: object) -> str:
    """The words of a message, whose content may be a text or parts."""
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
