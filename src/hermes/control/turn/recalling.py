"""What a memory provider recalls for a person's words, written into their turn before it begins. It is part
of that message from then on, so what stands before it in the prompt stays the same."""

from __future__ import annotations

from collections.abc import Callable

from hermes.control.core import Runtime
from hermes.domain.ports.memory import MemoryScope
from hermes.domain.ports.store import Tx
from hermes.domain.turns.turn import Cause, Turn, TurnAction, TurnInput, TurnState
from hermes.domain.word import replace


def may_recall(given: TurnInput, cause: Cause) -> bool:
    """Whether a provider is to be asked before the turn begins: for words of a person, once."""
    said = cause is Cause.MESSAGE and given.action is TurnAction.SAY and bool(given.text.strip())
    return said and not given.recalled


def scope_of(turn: Turn, runtime: Runtime) -> MemoryScope | None:
    """None where nobody is known."""
    person = None if runtime.person is None else runtime.person(turn)
    platform = "" if turn.source is None else turn.source.address.platform
    return None if not person else MemoryScope(session=turn.session, person=person, platform=platform)


async def recall(turn: Turn, runtime: Runtime) -> str:
    scope, provider = scope_of(turn, runtime), runtime.memory_provider
    return "" if scope is None or provider is None else await provider.recall(turn.input.text, scope)


def write_recalled(turn: Turn, text: str) -> Callable[[Tx], None]:
    def write(tx: Tx) -> None:
        current = tx.turns.get(turn.id)
        if current is None or current.state is not TurnState.ACCEPTED or current.input.recalled:
            return
        if current.input.text != turn.input.text:
            return  # another piece of the message came meanwhile: ask again
        context = "\n\n".join(filter(None, (current.input.context, text)))
        given = replace(current.input, context=context, recalled=True)
        tx.turns.save(replace(current, input=given), attempt=current.attempt)

    return write
