"""What a request says, in the OpenAI format, as a turn takes it: instructions, what came before, what is said
now, with its pictures, and the client's own functions that the agent may call."""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import b64decode
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ids import AgentId, CallId, QuestionId, question_of_call
from hermes.domain.models.call_options import CallOptions
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.turn import ClientTool, EarlierMessage, Speaker, TurnInput
from hermes.domain.word import replace
from hermes.entry.http.site.endpoint import HttpCall
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.stream.faces.responses.shape import FunctionTool
from hermes.stream.fold.questions import printed_question, read_word

MOST_ITEMS = 1_000
GO_ON = "[Go on exactly where your last message stops. Do not repeat anything, and do not comment on this.]"
SEE_PICTURE = "(The answer is the picture that comes with it.)"
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_FILE_PARTS = ("file", "input_file")
_IMAGE_PARTS = ("image_url", "input_image")
MOST_TOOLS = 128
_NAME = late_pattern(r"[A-Za-z0-9_-]{1,64}")
_SAYS = late_pattern(r"\A\[[^\s\[\]]{1,64}\] ")
_SPEAKER = late_pattern(r"[^\s\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069<>|\[\]\\/]{1,64}")
MOST_BYTES = 5_000_000
_DATA = late_pattern(r"data:(image/[a-z0-9.+-]{1,40})((?:;[a-z0-9=_-]{1,40})*);base64,", re.IGNORECASE)
_LARGE = 100_000
_OPENINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
_SAME = {"image/jpg": "image/jpeg"}


class ImageAddress(msgspec.Struct, kw_only=True):
    url: str
    detail: str | None = None


class FileContent(msgspec.Struct, kw_only=True):
    """A file inside a request: its bytes in base64, alone or as a `data:` address, and its name."""

    file_data: str | None = None
    filename: str | None = None
    file_id: str | None = None
    file_url: str | None = None


class ContentPart(FileContent, kw_only=True):
    """A piece of a message: words, a picture by its address, or a file (in `file`, or by its own fields)."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | ImageAddress | None = None
    file: FileContent | None = None


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


class ConversationInput(Struct, frozen=True, kw_only=True):
    """A list of messages as a turn takes it. `results` are those at its end, when nothing was said after
    them. If it `continues`, the agent's own last message is to be gone on with."""

    instructions: str = ""
    history: tuple[EarlierMessage, ...] = ()
    text: str = ""
    images: tuple[Attachment, ...] = ()
    results: tuple[EarlierMessage, ...] = ()
    tools: tuple[ClientTool, ...] = ()
    options: CallOptions | None = None
    continues: bool = False

    @property
    def wants_data(self) -> bool:
        """Whether the answer is to be JSON, which nothing may be added to."""
        return self.options is not None and self.options.json is not None

    @property
    def messages(self) -> tuple[EarlierMessage, ...]:
        """All of it, as a turn takes it."""
        if self.results:
            return self.history
        return (*self.history, EarlierMessage(by=Speaker.USER, text=self.text, attachments=self.images))

    @property
    def reply(self) -> str:
        """What is said to a question: a word that answers counts without the name of who says it."""
        word = _SAYS.sub("", self.text, count=1)
        said = self.text if read_word(word) is None else word
        return said or (SEE_PICTURE if self.images else "")

    @property
    def shown(self) -> TurnInput | None:
        """The pictures that come with an answer, which takes words alone: they join the turn."""
        return TurnInput(attachments=self.images) if self.images else None

    @property
    def answers(self) -> QuestionId | None:
        """The question that the agent's last message ends with, if these words come right after it."""
        last = self._said[-1] if self._said else None
        if last is None or last.by is not Speaker.AGENT or last.calls or self.continues:
            return None
        return printed_question(last.text)

    @property
    def last_words(self) -> str:
        """The message that these words come right after."""
        return self._said[-1].text if self._said else ""

    @property
    def before_question(self) -> tuple[EarlierMessage, ...]:
        """The `messages` of the request whose answer the agent's last message was."""
        if len(self._said) < 2:
            return ()
        *before, last = self._said[:-1]
        if last.by is Speaker.AGENT:
            return (*before, last, EarlierMessage(by=Speaker.USER, text=GO_ON))
        return (*before, replace(last, text=_words_of(last)) if last.by is Speaker.USER else last)

    @property
    def _said(self) -> tuple[EarlierMessage, ...]:
        return tuple(message for message in self.history if message.by is not Speaker.SYSTEM)

    @property
    def stray_result(self) -> str | None:
        """The call of a result that no message before it makes."""
        made: set[CallId | None] = set()
        for message in self.history:
            made.update(call.id for call in message.calls)
            if message.by is Speaker.TOOL and message.call not in made:
                return message.call
        return None

    @property
    def pictured(self) -> frozenset[QuestionId]:
        """The questions of `asked` whose results bring pictures."""
        asked = (question_of_call(result.call or "") for result in self.results if result.attachments)
        return frozenset(question for question in asked if question is not None)

    @property
    def in_session(self) -> ConversationInput:
        """As a session takes it, which has its own history: what was said now, and all instructions."""
        told = [message.text for message in self.history if message.by is Speaker.SYSTEM]
        instructions = "\n\n".join(part for part in (self.instructions, *told) if part)
        return replace(self, instructions=instructions, history=())

    @property
    def asked(self) -> dict[QuestionId, str]:
        """The results that were asked for by a turn of ours."""
        asked = ((question_of_call(result.call or ""), result.text) for result in self.results)
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
    """What was said last is said now; everything before it is history. A reply of the agent that stands last
    is to be continued."""
    messages = systems_before_last(messages)
    last = messages[-1]
    if last.by is Speaker.USER:
        return ConversationInput(
            instructions=instructions,
            history=tuple(messages[:-1]),
            text=_words_of(last),
            images=last.attachments,
        )
    if last.by is Speaker.AGENT and (last.calls or not last.text.strip()):
        raise bad_request(
            "The last message must be the user's, a tool's result, or a reply to continue.", param="messages"
        )
    if last.by is Speaker.AGENT:
        return ConversationInput(
            instructions=instructions, history=tuple(messages), text=GO_ON, continues=True
        )
    results = split_last(messages)[1]
    return ConversationInput(instructions=instructions, history=tuple(messages), results=results)


def _words_of(message: EarlierMessage) -> str:
    """No words at all would mean that nothing was said after the history."""
    return message.text or ("" if message.attachments else " ")


def systems_before_last(messages: Sequence[EarlierMessage]) -> Sequence[EarlierMessage]:
    """Instructions that stand last come before what was said last: that is what the turn answers."""
    if messages[-1].by is not Speaker.SYSTEM:
        return messages
    place = max((at for at, each in enumerate(messages) if each.by is not Speaker.SYSTEM), default=0)
    earlier, last = split_last(messages[: place + 1])
    return [*earlier, *messages[place + 1 :], *last]


def split_last(
    messages: Sequence[EarlierMessage],
) -> tuple[tuple[EarlierMessage, ...], tuple[EarlierMessage, ...]]:
    """What came before, and what one speaker said last in a row."""
    start = len(messages)
    while start and messages[start - 1].by is messages[-1].by:
        start -= 1
    return tuple(messages[:start]), tuple(messages[start:])


def read_message(
    message: ChatMessage, at: str, instructions: list[str], history: list[EarlierMessage]
) -> None:
    """Add a message to where it belongs: the instructions or the history."""
    text, images = read_parts(message.content, at, files=message.role == "user")
    match message.role:
        case "system" | "developer" if history:
            history.append(EarlierMessage(by=Speaker.SYSTEM, text=text))
        case "system" | "developer":
            instructions.append(text)
        case "user" if message.content is None:
            raise bad_request("A message of the user needs its content.", param=f"{at}.content")
        case "user":
            text = f"{_named(message.name, at)}{text}"
            history.append(EarlierMessage(by=Speaker.USER, text=text, attachments=images))
        case "assistant":
            calls = tuple(
                ToolCall(id=CallId(made.id), name=made.function.name, arguments=made.function.arguments)
                for made in message.tool_calls or ()
            )
            history.append(EarlierMessage(by=Speaker.AGENT, text=text, calls=calls))
        case "function":
            why = "The role “function” is no longer supported: send results with the role “tool”."
            raise bad_request(why, param=f"{at}.role")
        case "tool":
            if not message.tool_call_id:
                raise bad_request("A tool's message needs its tool_call_id.", param=f"{at}.tool_call_id")
            call = CallId(message.tool_call_id)
            history.append(EarlierMessage(by=Speaker.TOOL, text=text, call=call, attachments=images))
        case other:
            raise bad_request(f"“{other[:40]}” is not a role.", param=f"{at}.role")


def _named(name: str | None, at: str) -> str:
    """Who of several people speaks, as the words of chats with several people say it."""
    if name is None:
        return ""
    if not _SPEAKER.fullmatch(name):
        why = "A name is 1 to 64 characters without spaces, brackets and slashes."
        raise bad_request(why, param=f"{at}.name")
    return f"[{name}] "


def read_parts(
    content: str | Sequence[ContentPart] | None, at: str, *, files: bool = False
) -> tuple[str, tuple[Attachment, ...]]:
    """The words and the pictures of a message, and its files, if it may have any."""
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
            words.append(part.text or part.refusal or "")
        elif part.type in _IMAGE_PARTS:
            images.append(_image(part, f"{at}.content[{place}]"))
        elif part.type in _FILE_PARTS and files:
            images.append(_file(part.file or part, f"{at}.content[{place}]"))
        else:
            raise bad_request(
                f"Parts of the type “{part.type[:40]}” are not supported here; text and images are"
                f"{', and files' if files else ''}.",
                param=f"{at}.content[{place}].type",
                code="unsupported_content_type",
            )
    return "\n".join(words), tuple(images)


def _file(given: FileContent, at: str) -> Attachment:
    if given.file_data is None:
        why = "A file is sent inside the request, as file_data: nothing is uploaded or fetched here."
        raise bad_request(why, param=f"{at}.file_data", code="unsupported_content_type")
    data = given.file_data.partition(";base64,")[2] if given.file_data[:5] == "data:" else given.file_data
    return Attachment(kind=MediaKind.FILE, ref=data, name=given.filename or None)


def _image(part: ContentPart, at: str) -> Attachment:
    url = part.image_url.url if isinstance(part.image_url, ImageAddress) else part.image_url or ""
    if not url.startswith(("http://", "https://", "data:image/")):
        raise bad_request(
            "An image is an http(s) address or a data:image/… address.",
            param=f"{at}.image_url",
            code="unsupported_content_type",
        )
    return Attachment(kind=MediaKind.IMAGE, ref=url)


async def keep_pictures(call: HttpCall, agent: AgentId, conversation: ConversationInput) -> ConversationInput:
    """The same conversation with its pictures checked and stored, so that a turn only names them. Addresses
    on the web are passed on, but not one that leads to this machine or its network: the model's server may
    stand there, and would fetch it."""
    history = [
        replace(earlier, attachments=_sent_before(await keep_attachments(call, agent, earlier.attachments)))
        for earlier in conversation.history
    ]
    images = await keep_attachments(call, agent, conversation.images)
    return replace(conversation, history=tuple(history), images=images)


def _sent_before(files: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """Files of earlier messages are told of, not brought to where commands see them again."""
    return tuple(
        replace(file, pending=False, note="" if file.text else "sent earlier, not at hand now")
        if file.pending
        else file
        for file in files
    )


async def keep_attachments(
    call: HttpCall, agent: AgentId, images: Sequence[Attachment]
) -> tuple[Attachment, ...]:
    kept: list[Attachment] = []
    for image in images:
        if image.kind is MediaKind.FILE:
            kept.append(await _keep_file(call, agent, image))
            continue
        if not image.ref.startswith("data:"):
            if not call.site.options.private_images:
                await _check_address(call, image.ref)
            kept.append(image)
            continue
        # A large picture takes milliseconds to decode, which nobody else's stream should wait for.
        read = asyncio.to_thread(read_picture, image.ref) if len(image.ref) > _LARGE else None
        mime, data = read_picture(image.ref) if read is None else await read
        kept.append(await call.gateway.keep_media(agent, data, mime))
    return tuple(kept)


async def _keep_file(call: HttpCall, agent: AgentId, file: Attachment) -> Attachment:
    try:
        data = await asyncio.to_thread(b64decode, file.ref, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("The file's data is not base64.", code="invalid_file") from None
    return await call.gateway.keep_file(agent, data, file.name)


async def _check_address(call: HttpCall, url: str) -> None:
    try:
        await call.site.egress.check(url)
    except (Refused, Unreachable) as error:
        raise _wrong(f"A picture's address cannot be passed on: {error} Send it as data.") from None


def read_picture(address: str) -> tuple[str, bytes]:
    """The type and the bytes of a `data:` address; a complaint if they are not what they say."""
    head = _DATA.match(address)
    if head is None:
        raise _wrong("A picture's data address looks like this: data:image/png;base64,…")
    mime = head[1].lower()
    mime = _SAME.get(mime, mime)
    if mime not in _OPENINGS:
        raise _wrong("Pictures may be PNG, JPEG, GIF or WebP.")
    if (len(address) - head.end()) // 4 * 3 > MOST_BYTES + 2:
        raise ApiError(400, "image_too_large", f"A picture has at most {MOST_BYTES:,} bytes.")
    try:
        data = b64decode(address[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise _wrong("The picture's data is not base64.") from None
    if not data.startswith(_OPENINGS[mime]):
        raise _wrong(f"The picture's data is not {mime.partition('/')[2].upper()}.")
    if len(data) > MOST_BYTES:
        raise ApiError(400, "image_too_large", f"A picture has at most {MOST_BYTES:,} bytes.")
    return mime, data


def _wrong(message: str) -> ApiError:
    return bad_request(message, code="invalid_image")


class ToolOffer(msgspec.Struct, kw_only=True):
    """A tool that the client runs itself; only functions are."""

    type: str = "function"
    function: FunctionTool | None = None


def read_tools(offers: Sequence[ToolOffer] | None) -> tuple[ClientTool, ...]:
    """The functions of the client's that the agent may call."""
    functions: list[FunctionTool] = []
    for place, offer in enumerate(offers or ()):
        if offer.type != "function" or offer.function is None:
            why = "A tool is a function, with its name."
            raise bad_request(why, param=f"tools[{place}]", code="unsupported_tool")
        functions.append(offer.function)
    return read_offers(functions)


def read_offers(offers: Sequence[FunctionTool]) -> tuple[ClientTool, ...]:
    if len(offers) > MOST_TOOLS:
        raise bad_request(f"More than {MOST_TOOLS} tools.", param="tools")
    tools: list[ClientTool] = []
    for place, offer in enumerate(offers):
        if not _NAME.fullmatch(offer.name):
            raise bad_request(
                "A tool's name is 1 to 64 letters, digits, “_” and “-”.", param=f"tools[{place}]"
            )
        if any(offer.name == earlier.name for earlier in tools):
            raise bad_request(f"There are two tools “{offer.name}”.", param=f"tools[{place}]")
        parameters = msgspec.json.encode(offer.parameters or {"type": "object", "properties": {}})
        tools.append(
            ClientTool(
                name=offer.name,
                description=offer.description or "",
                parameters=parameters.decode(),
                strict=offer.strict is True,
            )
        )
    return tuple(tools)
