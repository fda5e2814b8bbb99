"""What a model's text says besides words for people: `MEDIA:` paths and `[[…]]` flags are acted on and never
shown, and a reply that is `SILENT` or `NO_REPLY` is sent to nobody."""

from __future__ import annotations

import re

from msgspec import Struct

from hermes.domain.safety.late_pattern import late_pattern

_CODE = r"```.*?(?:```|\Z)|`[^`\n]*(?:`|\Z)"
_PATH = r"""(?:"[^"\n]*(?:"|\Z)|'[^'\n]*(?:'|\Z)|`[^`\n]*(?:`|\Z)|(?:~?/|[A-Za-z]:[\\/])\S*)"""
_DIRECTIVE = rf"""(?:\[\[(?:[a-z]+_)+[a-z]+\]\]|(?<![\w"])MEDIA:[ \t]?{_PATH})"""
_ROOT = r"(?:~?/|[A-Za-z]:[\\/])"
_ENDING = r"\.[A-Za-z]\w{0,7}"
# A path with blanks: on a line of its own, up to an ending of a file name that is the line's end.
_SPACED = rf"""(?:{_ROOT}(?:(?!{_ENDING}\s|MEDIA:|\[\[)[^\n"'`])*{_ENDING}(?=[ \t]*(?:\n|\Z)))"""
_LINE_DIRECTIVE = rf"""(?:(?<![\w"])MEDIA:[ \t]?{_SPACED}|{_DIRECTIVE})"""
_DIRECTIVES = late_pattern(
    rf"({_CODE})|(?:(?<=\n)|\A)(?P<line>(?:[ \t]{{0,8}}{_LINE_DIRECTIVE})+)[ \t]*(?:\n|\Z)"
    rf"|(?:[ \t]{{0,8}}{_DIRECTIVE})+",
    re.DOTALL,
)
_GROWING_PATH = late_pattern(rf"(?:(?<=\n)|\A)[ \t]{{0,8}}MEDIA:[ \t]?{_ROOT}[^\n]*\Z")
_UNFINISHED_DIRECTIVE = late_pattern(
    r"""(?:\[(?:\[(?:[a-z_]*\]?)?)?|(?<![\w"])M(?:E(?:D(?:I(?:A(?::[ \t]?(?:~|[A-Za-z]:?)?)?)?)?)?)?)\Z"""
)
_TAIL = 64


def without_directives(text: str, *, growing: bool = False) -> str:
    """The text without `MEDIA:` and `[[…]]` directives outside code. If it is still growing, an end
    that may become one is left out too."""
    if growing and "MEDIA:" in text:
        text = _GROWING_PATH.sub("", text)
    if "MEDIA:" in text or "[[" in text:
        text = _DIRECTIVES.sub(lambda match: match[1] or "", text)
    if growing:
        text = text[:-_TAIL] + _UNFINISHED_DIRECTIVE.sub("", text[-_TAIL:])
    return text


class Directives(Struct, frozen=True, kw_only=True):
    """A text without its directives, the paths after `MEDIA:`, and the names in double brackets."""

    text: str
    paths: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


def read_directives(text: str) -> Directives:
    """What a whole text says besides its words. Code and JSON say nothing."""
    if "MEDIA:" not in text and "[[" not in text:
        return Directives(text=text)
    paths: dict[str, None] = {}
    flags: set[str] = set()
    for match in _DIRECTIVES.finditer(text):
        if match[1]:
            continue
        for directive in re.finditer(_LINE_DIRECTIVE if match["line"] else _DIRECTIVE, match[0]):
            if directive[0].startswith("[["):
                flags.add(directive[0].strip("[]"))
            else:
                paths[directive[0].removeprefix("MEDIA:").strip(" \t\"'`")] = None
    return Directives(text=without_directives(text), paths=tuple(paths), flags=frozenset(flags))


_SILENCES = ("SILENT", "NO_REPLY", "NO REPLY")
_AROUND_SILENCE = " \t\n\r[](){}<>*_`'\"“”.,:;!?…-—"
_LONGEST_SILENCE = 64


def is_silence(text: str) -> bool:
    """The whole text is a marker that says: deliver nothing."""
    return len(text) <= _LONGEST_SILENCE and text.strip(_AROUND_SILENCE) in _SILENCES


def may_be_silence(text: str) -> bool:
    """The text is a silence marker or the beginning of one, so it is too early to show it."""
    core = text.strip(_AROUND_SILENCE)
    return len(text) <= _LONGEST_SILENCE and any(marker.startswith(core) for marker in _SILENCES)
