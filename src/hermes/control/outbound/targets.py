"""Targets: turns the name that a person, a job or a model gives to a place into addresses.

A name is `origin`, `local`, `all`, a platform (its home channel), `platform:chat[:thread]`, `platform:name`,
or a list of these. Resolving is pure: `known_targets` reads the known chats and homes in a transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from urllib.parse import unquote

from msgspec import Struct, field

from hermes.domain.chats.address import Address, Source, SourceKind, read_platform, spell_platform
from hermes.domain.chats.channels import Channel
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import EVERY_AGENT, AgentId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.domain.word import replace

log = logging.getLogger("hermes.targets")
ORIGIN = "origin"
LOCAL = "local"
ALL = "all"
_WEBHOOK = "webhook"
_WRITE_HASH = frozenset({"slack", "discord"})
"""Platforms that put a “#” before the names of channels. Elsewhere it begins a keyword."""
_NAMED = 8
_SHOWN = 60
_LONGEST = 256

Aliases = Mapping[str, Mapping[str, str]]
"""Names that a file gives to chats: {platform: {chat: name}}."""


class KnownTargets(Struct, frozen=True, kw_only=True):
    """What targets are looked up in. `accounts` are the platforms this gateway has, as `platform[@account]`;
    `homes` are by account, too."""

    accounts: Collection[str] = ()
    homes: Mapping[str, Address] = field(default_factory=dict)
    channels: Sequence[Channel] = ()
    origin: Address | None = None


def known_targets(
    tx: Tx, settings: Settings, accounts: Collection[str], aliases: Aliases, origin: Address | None = None
) -> KnownTargets:
    return KnownTargets(
        accounts=accounts,
        homes=home_channels(tx, settings),
        channels=[*webhook_targets(settings), *with_aliases(tx.directory.channels(), aliases)],
        origin=origin,
    )


def resolve_targets(text: str, places: KnownTargets) -> tuple[Address, ...]:
    """The places that are meant, each once, in the order they were named; none for `local`."""
    words = [word.strip() for word in text.split(",")]
    if not any(words):
        raise UserError("No target was named.", hint=f"There is: {_what_there_is(places)}.")
    found: dict[Address, None] = {}
    for word in filter(None, words):
        found.update(dict.fromkeys(_resolve(word, places)))
    return tuple(found)


def _resolve(word: str, places: KnownTargets) -> tuple[Address, ...]:
    if len(word) > _LONGEST:
        raise UserError(f"A target has at most {_LONGEST} characters.")
    if word.lower() == LOCAL:
        return ()
    if word.lower() == ORIGIN:
        if places.origin is None:
            raise UserError(
                "There is no chat that this came from.", hint=f"There is: {_what_there_is(places)}."
            )
        return (places.origin,)
    if word.lower() == ALL:
        if not places.homes:
            raise UserError("No platform has a home channel.", hint="Write /sethome in a chat.")
        return tuple(places.homes.values())
    named, colon, rest = word.partition(":")
    platform, account = read_platform(named.strip())
    credential = spell_platform(platform, account)
    if credential not in places.accounts:
        raise UserError(
            f"There is no platform “{one_line(named, _SHOWN)}” in use.",
            hint=f"There is: {_what_there_is(places)}. `hermes platforms setup` brings another into use.",
        )
    if platform == _WEBHOOK:
        return (_webhook(rest.strip(), places),)
    if not colon:
        return (_home(credential, places),)
    return (_chat(rest.strip(), platform, account, places),)


def _webhook(name: str, places: KnownTargets) -> Address:
    """Only what the operator named: an address is never made of a word."""
    webhooks = (channel.address for channel in places.channels if channel.address.platform == _WEBHOOK)
    there = {address.chat: address for address in webhooks}
    if name not in there:
        listed = ", ".join(f"{_WEBHOOK}:{chat}" for chat in sorted(there)) or "none yet"
        raise UserError(
            f"There is no webhook target “{one_line(name, _SHOWN)}”.",
            hint=f"There is: {listed}. They are named in platforms.webhook.targets.",
        )
    return there[name]


def _home(credential: str, places: KnownTargets) -> Address:
    home = places.homes.get(credential)
    if home is None:
        raise UserError(
            f"{credential} has no home channel.",
            hint=f"Write /sethome in a chat of it, or name one: {credential}:chat.",
        )
    return home


def _chat(rest: str, platform: str, account: str, places: KnownTargets) -> Address:
    """A chat by id, by name, by `guild/name`, or by the beginning of a name that no other chat has. Anything
    else that looks like an id is one, though nobody has written from there yet."""
    if not rest:
        raise UserError(f"“{platform}:” names no chat.", hint=f"Write {platform}:chat or {platform}:#name.")
    own = spell_platform(platform, account)
    mine = [channel for channel in places.channels if channel.address.credential == own]
    for channel in mine:
        if rest in (channel.address.chat, str(channel.address).partition(":")[2]):
            return channel.address if rest != channel.address.chat else replace(channel.address, thread=None)
    named = _by_name(rest, mine, platform)
    if named is not None:
        return named
    chat, colon, thread = rest.partition(":")
    if colon and thread and ":" not in thread:
        place = _by_name(chat, mine, platform)
        if place is not None:
            return Address(platform=platform, account=account, chat=place.chat, thread=unquote(thread))
        if _is_id(chat) and thread.isprintable():
            # The name of a topic may have spaces in it.
            return Address(platform=platform, account=account, chat=unquote(chat), thread=unquote(thread))
    if not _is_id(rest):
        there = (
            ", ".join(channel.label for channel in mine[:_NAMED] if channel.name) or "none with a name yet"
        )
        raise UserError(
            f"{platform} has no chat called “{one_line(rest, _SHOWN)}”.",
            hint=f"Known: {there}. A chat that never wrote is named by its id, or in channel_aliases.json.",
        )
    return Address.parse(f"{own}:{rest}")


def _by_name(text: str, mine: Sequence[Channel], platform: str) -> Address | None:
    wanted = _folded(text)
    if not wanted:
        return None
    fits: tuple[Callable[[Channel], bool], ...] = (
        lambda channel: _folded(channel.name) == wanted,
        lambda channel: (
            bool(channel.guild) and f"{channel.guild.casefold()}/{_folded(channel.name)}" == wanted
        ),
        lambda channel: _folded(channel.name).startswith(wanted),
    )
    for fit in fits:
        found = [channel for channel in mine if channel.name and fit(channel)]
        whole = [channel for channel in found if channel.address.thread is None] or found
        if len({channel.address for channel in whole}) == 1:
            return whole[0].address
        if found:
            there = ", ".join(channel.label for channel in whole[:_NAMED])
            raise UserError(
                f"“{one_line(text, _SHOWN)}” fits {len(whole)} chats of {platform}.",
                hint=f"Say which by its id: {there}.",
            )
    return None


def spellings(to: Address, places: KnownTargets) -> tuple[str, ...]:
    """The ways to write a chat that mean no other: its address, and its whole name with its platform or its
    sign (`#`, `@`). A plain word is not enough: it may mean anything."""
    if to.thread is not None:
        return (str(to),)
    own = [channel for channel in places.channels if channel.address == to and channel.name.strip()]
    forms = [to.chat] if to.chat[0] in "#@" and _others(to, to.chat, places) == 0 else []
    for channel in own:
        name = channel.name.strip().removeprefix("#")
        if name and _others(to, name, places, to.credential) == 0:
            forms += [f"{to.credential}:#{name}", *([] if _is_id(name) else [f"{to.credential}:{name}"])]
        if channel.kind is SourceKind.PRIVATE or not name or _others(to, name, places):
            continue
        if name[0] == "@":
            forms.append(name)
        elif to.platform in _WRITE_HASH or channel.name.strip() != name:
            forms.append(f"#{name}")
    return tuple(dict.fromkeys([str(to), *forms, *(form.casefold() for form in forms)]))


def _others(to: Address, name: str, places: KnownTargets, credential: str = "") -> int:
    """How many other chats have this name, or a longer one that begins with it and a space."""
    wanted = f"{_folded(name)} "
    return sum(
        any(f"{_folded(word)} ".startswith(wanted) for word in (channel.name, channel.address.chat))
        for channel in places.channels
        if (channel.address.credential, channel.address.chat) != (to.credential, to.chat)
        and credential in ("", channel.address.credential)
    )


def _folded(name: str) -> str:
    return name.strip().removeprefix("#").casefold()


def _is_id(text: str) -> bool:
    """Ids have digits or signs in them; a plain word is a name. Nothing with spaces is an id."""
    if text.startswith("#") or not text.isprintable() or any(char.isspace() for char in text):
        return False
    return any(char.isdigit() or char in "@!+/._%" for char in text)


def _what_there_is(places: KnownTargets) -> str:
    words = [*sorted(places.homes), *(f"{name}:chat" for name in sorted(places.accounts)), LOCAL]
    if places.origin is not None:
        words.insert(0, ORIGIN)
    return ", ".join([*words, ALL] if places.homes else words)


# --- what is known ---


def home_channels(tx: Tx, settings: Settings) -> dict[str, Address]:
    """The home channel of each account: chosen in a chat, or else named in the settings."""
    homes: dict[str, Address] = {}
    for account, block in settings.platforms.items():
        home = _home_of_settings(account, block, settings)
        if home is not None:
            homes[account] = home
    return {**homes, **tx.directory.homes()}


def home_channel(tx: Tx, settings: Settings, near: Address) -> Address | None:
    """Where the operator reads about a platform: the home of the account, or else of the platform."""
    homes = home_channels(tx, settings)
    return homes.get(near.credential) or homes.get(near.platform)


def _home_of_settings(account: str, block: PlatformSettings, settings: Settings) -> Address | None:
    """A chat of the account, or a whole address; an id may have a colon in it, too."""
    channel = block.home_channel.strip()
    if not channel:
        return None
    platform, name = read_platform(account)
    first = read_platform(channel.partition(":")[0])[0]
    platforms = {platform, *(read_platform(other)[0] for other in settings.platforms)}
    if ":" in channel and first in platforms:
        try:
            return Address.parse(channel)
        except UserError as error:
            log.warning("targets.home_channel account=%s problem=%s", account, error)
            return None
    return Address(platform=platform, account=name, chat=channel, thread=block.home_thread or None)


def webhook_targets(settings: Settings) -> list[Channel]:
    """The addresses that messages can be posted to, by their names."""
    block = settings.platforms.get(_WEBHOOK)
    named = None if block is None else block.trees.get("targets")
    names = [str(name) for name in named] if isinstance(named, Mapping) else []
    return [
        Channel(address=Address(platform=_WEBHOOK, chat=name), name=name, kind=SourceKind.WEBHOOK)
        for name in names
    ]


def with_aliases(channels: Sequence[Channel], aliases: Aliases) -> list[Channel]:
    """The chats under the names that a file gives them, and those that only the file knows."""
    found = {channel.address: channel for channel in channels}
    for platform, names in aliases.items():
        for chat, name in names.items():
            service, account = read_platform(platform)
            address = Address(platform=service, account=account, chat=chat)
            found[address] = replace(found.get(address, Channel(address=address)), name=name)
    return list(found.values())


# --- where the answers of a job go -------------------------------------------------------------------

ResolveTargets = Callable[[Tx, str, Source | None, Settings], tuple[Address, ...]]
"""The addresses that `deliver` means, for who made the job; a `UserError` says what is wrong with it."""


def named_targets(names: Callable[[], Aliases], accounts: Collection[str] | None = None) -> ResolveTargets:
    """Knows also the chat names of a file. `accounts` are those in use; where nobody says, those with a block
    in the settings, though one may be off or no place to write to. It is called in the store's own thread,
    where reading a file may wait. `origin` is the chat in which the job was made; one that was made elsewhere
    goes to the first home channel, or else stays local."""

    def look_up(tx: Tx, deliver: str, origin: Source | None, settings: Settings) -> tuple[Address, ...]:
        chat = origin.address if origin is not None and origin.is_chat else None
        known = known_targets(
            tx, settings, settings.platforms if accounts is None else accounts, names(), chat
        )
        words = [word.strip() for word in deliver.split(",") if word.strip()]
        homes: tuple[Address, ...] = ()
        if chat is None and any(word.lower() == ORIGIN for word in words):
            words = [word for word in words if word.lower() != ORIGIN] or [LOCAL]
            homes = tuple(known.homes.values())[:1]
        return tuple(dict.fromkeys((*homes, *resolve_targets(",".join(words), known))))

    return look_up


default_targets = named_targets(dict)
"""Knows only the names that chats have by themselves."""


# --- topics by name ----------------------------------------------------------------------------------
#
# The directory keeps which thread a name got: the thread is a known chat with that name. An adapter that
# makes names into threads (`Outfit.find_topic`, `Outfit.keep_topic`) opens one and has it kept before it
# sends, so a crash between the two leaves an empty thread and no message less.

_GONE = "(gone) {name}"


def find_topic(tx: Tx, named: Address) -> Address | None:
    """The thread that the name in a place's thread got."""
    if named.thread is None:
        return None
    threads = tx.directory.channels(inside=named)
    return next((one.address for one in threads if one.name == named.thread), None)


def lane_of(tx: Tx, to: Address) -> Address:
    """Where what is sent to a place has to queue. A thread has one queue, called by its name or its number;
    the name's own is for the first messages, and for those behind them while they wait."""
    found = find_topic(tx, to)
    return to if found is None or tx.outbox.head(to) is not None else found


def real_place(tx: Tx, to: Address) -> Address:
    """Where people see what is sent to a place."""
    return find_topic(tx, to) or to


class NamedTopics(Struct, frozen=True, kw_only=True):
    """The names of all chats, for adapters."""

    store: Store
    clock: Clock

    async def find(self, named: Address) -> Address | None:
        return await self.store.read(lambda tx: find_topic(tx, named))

    async def name(self, opened: Address) -> Address | None:
        """What a thread is called, or was called before it was gone."""

        def look(tx: Tx) -> Address | None:
            names = {one.address: one.name for one in tx.directory.channels(inside=opened)}
            name = names.get(opened, "").removeprefix(_GONE.format(name=""))
            return replace(opened, thread=name) if name else None

        return await self.store.read(look)

    async def keep(self, named: Address, opened: Address) -> None:
        """From now on the name means this thread. Conversations of the thread that had it go on in this one;
        they follow first, so that whoever stopped in between does it all again."""
        now = self.clock.now()
        for agent in await self.store.scoped(EVERY_AGENT).read(lambda tx: _there(tx, named)):
            await self.store.scoped(agent).write(lambda tx: _follow(tx, named, opened, now))
        await self.store.write(lambda tx: _keep(tx, named, opened, now))


def _there(tx: Tx, named: Address) -> set[AgentId]:
    """The agents that have conversations in the thread of this name."""
    old = find_topic(tx, named)
    sessions = () if old is None else tx.directory.bound(old)
    return {key.agent for session in sessions for key, _ in tx.bindings.of(session)}


def _follow(tx: Tx, named: Address, opened: Address, now: datetime) -> None:
    old = find_topic(tx, named)
    for session in () if old is None else tx.directory.bound(old):
        for key, bound in tx.bindings.of(session):
            if bound.address == old:
                there = replace(bound, address=opened)
                tx.bindings.bind(replace(key, thread=opened.thread), session, there, now)


def _keep(tx: Tx, named: Address, opened: Address, now: datetime) -> None:
    name = named.thread or ""
    old = find_topic(tx, named)
    fresh = Channel(address=opened, name=name, kind=SourceKind.PRIVATE, seen_at=now)
    if old is not None:
        tx.directory.note(replace(fresh, address=old, name=_GONE.format(name=name)))
    tx.directory.note(fresh)
