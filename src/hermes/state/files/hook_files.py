"""The hooks of a home: `hooks/<name>/HOOK.yaml` with `handler.py` beside it, in the order of their names. A
manifest with a mistake leaves that hook out, and says where and what to do."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from hermes.domain.errors import SettingsError
from hermes.domain.system.hooks import EVENTS, MOST_SECONDS, Hook, is_event
from hermes.domain.text import one_line
from hermes.state.home.findings import SettingsFindings, nearest
from hermes.state.home.textfile import read_text
from hermes.state.settings.yaml_tree import YamlList, YamlMapping, YamlNode, YamlScalar, read_yaml

FOLDER = "hooks"
MANIFEST = "HOOK.yaml"
HANDLER = "handler.py"
_EXAMPLE = "Write: events: [agent:end]"
_LONGEST_NAME = 64


class HomeHooks(Struct, frozen=True, kw_only=True):
    hooks: tuple[Hook, ...] = ()
    problems: tuple[SettingsError, ...] = ()


def read_hooks(home: Path) -> HomeHooks:
    """Every hook that can be used, and one problem for each that cannot."""
    root = home / FOLDER
    try:
        folders = sorted(path for path in root.iterdir() if path.is_dir() and path.name[0] not in "._")
    except FileNotFoundError:
        return HomeHooks()
    except OSError as error:
        told = SettingsError(
            f"It cannot be read ({error.strerror}).", file=str(root), hint="Make it readable, or remove it."
        )
        return HomeHooks(problems=(told,))
    hooks: dict[str, Hook] = {}
    problems: list[SettingsError] = []
    for folder in folders:
        found = SettingsFindings(f"{FOLDER}/{folder.name}/{MANIFEST}")
        hook = _read(folder, found)
        if hook is not None and hook.name in hooks:
            other = Path(hooks[hook.name].folder).name
            found.problem(
                None, f"The hook in “{other}” is called “{hook.name}” too.", "Give it another name."
            )
        if found.problems or hook is None:
            problems += found.problems[:1]
        else:
            hooks[hook.name] = hook
    return HomeHooks(hooks=tuple(hooks.values()), problems=tuple(problems))


def _read(folder: Path, findings: SettingsFindings) -> Hook | None:
    if not (folder / MANIFEST).exists():
        findings.problem(None, "The file is missing.", f"Write one with name and events. {_EXAMPLE}")
        return None
    tree = read_yaml(read_text(folder / MANIFEST, findings), findings)
    name = _text(tree, "name", findings) or folder.name
    events = _events(tree, findings)
    timeout = _timeout(tree, findings)
    if not (folder / HANDLER).is_file():
        findings.problem(
            None, f"There is no {HANDLER} beside it.", "Write one with: def handle(event_type, context)"
        )
    return Hook(
        name=one_line(name, _LONGEST_NAME),
        folder=str(folder.resolve()),
        events=events,
        description=one_line(_text(tree, "description", findings), 200),
        timeout=timeout,
    )


def _text(tree: YamlMapping, key: str, findings: SettingsFindings) -> str:
    node = tree.get(key)
    if node is None:
        return ""
    if isinstance(node, YamlScalar):
        return "" if node.empty else node.text.strip()
    findings.problem(node.line, f"“{key}” must be a text.", f"Write: {key}: a few words")
    return ""


def _events(tree: YamlMapping, findings: SettingsFindings) -> tuple[str, ...]:
    node = tree.get("events")
    if (
        node is None
        or (isinstance(node, YamlScalar) and node.empty)
        or (isinstance(node, YamlList) and not node.items)
    ):
        line = None if node is None else node.line
        findings.problem(line, "It follows no events.", _EXAMPLE)
        return ()
    items: list[YamlNode] = node.items if isinstance(node, YamlList) else [node]
    events: dict[str, None] = {}
    for item in items:
        if not isinstance(item, YamlScalar):
            findings.problem(item.line, "“events” must be a list of names.", _EXAMPLE)
            continue
        event = item.text.strip()
        if not is_event(event):
            near = nearest(event, list(EVENTS))
            hint = f"Did you mean {near}?" if near else f"There are: {', '.join(EVENTS)}."
            findings.problem(item.line, f"There is no event “{one_line(event, 60)}”.", hint)
        events[event] = None
    return tuple(events)


def _timeout(tree: YamlMapping, findings: SettingsFindings) -> float | None:
    node = tree.get("timeout")
    if node is None or (isinstance(node, YamlScalar) and node.empty):
        return None
    try:
        seconds = float(node.text) if isinstance(node, YamlScalar) else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MOST_SECONDS:
        findings.problem(
            node.line,
            f"“timeout” must be seconds, more than 0 and at most {MOST_SECONDS:g}.",
            "Write: timeout: 3",
        )
        return None
    return seconds
