"""Plugins: found by their entry points, and a broken one never stops the rest."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes import plugins
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.app.accounts import DeclaredAccount
from hermes.app.agents.prompt import make_memories
from hermes.app.overrides import AppOverrides
from hermes.control.commands import registry
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.settings.settings import PluginSettings, Profile
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Tool, ToolContext, ToolResult
from hermes.state.settings.loader import load_settings
from tests.admin.test_config import ask

MANIFEST = """
from hermes.domain.chats.capabilities import Capabilities, Manifest, SettingField
COLOUR = SettingField(env="{upper}_COLOUR", title="Colour", required=False)
MANIFEST = Manifest(
    name="{name}", title="{name}", adapter="hx_{name}_sdk:Adapter", capabilities=Capabilities(),
    requires=("{name}-sdk",), settings=(SettingField(env="{upper}_TOKEN", title="Token"), COLOUR),
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
spoilt = hx_tools:SPOILT
wrong = hx_alpha:NOT_ONE
[hermes.providers]
here = hx_tools:provider
"""
TOOLS = """
from hermes.domain.tools.tool import Tool, ToolResult
async def run(context, arguments): return ToolResult(text="")
ONE = Tool(name="one", description="", parameters={}, run=run)
SEVERAL = [Tool(name="two", description="", parameters={}, run=run)]
class Spoilt:
    def __iter__(self): raise RuntimeError("spoilt")
SPOILT = Spoilt()
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
    monkeypatch.setattr(plugins, "_hung", {})


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
    assert {"one", "two"} <= {tool.name for tool in plugins.tools().plain}
    assert {"here", "demo", "openai_compatible"} <= set(plugins.providers()), "ours register likewise"


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


# --- plugins that are not as they should be ---


def install(folder: Path, group: str, module: str, source: str, package: str = "hx-more") -> None:
    """One more package with one entry point, called as its module."""
    info = folder / f"{package.replace('-', '_')}-2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {package}\nVersion: 2\n")
    (info / "entry_points.txt").write_text(f"[hermes.{group}]\n{module} = {module}:IT\n")
    (folder / f"{module}.py").write_text(source)


def state_of(name: str, used: PluginSettings = plugins.EVERY_PLUGIN) -> plugins.InstalledPlugin:
    return next(plugin for plugin in plugins.survey(used) if plugin.name == name)


def test_a_plugin_that_hangs_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "LOAD_SECONDS", 0.2)
    install(tmp_path, "hooks", "hx_hangs", "import threading\nthreading.Event().wait(30)\nIT = print\n")
    assert "did not end within 0.2 s" in state_of("hx_hangs").why
    assert "hx_hangs" not in plugins.hooks()


def test_several_that_hang_do_not_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is waited for, the others get a moment each, and none is waited for again."""
    monkeypatch.setattr(plugins, "LOAD_SECONDS", 0.3)
    monkeypatch.setattr(plugins, "NEXT_SECONDS", 0.1)
    for name in ("hx_hangs_a", "hx_hangs_b"):
        source = "import threading\nthreading.Event().wait(30)\nIT = print\n"
        install(tmp_path, "hooks", name, source, package=name.replace("_", "-"))

    def reasons() -> list[str]:
        return [plugin.why for plugin in plugins.survey(plugins.EVERY_PLUGIN) if "hx_hangs" in plugin.name]

    ending = ["its import did not end within 0.3 s", "its import did not end within 0.1 s"]
    assert reasons() == ending
    assert reasons() == ["its import has not ended yet"] * 2


def test_a_plugin_for_another_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(tmp_path, "hooks", "hx_newer", "HERMES_API = 99\nIT = print\n")
    with caplog.at_level(logging.WARNING):
        assert "hx_newer" not in plugins.hooks()
    assert "made for version 99 of the plugin interface, and this is 1" in caplog.text


def test_a_plugin_that_ends_the_process_does_not(tmp_path: Path) -> None:
    install(tmp_path, "hooks", "hx_exits", "raise SystemExit(3)\n")
    assert "SystemExit(3)" in state_of("hx_exits").why


@pytest.mark.parametrize(
    ("used", "is_used"),
    [
        (PluginSettings(), True),
        (PluginSettings(disabled=("hx-more",)), False),
        (PluginSettings(disabled=("hooks:hx_quiet",)), False),
        (PluginSettings(disabled=("tools:hx_quiet",)), True),
        (PluginSettings(disabled=("*",)), False),
        (PluginSettings(enabled=("hx-other",)), False),
        (PluginSettings(enabled=("hx-more",)), True),
        (PluginSettings(enabled=("hx-more",), disabled=("hooks:hx_quiet",)), False),
    ],
)
def test_only_what_the_operator_wants_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: PluginSettings, is_used: bool
) -> None:
    monkeypatch.delitem(sys.modules, "hx_quiet", raising=False)
    install(tmp_path, "hooks", "hx_quiet", "IT = print\n")
    assert ("hx_quiet" in plugins.hooks(used)) is is_used
    assert ("hx_quiet" in sys.modules) is is_used
    assert state_of("hx_quiet", used).disabled is not is_used


@pytest.mark.parametrize(
    ("text", "allows"),
    [("", True), ("plugins: {enabled: []}", False), ("plugins: {disabled: 7}", True), ("plugins: {}", True)],
)
def test_plugins_in_the_settings(tmp_path: Path, text: str, allows: bool) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert load_settings(tmp_path, {}).settings.plugins.allows("hx-more") is allows


@pytest.mark.parametrize(
    ("names", "problem", "note"),
    [
        ("hx-plugin, 'tools:one', '*'", "", ""),
        ("hx_plugin", "names “hx_plugin”, which is not installed. Did you mean “hx-plugin”?", ""),
        ("'tool:one'", "names “tool:one”, which is not installed. Did you mean “tools:one”?", ""),
        ("left-long-ago", "", "names “left-long-ago”, which is not installed."),
    ],
)
@pytest.mark.parametrize("key", ["enabled", "disabled"])
def test_a_plugin_that_is_not_installed_is_told_of(
    tmp_path: Path, key: str, names: str, problem: str, note: str
) -> None:
    (tmp_path / "config.yaml").write_text(f"plugins: {{{key}: [{names}]}}\n")
    loaded = load_settings(tmp_path, {})
    for expected, told in ((problem, loaded.problems), (note, loaded.notes)):
        assert [f"plugins.{key} {expected}" in str(each) for each in told] == ([True] if expected else [])


def test_what_is_ours_cannot_be_disabled() -> None:
    names = {manifest.name for manifest in plugins.platform_manifests()}
    ours = [p for p in plugins.survey(PluginSettings(disabled=("*",))) if p.package == plugins.OURS]
    assert {plugin.name for plugin in ours if plugin.group == plugins.PLATFORMS} <= names
    assert ours and not any(plugin.disabled or plugin.why for plugin in ours)


def test_what_a_plugin_is_told(tmp_path: Path) -> None:
    entries = "weather: {city: Berlin, days: 3, api_key: 'k-0123456789abcdef', near: [a, b]}\n    x: 7"
    (tmp_path / "config.yaml").write_text(f"plugins:\n  entries:\n    {entries}\n")
    loaded = load_settings(tmp_path, {})
    told = loaded.settings.plugins.entries
    assert list(told) == ["weather"] and [problem.line for problem in loaded.problems] == [4]
    values = dict(told["weather"].values)
    key = values.pop("api_key")
    assert values == {"city": "Berlin", "days": 3, "near": ["a", "b"]}
    assert str(key) == "***" and key.reveal() == "k-0123456789abcdef"
    assert loaded.secrets.redact("the key k-0123456789abcdef") == "the key ‹secret›"


def tool(name: str) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="")

    return Tool(name=name, description="", parameters={}, run=run)


def raising(services: object) -> Iterator[Tool]:
    yield tool("one")
    raise RuntimeError("the licence ran out")


def hanging(services: object) -> Iterator[Tool]:
    yield tool("one")
    threading.Event().wait(5)


def working(services: object) -> Iterator[Tool]:
    yield tool("one")


@pytest.mark.parametrize(
    ("make", "names", "why"),
    [(raising, [], "the licence ran out"), (hanging, [], "did not end within"), (working, ["one"], "")],
)
def test_a_generator_of_tools_breaks_or_hangs_alone(
    make: Any, names: list[str], why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugins, "LOAD_SECONDS", 0.2)
    made = plugins.make_tools("lab", make, None)  # type: ignore[arg-type]
    assert isinstance(made, tuple) and [one.name for one in made] == names
    assert why in caplog.text


def test_tools_that_cannot_be_counted_out_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert {"one", "two"} <= {tool.name for tool in plugins.tools().plain}
    assert "name=spoilt: it is left out (it is neither a Tool nor several)" in caplog.text


@pytest.mark.parametrize(
    ("group", "source", "why"),
    [
        ("platforms", "IT = 42", "not a Manifest"),
        ("tools", "IT = 'seven'", "neither a Tool nor several"),
        ("tools", "IT = ['seven']", "neither a Tool nor several"),
        ("providers", "IT = {}", "not a function"),
        ("backends", "IT = None", "not a function"),
        ("memory", "IT = 'x'", "not a function"),
        ("commands", "IT = 7", "not a module"),
        ("hooks", "IT = 'x'", "not a function"),
        ("hooks", "def IT(event, context): ...\nIT.events = 5", "are not a list of names"),
    ],
)
def test_an_entry_of_the_wrong_kind_is_left_out(tmp_path: Path, group: str, source: str, why: str) -> None:
    module = f"hx_kind_{group}_{abs(hash(source))}"
    install(tmp_path, group, module, f"{source}\n")
    assert why in state_of(module).why
    offered = {
        "tools": lambda: plugins.tools().makers,
        "providers": plugins.providers,
        "backends": plugins.backends,
        "memory": plugins.memories,
        "hooks": plugins.hooks,
    }
    assert module not in offered.get(group, dict)()


THIEF = """
from hermes.control.commands.registry import CommandReply, command
@command({names})
def run(call): return CommandReply(text="stolen")
"""


@pytest.mark.parametrize(
    ("group", "name", "source"),
    [
        ("backends", "local", "def IT(request): ..."),
        ("providers", "demo", "def IT(settings): ..."),
        ("tools", "builtin", "def IT(services): return ()"),
        ("platforms", "hx_phone", MANIFEST.format(name="telegram", upper="TELEGRAM") + "\nIT = MANIFEST"),
    ],
)
def test_a_plugin_takes_no_name_of_ours(tmp_path: Path, group: str, name: str, source: str) -> None:
    info = tmp_path / "hx_taker-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: hx-taker\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[hermes.{group}]\n{name} = hx_taker_{group}:IT\n")
    (tmp_path / f"hx_taker_{group}.py").write_text(source)
    (found,) = [each for each in plugins.survey(PluginSettings()) if each.package == "hx-taker"]
    assert found.why.startswith("Hermes itself has one that is called ")
    assert getattr(plugins.backends()["local"], "__module__", "").startswith("hermes.")
    assert getattr(plugins.providers()["demo"], "__module__", "").startswith("hermes.")
    assert getattr(plugins.tools().makers["builtin"], "__module__", "").startswith("hermes.")
    telegrams = [each for each in plugins.platform_manifests() if each.name == "telegram"]
    assert len(telegrams) == 1 and telegrams[0].title == "Telegram"


def test_the_entry_of_our_tools_is_no_toolset() -> None:
    assert "builtin" in plugins.tools().makers and "builtin" not in plugins.tools().toolsets


@pytest.mark.parametrize("names", ["'help', 'mine'", "'aaa', 'mine', aliases=('help',)"])
def test_a_plugin_takes_no_command_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    monkeypatch.setattr(registry, "COMMANDS", dict(registry.COMMANDS))
    monkeypatch.delitem(sys.modules, "hx_aa_thief", raising=False)
    install(tmp_path, "commands", "hx_aa_thief", THIEF.format(names=names))
    entry = tmp_path / "hx_more-2.dist-info" / "entry_points.txt"
    entry.write_text("[hermes.commands]\naa_thief = hx_aa_thief\n")
    plugins.load_commands()
    assert registry.COMMANDS["help"].run.__module__ == "hermes.control.commands.information"
    assert "/help is there already" in state_of("aa_thief").why


class Notebook:
    async def notes(self) -> dict[str, str]:
        return {}


def test_a_memory_that_is_broken_keeps_nobody_from_talking(tmp_path: Path) -> None:
    install(tmp_path, "memory", "hx_amnesia", "raise RuntimeError('what?')\n")
    (tmp_path / "config.yaml").write_text("memory: {provider: hx_amnesia}\n")
    loaded = load_settings(tmp_path, {})
    profile = Profile(agent=MAIN_AGENT, home=tmp_path, settings=loaded.settings)
    assert list(make_memories(Notebook(), profile, loaded)) == ["files"]


def test_hooks_list_names_those_of_plugins(tmp_path: Path) -> None:
    install(tmp_path, "hooks", "hx_diary", "def IT(event, context): ...\nIT.events = ['agent:end']\n")
    out = io.StringIO()
    console = CliConsole(out=out, err=io.StringIO())
    assert perform("hooks", ["list", "--json"], tmp_path / "home", {}, console) == 0
    [hook] = json.loads(out.getvalue())["hooks"]
    assert (hook["name"], hook["events"]) == ("hx_diary", ["agent:end"])


def test_config_set_knows_the_platforms_of_plugins(tmp_path: Path) -> None:
    """Their blocks, their own keys and what every platform has; anything else is unknown as before."""
    home = tmp_path / "home"
    home.mkdir()
    for key, value in (("alpha.allowed_users", "7"), ("platforms.alpha.colour", "red")):
        assert ask(home, "set", key, value)[0] == 0
    assert ask(home, "set", "ALPHA_TOKEN", "t-123456")[0] == 0
    assert ask(home, "get", "alpha.colour")[1] == "red\n"
    assert ask(home, "unset", "alpha.colour")[0] == 0
    block = load_settings(home, {}, platforms=["alpha"]).settings.platforms["alpha"]
    assert block.allowed_users == ("7",) and not block.extra
    code, _, err = ask(home, "set", "alpa.colour", "red")
    assert code and "“alpa.colour” is not a known setting" in err


def test_config_check_knows_the_platforms_of_plugins(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("alpha: {allowed_users: [ada]}\n")
    assert ask(home, "check") == (0, "config ok\n", "")


def test_a_function_that_raises_when_it_is_called_is_not_called_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a gateway calls it, with an agent's services; without one nobody knows."""
    install(tmp_path, "tools", "hx_maker", "def IT(services): raise RuntimeError('no licence')\n")
    monkeypatch.setattr(plugins, "broken", {})
    live: dict[str, Any] | None = None
    monkeypatch.setattr("hermes.admin.commands.plugins.ask_gateway", lambda home, environ: live)

    def listed() -> tuple[str, str]:
        out = io.StringIO()
        console = CliConsole(out=out, err=io.StringIO())
        assert perform("plugins", ["list", "--json"], tmp_path / "home", {}, console) == 0
        [row] = [row for row in json.loads(out.getvalue()) if row["name"] == "hx_maker"]
        return row["state"], row["why"]

    assert listed() == ("loads", "its function is called when a gateway runs")
    maker = plugins.tools().makers["hx_maker"]
    assert plugins.make_tools("hx_maker", maker, ToolServices({})) == ()
    live = {"facts": {"plugins_broken": dict(plugins.broken)}}
    assert listed() == ("left out", "RuntimeError: no licence")
    assert plugins.make_tools("hx_maker", lambda services: (), ToolServices({})) == ()
    live = {"facts": {"plugins_broken": dict(plugins.broken)}}
    assert listed() == ("ok", "")
