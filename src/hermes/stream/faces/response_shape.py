"""The Responses API on the wire: the response with its items. Its events are made in `responses`."""

from __future__ import annotations

from typing import Any

import msgspec


class OutputText(msgspec.Struct, kw_only=True, tag_field="type", tag="output_text"):
    """Words of the agent."""

    text: str
    annotations: list[dict[str, Any]] = []
    logprobs: list[dict[str, Any]] = []


class OutputMessage(msgspec.Struct, kw_only=True, tag_field="type", tag="message"):
    """A message of the agent."""

    id: str
    role: str = "assistant"
    status: str = "in_progress"
    content: list[OutputText]


class FunctionCallItem(msgspec.Struct, kw_only=True, tag_field="type", tag="function_call"):
    """A call that the agent made: of its own tool, or of a function of the client's."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: str = "completed"


class FunctionResultItem(msgspec.Struct, kw_only=True, tag_field="type", tag="function_call_output"):
    """What a call gave."""

    id: str
    call_id: str
    output: str
    status: str = "completed"


OutputItem = OutputMessage | FunctionCallItem | FunctionResultItem


class FunctionTool(msgspec.Struct, kw_only=True):
    """A function of the client's own."""

    type: str = "function"
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class InputTokens(msgspec.Struct, kw_only=True):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokens(msgspec.Struct, kw_only=True):
    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, kw_only=True):
    """What the model's calls for this response took, all together."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: OutputTokens
    total_tokens: int


class ResponseError(msgspec.Struct, kw_only=True):
    """Why a response failed."""

    code: str = "server_error"
    message: str


class IncompleteDetails(msgspec.Struct, kw_only=True):
    """Why a response is not whole; no reason means that `hermes` tells what it waits for."""

    reason: str | None = None


class TextFormat(msgspec.Struct, kw_only=True):
    type: str = "text"


class TextOptions(msgspec.Struct, kw_only=True):
    format: TextFormat = msgspec.field(default_factory=TextFormat)


class ConversationName(msgspec.Struct, kw_only=True):
    """A named chain of responses."""

    id: str


class ResponseQuestion(msgspec.Struct, kw_only=True):
    """A question that the response waits for. `action` is what would be done, word for word."""

    id: str
    kind: str
    text: str
    action: str
    options: list[str]


class PendingDetails(msgspec.Struct, kw_only=True):
    """What is beyond the standard: the question that must be answered before the response goes on."""

    completed: bool = False
    pending: ResponseQuestion
    run_id: str
    session_id: str


class ResponseObject(msgspec.Struct, kw_only=True):
    """A response: what was asked for, and the answer as far as it has come."""

    id: str
    object: str = "response"
    created_at: int
    status: str = "in_progress"
    background: bool = False
    conversation: ConversationName | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] = {}
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    store: bool = True
    temperature: float | None = None
    text: TextOptions = msgspec.field(default_factory=TextOptions)
    tool_choice: str = "auto"
    tools: list[FunctionTool] = []
    top_p: float | None = None
    truncation: str = "disabled"
    usage: ResponseUsage | None = None
    user: str | None = None
    hermes: PendingDetails | msgspec.UnsetType = msgspec.UNSET
