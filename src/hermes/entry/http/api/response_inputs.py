"""What a request of the Responses API says: its items, as a turn takes them, and a turn's words as items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.domain.ids import CallId
from hermes.domain.tool import ToolCall
from hermes.domain.turn import EarlierMessage, Speaker
from hermes.domain.word import replace
from hermes.entry.http.ask import messages
from hermes.entry.http.site.errors import bad_request
from hermes.stream.faces.response_shape import FunctionCallItem, FunctionResultItem, FunctionTool, OutputText

MOST_KEPT = 100
GO_ON = "Go on with these results."
_UNHEARD = ("reasoning",)


class InputItem(msgspec.Struct, kw_only=True):
    """A message, a call that was made earlier, or what such a call gave."""

    type: str = "message"
    role: str | None = None
    content: str | list[messages.ContentPart] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str = "{}"
    output: str | list[messages.ContentPart] | None = None


class ClientToolSpec(msgspec.Struct, kw_only=True):
    """A tool of the client's. Only functions are taken; other types are ignored."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class InputText(msgspec.Struct, kw_only=True, tag_field="type", tag="input_text"):
    text: str


class InputImage(msgspec.Struct, kw_only=True, tag_field="type", tag="input_image"):
    image_url: str | None
    detail: str = "auto"


class InputMessage(msgspec.Struct, kw_only=True, tag_field="type", tag="message"):
    """Words of the user, or of the agent as the client remembers them."""

    id: str
    role: str
    status: str = "completed"
    content: list[InputText | InputImage | OutputText]


KeptItem = InputMessage | FunctionCallItem | FunctionResultItem


def read_input(
    given: str | Sequence[InputItem], history: Sequence[messages.ChatMessage], *, cut: bool
) -> messages.ConversationInput:
    """What is said now is what the user said last; everything before it is history. If `cut`, only the last
    of it."""
    earlier: list[EarlierMessage] = []
    instructions: list[str] = []
    if history:
        before = read_history(history)
        instructions += [before.instructions] if before.instructions else []
        earlier += before.history
    if isinstance(given, str):
        earlier.append(EarlierMessage(by=Speaker.USER, text=given))
    else:
        if not given:
            raise bad_request("The input is empty.", param="input")
        if len(given) > messages.MOST_ITEMS:
            raise bad_request(f"More than {messages.MOST_ITEMS} items.", param="input")
        for place, item in enumerate(given):
            _read_item(item, f"input[{place}]", instructions, earlier)
    conversation = _now(earlier, "\n\n".join(instructions))
    return replace(conversation, history=conversation.history[-MOST_KEPT:]) if cut else conversation


def read_history(history: Sequence[messages.ChatMessage]) -> messages.ConversationInput:
    """Messages that came before, whoever spoke last."""
    if len(history) > messages.MOST_ITEMS:
        raise bad_request(f"More than {messages.MOST_ITEMS} messages.", param="conversation_history")
    return messages.read_messages([*history, messages.ChatMessage(role="user", content="-")])


def _read_item(item: InputItem, at: str, instructions: list[str], history: list[EarlierMessage]) -> None:
    match item.type:
        case "message":
            messages.read_message(
                messages.ChatMessage(role=item.role or "", content=item.content), at, instructions, history
            )
        case "function_call":
            if not item.call_id or not item.name:
                raise bad_request("A function_call needs its call_id and name.", param=at)
            call = ToolCall(id=CallId(item.call_id), name=item.name, arguments=item.arguments)
            if history and history[-1].by is Speaker.AGENT:
                last = history.pop()
                history.append(EarlierMessage(by=Speaker.AGENT, text=last.text, calls=(*last.calls, call)))
            else:
                history.append(EarlierMessage(by=Speaker.AGENT, calls=(call,)))
        case "function_call_output":
            if not item.call_id:
                raise bad_request("A function_call_output needs its call_id.", param=f"{at}.call_id")
            text, _ = messages.read_parts(item.output, at)
            history.append(EarlierMessage(by=Speaker.TOOL, text=text, call=CallId(item.call_id)))
        case other if other in _UNHEARD:
            pass
        case other:
            raise bad_request(
                f"Items of the type “{other[:40]}” are not supported; messages, function_call and"
                " function_call_output are.",
                param=f"{at}.type",
            )


def _now(history: Sequence[EarlierMessage], instructions: str) -> messages.ConversationInput:
    before, now = messages.split_last(history)
    if not now or now[0].by is Speaker.AGENT:
        raise bad_request(
            "The input must end with a message of the user, or a function_call_output.", param="input"
        )
    if now[0].by is Speaker.TOOL:
        return messages.ConversationInput(
            instructions=instructions, history=tuple(history), text=GO_ON, results=now
        )
    images = tuple(image for message in now for image in message.attachments)
    words = "\n\n".join(message.text for message in now if message.text)
    if not words.strip() and not images:
        raise bad_request("The input says nothing.", param="input")
    return messages.ConversationInput(instructions=instructions, history=before, text=words, images=images)


def read_functions(given: Sequence[ClientToolSpec]) -> list[FunctionTool]:
    """The functions among the client's tools."""
    return [
        FunctionTool(
            name=tool.name or "",
            description=tool.description,
            parameters=tool.parameters,
            strict=tool.strict,
        )
        for tool in given
        if tool.type == "function"
    ]


def as_items(history: Sequence[EarlierMessage], name: str) -> list[KeptItem]:
    """Earlier messages, each as the item that it came as; `name` makes their ids."""
    items: list[KeptItem] = []
    for message in history:
        ident = f"{name}_in{len(items)}"
        if message.by is Speaker.TOOL:
            items.append(
                FunctionResultItem(id=f"fco_{ident}", call_id=message.call or "", output=message.text)
            )
            continue
        if message.text or message.attachments:
            role = "user" if message.by is Speaker.USER else "assistant"
            items.append(InputMessage(id=f"msg_{ident}", role=role, content=_content(message)))
        for call in message.calls:
            ident = f"fc_{name}_in{len(items)}"
            items.append(
                FunctionCallItem(id=ident, call_id=call.id, name=call.name, arguments=call.arguments)
            )
    return items


def _content(message: EarlierMessage) -> list[InputText | InputImage | OutputText]:
    if message.by is Speaker.AGENT:
        return [OutputText(text=message.text)]
    words: list[InputText | InputImage | OutputText] = [InputText(text=message.text)] if message.text else []
    # Pictures that came inside the request are kept here, and have no address.
    places = [image.ref if image.ref.startswith("http") else None for image in message.attachments]
    return [*words, *(InputImage(image_url=place) for place in places)]
