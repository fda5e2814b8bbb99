"""Server-sent events, written: one event or comment as bytes. `hermes.domain.sse` reads them."""

from __future__ import annotations

import json
import re

_LINE_END = re.compile(r"\r\n|\r|\n")
_UNFIT = re.compile(r"[\r\n\0]")
compact_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
DONE = b"data: [DONE]\n\n"


def encode_event(
    data: str, *, name: str | None = None, id: str | int | None = None, retry: int | None = None
) -> bytes:
    """One event. Data may have any lines; a name or id that could break out of its line is refused."""
    lines = []
    if name:
        lines.append(f"event: {_fit(name)}")
    if id is not None:
        lines.append(f"id: {_fit(str(id))}")
    if retry is not None:
        lines.append(f"retry: {int(retry)}")
    lines.extend(f"data: {line}" for line in _LINE_END.split(data))
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def encode_json_event(data: object, *, name: str | None = None, id: str | int | None = None) -> bytes:
    return encode_event(compact_json(data), name=name, id=id)


def comment(text: str = "") -> bytes:
    """Bytes that keep a connection alive and mean nothing."""
    lines = "\n".join(f": {line}" for line in _LINE_END.split(text))
    return f"{lines}\n\n".encode("utf-8", "replace")


def _fit(word: str) -> str:
    if _UNFIT.search(word):
        raise ValueError("a name or id of an event is one line without NUL")
    return word
