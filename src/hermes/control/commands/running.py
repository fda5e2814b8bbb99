"""From a line that somebody wrote to the reply of its command: hooks decide first, then the command runs. The
same for chats and for callers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hermes.control.commands.gate import CommandCase, CommandRuling, find_ruling
from hermes.control.commands.registry import MOST_TURNS, CommandCall, CommandContext, CommandReply, perform
from hermes.control.hooks.context import session_replaced
from hermes.control.hooks.dispatch import Hooks
from hermes.domain.ports.store import Tx
from hermes.domain.turn import ReplyPlace


def run_line(
    tx: Tx,
    case: CommandCase,
    about: CommandContext,
    hooks: Hooks,
    ruling: CommandRuling | None,
    *,
    reply_place: ReplyPlace | None = None,
    context: Callable[[], str] = lambda: "",
) -> CommandReply:
    """Run a command. `ruling` is what hooks decided; if they have to be asked first, `RulingNeeded` undoes
    the transaction."""
    ruling = ruling or find_ruling(hooks, about.settings, case)
    if ruling.line is None:
        return CommandReply(text=ruling.text, label=f"{case.line[0]}, {ruling.outcome}")
    name, args = ruling.line
    reply = perform(
        CommandCall(
            tx=tx,
            name=name,
            args=args,
            source=case.source,
            key=case.key,
            session=case.session,
            turns=tx.turns.open_of(case.session.id, MOST_TURNS),
            about=about,
            reply_place=reply_place,
            context=context,
        )
    )
    begun = reply.begun
    news = () if begun is None else session_replaced(case.source, case.session, begun, case.key)
    return replace(reply, label=name, news=news)
