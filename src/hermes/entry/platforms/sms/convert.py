"""From Twilio's words to ours: calls and messages of the list to `Inbound`s, errors to our errors, and what
proves that Twilio calls. Pure functions; what cannot be read gives nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, InboundKind, media_kind
from hermes.domain.errors import NeedsLogin, Refused
from hermes.domain.ids import DeliveryId
from hermes.domain.text import storable
from hermes.entry.kit.errors import error_table, slower
from hermes.entry.kit.payload import as_text, attachment, flat, inbounds, shaped

NAME = "sms"
PERSON = re.compile(r"\+?[A-Za-z0-9]{3,20}", re.ASCII)
_SID = re.compile(r"(SM|MM)[0-9a-f]{32}", re.ASCII)
_MEDIA = re.compile(r".*/Messages/((?:SM|MM)[0-9a-f]{32})/Media/(ME[0-9a-f]{32})(?:\.json)?", re.ASCII)
_MOST_MEDIA = 10
_STOP = {"stop", "stopall", "unsubscribe", "cancel", "end", "quit", "revoke", "optout"}
"""By these alone people end it with us: Twilio answers, and lets us send them nothing."""
_LOST = ("failed", "undelivered")
_ALGORITHMS = {"HMAC_SHA1": hashlib.sha1, "HMAC_SHA256": hashlib.sha256}
error_for = error_table(
    "Twilio",
    {
        ("20003", 401): (NeedsLogin, "Twilio does not take the account's SID and token ({why})"),
        ("20404", 404): (Refused, "Twilio does not have that ({why})"),
        ("21606", "21659", "21660", "21603"): (NeedsLogin, "TWILIO_PHONE_NUMBER is not yours ({why})"),
        ("20429", "21611", "63038"): (slower, "Twilio wants us to be slower ({why})"),
        "21610": (Refused, "They have sent STOP, and get nothing until they send START ({why})"),
        ("21211", "21614", "21612", "21408"): (Refused, "Twilio does not reach that number ({why})"),
    },
    too_large=("21617", "21623", "63034"),
)  # fmt: skip


class SmsIdentity(Struct, frozen=True, kw_only=True):
    """Our number; `account` is how the operator calls it."""

    number: str
    account: str = DEFAULT_ACCOUNT


def is_signed(
    token: str, url: str, params: Mapping[str, Sequence[str]], header: str, settings: str = ""
) -> bool:
    """Whether Twilio made a call to this address: with the port in it or without, as it does either.
    `settings` is its header that names another algorithm than the usual one."""
    named = dict(part.strip().partition("=")[::2] for part in settings.split(","))
    algorithm = _ALGORITHMS.get(named.get("algorithm", "HMAC_SHA1").upper())
    if algorithm is None or not token:
        return False
    said = "".join(name + value for name in sorted(params) for value in sorted(set(params[name])))
    proofs = (
        base64.b64encode(hmac.new(token.encode(), (place + said).encode(), algorithm).digest())
        for place in _spellings(url)
    )
    given = header.encode("utf-8", "replace")
    return any(hmac.compare_digest(proof, given) for proof in proofs)


def _spellings(url: str) -> Iterator[str]:
    """An address with its port and without; one of a whole host also without the `/` behind that."""
    parts = urlsplit(url)
    bare = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
    port = parts.port or (443 if parts.scheme == "https" else 80)
    for path in {parts.path, parts.path if parts.path != "/" else ""}:
        for host in (bare, f"{bare}:{port}"):
            yield parts._replace(netloc=host, path=path).geturl()


def is_body(url: str, body: bytes) -> bool:
    """Whether the body of a call is the one that its signed address names; most name none."""
    (named,) = parse_qs(urlsplit(url).query).get("bodySHA256", [""])[:1]
    return not named or hmac.compare_digest(hashlib.sha256(body).hexdigest(), named)


@inbounds
def to_inbounds(payload: Any, me: SmsIdentity, now: datetime) -> Inbound | None:
    """A message that came: as a call tells of it, or as the list of messages has it (then in small letters,
    with its media beside). STOP and the like are Twilio's own affair, and it answers them."""
    listed = "sid" in payload
    fields = payload if listed else {_small(name): value for name, value in payload.items()}
    if as_text(fields.get("to")) != me.number or fields.get("opt_out_type"):
        return None
    if listed and fields.get("direction") != "inbound":
        return None
    sid = shaped(fields.get("sid") if listed else fields.get("message_sid"), _SID)
    person = shaped(fields.get("from"), PERSON)
    text, files = as_text(fields.get("body")), tuple(_media(fields, listed))
    if not (text or files) or text.strip().lower() in _STOP:
        return None
    at = parsedate_to_datetime(fields["date_created"]) if listed else now
    return Inbound(
        delivery=DeliveryId(f"message:{sid}"),
        source=Source(
            address=Address(platform=NAME, account=me.account, chat=person),
            kind=SourceKind.PRIVATE,
            user=person,
        ),
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
        ref=sid,
        text=text,
        attachments=files,
    )


def _small(name: Any) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])", "_", name).lower() if isinstance(name, str) else ""


def _media(fields: Mapping[str, Any], listed: bool) -> list[Attachment]:
    if listed:
        media = fields.get("media")
        found = [(one["uri"], one.get("content_type")) for one in media or []]
    else:
        count = min(int(fields.get("num_media") or 0), _MOST_MEDIA)
        found = [(fields[f"media_url_{n}"], fields.get(f"media_content_type_{n}")) for n in range(count)]
    files = []
    for url, mime in found:
        fits = _MEDIA.fullmatch(as_text(url))
        if fits:
            mime = as_text(mime)
            files.append(attachment(f"{fits[1]}/{fits[2]}", media_kind(mime), None, mime, None))
    return files


@inbounds
def to_report(payload: Any, key: str, me: SmsIdentity, now: datetime) -> Inbound | None:
    """That a message of ours never arrived, of a call that tells how it fared."""
    if payload.get("MessageStatus") not in _LOST or not key:
        return None
    code = flat(payload.get("ErrorCode"), 20)
    why = f"Twilio could not deliver it (error {code}: see twilio.com/docs/api/errors/{code})"
    return Inbound(
        delivery=DeliveryId(f"failed:{shaped(payload.get('MessageSid'), _SID)}"),
        source=Source(
            address=Address(platform=NAME, account=me.account, chat=shaped(payload.get("To"), PERSON)),
            kind=SourceKind.PRIVATE,
        ),
        at=now,
        what=InboundKind.UNDELIVERED,
        ref=storable(key),
        text=why if code else "Twilio could not deliver it, and does not say why",
    )
