"""Models behind Anthropic's Messages API (platform.claude.com/docs/en/api/messages)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.agent.models.assembly import ReplyAssembly
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.anthropic_messages.reply import NAME, MessageReader
from hermes.agent.models.formats.anthropic_messages.request import encode_request
from hermes.domain.ports.agent import ModelRequest

_VERSION = "2023-06-01"
_OAUTH_TOKEN = "sk-ant-oat"
_OAUTH_BETA = "oauth-2025-04-20"


class AnthropicMessages:
    """The wire format. A token of a login is shown as a bearer's, a key in a header of its own
    (github.com/anthropics/anthropic-sdk-python, _client.py)."""

    name = NAME

    def path(self, model: str) -> str:
        return "/v1/messages"

    def headers(self, key: str) -> Mapping[str, str]:
        version = {"anthropic-version": _VERSION}
        if key.startswith(_OAUTH_TOKEN):
            return {**version, "Authorization": f"Bearer {key}", "anthropic-beta": _OAUTH_BETA}
        return {**version, "x-api-key": key} if key else version

    def encode(self, request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
        return encode_request(request, endpoint)

    def reader(self, reply: ReplyAssembly) -> Callable[[bytes], None]:
        return MessageReader(reply).take
