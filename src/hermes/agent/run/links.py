"""Links in what a model says after it has read words from outside: none may carry data away by being clicked,
or by being fetched for a preview.

A link to a host that neither the person nor the settings named is cut to its host and made unclickable if its
address is opaque: a long query, credentials, tokens in the path or in the name of the host. Pictures are
fetched by being shown, so an unknown host's are always cut. Whatever the syntax (inline, reference, autolink,
HTML, bare), it is the address that is looked for. In a stream, only a word that may be one is held back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html import unescape
from itertools import pairwise
from urllib.parse import SplitResult, urlsplit

from hermes.domain.hosts import leads_inside, plain_host

KnownHost = Callable[[str], bool]
DEFUSED = re.compile(r"\[[:.]\](?:/|\w)")
"""What stands in a text of which a link was cut."""
_BREAKS = "\\s，。；、！？「」『』【】（）"
_RUN = re.compile(f"[^{_BREAKS}]+")
_TRIGGERS = re.compile(r"[:.(\[\]<=&\\/]")
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]{0,30}"
_URL = re.compile(
    rf"\bhttps?:[/\\]{{0,8}}(?=[^\s/\\])|(?:{_SCHEME}:|(?<![\w/:])(?=//\w))//+"
    r"|\b(?:mailto|tel|sms|data|javascript):(?=[^\s:/])",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?<![\w@./:\]\-])(?:[A-Za-z0-9_\-]{1,80}\.){1,10}[A-Za-z]{2,24}(?![\w.@(\-])(?::\d{1,5})?(?:[/?#]|(?=\W|$))"
)
_STOPS = frozenset('<>"`')
_ENDINGS = ".,;:!?*_~'|"
_AUTO = re.compile(
    r"(?:\b(?:src|srcset|poster|background)\s{0,3}=\s{0,3}[\"']?|\burl\(\s{0,3}[\"']?|\]:\s{0,8}<?)$",
    re.IGNORECASE,
)
_LAX = re.compile(r"(https?):[/\\]*", re.IGNORECASE)
_HOST = re.compile(r"[\w.:\-]{1,253}")
_OPAQUE_PARTS = re.compile(r"[A-Za-z0-9]+")
_LONGEST_QUERY, _LONGEST_FRAGMENT, _LONGEST_PATH, _MOST_UNUSUAL = 32, 80, 160, 24
_MOST_TO_A_HOST = 12
_TAIL = 400


def defang(url: str, *, whole: bool = False) -> str:
    """An address that nothing takes for a link, `whole` or cut to its host; its first letters stay."""
    scheme, colon, rest = url.partition(":") if _URL.match(url) and not url.startswith("/") else ("", "", url)
    slashes = rest[: len(rest) - len(rest.lstrip("/"))]
    authority = re.split(r"[/?#\\]", rest[len(slashes) :], maxsplit=1)[0]
    behind = rest[len(slashes) + len(authority) :]
    host = authority if whole else authority.rpartition("@")[2]
    head = f"{scheme}{'[:]' if colon else ''}{slashes if colon else ''}{host.replace('.', '[.]')}"
    return head + (behind if whole else "/…" if behind else "")


def carries_data(url: str) -> bool:
    """Whether an address has room for more than the name of a page."""
    try:
        parts = _split(url)
        host, user = plain_host(parts.hostname or ""), parts.username is not None
    except ValueError:
        return True
    if parts.scheme in ("mailto", "tel", "sms", "data", "javascript"):
        return bool(parts.query) or parts.scheme in ("data", "javascript") or _is_opaque(parts.path, 12)
    below = host.split(".")[:-2]
    rest = url.partition("//")[2]
    return (
        user
        or len(below) > 3
        or any(len(label) > 20 or _is_opaque(label, 8) for label in below)
        or len(parts.query) > _LONGEST_QUERY
        or len(parts.fragment) > _LONGEST_FRAGMENT
        or len(parts.path) > _LONGEST_PATH
        or _is_opaque(f"{parts.query} {parts.fragment}", 8)
        or _is_opaque(parts.path, 10)
        or url.count("%") > 2
        or sum(not char.isascii() for char in rest) > _MOST_UNUSUAL
    )


def _is_opaque(text: str, shortest: int) -> bool:
    """Whether a part looks drawn rather than named: letters and digits mixed, or letters without an end."""
    for part in _OPAQUE_PARTS.findall(text):
        digits = sum(char.isdigit() for char in part)
        if len(part) >= shortest and (0 < digits < len(part) or digits > 12):
            return True
        changes = sum(one.islower() and two.isupper() for one, two in pairwise(part))
        if len(part) > 24 or (len(part) >= shortest and changes > 2):
            return True
    return False


def host_of(url: str) -> str:
    """Empty if it has none, or none that can be read."""
    try:
        return plain_host(_split(url).hostname or "")
    except ValueError:
        return ""


def _split(url: str) -> SplitResult:
    """The parts of an address as a browser reads them: `https:host` and `https:\\\\host` lead there too."""
    url = _LAX.sub(r"\1://", url, count=1) if _LAX.match(url) else url
    return urlsplit(url if _URL.match(url) else f"//{url}")


def _is_inside(host: str) -> bool:
    """Whether it is this machine or a neighbour; what only a shell could fill in is neither."""
    url = f"https://[{host}]" if ":" in host else f"https://{host}"
    return _HOST.fullmatch(host) is not None and leads_inside(url)


class LinkFilter:
    """Takes a text in pieces and gives it back with its unknown opaque links cut; `whole` ones are shown in
    full, but are no links any more."""

    def __init__(self, is_known: KnownHost, *, whole: bool = False) -> None:
        self._is_known = is_known
        self._whole = whole
        self._held = ""
        self._run = ""
        """What was given out of the word that the text ends in."""
        self._tail = ""
        self._hosts: Counter[str] = Counter()

    def take(self, text: str, *, last: bool = False) -> str:
        text, self._held = self._held + text, ""
        out: list[str] = []
        at = 0
        for run in _RUN.finditer(text):
            between = text[at : run.start()]
            if between:
                self._give(out, between)
                self._run = ""
            at = run.end()
            if at == len(text) and not last:
                if _TRIGGERS.search(self._run + run[0]):
                    self._held = run[0]
                else:
                    self._give(out, run[0])
                    self._run += run[0]
                return "".join(out)
            self._give(out, self._checked(run[0]))
            self._run = ""
        if at < len(text):
            self._give(out, text[at:])
            self._run = ""
        return "".join(out)

    def _give(self, out: list[str], text: str) -> None:
        out.append(text)
        self._tail = (self._tail + text)[-_TAIL:]

    def _checked(self, word: str) -> str:
        """A word as it may be shown: what was given out of it before stays as it is."""
        full, given = self._run + word, len(self._run)
        if _TRIGGERS.search(full) is None:
            return word
        plain = unescape(re.sub(r"\\(?=[!-/:-@\[-`{-~])", "", full)) if "\\" in full or "&" in full else full
        if plain != full and self._defused(plain) != plain:
            return self._defused(plain)[given:] if plain[:given] == full[:given] else "[link removed]"
        return self._defused(full)[given:]

    def _defused(self, full: str) -> str:
        out, at = [], 0
        while (found := _next(full, at)) is not None:
            start, end = found
            url, before = full[start:end], (self._tail[: len(self._tail) - len(self._run)] + full[:start])
            out.append(full[at:start])
            out.append(defang(url, whole=self._whole) if self._is_unsafe(url, before, full[end:]) else url)
            at = end
        return "".join(out) + full[at:]

    def _is_unsafe(self, url: str, before: str, behind: str) -> bool:
        host = host_of(url)
        if host and (self._is_known(host) or (_LAX.match(url) is not None and _is_inside(host))):
            return False
        line = before[before.rfind("\n") + 1 :]
        shown = _AUTO.search(before) is not None or (line.endswith(("](", "](<")) and "![" in line)
        # Between angle brackets an address may have spaces, and go on in the next word. `<Color.RED: 1>` is
        # none: without a scheme they make a link only of what stands in round brackets.
        is_link = _URL.match(url) is not None or before.endswith("(<")
        goes_on = before.endswith("<") and is_link and ">" not in behind[:1]
        # A mere name, like `self.name` in code, spells nothing however often it stands there.
        self._hosts[host] += re.search(r"[^/\\:][/?#\\]", url) is not None
        return shown or goes_on or carries_data(url) or self._hosts[host] > _MOST_TO_A_HOST


def without_links(text: str, is_known: KnownHost, *, whole: bool = False) -> str:
    return LinkFilter(is_known, whole=whole).take(text, last=True)


def urls_in(text: str) -> list[str]:
    """Every address in a text."""
    found, at = [], 0
    while (place := _next(text, at)) is not None:
        found.append(text[slice(*place)])
        at = max(place[1], at + 1)
    return found


def _next(text: str, at: int) -> tuple[int, int] | None:
    """The first address behind a place: where it begins and ends."""
    found = [match for pattern in (_URL, _BARE) if (match := pattern.search(text, at))]
    if not found:
        return None
    start = min(found, key=lambda match: match.start())
    end = _end(text, start.end(), depth=0)
    return start.start(), max(end, start.end())


def _end(text: str, at: int, depth: int) -> int:
    """Where an address ends: before a bracket that it did not open, a quote, or punctuation at its end."""
    while at < len(text) and text[at] not in _STOPS:
        depth += (text[at] == "(") - (text[at] == ")")
        if depth < 0 or text[at : at + 2] == "](":
            break
        at += 1
    return len(text[:at].rstrip(_ENDINGS))
