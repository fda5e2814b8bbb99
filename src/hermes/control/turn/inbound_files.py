"""Files that come with messages: got from their platform into the agent's media store before the turn begins.

Each file is settled once: got, or known not to be had. What came of it is written into the turn in one
transaction, with the sentence that the person is told if it could not be got; a crash before that means that
it is got again. What a file is its bytes tell; its name, and what a platform says of it, are claims."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from hermes.control.core import Runtime
from hermes.control.outbound.notices import notify
from hermes.control.turn.budgets import BudgetGate
from hermes.domain.chats.message import (
    MOST_SHOWN,
    SHOWN_IMAGES,
    Attachment,
    MediaKind,
    media_kind,
    transfer_seconds,
)
from hermes.domain.chats.rows import MediaItem
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.models.spending import turn_spender
from hermes.domain.models.usage import AuxiliaryCall
from hermes.domain.ports.platform import Fetches, Platform
from hermes.domain.ports.store import Tx
from hermes.domain.ports.world import Sink
from hermes.domain.settings.live import LiveSettings
from hermes.domain.text import one_line, size_told, storable
from hermes.domain.turns.turn import Turn, TurnState
from hermes.domain.word import replace

MOST_FILES = 20
MOST_INLINE = 32_000
NOT_SHOWN = "it is too large to be shown to you"
UNSEEN = "images are not shown to you"
UNHEARD = "it could not be transcribed"
"""What the note of a voice message begins with that nobody could write down."""
_PAUSES = (1.0, 4.0)
_CONNECT_SECONDS = 3600.0
_FETCH_SECONDS = 300.0
_NAME = 120


class AttachmentFetcher(Struct, frozen=True, kw_only=True):
    """`platform` is that of an account, as long as it is up."""

    platform: Callable[[str], Platform | None]
    clock: Clock
    live: LiveSettings

    def is_possible(self, turn: Turn) -> bool:
        """Whether the turn's files can be got now, or are waited for no longer. A turn that has to wait is
        looked at again when its account comes up."""
        stored = all(file.sha256 for file in turn.input.attachments if file.pending)
        if stored or turn.source is None or self.platform(turn.source.address.credential) is not None:
            return True
        return (self.clock.now() - turn.created_at).total_seconds() >= _CONNECT_SECONDS

    async def get(self, turn: Turn, file: Attachment, runtime: Runtime) -> Attachment:
        """The file as the transcript is to speak of it."""
        claimed = Attachment(kind=file.kind, ref=file.ref, name=_safe_name(file.name))
        try:
            if turn.input.attachments.index(file) >= MOST_FILES:
                raise UserError(f"at most {MOST_FILES} files of one message are taken")
            item, name = await self._receive(turn, file, runtime)
        except TimeoutError:
            return replace(claimed, problem="it took too long")
        except UserError as error:
            return replace(claimed, problem=reason_of(error.message))
        except HermesError as error:
            return replace(claimed, problem=reason_of(str(error)))
        except OSError as error:
            return replace(claimed, problem=f"it cannot be kept ({reason_of(error.strerror or '').lower()})")
        claimed = replace(claimed, name=claimed.name or _safe_name(name))
        return await self._described(turn, claimed, item, runtime)

    async def _receive(self, turn: Turn, file: Attachment, runtime: Runtime) -> tuple[MediaItem, str | None]:
        """The file as it is kept, and its name if its platform told that with it."""
        limit = self.live.now.gateway.max_inbound_media_bytes
        media = runtime.media
        if media is None or turn.source is None:
            raise UserError("this agent keeps no files")
        if file.size is not None and file.size > limit:
            raise UserError(f"it is larger than {size_told(limit)}")
        if file.sha256 is not None:  # a door was given it
            stored = await runtime.store.read(lambda tx: tx.media.get(file.sha256 or ""))
            if stored is None:
                raise UserError("it is no longer kept")
            return stored, None
        platform = self.platform(turn.source.address.credential)
        if platform is None:
            raise UserError("its platform was not connected for too long")
        if not isinstance(platform, Fetches):
            raise UserError("files cannot be fetched from there")
        name: str | None = None

        async def pour(sink: Sink) -> None:
            nonlocal name
            name = await platform.fetch(file.ref, sink)

        for pause in (*_PAUSES, None):
            try:
                async with asyncio.timeout(_FETCH_SECONDS + transfer_seconds([file])):
                    return await media.receive(pour, limit=limit), name
            except Unreachable as error:
                if pause is None:
                    raise
                await self.clock.sleep(pause if error.after is None else min(error.after, _FETCH_SECONDS))
        raise AssertionError("the last try returns or raises")

    async def _described(
        self, turn: Turn, claimed: Attachment, item: MediaItem, runtime: Runtime
    ) -> Attachment:
        assert runtime.media is not None
        path, note = await _brought(turn, item, runtime)
        file = replace(
            claimed,
            kind=_kind(claimed.kind, item.mime),
            mime=item.mime,
            size=item.size,
            sha256=item.sha256,
            path=path,
            note=note,
        )
        if file.kind is MediaKind.IMAGE:
            unseen = runtime.profile.settings.agent.image_input_mode == "text"
            if unseen or item.size > MOST_SHOWN:
                return replace(file, kind=MediaKind.FILE, note=UNSEEN if unseen else NOT_SHOWN)
        if item.mime.startswith("text/") and item.size <= MOST_INLINE:
            data = await runtime.media.open(item.sha256)
            return replace(file, text=storable(data.decode("utf-8", "replace")).strip("\n"))
        return file


async def _brought(turn: Turn, item: MediaItem, runtime: Runtime) -> tuple[str | None, str]:
    """Where the turn's commands see the file, or why they do not."""
    assert runtime.media is not None
    path = runtime.media.locate(item)
    if runtime.bring_file is None:
        return path, ""
    try:
        session = await runtime.store.read(lambda tx: tx.sessions.get(turn.session))
        folder = None if session is None else session.workspace
        return await runtime.bring_file(turn, item, path, folder), ""
    except HermesError as error:
        return None, f"commands do not see it: {reason_of(str(error))}"


def write_down(
    turn: Turn,
    file: Attachment,
    got: Attachment,
    clock: Clock,
    call: AuxiliaryCall | None = None,
    budgets: BudgetGate | None = None,
    *,
    echo: bool = False,
) -> Callable[[Tx], bool]:
    """A unit that puts what came of a file into its turn, and tells the person if it could not be got or
    heard, and with `echo` what was heard; its result is whether somebody is told. Pieces that came meanwhile
    stay as they are. `call` is what a model took that described it."""

    def write(tx: Tx) -> bool:
        current = tx.turns.get(turn.id)
        files = [] if current is None else list(current.input.attachments)
        if current is None or current.state is not TurnState.ACCEPTED or file not in files:
            return False
        if call is not None:
            tx.usage.note(call)
            if budgets is not None:
                budgets.spend_beside(tx, turn_spender(turn), call.usage)
        place = files.index(file)
        files[place] = got
        tx.turns.save(
            replace(current, input=replace(current.input, attachments=tuple(files))), attempt=current.attempt
        )
        text = _told(got, echo)
        if not text or turn.reply is None:
            return False
        return notify(tx, f"fetch:{turn.id}:{place}", turn.reply.to, text, clock.now(), turn.reply.ref)

    return write


def _told(got: Attachment, echo: bool) -> str:
    if got.problem is not None:
        return f"⚠️ I could not take {got.name or 'your ' + got.kind.value}: {got.problem}."
    if got.kind is not MediaKind.VOICE:
        return ""
    if got.note.startswith(UNHEARD):
        return f"⚠️ I could not hear your voice message{got.note.removeprefix(UNHEARD)}."
    return f"🎤 “{got.text}”" if echo and got.text else ""


def _kind(claimed: MediaKind, mime: str) -> MediaKind:
    """What it is, by its bytes; of sounds only who sent it knows whether somebody speaks."""
    kind = media_kind(mime)
    if kind is MediaKind.IMAGE:
        return kind if mime in SHOWN_IMAGES else MediaKind.FILE
    if kind is MediaKind.AUDIO or mime in ("video/mp4", "video/webm"):
        return claimed if claimed in (MediaKind.VOICE, MediaKind.AUDIO) else kind
    return kind


def _safe_name(name: str | None) -> str | None:
    """The last part of a name, on one line, without what would end a note of ours."""
    if name is None:
        return None
    last = one_line(name.replace("\\", "/").rpartition("/")[2], _NAME)
    return last.replace("[", "(").replace("]", ")") or None


def reason_of(text: str) -> str:
    return one_line(text, 200).rstrip(".").replace("[", "(").replace("]", ")") or "no reason was given"
