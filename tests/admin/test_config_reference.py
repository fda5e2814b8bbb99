"""The reference page of the settings is made from the code, and the committed one is that page."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from hermes.domain.settings import HostedAgent, PlatformSettings, RouteMatch, Settings
from hermes.state.setting_reader import known_keys
from hermes.state.setting_values import sections
from tests.admin.reference import settings_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_committed_page_is_the_made_one() -> None:
    assert PAGE.read_text() == settings_page()


def test_every_key_is_on_the_page() -> None:
    page = settings_page()
    assert not [key for key in known_keys() if f"`{key}`" not in page and f"## {key}" not in page]


def test_every_field_says_what_it_means() -> None:
    for section in (Settings, HostedAgent, RouteMatch, PlatformSettings, *sections(Settings).values()):
        for item in fields(section):
            if item.name not in sections(Settings) and item.name not in ("extra", "secrets", "trees"):
                assert item.metadata.get("doc"), f"{section.__name__}.{item.name}"
