"""`/tools`: the toolsets of this session. What is switched off here is off for this session alone, and what
the settings leave out stays out: a session only narrows."""

from __future__ import annotations

from hermes.control.commands.manner import keep_manner
from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.domain.errors import UserError
from hermes.domain.models.manner import NO_MANNER
from hermes.domain.text import one_line
from hermes.domain.tools.toolsets import stands_for

_FOR_ALL = "The operator decides for all sessions: hermes tools enable|disable {names}"


@command(
    "tools",
    "what the agent can do in this session; switch toolsets off or on again",
    usage="[list | disable|enable <names>]",
    aliases=("toolsets",),
)
def tools(call: CommandCall) -> CommandReply:
    action, *names = call.args.replace(",", " ").split() or ["list"]
    off = (call.session.manner or NO_MANNER).tools_off
    match action.lower():
        case "list":
            return CommandReply(text=_listed(call, off))
        case "disable" | "enable" if not names:
            raise UserError(f"/tools {action.lower()} needs a name.", hint="/tools lists them.")
        case "disable":
            call.runtime.toolbox.check_names(names)
            keep_manner(call, tools_off=tuple(dict.fromkeys((*off, *names))))
            return CommandReply(text=f"Off in this session from now on: {', '.join(names)}.")
        case "enable":
            return CommandReply(text=_enable(call, off, names))
        case _:
            hint = "Write /tools, /tools disable <names> or /tools enable <names>."
            raise UserError(f"/tools does not know “{one_line(action, 40)}”.", hint=hint)


def _listed(call: CommandCall, off: tuple[str, ...]) -> str:
    lines: dict[str, list[str]] = {}
    for tool in call.runtime.toolbox.usable_for(call.source).values():
        gone = any(stands_for(name, tool.name, tool.toolset) for name in off)
        lines.setdefault(tool.toolset, []).append(f"~~{tool.name}~~" if gone else tool.name)
    told = [f"- {name}: {', '.join(names)}" for name, names in lines.items()]
    told += [f"Off in this session: {', '.join(off)}. /tools enable switches them on again."] if off else []
    return "\n".join(told) or "The agent has no tools here."


def _enable(call: CommandCall, off: tuple[str, ...], names: list[str]) -> str:
    call.runtime.toolbox.check_names(names)
    usable = call.runtime.toolbox.usable_for(call.source).values()
    for name in names:
        if not any(stands_for(name, tool.name, tool.toolset) for tool in usable):
            hint = _FOR_ALL.format(names=name)
            raise UserError(f"“{one_line(name, 40)}” is not available here, so it stays off.", hint=hint)
    left = tuple(name for name in off if name not in names)
    keep_manner(call, tools_off=left)
    still = f" Still off: {', '.join(left)}." if left else ""
    return f"On again in this session: {', '.join(names)}.{still}"
