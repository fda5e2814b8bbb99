"""Files on their way out: only from places that are on a list, and copied before anybody can change them.

A path is followed to where it really leads; only a regular file under one of the listed folders may go. A
home of Hermes is never such a folder, even if a listed one is above it: what is inside a home may go only
from folders that are listed inside it. The file is read through the descriptor that was checked, and kept in
the media store, so that what is sent later is what was there when it was said."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.message import Attachment
from hermes.domain.ports.world import Media

MOST_BYTES = 64 * 1024 * 1024
_PUNCTUATION = ".,;:!?)]}>»”’"
_UNKNOWN = "application/octet-stream"
_TOO_LARGE = f"it is larger than {MOST_BYTES // 1_048_576} MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingFiles:
    """`workspace` is where relative paths start; `allowed` are the folders files may come from (the workspace
    only if it is named there); `homes` are those of Hermes and its agents; `user_home` is what `~` is."""

    media: Media
    workspace: Path
    allowed: Sequence[Path]
    homes: Sequence[Path]
    user_home: Path

    async def take(self, path: str) -> Attachment:
        data, name = await asyncio.to_thread(self.read, path)
        mime = mimetypes.guess_type(name)[0] or _UNKNOWN
        try:
            item = await self.media.put(data, mime)
        except OSError as error:
            raise UserError(f"it cannot be kept ({(error.strerror or 'no reason given').lower()})") from error
        return item.attached(name)

    def read(self, path: str) -> tuple[bytes, str]:
        """The file's bytes and name, if it may go. Blocking."""
        if not path or "\0" in path:
            raise UserError("that is no path")
        try:
            place = self._place(path)
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return self._read_open(descriptor, place), place.name
            finally:
                os.close(descriptor)
        except OSError as error:
            why = (error.strerror or "no reason given").lower()
            raise UserError(f"it cannot be read ({why})") from error
        except ValueError as error:
            raise UserError("that is no path") from error

    def _read_open(self, descriptor: int, place: Path) -> bytes:
        info = os.fstat(descriptor)
        # A folder on the way may have become a link since: what counts is what was opened.
        if not self._may_leave(_opened(descriptor, place)):
            raise UserError("it is outside of the folders that files may be sent from")
        if not stat.S_ISREG(info.st_mode):
            raise UserError("it is no file")
        if info.st_size > MOST_BYTES:
            raise UserError(_TOO_LARGE)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UserError(_TOO_LARGE)
        return data

    def _place(self, path: str) -> Path:
        """Where the path really leads. Nothing is told of places that files may not come from."""
        for spelled in dict.fromkeys((path, path.rstrip(_PUNCTUATION))):
            if not spelled:
                continue
            given = Path(spelled)
            if given.parts and given.parts[0] == "~":
                given = self.user_home.joinpath(*given.parts[1:])
            place = Path(os.path.realpath(self.workspace / given))
            if not self._may_leave(place):
                raise UserError("it is outside of the folders that files may be sent from")
            if place.exists():
                return place
        raise UserError("there is no such file")

    def _may_leave(self, place: Path) -> bool:
        homes = [Path(os.path.realpath(home)) for home in self.homes]
        for folder in self.allowed:
            root = Path(os.path.realpath(folder))
            if place.is_relative_to(root) and not any(
                home.is_relative_to(root) and place.is_relative_to(home) for home in homes
            ):
                return True
        return False


def _opened(descriptor: int, place: Path) -> Path:
    """The path of an open file, where the system tells it."""
    try:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        return Path(os.path.realpath(place))
