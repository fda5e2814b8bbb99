"""The gateway that runs on a home, as a command finds it: by the lock, and by the socket on which it answers.

A socket alone says nothing (a killed process leaves its file). A lock alone is a gateway that just starts, or
a command that is done in a moment; both are waited for a little."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from hermes.admin.process.home_files import LockHolder, home_holder
from hermes.admin.process.spawning import silent_gateway
from hermes.domain.errors import Refused, UserError
from hermes.entry.http.site.owner_socket import listening
from hermes.stream.wire.socket import decode, encode

T = TypeVar("T")
_START_SECONDS = 5.0
_LOOK_SECONDS = 0.05
_ANSWER_SECONDS = 60.0


class GatewayRefusal(UserError):
    """What a gateway did not do, in its words."""


class RunningGateway(Struct, frozen=True, kw_only=True):
    """A gateway that answers on its socket."""

    socket: Path
    holder: LockHolder

    def status(self) -> dict[str, Any]:
        """How it is at this moment."""
        return self.ask("GET", "/control/status", dict[str, Any])

    def ask(self, method: str, path: str, kind: type[T], **given: Any) -> T:
        """What it answers to words of the owner: in the body of a POST, else in the query."""
        body = encode(given) if method == "POST" else None
        told = {} if body else {name: value for name, value in given.items() if value is not None}
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            target = f"{path}?{urlencode(told, errors='replace')}"
            status, data = ask_socket(self.socket, method, target, body, headers)
        except OSError as error:
            raise UserError(
                f"The gateway ({self.holder}) went away before it answered.", hint="Try again."
            ) from error
        if status < 300:
            return decode(kind, data)
        words = _told(data) or f"The gateway could not do it ({status}); its log has the details."
        raise (GatewayRefusal if status == HTTPStatus.BAD_REQUEST else UserError)(words)


def find_running(
    home: Path, environ: Mapping[str, str], patience: float = _START_SECONDS
) -> RunningGateway | None:
    """The gateway of a home; None if nobody works on it. Whoever works on it without answering is waited for,
    then told of."""
    end = time.monotonic() + patience
    while True:
        holder = home_holder(home)
        if holder is None:
            return None
        found = listening(home, environ)
        if found is not None:
            return RunningGateway(socket=found, holder=holder)
        if time.monotonic() >= end:
            raise silent_gateway(home, holder)
        time.sleep(_LOOK_SECONDS)


def _told(data: bytes) -> str:
    try:
        return str(decode(dict[str, Any], data)["error"]["message"])
    except (Refused, LookupError, TypeError):
        return ""


def ask_socket(
    socket: Path, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """The status and the words of an answer; `OSError` if there is none."""
    connection = _Connection(socket)
    try:
        connection.request(method, target, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    except http.client.HTTPException as error:
        raise ConnectionError("the answer breaks off") from error
    finally:
        connection.close()


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("gateway", timeout=_ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
