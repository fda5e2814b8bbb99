"""A gateway that is not on this machine: where it is, the key with which a terminal comes in, and which ways
there a key may go."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.text import one_line

_PORT = 8642
_EXAMPLE = "Write it like https://hermes.example.org or http://localhost:8642"


class HttpAddress(Struct, frozen=True, kw_only=True):
    url: str
    host: str
    port: int
    tls: bool
    key: Secret

    @property
    def prefix(self) -> str:
        """The path below which the gateway is."""
        return urlsplit(self.url).path

    @property
    def header(self) -> str:
        """The host as a request names it."""
        return urlsplit(self.url).netloc


def read_address(url: str, key: str) -> HttpAddress:
    """A `UserError` says why nobody can come in there."""
    shown = one_line(url, 80)
    try:
        parts = urlsplit(url.strip().rstrip("/"))
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UserError(f"“{shown}” is no address of a gateway.", hint=_EXAMPLE) from error
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise UserError(f"“{shown}” is no address of a gateway.", hint=_EXAMPLE)
    if parts.username is not None:
        raise UserError("The key does not belong into the address.", hint="Set HERMES_GATEWAY_KEY.")
    tls = parts.scheme == "https"
    if not tls and not _is_near(host):
        raise UserError(
            f"A key is not sent to {host} without encryption.",
            hint=f"Use https://, or a tunnel: ssh -L {_PORT}:localhost:{_PORT} {host}, and http://localhost:{_PORT}",
        )
    if not key.isascii() or not key.isprintable() or not key.strip():
        raise UserError(
            "There is no key for this gateway.", hint="Set HERMES_GATEWAY_KEY to its API_SERVER_KEY."
        )
    return HttpAddress(
        url=parts.geturl(), host=host, port=port or (443 if tls else 80), tls=tls, key=Secret(key.strip())
    )


def _is_near(host: str) -> bool:
    """Whether it is this machine, or an address that is not of the open network."""
    import ipaddress  # every terminal loads this file

    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost"
