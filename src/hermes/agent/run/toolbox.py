"""The tools of one run: those its turn was offered, which of them the client brought, and what becomes of
calls that need an approval where nobody can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from hermes.agent.call_repair import is_cut_short, read_arguments
from hermes.agent.run.approval import approval_prompt, is_destination_named, may_ask
from hermes.agent.run.opinion import GiveOpinion
from hermes.domain.errors import UserError
from hermes.domain.ports.agent import Run
from hermes.domain.settings.declaring import STAND_IN
from hermes.domain.text import closest, one_line
from hermes.domain.tools.deferral import TOOL_CALL, runnable_bridge
from hermes.domain.tools.tool import (
    NO_STANDING,
    Approval,
    ClientCall,
    StandingGrants,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
)
from hermes.domain.tools.toolbox import WITHDRAWN
from hermes.domain.turns.turn import ClientTool
from hermes.domain.word import replace

APPROVE = "approve"
NOBODY = "Not done: it would have to be allowed first, and nobody is there to be asked."
CUT_SHORT = "The arguments of {name} break off before their end. Send the call again, or in smaller steps."
NOT_JSON = "The arguments of {name} are not one JSON object. Send the call again with arguments that are."
WITHHELD = (
    f"Not run: its arguments hold a secret that this gateway keeps, shown as {STAND_IN}. "
    "No tool is given it. Do without it, or ask the user to do this step."
)
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

    async def unasked(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        ask = await approval_prompt(run, tool, arguments)
        if ask is not None and (ask.locked or not (approve or await is_destination_named(run, ask))):
            return ToolResult(text=NOBODY, failed=True)
        return await tool.run(context, arguments)

    return replace(tool, approval=Approval.NEVER, after_outside=Approval.NEVER, run=unasked)


def with_bridge(usable: Mapping[str, Tool], offered: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """What may run, with the bridge to what the model was not told of."""
    return {**usable, **runnable_bridge({n: tool for n, tool in usable.items() if n not in offered})}


class TurnTools(Struct, frozen=True, kw_only=True):
    """The tools a run was offered, those of them that are the client's, how many calls of a reply are run,
    and what may be done without asking. `now` tells which tools of the agent there still are; `opinion` is
    given before a person is asked. The model is not told of `hidden` ones: it finds them."""

    tools: Mapping[str, Tool]
    now: Callable[[], Mapping[str, Tool]]
    most_calls: int = 64
    client: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    standing: StandingGrants = NO_STANDING
    opinion: GiveOpinion | None = None

    async def for_calls(self, run: Run, calls: Iterable[ToolCall]) -> TurnTools:
        """This toolbox with the grants of now, if one of the calls may need approval."""
        tools = (self.tools.get(call.name) for call in calls)
        if all(tool is None or _is_free(tool) for tool in tools):
            return self
        return replace(self, standing=await run.standing())

    def beside(self, brought: Sequence[ClientTool]) -> TurnTools:
        """With a client's tools too. One that is called as an own tool stands in its place for this turn: it
        was asked for by name, and both under one name would leave the model no choice."""
        if not brought:
            return self
        tools = {**self.tools, **{tool.name: _client_tool(tool) for tool in brought}}
        client = frozenset(tool.name for tool in brought)
        return replace(self, tools=tools, client=client, hidden=self.hidden - client)

    def with_hidden(self) -> TurnTools:
        """With the tools of now that the model may find, if it has the bridge to them."""
        if TOOL_CALL not in self.tools:
            return self
        shown = {name: tool for name, tool in self.tools.items() if name not in self.hidden}
        found = {name: tool for name, tool in self.now().items() if name not in shown}
        return replace(self, tools={**shown, **found}, hidden=frozenset(found))

    def fault(self, call: ToolCall, place: int) -> str:
        """Why a call cannot run at all, told to the model; empty if it can."""
        if call.withheld:
            return WITHHELD
        if call.name not in self.tools:
            known = ", ".join(sorted(self.tools.keys() - self.hidden)) or "none"
            similar = closest(call.name, self.tools)
            meant = f" Did you mean {similar}?" if similar else ""
            return f"There is no tool “{one_line(call.name)}”.{meant} There are: {known}."
        if call.name not in self.client and call.name not in self.now():
            return WITHDRAWN.format(name=call.name)
        if read_arguments(call.arguments) is None:
            words = CUT_SHORT if is_cut_short(call.arguments) else NOT_JSON
            return words.format(name=call.name)
        return TOO_MANY.format(most=self.most_calls) if place >= self.most_calls else ""


def _is_free(tool: Tool) -> bool:
    """Whether no call of it is ever asked for."""
    return tool.approval is Approval.NEVER and (tool.after_outside is Approval.NEVER or not may_ask(tool))


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
