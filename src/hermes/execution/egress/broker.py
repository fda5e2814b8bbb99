"""Secrets that agents use without having them. An agent gets a placeholder; on its way to a host that the
secret is bound to, over TLS, the value is put in, and taken out again where an answer repeats it. A
placeholder that goes anywhere else goes nowhere."""

from __future__ import annotations

import binascii
import hmac
import json
import logging
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import quote, quote_plus

from msgspec import Struct

from hermes.domain.errors import Refused
from hermes.domain.safety.hosts import is_listed
from hermes.domain.settings.declaring import Secret
from hermes.domain.word import replace

log = logging.getLogger("hermes.egress")
PREFIX = "hermes-broker-"
_PLACEHOLDER = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")
_BASIC = re.compile(r"\s*basic\s+([A-Za-z0-9+/=]+)\s*", re.IGNORECASE)
_TLS_PORTS = (443,)
_PARTIAL = ("range", "if-range")
HEADERS, URL, BODY = "headers", "url", "body"
Headers = tuple[tuple[str, str], ...]
Hidden = tuple[tuple[bytes, bytes], ...]
"""Values, and what stands for each."""


class BoundSecret(Struct, frozen=True, kw_only=True):
    """A secret, the hosts it is for (`api.example.org`, `*.example.org`, `host:port`; port 443 without one),
    and where in a request it may stand. `variable` is what commands find its placeholder in."""

    name: str
    value: Secret
    hosts: tuple[str, ...]
    places: frozenset[str] = frozenset({HEADERS})
    variable: str = ""

    def is_for(self, host: str, port: int) -> bool:
        return bool(self.value) and is_listed(host, port, self.hosts, _TLS_PORTS)


class Outgoing(Struct, frozen=True, kw_only=True):
    """A request as it will leave; `host` is in its one spelling. `body` is empty where it comes in pieces."""

    host: str
    port: int
    tls: bool
    url: str
    headers: Headers = ()
    body: bytes = b""


class Filled(Struct, frozen=True, kw_only=True):
    """A request with values in it, and what its answer must not tell, each with what stands for it."""

    request: Outgoing
    hidden: Hidden = ()


class AgentBroker:
    """The secrets that one agent may use. `key` makes its placeholders, the same after every start."""

    def __init__(self, agent: str = "", secrets: Iterable[BoundSecret] = (), key: bytes = b"") -> None:
        self._agent = agent
        self._secrets = {
            f"{PREFIX}{hmac.digest(key, json.dumps([agent, each.name]).encode(), 'sha256').hex()[:32]}": each
            for each in secrets
        }

    @property
    def variables(self) -> Mapping[str, str]:
        """What commands of the agent find in their environment."""
        return {each.variable: held for held, each in self._secrets.items() if each.variable}

    @property
    def placeholders(self) -> Mapping[str, str]:
        """By the names of the secrets."""
        return {each.name: held for held, each in self._secrets.items()}

    def serves(self, host: str, port: int) -> bool:
        """Whether a secret is bound to a host, so that nothing may go there in the clear."""
        return any(each.is_for(host, port) for each in self._secrets.values())

    def places(self, host: str, port: int) -> frozenset[str]:
        """Where in a request to a host a secret may stand."""
        bound = [each.places for each in self._secrets.values() if each.is_for(host, port)]
        return frozenset().union(*bound)

    def fill(self, request: Outgoing) -> Filled:
        """`Refused` if a placeholder is not this agent's or may not go there. A host may tell a value that an
        earlier request brought, so an answer is looked through for all that are bound to it, and is asked for
        whole: of two parts none would hold a value."""
        bound = {
            held: each for held, each in self._secrets.items() if each.is_for(request.host, request.port)
        }
        hidden: dict[bytes, bytes] = {}
        for held, each in bound.items():
            hidden.update(_spellings(each.value.reveal(), held))

        def put(place: str, text: str, *, quoted: bool = False) -> str:
            def value(match: re.Match[str]) -> str:
                secret = self._find(match[0], place, request)
                return quote(secret, safe="") if quoted else secret

            return _PLACEHOLDER.sub(value, text) if PREFIX in text else text

        headers: list[tuple[str, str]] = []
        for name, text in request.headers:
            if bound and name.lower() in _PARTIAL:
                continue
            plain = _basic(text)
            if PREFIX in plain:
                text = f"Basic {b64encode(put(HEADERS, plain).encode()).decode()}"
                hidden[text[6:].encode()] = b64encode(plain.encode())
            headers.append((name, put(HEADERS, text)))
        url = put(URL, request.url, quoted=True)
        body = request.body
        if PREFIX.encode() in body:
            body = put(BODY, body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if not bound:
            return Filled(request=request)
        filled = replace(request, url=url, headers=tuple(headers), body=body)
        longest_first = sorted(hidden.items(), key=lambda pair: -len(pair[0]))
        return Filled(request=filled, hidden=tuple(longest_first))

    def _find(self, placeholder: str, place: str, request: Outgoing) -> str:
        secret = self._secrets.get(placeholder)
        if secret is None:
            why = "It is not a placeholder of this agent."
        elif not secret.is_for(request.host, request.port):
            why = f"It is not bound to {request.host}:{request.port}."
        elif not request.tls:
            why = "It goes out over TLS alone."
        elif place not in secret.places:
            why = f"It may not stand in the {place} of a request."
        else:
            return secret.value.reveal()
        name = "unknown" if secret is None else secret.name
        log.warning(
            "broker.refused agent=%s secret=%s host=%s place=%s", self._agent, name, request.host, place
        )
        raise Refused(f"A placeholder for a secret was not sent to {request.host}. {why}")


class Mask:
    """Takes values out of what an answer repeats, also where one is cut between two pieces."""

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._overlap = max((len(value) for value, _ in hidden), default=1) - 1
        self._kept = b""

    def feed(self, piece: bytes) -> bytes:
        data = self.replace(self._kept + piece)
        cut = max(len(data) - self._overlap, 0)
        self._kept = data[cut:]
        return data[:cut]

    def end(self) -> bytes:
        kept, self._kept = self._kept, b""
        return kept

    def replace(self, data: bytes) -> bytes:
        for value, stand_in in self._hidden:
            data = data.replace(value, stand_in)
        return data


def _spellings(secret: str, placeholder: str) -> dict[bytes, bytes]:
    ways = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), escape(secret)}
    ways |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    ways |= {way.replace("/", "\\/") for way in ways}
    return {way.encode("utf-8", "surrogateescape"): placeholder.encode() for way in ways}


def _basic(header: str) -> str:
    """The name and password of basic authentication; empty if it is none."""
    match = _BASIC.fullmatch(header)
    try:
        return b64decode(match[1], validate=True).decode() if match else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""
