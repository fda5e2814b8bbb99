"""What an adapter is made with: what the operator said, where its files come from, the time. And what it can
be asked before anybody uses it: whether its credentials work."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes.domain.address import DEFAULT_ACCOUNT, Address, Source
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import Refused, Unreachable, UserError
from hermes.domain.message import Attachment
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.text import one_line

FindSecret = Callable[[str], Secret | None]
"""What the operator said for a variable, as a variable or as a key of the platform's block."""
OpenFile = Callable[[Attachment], Awaitable[bytes]]
"""The bytes of a file that goes out; a `UserError` if it is gone."""
Welcomes = Callable[[Source], Awaitable[bool]]
"""Whether somebody who asks us into a chat may speak to us there, or would be given a code to be let in."""
FindTopic = Callable[[Address], Awaitable[Address | None]]
"""The thread that a name got, which stands where a place's thread does; None if it has none yet."""
NameTopic = Callable[[Address], Awaitable[Address | None]]
"""The same place with its thread's name, that of one which is gone too; None if nobody here gave it one."""
KeepTopic = Callable[[Address, Address], Awaitable[None]]
"""From now on a name means this thread; it is on disk when this returns."""


LogIn = Callable[["AdapterContext", Callable[[str], None]], Awaitable[Mapping[str, str]]]
"""Has a person let us in, and returns the variables to be kept; the function tells the person what to do."""


async def no_files(file: Attachment) -> bytes:
    raise UserError("There are no files here.")


async def no_topic(named: Address) -> Address | None:
    raise Refused(f"{named}: nobody here keeps what topics are called")


async def no_name(opened: Address) -> Address | None:
    return None


async def not_kept(named: Address, opened: Address) -> None:
    await no_topic(named)


async def nobody(source: Source) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterContext:
    """What an adapter is made with; `account` is the name that its addresses carry, `folder` where it may
    keep what its protocol makes it keep (keys of encrypted chats)."""

    settings: PlatformSettings
    find: FindSecret
    account: str = DEFAULT_ACCOUNT
    open_file: OpenFile = no_files
    clock: Clock = field(default_factory=SystemClock)
    welcomes: Welcomes = nobody
    folder: Path | None = None
    find_topic: FindTopic = no_topic
    name_topic: NameTopic = no_name
    keep_topic: KeepTopic = not_kept

    def said(self, variable: str, default: str = "") -> str:
        """The text of a variable; not for secrets that are kept."""
        found = self.find(variable)
        return default if found is None else found.reveal().strip() or default

    def port(self, variable: str, usual: str) -> int:
        """The port that a variable names, for an adapter that is called by its platform."""
        said = self.said(variable, usual)
        if not (said.isascii() and said.isdigit() and 0 < int(said) < 65536):
            raise UserError(f"{variable} is {one_line(said, 20)}: a port is wanted, like {usual}.")
        return int(said)


async def open_door(opening: Coroutine[Any, Any, None], host: str, port: int, variable: str) -> None:
    """Begin to listen, or say why nobody can call us there; `variable` names the port. Whoever is stopped in
    the middle waits for the end of it: otherwise a port would be taken that nobody closes."""
    begun = asyncio.ensure_future(opening)
    try:
        await asyncio.shield(begun)
    except OSError as error:
        raise _no_door(host, port, variable, error) from error
    finally:
        if not begun.done():
            await asyncio.wait((begun,))


def _no_door(host: str, port: int, variable: str, error: OSError) -> Unreachable:
    why = error.strerror or type(error).__name__
    if error.errno == errno.EADDRINUSE:
        why = f"another account or program has it; set {variable} to a port of its own"
    return Unreachable(f"{one_line(host, 60)}:{port} cannot be listened on ({why})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found out: good, or wrong and how to mend it."""

    good: bool
    text: str
    hint: str = ""
