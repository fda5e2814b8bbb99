"""The one registry of slash commands, and how a line is read as one.

A command is a function of a `CommandCall`: it runs inside the transaction that ends its inbox row, so
it may decide on what it reads, and its effects and its reply are stored together or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from hermes.control.commands.tiers import Tier, tier_of
from hermes.control.hooks.context import HookNotice
from hermes.control.jobs.targets import ResolveTargets, default_targets
from hermes.domain.address import LOCAL_DOOR, Source, SourceKind
from hermes.domain.command_line import read_command
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.session import Session, SessionKey
from hermes.domain.settings.settings import Settings
from hermes.domain.turn import ReplyPlace, Turn

MOST_TURNS = 100_000
"""A command sees every unfinished turn of its session, however many there are."""


def _at_the_machine(source: Source) -> bool:
    return source.address.platform == LOCAL_DOOR


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayInfo:
    """What commands may know of the gateway around them: who may see everybody's sessions, the names that a
    session may give as its model, the version, the home, the platform accounts there are and which are up,
    where jobs may deliver to, and whether it can begin anew."""

    is_admin: Callable[[Source], bool] = _at_the_machine
    models: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    home: str = ""
    accounts: Collection[str] = ()
    is_up: Callable[[str], bool] = lambda account: False
    targets: ResolveTargets = default_targets
    can_restart: bool = False
    offered: Callable[[AgentId], Collection[str]] = lambda agent: ()
    """Models that the provider of an agent says it has."""


NOTHING_AROUND = GatewayInfo()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What the commands of one transaction run with; `platforms` are those there are."""

    settings: Settings
    now: datetime
    model: str = ""
    gateway: GatewayInfo = NOTHING_AROUND
    platforms: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCall:
    """One use of a command. `turns` are the session's unfinished ones, oldest first; `reply_place` is where
    the answers of new turns are sent, none at a door that watches them."""

    tx: Tx
    name: str
    args: str
    source: Source
    key: SessionKey
    session: Session
    turns: list[Turn]
    about: CommandContext
    reply_place: ReplyPlace | None = None
    context: Callable[[], str] = lambda: ""
    """What the model is to be told before words that a command says."""

    @property
    def settings(self) -> Settings:
        return self.about.settings

    @property
    def now(self) -> datetime:
        return self.about.now

    @property
    def gateway(self) -> GatewayInfo:
        return self.about.gateway

    @property
    def is_admin(self) -> bool:
        return self.gateway.is_admin(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """What a command answers; `turn` is a turn it created, `begun` a session that took the place of the one
    before, `wakes` are other sessions that have work now, `handoff` is the id of one that was asked for. A
    `fleeting` text is kept until it is sent. After the commit of a reply with `restart` the gateway begins
    anew."""

    text: str
    turn: Turn | None = None
    fleeting: bool = False
    begun: Session | None = None
    wakes: tuple[SessionId, ...] = ()
    handoff: str = ""
    restart: bool = False
    label: str = ""
    """What ran, for the trace of the message; filled in by `run_line`, as is `news` for hooks."""
    news: tuple[HookNotice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """`mid_turn`: it may run while a turn does. `gate` names a setting without which there is no such
    command, like `display.streaming`."""

    name: str
    run: Callable[[CommandCall], CommandReply]
    summary: str
    usage: str = ""
    aliases: tuple[str, ...] = ()
    admin: bool = False
    """Only for admins, and where none are named, for those whom the operator let in by id."""
    mid_turn: bool = True
    gate: str = ""
    terminal: bool = False
    """Not for chats."""
    target: str = ""
    """The line of another command that it stands for."""

    def is_there(self, settings: Settings | None) -> bool:
        if not self.gate or settings is None:
            return not self.gate
        value: object = settings
        for name in self.gate.split("."):
            value = getattr(value, name, None)
        return value is True

    @property
    def line(self) -> str:
        also = f" (also {', '.join('/' + alias for alias in self.aliases)})" if self.aliases else ""
        return f"/{self.name}{' ' + self.usage if self.usage else ''}: {self.summary}{also}"


COMMANDS: dict[str, SlashCommand] = {}


def command(
    name: str,
    summary: str,
    *,
    usage: str = "",
    aliases: tuple[str, ...] = (),
    mid_turn: bool = True,
    **further: Any,
) -> Callable[[Callable[[CommandCall], CommandReply]], Callable[[CommandCall], CommandReply]]:
    """Register a command; `admin`, `gate` and `terminal` as in `SlashCommand`."""

    def register(run: Callable[[CommandCall], CommandReply]) -> Callable[[CommandCall], CommandReply]:
        COMMANDS[name] = SlashCommand(
            name=name,
            run=run,
            summary=summary,
            usage=usage,
            aliases=aliases,
            mid_turn=mid_turn,
            **further,
        )
        return run

    return register


_NAMED = re.compile(r"(?<![\w/.~])/([a-z][a-z-]*)(?![\w/.]\w)")


FURTHER: list[Callable[[Settings], list[SlashCommand]]] = []
"""Who else brings commands: those of the settings. A name of a built-in command stays its own."""


def known_commands(settings: Settings | None = None) -> list[SlashCommand]:
    """Every command that there is under these settings, by name."""
    there = [known for known in COMMANDS.values() if known.is_there(settings)]
    taken = {word for known in COMMANDS.values() for word in (known.name, *known.aliases)}
    further = [] if settings is None else [known for bring in FURTHER for known in bring(settings)]
    return sorted([*there, *(one for one in further if one.name not in taken)], key=lambda known: known.name)


def resolve(name: str, settings: Settings | None = None) -> SlashCommand:
    """By name, alias, or a start that only one command has; capitals do not matter."""
    name = name.lower().replace("_", "-")
    there = known_commands(settings)
    for known in there:
        if name == known.name or name in known.aliases:
            return known
    begins = [known for known in there if any(word.startswith(name) for word in (known.name, *known.aliases))]
    if len(begins) == 1:
        return begins[0]
    if begins:
        names = ", ".join(f"/{known.name}" for known in begins)
        raise UserError(f"/{name} could be {names}.", hint="Write a little more of it.")
    words = {word: known.name for known in there for word in (known.name, *known.aliases)}
    near = get_close_matches(name, list(words), n=1)
    hint = f"Did you mean /{words[near[0]]}?" if near else "/help lists the commands."
    raise UserError(
        f"There is no command /{name}.", hint=f"{hint} To send it as text, leave out the first character."
    )


def meant_names(name: str, settings: Settings) -> tuple[str, ...]:
    """The name of the command that is meant, and of the one it stands for, if it does; as it is written if
    there is none."""
    names = [name]
    try:
        known = resolve(name, settings)
        names = [known.name]
        target = read_command(f"/{known.target.lstrip('/')}") if known.target else None
        if target is not None:
            names.append(resolve(target[0], settings).name)
    except UserError:
        pass
    return tuple(names)


def perform(call: CommandCall) -> CommandReply:
    """Run the command that a call names, in full or in short; what is wrong with it is its reply."""
    try:
        known = resolve(call.name, call.settings)
        if known.terminal and not _at_the_machine(call.source):
            raise UserError(f"/{known.name} works in the terminal alone.", hint="Run hermes there.")
        _check_tier(call, known)
        if call.turns and not known.mid_turn:
            raise UserError(f"/{known.name} does not work while a turn runs.", hint="Wait, or /stop first.")
        return known.run(replace(call, name=known.name))
    except UserError as error:
        return CommandReply(text=str(error))


def usable(source: Source, settings: Settings) -> list[SlashCommand]:
    """The commands that somebody may use, by name."""
    tier = tier_of(source, settings)
    here = _at_the_machine(source)
    return [one for one in known_commands(settings) if _may(tier, one) and (here or not one.terminal)]


def is_command(name: str) -> bool:
    return any(name == known.name or name in known.aliases for known in COMMANDS.values())


def spell_commands(text: str, prefix: str) -> str:
    """The commands that a sentence of ours names as they are given here: many a chat program keeps `/…` for
    itself."""
    if prefix == "/":
        return text
    return _NAMED.sub(lambda found: (prefix if is_command(found[1]) else "/") + found[1], text)


def _may(tier: Tier, known: SlashCommand) -> bool:
    if known.admin and not tier.owner:
        return False
    return tier.commands is None or any(name in tier.commands for name in (known.name, *known.aliases))


def _check_tier(call: CommandCall, known: SlashCommand) -> None:
    if _may(tier_of(call.source, call.settings), known):
        return
    allowed = ", ".join(f"/{one.name}" for one in usable(call.source, call.settings))
    who = ""
    if known.admin:
        key = "allow_admin_from" if call.source.kind is SourceKind.PRIVATE else "group_allow_admin_from"
        who = f"It is for admins: the operator names them in {call.source.address.credential}.{key}. "
    raise UserError(f"You may not use /{known.name} here.", hint=f"{who}You may use {allowed}.")
