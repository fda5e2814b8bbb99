"""A value of `config.yaml` with its type: texts with their `${NAME}`s filled in, secrets remembered, trees of
any form flattened. Whatever is wrong becomes a problem with its line and counts as its default."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from hermes.domain.settings import settings as declared
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.text import one_line
from hermes.state.home.findings import SettingsFindings, nearest
from hermes.state.settings import values
from hermes.state.settings.names import (
    PLATFORM_FIELDS,
    VERSION_KEY,
    is_key_like,
    is_later,
)
from hermes.state.settings.secrets import looks_like_placeholder, password_in
from hermes.state.settings.yaml_tree import YamlList, YamlMapping, YamlNode, YamlScalar

_TABLES = """agents auxiliary budgets models providers platforms quick_commands reset_by_type
    reset_by_platform routes platform_toolsets fallback_providers
    credential_pool_strategies mcp_servers"""
TABLES = tuple(_TABLES.split())
"""Settings that hold any number of sections, in the order of reading: others name agents."""
_VOIDED = frozenset(("models", "quick_commands", "auxiliary", "providers", "mcp_servers"))
_LIMITS = frozenset(
    knob.name
    for section in (declared.Settings, PlatformSettings, *values.sections(declared.Settings).values())
    for knob in values.knobs(section).values()
    if knob.about.instead is not None
) | {"platform_toolsets"}
_SECRET_HEADERS = frozenset({"Authorization", "authorization", "Cookie", "cookie"})
_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_DENY = frozenset({"approvals.deny", "approvals.ask"})
"""Lists of which nothing may get lost: `5` or an empty item in one was meant to be a command."""


def is_blank(node: YamlNode, *, strict: bool = True) -> bool:
    """Whether nothing is said: nothing at all, or also an empty text or list if it is `strict`."""
    if isinstance(node, YamlScalar):
        return node.empty or (strict and not (node.text.strip() or node.unreadable))
    return isinstance(node, YamlList) and not node.items


def _is_text(item: YamlScalar, path: str) -> bool:
    if path not in _DENY or item.unreadable:
        return True
    return isinstance(values.typed(item, item.text), str) and bool(item.text.strip())


def known_keys() -> list[str]:
    """Every dotted key with a fixed name."""
    keys = list(values.knobs(declared.Settings))
    for name, section in values.sections(declared.Settings).items():
        keys += [f"{name}.{knob}" for knob in values.knobs(section)]
    return [*keys, *TABLES]


def is_lost_limit(path: str, meant: str) -> bool:
    """Whether an unknown key was to restrict. An agent whose toolsets cannot be read has none, and a key of
    the API no rights; elsewhere the limit would be dropped."""
    name = path.rpartition(".")[2]
    if ".keys." in path or (path.startswith("agents.") and "toolset" in name):
        return False
    return meant.rpartition(".")[2] in _LIMITS or (path.startswith("agents.") and name in PLATFORM_FIELDS)


def _remedy(error: values.WrongValue, path: str) -> str:
    """What to do, or what counts meanwhile: entries of some tables do not count at all with a mistake."""
    head = path.partition(".")[0]
    if head == "budgets" and not error.meant:
        return f"{values.MEANWHILE}nothing is spent where {one_line(path.rpartition('.')[0])} counts."
    voided = path.rpartition(".")[0] if head in _VOIDED else ""
    return (
        f"{values.MEANWHILE}{one_line(voided)} does not count."
        if voided and not error.meant
        else error.remedy
    )


def suggestion(path: str, siblings: list[str]) -> str:
    """The dotted key that was probably meant by an unknown one."""
    parent, _, name = path.rpartition(".")
    close = nearest(name, siblings)
    if close:
        return f"{parent}.{close}" if parent else close
    if path.startswith("agents."):
        return ""  # a key of the gateway would count for all agents
    keys = known_keys()
    elsewhere = [key for key in keys if key.rpartition(".")[2] == name]
    return elsewhere[0] if elsewhere else nearest(path, keys)


class ValueReader:
    """`variable` answers `${NAME}`."""

    def __init__(self, findings: SettingsFindings, variable: Callable[[str], str | None]) -> None:
        self.findings = findings
        self.variable = variable
        self.secrets: dict[str, str] = {}
        self.lines: dict[str, int] = {}
        """Where each value stands."""

    def unknown(self, path: str, line: int, siblings: list[str]) -> None:
        label = one_line(path)
        if any(stop.line == line or f"“{label}." in stop.message for stop in self.findings.stops):
            return
        if path == VERSION_KEY:
            return  # `state/settings/migration.py` says what it means
        if is_later(path):
            self.findings.note(line, f"“{label}” is known, but not used yet.")
            return
        meant = "" if self.findings.full else suggestion(path, siblings)
        (self.findings.stop if is_lost_limit(path, meant) else self.findings.problem)(
            line,
            f"“{label}” is not a known setting.",
            f"Did you mean “{meant}”?" if meant else "Remove it.",
        )

    def value(self, knob: values.SettingSpec, node: YamlNode, path: str) -> Any:
        """The value of one field; the default where nothing or something wrong is said."""
        self.lines[path] = node.line
        try:
            value = self.checked_value(knob, node, path)
            if knob.about.if_empty and (value == () or is_blank(node, strict=knob.many)):
                message = f"{path} is empty, {knob.about.if_empty}."
                self.findings.problem(node.line, message, "Give it a value, or remove the line.")
                return values.fallback(knob)
            return value
        except values.WrongValue as error:
            written = "a list" if isinstance(node, YamlList) else "a mapping"
            if isinstance(node, YamlScalar):
                written = f"“{one_line(node.text, 40)}”"
            if knob.many if isinstance(node, YamlList) else knob.kind is Secret:
                written = "this"
            message = f"{path} must be {error.expected}, not {written}."
            if path in _DENY:
                self.findings.stop(node.line, message, "Write each command as a text in quotes.")
            else:
                self.findings.problem(node.line, message, _remedy(error, path))
            return values.fallback(knob)

    def json_object(self, knob: values.SettingSpec, node: YamlMapping, path: str) -> str:
        """A mapping of any form, as JSON text. What looks like a credential in it is hidden in texts."""
        flat: dict[str, Any] = {"extra": {}, "secrets": {}}
        tree = self.own_key(flat, knob.name, node, path, knob.name)
        for name in tree.keys() & _SECRET_HEADERS:
            self.secrets[f"{path}.{name}"] = str(tree[name])
        return json.dumps(tree, default=lambda secret: secret.reveal(), ensure_ascii=False)

    def checked_value(self, knob: values.SettingSpec, node: YamlNode, path: str) -> Any:
        if knob.about.form == "json" and isinstance(node, YamlMapping):
            return self.json_object(knob, node, path)
        if isinstance(node, YamlList) and knob.many:
            if not all(isinstance(item, YamlScalar) and _is_text(item, path) for item in node.items):
                raise values.WrongValue(knob)
            texts = self.texts(node, path)
            return values.fallback(knob) if texts is None else values.checked(knob, texts)
        if not isinstance(node, YamlScalar):
            raise values.WrongValue(knob)
        if node.empty:
            return values.fallback(knob) if knob.about.empty_denies else knob.default
        if node.text and not _is_text(node, path):
            raise values.WrongValue(knob)
        text = self.text(node, path)
        if text is None:
            return values.fallback(knob)
        if not text and knob.kind is not str:
            return knob.default
        return self.kept(path, node, values.convert(knob, text))

    def own_key(self, given: dict[str, Any], name: str, node: YamlNode, path: str, last: str) -> Any:
        """Keep a platform's own key as text or as a secret, flattened; the result is the same as a tree.
        `last` is the last part of its name that is not a number."""
        if isinstance(node, YamlMapping):
            return {
                key: self.own_key(given, f"{name}.{key}", child, f"{path}.{key}", key)
                for key, (_, child) in node.pairs.items()
            }
        if isinstance(node, YamlList) and not all(isinstance(item, YamlScalar) for item in node.items):
            return [
                self.own_key(given, f"{name}.{number}", child, f"{path}.{number}", last)
                for number, child in enumerate(node.items)
            ]
        if isinstance(node, YamlList):
            items = [item for item in self.texts(node, path) or () if item]
            given["extra"][name] = ("\n" if any("," in item for item in items) else ",").join(items)
            return [self.leaf(item, last) for item in node.items if isinstance(item, YamlScalar)]
        if not node.empty and (text := self.text(node, path)) is not None:
            if is_key_like(name) or password_in(text):
                given["secrets"][name] = self.kept(path, node, Secret(text))
            else:
                given["extra"][name] = text
        return self.leaf(node, last)

    def leaf(self, node: YamlScalar, name: str) -> Any:
        """A scalar of a tree with its type. What is wrong with it has been reported."""
        text, missing = self.filled(node.text)
        wrong = node.unreadable or bool(missing)
        if is_key_like(name) or password_in(text):
            return Secret("" if wrong or node.empty or looks_like_placeholder(text) else text)
        return None if wrong else values.typed(node, text)

    def text(self, node: YamlScalar, path: str) -> str | None:
        """The scalar's text with its `${NAME}`s filled in; nothing if one is not set."""
        if node.unreadable:
            self.findings.count += 1  # reported already
            return None
        text, missing = self.filled(node.text)
        if missing:
            message = f"{path} refers to ${{{missing[0]}}}, which is not set."
            self.findings.problem(node.line, message, f"Set {missing[0]} in .env or in the environment.")
            return None
        return text

    def filled(self, text: str) -> tuple[str, list[str]]:
        """A text with its `${NAME}`s filled in, and the names that are not set."""
        missing: list[str] = []

        def fill(reference: re.Match[str]) -> str:
            escaped, name, instead = reference.groups()
            if escaped:
                return reference[0][1:]
            value = self.variable(name) or instead
            if value is None:
                missing.append(name)
            return value or ""

        return _REFERENCE.sub(fill, text), missing

    def texts(self, node: YamlList, path: str) -> tuple[str, ...] | None:
        """A list of texts; nothing if one cannot be read, so that no half list counts."""
        items: list[str] = []
        for item in node.items:
            text = self.text(item, path) if isinstance(item, YamlScalar) else None
            if text is None:
                return None
            items.append(text.strip())
        return tuple(items)

    def kept(self, path: str, node: YamlScalar, value: Any) -> Any:
        """Remember a secret, so that it is taken out of every text; note one that is written openly."""
        if not isinstance(value, Secret) or not value:
            return value
        if looks_like_placeholder(value.reveal()):
            self.findings.problem(node.line, f"{path} is still a placeholder.", "Put in the real value.")
            return Secret("")
        self.secrets[path] = value.reveal()
        if "${" not in node.text:
            self.findings.note(
                node.line, f"{path} is a secret.", f"It is safer in .env: hermes config set {path} …"
            )
        return value
