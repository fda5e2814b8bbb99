"""What an adapter is made with: what the operator said, where its files come from, the time. And what it can
be asked before anybody uses it: whether its credentials work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from msgspec import Struct, field

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.chats.message import Attachment
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import Refused, UserError
from hermes.domain.ports.world import Egress
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.text import one_line

FindSecret = Callable[[str], Secret | None]
OpenFile = Callable[[Attachment], Awaitable[bytes]]
"""The bytes of a file that goes out; a `UserError` if it is gone."""
Welcomes = Callable[[Source], Awaitable[bool]]
"""Whether somebody who asks us into a chat may speak to us there, or would be given a code to be let in."""
FindTopic = Callable[[Address], Awaitable[Address | None]]
LogIn = Callable[["AdapterContext", Callable[[str], None]], Awaitable[Mapping[str, str]]]
"""Has a person let us in, and returns the variables to be kept; the function tells the person what to do."""
DescribeApp = Callable[["AdapterContext", Sequence[MenuEntry], str], Mapping[str, object]]
"""The vendor's description of our app, with these commands; the text is the public address at which it
calls, empty if it calls none."""


async def no_files(file: Attachment) -> bytes:
    raise UserError("There are no files here.")


def no_answer(question: str) -> NoReturn:
    raise UserError(f"Nobody can be asked here: {question}")


async def no_topic(named: Address, opened: Address | None = None) -> NoReturn:
    raise Refused(f"{named}: nobody here keeps what topics are called")


async def no_name(opened: Address) -> Address | None:
    return None


async def nobody(source: Source) -> bool:
    return False


class AdapterContext(Struct, frozen=True, kw_only=True):
    """What an adapter is made with; `account` is the name that its addresses carry, `folder` where it may
    keep what its protocol makes it keep (keys of encrypted chats)."""

    settings: PlatformSettings
    find: FindSecret
    """What the operator said for a variable, as a variable or as a key of the platform's block."""
    account: str = DEFAULT_ACCOUNT
    open_file: OpenFile = no_files
    egress: Egress | None = None
    """The way to addresses that somebody named, if it is not to the vendor's own."""
    clock: Clock = field(default_factory=SystemClock)
    welcomes: Welcomes = nobody
    folder: Path | None = None
    find_topic: FindTopic = no_topic
    """The address of the topic that has a name, which stands where a thread does; None if there is none."""
    name_topic: FindTopic = no_name
    """The address with a topic's name in place of its thread, also if it is gone; None if nobody named it."""
    keep_topic: Callable[[Address, Address], Awaitable[None]] = no_topic
    """From now on a name means this thread; it is on disk when this returns."""

    ask: Callable[[str], str] = no_answer
    """What the person at the terminal answers, while we are let in by hand."""

    learn: Callable[[str], None] = lambda secret: None
    """Told of each secret that the adapter was given at run time: no text shows it from then on."""

    def setting(self, variable: str, default: str = "") -> str:
        """The text of a variable; not for secrets that are kept."""
        secret = self.find(variable)
        return default if secret is None else secret.reveal().strip() or default

    def is_on(self, variable: str) -> bool:
        """Whether a variable that is off by default was turned on."""
        return self.setting(variable).lower() in ("true", "yes", "on", "1")

    def is_off(self, variable: str) -> bool:
        """Whether a variable that is on by default was turned off."""
        return self.setting(variable).lower() in ("false", "no", "off", "0")

    def port(self, variable: str, usual: str) -> int:
        """The port that a variable names, for an adapter that is called by its platform."""
        text = self.setting(variable, usual)
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
            raise UserError(f"{variable} is {one_line(text, 20)}: a port is wanted, like {usual}.")
        return int(text)


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that a check found out: good, or wrong and how to fix it."""

    good: bool
    text: str
    hint: str = ""


def good(text: str, hint: str = "") -> Finding:
    return Finding(good=True, text=text, hint=hint)


def wrong(text: str, hint: str = "") -> Finding:
    return Finding(good=False, text=text, hint=hint)
