"""Sections of `config.yaml`: one walk, led by the types of the settings classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from hermes.domain.settings import settings as declared
from hermes.domain.settings.budgets import Budget
from hermes.domain.settings.declaring import NONE_LISTED, Section, is_section
from hermes.domain.settings.manner import (
    HumanDelay,
    Personality,
    PlatformHint,
    ReasoningOverride,
    RuntimeFooter,
)
from hermes.domain.settings.platforms import ApiKey
from hermes.state.settings import values
from hermes.state.settings.key_places import not_a_section
from hermes.state.settings.value_reader import ValueReader, is_blank
from hermes.state.settings.yaml_tree import YamlMapping, YamlNode, YamlScalar

S = TypeVar("S", bound=Section)
Entry = tuple[str, Any] | None
"""A section of a table under its name; None if it does not count."""
_NOTHING_ALLOWED = {Budget: Budget(calls=0), ApiKey: ApiKey(scopes=NONE_LISTED, agents=NONE_LISTED)}
_SHORT: dict[type, str] = {
    Personality: "system_prompt",
    PlatformHint: "append",
    ReasoningOverride: "effort",
    HumanDelay: "mode",
    RuntimeFooter: "enabled",
}
"""Sections that may be written as the value of one field."""


class SectionReader(ValueReader):
    """`read` reads whatever a field holds. What is checked beyond that in the entries of a table is in the
    methods that `entries` names; lists of sections are read by those in `lists`."""

    entries: Mapping[type, Callable[[str, int, YamlNode, str], Entry]]
    lists: Mapping[type, Callable[[YamlNode, str], tuple[Any, ...]]]

    def read(self, spec: values.SettingSpec, node: YamlNode, path: str) -> Any:
        """What one field holds."""
        if not is_section(spec.kind):
            return self.value(spec, node, path)
        if spec.holder is tuple:
            return self.lists[spec.kind](node, path)
        return self.table(spec.kind, node, path) if spec.holder else self.section(spec.kind, node, path)

    def section(self, kind: type[S], node: YamlNode, path: str) -> S:
        """A settings class from the mapping that stands for it, or from the value of its main field."""
        short = _SHORT.get(kind)
        if short is not None and isinstance(node, YamlScalar) and not node.empty:
            node = YamlMapping(pairs={short: (node.line, node)}, line=node.line)
        return kind(**self.fields(kind, node, path))

    def fields(self, kind: type, node: YamlNode, path: str) -> dict[str, Any]:
        given: dict[str, Any] = {}
        own = values.specs(kind)
        for name, line, child in self.pairs(node, path):
            if name in own:
                given[name] = self.read(own[name], child, f"{path}.{name}")
            else:
                self.unknown(f"{path}.{name}", line, list(own))
        return given

    def table(self, kind: type, node: YamlNode, path: str) -> dict[str, Any]:
        """Sections under names of their own; those that do not count are left out."""
        entry = self.entries[kind]
        if kind in _NOTHING_ALLOWED and not (isinstance(node, YamlMapping) or is_blank(node)):
            not_a_section(path, node, self.findings)
            return {declared.UNREADABLE: _NOTHING_ALLOWED[kind]}  # a limit that cannot be read denies
        entries = [entry(name, line, child, f"{path}.{name}") for name, line, child in self.pairs(node, path)]
        return dict(filter(None, entries))

    def pairs(self, node: YamlNode, path: str) -> Iterator[tuple[str, int, YamlNode]]:
        if isinstance(node, YamlMapping):
            for name, (line, child) in node.pairs.items():
                yield name, line, child
        else:
            not_a_section(path, node, self.findings)
