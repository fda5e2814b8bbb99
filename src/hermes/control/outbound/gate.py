"""The gate before a message is sent: hooks may stop it or change its text."""

from __future__ import annotations

from hermes.control.hooks.dispatch import Decision, Hooks
from hermes.domain.capabilities import Capabilities
from hermes.domain.errors import Refused
from hermes.domain.hooks import GATE_SEND
from hermes.domain.message import Body
from hermes.domain.rows import OutboxRow
from hermes.domain.text import storable


async def rule_message(hooks: Hooks, row: OutboxRow, able: Capabilities) -> Body:
    """A message as it may be sent; one that may not be is refused."""
    context = {
        "platform": row.to.platform,
        "account": row.to.account,
        "chat_id": row.to.chat,
        "thread_id": row.to.thread,
        "turn_id": row.turn,
        "text": row.body.text,
    }
    ruling = await hooks.ask(GATE_SEND, context)
    text = ruling.answer.get("text")
    if ruling.decision is Decision.ALLOW:
        return row.body
    if ruling.decision is not Decision.REWRITE:
        raise Refused(f"not allowed by the hook “{ruling.by}”")
    if not isinstance(text, str) or not text.strip() or able.unit.measure(text) > able.max_text:
        raise Refused(f"the hook “{ruling.by}” rewrote it as nothing that can be sent")
    return row.body.with_text(storable(text))
