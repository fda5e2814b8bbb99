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
        return encode_request(request, endpoint)

    def reader(self, reply: ReplyAssembly) -> Callable[[bytes], None]:
        return ChatReader(reply).take
