"""Who sent a webhook: the ways in which senders sign, each checked over the raw bytes in constant time.

A route takes one scheme: what one signs could be sent again as the body of another, without its time. Until
that scheme is settled, the first whose header is there decides, also when another would have agreed; none
there, an empty secret, a header given twice: refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Struct

from hermes.domain.settings.declaring import Secret

NO_AUTH = "INSECURE_NO_AUTH"
"""As a secret: take everything, on loopback only."""
TOLERANCE = 300
_LINEAR_RETRIES = 86_400
_PREFIX = "whsec_"
_MOST_SIGNATURES = 32
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII | re.IGNORECASE)
# A full stop in an id would let a signature count for another cut between id, time and body.
_MESSAGE_ID = re.compile(r"[!-\-/-~]{1,200}", re.ASCII)


class SignatureScheme(StrEnum):
    """In the order in which they are looked for."""

    SVIX = "svix"
    GITHUB = "github"
    GITLAB = "gitlab"
    STRIPE = "stripe"
    SLACK = "slack"
    SHOPIFY = "shopify"
    LINEAR = "linear"
    GENERIC_V2 = "v2"
    GENERIC_V1 = "v1"
    NONE = "none"
    TEST = "test"
    """`hermes webhook test`: taken by every route beside its own scheme, and never settles that."""


class BadSignature(Exception):
    """The request proves nothing; the reason is for the log and names no secret."""


class WrongScheme(BadSignature):
    """It is signed in another scheme than the one that is taken, or in none."""


class VerifiedSignature(Struct, frozen=True, kw_only=True):
    """How a request was proven, and what of it the signature covers beside the body."""

    scheme: SignatureScheme
    id: str | None = None
    timestamp: int | None = None
    signed: str = ""
    """The digest of exactly what was signed; empty if nothing was."""


class Headers:
    """Headers by their names in small letters; one that must be there once counts only then."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def get(self, name: str) -> str | None:
        """The first value, for names and ids that nothing depends on."""
        values = self._values.get(name.lower())
        return values[0] if values else None

    def only(self, name: str) -> str:
        values = self._values.get(name, [])
        if len(values) != 1 or not values[0]:
            raise BadSignature(
                f"{name} is there {len(values)} times" if len(values) > 1 else f"{name} is missing"
            )
        return values[0]


Check = Callable[[Headers, bytes, str, float], VerifiedSignature]
"""Over the headers, the body, the secret and the time."""


def verify(
    headers: Headers,
    body: bytes,
    secret: Secret,
    *,
    now: float,
    loopback: bool,
    only: SignatureScheme | None = None,
) -> VerifiedSignature:
    """Who signed this; `BadSignature` if nobody did. `loopback`: only this machine can reach the port. `only`
    is the scheme that is taken, if that is settled."""
    key = secret.reveal()
    if not key.strip():
        raise BadSignature("the route has no secret")
    if key == NO_AUTH:
        if not loopback:
            raise BadSignature("a route without authentication is open on loopback only")
        return VerifiedSignature(scheme=SignatureScheme.NONE)
    if _TEST in headers:
        return _check_test(headers, body, _test_key(key), now)
    for scheme, (names, check) in _SCHEMES.items():
        if only in (None, scheme) and any(name in headers for name in names):
            return check(headers, body, key, now)
    if only is not None:
        raise WrongScheme(f"the route takes events signed as {only}, and this is none")
    raise BadSignature("no signature")


def _svix(headers: Headers, body: bytes, secret: str, now: float) -> VerifiedSignature:
    """Svix, and Standard Webhooks, which is the same under another name."""
    brand = "svix" if any(name in headers for name in _SVIX) else "webhook"
    ident = headers.only(f"{brand}-id")
    if not _MESSAGE_ID.fullmatch(ident):
        raise BadSignature("the message id holds what an id cannot hold")
    sent = _fresh(headers, f"{brand}-timestamp", now)
    signed = f"{ident}.{sent}.".encode() + body
    signatures = headers.only(f"{brand}-signature").split(" ")
    if len(signatures) > _MOST_SIGNATURES:
        raise BadSignature("too many signatures")
    agreed = False
    for key in _svix_keys(secret):
        wanted = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
        for signature in signatures:
            agreed |= _same(signature, wanted)
    if not agreed:
        raise BadSignature("the signature is wrong")
    return VerifiedSignature(
        scheme=SignatureScheme.SVIX, id=ident, timestamp=int(sent), signed=_digest(signed)
    )


def _svix_keys(secret: str) -> Iterator[bytes]:
    """`whsec_` secrets are base64; others are used as they are, and as base64 where they can be that."""
    coded = secret.removeprefix(_PREFIX)
    if not secret.startswith(_PREFIX):
        yield secret.encode("utf-8", "surrogateescape")
    try:
        key = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return
    if key:
        yield key


def _gitlab(headers: Headers, body: bytes, secret: str, now: float) -> VerifiedSignature:
    if not _same(headers.only("x-gitlab-token"), _bytes(secret)):
        raise BadSignature("the token is wrong")
    return VerifiedSignature(scheme=SignatureScheme.GITLAB)


def _stripe(headers: Headers, body: bytes, secret: str, now: float) -> VerifiedSignature:
    """`t=<seconds>,v1=<digits>`, with further signatures while a secret is being replaced. The secret is used
    as it is, its `whsec_` included (docs.stripe.com/webhooks, “Verify manually”)."""
    pairs = [part.strip().partition("=") for part in headers.only("stripe-signature").split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    signatures = [value for name, _, value in pairs if name == "v1"]
    if len(times) != 1 or len(pairs) > _MOST_SIGNATURES:
        raise BadSignature("stripe-signature has not one time and its signatures")
    sent = _check_time(times[0], "stripe-signature", now)
    signed = f"{sent}.".encode() + body
    wanted = _signature(secret, signed).encode()
    agreed = False
    for signature in signatures:
        agreed |= _HEX.fullmatch(signature) is not None and _same(signature.lower(), wanted)
    if not agreed:
        raise BadSignature("the signature is wrong")
    return VerifiedSignature(scheme=SignatureScheme.STRIPE, timestamp=int(sent), signed=_digest(signed))


def _shopify(headers: Headers, body: bytes, secret: str, now: float) -> VerifiedSignature:
    """Base64, over the body (shopify.dev, “Deliver webhooks through HTTPS”)."""
    wanted = base64.b64encode(hmac.digest(_bytes(secret), body, hashlib.sha256))
    if not _same(headers.only(_SHOPIFY), wanted):
        raise BadSignature("the signature is wrong")
    return VerifiedSignature(scheme=SignatureScheme.SHOPIFY, signed=_digest(body))


def _linear(headers: Headers, body: bytes, secret: str, now: float) -> VerifiedSignature:
    """Hexadecimal digits over the body, which says itself when it was sent, in milliseconds
    (linear.app/developers/webhooks, “Securing webhooks”). Failed events come again after a minute, an hour
    and six hours, and nothing says that they are dated anew, so an event of the last day is taken."""
    proof = _hexadecimal(SignatureScheme.LINEAR, _LINEAR)(headers, body, secret, now)
    try:
        sent = msgspec.json.decode(body, type=_LinearBody).sent
    except msgspec.MsgspecError:
        raise BadSignature("webhookTimestamp is missing, or no time in milliseconds") from None
    if not now - _LINEAR_RETRIES <= sent / 1000 <= now + TOLERANCE:
        raise BadSignature("webhookTimestamp is more than a day ago, or still to come")
    return proof


class _LinearBody(Struct, frozen=True, kw_only=True):
    sent: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)] = msgspec.field(name="webhookTimestamp")


def _hexadecimal(
    scheme: SignatureScheme, header: str, *, prefix: str = "", time: str = "", lead: str = "{time}."
) -> Check:
    """A signature in hexadecimal digits, over the body or, with a header for the `time`, over both: then
    `lead` is what stands before the body."""

    def check(headers: Headers, body: bytes, secret: str, now: float) -> VerifiedSignature:
        given = headers.only(header)
        if not given.startswith(prefix):
            raise BadSignature("not a SHA-256 signature")
        sent = _fresh(headers, time, now) if time else None
        signed = body if sent is None else lead.format(time=sent).encode() + body
        digits = given.removeprefix(prefix)
        if not _HEX.fullmatch(digits) or not _same(digits.lower(), _signature(secret, signed).encode()):
            raise BadSignature("the signature is wrong")
        at = None if sent is None else int(sent)
        return VerifiedSignature(scheme=scheme, timestamp=at, signed=_digest(signed))

    return check


_SVIX = ("svix-signature", "svix-id", "svix-timestamp")
_STANDARD = ("webhook-signature", "webhook-id", "webhook-timestamp")
_GITHUB, _V2, _V1 = "x-hub-signature-256", "x-webhook-signature-v2", "x-webhook-signature"
_SLACK, _SHOPIFY, _LINEAR = "x-slack-signature", "x-shopify-hmac-sha256", "linear-signature"
_SCHEMES: dict[SignatureScheme, tuple[tuple[str, ...], Check]] = {
    SignatureScheme.SVIX: ((*_SVIX, *_STANDARD), _svix),
    SignatureScheme.GITHUB: ((_GITHUB,), _hexadecimal(SignatureScheme.GITHUB, _GITHUB, prefix="sha256=")),
    SignatureScheme.GITLAB: (("x-gitlab-token",), _gitlab),
    SignatureScheme.STRIPE: (("stripe-signature",), _stripe),
    SignatureScheme.SLACK: (
        (_SLACK,),
        # docs.slack.dev, “Verifying requests from Slack”
        _hexadecimal(
            SignatureScheme.SLACK,
            _SLACK,
            prefix="v0=",
            time="x-slack-request-timestamp",
            lead="v0:{time}:",
        ),
    ),
    SignatureScheme.SHOPIFY: ((_SHOPIFY,), _shopify),
    SignatureScheme.LINEAR: ((_LINEAR,), _linear),
    SignatureScheme.GENERIC_V2: (
        (_V2,),
        _hexadecimal(SignatureScheme.GENERIC_V2, _V2, time="x-webhook-timestamp"),
    ),
    SignatureScheme.GENERIC_V1: ((_V1,), _hexadecimal(SignatureScheme.GENERIC_V1, _V1)),
}
SCHEMES = tuple(_SCHEMES)
"""Those that a route can be set to."""
_TEST = "x-hermes-test-signature"
_check_test = _hexadecimal(SignatureScheme.TEST, _TEST, time="x-webhook-timestamp")


def _test_key(secret: str) -> str:
    """A key that signs tests alone: none of them is a signature in another scheme, and no other is one."""
    return _signature(secret, b"\0hermes webhook test")


def _fresh(headers: Headers, name: str, now: float) -> str:
    """The time of sending as it was written and signed, if it is near enough to now."""
    return _check_time(headers.only(name), name, now)


def _check_time(sent: str, name: str, now: float) -> str:
    if not _SECONDS.fullmatch(sent):
        raise BadSignature(f"{name} is not a time in seconds")
    if abs(now - int(sent)) > TOLERANCE:
        raise BadSignature(f"{name} is more than {TOLERANCE} s away from now")
    return sent


def _signature(secret: str, signed: bytes) -> str:
    return hmac.digest(_bytes(secret), signed, hashlib.sha256).hex()


def _digest(signed: bytes) -> str:
    return hashlib.sha256(signed).hexdigest()


def _same(given: str, wanted: bytes) -> bool:
    return hmac.compare_digest(_bytes(given), wanted)


def _bytes(text: str) -> bytes:
    # aiohttp hands over bytes that are no UTF-8 as surrogates.
    return text.encode("utf-8", "surrogatepass")


def sign(body: bytes, secret: Secret, *, now: float) -> dict[str, str]:
    """Headers that prove a test of ours, whatever scheme the route takes."""
    sent = str(int(now))
    signature = _signature(_test_key(secret.reveal()), f"{sent}.".encode() + body)
    return {"X-Webhook-Timestamp": sent, "X-Hermes-Test-Signature": signature}
