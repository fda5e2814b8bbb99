"""Plugins: found by their entry points, and a broken one never stops the rest."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from hermes import plugins
from hermes.app.accounts import DeclaredAccount
from hermes.app.agents import AppOverrides
from hermes.domain.errors import UserError
from hermes.state.settings.loader import load_settings

MANIFEST = """
from hermes.domain.capabilities import Capabilities, Manifest, SettingField
MANIFEST = Manifest(
    name="{name}", title="{name}", adapter="hx_{name}_sdk:Adapter", capabilities=Capabilities(),
    requires=("{name}-sdk",), settings=(SettingField(env="{upper}_TOKEN", title="Token"),),
)
NOT_ONE = 3
"""
ENTRIES = """[hermes.platforms]
alpha = hx_alpha:MANIFEST
beta = hx_beta:MANIFEST
broken = hx_broken:MANIFEST
missing = hx_nowhere:MANIFEST
wrong = hx_alpha:NOT_ONE
[hermes.tools]
one = hx_tools:ONE
several = hx_tools:SEVERAL
wrong = hx_alpha:NOT_ONE
[hermes.providers]
here = hx_tools:provider
"""
TOOLS = """
from hermes.domain.tool import Tool, ToolResult
async def run(context, arguments): return ToolResult(text="")
ONE = Tool(name="one", description="", parameters={}, run=run)
SEVERAL = [Tool(name="two", description="", parameters={}, run=run), 7]
def provider(settings): return settings
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hx_plugin-1.dist-info").mkdir()
    (tmp_path / "hx_plugin-1.dist-info" / "METADATA").write_text("Name: hx-plugin\nVersion: 1\n")
    (tmp_path / "hx_plugin-1.dist-info" / "entry_points.txt").write_text(ENTRIES)
    for name in ("alpha", "beta"):
        (tmp_path / f"hx_{name}.py").write_text(MANIFEST.format(name=name, upper=name.upper()))
    (tmp_path / "hx_broken.py").write_text("raise RuntimeError('it broke\\nbadly')\n")
    (tmp_path / "hx_tools.py").write_text(TOOLS)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_platforms_are_listed_without_their_sdk(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        names = [manifest.name for manifest in plugins.platform_manifests()]
    assert [name for name in names if name in ("alpha", "beta")] == ["alpha", "beta"]
    assert "hx_alpha_sdk" not in sys.modules
    told = [record.getMessage() for record in caplog.records]
    for name in ("broken", "missing", "wrong"):
        assert any(f"name={name}:" in line for line in told)
    assert not any("\n" in line for line in told)


def test_tools_and_providers() -> None:
    assert {"one", "two"} <= {tool.name for tool in plugins.tools()}
    assert "here" in plugins.providers()


def test_an_adapter_whose_package_is_missing() -> None:
    alpha = next(manifest for manifest in plugins.platform_manifests() if manifest.name == "alpha")
    with pytest.raises(UserError, match="alpha-sdk"):
        plugins.load_adapter(alpha)


@pytest.mark.parametrize(
    ("config", "environ", "enabled"),
    [
        ("", {}, False),
        ("", {"ALPHA_TOKEN": "t-123456"}, True),
        ("alpha: {enabled: true}", {}, True),
        ("alpha: {enabled: false}", {"ALPHA_TOKEN": "t-123456"}, False),
        ("alpha: {token: t-123456}", {}, True),
    ],
)
def test_a_platform_is_used_when_its_credentials_are_there(
    tmp_path: Path, config: str, environ: dict[str, str], enabled: bool
) -> None:
    alpha = next(manifest for manifest in plugins.platform_manifests() if manifest.name == "alpha")
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(config)
    loaded = load_settings(home, environ, platforms=["alpha"])
    declared = DeclaredAccount(manifest=alpha, loaded=loaded)
    assert declared.enabled is enabled
    assert (declared.missing == []) is ("123456" in config + str(environ))


def test_nothing_is_given_by_default() -> None:
    assert AppOverrides().provider is None and AppOverrides().platforms is None


def test_every_group_is_told_of() -> None:
    assert set(plugins.GROUPS) == {
        f"hermes.{name}"
        for name in ("platforms", "tools", "providers", "backends", "memory", "commands", "hooks")
    }
