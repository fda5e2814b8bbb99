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

from hermes.control.hooks.context import HookNotice
from hermes.control.outbound.targets import ResolveTargets, default_targets
from hermes.control.people.access import ids_of, is_listed
from hermes.domain.address import LOCAL_DOOR, Source, SourceKind
from hermes.domain.command_line import read_command
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.session import Session, SessionKey
from hermes.domain.settings.settings import Settings
from hermes.domain.turn import ReplyPlace, Turn


def _at_the_machine(source: Source) -> bool:
    return source.address.platform == LOCAL_DOOR


def read_number(word: str, most: int) -> int | None:
    """A number from 1 to `most`; None if it is none."""
    number = int(word) if word.isascii() and word.isdigit() and len(word) < 10 else 0
    return number if 1 <= number <= most else None


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
class CommandCall:
    """One use of a command. `turns` are the session's unfinished ones, oldest first, once it runs;
    `reply_place` is where the answers of new turns are sent, none at a door that watches them; `model` is the
    agent's own, `platforms` are those there are."""

    tx: Tx
    name: str
    args: str
    source: Source
    key: SessionKey
    session: Session
    settings: Settings
    now: datetime
    model: str
    gateway: GatewayInfo
    platforms: Collection[str] = ()
    turns: list[Turn] = field(default_factory=list)
    reply_place: ReplyPlace | None = None
    context: Callable[[], str] = lambda: ""
    """What the model is to be told before words that a command says."""

    @property
    def is_admin(self) -> bool:
        return self.gateway.is_admin(self.source)

    @property
    def is_local(self) -> bool:
        return _at_the_machine(self.source)

    def number(self, most: int, default: str = "") -> int | None:
        """The arguments as a number from 1 to `most`; None if they are none."""
        return read_number(self.args or default, most)


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

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

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
FURTHER: list[Callable[[Settings], list[SlashCommand]]] = []
"""Who else brings commands: those of the settings. A name of a built-in command stays its own."""
Command = Callable[[CommandCall], CommandReply]
_NAMED = re.compile(r"(?<![\w/.~])/([a-z][a-z-]*)(?![\w/.]\w)")


def command(name: str, summary: str, **options: Any) -> Callable[[Command], Command]:
    """Register a command; `options` are the further fields of `SlashCommand`."""

    def register(run: Command) -> Command:
        COMMANDS[name] = SlashCommand(name=name, run=run, summary=summary, **options)
        return run

    return register


def known_commands(settings: Settings | None = None) -> list[SlashCommand]:
    """Every command that there is under these settings, by name."""
    there = [slash for slash in COMMANDS.values() if slash.is_there(settings)]
    taken = {word for slash in COMMANDS.values() for word in slash.names}
    further = [] if settings is None else [slash for bring in FURTHER for slash in bring(settings)]
    return sorted(
        [*there, *(slash for slash in further if slash.name not in taken)], key=lambda slash: slash.name
    )


def resolve(name: str, settings: Settings | None = None) -> SlashCommand:
    """By name, alias, or a start that only one command has; capitals do not matter."""
    name = name.lower().replace("_", "-")
    there = known_commands(settings)
    for slash in there:
        if name in slash.names:
            return slash
    begins = [slash for slash in there if any(word.startswith(name) for word in slash.names)]
    if len(begins) == 1:
        return begins[0]
    if begins:
        names = ", ".join(f"/{slash.name}" for slash in begins)
        raise UserError(f"/{name} could be {names}.", hint="Write a little more of it.")
    words = {word: slash.name for slash in there for word in slash.names}
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
        slash = resolve(name, settings)
        names = [slash.name]
        target = read_command(f"/{slash.target.lstrip('/')}") if slash.target else None
        if target is not None:
            names.append(resolve(target[0], settings).name)
    except UserError:
        pass
    return tuple(names)


def perform(call: CommandCall) -> CommandReply:
    """Run the command that a call names, in full or in short; what is wrong with it is its reply."""
    try:
        slash = resolve(call.name, call.settings)
        if slash.terminal and not call.is_local:
            raise UserError(f"/{slash.name} works in the terminal alone.", hint="Run hermes there.")
        _check_tier(call, slash)
        if call.turns and not slash.mid_turn:
            raise UserError(f"/{slash.name} does not work while a turn runs.", hint="Wait, or /stop first.")
        return slash.run(replace(call, name=slash.name))
    except UserError as error:
        return CommandReply(text=str(error))


def usable(source: Source, settings: Settings) -> list[SlashCommand]:
    """The commands that somebody may use, by name."""
    tier = tier_of(source, settings)
    here = _at_the_machine(source)
    return [slash for slash in known_commands(settings) if _may(tier, slash) and (here or not slash.terminal)]


def is_command(name: str) -> bool:
    return any(name in slash.names for slash in COMMANDS.values())


def spell_commands(text: str, prefix: str) -> str:
    """The commands that a sentence of ours names as they are given here: many a chat program keeps `/…` for
    itself."""
    if prefix == "/":
        return text
    return _NAMED.sub(lambda match: (prefix if is_command(match[1]) else "/") + match[1], text)


def _may(tier: Tier, slash: SlashCommand) -> bool:
    if slash.admin and not tier.owner:
        return False
    return tier.commands is None or any(name in tier.commands for name in slash.names)


def _check_tier(call: CommandCall, slash: SlashCommand) -> None:
    if _may(tier_of(call.source, call.settings), slash):
        return
    allowed = ", ".join(f"/{other.name}" for other in usable(call.source, call.settings))
    who = ""
    if slash.admin:
        key = "allow_admin_from" if call.source.kind is SourceKind.PRIVATE else "group_allow_admin_from"
        who = f"It is for admins: the operator names them in {call.source.address.credential}.{key}. "
    raise UserError(f"You may not use /{slash.name} here.", hint=f"{who}You may use {allowed}.")


# --- tiers: who may use which commands, apart for private chats and all else -------------------------

ALWAYS = ("help", "whoami")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """`commands` are those that one may use, as the operator wrote them; None is all. An `owner` may also do
    what lets other people in."""

    name: str
    reason: str
    commands: tuple[str, ...] | None = None
    owner: bool = False


def tier_of(source: Source, settings: Settings) -> Tier:
    if source.address.platform == LOCAL_DOOR:
        return Tier(name="admin", reason="it is this machine's terminal", owner=True)
    account, block = source.address.credential, settings.block(source.address)
    private = source.kind is SourceKind.PRIVATE
    lists = [(name, getattr(block, name)) for name in ("allow_admin_from", "group_allow_admin_from")]
    own, other = lists if private else lists[::-1]
    # Whoever names admins for one sort of chats means that nobody else is one in the other.
    key, admins = own if own[1] or not other[1] else other
    if not admins:
        # People whom the operator let in by id; `*` names nobody.
        named = {ident.strip() for ident in (*block.allowed_users, *settings.allowed_users)} - {"*", ""}
        owner = not ids_of(source).isdisjoint(named)
        why = "; the operator named you" if owner else ""
        return Tier(name="everybody", reason=f"{account}.{key} names no admins{why}", owner=owner)
    if is_listed(source, admins):
        return Tier(name="admin", reason=f"{account}.{key} names you", owner=True)
    listed = block.group_user_allowed_commands
    if private and block.user_allowed_commands:
        listed = block.user_allowed_commands
    commands = tuple(word.strip().lstrip("/").lower().replace("_", "-") for word in listed)
    return Tier(name="user", reason=f"{account}.{key} does not name you", commands=(*ALWAYS, *commands))
