"""The wire formats, by name. A format is a folder here and a line below; nothing else knows it. It is loaded
with the first provider that speaks it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hermes.domain.models.providers import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS, CODEX_RESPONSES

if TYPE_CHECKING:
    from hermes.agent.models.endpoint import WireFormat

FORMATS = {
    CHAT_COMPLETIONS: "hermes.agent.models.formats.chat_completions.provider:ChatCompletions",
    CODEX_RESPONSES: "hermes.agent.models.formats.responses.provider:Responses",
    "responses": "hermes.agent.models.formats.responses.provider:Responses",
    ANTHROPIC_MESSAGES: "hermes.agent.models.formats.anthropic_messages.provider:AnthropicMessages",
}


def load_format(name: str) -> WireFormat:
    module, _, attribute = FORMATS[name].partition(":")
    wire: WireFormat = getattr(import_module(module), attribute)()
    return wire
