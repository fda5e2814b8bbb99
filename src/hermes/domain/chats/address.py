"""Places and people: where one can write to, and who wrote from where."""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import unquote

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

DEFAULT_ACCOUNT = "default"
LOCAL_DOOR = "terminal"
"""Who writes on this machine's terminal has the home in their hands; no platform may have this name."""
REMOTE = "remote"
"""The chat of a terminal that came in over HTTP with a key: the owner, and not at this machine."""
SINGLE = frozenset({LOCAL_DOOR, "api_server", "webhook"})
"""Doors of which a gateway has one: nobody gives them accounts. The API's addresses tell whose key it was."""
ACCOUNT_RULE = "small letters and digits, with single “-” between them, at most 32"
MOST_NAME = 240
_ACCOUNT = re.compile(r"(?=.{1,32}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")


class SourceKind(StrEnum):
    PRIVATE = "private"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"
    API = "api"
    WEBHOOK = "webhook"
    JOB = "job"


CHAT_KINDS = (SourceKind.PRIVATE, SourceKind.GROUP, SourceKind.CHANNEL, SourceKind.THREAD)


def spell(part: str) -> str:
    """A part of a printed address or key: `:` and `%` inside an id are percent-encoded."""
    return part.replace("%", "%25").replace(":", "%3A")


def spell_platform(platform: str, account: str) -> str:
    return platform if account == DEFAULT_ACCOUNT else f"{platform}@{spell(account)}"


def read_platform(text: str) -> tuple[str, str]:
    platform, at, account = text.partition("@")
    return platform.lower(), unquote(account) if at else DEFAULT_ACCOUNT


def account_problem(platform: str, account: str) -> UserError | None:
    """Why an operator cannot call an account of a platform so."""
    if platform in SINGLE:
        return UserError(f"{platform} has no accounts: there is one of it.", hint=f"Write {platform} alone.")
    if account == DEFAULT_ACCOUNT:
        named = f"{platform}@{account}"
        return UserError(f"{named} is {platform} itself.", hint=f"Write {platform} alone.")
    if _ACCOUNT.fullmatch(account):
        return None
    called = one_line(account, 40)
    return UserError(f"An account of {platform} cannot be called “{called}”.", hint=f"Use {ACCOUNT_RULE}.")


class Address(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place one can write to, printed `platform[@account]:chat[:thread]`."""

    platform: str
    account: str = DEFAULT_ACCOUNT
    chat: str
    thread: str | None = None

    def __str__(self) -> str:
        parts = [spell_platform(self.platform, self.account), spell(self.chat)]
        if self.thread is not None:
            parts.append(spell(self.thread))
        return ":".join(parts)

    @property
    def credential(self) -> str:
        """The account this address is reached through: `platform[@account]`."""
        return spell_platform(self.platform, self.account)

    @classmethod
    def parse(cls, text: str) -> Address:
        parts = text.split(":")
        if len(parts) not in (2, 3) or not all(parts):
            raise UserError(
                f"“{text}” is not an address.", hint="Write platform:chat or platform:chat:thread."
            )
        platform, account = read_platform(parts[0])
        thread = unquote(parts[2]) if len(parts) == 3 else None
        return cls(platform=platform, account=account, chat=unquote(parts[1]), thread=thread)


class Source(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who wrote, and from where. Ids are the platform's stable ones, never display names. `folder` is the one
    that a terminal was started in: sessions that begin there work in it, and in one that was started to
    `ignore_rules`, without what SOUL.md and the project say. Turns of one that wants `checkpoints` have them,
    whatever the settings say. Sessions that begin there get its `tag`."""

    address: Address
    kind: SourceKind
    user: str | None = None
    user_alt: str | None = None
    user_name: str | None = None
    chat_name: str | None = None
    guild: str | None = None
    parent_chat: str | None = None
    roles: tuple[str, ...] = ()
    is_bot: bool = False
    folder: str | None = None
    ignore_rules: bool = False
    checkpoints: bool = False
    tag: str | None = None

    @property
    def person(self) -> str | None:
        """The id that stays the same for one person: the alternate one where a platform has both."""
        return self.user_alt or self.user

    @property
    def is_chat(self) -> bool:
        """Whether this is a chat of a platform; a session that begins there has it in its prompt."""
        return self.kind in CHAT_KINDS and self.address.platform != LOCAL_DOOR

    @property
    def speaker(self) -> str:
        """A name for who wrote, on one line, that cannot be read as two."""
        names = (one_line(name or "", MOST_NAME) for name in (self.user_name, self.person))
        return next(filter(None, names), "somebody").replace("[", "(").replace("]", ")")

    @property
    def author(self) -> str | None:
        """The name that may stand before the words of this source; only people in chats have one."""
        return self.speaker if self.is_chat else None
