"""From an older `config.yaml` to one of this program: keys that have another name now are renamed, and
`_config_version` says so. Older names are read all the same, so a migration changes no setting: the new text
must mean exactly what the old one meant, or nothing is written. Comments stay, and the old text is kept:
`hermes config rollback` brings it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.settings.providers import ProviderSettings
from hermes.domain.text import one_line
from hermes.state.settings.key_places import ALIASES
from hermes.state.settings.loader import CONFIG_FILE, check_text
from hermes.state.settings.names import PLATFORMS, VERSION_KEY
from hermes.state.settings.reader import OLDER_KINDS, OLDER_PROVIDER_KEYS
from hermes.state.settings.values import specs
from hermes.state.settings.whole_changes import ConfigChange, plan_change

CONFIG_VERSION = 34
"""Files of Hermes Agent 0.19 have 33."""


class ConfigMigration(Struct, frozen=True, kw_only=True):
    """What would become of a file. `version` is what it says of itself; 0 if it says nothing."""

    version: int
    changes: tuple[str, ...] = ()
    change: ConfigChange | None = None

    @property
    def newer(self) -> bool:
        return self.version > CONFIG_VERSION


def plan_migration(home: Path, platforms: frozenset[str] = PLATFORMS) -> ConfigMigration:
    """A `UserError` if the file cannot be read, or would mean something else afterwards."""
    found: list[int] = []
    changes: list[str] = []

    def rename(data: Any) -> None:
        found.append(_version(data))
        if found[0] < CONFIG_VERSION:
            changes.extend(change for step in _STEPS for change in step(data))
            if changes or found[0]:
                data[VERSION_KEY] = CONFIG_VERSION

    planned = plan_change(home, rename)
    if not planned.before.strip() or found[0] >= CONFIG_VERSION or not (changes or found[0]):
        return ConfigMigration(version=found[0])
    _check_same(planned, platforms)
    return ConfigMigration(version=found[0], changes=tuple(changes), change=planned)


def _version(data: Any) -> int:
    version = data.get(VERSION_KEY, 0)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise UserError(
            f"{VERSION_KEY} in {CONFIG_FILE} is no version: “{one_line(str(version), 40)}”.",
            hint="Remove the line, then run: hermes config migrate",
        )
    return version


def _check_same(planned: ConfigChange, platforms: frozenset[str]) -> None:
    old, problems = check_text(planned.before, platforms)
    new, left = check_text(planned.after, platforms)
    if old != new or len(left) > len(problems):
        raise UserError(
            f"{planned.file} would mean something else after the migration; nothing was changed.",
            hint="Rename its older keys by hand: hermes config check names them.",
        )


# --- the steps ---------------------------------------------------------------------------------------


def _rename(holder: Any, old: str, new: str, place: str) -> Iterator[str]:
    """Where the new name stands already, it wins, and the old one is left for a person to look at."""
    if not isinstance(holder, dict) or old not in holder or new in holder:
        return
    tree: Any = holder  # with remarks, as the round trip reads it
    at, comment = list(tree).index(old), tree.ca.items.pop(old, None)
    tree.insert(at, new, tree.pop(old))
    if comment is not None:
        tree.ca.items[new] = comment
    yield f"{place}{old} → {place}{new}"


def _aliases(data: Any) -> Iterator[str]:
    for (section, old), new in ALIASES.items():
        yield from _rename(data.get(section), old, new, f"{section}.")


def _fallback_model(data: Any) -> Iterator[str]:
    """One fallback, from before there were several."""
    if isinstance(data.get("fallback_model"), list):
        yield from _rename(data, "fallback_model", "fallback_providers", "")
    elif isinstance(older := data.get("fallback_model"), dict) and "fallback_providers" not in data:
        yield from _rename(data, "fallback_model", "fallback_providers", "")
        data["fallback_providers"] = [older]


def _custom_providers(data: Any) -> Iterator[str]:
    """A list with names in its items, from before providers were called by name."""
    listed = data.get("custom_providers")
    if not isinstance(listed, list) or data.get("providers"):
        return
    named = {str(item.get("name", "")).strip().lower().replace(" ", "-"): item for item in listed}
    if "" in named or len(named) < len(listed):
        return
    data.pop("providers", None)
    yield from _rename(data, "custom_providers", "providers", "")
    data["providers"] = named


def _provider_keys(data: Any) -> Iterator[str]:
    providers = data.get("providers")
    for name, entry in providers.items() if isinstance(providers, dict) else ():
        for old, new in OLDER_PROVIDER_KEYS.items():
            if new in specs(ProviderSettings):
                yield from _rename(entry, old, new, f"providers.{name}.")


def _kinds(data: Any) -> Iterator[str]:
    for old, new in OLDER_KINDS.items():
        yield from _rename(data.get("reset_by_type"), old, new, "reset_by_type.")


_STEPS: tuple[Callable[[Any], Iterator[str]], ...] = (
    _aliases,
    _fallback_model,
    _custom_providers,
    _provider_keys,
    _kinds,
)
"""In this order: a later one works on what an earlier one left. Each may be repeated."""
