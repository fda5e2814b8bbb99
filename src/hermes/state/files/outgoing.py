"""Files on their way out: read through the agent's backend, only from places that are on a list, and copied
before anybody can change them.

A path is followed to where it really leads; only a regular file under one of the listed folders may go. A
home of Hermes is never such a folder, even if a listed one is above it: what is inside a home may go only
from folders that are listed inside it. The real path is then read without following any link, piece by piece,
and kept in the media store, so that what is sent later is what was there when it was said."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from hermes.domain.chats.message import Attachment
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ports.world import Backend, FileView, Media, Sink, World
from hermes.domain.word import replace

MOST_BYTES = 64 * 1024 * 1024
_PIECE = 1024 * 1024
_PUNCTUATION = ".,;:!?)]}>»”’"
_OUTSIDE = "it is outside of the folders that files may be sent from"
_CHANGED = "it changed while it was read; send it again when it is complete"
_TOO_LARGE = f"it is larger than {MOST_BYTES // 1_048_576} MiB"


class SendRules(Struct, frozen=True, kw_only=True):
    """Absolute paths of one world: the folders that files may come from, and the homes of Hermes and its
    agents."""

    allowed: Sequence[str]
    homes: Sequence[str]


class OutgoingFiles(Struct, frozen=True, kw_only=True):
    """`rules` are those of the world a session's commands run in. Relative paths start in its workspace."""

    media: Media
    backend: Backend
    rules: Callable[[World], Awaitable[SendRules]]

    async def take(self, session: str, path: str) -> Attachment:
        try:
            view = await self.find(session, path)
            name = os.path.basename(view.path)
            item = await self.media.receive(lambda sink: self._pour(session, view, sink), limit=MOST_BYTES)
        except Unreachable as error:
            raise UserError(f"it cannot be read ({error})") from error
        except OSError as error:
            raise UserError(f"it cannot be kept ({(error.strerror or 'no reason given').lower()})") from error
        return replace(item, mime=mimetypes.guess_type(name)[0] or item.mime).attached(name)

    async def find(self, session: str, path: str) -> FileView:
        """The file that a path really leads to, if it may go. Nothing is told of places that files may not
        come from."""
        if not path or "\0" in path:
            raise UserError("that is no path")
        world = await self.backend.place(session)
        rules = await self.rules(world)
        allowed = [await self._real(session, folder) for folder in rules.allowed]
        homes = [*rules.homes, *[await self._real(session, home) for home in rules.homes]]
        for spelled in dict.fromkeys((path, path.rstrip(_PUNCTUATION))):
            if not spelled:
                continue
            full = in_world(world, spelled)
            view = await self.backend.files.stat(session, full)
            place = await self._real(session, full) if view is None else view.path
            if not _may_leave(place, allowed, homes):
                raise UserError(_OUTSIDE)
            if view is not None:
                return _checked(view)
        raise UserError("there is no such file")

    async def _real(self, session: str, path: str) -> str:
        """Where a path leads, as far as it exists."""
        view, rest = await self.backend.files.stat(session, path), ""
        while view is None and path != "/":
            path, rest = os.path.dirname(path), f"/{os.path.basename(path)}{rest}"
            view = await self.backend.files.stat(session, path)
        return (path if view is None else view.path.rstrip("/")) + rest

    async def _pour(self, session: str, view: FileView, sink: Sink) -> None:
        """A folder on the way may have become a link since: what counts is what is opened. Pieces of two
        files would make a third that nobody wrote."""
        at, files = 0, self.backend.files
        while piece := await files.read(session, view.path, start=at, limit=_PIECE, follow=False):
            at += len(piece)
            await sink(piece)
            if len(piece) < _PIECE:
                break
        if at >= _PIECE and await files.stat(session, view.path) != view:
            raise UserError(_CHANGED)


def in_home(world: World, path: str) -> str:
    """The path, with `~` for the home of its world."""
    first, _, rest = path.partition("/")
    return f"{world.home}/{rest}" if first == "~" else path


def in_world(world: World, path: str) -> str:
    return os.path.normpath(os.path.join(world.workspace, in_home(world, path)))


def _checked(view: FileView) -> FileView:
    if view.folder:
        raise UserError("it is no file")
    if view.size > MOST_BYTES:
        raise UserError(_TOO_LARGE)
    return view


def _may_leave(place: str, allowed: Sequence[str], homes: Sequence[str]) -> bool:
    for root in allowed:
        closed = [home for home in homes if _is_in(home, root)]
        if _is_in(place, root) and not any(_is_in(place, home) for home in closed):
            return True
    return False


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
