"""Places and people: where one can write to, and who wrote from where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from hermes.domain.errors import UserError

DEFAULT_ACCOUNT = "default"
LOCAL_DOOR = "terminal"
"""Who writes on this machine's terminal has the home in their hands; no platform may have this name."""


class Kind(StrEnum):
    """What sort of place a message came from."""

    PRIVATE = "private"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"
    API = "api"
    WEBHOOK = "webhook"
    JOB = "job"


def spell(part: str) -> str:
    """A part of a printed address or key: `:` and `%` inside an id are percent-encoded."""
    return part.replace("%", "%25").replace(":", "%3A")


def spell_platform(platform: str, account: str) -> str:
    return platform if account == DEFAULT_ACCOUNT else f"{platform}@{spell(account)}"


def read_platform(text: str) -> tuple[str, str]:
    platform, at, account = text.partition("@")
    return platform.lower(), unquote(account) if at else DEFAULT_ACCOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Who wrote, and from where. Ids are the platform's stable ones, never display names."""

    address: Address
    kind: Kind
    user: str | None = None
    user_alt: str | None = None
    user_name: str | None = None
    chat_name: str | None = None
    guild: str | None = None
    parent_chat: str | None = None
    roles: tuple[str, ...] = ()
    is_bot: bool = False

    @property
    def person(self) -> str | None:
        """The id that stays the same for one person: the alternate one where a platform has both."""
        return self.user_alt or self.user
