"""The tools of one run: those its turn was offered, which of them the client brought, and which calls need no
approval because nobody can be asked or because the person named the chat that is written to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from hermes.agent.call_repair import is_cut_short, read_arguments
from hermes.domain.address import SourceKind
from hermes.domain.errors import UserError
from hermes.domain.event import UserSaid
from hermes.domain.ports.agent import Run
from hermes.domain.text import one_line
from hermes.domain.tool import (
    NO_STANDING,
    Approval,
    ApprovalPrompt,
    ClientCall,
    StandingGrants,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
)
from hermes.domain.toolbox import WITHDRAWN
from hermes.domain.turn import ClientTool
from hermes.domain.word import replace

APPROVE = "approve"
NOBODY = "Not done: it would have to be allowed first, and nobody is there to be asked."
CUT_SHORT = "The arguments of {name} break off before their end. Send the call again, or in smaller steps."
NOT_JSON = "The arguments of {name} are not one JSON object. Send the call again with arguments that are."
TOO_MANY = "Not run: {most} calls are the most in one reply. Send it again if it is still needed."
NO_ANSWER = "Nobody is there to be asked. Decide yourself, or say at the end what you would have to know."


def attended_tools(tools: Mapping[str, Tool], run: Run) -> Mapping[str, Tool]:
    """The tools as they are where somebody can be asked; where nobody can, each decides as it was told to."""
    unattended = run.turn.input.guidance.unattended
    if not unattended:
        return tools
    return {name: _unattended(run, tool, unattended == APPROVE) for name, tool in tools.items()}


async def _ask_nobody(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
    return ToolResult(text=NO_ANSWER, failed=True)


def _unattended(run: Run, tool: Tool, approve: bool) -> Tool:
    if tool.asks is not None:
        # A clarification is not waited for then, but run; a child or a client answers all the same.
        return replace(tool, approval=Approval.NEVER, run=_ask_nobody)
    if tool.approval is Approval.NEVER:
        return tool
    asked = tool.approval

    async def unasked(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        ask = (
            ApprovalPrompt(text="", digest="")
            if isinstance(asked, Approval)
            else await asked(context.session, arguments)
        )
        if ask is not None and not approve and not await are_chats_named(run, ask):
            return ToolResult(text=NOBODY, failed=True)
        return await tool.run(context, arguments)

    return replace(tool, approval=Approval.NEVER, run=unasked)


class TurnTools(Struct, frozen=True, kw_only=True):
    """The tools a run was offered, those of them that are the client's, how many calls of a reply are run,
    and what may be done without asking. `now` tells which tools of the agent there still are."""

    tools: Mapping[str, Tool]
    now: Callable[[], Mapping[str, Tool]]
    most_calls: int = 64
    client: frozenset[str] = frozenset()
    standing: StandingGrants = NO_STANDING

    async def for_calls(self, run: Run, calls: Iterable[ToolCall]) -> TurnTools:
        """This toolbox with the grants of now, if one of the calls may need approval."""
        tools = (self.tools.get(call.name) for call in calls)
        if all(tool is None or tool.approval is Approval.NEVER for tool in tools):
            return self
        return replace(self, standing=await run.standing())

    def beside(self, brought: Sequence[ClientTool]) -> TurnTools:
        """With a client's tools too. One that is called as an own tool stands in its place for this turn: it
        was asked for by name, and both under one name would leave the model no choice."""
        if not brought:
            return self
        tools = {**self.tools, **{tool.name: _client_tool(tool) for tool in brought}}
        return replace(self, tools=tools, client=frozenset(tool.name for tool in brought))

    def fault(self, call: ToolCall, place: int) -> str:
        """Why a call cannot run at all, told to the model; empty if it can."""
        if call.name not in self.tools:
            known = ", ".join(sorted(self.tools)) or "none"
            return f"There is no tool “{one_line(call.name)}”. There are: {known}."
        if call.name not in self.client and call.name not in self.now():
            return WITHDRAWN.format(name=call.name)
        if read_arguments(call.arguments) is None:
            words = CUT_SHORT if is_cut_short(call.arguments) else NOT_JSON
            return words.format(name=call.name)
        return TOO_MANY.format(most=self.most_calls) if place >= self.most_calls else ""


def _client_tool(tool: ClientTool) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        raise UserError(f"{tool.name} is the client's and is not run here.")

    parameters = read_arguments(tool.parameters) or {}
    return Tool(
        name=tool.name,
        description=tool.description,
        parameters=parameters,
        run=run,
        asks=lambda arguments: ClientCall(),
        strict=tool.strict,
    )


# --- chats that the person named ---

# A person's own words may name the chats that a call writes to. Then nobody has to be asked. Words that
# others said, that came along as context, or that are the gateway's do not count.
_OPENING = r"(\[{<\"'«„“‘`*"
_CLOSING = r".;:!?)\]}>\"'»”’`*…"
_OURS = "["
"""Words of the gateway's, like those that tell of the end of a process, begin so."""


async def are_chats_named(run: Run, ask: ApprovalPrompt) -> bool:
    """It is about writing to chats, and each is the chat of the turn or was named by who speaks in it. What
    the model wrote does not count, only which chats it leads to."""
    chats = () if ask.spelled is None else await ask.spelled(run.turn.agent, run.turn.id)
    if not chats:
        return False
    reply = run.turn.reply
    here = "" if reply is None else str(reply.to)
    words = "\n".join(_own_words(run))
    return all(here in forms[:1] or any(_stands_alone(form, words) for form in forms) for forms in chats)


def _own_words(run: Run) -> Iterator[str]:
    """In a session that several share, only those of this turn are the person's for certain."""
    turn = run.turn
    if turn.source is not None and turn.source.kind is SourceKind.WEBHOOK:
        return
    for entry in run.transcript:
        said = entry.record
        if not isinstance(said, UserSaid) or said.author != turn.input.author or said.text.startswith(_OURS):
            continue
        if run.session.owner is not None or (entry.turn == turn.id and not said.steering):
            yield said.text


def _stands_alone(form: str, words: str) -> bool:
    """Whether it is written out, with nothing that could belong to it on either side."""
    pattern = rf"(?:^|(?<=[\s,{_OPENING}])){re.escape(form)}(?=[{_CLOSING}]*(?:[,\s]|$))"
    return re.search(pattern, words) is not None
