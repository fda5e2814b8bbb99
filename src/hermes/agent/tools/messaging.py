"""`send_message`: words for another chat than the one that is answered in."""

from __future__ import annotations

from typing import Literal

from hermes.agent.tools.registry import Desk, tool
from hermes.domain.errors import UserError
from hermes.domain.tool import Effect

_LISTED = 50


@tool("messaging", Effect.KEYED)
async def send_message(
    desk: Desk, action: Literal["send", "list"] = "send", target: str = "", message: str = ""
) -> str:
    """Send a message to another chat, or list the chats there are. Your answer needs no tool.

    target: platform (its home channel), platform:chat[:thread], platform:#name, all; commas for several
    message: the text; MEDIA:path on a line of its own attaches a file of your workspace
    """
    post = desk.bench.post
    if post is None:
        raise UserError("There is no gateway here that could send messages.")
    if action == "list":
        known = await post.places(desk.context)
        homes = [f"{name} → {to} (home channel)" for name, to in known.homes.items()]
        chats = [one.label for one in known.channels[:_LISTED]]
        left = len(known.channels) - len(chats)
        more = [f"[{left} more]"] if left else []
        return "\n".join([*homes, *chats, *more]) or "No chat is known yet."
    if not target.strip():
        raise UserError("A message needs a target.", hint='action "list" tells what there is.')
    sent = await post.send(desk.context, target, message)
    return f"On its way to {', '.join(map(str, sent))}."
