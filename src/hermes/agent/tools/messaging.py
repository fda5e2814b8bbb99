"""`send_message`: words for another chat than the one that is answered in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

from hermes.agent.tools.registry import ApprovalCase, ToolInvocation, tool
from hermes.domain.chats.channels import MessagingPort
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.text import one_line, showable
from hermes.domain.tools.tool import ApprovalPrompt, Effect

_LISTED = 50
_SHOWN = 1500
_NOWHERE_ELSE = ("origin", "local", "all")


def _elsewhere(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The targets that are neither the chat of the turn nor a home channel, which goes by its platform's
    name."""
    return tuple(word for word in _targets(values) if word.lower() not in _NOWHERE_ELSE and ":" in word)


def _targets(values: Mapping[str, Any]) -> list[str]:
    return [word.strip() for word in str(values.get("target") or "").split(",") if word.strip()]


async def _approval_check(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    """Writing to a chat that nobody named is a person's to allow: bound to the chat and to every word."""
    return _ask_to_send(case, values, _elsewhere(values))


async def _ask_after_outside(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    """Then a home channel must have been named too, by the name of its platform."""
    return _ask_to_send(case, values, tuple(word for word in _targets(values) if word.lower() != "origin"))


def _ask_to_send(
    case: ApprovalCase, values: Mapping[str, Any], places: Sequence[str]
) -> ApprovalPrompt | None:
    if values.get("action") == "list" or not places:
        return None
    message = str(values.get("message") or "")
    shown = showable(message)
    cut = f"{shown[:_SHOWN]}\n[… {len(shown) - _SHOWN} more characters]" if len(shown) > _SHOWN else shown
    lines = "\n".join(f"> {line}" for line in cut.splitlines())

    post = case.services.get(MessagingPort)

    async def spelled(agent: AgentId, turn: TurnId) -> Sequence[Sequence[str]]:
        forms: list[Sequence[str]] = []
        for place in places:
            names = () if ":" in place or place.lower() == "all" else (place.lower(), place.capitalize())
            forms += [(*spelled, *names) for spelled in await post.spelled(agent, turn, place)]
        return forms

    to = ", ".join(one_line(place, 100) for place in places)
    digest = sha256(f"{','.join(sorted(places))}\0{message}".encode("utf-8", "surrogatepass")).hexdigest()
    return ApprovalPrompt(
        text=f"Send a message to {to}:\n{lines}", digest=f"send_message:{digest}", spelled=spelled
    )


@tool(
    "messaging",
    Effect.KEYED,
    needs=MessagingPort,
    approval_check=_approval_check,
    after_outside=_ask_after_outside,
)
async def send_message(
    invocation: ToolInvocation, action: Literal["send", "list"] = "send", target: str = "", message: str = ""
) -> str:
    """Send a message to another chat, or list the chats there are. Your answer needs no tool.

    target: platform (its home channel), platform:chat[:thread], platform:#name, all; commas for several
    message: MEDIA:path on a line of its own attaches a file of your workspace
    """
    post = invocation.services.get(MessagingPort)
    if action == "list":
        known = await post.places(invocation.context)
        homes = [f"{name} (its home channel, {to})" for name, to in known.homes.items()]
        chats = [one.label for one in known.channels[:_LISTED]]
        left = len(known.channels) - len(chats)
        more = [f"[{left} more]"] if left else []
        return "\n".join([*homes, *chats, *more]) or "No chats yet."
    if not target.strip():
        raise UserError("A message needs a target.", hint='action "list" tells what there is.')
    sent = await post.send(invocation.context, target, invocation.context.safe_links(message))
    return f"On its way to {', '.join(map(str, sent))}."
