"""Addresses in a text: where they stand, where they lead, and how much they could carry there.

Whatever the syntax around it (inline, reference, autolink, HTML, bare), it is the address that is looked for.
A dotted name without a scheme is one only with a path, a query or a fragment behind it; in code not even
then, unless it begins with `www.`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct

from hermes.domain.safety.hosts import leads_inside, plain_host, read_host
from hermes.domain.safety.late_pattern import late_pattern


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAMED = ("mailto", "tel", "sms", "data", "javascript")
_WEB = r"(?<![A-Za-z0-9])https?:[/\\]{0,8}(?=[^\s/\\])"
_FULL = r"[A-Za-z][A-Za-z0-9+.\-]{0,30}://+"
_RELATIVE = r"(?<![\w/:])//+(?=[\w\-]{1,80}\.|\[[0-9a-fA-F:])"
_OTHER = r"(?<![A-Za-z0-9])(?:(?:mailto|tel|sms|javascript):(?=[^\s:/])|data:(?=[\w.+\-]{1,40}/))"
_NAME = r"(?:[A-Za-z0-9_\-]{1,80}\.){1,10}(?:xn--[A-Za-z0-9\-]{1,60}|[A-Za-z]{2,24})(?![\w@(\-]|\.\w)"
_BEHIND = r"\.?(?::\d{1,5})?(?:[/?#]|(?=\W|$))"
_BARE = rf"(?<![A-Za-z0-9_@./:\]\-])(?:{_NAME}|\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?=[:/?#])){_BEHIND}"
_START = late_pattern(f"{_WEB}|{_FULL}|{_RELATIVE}|{_OTHER}|{_BARE}", re.IGNORECASE)
_START_IN_CODE = late_pattern(rf"{_FULL}|(?<![A-Za-z0-9_@./:\]\-])(?=www\.){_NAME}{_BEHIND}", re.IGNORECASE)
_SCHEME = late_pattern(f"{_WEB}|{_FULL}|{_RELATIVE}|{_OTHER}", re.IGNORECASE)
_LAX = late_pattern(r"(https?):[/\\]*", re.IGNORECASE)
_PAUSE = late_pattern('[<>"`()，。；、！？「」『』【】（）]|\\](?=\\()')
_BRACKETS = {"(": 1, ")": -1}
_ENDINGS = ".,;:!?*_~'|"
_HOST = late_pattern(r"[\w.:\-]{1,253}")
_CONNECTS = _listed(
    "http https ws wss ftp sftp ssh git tcp udp postgres postgresql mysql mariadb redis rediss mongodb amqp "
    "amqps nats ldap smtp imap"
)
"""Schemes by which a program connects to the host that is named; others hand the address to an app."""
_PICTURE = late_pattern(r"data:image/(?:png|jpe?g|gif|webp)[;,]", re.IGNORECASE)
_QUIET = _listed(
    "github.com raw.githubusercontent.com gitlab.com bitbucket.org codeberg.org youtube.com youtu.be "
    "vimeo.com stackoverflow.com superuser.com serverfault.com askubuntu.com stackexchange.com wikipedia.org "
    "pypi.org files.pythonhosted.org npmjs.com crates.io docs.rs pkg.go.dev go.dev rubygems.org "
    "packagist.org nuget.org mvnrepository.com hub.docker.com docs.docker.com docs.python.org "
    "peps.python.org developer.mozilla.org learn.microsoft.com docs.oracle.com docs.spring.io kubernetes.io "
    "arxiv.org rfc-editor.org datatracker.ietf.org"
)
"""Sites that tell nobody else which pages they were asked for: an id in a path carries nothing to others.
Their queries may lead elsewhere."""
_VIDEO_SITES = _listed("youtube.com")
_VIDEO = _listed("v t list index si start pp ab_channel")
_FILES = _listed("js css map json png jpg svg html txt log py ts gz zip whl jar so dll exe md yaml yml")
_PARTS = late_pattern(r"[A-Za-z0-9]+")
_PIECES = late_pattern(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_NEEDLESS = late_pattern(r"%(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])")
_MOST_DRAWN = 16


class AddressLimits(Struct, frozen=True, kw_only=True):
    """Up to which length parts of an address to an unknown host are taken for the name of a page."""

    drawn: int
    """From which length letters mixed with digits count."""
    digits: int
    letters: int
    query: int
    fragment: int
    path: int
    unusual: int
    labels: int
    label: int


STRICT = AddressLimits(
    drawn=8, digits=12, letters=24, query=32, fragment=80, path=160, unusual=24, labels=3, label=20
)
LENIENT = AddressLimits(
    drawn=12, digits=20, letters=36, query=100, fragment=160, path=300, unusual=200, labels=5, label=40
)
"""After files of the workspace alone: what is clearly opaque."""


def addresses(text: str, *, code: bool = False, wrapped: bool = False) -> Iterator[tuple[int, int]]:
    """Where each address begins and ends; `wrapped` = the text begins between the brackets of a link, where
    only they end it."""
    start = _START_IN_CODE if code else _START
    at = 0
    while (found := start.search(text, at)) is not None:
        opened = text[max(0, found.start() - 2) : found.start()]
        inside = opened.endswith(("](", "<", '"')) or (wrapped and not found.start())
        whole = has_scheme(found[0] + "a") or found[0][-1] in "/?#"
        end = max(_end(text, found.end(), inside=inside), found.end()) if whole else found.end()
        yield found.start(), end
        at = max(end, at + 1)


def _end(text: str, at: int, *, inside: bool) -> int:
    """Before a bracket that it did not open, a quote, or punctuation at its end."""
    depth, end = 0, len(text)
    for pause in _PAUSE.finditer(text, at):
        sign = pause[0]
        depth += _BRACKETS.get(sign, 0)
        if depth < 0 or (sign not in "()" and (sign.isascii() or not inside)):
            end = pause.start()
            break
    while end > at and text[end - 1] in _ENDINGS:
        end -= 1
    return end


def has_scheme(url: str) -> bool:
    return _SCHEME.match(url) is not None


def host_of(url: str) -> str:
    """Empty if it has none, or none that can be read."""
    try:
        return plain_host(_split(url).hostname or "")
    except ValueError:
        return ""


def taken_address(given: str) -> tuple[str, str] | None:
    """What a client takes something for that it is given as an address, in its one spelling, and its host as
    it is written: https:// is put before it if it has no scheme. None if that cannot be told."""
    url = given.strip() if "://" in given else f"https://{given.strip()}"
    try:
        parts = urlsplit(url)
        host, port = read_host(parts.hostname or ""), parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or "\\" in url:
        return None
    place = f"[{host}]" if ":" in host else host
    behind = parts._replace(netloc=place if port is None else f"{place}:{port}")
    return behind.geturl(), plain_host(parts.hostname or "")


def is_page(url: str) -> bool:
    """Whether there is something behind the host."""
    return re.search(r"[^/\\:][/?#\\]", url) is not None


def is_mere_name(url: str) -> bool:
    """Whether it is a dotted name alone, like many in code."""
    return not is_page(url) and not has_scheme(url)


def is_quiet(host: str) -> bool:
    return _is_below(host, _QUIET)


def connects_inside(url: str, host: str) -> bool:
    """Whether it is this machine or a neighbour; what only a shell could fill in is neither."""
    scheme = url.partition(":")[0].lower()
    named = f"https://[{host}]" if ":" in host else f"https://{host}"
    return scheme in _CONNECTS and _HOST.fullmatch(host) is not None and leads_inside(named)


def carries_data(url: str, limits: AddressLimits = STRICT) -> bool:
    """Whether an address has room for more than the name of a page."""
    strict = limits is STRICT
    if is_mere_name(url):
        labels = url.partition(":")[0].lower().split(".")
        return strict and labels[-1] not in _FILES and any(_is_opaque(one, 12, limits) for one in labels[:-2])
    try:
        parts = _split(url)
        host, user = (
            plain_host(parts.hostname or ""),
            f"{parts.username or ''} {parts.password or ''}".strip(),
        )
    except ValueError:
        return True
    if parts.scheme in _NAMED:
        return _named_carries(url, parts, limits)
    if user and user != "git" and (strict or _is_opaque(unquote(user), 8, limits)):
        return True
    if strict and ":" in host:  # half of an IPv6 address is whatever its owner likes
        return True
    # Signs that only look like a slash are part of the host.
    below = host.split(".")[: -2 if _HOST.fullmatch(host) else None]
    if len(below) > limits.labels or any(
        len(label) > limits.label or _is_opaque(label, limits.drawn, limits) for label in below
    ):
        return True
    query, path = unquote(parts.query), unquote(parts.path)
    if _is_below(host, _VIDEO_SITES) and path in ("/watch", "/playlist", "/embed"):
        query = " ".join(
            value for name, value in parse_qsl(parts.query) if name not in _VIDEO or len(value) > 40
        )
    if (
        len(query) > limits.query
        or len(parts.fragment) > limits.fragment
        or len(parts.path) > limits.path
        or _is_opaque(f"{query} {unquote(parts.fragment)}", limits.drawn, limits)
    ):
        return True
    if is_quiet(host) and "//" not in path:
        return False
    return (
        _is_opaque(path, max(limits.drawn, 10), limits)
        or _drawn_in(f"{path} {query} {parts.fragment}") >= _MOST_DRAWN
        or len(_NEEDLESS.findall(url)) > 2
        or (strict and url.count("%") > 2)
        or sum(not char.isascii() for char in f"{path}{query}{parts.fragment}") > limits.unusual
    )


def _named_carries(url: str, parts: SplitResult, limits: AddressLimits) -> bool:
    if parts.scheme == "data":
        return _PICTURE.match(url) is None
    if parts.scheme == "javascript":
        return True
    query = unquote(parts.query)
    asked = bool(query) if limits is STRICT else len(query) > limits.query or _is_opaque(query, 8, limits)
    return asked or _is_opaque(unquote(parts.path), 12, limits)


def _is_opaque(text: str, shortest: int, limits: AddressLimits) -> bool:
    """Whether a part looks drawn rather than named, or has no end."""
    for part in _PARTS.findall(text):
        pieces = _PIECES.findall(part)
        longest = max(pieces, key=len)
        if len(longest) > (limits.digits if longest.isdigit() else limits.letters):
            return True
        if len(part) >= shortest and len(part) < 3 * len(pieces):
            return True
    return False


def _drawn_in(text: str) -> int:
    """How many signs stand in parts that mix letters and digits, however short they are."""
    mixed = (part for part in _PARTS.findall(text) if not (part.isalpha() or part.isdigit()))
    return sum(len(part) for part in mixed if len(part) > 2 and len(part) < 3 * len(_PIECES.findall(part)))


def drawn_in(url: str) -> int:
    """How much of the address of a page could be drawn."""
    try:
        parts = _split(url)
    except ValueError:
        return _MOST_DRAWN
    return _drawn_in(unquote(f"{parts.path} {parts.query} {parts.fragment}"))


def _split(url: str) -> SplitResult:
    """The parts of an address as a browser reads them: `https:host` and `https:\\\\host` lead there too."""
    url = _LAX.sub(r"\1://", url, count=1) if _LAX.match(url) else url
    return urlsplit(url if has_scheme(url) else f"//{url}")


def _is_below(host: str, names: frozenset[str]) -> bool:
    labels = host.split(".")
    return any(".".join(labels[at:]) in names for at in range(len(labels)))
