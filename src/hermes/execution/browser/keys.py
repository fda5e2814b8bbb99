"""Keys by their names, as the DevTools protocol wants them.

https://developer.mozilla.org/docs/Web/API/UI_Events/Keyboard_event_key_values"""

from __future__ import annotations

from typing import Any

from hermes.domain.errors import UserError

_CODES = {
    "Enter": 13, "Tab": 9, "Escape": 27, "Backspace": 8, "Delete": 46, "Space": 32, "Home": 36, "End": 35,
    "PageUp": 33, "PageDown": 34, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
_MODIFIERS = {"alt": 1, "control": 2, "ctrl": 2, "meta": 4, "shift": 8}
_NAMES = {name.lower(): name for name in _CODES}


def key_events(key: str) -> list[dict[str, Any]]:
    """Down and up, for `Enter`, `a`, `Control+A`."""
    *held, last = key.split("+") if len(key) > 1 else [key]
    name = last if len(last) == 1 else _NAMES.get(last.lower(), "")
    if not name or any(each.lower() not in _MODIFIERS for each in held):
        raise UserError(f"There is no key “{key[:30]}”.", hint="Examples: Enter, ArrowDown, a, Control+A.")
    modifiers = sum({_MODIFIERS[each.lower()] for each in held})
    code = _CODES.get(name) or (ord(name.upper()) if name.isascii() else 0)
    text = {"Enter": "\r", "Space": " "}.get(name, name if len(name) == 1 else "")
    event: dict[str, Any] = {"key": text if name == "Space" else name, "windowsVirtualKeyCode": code}
    event |= {"code": name, "modifiers": modifiers}
    down = {"type": "keyDown", "text": text} if text and modifiers in (0, 8) else {"type": "rawKeyDown"}
    if modifiers == _MODIFIERS["control"] and name.lower() == "a":
        event["commands"] = ["selectAll"]  # a browser without a window has no menu that would know it
    return [{**event, **down}, {**event, "type": "keyUp"}]
