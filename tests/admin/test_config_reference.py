"""The reference page of the settings names every key, and tells the truth about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.domain.settings.declaring import Section
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import HostedAgent, RouteMatch, Settings
from hermes.domain.word import field_names
from hermes.state.settings.loader import load_settings
from hermes.state.settings.unsupported_limits import NARROWING, VARIABLES
from hermes.state.settings.value_reader import known_keys
from hermes.state.settings.values import sections
from tests.admin.reference import settings_page


def test_every_key_is_on_the_page() -> None:
    page = settings_page()
    assert not [key for key in known_keys() if f"`{key}`" not in page and f"## {key}" not in page]


def test_every_field_says_what_it_means() -> None:
    for section in (HostedAgent, RouteMatch, PlatformSettings, *nested(Settings)):
        for name in field_names(section):
            if name not in (*sections(section), "extra", "secrets", "trees", "options", "values"):
                assert section.declared[name].about.doc, f"{section.__name__}.{name}"


def nested(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for inner in (*sections(section).values(), *sections(section, dict).values()):
        yield from nested(inner)


@pytest.mark.parametrize(
    "value", ["true", "[a]", "{enabled: true, disabled: [a], backend: docker, other: 1}"]
)
def test_what_is_said_to_do_nothing_stops_nothing(tmp_path: Path, value: str) -> None:
    """The page names what stops the start apart."""
    told = settings_page().partition("## Known, but not used yet")[2].partition("## Limits")[0]
    names = [name for name in re.findall(r"`([^`]+)`", told) if "." not in name]
    assert len(names) > 20 and not {"security", "plugins", "privacy", "terminal"} & set(names)
    (tmp_path / "config.yaml").write_text("".join(f"{name}: {value}\n" for name in names))
    assert not load_settings(tmp_path, {}).stops
    limits = settings_page().partition("## Limits that stop the start")[2]
    assert all(f"| `{name}`" in limits for name in (*NARROWING, *VARIABLES))
