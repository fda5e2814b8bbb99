"""How Twilio signs a call, written down apart from the adapter: the address, and behind it the names and
values of the form, in the order of the names (twilio.com/docs/usage/security)."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping


def signature(token: str, url: str, params: Mapping[str, str], algorithm: str = "sha1") -> str:
    text = url + "".join(f"{name}{params[name]}" for name in sorted(params))
    return base64.b64encode(hmac.new(token.encode(), text.encode(), algorithm).digest()).decode()
