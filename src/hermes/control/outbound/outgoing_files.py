"""Files that go out with an answer: the directives in its text, the files they name, what is said of those
that cannot go. Which places files may come from is decided by who takes them (`TakeFile`), never here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from hermes.domain.capabilities import AlbumLimit, Capabilities
from hermes.domain.errors import UserError
from hermes.domain.message import Attachment, Body, MediaKind
from hermes.domain.text import one_line, size_told
from hermes.stream.fold.directives import read_directives

TakeFile = Callable[[str], Awaitable[Attachment]]
"""Copies the file at a path to where it is kept until it was sent; a `UserError` says why it may not go."""
MOST_FILES = 10
_AS_VOICE = "audio_as_voice"
_AS_DOCUMENT = "as_document"
_SHOWN = 120


async def collect_files(text: str, take: TakeFile | None) -> Body:
    """The text without its directives, with the files that they name. What may not go is said in it."""
    found = read_directives(text)
    if not found.paths and found.text == text:
        return Body(text=text)
    files: list[Attachment] = []
    refused: list[str] = []
    for path in found.paths:
        try:
            if take is None:
                raise UserError("this agent sends no files")
            if len(files) >= MOST_FILES:
                raise UserError(f"at most {MOST_FILES} files go with one message")
            files.append(_as_asked(await take(path), found.flags))
        except UserError as error:
            refused.append(f"⚠️ Not attached: {one_line(path, _SHOWN)} ({error.message.rstrip('.')}).")
    return Body(text=_joined(found.text, refused), attachments=tuple(files))


def fit_files(body: Body, able: Capabilities) -> Body:
    """The body as a platform can take it; what it does not take is named in the text."""
    if not body.attachments:
        return body
    fitting = [_fitted(file, able) for file in body.attachments]
    left = [
        f"📎 {_named(file)}: {_why_not(file, able)}."
        for file, fits in zip(body.attachments, fitting, strict=True)
        if fits is None
    ]
    kept = tuple(file for file in fitting if file is not None)
    return replace(body, text=_joined(body.text, left), attachments=kept)


def group_files(files: Sequence[Attachment], able: Capabilities) -> list[tuple[Attachment, ...]]:
    """Files as messages: neighbours that may stand together do."""
    groups: list[list[Attachment]] = []
    for file in files:
        if groups and _joins(groups[-1], file, able.albums):
            groups[-1].append(file)
        else:
            groups.append([file])
    return [tuple(group) for group in groups]


def _joins(group: list[Attachment], file: Attachment, albums: Sequence[AlbumLimit]) -> bool:
    together = [*group, file]
    kinds, size = {one.kind for one in together}, sum(one.size or 0 for one in together)
    return any(
        kinds <= album.kinds and len(together) <= album.most and size <= album.max_bytes for album in albums
    )


def _as_asked(file: Attachment, flags: frozenset[str]) -> Attachment:
    if _AS_DOCUMENT in flags:
        return replace(file, kind=MediaKind.FILE)
    if _AS_VOICE in flags and file.kind is MediaKind.AUDIO:
        return replace(file, kind=MediaKind.VOICE)
    return file


def _fitted(file: Attachment, able: Capabilities) -> Attachment | None:
    """As what it is, or else as a plain file; None if the platform takes it neither way."""
    plainer = (MediaKind.AUDIO,) if file.kind is MediaKind.VOICE else ()
    for kind in dict.fromkeys((file.kind, *plainer, MediaKind.FILE)):
        limit = able.media.get(kind)
        if limit is None or (file.size or 0) > limit.max_bytes:
            continue
        if not limit.mimes or file.mime in limit.mimes:
            return replace(file, kind=kind)
    return None


def _why_not(file: Attachment, able: Capabilities) -> str:
    """Why a chat does not take a file, in words."""
    most = max((limit.max_bytes for limit in able.media.values()), default=0)
    if able.media and (file.size or 0) > most:
        return f"this chat takes files of up to {size_told(most)}"
    return "this chat takes no such file"


def name_files(files: Sequence[Attachment]) -> str:
    return ", ".join(map(_named, files))


def _named(file: Attachment) -> str:
    size = "" if file.size is None else f" ({size_told(file.size)})"
    return f"{one_line(file.name or file.ref, _SHOWN)}{size}"


def _joined(text: str, lines: list[str]) -> str:
    return "\n\n".join(part for part in (text.strip("\n"), "\n".join(lines)) if part.strip())
