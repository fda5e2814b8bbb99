"""Access: may this person speak here, and is it meant for us. One pure decision, with every rule it asked.

Rules of the place come first (groups we do not answer in), then those of the person (the platform's allow-all
→ its lists → pairing → the lists of all platforms → nobody), then, in groups, whether we were spoken to.
Platforms only tell facts; whatever is empty, missing or malformed denies."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hermes.domain.address import LOCAL_DOOR, Source, SourceKind
from hermes.domain.capabilities import NO_ABILITIES, Capabilities
from hermes.domain.pairing import Account
from hermes.domain.ports.store import Tx
from hermes.domain.rows import InboundOutcome, OutcomeKind
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings

log = logging.getLogger("hermes.access")
_CHECKED_AT_THEIR_DOOR = (SourceKind.API, SourceKind.WEBHOOK, SourceKind.JOB)
_NO_TOPIC = "1"
_MOST_LOGGED = 1000


class AccessOutcome(StrEnum):
    ALLOWED = "allowed"
    NEEDS_PAIRING = "needs pairing"
    NOT_FOR_US = "not for us"
    DENIED = "denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessStep:
    """What one rule said; `outcome` is None if it left the decision to the next."""

    rule: str
    reason: str
    outcome: AccessOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
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
        """How a message ends that is not allowed."""
        return InboundOutcome(kind=OutcomeKind(self.outcome.value), detail=self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    request: AccessRequest
    settings: Settings
    block: PlatformSettings

    @property
    def source(self) -> Source:
        return self.request.source

    @property
    def platform(self) -> str:
        return self.source.address.platform

    @property
    def account(self) -> str:
        return self.source.address.credential

    @property
    def private(self) -> bool:
        return self.source.kind is SourceKind.PRIVATE

    @property
    def chats(self) -> set[str]:
        """The names under which the place may be listed: the chat, and the one it belongs to."""
        return {one for one in (self.source.address.chat, self.source.parent_chat) if one}

    def key(self, name: str) -> str:
        return f"{self.account}.{name}"


def decide(request: AccessRequest, settings: Settings) -> AccessDecision:
    source = request.source
    block = settings.block(source.address)
    case = _Case(request=request, settings=settings, block=block)
    steps: list[AccessStep] = []
    unaddressed = False
    end = _ask(_OF_THE_PLACE, case, steps)
    if end is None:
        end = _ask(_OF_THE_PERSON, case, steps) or _ask((_stranger,), case, steps)
        assert end is not None
        if end.outcome is AccessOutcome.ALLOWED and not case.private:
            unheard = _ask((_spoken_to,), case, steps)
            unaddressed, end = unheard is not None, unheard or end
    stranger = steps[-1].rule == _STRANGERS and case.private
    assert end.outcome is not None
    return AccessDecision(
        outcome=end.outcome, reason=end.reason, steps=tuple(steps), stranger=stranger, unaddressed=unaddressed
    )


AccessRule = Callable[[_Case], AccessStep | None]


def _ask(rules: Sequence[AccessRule], case: _Case, steps: list[AccessStep]) -> AccessStep | None:
    """The step of the first rule that decides; a rule that does not concern this case says nothing."""
    for rule in rules:
        step = rule(case)
        if step is not None:
            steps.append(step)
            if step.outcome is not None:
                return step
    return None


# --- the place -------------------------------------------------------------------------------------


def _own_doors(case: _Case) -> AccessStep | None:
    if case.platform == LOCAL_DOOR:
        return AccessStep(rule="door", reason="it is this machine's terminal", outcome=AccessOutcome.ALLOWED)
    if case.source.kind in _CHECKED_AT_THEIR_DOOR:
        return AccessStep(rule="door", reason="its door has checked who it is", outcome=AccessOutcome.ALLOWED)
    if case.request.able.knows_people:
        reason = f"{case.account} itself lets in only whom the operator let in there"
        return AccessStep(rule="door", reason=reason, outcome=AccessOutcome.ALLOWED)
    return None


def _private_policy(case: _Case) -> AccessStep | None:
    policy = case.block.dm_policy
    if not case.private or not policy:
        return None
    rule = case.key("dm_policy")
    if policy == "disabled":
        return AccessStep(rule=rule, reason="private messages are turned off", outcome=AccessOutcome.DENIED)
    if policy == "open" and not case.block.allow_all_users:
        return AccessStep(rule=rule, reason="open, but allow_all_users is not set, so it opens nothing")
    return AccessStep(rule=rule, reason=policy)


def _group_policy(case: _Case) -> AccessStep | None:
    policy = case.block.group_policy
    if case.private or not policy:
        return None
    rule = case.key("group_policy")
    if policy == "disabled":
        return AccessStep(rule=rule, reason="groups are turned off", outcome=AccessOutcome.NOT_FOR_US)
    if policy == "open" and not case.block.allow_all_users:
        return AccessStep(rule=rule, reason="open, but allow_all_users is not set, so it opens nothing")
    if policy == "allowlist":
        chats = _listed(case.chats, (*case.block.allowed_chats, *case.block.group_allowed_chats))
        if not chats and not is_listed(case.source, case.block.group_allowed_users):
            reason = "neither this chat nor this person is on a group list"
            return AccessStep(rule=rule, reason=reason, outcome=AccessOutcome.NOT_FOR_US)
    return AccessStep(rule=rule, reason=policy)


def _ignored(case: _Case) -> AccessStep | None:
    if case.private or not case.block.ignored_channels:
        return None
    rule = case.key("ignored_channels")
    if _listed(_spots(case), case.block.ignored_channels):
        return AccessStep(rule=rule, reason="this chat is ignored", outcome=AccessOutcome.NOT_FOR_US)
    return AccessStep(rule=rule, reason="this chat is not among them")


def _chats(case: _Case) -> AccessStep | None:
    if case.private or not case.block.allowed_chats:
        return None
    rule = case.key("allowed_chats")
    if _listed(case.chats, case.block.allowed_chats):
        return AccessStep(rule=rule, reason="this chat is listed")
    if case.block.guest_mode and case.request.mentioned:
        return AccessStep(rule=case.key("guest_mode"), reason="this chat is not listed, but it mentions us")
    return AccessStep(rule=rule, reason="this chat is not listed", outcome=AccessOutcome.NOT_FOR_US)


def _topics(case: _Case) -> AccessStep | None:
    if case.private or not case.block.allowed_topics:
        return None
    rule = case.key("allowed_topics")
    if _listed({case.source.address.thread or _NO_TOPIC}, case.block.allowed_topics):
        return AccessStep(rule=rule, reason="this topic is listed")
    return AccessStep(rule=rule, reason="this topic is not listed", outcome=AccessOutcome.NOT_FOR_US)


def _foreign_command(case: _Case) -> AccessStep | None:
    """`/new@other_bot` is a command, but not one for us."""
    first = case.request.text.split(maxsplit=1)[:1]
    if case.private or case.request.mentioned or not first or not re.match(r"[/!]\w+@\w", first[0]):
        return None
    return AccessStep(rule="command", reason="it is for another bot", outcome=AccessOutcome.NOT_FOR_US)


_OF_THE_PLACE: tuple[AccessRule, ...] = (
    _own_doors, _private_policy, _group_policy, _ignored, _chats, _topics, _foreign_command,
)  # fmt: skip


# --- the person ------------------------------------------------------------------------------------


def _bots(case: _Case) -> AccessStep | None:
    if not case.source.is_bot:
        return None
    rule, allowed = case.key("allow_bots"), case.block.allow_bots
    if allowed == "all":
        return AccessStep(rule=rule, reason="bots are answered", outcome=AccessOutcome.ALLOWED)
    if allowed == "mentions":
        if case.request.mentioned:
            return AccessStep(
                rule=rule, reason="a bot that mentions us is answered", outcome=AccessOutcome.ALLOWED
            )
        return AccessStep(rule=rule, reason="bots must mention us", outcome=AccessOutcome.NOT_FOR_US)
    return AccessStep(rule=rule, reason="bots are not answered", outcome=AccessOutcome.DENIED)


def _open_chats(case: _Case) -> AccessStep | None:
    if case.private or not case.block.group_allowed_chats:
        return None
    rule = case.key("group_allowed_chats")
    if _listed(case.chats, case.block.group_allowed_chats):
        return AccessStep(rule=rule, reason="everybody may write in this chat", outcome=AccessOutcome.ALLOWED)
    return AccessStep(rule=rule, reason="this chat is not listed")


def _identity(case: _Case) -> AccessStep | None:
    if ids_of(case.source):
        return None
    return AccessStep(rule="user", reason="the platform gave no user id", outcome=AccessOutcome.DENIED)


def _everybody(case: _Case) -> AccessStep:
    rule = case.key("allow_all_users")
    if case.block.allow_all_users:
        return AccessStep(rule=rule, reason=f"{case.account} allows everybody", outcome=AccessOutcome.ALLOWED)
    return AccessStep(rule=rule, reason="not set")


def _list(case: _Case) -> AccessStep:
    reason = f"on the list of {case.account}"
    return _list_step(case, case.key("allowed_users"), case.block.allowed_users, reason)


def _group_list(case: _Case) -> AccessStep | None:
    if case.private:
        return None
    reason = f"on the group list of {case.account}"
    return _list_step(case, case.key("group_allowed_users"), case.block.group_allowed_users, reason)


def _roles(case: _Case) -> AccessStep | None:
    if not case.block.allowed_roles:
        return None
    rule = case.key("allowed_roles")
    if {role for role in case.source.roles if role.strip()} & set(case.block.allowed_roles):
        return AccessStep(rule=rule, reason="has an allowed role", outcome=AccessOutcome.ALLOWED)
    return AccessStep(rule=rule, reason="has none of these roles")


def _pairing(case: _Case) -> AccessStep:
    if case.request.paired:
        return AccessStep(rule="pairing", reason="paired", outcome=AccessOutcome.ALLOWED)
    return AccessStep(rule="pairing", reason="not paired")


def _list_of_all(case: _Case) -> AccessStep:
    return _list_step(case, "allowed_users", case.settings.allowed_users, "on the list of all platforms")


def _everybody_everywhere(case: _Case) -> AccessStep:
    if case.settings.allow_all_users:
        reason = "everybody is allowed on all platforms"
        return AccessStep(rule="allow_all_users", reason=reason, outcome=AccessOutcome.ALLOWED)
    return AccessStep(rule="allow_all_users", reason="not set")


_OF_THE_PERSON: tuple[AccessRule, ...] = (
    _identity, _bots, _open_chats, _everybody, _list, _group_list, _roles, _pairing, _list_of_all,
    _everybody_everywhere,
)  # fmt: skip
_STRANGERS = "unauthorized_dm_behavior"


def _stranger(case: _Case) -> AccessStep:
    if not case.private:
        return AccessStep(rule="groups", reason="on no list", outcome=AccessOutcome.DENIED)
    pairs, why = _reaction(case)
    if pairs:
        return AccessStep(rule=_STRANGERS, reason=f"on no list; {why}", outcome=AccessOutcome.NEEDS_PAIRING)
    return AccessStep(rule=_STRANGERS, reason=f"on no list; {why}", outcome=AccessOutcome.DENIED)


def _reaction(case: _Case) -> tuple[bool, str]:
    """Whether a stranger gets a code, and why."""
    block, everywhere = case.block, case.settings.unauthorized_dm_behavior
    if block.unauthorized_dm_behavior:
        return block.unauthorized_dm_behavior == "pair", f"{case.key(_STRANGERS)} says so"
    if not case.request.able.answers_strangers:
        return False, f"strangers on {case.account} are not answered"
    if everywhere != "pair":
        return False, f"{_STRANGERS} says so"
    if block.dm_policy:
        return block.dm_policy == "pairing", f"{case.key('dm_policy')} is {block.dm_policy}"
    if _has_lists(case):
        return False, "there is a list of who may write"
    return True, "strangers get a pairing code"


def _has_lists(case: _Case) -> bool:
    block = case.block
    return bool(
        block.allowed_users or block.group_allowed_users or block.allowed_roles or case.settings.allowed_users
    )


# --- spoken to -------------------------------------------------------------------------------------


def _spoken_to(case: _Case) -> AccessStep | None:
    block, request = case.block, case.request
    if case.platform == LOCAL_DOOR or case.source.kind in _CHECKED_AT_THEIR_DOOR:
        return None
    if request.for_others and block.exclusive_bot_mentions:
        reason = "it calls another bot by name, and not us"
        return AccessStep(
            rule=case.key("exclusive_bot_mentions"), reason=reason, outcome=AccessOutcome.NOT_FOR_US
        )
    wanted = request.able.called_by_name if block.require_mention is None else block.require_mention
    rule = case.key("require_mention")
    if not wanted:
        return AccessStep(rule=rule, reason="no mention is needed")
    why = _addressed(case)
    if why:
        return AccessStep(rule=rule, reason=why)
    return AccessStep(rule=rule, reason="nobody spoke to us", outcome=AccessOutcome.NOT_FOR_US)


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
    if _listed(_spots(case), block.free_response_channels):
        return "no mention is needed in this chat"
    if request.joined and not block.thread_require_mention:
        return "we take part in this thread"
    if request.named:
        return "it fits one of mention_patterns"
    return ""


# --- lists -----------------------------------------------------------------------------------------


def ids_of(source: Source) -> set[str]:
    """A person's ids, each as a whole: `42@evil.example` is not 42. A platform whose people have a second
    name tells it as the other id."""
    return {one for one in (source.user, source.user_alt) if one and one.strip()}


def is_listed(source: Source, listed: Iterable[str]) -> bool:
    """Whether a list names this person, or, by `*`, everybody who has an id."""
    return _listed(ids_of(source), listed)


def _listed(names: set[str], listed: Iterable[str]) -> bool:
    entries = {entry.strip() for entry in listed} - {""}
    return bool(names) and ("*" in entries or bool(names & entries))


def _spots(case: _Case) -> set[str]:
    thread = case.source.address.thread
    return case.chats | ({thread} if thread else set())


def _list_step(case: _Case, rule: str, listed: tuple[str, ...], reason: str) -> AccessStep:
    if is_listed(case.source, listed):
        return AccessStep(rule=rule, reason=reason, outcome=AccessOutcome.ALLOWED)
    return AccessStep(rule=rule, reason="not listed" if listed else "empty")


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
    return any(one and tx.pairings.get(account, one) is not None for one in ids)
