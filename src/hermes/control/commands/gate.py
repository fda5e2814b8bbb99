"""The gate before a slash command: hooks may stop it, answer it themselves or change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.control.commands.registry import meant_names
from hermes.control.hooks.context import about_command
from hermes.control.hooks.dispatch import ALLOWED, Decision, HookContext, Hooks, Ruling, no_answer
from hermes.domain.address import Source
from hermes.domain.hooks import COMMAND
from hermes.domain.session import Session, SessionKey
from hermes.domain.settings.settings import Settings
from hermes.domain.text import storable


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRuling:
    """What becomes of a command: it runs as `line` says, or, without one, `text` is all there is to it."""

    line: tuple[str, str] | None
    text: str = ""
    outcome: str = ""


class RulingNeeded(Exception):
    """Raised inside a transaction, which is undone by it: hooks have to be asked about this command first,
    and then the transaction runs again with what they said."""

    def __init__(self, line: tuple[str, str], contexts: Sequence[HookContext]) -> None:
        super().__init__(line[0])
        self.line = line
        self.contexts = contexts


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCase:
    """A command as somebody wrote it: its first word and the rest."""

    source: Source
    session: Session
    key: SessionKey
    line: tuple[str, str]


def find_ruling(hooks: Hooks, settings: Settings, case: CommandCase) -> CommandRuling:
    """The ruling on a command that nobody was asked about yet. By now it is known that its author may
    speak, so hooks hear of nobody else. They are asked by the name of what would run, however it is written,
    and where one command stands for another, by both."""
    followed = [name for name in meant_names(case.line[0], settings) if hooks.follows(f"{COMMAND}:{name}")]
    if not followed:
        return CommandRuling(line=case.line)
    names = ((name, *case.line) for name in followed)
    raise RulingNeeded(case.line, [about_command(case.source, case.session, case.key, one) for one in names])


async def rule_command(hooks: Hooks, case: RulingNeeded) -> CommandRuling:
    line, ruling, name = case.line, ALLOWED, ""
    for context in case.contexts:
        name = str(context["command"])
        ruling = await hooks.ask(f"{COMMAND}:{name}", context)
        if ruling.decision is not Decision.ALLOW:
            break
    match ruling.decision:
        case Decision.ALLOW:
            return CommandRuling(line=line)
        case Decision.HANDLED:
            return CommandRuling(line=None, text=ruling.message, outcome=f"handled by the hook {ruling.by}")
        case Decision.DENY:
            text = ruling.message or f"/{name} was not allowed by the hook “{ruling.by}”."
            return CommandRuling(line=None, text=text, outcome=f"denied by the hook {ruling.by}")
        case Decision.REWRITE:
            return _rewritten(ruling, line)


def _rewritten(ruling: Ruling, line: tuple[str, str]) -> CommandRuling:
    name, args = ruling.answer.get("command_name", line[0]), ruling.answer.get("raw_args", line[1])
    if not isinstance(name, str) or not isinstance(args, str) or not name.strip(" /"):
        return CommandRuling(
            line=None, text=no_answer(ruling.by), outcome=f"denied: {ruling.by} rewrote badly"
        )
    return CommandRuling(line=(name.strip(" /").lower(), storable(args).strip()))
