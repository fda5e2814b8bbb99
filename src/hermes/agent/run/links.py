"""Links in what a model says after it has read words from outside: none may carry data away by being clicked,
or by being fetched for a preview.

A link to a host that neither the person nor the settings named is cut to its host and made unclickable if
its address is opaque. After words from outside, an unknown host's pictures are cut always, for they are
fetched by being shown, and so is what spells something in many links; after files of the workspace alone,
only what is clearly opaque. In a stream a word is held back once it may be an address, and looked at once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from hermes.agent.run.addresses import (
    LENIENT,
    STRICT,
    addresses,
    carries_data,
    connects_inside,
    drawn_in,
    has_scheme,
    host_of,
    is_mere_name,
    is_page,
    is_quiet,
)
from hermes.agent.run.code_marks import CodeMarks
from hermes.domain.safety.late_pattern import late_pattern

KnownHost = Callable[[str], bool]
_HARD = '\\s<>"`'
_PIECES = late_pattern(rf"[{_HARD}]+|[^{_HARD}\x80-\U0010ffff]+|[^{_HARD}\x00-\x7f]+")
_STOPS = late_pattern("[，。；、！？「」『』【】（）]")
_TRIGGERS = late_pattern(r"[:.&\\]")
_ESCAPED = late_pattern(
    r"\\[!-/:-@\[-`{-~]|&(?:#\d{1,7};?|#[xX][0-9a-fA-F]{1,6};?|[A-Za-z][A-Za-z0-9]{1,31};)"
)
_AUTO = late_pattern(
    r"(?:\b(?:src|srcset|poster|background)\s{0,20}=|\burl\(|\]:)$",
    re.IGNORECASE,
)
_AUTHORITY = late_pattern(r"[/\\]*[^/?#\\]*")
_MOST_TO_A_HOST, _MOST_DRAWN_TO_A_HOST = 12, 48
_CONTEXT, _SYNTAX = 400, 40
_LONGEST = 2048
"""Of what is held back of one word."""
_MARGIN = 300
"""In which the beginning of an address may stand that is none yet."""


def defang(url: str) -> str:
    """An address cut to its host, which nothing takes for a link; its first letters stay."""
    scheme, colon, rest = url.partition(":") if has_scheme(url) and not url.startswith("/") else ("", "", url)
    slashes = rest[: len(rest) - len(rest.lstrip("/"))]
    authority = re.split(r"[/?#\\]", rest[len(slashes) :], maxsplit=1)[0]
    behind = rest[len(slashes) + len(authority) :]
    host = authority.rpartition("@")[2].replace(".", "[.]")
    return f"{scheme}{'[:]' if colon else ''}{slashes}{host}{'/…' if behind else ''}"


class LinkFilter:
    """Takes a text in pieces and gives it back with its unknown opaque links cut; `whole` ones are shown as
    they are written, but are no links any more. `cut` says whether there was one. Not `strict`: only files of
    the workspace were read."""

    def __init__(self, is_known: KnownHost, *, strict: bool = True, whole: bool = False) -> None:
        self._is_known = is_known
        self._limits = STRICT if strict else LENIENT
        self._whole = whole
        self._pieces: list[str] = []
        """The word that the text ends in."""
        self._size = 0
        self._given = 0
        """How much of it was given out."""
        self._is_held = False
        self._is_open = False
        """An address in it may go on."""
        self._is_wrapped = False
        self._is_dropped = False
        self._before = ""
        self._is_picture = False
        """A picture may have begun in this paragraph."""
        self._code = CodeMarks()
        self._trusted_hosts: dict[str, bool] = {}
        self._pages: defaultdict[str, set[str]] = defaultdict(set)
        self._drawn: defaultdict[str, int] = defaultdict(int)
        self.cut = False

    def take(self, text: str, *, last: bool = False) -> str:
        out: list[str] = []
        for piece in _PIECES.finditer(text):
            words = piece[0]
            if words[0].isspace() or words[0] in '<>"`':
                self._close(out, words[0])
                self._pass(out, words)
            elif words[0].isascii():
                self._grow(out, words)
            else:
                self._take_unusual(out, words)
        if last:
            self._close(out, "")
        return "".join(out)

    def _take_unusual(self, out: list[str], words: str) -> None:
        """Letters beyond ASCII stand in addresses, but begin none: where none is open, nothing is held for
        them. Between the brackets of a link their punctuation does not end it."""
        if self._size and not self._is_open and self._is_held:
            self._look_open(words[0])
        if not self._is_open:
            self._close(out, words[0])
            self._pass(out, words)
            return
        stop = None if self._is_wrapped else _STOPS.search(words)
        if stop is None:
            self._grow(out, words)
            return
        if stop.start():
            self._grow(out, words[: stop.start()])
        self._close(out, stop[0])
        self._pass(out, words[stop.start() :])

    def _look_open(self, coming: str) -> None:
        word = "".join(self._pieces) + coming
        start = self._open_from(word)
        self._is_open = start is not None
        if start is not None:
            self._is_wrapped = (self._before + word[:start]).endswith(("](", "<", '"', "](\\"))

    def _pass(self, out: list[str], text: str) -> None:
        """Text in which no address begins."""
        out.append(text)
        self._keep(text)

    def _keep(self, text: str) -> None:
        self._code.read(text)
        self._is_picture = _begins_picture(self._before[-2:] + text, is_open=self._is_picture)
        self._before = (self._before + text)[-_CONTEXT:]

    def _grow(self, out: list[str], words: str) -> None:
        at = 0
        while at < len(words):
            part = words[at : at + _LONGEST - self._size]
            at += len(part)
            if self._is_dropped:
                continue
            self._pieces.append(part)
            self._size += len(part)
            self._is_held = self._is_held or _TRIGGERS.search(part) is not None
            if not self._is_held:
                out.append(part)
                self._given = self._size
            if self._size >= _LONGEST:
                self._shorten(out)

    def _shorten(self, out: list[str]) -> None:
        """Give out what of a long word is settled."""
        word = "".join(self._pieces)
        start = self._open_from(word)
        if start == 0:
            cut = self.cut
            self.cut = False
            self._release(out, word, "")
            self._is_dropped, self.cut = self.cut and not self._whole, self.cut or cut
            self._begin("")
            return
        place = start if start is not None else len(word) - _MARGIN
        for first, end in self._found(word):
            if first < place < end:
                place = first or end
        given = self._given
        self._release(out, word[:place], word[place : place + 1])
        self._begin(word[place:], given=max(0, given - place))
        if not self._is_held:
            out.append(word[place + self._given :])
            self._given = self._size

    def _begin(self, word: str, *, given: int = 0) -> None:
        self._pieces = [word] if word else []
        self._size, self._given = len(word), given
        self._is_held = _TRIGGERS.search(word) is not None
        self._is_open = self._is_wrapped = False

    def _close(self, out: list[str], behind: str) -> None:
        if self._size:
            self._release(out, "".join(self._pieces), behind)
            self._begin("")
        self._is_dropped = False

    def _release(self, out: list[str], word: str, behind: str) -> None:
        shown = self._checked(word, behind) if self._is_held else word
        out.append(shown[self._given :])
        self._keep(word)

    # --- one word ---

    def _found(self, word: str) -> list[tuple[int, int]]:
        """Where addresses stand in a word, as it is written or as it is read."""
        found = list(addresses(word))
        plain, places = _unescaped(word)
        if plain != word:
            found += ((places[start], places[end]) for start, end in addresses(plain))
        return found

    def _open_from(self, word: str) -> int | None:
        """Where the address begins that goes on to the end of a word."""
        return min(
            (start for start, end in self._found(word) if not word[end:].strip(".,;:!?*_~'|")), default=None
        )

    def _checked(self, word: str, behind: str) -> str:
        """A word as it may be shown: only characters of addresses change."""
        fenced = not self._whole and self._code.in_fence
        code = fenced or (not self._whole and behind == "`" and self._code.in_span)
        readings = [(word, list(range(len(word) + 1)))]
        plain, places = _unescaped(word)
        if plain != word and not code:
            readings.append((plain, places))
        cuts = []
        for text, places in readings:
            wrapped = self._before.endswith(("](", "<", '"'))
            for start, end in addresses(text, code=code, wrapped=wrapped):
                before = (self._before if start < _CONTEXT else "") + text[max(0, start - _CONTEXT) : start]
                if self._is_unsafe(text[start:end], before, text[end : end + 1] or behind):
                    raw = [word[places[at] : places[at + 1]] for at in range(start, end)]
                    shown = _bracketed(text[start:end], raw) if self._whole else defang(text[start:end])
                    cuts.append((places[start], -places[end], shown))
        out: list[str] = []
        at = 0
        for begin, end, shown in sorted(cuts):
            if begin >= at:
                out += (word[at:begin], shown)
                at = -end
        self.cut = self.cut or bool(cuts)
        return "".join(out) + word[at:]

    def _is_unsafe(self, url: str, before: str, behind: str) -> bool:
        if is_mere_name(url) and (url.count(".") < 2 or self._limits is LENIENT):
            return False
        host = host_of(url)
        if host and self._knows(url, host):
            return False
        # Between angle brackets an address may have spaces, and go on in the next word. `<Color.RED: 1>` is
        # none: without a scheme they make a link only of what stands in round brackets.
        is_link = has_scheme(url) or before.endswith("(<")
        if carries_data(url, self._limits) or (before.endswith("<") and is_link and behind != ">"):
            return True
        if is_page(url) and url not in self._pages[host]:
            self._pages[host].add(url)
            self._drawn[host] += 0 if is_quiet(host) else drawn_in(url)
        if self._limits is LENIENT or self._drawn[host] > _MOST_DRAWN_TO_A_HOST:
            return self._drawn[host] > _MOST_DRAWN_TO_A_HOST
        if is_quiet(host):
            return len(self._pages[host]) > _MOST_TO_A_HOST
        # White space, of which a line end is one, may stand between the bracket and the address.
        head = before.rstrip().rstrip("<\"'").rstrip()
        drawn = head.endswith("](") and _begins_picture(before, is_open=self._is_picture)
        shown = drawn or _AUTO.search(head[-_SYNTAX:]) is not None
        # A mere name, like `self.name` in code, spells nothing however often it stands there.
        return shown or len(self._pages[host]) > _MOST_TO_A_HOST

    def _knows(self, url: str, host: str) -> bool:
        way = f"{url.partition(':')[0]} {host}"
        if way not in self._trusted_hosts:
            self._trusted_hosts[way] = self._is_known(host) or connects_inside(url, host)
        return self._trusted_hosts[way]


def _begins_picture(text: str, *, is_open: bool) -> bool:
    """Whether a picture has begun in the paragraph that a text ends in."""
    begun, ended = text.rfind("!["), text.rfind("\n\n")
    return begun > ended or (is_open and ended < 0)


def without_links(text: str, is_known: KnownHost, *, strict: bool = True, whole: bool = False) -> str:
    return LinkFilter(is_known, strict=strict, whole=whole).take(text, last=True)


def urls_in(text: str) -> list[str]:
    """Every address in a text."""
    return [text[start:end] for start, end in addresses(text)]


def _unescaped(word: str) -> tuple[str, list[int]]:
    """A word as Markdown reads it, and where each of its characters stands."""
    if "\\" not in word and "&" not in word:
        return word, []
    from html import unescape  # has a table of two thousand names

    plain: list[str] = []
    places: list[int] = []
    at = 0
    for escape in _ESCAPED.finditer(word):
        plain += word[at : escape.start()]
        places += range(at, escape.start())
        meant = escape[0][1:] if escape[0][0] == "\\" else unescape(escape[0])
        plain += meant
        places += [escape.start()] * len(meant)
        at = escape.end()
    return "".join([*plain, word[at:]]), [*places, *range(at, len(word) + 1)]


def _bracketed(url: str, raw: list[str]) -> str:
    """An address as it is written, character by character, with brackets around its colon and its dots."""
    colon = url.find(":") if has_scheme(url) and not url.startswith("/") else -1
    authority = _AUTHORITY.match(url, colon + 1)
    end = authority.end() if authority is not None else len(url)
    return "".join(
        f"[{sign}]" if place == colon or (url[place] == "." and colon < place < end) else sign
        for place, sign in enumerate(raw)
    )
