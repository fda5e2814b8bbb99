"""Pictures that are given with a message at the terminal."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.state.files.sniff import sniff

_MOST = 5_000_000
_KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")


def data_url(path: str) -> str:
    shown = one_line(path, 200)
    try:
        with open(Path(path).expanduser(), "rb", opener=_open) as file:
            data = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise UserError(f"{shown} cannot be read ({reason}).") from error
    mime = sniff(data)
    if mime not in _KINDS:
        raise UserError(f"{shown} is no picture.", hint="Pictures may be PNG, JPEG, GIF or WebP.")
    if len(data) > _MOST:
        raise UserError(f"{shown} is larger than {_MOST:,} bytes.")
    return f"data:{mime};base64,{b64encode(data).decode()}"


def _open(path: str, flags: int) -> int:
    """A pipe has nobody to wait for."""
    return os.open(path, flags | os.O_NONBLOCK)
