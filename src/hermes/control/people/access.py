"""Access: may this person speak here, and is it meant for us. One pure decision, with every rule it asked.

Rules of the place come first (groups we do not answer in), then those of the person (the platform's allow-all
→ its lists → pairing → the lists of all platforms → nobody), then, in groups, whether we were spoken to.
Platforms only tell facts; whatever is empty, missing or malformed denies."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from hermes.control.people.operator_patterns import fits_one
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.chats.capabilities import NO_ABILITIES, Capabilities
from hermes.domain.chats.pairing import Account
from hermes.domain.chats.rows import InboundOutcome, OutcomeKind
from hermes.domain.errors import UserError
from hermes.domain.ports.store import Tx
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.text import closest, one_line
from hermes.domain.word import replace

log = logging.getLogger("hermes.access")
_CHECKED_AT_THEIR_DOOR = (SourceKind.API, SourceKind.WEBHOOK, SourceKind.JOB)
_NO_TOPIC = "1"
_STRANGERS = "unauthorized_dm_behavior"
_MOST_LOGGED = 1000


class AccessOutcome(StrEnum):
    ALLOWED = "allowed"
    NEEDS_PAIRING = "needs pairing"
    NOT_FOR_US = "not for us"
    DENIED = "denied"


class AccessRequest(Struct, frozen=True, kw_only=True):
    """What is known of a message when it is decided on. `named` is one that fits `mention_patterns`,
    `for_others` one that calls other bots by name and not us; `joined` is a thread in which we already speak;
    `called` a command of ours or a button under a message of ours, `continued` the next piece of a message to
    us."""

    source: Source
    text: str = ""
    paired: bool = False
    mentioned: bool = False
    named: bool = False
    for_others: bool = False
    replied: bool = False
    joined: bool = False
    called: bool = False
    continued: bool = False
    able: Capabilities = NO_ABILITIES


class AccessStep(Struct, frozen=True, kw_only=True):
    """What one rule said; `outcome` is None if it left the decision to the next."""

    rule: str
    reason: str
    outcome: AccessOutcome | None = None


class AccessDecision(Struct, frozen=True, kw_only=True):
    """The decision. A `stranger` is somebody in a private chat whom no rule knows: a code may let them in.
    `unaddressed` is what somebody who may write here said without speaking to us."""

    outcome: AccessOutcome
    reason: str
    steps: tuple[AccessStep, ...] = ()
    stranger: bool = False
    unaddressed: bool = False

    @property
    def allowed(self) -> bool:
        return self.outcome is AccessOutcome.ALLOWED

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.reason}"

    def ending(self) -> InboundOutcome:
        return InboundOutcome(kind=OutcomeKind(self.outcome.value), detail=self.reason)


class _Case(Struct, frozen=True, kw_only=True):
    request: AccessRequest
    settings: Settings
    block: PlatformSettings

    @property
    def source(self) -> Source:
        return self.request.source

    @property
    def account(self) -> str:
        return self.source.address.credential

    @property
    def private(self) -> bool:
        return self.source.kind is SourceKind.PRIVATE

    @property
    def at_own_door(self) -> bool:
        return self.source.address.platform == LOCAL_DOOR or self.source.kind in _CHECKED_AT_THEIR_DOOR

    @property
    def chats(self) -> set[str]:
        """The names under which the place may be listed: the chat, and the one it belongs to."""
        return {name for name in (self.source.address.chat, self.source.parent_chat) if name}

    @property
    def spots(self) -> set[str]:
        thread = self.source.address.thread
        return self.chats | ({thread} if thread else set())

    def step(self, setting: str, reason: str, outcome: AccessOutcome | None = None) -> AccessStep:
        """What a setting of the account says."""
        return AccessStep(rule=f"{self.account}.{setting}", reason=reason, outcome=outcome)


def decide(request: AccessRequest, settings: Settings) -> AccessDecision:
    case = _Case(request=request, settings=settings, block=settings.block(request.source.address))
    steps: list[AccessStep] = []
    unaddressed = False
    end = _first_decisive(_place(case), steps)
    if end is None:
        end = _first_decisive(_person(case), steps)
        assert end is not None
        if end.outcome is AccessOutcome.ALLOWED and not case.private:
            unheard = _first_decisive(_spoken_to(case), steps)
            unaddressed, end = unheard is not None, unheard or end
    stranger = steps[-1].rule == _STRANGERS and case.private
    assert end.outcome is not None
    return AccessDecision(
        outcome=end.outcome, reason=end.reason, steps=tuple(steps), stranger=stranger, unaddressed=unaddressed
    )


def _first_decisive(rules: Iterator[AccessStep], steps: list[AccessStep]) -> AccessStep | None:
    """Ask rule after rule, and write down what each says, until one decides: the rules behind it are not
    reached. A rule that does not concern the case says nothing."""
    for step in rules:
        steps.append(step)
        if step.outcome is not None:
            return step
    return None


def _place(case: _Case) -> Iterator[AccessStep]:
    """The rules of the place: our own doors, and where we do not answer."""
    block, source, mentioned = case.block, case.source, case.request.mentioned
    if case.at_own_door:
        at_terminal = source.address.platform == LOCAL_DOOR
        reason = "it is this machine's terminal" if at_terminal else "its door has checked who it is"
        yield AccessStep(rule="door", reason=reason, outcome=AccessOutcome.ALLOWED)
    if case.request.able.knows_people:
        reason = f"{case.account} itself lets in only whom the operator let in there"
        yield AccessStep(rule="door", reason=reason, outcome=AccessOutcome.ALLOWED)
    if case.private:
        if block.dm_policy == "disabled":
            yield case.step("dm_policy", "private messages are turned off", AccessOutcome.DENIED)
        if block.dm_policy:
            yield case.step("dm_policy", _policy_words(block.dm_policy, block))
        return
    if block.group_policy == "disabled":
        yield case.step("group_policy", "groups are turned off", AccessOutcome.NOT_FOR_US)
    if block.group_policy == "allowlist":
        chats = _listed(case.chats, (*block.allowed_chats, *block.group_allowed_chats))
        if not chats and not is_listed(source, block.group_allowed_users):
            reason = "neither this chat nor this person is on a group list"
            yield case.step("group_policy", reason, AccessOutcome.NOT_FOR_US)
    if block.group_policy:
        yield case.step("group_policy", _policy_words(block.group_policy, block))
    if block.ignored_channels:
        if _listed(case.spots, block.ignored_channels):
            yield case.step("ignored_channels", "this chat is ignored", AccessOutcome.NOT_FOR_US)
        yield case.step("ignored_channels", "this chat is not among them")
    if block.allowed_chats:
        if _listed(case.chats, block.allowed_chats):
            yield case.step("allowed_chats", "this chat is listed")
        elif block.guest_mode and mentioned:
            yield case.step("guest_mode", "this chat is not listed, but it mentions us")
        else:
            yield case.step("allowed_chats", "this chat is not listed", AccessOutcome.NOT_FOR_US)
    if block.allowed_topics:
        if not _listed({source.address.thread or _NO_TOPIC}, block.allowed_topics):
            yield case.step("allowed_topics", "this topic is not listed", AccessOutcome.NOT_FOR_US)
        yield case.step("allowed_topics", "this topic is listed")
    # `/new@other_bot` is a command, but not one for us.
    if not mentioned and re.match(r"\s*[/!]\w+@\w", case.request.text):
        yield AccessStep(rule="command", reason="it is for another bot", outcome=AccessOutcome.NOT_FOR_US)


def _policy_words(policy: str, block: PlatformSettings) -> str:
    half_open = policy == "open" and not block.allow_all_users
    return "open, but allow_all_users is not set, so it opens nothing" if half_open else policy


def _person(case: _Case) -> Iterator[AccessStep]:
    """The rules of the person; the last one decides about strangers."""
    block, settings, account = case.block, case.settings, case.account
    if not ids_of(case.source):
        yield AccessStep(rule="user", reason="the platform gave no user id", outcome=AccessOutcome.DENIED)
    if case.source.is_bot:
        yield _bot(case)
    if not case.private and block.group_allowed_chats:
        listed = _listed(case.chats, block.group_allowed_chats)
        rule = f"{account}.group_allowed_chats"
        yield _allows(rule, listed, "everybody may write in this chat", "this chat is not listed")
    rule = f"{account}.allow_all_users"
    yield _allows(rule, block.allow_all_users, f"{account} allows everybody", "not set")
    yield _list(case, f"{account}.allowed_users", block.allowed_users, f"on the list of {account}")
    if not case.private:
        listed_users, rule = block.group_allowed_users, f"{account}.group_allowed_users"
        yield _list(case, rule, listed_users, f"on the group list of {account}")
    if block.allowed_roles:
        has_role = not {role for role in case.source.roles if role.strip()}.isdisjoint(block.allowed_roles)
        yield _allows(f"{account}.allowed_roles", has_role, "has an allowed role", "has none of these roles")
    yield _allows("pairing", case.request.paired, "paired", "not paired")
    yield _list(case, "allowed_users", settings.allowed_users, "on the list of all platforms")
    everybody = settings.allow_all_users
    yield _allows("allow_all_users", everybody, "everybody is allowed on all platforms", "not set")
    yield _stranger(case)


def _allows(rule: str, holds: bool, reason: str, otherwise: str) -> AccessStep:
    """A rule that lets people in where it holds, and else leaves the decision to the next."""
    outcome = AccessOutcome.ALLOWED if holds else None
    return AccessStep(rule=rule, reason=reason if holds else otherwise, outcome=outcome)


def _list(case: _Case, rule: str, listed: tuple[str, ...], reason: str) -> AccessStep:
    return _allows(rule, is_listed(case.source, listed), reason, "not listed" if listed else "empty")


def _bot(case: _Case) -> AccessStep:
    match case.block.allow_bots:
        case "all":
            return case.step("allow_bots", "bots are answered", AccessOutcome.ALLOWED)
        case "mentions" if case.request.mentioned:
            return case.step("allow_bots", "a bot that mentions us is answered", AccessOutcome.ALLOWED)
        case "mentions":
            return case.step("allow_bots", "bots must mention us", AccessOutcome.NOT_FOR_US)
    return case.step("allow_bots", "bots are not answered", AccessOutcome.DENIED)


def _stranger(case: _Case) -> AccessStep:
    if not case.private:
        return AccessStep(rule="groups", reason="on no list", outcome=AccessOutcome.DENIED)
    pairs, why = _reaction(case)
    outcome = AccessOutcome.NEEDS_PAIRING if pairs else AccessOutcome.DENIED
    return AccessStep(rule=_STRANGERS, reason=f"on no list; {why}", outcome=outcome)


def _reaction(case: _Case) -> tuple[bool, str]:
    """Whether a stranger gets a code, and why."""
    block, settings = case.block, case.settings
    if block.unauthorized_dm_behavior:
        return block.unauthorized_dm_behavior == "pair", f"{case.account}.{_STRANGERS} says so"
    if not case.request.able.answers_strangers:
        return False, f"strangers on {case.account} are not answered"
    if settings.unauthorized_dm_behavior != "pair":
        return False, f"{_STRANGERS} says so"
    if block.dm_policy:
        return block.dm_policy == "pairing", f"{case.account}.dm_policy is {block.dm_policy}"
    if block.allowed_users or block.group_allowed_users or block.allowed_roles or settings.allowed_users:
        return False, "there is a list of who may write"
    return True, "strangers get a pairing code"


def _spoken_to(case: _Case) -> Iterator[AccessStep]:
    """In groups: whether it was said to us."""
    block, request = case.block, case.request
    if case.at_own_door:
        return
    if request.for_others and block.exclusive_bot_mentions:
        reason = "it calls somebody else by name, and not us"
        yield case.step("exclusive_bot_mentions", reason, AccessOutcome.NOT_FOR_US)
    needed = request.able.called_by_name if block.require_mention is None else block.require_mention
    why = _addressed(case) if needed else "no mention is needed"
    if why:
        yield case.step("require_mention", why)
    else:
        yield case.step("require_mention", "nobody spoke to us", AccessOutcome.NOT_FOR_US)


def _addressed(case: _Case) -> str:
    block, request = case.block, case.request
    if request.mentioned:
        return "it mentions us"
    if request.replied:
        return "it replies to us"
    if request.continued:
        return "it goes on with a message to us"
    if request.called:
        return "it uses one of our commands or buttons"
    if _listed(case.spots, block.free_response_channels):
        return "no mention is needed in this chat"
    if request.joined and not block.thread_require_mention:
        return "we take part in this thread"
    return "it fits one of mention_patterns" if request.named else ""


# --- lists -----------------------------------------------------------------------------------------


def ids_of(source: Source) -> set[str]:
    """A person's ids, each as a whole: `42@evil.example` is not 42. A platform whose people have a second
    name tells it as the other id."""
    return {ident for ident in (source.user, source.user_alt) if ident and ident.strip()}


def is_listed(source: Source, listed: Iterable[str]) -> bool:
    """Whether a list names this person, or, by `*`, everybody who has an id."""
    return _listed(ids_of(source), listed)


def _listed(names: set[str], listed: Iterable[str]) -> bool:
    entries = {entry.strip() for entry in listed} - {""}
    return bool(names) and ("*" in entries or bool(names & entries))


def half_open(settings: Settings) -> list[str]:
    """Policies that say `open` where the flag that opens is missing: somebody must say which one is meant."""
    return [
        f"{platform}.{key} is open, but {platform}.allow_all_users is not set."
        for platform, block in sorted(settings.platforms.items())
        for key, policy in (("dm_policy", block.dm_policy), ("group_policy", block.group_policy))
        if policy == "open" and not block.allow_all_users and block.enabled is not False
    ]


class Refusals:
    """Tells the log of everybody who is not let in, once each while it runs, so that an operator finds the id
    to list: whoever is refused hears nothing."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str | None]] = set()

    def note(self, source: Source, outcome: InboundOutcome) -> None:
        who = (source.address.credential, source.user)
        if outcome.kind is not OutcomeKind.DENIED or who in self._logged or len(self._logged) >= _MOST_LOGGED:
            return
        self._logged.add(who)
        log.info("access.denied account=%s user=%s chat=%s why=%s", *who, source.address, outcome)


def account_of(source: Source) -> Account:
    return Account(platform=source.address.platform, name=source.address.account)


def is_paired(tx: Tx, source: Source) -> bool:
    account = account_of(source)
    ids = (source.user, source.user_alt)
    return any(ident and tx.pairings.get(account, ident) is not None for ident in ids)


# --- `hermes access explain`: a source told in words, judged as a message from there would be ----------

EXAMPLE = "telegram:-100123 user=42 kind=group role=helpers mention"
VALUES = ("user", "alt", "name", "kind", "role", "guild", "parent", "text")
FLAGS = ("bot", "mention", "others", "reply", "joined", "command")


def read_access_request(words: Sequence[str]) -> AccessRequest:
    """`platform:chat[:thread] user=… kind=… role=… [mention] [reply] [bot]` as a message that would come."""
    if not words:
        raise UserError("Say who writes from where.", hint=f"For example: {EXAMPLE}")
    told: dict[str, list[str]] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if name not in (VALUES if equals else FLAGS) or (equals and not value):
            raise _unknown(word, name)
        told.setdefault(name, []).extend(value.split(",") if name == "role" else [value])
    one = {name: values[-1] for name, values in told.items()}
    source = Source(
        address=Address.parse(words[0]),
        kind=_kind(one.get("kind", SourceKind.PRIVATE.value)),
        user=one.get("user"),
        user_alt=one.get("alt"),
        user_name=one.get("name"),
        guild=one.get("guild"),
        parent_chat=one.get("parent"),
        roles=tuple(told.get("role", ())),
        is_bot="bot" in told,
    )
    return AccessRequest(
        source=source,
        text=one.get("text", ""),
        mentioned="mention" in told,
        for_others="others" in told and "mention" not in told,
        replied="reply" in told,
        joined="joined" in told,
        called="command" in told,
    )


def explain(
    tx: Tx | None, request: AccessRequest, settings: Settings, capabilities: Callable[[Address], Capabilities]
) -> AccessDecision:
    """The verdict on it; without a store nobody is paired."""
    source = request.source
    paired = tx is not None and is_paired(tx, source)
    named = fits_one(settings.block(source.address).mention_patterns, request.text)
    able = capabilities(source.address)
    return decide(replace(request, paired=paired, named=named, able=able), settings)


def _kind(word: str) -> SourceKind:
    if word == "dm":
        return SourceKind.PRIVATE
    try:
        return SourceKind(word)
    except ValueError as error:
        known = ", ".join(kind.value for kind in SourceKind)
        raise UserError(f"“{one_line(word, 40)}” is not a kind of place.", hint=f"Known: {known}.") from error


def _unknown(word: str, name: str) -> UserError:
    known = {**{one: f"{one}=…" for one in VALUES}, **{one: one for one in FLAGS}}
    near = closest(name, known)
    hint = f"Did you mean “{known[near]}”?" if near else f"Known: {', '.join(known.values())}."
    return UserError(f"“{one_line(word, 40)}” says nothing about a source.", hint=hint)
