"""The colours of the chat: a few roles, each theme a row of a table. The words are those of Rich, which
prompt_toolkit and the terminal are told in their own way. Colours are the terminal's sixteen where its
background is not known, so that nothing vanishes on it."""

from __future__ import annotations

from msgspec import Struct

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9"}
PLAIN = "\x1b[0m"


class Theme(Struct, frozen=True, kw_only=True):
    """`accent` is ours, `user` what the person said, `good`, `bad` and `warn` speak for themselves; `faces`
    and `verbs` are the spinner's, if it has others than usual."""

    accent: str = "bold cyan"
    user: str = "bold"
    dim: str = "dim"
    good: str = "green"
    bad: str = "red"
    warn: str = "bold yellow"
    code: str = "cyan"
    verbs: tuple[str, ...] = ()


_DARK = Theme(accent="bold #e0af68", code="#7dcfff", bad="#f7768e", warn="bold #ff9e64")
_LIGHT = Theme(accent="bold #8a5a00", code="#005f87", good="#1a7f37", bad="#b3261e", warn="bold #9a6700")
_WARM = Theme(accent="bold #9c3d00", code="#6b4f00", good="#2e6b2e", bad="#a01818", warn="bold #9c3d00")
_RED = Theme(accent="bold #ff5f5f", code="#ffaf5f", verbs=("marching", "forging", "scouting"))
_FIRE = Theme(accent="bold #ff8700", code="#ffd75f", verbs=("kindling", "soaring", "smouldering"))
SKINS: dict[str, Theme] = {
    "default": Theme(),
    "mono": Theme(accent="bold", good="bold", bad="bold", warn="bold", code="italic"),
    "slate": Theme(accent="bold #7aa2f7", user="bold #c0caf5", code="#9ece6a", bad="#f7768e"),
    "daylight": _LIGHT,
    "warm-lightmode": _WARM,
    "ares": _RED,
    "poseidon": Theme(accent="bold #5fafff", code="#5fd7d7", verbs=("sounding", "drifting", "diving")),
    "sisyphus": Theme(accent="bold #b2b2b2", code="#d7d7af", verbs=("pushing", "rolling", "climbing")),
    "charizard": _FIRE,
}


def choose_theme(skin: str, light: bool | None) -> Theme:
    """The theme of this name; the default one follows the background, if that is known."""
    theme = SKINS.get(skin) or SKINS["default"]
    if skin in ("", "default") and light is not None:
        return _LIGHT if light else _DARK
    return theme


def _words(style: str, colour: bool) -> list[str]:
    return [word for word in style.split() if colour or word in _ATTRIBUTES]


def as_rich(style: str, colour: bool = True) -> str:
    return " ".join(_words(style, colour)) or "none"


def as_toolkit(style: str, colour: bool = True) -> str:
    return " ".join(f"ansi{word}" if word in _NAMES else word for word in _words(style, colour))


def paint(text: str, style: str, colour: bool = True) -> str:
    codes = []
    for word in _words(style, colour):
        if word.startswith("#"):
            codes.append("38;2;" + ";".join(str(int(word[at : at + 2], 16)) for at in (1, 3, 5)))
        else:
            codes.append(_ATTRIBUTES.get(word) or str(30 + _NAMES.index(word)))
    return f"\x1b[{';'.join(codes)}m{text}{PLAIN}" if codes and text else text
