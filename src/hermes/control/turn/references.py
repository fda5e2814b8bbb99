"""What references in a person's words stand for, written into their turn before it begins. One transaction:
a crash before it means that they are looked up again, one after it that they are not."""

from __future__ import annotations

import re
from collections.abc import Callable

from hermes.control.core import Runtime
from hermes.control.outbound.notices import notify
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line, storable
from hermes.domain.turns.references import Expansion
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Turn, TurnState
from hermes.domain.word import replace

_BLOCKED = re.compile(r"\[BLOCKED: ([^\n\]]{1,300})\]")
_BROKEN = "The references in it could not be looked up: {why}."


async def expand(turn: Turn, runtime: Runtime) -> Expansion:
    """Never raises a `HermesError`: whatever is wrong with references, the words are answered."""
    session = await runtime.store.read(lambda tx: tx.sessions.get(turn.session))
    if runtime.expand is None or session is None:
        return Expansion()
    try:
        return await runtime.expand(session, turn)
    except HermesError as error:
        why = _BROKEN.format(why=one_line(str(error), 200).rstrip("."))
        return Expansion(context=f"[{why}]", notes=(why,))


def left_out(session: Session) -> list[str]:
    """Files that the prompt of a session does without, because they give orders that are not theirs to give:
    whoever began it is told."""
    prompt = f"{session.system_prompt or ''}\n{session.context_prompt or ''}"
    return _BLOCKED.findall(prompt) if "[BLOCKED: " in prompt else []


def write_expanded(turn: Turn, expansion: Expansion, clock: Clock) -> Callable[[Tx], bool]:
    """A unit that stores what was found with the message; its result is whether somebody is told."""

    def write(tx: Tx) -> bool:
        current = tx.turns.get(turn.id)
        if current is None or current.state is not TurnState.ACCEPTED or current.input.expanded:
            return False
        if current.input.text != turn.input.text:
            return False  # another piece of the message came meanwhile: look again
        context = "\n\n".join(filter(None, (current.input.context, storable(expansion.context))))
        given = replace(current.input, context=context, expanded=True)
        tx.turns.save(replace(current, input=given), attempt=current.attempt)
        if not expansion.notes or turn.reply is None:
            return False
        text = "\n".join(f"⚠️ {note}" for note in expansion.notes)
        return notify(tx, f"references:{turn.id}", turn.reply.to, text, clock.now(), turn.reply.ref)

    return write
