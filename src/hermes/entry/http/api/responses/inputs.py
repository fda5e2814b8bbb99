"""What a request of the Responses API says: its items, as a turn takes them, and a turn's words as items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes.domain.chats.message import MediaKind
from hermes.domain.ids import CallId, QuestionId
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.turn import EarlierMessage, Speaker
from hermes.domain.word import replace
from hermes.entry.http.ask import messages
from hermes.entry.http.site.errors import bad_request
from hermes.stream.faces.responses.shape import (
    APPROVAL_PREFIX,
    FunctionCallItem,
    FunctionResultItem,
    FunctionTool,
    OutputText,
)

MOST_KEPT = 100
PICTURES = "(These pictures belong to the results of your calls.)"
_AGENTS = ("reasoning", "mcp_call", "mcp_approval_request", "mcp_list_tools", "function_call")


class InputItem(msgspec.Struct, kw_only=True):
    """A message, a call that was made earlier, its result, the answer to a request for an approval, or a
    reference to an item that is stored here."""

    id: str | None = None
    type: str | None = None
    role: str | None = None
    content: str | list[messages.ContentPart] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str = "{}"
    output: str | list[messages.ContentPart] | None = None
    error: Any = None
    approval_request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None

    @property
    def kind(self) -> str:
        """Some clients leave out the type of a message, and of a reference."""
        return self.type or ("item_reference" if self.id and self.role is None else "message")


class ClientToolSpec(msgspec.Struct, kw_only=True):
    """A tool of the client's; only functions are taken."""

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


class InputFile(msgspec.Struct, kw_only=True, tag_field="type", tag="input_file"):
    """A file that came inside a request; what was in it is not told again."""

    filename: str | None


class InputMessage(msgspec.Struct, kw_only=True, tag_field="type", tag="message"):
    """Words of the user, or of the agent as the client remembers them."""

    id: str
    role: str
    status: str = "completed"
    content: list[InputText | InputImage | InputFile | OutputText]


KeptItem = InputMessage | FunctionCallItem | FunctionResultItem


class ReadInput(Struct, frozen=True, kw_only=True):
    """An input as a turn takes it. `results` of the client's functions and `approvals` are for a turn that
    waits; `follows` says that the user also said something after them."""

    conversation: messages.ConversationInput
    results: tuple[EarlierMessage, ...] = ()
    approvals: Mapping[QuestionId, InputItem] = {}
    follows: bool = False

    @property
    def asked(self) -> dict[QuestionId, str]:
        """The results that a turn of ours asked for."""
        return replace(self.conversation, results=self.results).asked


def read_input(
    given: str | Sequence[InputItem], history: Sequence[messages.ChatMessage], *, cut: bool, chained: bool
) -> ReadInput:
    """What is said now is what the user said last; everything before it is history. If `cut`, only the last
    of it. All of what is `chained` to something is said now; else an input is a whole exchange, and what
    stands before an approval in it was said before that was asked for."""
    earlier: list[EarlierMessage] = []
    instructions: list[str] = []
    approvals: dict[QuestionId, InputItem] = {}
    since = 0
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
            _read_approval(item, f"input[{place}]", approvals)
            if item.kind == "mcp_approval_response" and not chained:
                since = len(earlier)
    read = _now(earlier, "\n\n".join(instructions), approvals, since if approvals else 0)
    if cut:
        kept = read.conversation.history[-MOST_KEPT:]
        while kept and kept[0].by is Speaker.TOOL:
            kept = kept[1:]  # Its call was cut off.
        read = replace(read, conversation=replace(read.conversation, history=kept))
    return read


def read_history(history: Sequence[messages.ChatMessage]) -> messages.ConversationInput:
    """Messages that came before, whoever spoke last."""
    if len(history) > messages.MOST_ITEMS:
        raise bad_request(f"More than {messages.MOST_ITEMS} messages.", param="conversation_history")
    return messages.read_messages([*history, messages.ChatMessage(role="user", content="-")])


def _read_item(item: InputItem, at: str, instructions: list[str], history: list[EarlierMessage]) -> None:
    match item.kind:
        case "message":
            messages.read_message(
                messages.ChatMessage(role=item.role or "", content=item.content), at, instructions, history
            )
        case "function_call":
            if not item.call_id or not item.name:
                raise bad_request("A function_call needs its call_id and name.", param=at)
            _add_call(history, ToolCall(id=CallId(item.call_id), name=item.name, arguments=item.arguments))
        case "function_call_output":
            if not item.call_id:
                raise bad_request("A function_call_output needs its call_id.", param=f"{at}.call_id")
            text, images = messages.read_parts(item.output, at)
            call = CallId(item.call_id)
            history.append(EarlierMessage(by=Speaker.TOOL, text=text, call=call, attachments=images))
        case "mcp_call":
            if not item.id or not item.name:
                raise bad_request("An mcp_call needs its id and name.", param=at)
            call = CallId(item.id)
            _add_call(history, ToolCall(id=call, name=item.name, arguments=item.arguments))
            error = item.error if isinstance(item.error, str) else None
            text, _ = messages.read_parts(item.output or error, at)
            history.append(EarlierMessage(by=Speaker.TOOL, text=text, call=call))
        case "mcp_approval_request" if not (history and history[-1].by is Speaker.AGENT):
            # Else the agent's words before it ask the same.
            wanted = f": {item.name} {item.arguments}" if item.name else ""
            history.append(EarlierMessage(by=Speaker.AGENT, text=f"(I asked for an approval{wanted})"))
        case "reasoning" | "mcp_approval_request" | "mcp_approval_response" | "mcp_list_tools":
            pass
        case other:
            raise bad_request(
                f"Items of the type “{other[:40]}” are not supported; messages, function_call,"
                " function_call_output, mcp_call, mcp_approval_response and item_reference are.",
                param=f"{at}.type",
            )


def _add_call(history: list[EarlierMessage], call: ToolCall) -> None:
    if history and history[-1].by is Speaker.AGENT:
        last = history.pop()
        history.append(EarlierMessage(by=Speaker.AGENT, text=last.text, calls=(*last.calls, call)))
    else:
        history.append(EarlierMessage(by=Speaker.AGENT, calls=(call,)))


def _read_approval(item: InputItem, at: str, approvals: dict[QuestionId, InputItem]) -> None:
    """Answers that the agent has already gone on from are history."""
    if item.kind in _AGENTS or item.role == "assistant":
        approvals.clear()
    if item.kind != "mcp_approval_response":
        return
    if not item.approval_request_id or item.approve is None:
        why = "An mcp_approval_response needs its approval_request_id, and approve: true or false."
        raise bad_request(why, param=at)
    approvals[QuestionId(item.approval_request_id.removeprefix(APPROVAL_PREFIX))] = item


def _now(
    history: Sequence[EarlierMessage],
    instructions: str,
    approvals: Mapping[QuestionId, InputItem],
    since: int,
) -> ReadInput:
    """What is said now stands behind the first `since` messages."""
    rest = history[since:]
    rest = messages.systems_before_last(rest) if rest else rest
    history = [*history[:since], *rest]
    before, now = messages.split_last(rest)
    before = (*history[:since], *before)
    if approvals and (not now or now[0].by is not Speaker.USER):
        going_on = messages.ConversationInput(instructions=instructions, history=tuple(history))
        return ReadInput(conversation=going_on, approvals=approvals)
    if not now or now[0].by is Speaker.AGENT:
        raise bad_request(
            "The input must end with a message of the user, or a function_call_output.", param="input"
        )
    if now[0].by is Speaker.TOOL:
        going_on = messages.ConversationInput(instructions=instructions, history=tuple(history), results=now)
        return ReadInput(conversation=going_on, results=now)
    last_words = _joined(now)
    if not last_words.text.strip() and not last_words.attachments:
        raise bad_request("The input says nothing.", param="input")
    conversation = messages.ConversationInput(
        instructions=instructions, history=before, text=last_words.text, images=last_words.attachments
    )
    last = messages.split_last(before)[1]
    results = last if last and last[0].by is Speaker.TOOL else ()
    return ReadInput(conversation=conversation, results=results, approvals=approvals, follows=True)


def _joined(row: Sequence[EarlierMessage]) -> EarlierMessage:
    """What the user said in a row, as the one message that a turn takes."""
    images = tuple(image for message in row for image in message.attachments)
    words = "\n\n".join(message.text for message in row if message.text)
    return EarlierMessage(by=Speaker.USER, text=words, attachments=images)


def said_before(history: Sequence[EarlierMessage]) -> tuple[EarlierMessage, ...]:
    """A conversation as its turn was given it: up to what the user said last, without what came of that."""
    last = max((place for place, each in enumerate(history, 1) if each.by is Speaker.USER), default=0)
    before, now = messages.split_last(history[:last])
    return (*before, _joined(now)) if now else ()


def read_functions(given: Sequence[ClientToolSpec]) -> list[FunctionTool]:
    """The client's tools, which are functions all."""
    for place, tool in enumerate(given):
        if tool.type != "function":
            raise bad_request(
                f"Tools of the type “{tool.type[:40]}” are not offered here: the agent has its own tools."
                " Leave it out, or offer a function.",
                param=f"tools[{place}]",
                code="unsupported_tool",
            )
    return [
        FunctionTool(
            name=tool.name or "",
            description=tool.description,
            parameters=tool.parameters,
            strict=tool.strict,
        )
        for tool in given
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
            role = "assistant" if message.by is Speaker.AGENT else message.by.value
            items.append(InputMessage(id=f"msg_{ident}", role=role, content=_content(message)))
        for call in message.calls:
            ident = f"fc_{name}_in{len(items)}"
            items.append(
                FunctionCallItem(id=ident, call_id=call.id, name=call.name, arguments=call.arguments)
            )
    return items


def _content(message: EarlierMessage) -> list[InputText | InputImage | InputFile | OutputText]:
    if message.by is Speaker.AGENT:
        return [OutputText(text=message.text)]
    # Pictures that came inside the request are kept here, and have no address.
    shown = (
        InputImage(image_url=file.ref if file.ref.startswith("http") else None)
        if file.kind is MediaKind.IMAGE
        else InputFile(filename=file.name)
        for file in message.attachments
    )
    return [*([InputText(text=message.text)] if message.text else []), *shown]
