"""The one registry of slash commands, and how a line is read as one.

A command is a function of a `CommandCall`: it runs inside the transaction that ends its inbox row, so
it may decide on what it reads, and its effects and its reply are stored together or not at all. What takes
time (files, models, long reads) is its `prepare`, which is awaited before and may be repeated."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime
from itertools import chain
from traceback import extract_tb
from typing import Any, TypeVar

from msgspec import Struct, field

from hermes.control.core import Runtime
from hermes.control.outbound.targets import ResolveTargets, default_targets
from hermes.control.people.standing import admin_list
from hermes.domain.chats.address import LOCAL_DOOR, Source, SourceKind
from hermes.domain.chats.command_line import read_command
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.models import ModelDirectory
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.system.border import Border
from hermes.domain.text import closest, one_line
from hermes.domain.turns.gateway_event import GatewayEvent
from hermes.domain.turns.session import Session, SessionKey
from hermes.domain.turns.turn import ReplyPlace, Turn
from hermes.domain.word import field_names, replace

log = logging.getLogger("hermes.commands")
T = TypeVar("T")
PREPARE_SECONDS = 30.0


def _at_the_machine(source: Source) -> bool:
    return source.address.platform == LOCAL_DOOR


def read_number(word: str, most: int) -> int | None:
    """A number from 1 to `most`; None if it is none."""
    number = int(word) if word.isascii() and word.isdigit() and len(word) < 10 else 0
    return number if 1 <= number <= most else None


async def _nothing_to_check() -> None:
    """Stands where nothing starts again."""


class GatewayInfo(Struct, frozen=True, kw_only=True):
    """What commands may know of the gateway around them: who may see everybody's sessions, the version, the
    home, the platform accounts there are and which are up, where jobs may deliver to, and whether it can
    begin anew."""

    is_admin: Callable[[Source], bool] = _at_the_machine
    version: str = ""
    home: str = ""
    accounts: Collection[str] = ()
    receiving: Collection[str] = ()
    """Those of the accounts that people write from."""
    is_up: Callable[[str], bool] = lambda account: False
    targets: ResolveTargets = default_targets
    can_restart: bool = False
    check_start: Callable[[], Awaitable[None]] = _nothing_to_check
    """Raises what would keep the gateway from starting again."""
    directory: ModelDirectory | None = None
    """The models that a session may choose."""
    update: Callable[[], Awaitable[str]] | None = None
    """Brings the program up to date; what is new, nothing if nothing is. None where it cannot."""


NOTHING_AROUND = GatewayInfo()


async def _unseen(text: str) -> None:
    """Stands at doors that show nothing before the reply."""


class CommandRequest(Struct, frozen=True, kw_only=True):
    """A command that somebody wants to use, as `prepare` sees it. `turns` are the session's unfinished ones,
    oldest first; a session that `begins` with the command is not stored yet. `reply_place` is where the
    answers of new turns are sent, none at a door that watches them; `platforms` are those there are.
    `progress` tells the person in the chat, in a sentence, how it stands with what takes long."""

    name: str
    args: str
    source: Source
    key: SessionKey
    session: Session
    settings: Settings
    now: datetime
    runtime: Runtime
    gateway: GatewayInfo
    platforms: Collection[str] = ()
    begins: bool = False
    turns: list[Turn] = field(default_factory=list)
    reply_place: ReplyPlace | None = None
    progress: Callable[[str], Awaitable[None]] = _unseen

    @property
    def model(self) -> str:
        """The agent's own."""
        return self.runtime.model

    async def read(self, query: Callable[[CommandCall], T]) -> T:
        """Ask the store something, beside the writer."""
        return await self.runtime.store.read(lambda tx: query(call_in(tx, self)))

    @property
    def is_admin(self) -> bool:
        return self.gateway.is_admin(self.source)

    @property
    def is_local(self) -> bool:
        return _at_the_machine(self.source)

    def number(self, most: int, default: str = "") -> int | None:
        """The arguments as a number from 1 to `most`; None if they are none."""
        return read_number(self.args or default, most)


class CommandCall(CommandRequest, frozen=True, kw_only=True):
    """One use of a command, in its transaction; `prepared` is what its `prepare` brought."""

    tx: Tx
    prepared: Any = None
    context: Callable[[], str] = lambda: ""
    """What the model is to be told before words that a command says."""


def call_in(tx: Tx, request: CommandRequest) -> CommandCall:
    return CommandCall(tx=tx, **{name: getattr(request, name) for name in field_names(CommandRequest)})


class CommandReply(Struct, frozen=True, kw_only=True):
    """What a command answers; `turn` is a turn it created, `begun` a session that took the place of the one
    before, `wakes` are other sessions that have work now, `handoff` is the id of one that was asked for. A
    `fleeting` text is kept until it is sent. After the commit of a reply with `restart` the gateway begins
    anew."""

    text: str
    turn: Turn | None = None
    fleeting: bool = False
    begun: Session | None = None
    wakes: tuple[SessionId, ...] = ()
    beside: Turn | None = None
    """A turn of another session, whose answer goes to whoever called."""
    handoff: str = ""
    agent: AgentId | None = None
    """Whom a terminal speaks with from now on."""
    restart: bool = False
    label: str = ""
    """What ran, for the trace of the message; filled in by `run_command`, as is `news`, what has happened."""
    news: tuple[GatewayEvent, ...] = ()


class CommandBroke(Exception):
    """A command raised what is for nobody to see, or gave no reply. Its transaction is undone with it."""

    def __init__(self, name: str, error: BaseException) -> None:
        frames = extract_tb(error.__traceback__)
        at = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
        super().__init__(f"name={name} why={type(error).__name__}: {one_line(str(error), 200)} at={at}")
        self.text = f"/{name} broke ({type(error).__name__}), so nothing was done. The log says where."


class SlashCommand(Struct, frozen=True, kw_only=True):
    """`mid_turn`: it may run while a turn does. `gate` names a setting without which there is no such
    command, like `display.streaming`. `prepare` is awaited before the transaction, for up to `seconds`; a
    crash, or a change of what it was prepared on, has it repeated."""

    name: str
    run: Callable[[CommandCall], CommandReply]
    summary: str
    usage: str = ""
    aliases: tuple[str, ...] = ()
    admin: bool = False
    """Only for admins, and where none are named, for those whom the operator let in by id."""
    otherwise: str = ""
    """What helps whoever may not, with `{account}` and `{chat}`."""
    mid_turn: bool = True
    gate: str = ""
    terminal: bool = False
    """Not for chats."""
    whole: bool = False
    """Meant only by its whole name, so that it takes no short form from another."""
    target: str = ""
    """The line of another command that it stands for."""
    prepare: Callable[[CommandRequest], Awaitable[object]] | None = None
    seconds: float = PREPARE_SECONDS

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
CommandSource = Callable[[Settings, Runtime | None], Iterable[SlashCommand]]
SOURCES: list[CommandSource] = []
"""Who else brings commands, for an agent or (None) for whichever. They are asked for each line, inside the
transaction too, so they answer from memory. A name of a built-in command stays its own."""
Command = Callable[[CommandCall], CommandReply]
_NAMED = re.compile(r"(?<![\w/.~])/([a-z][a-z-]*)(?![\w/.]\w)")


def command(name: str, summary: str, **options: Any) -> Callable[[Command], Command]:
    """Register a command; `options` are the further fields of `SlashCommand`."""

    def register(run: Command) -> Command:
        slash = SlashCommand(name=name, run=run, summary=summary, **options)
        for other in COMMANDS.values():
            if other.run.__module__ != run.__module__ and not set(slash.names).isdisjoint(other.names):
                raise UserError(f"/{other.name} is there already")
        COMMANDS[name] = slash
        return run

    return register


def known_commands(settings: Settings | None = None, runtime: Runtime | None = None) -> list[SlashCommand]:
    """Every command that there is under these settings and with this agent, by name."""
    there = [slash for slash in COMMANDS.values() if slash.is_there(settings)]
    taken = {word for slash in COMMANDS.values() for word in slash.names}
    brought = [] if settings is None else [_brought(source, settings, runtime) for source in SOURCES]
    for slash in chain.from_iterable(brought):
        if taken.isdisjoint(slash.names) and slash.is_there(settings):
            there.append(slash)
            taken.update(slash.names)
    return sorted(there, key=lambda slash: slash.name)


def _brought(source: CommandSource, settings: Settings, runtime: Runtime | None) -> list[SlashCommand]:
    try:
        with Border():
            return list(source(settings, runtime))
    except Exception as error:  # it may be a plugin's: without its commands all others work
        log.warning("commands.source_broke source=%s why=%r", getattr(source, "__qualname__", source), error)
        return []


def resolve(name: str, settings: Settings | None = None, runtime: Runtime | None = None) -> SlashCommand:
    """By name, alias, or a start that only one command has; capitals do not matter."""
    name = name.lower().replace("_", "-")
    there = known_commands(settings, runtime)
    for slash in there:
        if name in slash.names:
            return slash
    short = [slash for slash in there if not slash.whole]
    begins = [slash for slash in short if any(word.startswith(name) for word in slash.names)]
    if len(begins) == 1:
        return begins[0]
    if begins:
        names = ", ".join(f"/{slash.name}" for slash in begins)
        raise UserError(f"/{name} could be {names}.", hint="Write a little more of it.")
    words = {word: slash.name for slash in there for word in slash.names}
    near = closest(name, words)
    hint = f"Did you mean /{words[near]}?" if near else "/help lists the commands."
    raise UserError(
        f"There is no command /{name}.", hint=f"{hint} To send it as text, leave out the first character."
    )


def follow(
    name: str, args: str, settings: Settings, runtime: Runtime | None
) -> list[tuple[SlashCommand, str]]:
    """The command that is meant with its arguments, and behind it the one that it stands for, if it does."""
    slash = resolve(name, settings, runtime)
    line = read_command(f"/{slash.target.lstrip('/')} {args}".rstrip()) if slash.target else None
    if line is None:
        return [(slash, args)]
    try:
        target = resolve(line[0], settings, runtime)
    except UserError:
        return [(slash, args)]
    # One may not lead to another that leads on: they could lead in a circle.
    return [(slash, args)] if target.target else [(slash, args), (target, line[1])]


def find_meant(name: str, settings: Settings, runtime: Runtime | None) -> list[SlashCommand]:
    """As `follow`, without arguments; empty if there is no such command."""
    try:
        return [slash for slash, _ in follow(name, "", settings, runtime)]
    except UserError:
        return []


def choose_command(request: CommandRequest) -> tuple[SlashCommand, str]:
    """The command that a request leads to, and its arguments; a `UserError` says why it may not run."""
    steps = follow(request.name, request.args, request.settings, request.runtime)
    for slash, _ in steps:
        if slash.terminal and not request.is_local:
            raise UserError(f"/{slash.name} works in the terminal alone.", hint="Run hermes there.")
        _check_tier(request, slash)
        if request.turns and not slash.mid_turn:
            raise UserError(f"/{slash.name} does not work while a turn runs.", hint="Wait, or /stop first.")
    return steps[-1]


def perform(call: CommandCall) -> CommandReply:
    """Run the command that a call names, in full or in short; what is wrong with it is its reply."""
    try:
        slash, args = choose_command(call)
        return _run(slash, replace(call, name=slash.name, args=args))
    except UserError as error:
        return CommandReply(text=str(error))


def _run(slash: SlashCommand, call: CommandCall) -> CommandReply:
    try:
        reply = slash.run(call)
        if not isinstance(reply, CommandReply) or not isinstance(reply.text, str):
            raise TypeError("it gave no CommandReply with a text")
    except HermesError:
        raise
    except (Exception, SystemExit) as error:  # it may be a plugin's
        raise CommandBroke(slash.name, error) from error
    return reply


def usable(source: Source, settings: Settings, runtime: Runtime | None = None) -> list[SlashCommand]:
    """The commands that somebody may use, by name."""
    tier = tier_of(source, settings)
    here = _at_the_machine(source)
    there = known_commands(settings, runtime)
    return [slash for slash in there if _may(tier, slash) and (here or not slash.terminal)]


def is_command(name: str) -> bool:
    return any(name in slash.names for slash in COMMANDS.values())


def spell_commands(text: str, prefix: str) -> str:
    """The commands that a sentence of ours names as they are given here: many a chat program keeps `/…` for
    itself."""
    if prefix == "/":
        return text
    return _NAMED.sub(lambda match: (prefix if is_command(match[1]) else "/") + match[1], text)


def _may(tier: Tier, slash: SlashCommand) -> bool:
    if slash.name in tier.opened:
        return True
    if slash.admin and not tier.owner:
        return False
    return tier.commands is None or any(name in tier.commands for name in slash.names)


def _check_tier(call: CommandRequest, slash: SlashCommand) -> None:
    if _may(tier_of(call.source, call.settings), slash):
        return
    allowed = ", ".join(f"/{other.name}" for other in usable(call.source, call.settings, call.runtime))
    who = ""
    if slash.admin:
        key = "allow_admin_from" if call.source.kind is SourceKind.PRIVATE else "group_allow_admin_from"
        who = f"It is for admins: the operator names them in {call.source.address.credential}.{key}. "
        who += slash.otherwise.format(account=call.source.address.credential, chat=call.source.address.chat)
    raise UserError(f"You may not use /{slash.name} here.", hint=f"{who}You may use {allowed}.")


# --- tiers: who may use which commands, apart for private chats and all else -------------------------

ALWAYS = ("help", "whoami")


class Tier(Struct, frozen=True, kw_only=True):
    """`commands` are those that one may use, as the operator wrote them; None is all. An `owner` may also do
    what lets other people in. `opened` are admin commands that the settings open to everybody."""

    name: str
    reason: str
    commands: tuple[str, ...] | None = None
    owner: bool = False
    opened: tuple[str, ...] = ()


def tier_of(source: Source, settings: Settings) -> Tier:
    if settings.block(source.address).who_may_pair == "users":
        return replace(_tier_of(source, settings), opened=("pair",))
    return _tier_of(source, settings)


def _tier_of(source: Source, settings: Settings) -> Tier:
    if source.address.platform == LOCAL_DOOR:
        return Tier(name="admin", reason="it is this machine's terminal", owner=True)
    account, block = source.address.credential, settings.block(source.address)
    admins = admin_list(source, settings)
    if not admins.named:
        why = "; the operator named you" if admins.holds else ""
        reason = f"{account}.{admins.key} names no admins{why}"
        return Tier(name="everybody", reason=reason, owner=admins.holds)
    if admins.holds:
        return Tier(name="admin", reason=f"{account}.{admins.key} names you", owner=True)
    listed = block.group_user_allowed_commands
    if source.kind is SourceKind.PRIVATE and block.user_allowed_commands:
        listed = block.user_allowed_commands
    commands = tuple(word.strip().lstrip("/").lower().replace("_", "-") for word in listed)
    return Tier(
        name="user", reason=f"{account}.{admins.key} does not name you", commands=(*ALWAYS, *commands)
    )
