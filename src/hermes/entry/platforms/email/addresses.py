"""Addresses of people, in one spelling each: names of domains as the servers write them (RFC 5890), what
stands before the @ in any script (RFC 6531)."""

from __future__ import annotations

import re
import unicodedata

_LOCAL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]{1,64}")
_DOMAIN = re.compile(r"[a-z0-9.-]{1,253}", re.ASCII)
_DOTS = re.compile("[\u3002\uff0e\uff61]")


def canonical(text: str) -> str:
    """The one spelling of an address; empty if it is none."""
    local, at, domain = text.rpartition("@")
    domain = _ascii_domain(domain)
    if not at or not domain or not _LOCAL.fullmatch(local) or ".." in local:
        return ""
    return f"{plain}@{domain}" if (plain := _plain_local(local)) else ""


def _plain_local(local: str) -> str:
    if local.isascii():
        return local.lower()
    plain = unicodedata.normalize("NFC", local.lower())
    # A letter that only looks like one of ours must not make somebody into somebody else.
    if plain.isascii() or any(unicodedata.category(letter)[0] not in "LMNPS" for letter in plain):
        return ""
    return plain


def _ascii_domain(domain: str) -> str:
    labels = [_ascii_label(label) for label in _DOTS.sub(".", domain).split(".")]
    name = ".".join(labels)
    return name if all(labels) and _DOMAIN.fullmatch(name) else ""


def _ascii_label(label: str) -> str:
    if label.isascii():
        return label.lower()
    plain = unicodedata.normalize("NFC", label.lower())
    if any(unicodedata.category(letter)[0] not in "LMN" for letter in plain.replace("-", "")):
        return ""
    if plain.isascii():
        return plain
    return f"xn--{plain.encode('punycode').decode('ascii')}"


def readable(address: str) -> str:
    """An address as a person writes it."""
    local, _, domain = address.rpartition("@")
    return f"{local}@{'.'.join(map(_readable_label, domain.split('.')))}"


def _readable_label(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        plain = label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label
    # Only what would be written like this again.
    return plain if _ascii_label(plain) == label else label
