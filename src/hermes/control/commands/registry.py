"""The one registry of slash commands, and how a line is read as one.

A command is a function of a `Call`: it runs inside the transaction that ends its inbox row, so what it reads
it may decide on, and its effects and its reply are stored together or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches

from hermes.control.tiers import Tier, tier_of
from hermes.domain.address import Source
from hermes.domain.errors import UserError
from hermes.domain.ports import Tx
from hermes.domain.session import Session, SessionKey
from hermes.domain.settings import Settings
from hermes.domain.turn import ReplyPlace, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One use of a command. `turns` are the session's unfinished ones, oldest first; `reply_place` is where
    the answers of new turns are sent, none at a door that watches them; `platforms` are those there are."""

    tx: Tx
    name: str
    args: str
    source: Source
    key: SessionKey
    session: Session
    turns: list[Turn]
    settings: Settings
    now: datetime
    model: str = ""
    reply_place: ReplyPlace | None = None
    platforms: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a command answers; `turn` is a turn it created. A `fleeting` text is kept until it is sent."""

    text: str
    turn: Turn | None = None
    fleeting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    name: str
    run: Callable[[Call], Reply]
    summary: str
    usage: str = ""
    aliases: tuple[str, ...] = ()
    admin: bool = False
    """Only for admins, and where none are named, for those whom the operator let in by id."""

    @property
    def line(self) -> str:
        also = f" (also {', '.join('/' + alias for alias in self.aliases)})" if self.aliases else ""
        return f"/{self.name}{' ' + self.usage if self.usage else ''}: {self.summary}{also}"


COMMANDS: dict[str, SlashCommand] = {}


def command(
    name: str, summary: str, *, usage: str = "", aliases: tuple[str, ...] = (), admin: bool = False
) -> Callable[[Callable[[Call], Reply]], Callable[[Call], Reply]]:
    def register(run: Callable[[Call], Reply]) -> Callable[[Call], Reply]:
        COMMANDS[name] = SlashCommand(
            name=name, run=run, summary=summary, usage=usage, aliases=aliases, admin=admin
        )
        return run

    return register


_WORD = re.compile(r"[a-z0-9][a-z0-9_-]*", re.IGNORECASE)
_DASHES = str.maketrans({"\u2014": "--", "\u2013": "-"})


def read_command(text: str, prefix: str = "/") -> tuple[str, str] | None:
    """A line as (name, arguments), or None if it is plain text (a file path is plain text)."""
    if not text.startswith((prefix, "/")):
        return None
    first, _, rest = (
        text[1:].partition(" ") if "\n" not in text.split(" ", 1)[0] else text[1:].partition("\n")
    )
    name = first.partition("@")[0]
    if not _WORD.fullmatch(name):
        return None
    return name.lower().replace("_", "-"), rest.strip().translate(_DASHES)


def resolve(name: str) -> SlashCommand:
    """By name, alias, or a start that only one command has."""
    for known in COMMANDS.values():
        if name == known.name or name in known.aliases:
            return known
    begins = [known for known in COMMANDS.values() if known.name.startswith(name)]
    if len(begins) == 1:
        return begins[0]
    if begins:
        names = ", ".join(f"/{known.name}" for known in begins)
        raise UserError(f"/{name} could be {names}.", hint="Write a little more of it.")
    near = get_close_matches(name, list(COMMANDS), n=1)
    hint = f"Did you mean /{near[0]}?" if near else "/help lists the commands."
    raise UserError(f"There is no command /{name}.", hint=f"{hint} To send it as text, leave out the slash.")


def perform(call: Call) -> Reply:
    """Run the command that a call names, in full or in short; what is wrong with it is its reply."""
    try:
        known = resolve(call.name)
        _check_tier(call, known)
        return known.run(replace(call, name=known.name))
    except UserError as error:
        return Reply(text=str(error))


def usable(source: Source, settings: Settings) -> list[SlashCommand]:
    """The commands that somebody may use, by name."""
    tier = tier_of(source, settings)
    known = sorted(COMMANDS.values(), key=lambda one: one.name)
    return [one for one in known if _may(tier, one)]


def is_command(name: str) -> bool:
    return any(name == known.name or name in known.aliases for known in COMMANDS.values())


def _may(tier: Tier, known: SlashCommand) -> bool:
    if known.admin and not tier.owner:
        return False
    return tier.commands is None or any(name in tier.commands for name in (known.name, *known.aliases))


def _check_tier(call: Call, known: SlashCommand) -> None:
    if _may(tier_of(call.source, call.settings), known):
        return
    allowed = ", ".join(f"/{one.name}" for one in usable(call.source, call.settings))
    raise UserError(f"You may not use /{known.name} here.", hint=f"You may use {allowed}.")
