"""Access as a table: who may speak where, and which rule said so."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hermes.control.people.access import AccessOutcome, AccessRequest, decide
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.settings.platforms import PlatformSettings as Block
from hermes.domain.settings.settings import Settings
from hermes.domain.word import replace

ALLOWED, PAIRS = AccessOutcome.ALLOWED, AccessOutcome.NEEDS_PAIRING
AWAY, DENIED = AccessOutcome.NOT_FOR_US, AccessOutcome.DENIED
ADDRESS = Address(platform="telegram", chat="-100", thread=None)
ANN = Source(address=Address(platform="telegram", chat="42"), kind=SourceKind.PRIVATE, user="42")
GROUP = Source(address=ADDRESS, kind=SourceKind.GROUP, user="42")
TOPIC = replace(GROUP, address=replace(ADDRESS, thread="7"), kind=SourceKind.THREAD)
THREAD = replace(
    GROUP, address=Address(platform="telegram", chat="t1"), kind=SourceKind.THREAD, parent_chat="-100"
)
NAMED = Capabilities(called_by_name=True)
OPEN = Block(allow_all_users=True)


def private(**more: object) -> AccessRequest:
    return AccessRequest(source=ANN, **more)  # type: ignore[arg-type]


def group(**more: object) -> AccessRequest:
    return AccessRequest(source=GROUP, **more)  # type: ignore[arg-type]


def whoever(source: Source = ANN, **more: object) -> AccessRequest:
    return AccessRequest(source=replace(source, **more))  # type: ignore[arg-type]


def block(**said: object) -> Settings:
    return Settings(platforms={"telegram": Block(**said)})  # type: ignore[arg-type]


def opened(**said: object) -> Settings:
    return block(allow_all_users=True, **said)


@dataclass(frozen=True)
class Row:
    knock: AccessRequest
    settings: Settings
    outcome: AccessOutcome
    reason: str


TABLE: dict[str, Row] = {
    # --- the order of the rules for a person ---
    "nothing said, private": Row(private(), Settings(), PAIRS, "strangers get a pairing code"),
    "nothing said, group": Row(group(), Settings(), DENIED, "on no list"),
    "allow-all": Row(private(), opened(), ALLOWED, "telegram allows everybody"),
    "allow-all of another": Row(
        private(), Settings(platforms={"slack": OPEN}), PAIRS, "strangers get a pairing code"
    ),
    "allow-all, no id": Row(whoever(user=None), opened(), DENIED, "no user id"),
    "blank id": Row(whoever(user="  "), opened(), DENIED, "no user id"),
    "listed": Row(private(), block(allowed_users=("42",)), ALLOWED, "on the list of telegram"),
    "listed by the other id": Row(
        whoever(user_alt="uuid"), block(allowed_users=("uuid",)), ALLOWED, "on the list of telegram"
    ),
    "star": Row(private(), block(allowed_users=("*",)), ALLOWED, "on the list of telegram"),
    "star lets nobody in without id": Row(
        whoever(user=None), block(allowed_users=("*",)), DENIED, "no user id"
    ),
    "another listed": Row(private(), block(allowed_users=("43",)), DENIED, "there is a list"),
    "a start of an id": Row(private(), block(allowed_users=("4",)), DENIED, "there is a list"),
    "a longer id": Row(private(), block(allowed_users=("421",)), DENIED, "there is a list"),
    "spaces around": Row(private(), block(allowed_users=(" 42 ",)), ALLOWED, "on the list"),
    "empty entry": Row(whoever(user=""), block(allowed_users=("",)), DENIED, "no user id"),
    "unreadable list": Row(private(), block(allowed_users=("(none)",)), DENIED, "there is a list"),
    "paired": Row(private(paired=True), Settings(), ALLOWED, "paired"),
    "paired beside a list": Row(private(paired=True), block(allowed_users=("1",)), ALLOWED, "paired"),
    "paired, in a group": Row(group(paired=True), Settings(), ALLOWED, "paired"),
    "global list": Row(private(), Settings(allowed_users=("42",)), ALLOWED, "list of all platforms"),
    "global star": Row(private(), Settings(allowed_users=("*",)), ALLOWED, "list of all platforms"),
    "global list, another": Row(private(), Settings(allowed_users=("1",)), DENIED, "there is a list"),
    "global allow-all": Row(private(), Settings(allow_all_users=True), ALLOWED, "everybody is allowed"),
    "global allow-all, group": Row(group(), Settings(allow_all_users=True), ALLOWED, "everybody is allowed"),
    "a name is no id": Row(whoever(user_name="boss"), block(allowed_users=("boss",)), DENIED, "a list"),
    # --- ids with @ ---
    "part before @": Row(whoever(user="42@evil.example"), block(allowed_users=("42",)), DENIED, "a list"),
    "part before @, group": Row(
        AccessRequest(source=replace(GROUP, user="42@evil.example"), mentioned=True),
        block(group_allowed_users=("42",)),
        DENIED,
        "on no list",
    ),
    "part before @, all platforms": Row(
        whoever(user="42@evil.example"), Settings(allowed_users=("42",)), DENIED, "there is a list"
    ),
    "the other id": Row(
        whoever(user="x1", user_alt="4915@s.example"),
        block(allowed_users=("4915@s.example",)),
        ALLOWED,
        "on the list",
    ),
    "an open group, nobody": Row(
        AccessRequest(source=replace(GROUP, user=None), mentioned=True),
        block(group_allowed_chats=("*",)),
        DENIED,
        "no user id",
    ),
    "a bot without an id": Row(
        AccessRequest(source=replace(GROUP, user=None, is_bot=True), mentioned=True),
        block(allow_bots="all"),
        DENIED,
        "no user id",
    ),
    "an empty role": Row(whoever(roles=("",)), block(allowed_roles=("",)), DENIED, "a list"),
    "another domain": Row(
        whoever(user="ann@evil.example"), block(allowed_users=("ann@good.example",)), DENIED, "a list"
    ),
    "entry with @, id without": Row(private(), block(allowed_users=("42@x",)), DENIED, "there is a list"),
    "nothing before @": Row(whoever(user="@ann:matrix"), block(allowed_users=("",)), DENIED, "a list"),
    # --- roles ---
    "role": Row(whoever(roles=("a", "b")), block(allowed_roles=("b",)), ALLOWED, "has an allowed role"),
    "other role": Row(whoever(roles=("a",)), block(allowed_roles=("b",)), DENIED, "there is a list"),
    "no role": Row(private(), block(allowed_roles=("b",)), DENIED, "there is a list"),
    "role called like a user": Row(whoever(roles=("x",)), block(allowed_users=("x",)), DENIED, "a list"),
    # --- bots ---
    "bot": Row(whoever(is_bot=True), opened(), DENIED, "bots are not answered"),
    "bot, listed": Row(whoever(is_bot=True), block(allowed_users=("42",)), DENIED, "bots are not answered"),
    "bot, all": Row(whoever(is_bot=True), block(allow_bots="all"), ALLOWED, "bots are answered"),
    "bot without mention": Row(
        whoever(GROUP, is_bot=True), block(allow_bots="mentions"), AWAY, "bots must mention us"
    ),
    "bot that replies": Row(
        AccessRequest(source=replace(GROUP, is_bot=True), replied=True),
        block(allow_bots="mentions"),
        AWAY,
        "must",
    ),
    "bot that mentions": Row(
        AccessRequest(source=replace(GROUP, is_bot=True), mentioned=True),
        block(allow_bots="mentions"),
        ALLOWED,
        "bot",
    ),
    "bot, all, but called by name": Row(
        whoever(GROUP, is_bot=True), block(allow_bots="all", require_mention=True), AWAY, "nobody spoke to us"
    ),
    # --- private chats ---
    "dm disabled": Row(private(), opened(dm_policy="disabled"), DENIED, "turned off"),
    "dm disabled, paired": Row(private(paired=True), block(dm_policy="disabled"), DENIED, "turned off"),
    "dm disabled, group": Row(group(), opened(dm_policy="disabled"), ALLOWED, "allows everybody"),
    "dm open alone": Row(private(), block(dm_policy="open"), DENIED, "dm_policy is open"),
    "dm open with allow-all": Row(private(), opened(dm_policy="open"), ALLOWED, "allows everybody"),
    "dm allowlist": Row(private(), block(dm_policy="allowlist"), DENIED, "dm_policy is allowlist"),
    "dm pairing beside a list": Row(
        private(), block(dm_policy="pairing", allowed_users=("1",)), PAIRS, "dm_policy is pairing"
    ),
    "told to ignore": Row(private(), block(unauthorized_dm_behavior="ignore"), DENIED, "says so"),
    "told to pair beside a list": Row(
        private(), block(unauthorized_dm_behavior="pair", allowed_users=("1",)), PAIRS, "says so"
    ),
    "told to ignore everywhere": Row(
        private(), Settings(unauthorized_dm_behavior="ignore"), DENIED, "unauthorized_dm_behavior says so"
    ),
    "platform wins over everywhere": Row(
        private(),
        replace(block(unauthorized_dm_behavior="pair"), unauthorized_dm_behavior="ignore"),
        PAIRS,
        "telegram.unauthorized_dm_behavior says so",
    ),
    "email gives no codes": Row(
        private(able=Capabilities(answers_strangers=False)), Settings(), DENIED, "are not answered"
    ),
    "email, told to pair": Row(
        private(able=Capabilities(answers_strangers=False)),
        block(unauthorized_dm_behavior="pair"),
        PAIRS,
        "says so",
    ),
    # --- groups ---
    "group off": Row(group(), opened(group_policy="disabled"), AWAY, "groups are turned off"),
    "group list": Row(group(), block(group_allowed_users=("42",)), ALLOWED, "on the group list"),
    "group list, private": Row(private(), block(group_allowed_users=("42",)), DENIED, "there is a list"),
    "open chat": Row(group(), block(group_allowed_chats=("-100",)), ALLOWED, "everybody may write in this"),
    "open chat, other chat": Row(group(), block(group_allowed_chats=("-1",)), DENIED, "on no list"),
    "open chat is no private": Row(private(), block(group_allowed_chats=("42",)), PAIRS, "pairing code"),
    "all chats open": Row(group(), block(group_allowed_chats=("*",)), ALLOWED, "everybody may write in this"),
    "chat listed": Row(group(), opened(allowed_chats=("-100",)), ALLOWED, "allows everybody"),
    "chat not listed": Row(group(), opened(allowed_chats=("-1",)), AWAY, "this chat is not listed"),
    "chat list grants nothing": Row(group(), block(allowed_chats=("-100",)), DENIED, "on no list"),
    "chat list, private": Row(private(), opened(allowed_chats=("-1",)), ALLOWED, "allows everybody"),
    "unreadable chat list": Row(group(), opened(allowed_chats=("(none)",)), AWAY, "is not listed"),
    "parent listed": Row(
        AccessRequest(source=THREAD), opened(allowed_chats=("-100",)), ALLOWED, "allows everybody"
    ),
    "topic listed": Row(
        AccessRequest(source=TOPIC), opened(allowed_topics=("7",)), ALLOWED, "allows everybody"
    ),
    "topic not listed": Row(
        AccessRequest(source=TOPIC), opened(allowed_topics=("8",)), AWAY, "topic is not listed"
    ),
    "outside topics": Row(group(), opened(allowed_topics=("8",)), AWAY, "this topic is not listed"),
    "outside topics is 1": Row(group(), opened(allowed_topics=("1",)), ALLOWED, "allows everybody"),
    "ignored": Row(group(), opened(ignored_channels=("-100",)), AWAY, "this chat is ignored"),
    "ignored by its parent": Row(
        AccessRequest(source=THREAD), opened(ignored_channels=("-100",)), AWAY, "ignored"
    ),
    "group allowlist, nothing listed": Row(group(), opened(group_policy="allowlist"), AWAY, "group list"),
    "group allowlist, chat": Row(
        group(), opened(group_policy="allowlist", allowed_chats=("-100",)), ALLOWED, "everybody"
    ),
    "group allowlist, person": Row(
        group(), block(group_policy="allowlist", group_allowed_users=("42",)), ALLOWED, "on the group list"
    ),
    "group open alone": Row(group(), block(group_policy="open"), DENIED, "on no list"),
    # --- spoken to ---
    "no mention needed": Row(group(), opened(), ALLOWED, "allows everybody"),
    "platform wants its name": Row(group(able=NAMED), opened(), AWAY, "nobody spoke to us"),
    "operator wants no name": Row(group(able=NAMED), opened(require_mention=False), ALLOWED, "everybody"),
    "other bot": Row(group(for_others=True), opened(), AWAY, "it calls somebody else by name"),
    "other bot, a reply": Row(
        group(for_others=True, replied=True),
        opened(require_mention=True),
        AWAY,
        "it calls somebody else by name",
    ),
    "other bot, not exclusive": Row(
        group(for_others=True), opened(exclusive_bot_mentions=False), ALLOWED, "everybody"
    ),
    "other bot, alone": Row(private(for_others=True), opened(), ALLOWED, "everybody"),
    "guest, mentioned": Row(
        group(mentioned=True), opened(allowed_chats=("other",), guest_mode=True), ALLOWED, "everybody"
    ),
    "guest, replied": Row(
        group(replied=True),
        opened(allowed_chats=("other",), guest_mode=True),
        AWAY,
        "this chat is not listed",
    ),
    "guest, a stranger": Row(
        group(mentioned=True), block(allowed_chats=("other",), guest_mode=True), DENIED, "on no list"
    ),
    "no guest": Row(group(mentioned=True), opened(allowed_chats=("other",)), AWAY, "this chat is not listed"),
    "mention wanted": Row(group(), opened(require_mention=True), AWAY, "nobody spoke to us"),
    "mentioned": Row(group(mentioned=True), opened(require_mention=True), ALLOWED, "everybody"),
    "replied": Row(group(replied=True), opened(require_mention=True), ALLOWED, "everybody"),
    "command": Row(group(called=True, text="/stop"), opened(require_mention=True), ALLOWED, "everybody"),
    "private needs none": Row(private(), opened(require_mention=True), ALLOWED, "everybody"),
    "free chat": Row(
        group(), opened(require_mention=True, free_response_channels=("-100",)), ALLOWED, "everybody"
    ),
    "free topic": Row(
        AccessRequest(source=TOPIC),
        opened(require_mention=True, free_response_channels=("7",)),
        ALLOWED,
        "everybody",
    ),
    "free parent": Row(
        AccessRequest(source=THREAD),
        opened(require_mention=True, free_response_channels=("-100",)),
        ALLOWED,
        "every",
    ),
    "our thread": Row(
        AccessRequest(source=THREAD, joined=True), opened(require_mention=True), ALLOWED, "allows everybody"
    ),
    "our thread, strictly": Row(
        AccessRequest(source=THREAD, joined=True),
        opened(require_mention=True, thread_require_mention=True),
        AWAY,
        "nobody spoke to us",
    ),
    "pattern": Row(
        group(text="hey Hermes, hi", named=True),
        opened(require_mention=True, mention_patterns=(r"\bhermes\b",)),
        ALLOWED,
        "everybody",
    ),
    "other pattern": Row(
        group(text="thermesh"),
        opened(require_mention=True, mention_patterns=(r"\bhermes\b",)),
        AWAY,
        "nobody",
    ),
    "a mention lets nobody in": Row(group(mentioned=True), Settings(), DENIED, "on no list"),
    "another bot's command": Row(group(text="/new@other_bot x"), opened(), AWAY, "for another bot"),
    "our own command by name": Row(
        group(text="/new@us_bot", mentioned=True), opened(), ALLOWED, "allows everybody"
    ),
    # --- doors that check by themselves ---
    "terminal": Row(
        AccessRequest(source=Source(address=Address(platform="terminal", chat="x"), kind=SourceKind.PRIVATE)),
        Settings(),
        ALLOWED,
        "this machine's terminal",
    ),
    "webhook": Row(whoever(kind=SourceKind.WEBHOOK, user=None), Settings(), ALLOWED, "its door has checked"),
    "api": Row(whoever(kind=SourceKind.API), Settings(), ALLOWED, "its door has checked"),
    "knows its people": Row(
        private(able=Capabilities(knows_people=True)), Settings(), ALLOWED, "telegram itself lets in"
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_each_row_is_decided_as_it_says(name: str) -> None:
    row = TABLE[name]
    verdict = decide(row.knock, row.settings)
    assert (verdict.outcome, row.reason in verdict.reason) == (row.outcome, True), verdict
    deciding = [step for step in verdict.steps if step.outcome is not None]
    assert deciding and any(step.reason == verdict.reason for step in deciding)
    assert all(step.rule and step.reason for step in verdict.steps)


def test_the_table_is_large_enough() -> None:
    assert len(TABLE) >= 60
    assert {row.outcome for row in TABLE.values()} == set(AccessOutcome)


def test_only_a_person_in_a_private_chat_is_a_stranger() -> None:
    assert decide(private(), Settings()).stranger
    assert decide(private(), block(unauthorized_dm_behavior="ignore")).stranger
    for knock in (group(), whoever(is_bot=True), whoever(user=None), private(paired=True)):
        assert not decide(knock, Settings()).stranger
    assert not decide(private(), block(dm_policy="disabled")).stranger


def test_the_rules_are_told_in_the_order_they_are_asked() -> None:
    rules = [step.rule for step in decide(group(mentioned=True), opened(require_mention=True)).steps]
    assert rules == ["telegram.allow_all_users", "telegram.require_mention"]
    rules = [step.rule for step in decide(private(), Settings()).steps]
    assert rules == [
        "telegram.allow_all_users", "telegram.allowed_users", "pairing", "allowed_users", "allow_all_users",
        "unauthorized_dm_behavior",
    ]  # fmt: skip
