"""The accessibility tree of a frame as short lines, and which lines name an element. Pure functions.

https://chromedevtools.github.io/devtools-protocol/tot/Accessibility/#type-AXNode"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes.domain.text import one_line

_USED = """button link textbox searchbox combobox checkbox radio switch slider spinbutton menuitem option tab
    menuitemcheckbox menuitemradio treeitem listbox PopUpButton DisclosureTriangle ColorWell Date DateTime"""
_KEPT = "heading alert alertdialog dialog status Iframe"
_STRUCTURE = """image img figure table form navigation main banner contentinfo search region group list
    article cell columnheader rowheader row"""
_INTERACTIVE, _SHOWN, _NAMED = (frozenset(roles.split()) for roles in (_USED, _KEPT, _STRUCTURE))
_LOUD = ("alert", "alertdialog", "dialog", "status")
_TEXT, _FRAME, _ROOT = "StaticText", "Iframe", "RootWebArea"
_STATES = ("checked", "disabled", "expanded", "selected", "pressed", "required", "invalid", "level")
_LONGEST_TEXT, _DEEPEST = 300, 8


class SnapshotLine(Struct, frozen=True, kw_only=True):
    """`node` is the element that it names, `frame` says that another document goes below it."""

    depth: int
    text: str
    node: int = 0
    frame: bool = False


def tree_lines(nodes: Sequence[Mapping[str, Any]], *, full: bool) -> Iterator[SnapshotLine]:
    """In the order of the document. Without `full`: what one can use, headings, and what speaks up."""
    by_id = {node["nodeId"]: node for node in nodes}
    stack = [(node, 0, "", full) for node in reversed(nodes) if node.get("parentId") not in by_id]
    while stack:
        node, depth, around, loud = stack.pop()
        role, name = _value(node, "role"), one_line(_value(node, "name"), _LONGEST_TEXT)
        value = one_line(_value(node, "value"), _LONGEST_TEXT)
        states = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
        focusable = bool(states.get("focusable")) and role not in (_FRAME, _ROOT, "dialog")
        usable = role in _INTERACTIVE or focusable
        line = None
        if role == _TEXT and loud and name and name not in around:
            line = f"text: {name}"
        elif usable or role in _SHOWN or (full and role in _NAMED and name):
            line = _line(role, name, states, value)
        if line is not None and not node.get("ignored"):
            element = node.get("backendDOMNodeId", 0) if usable or role == _FRAME else 0
            yield SnapshotLine(depth=min(depth, _DEEPEST), text=line, node=element, frame=role == _FRAME)
            depth, around = depth + 1, f"{name}\n{value}" if name or value else around
        if role != _TEXT:  # below are only the lines that it is broken into
            children = (by_id[child] for child in reversed(node.get("childIds", ())) if child in by_id)
            stack += ((child, depth, around, loud or role in _LOUD) for child in children)


def write_lines(lines: Sequence[str], most: int) -> str:
    """As many as fit, and a word about the others."""
    size = 0
    for place, line in enumerate(lines):
        size += len(line) + 1
        if size > most - 100:
            rest = f"[… {len(lines) - place} more lines. Read a part with browser_console and an expression]"
            return "\n".join([*lines[:place], rest])
    return "\n".join(lines)


def _line(role: str, name: str, states: Mapping[str, Any], value: str) -> str:
    told = [
        state if str(states[state]).lower() == "true" else f"{state}={states[state]}"
        for state in _STATES
        if states.get(state) not in (None, False, "false", "")
    ]
    words = [role.lower(), *((f'"{name}"',) if name else ()), *((f"[{', '.join(told)}]",) if told else ())]
    return " ".join(words) + (f": {value}" if value and value != name else "")


def _value(node: Mapping[str, Any], key: str) -> str:
    found: object = (node.get(key) or {}).get("value")
    return "" if found is None else str(found)
