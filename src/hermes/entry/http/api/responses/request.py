"""The body of a request for a response: every parameter of OpenAI's is honoured, kept and shown again, or
refused with a sentence that names it. The table in docs/guides/responses.md says which is which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from hermes.domain.models.call_options import CallOptions
from hermes.entry.http.api.responses.inputs import ClientToolSpec, InputItem
from hermes.entry.http.ask.messages import ChatMessage
from hermes.entry.http.ask.options import AnswerWishes, JsonSchemaSpec, as_options, read_form
from hermes.entry.http.site.endpoint import LONGEST_NAME, validation_error
from hermes.entry.http.site.errors import bad_request
from hermes.stream.faces.responses.shape import ConversationName

_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512
_INCLUDABLE = (
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
)
"""Further facts of items that no response here has: whoever asks for them lacks nothing. Thoughts are not
encrypted, because those that come back in an input are not used."""


class TextForm(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The form of the answer (`text`, `json_object`, `json_schema`), and how long-winded it is."""

    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningWishes(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How much the model thinks, and whether its thoughts are told. There is one form of them, whatever
    summary is asked for: that in which the model's service gives them."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class StreamSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How a stream is written; nothing is ever added to it to obscure its lengths."""

    include_obfuscation: Literal[False] | None = None


class ResponseRequest(AnswerWishes, kw_only=True, forbid_unknown_fields=True):
    """What is said, what it goes on from, and how the answer is wanted. The fields from `user` to
    `prompt_cache_retention` are taken and have no effect; those after them only say what an agent cannot do,
    so anything but their usual value is refused."""

    input: str | list[InputItem]
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationName | None = None
    conversation_history: list[ChatMessage] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamSettings | None = None
    background: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, str] | None = None
    tools: list[ClientToolSpec] | None = None
    include: list[str] | None = None
    text: TextForm | None = None
    reasoning: ReasoningWishes | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: Any = None
    prompt_cache_retention: str | None = None
    service_tier: Any = None
    top_logprobs: Any = None
    max_tool_calls: Any = None
    prompt: Any = None
    context_management: Any = None
    moderation: Any = None


_REFUSED: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "service_tier": ("service_tier may be auto or default: agents have no others.", ("auto", "default")),
    "top_logprobs": ("top_logprobs is not supported: leave it out.", (0,)),
    "max_tool_calls": ("max_tool_calls is not supported: the agent's own limit counts.", ()),
    "prompt": ("prompt is not supported: no templates are stored here. Send instructions.", ()),
    "context_management": ("context_management is not supported: the agent shortens by itself.", ()),
    "moderation": ("moderation is not supported: leave it out.", ()),
}
"""Why a parameter is refused, and the values that ask for nothing and are taken."""


def check_request(body: ResponseRequest) -> None:
    """Refuse what is not honoured, or contradicts itself."""
    for name, (why, usual) in _REFUSED.items():
        given = getattr(body, name)
        if given is not None and given not in usual:
            raise bad_request(why, param=name, code="unsupported_parameter")
    for wanted in body.include or ():
        if wanted not in _INCLUDABLE:
            why = f"“{wanted[:80]}” cannot be included here: leave it out."
            raise bad_request(why, param="include", code="unsupported_parameter")
    if body.previous_response_id is not None and body.conversation is not None:
        raise bad_request(
            "Give previous_response_id or conversation, not both.", param="previous_response_id"
        )
    chained = body.previous_response_id is not None or body.conversation is not None
    if body.conversation_history and chained:
        raise bad_request(
            "conversation_history is for a conversation that is not stored here: leave it out, or"
            " previous_response_id and conversation.",
            param="conversation_history",
        )
    if body.background and body.store is False:
        raise bad_request("A response in the background must be stored.", param="background")
    metadata = body.metadata or {}
    if len(metadata) > _MOST_METADATA or any(
        len(key) > _LONGEST_KEY or len(value) > _LONGEST_VALUE for key, value in metadata.items()
    ):
        raise bad_request(
            f"metadata has at most {_MOST_METADATA} entries, keys of {_LONGEST_KEY} and values of"
            f" {_LONGEST_VALUE} characters.",
            param="metadata",
        )


def conversation_name(body: ResponseRequest) -> str | None:
    given = body.conversation
    name = given.id if isinstance(given, ConversationName) else given
    if name is not None and not (name.strip() and len(name) <= LONGEST_NAME):
        raise bad_request(f"A conversation's id is 1 to {LONGEST_NAME} characters.", param="conversation")
    return name


def read_options(body: ResponseRequest, must_call: tuple[str, ...]) -> CallOptions | None:
    """How the answer is wanted, in the words that models are asked with."""
    form = (body.text and body.text.format) or {"type": "text"}
    spec = None
    if form.get("type") == "json_schema":
        try:
            spec = msgspec.convert(form, JsonSchemaSpec)
        except msgspec.ValidationError as error:
            wrong = validation_error(error, where="text.format")
            wrong.param = f"text.format.{wrong.param}"
            raise wrong from None
    return as_options(
        body,
        must_call,
        json=read_form(str(form.get("type")), spec, param="text.format"),
        max_tokens=body.max_output_tokens,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        effort=(body.reasoning and body.reasoning.effort) or "",
        verbosity=(body.text and body.text.verbosity) or "",
    )
