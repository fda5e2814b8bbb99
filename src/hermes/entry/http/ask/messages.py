"""Messages in the OpenAI format, as a turn takes them: instructions, what came before, what is said now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from hermes.domain.ids import CallId, QuestionId, question_of_call
from hermes.domain.message import Attachment, MediaKind
from hermes.domain.tool import ToolCall
from hermes.domain.turn import ClientTool, EarlierMessage, Speaker
from hermes.entry.http.site.errors import bad_request

LONGEST_TEXT = 65_536
MOST_ITEMS = 1_000
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_IMAGE_PARTS = ("image_url", "input_image")


class ImageAddress(msgspec.Struct, kw_only=True):
    url: str
    detail: str | None = None


class ContentPart(msgspec.Struct, kw_only=True):
    """A piece of a message: words, or a picture by its address."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | ImageAddress | None = None


class FunctionCall(msgspec.Struct, kw_only=True):
    name: str
    arguments: str = "{}"


class ChatToolCall(msgspec.Struct, kw_only=True):
    """A call that the assistant made earlier."""

    id: str
    type: str = "function"
    function: FunctionCall


class ChatMessage(msgspec.Struct, kw_only=True):
    """One message of a conversation."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionResult:
    """What a client's own function gave: the answer of the call with this id."""

    call: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationInput:
    """A list of messages as a turn takes it. `results` are those at its end, when nothing was said after
    them."""

    instructions: str = ""
    history: tuple[EarlierMessage, ...] = ()
    text: str = ""
    images: tuple[Attachment, ...] = ()
    results: tuple[FunctionResult, ...] = ()
    tools: tuple[ClientTool, ...] = ()

    @property
    def asked(self) -> dict[QuestionId, str]:
        """The results that were asked for by a turn of ours."""
        asked = ((question_of_call(result.call), result.text) for result in self.results)
        return {question: text for question, text in asked if question is not None}

    def instructed(self, instructions: str | None) -> ConversationInput:
        """The same with these instructions before its own."""
        parts = [part for part in (instructions, self.instructions) if part]
        return replace(self, instructions="\n\n".join(parts))


def read_messages(messages: Sequence[ChatMessage]) -> ConversationInput:
    if not messages:
        raise bad_request("There are no messages.", param="messages")
    if len(messages) > MOST_ITEMS:
        raise bad_request(f"More than {MOST_ITEMS} messages.", param="messages")
    instructions: list[str] = []
    history: list[EarlierMessage] = []
    for place, message in enumerate(messages):
        read_message(message, f"messages[{place}]", instructions, history)
    if not history:
        raise bad_request("There is no message of the user.", param="messages")
    return as_conversation("\n\n".join(part for part in instructions if part), history)


def as_conversation(instructions: str, messages: Sequence[EarlierMessage]) -> ConversationInput:
    """What was said last is said now; everything before it is history."""
    last = messages[-1]
    if last.by is Speaker.USER:
        return ConversationInput(
            instructions=instructions, history=tuple(messages[:-1]), text=last.text, images=last.attachments
        )
    if last.by is Speaker.AGENT:
        raise bad_request("The last message must be the user's, or a tool's result.", param="messages")
    start = len(messages)
    while start and messages[start - 1].by is Speaker.TOOL:
        start -= 1
    results = tuple(FunctionResult(call=result.call or "", text=result.text) for result in messages[start:])
    return ConversationInput(instructions=instructions, history=tuple(messages), results=results)


def read_message(
    message: ChatMessage, at: str, instructions: list[str], history: list[EarlierMessage]
) -> None:
    """Add a message to where it belongs: the instructions or the history."""
    text, images = read_parts(message.content, at)
    match message.role:
        case "system" | "developer":
            instructions.append(text)
        case "user":
            history.append(EarlierMessage(by=Speaker.USER, text=text, attachments=images))
        case "assistant":
            calls = tuple(
                ToolCall(id=CallId(made.id), name=made.function.name, arguments=made.function.arguments)
                for made in message.tool_calls or ()
            )
            history.append(EarlierMessage(by=Speaker.AGENT, text=text, calls=calls))
        case "tool" | "function":
            if not message.tool_call_id:
                raise bad_request("A tool's message needs its tool_call_id.", param=f"{at}.tool_call_id")
            history.append(EarlierMessage(by=Speaker.TOOL, text=text, call=CallId(message.tool_call_id)))
        case other:
            raise bad_request(f"“{other[:40]}” is not a role.", param=f"{at}.role")


def read_parts(content: str | Sequence[ContentPart] | None, at: str) -> tuple[str, tuple[Attachment, ...]]:
    """The words and the pictures of a message."""
    if content is None:
        return "", ()
    if isinstance(content, str):
        return content, ()
    if len(content) > MOST_ITEMS:
        raise bad_request(f"More than {MOST_ITEMS} parts.", param=f"{at}.content")
    words: list[str] = []
    images: list[Attachment] = []
    for place, part in enumerate(content):
        if part.type in _TEXT_PARTS:
            words.append((part.text or part.refusal or "")[:LONGEST_TEXT])
        elif part.type in _IMAGE_PARTS:
            images.append(_image(part, f"{at}.content[{place}]"))
        else:
            raise bad_request(
                f"Parts of the type “{part.type[:40]}” are not supported; text and images are.",
                param=f"{at}.content[{place}].type",
                code="unsupported_content_type",
            )
    return "\n".join(words), tuple(images)


def _image(part: ContentPart, at: str) -> Attachment:
    url = part.image_url.url if isinstance(part.image_url, ImageAddress) else part.image_url or ""
    if not url.startswith(("http://", "https://", "data:image/")):
        raise bad_request(
            "An image is an http(s) address or a data:image/… address.",
            param=f"{at}.image_url",
            code="unsupported_content_type",
        )
    return Attachment(kind=MediaKind.IMAGE, ref=url)
