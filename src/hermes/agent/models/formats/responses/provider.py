"""Models behind OpenAI's Responses API (developers.openai.com/api/reference/responses)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.agent.models.assembly import ReplyAssembly
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.responses.reply import NAME, ResponseReader
from hermes.agent.models.formats.responses.request import encode_request
from hermes.domain.ports.agent import ModelRequest


class Responses:
    """The wire format."""

    name = NAME

    def path(self, model: str) -> str:
        return "/responses"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def encode(self, request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
        return encode_request(request, endpoint)

    def reader(self, reply: ReplyAssembly) -> Callable[[bytes], None]:
        return ResponseReader(reply).take
