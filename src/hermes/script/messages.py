"""Messages in OpenAI's format that a program brings along, as records of a transcript."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hermes.domain.errors import UserError
from hermes.domain.ids import CallId
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import ModelSaid, Record, ToolFinished, UserSaid


def as_records(messages: Iterable[Mapping[str, Any]]) -> list[Record]:
    """System messages are no part of a transcript."""
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
