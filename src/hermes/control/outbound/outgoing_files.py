"""Files as a platform takes them: as what they are or as plain files, alone or in albums, and what an answer
says about those that cannot go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hermes.domain.capabilities import AlbumLimit, Capabilities
from hermes.domain.message import Attachment, Body, MediaKind
from hermes.domain.text import one_line, size_told

_SHOWN = 120


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
    return replace(body, text=join_lines(body.text, left), attachments=kept)


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
    return f"{shown_path(file.name or file.ref)}{size}"


def shown_path(path: str) -> str:
    return one_line(path, _SHOWN)


def join_lines(text: str, lines: list[str]) -> str:
    return "\n\n".join(part for part in (text.strip("\n"), "\n".join(lines)) if part.strip())
