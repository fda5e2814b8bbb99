"""Models behind OpenAI's chat-completions API, which most services and all local servers speak."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.agent.models.assembly import ReplyAssembly
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.chat_completions.reply import NAME, ChatReader
from hermes.agent.models.formats.chat_completions.request import encode_request
from hermes.domain.ports.agent import ModelRequest

_PATH = "/chat/completions"


class ChatCompletions:
    """The wire format."""

    name = NAME

    def path(self, model: str) -> str:
        return _PATH

    def headers(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def encode(self, request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
        options: dict[str, object] = {}
        limits = [most for most in (endpoint.max_tokens, request.options.max_tokens) if most is not None]
        if limits and endpoint.token_limit:
            # OpenAI's newer models refuse the old name, and many other services do not know the new one.
            options[endpoint.token_limit] = min(limits)
        if endpoint.stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        return encode_request(request, {**options, **endpoint.extra_body})

    def reader(self, reply: ReplyAssembly) -> Callable[[bytes], None]:
        return ChatReader(reply).take
