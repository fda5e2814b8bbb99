"""The certificates that this machine trusts, read with the first TLS connection instead of at the start.
aiohttp makes its TLS context when it is imported, and that reads all of them: 15 ms and a megabyte, also
where every model is local. What is trusted stays the same."""

from __future__ import annotations

import ssl
from typing import Any


class _UnreadStore(ssl.SSLContext):
    """A context whose certificates are still to be read. Its first connection makes it an ordinary one."""

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        _read(self)
        return self.wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        _read(self)
        return self.wrap_socket(*args, **options)


def _read(context: ssl.SSLContext) -> None:
    context.__class__ = ssl.SSLContext
    context.load_default_certs()


def _leave_unread(context: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
    context.__class__ = _UnreadStore


def import_aiohttp() -> None:
    """Import aiohttp without reading any certificate. Other contexts, made before or later, read theirs."""
    load, find = ssl.SSLContext.load_default_certs, ssl.SSLContext.set_default_verify_paths
    ssl.SSLContext.load_default_certs = _leave_unread  # type: ignore[assignment, method-assign]
    # Of a context that verifies nothing, too.
    ssl.SSLContext.set_default_verify_paths = _leave_unread  # type: ignore[assignment, method-assign]
    try:
        import aiohttp.web  # noqa: F401
    finally:
        ssl.SSLContext.load_default_certs = load  # type: ignore[method-assign]
        ssl.SSLContext.set_default_verify_paths = find  # type: ignore[method-assign]
