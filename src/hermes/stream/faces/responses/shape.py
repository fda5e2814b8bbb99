"""The Responses API on the wire: the response with its items."""

from __future__ import annotations

from typing import Any

import msgspec

OWN_TOOLS = "hermes"
"""What the Responses API calls the server of the agent's own tools."""
APPROVAL_PREFIX = "mcpr_"
"""The id of a request for an approval is that of its question behind this."""


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


class SummaryText(msgspec.Struct, kw_only=True, tag_field="type", tag="summary_text"):
    """What the model thought, as far as its service tells."""

    text: str


class ReasoningItem(msgspec.Struct, kw_only=True, tag_field="type", tag="reasoning"):
    """Thoughts of the model, for people to read. Nothing is encrypted: who sends the item back sends what
    nobody reads, so there is nothing to keep."""

    id: str
    summary: list[SummaryText] = []
    encrypted_content: None = None
    status: str = "in_progress"


class FunctionCallItem(msgspec.Struct, kw_only=True, tag_field="type", tag="function_call"):
    """A call of a function of the client's: the client has to run it."""

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


class OwnCallItem(msgspec.Struct, kw_only=True, tag_field="type", tag="mcp_call"):
    """A call of a tool of the agent's own. It has this type because clients take such a call as done by the
    other side; a `function_call` they would try to run themselves."""

    id: str
    server_label: str = OWN_TOOLS
    name: str
    arguments: str
    output: str | None = None
    error: str | None = None
    status: str = "in_progress"
    approval_request_id: str | None = None


class ApprovalItem(msgspec.Struct, kw_only=True, tag_field="type", tag="mcp_approval_request"):
    """A call of the agent's own that somebody has to approve first."""

    id: str
    server_label: str = OWN_TOOLS
    name: str
    arguments: str


OutputItem = OutputMessage | ReasoningItem | FunctionCallItem | OwnCallItem | ApprovalItem


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
    """Why a response failed. Some clients do not read an error without its `type`."""

    type: str = "server_error"
    code: str = "server_error"
    message: str


class IncompleteDetails(msgspec.Struct, kw_only=True):
    """Why a response is not whole."""

    reason: str


class TextOptions(msgspec.Struct, kw_only=True):
    """The form of the answer, as it was asked for."""

    format: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "text"})
    verbosity: str | None = None


class ReasoningOptions(msgspec.Struct, kw_only=True):
    """How the model is to think, and whether its thoughts are wanted."""

    effort: str | None = None
    summary: str | None = None


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
    """What is beyond the standard: the question that the turn waits for. Once it is answered, the turn goes
    on as the response `next`."""

    completed: bool = False
    pending: ResponseQuestion
    next: str
    run_id: str
    session_id: str


class ResponseObject(msgspec.Struct, kw_only=True):
    """A response: what was asked for, and the answer as far as it has come. Unless they were asked for, 1 and
    0 stand for what the model's service does by itself."""

    id: str
    object: str = "response"
    created_at: int
    completed_at: int | None = None
    status: str = "in_progress"
    background: bool = False
    conversation: ConversationName | None = None
    error: ResponseError | None = None
    frequency_penalty: float = 0.0
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] = {}
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    presence_penalty: float = 0.0
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    reasoning: ReasoningOptions = msgspec.field(default_factory=ReasoningOptions)
    safety_identifier: str | None = None
    service_tier: str = "default"
    store: bool = True
    temperature: float = 1.0
    text: TextOptions = msgspec.field(default_factory=TextOptions)
    tool_choice: str | dict[str, Any] = "auto"
    tools: list[FunctionTool] = []
    top_logprobs: int = 0
    top_p: float = 1.0
    truncation: str = "disabled"
    usage: ResponseUsage | None = None
    user: str | None = None
    hermes: PendingDetails | msgspec.UnsetType = msgspec.UNSET
