"""The body of a chat completion: every parameter of OpenAI's is honoured, kept as harmless bookkeeping, or
refused with a sentence that names it. The table in docs/guides/chat-completions.md says which is which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from hermes.domain.word import replace
from hermes.entry.http.ask.messages import (
    ChatMessage,
    ConversationInput,
    ToolOffer,
    read_messages,
    read_tools,
)
from hermes.entry.http.ask.options import (
    AnswerWishes,
    JsonSchemaSpec,
    as_options,
    read_choice,
    read_form,
    read_stop,
)
from hermes.entry.http.site.errors import bad_request

_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_Tokens = Annotated[int, msgspec.Meta(ge=1)]


class StreamOptions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`include_usage`: the usage comes as a chunk of its own, before the end. Nothing is ever added to a
    stream to obscure its lengths."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    """The form of the answer: text, json_object or json_schema."""

    type: str
    json_schema: JsonSchemaSpec | None = None


class ChatRequest(AnswerWishes, kw_only=True, forbid_unknown_fields=True):
    """What is said, to whom, and how the answer is wanted. `tools` are the client's own functions. The fields
    from `user` to `prompt_cache_retention` are taken and have no effect; those after them only say what an
    agent cannot do, so anything but their usual value is refused."""

    messages: list[ChatMessage]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[ToolOffer] | None = None
    response_format: ResponseFormat | None = None
    stop: str | list[str] | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    seed: int | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    n: Any = None
    functions: Any = None
    function_call: Any = None
    logprobs: Any = None
    top_logprobs: Any = None
    logit_bias: Any = None
    modalities: Any = None
    audio: Any = None
    prediction: Any = None
    service_tier: Any = None
    web_search_options: Any = None


_REFUSED: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "n": ("An agent gives one answer: n must be 1.", (1,)),
    "functions": ("functions is no longer supported: send them as tools.", ([],)),
    "function_call": ("function_call is no longer supported: use tools and tool_choice.", ("auto", "none")),
    "logprobs": ("logprobs is not supported: leave it out, or send false.", (False,)),
    "top_logprobs": ("top_logprobs is not supported: leave it out.", (0,)),
    "logit_bias": ("logit_bias is not supported: leave it out.", ({},)),
    "modalities": ("An agent answers in text: modalities may only be [“text”].", (["text"],)),
    "audio": ("audio is not supported: an agent answers in text.", ()),
    "prediction": ("prediction is not supported: leave it out.", ()),
    "service_tier": ("service_tier may be auto or default: agents have no others.", ("auto", "default")),
    "web_search_options": ("web_search_options is not supported: an agent searches with its own tools.", ()),
}
"""Why a parameter is refused, and the values that ask for nothing and are taken."""


def read_conversation(body: ChatRequest) -> ConversationInput:
    """What a request says and how it wants its answer."""
    for name, (why, usual) in _REFUSED.items():
        given = getattr(body, name)
        if given is not None and given not in usual:
            raise bad_request(why, param=name, code="unsupported_parameter")
    if body.stream_options is not None and not body.stream:
        raise bad_request("stream_options is for a stream: send stream: true too.", param="stream_options")
    limits = {most for most in (body.max_tokens, body.max_completion_tokens) if most is not None}
    if len(limits) > 1:
        why = "max_tokens and max_completion_tokens say different things: leave max_tokens out."
        raise bad_request(why, param="max_tokens")
    chosen = read_choice(body.tool_choice, read_tools(body.tools))
    form = body.response_format
    options = as_options(
        body,
        chosen.must_call,
        json=form and read_form(form.type, form.json_schema, param="response_format"),
        stop=read_stop(body.stop),
        max_tokens=next(iter(limits), None),
        seed=body.seed,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        effort=body.reasoning_effort or "",
        verbosity=body.verbosity or "",
    )
    return replace(read_messages(body.messages), tools=chosen.tools, options=options)
