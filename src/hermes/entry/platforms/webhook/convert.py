"""Between our words and a webhook's: targets out of settings, a body and its signature, answers to errors,
and which addresses may be called at all. Pure functions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.text import one_line
from hermes.entry.kit.errors import retry_after

_KEYS = ("url", "secret", "allow_private")
_PREFIX = "whsec_"
_LATER = (408, 425, 429)
_LONGEST_WAIT = 3600.0


class WebhookTarget(Struct, frozen=True, kw_only=True):
    """One address to send to. `problem` says why nothing can be sent there; `private`: it may be a machine
    of the operator's own network."""

    name: str
    url: str = ""
    secret: Secret = field(default_factory=lambda: Secret(""))
    private: bool = False
    problem: str = ""


def read_targets(tree: Any, find: Callable[[str], Secret | None]) -> dict[str, WebhookTarget]:
    """`platforms.webhook.targets`; a secret may also be the variable `WEBHOOK_<NAME>_SECRET`."""
    entries = tree if isinstance(tree, Mapping) else {}
    return {str(name): _read(str(name), entry, find) for name, entry in entries.items()}


def _read(name: str, entry: Any, find: Callable[[str], Secret | None]) -> WebhookTarget:
    keys = entry if isinstance(entry, Mapping) else {"url": entry}
    url, secret = keys.get("url"), keys.get("secret")
    if not isinstance(secret, Secret) or not secret.reveal():
        secret = find(variable_of(name)) or Secret("")
    return WebhookTarget(
        name=name,
        url=url if isinstance(url, str) else "",
        secret=secret,
        private=keys.get("allow_private") is True,
        problem=_problem(name, keys, url, secret),
    )


def _problem(name: str, keys: Mapping[str, Any], url: Any, secret: Secret) -> str:
    unknown = [str(key) for key in keys if key not in _KEYS]
    if unknown:
        return f"it has no key “{one_line(unknown[0], 40)}”; there are {', '.join(_KEYS)}"
    if not isinstance(url, str) or not _is_address(url):
        return "its url must be https://host/path, or http:// for a machine of your own (allow_private)"
    if url.startswith("http:") and keys.get("allow_private") is not True:
        return "its url is not https; write https, or allow_private: true for a machine of your own"
    if not secret.reveal():
        return f"it has no secret to sign with; set {variable_of(name)}"
    return ""


def variable_of(name: str) -> str:
    spelled = "".join(char if char.isascii() and char.isalnum() else "_" for char in name.upper())
    return f"WEBHOOK_{spelled}_SECRET"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
    return valid and parts.username is None and url.isascii() and url.isprintable() and " " not in url


def target_problems(tree: Any, find: Callable[[str], Secret | None]) -> Iterator[str]:
    if tree is not None and not isinstance(tree, Mapping):
        yield "platforms.webhook.targets must hold `name: {url: …, secret: …}` lines."
    for target in read_targets(tree, find).values():
        if target.problem:
            yield f"platforms.webhook.targets.{one_line(target.name, 40)}: {target.problem}."


def message_id(key: str) -> str:
    """The same for every attempt."""
    return f"msg_{hashlib.sha256(key.encode()).hexdigest()[:24]}"


def request_body(target: WebhookTarget, text: str, key: str, now: float) -> bytes:
    message = {
        "type": "message",
        "timestamp": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        "data": {"id": message_id(key), "target": target.name, "text": text},
    }
    return json.dumps(message, ensure_ascii=False).encode()


def signed_headers(target: WebhookTarget, body: bytes, key: str, now: float) -> dict[str, str]:
    """The headers of Standard Webhooks; our own routes understand them, too."""
    ident, sent = message_id(key), str(int(now))
    signed = f"{ident}.{sent}.".encode() + body
    signature = base64.b64encode(hmac.digest(_key_of(target.secret), signed, hashlib.sha256)).decode()
    return {
        "Content-Type": "application/json",
        "User-Agent": "hermes-gateway",
        "webhook-id": ident,
        "webhook-timestamp": sent,
        "webhook-signature": f"v1,{signature}",
    }


def _key_of(secret: Secret) -> bytes:
    """`whsec_` secrets are base64, others are used as they are."""
    text = secret.reveal()
    coded = text.removeprefix(_PREFIX)
    if coded != text:
        try:
            return base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass
    return text.encode("utf-8", "surrogateescape")


def not_called(target: WebhookTarget, error: Refused | Unreachable) -> HermesError:
    """What it means that there is no answer."""
    why = f"the webhook “{target.name}” cannot be reached: {error}"
    if isinstance(error, Unreachable):
        return Unreachable(why, maybe_done=error.maybe_done, offline=error.offline)
    own = "" if target.private else " A target in a network of your own says allow_private: true."
    return Refused(why + own)


def error_for(target: WebhookTarget, status: int, headers: Mapping[str, str]) -> HermesError | None:
    """What an answer means for who sent the message; None is success."""
    if 200 <= status < 300:
        return None
    why = f"the webhook “{target.name}” says {status}"
    if 300 <= status < 400:
        return Refused(f"{why}: it leads somewhere else, and that is not followed")
    wait = retry_after(headers)
    after = None if wait is None else min(wait, _LONGEST_WAIT)
    if status in _LATER:
        return Unreachable(why, after=after)
    if status >= 500:
        return Unreachable(why, after=after, maybe_done=True)
    return Refused(why)
