"""Which names of toolsets a limit may hold: ours, a plugin's, and those of the existing product."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.app.agents.tools import TurnLimits, check_toolsets, house_limits, limit_for_all
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import SettingsError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.tools.tool import Tool, ToolContext, ToolResult
from hermes.domain.tools.toolbox import ToolsetLimit
from hermes.state.settings.loader import LoadedSettings, load_settings


async def _run(context: ToolContext, arguments: object) -> ToolResult:
    return ToolResult(text="")


def tool(name: str, toolset: str) -> Tool:
    return Tool(name=name, description="", parameters={}, run=_run, toolset=toolset)


MINE = tool("measure", "lab")
READ = tool("read_file", "file")


def loaded(home: Path, text: str) -> LoadedSettings:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(text)
    return load_settings(home, {})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("toolsets: [lab]", ["measure"]),
        ("toolsets: [lab, file, browser, mcp-github]", ["measure", "read_file"]),
        ("toolsets: [mcp-github]", []),
        ("agent: {disabled_toolsets: [lab, mcp-github, web]}", ["read_file"]),
        ("agent: {disabled_toolsets: [all]}", []),
    ],
)
def test_names_that_are_known(tmp_path: Path, text: str, left: list[str]) -> None:
    found = loaded(tmp_path / "home", text)
    check_toolsets(found, {"lab"})
    assert [one.name for one in (MINE, READ) if limit_for_all(found.settings).allows(one)] == left


@pytest.mark.parametrize("key", ["toolsets", "agent.disabled_toolsets"])
def test_a_name_that_means_nothing_is_an_error_with_its_line(tmp_path: Path, key: str) -> None:
    text = "toolsets:\n  - labb\n" if key == "toolsets" else "agent:\n  disabled_toolsets: [labb]\n"
    with pytest.raises(SettingsError, match="Did you mean lab") as wrong:
        check_toolsets(loaded(tmp_path / "home", text), {"lab"})
    assert wrong.value.line == 2 and wrong.value.message.startswith(f"{key}: ")


ALL = (
    tool("terminal", "terminal"), tool("process", "terminal"), READ, tool("web_search", "web"),
    tool("web_extract", "web"), tool("clarify", "clarify"), tool("cronjob", "cronjob"),
    tool("send_message", "messaging"), tool("issues", "mcp-tracker"), MINE,
)  # fmt: skip


def left(*names: str) -> str:
    limit = ToolsetLimit(enabled=names)
    return " ".join(one.name for one in ALL if limit.allows(one))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("search", "web_search"),
        ("safe", "web_search web_extract"),
        ("debugging", "terminal process read_file web_search web_extract"),
        ("coding", "terminal process read_file web_search web_extract clarify"),
        ("hermes-webhook", "web_search web_extract clarify"),
        ("hermes-cron -mcp-tracker", "terminal process read_file web_search web_extract measure"),
        ("debugging -web -process", "terminal read_file"),
        ("-terminal -web -tracker", "read_file clarify cronjob send_message measure"),
        ("tracker", "issues"),
        ("all none", ""),
        ("nosuch", ""),
        ("hermes-nosuch", ""),
    ],
)
def test_groups_stand_for_their_toolsets(names: str, expected: str) -> None:
    assert left(*names.split()) == expected


def person(user: str, platform: str = "telegram", kind: SourceKind = SourceKind.PRIVATE) -> Source:
    return Source(address=Address(platform=platform, chat=user), kind=kind, user=user)


@pytest.mark.parametrize(
    ("text", "source", "moved"),
    [
        ("", person("bob"), False),
        ("", person("ann"), True),
        ("", None, True),
        ("", person("bob", "webhook", SourceKind.WEBHOOK), False),
        ("", person("homeassistant", "homeassistant", SourceKind.CHANNEL), True),
        ("platform_toolsets: {telegram: [all]}", person("bob"), False),
        ("platform_toolsets: {telegram: [web, homeassistant]}", person("bob"), True),
        ("platform_toolsets: {discord: [homeassistant]}", person("bob"), False),
        (
            "routes: [{match: {platform: telegram}, agent: main, toolsets: [homeassistant]}]",
            person("bob"),
            True,
        ),
    ],
)
def test_strangers_move_nothing_in_the_house(
    tmp_path: Path, text: str, source: Source | None, moved: bool
) -> None:
    settings = loaded(tmp_path / "home", "telegram: {allow_admin_from: [ann]}\n" + text).settings
    limits = house_limits(settings, None, source)
    assert all(limit.allows(tool("ha_call_service", "homeassistant")) for limit in limits) is moved


def test_a_server_of_tools_cannot_take_the_name_of_a_toolset() -> None:
    posing = tool("run", "mcp-terminal")
    assert not ToolsetLimit(enabled=("terminal",)).allows(posing)
    assert ToolsetLimit(enabled=("mcp-terminal",)).allows(posing)


def test_disabling_a_group_takes_all_of_it() -> None:
    limit = ToolsetLimit(disabled=("debugging", "hermes-webhook"))
    assert [one.name for one in ALL if limit.allows(one)] == ["cronjob", "send_message", "issues", "measure"]


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("platform_toolsets: {telegram: [hermes-telegram, -web]}", "telegram", "web"),
        (
            "platform_toolsets: {webhook: [hermes-webhook]}",
            "webhook",
            "terminal file cronjob messaging mcp-tracker lab",
        ),
        ("platform_toolsets: {api_server: [hermes-api_server]}", "api_server", "clarify"),
        ("platform_toolsets: {api_server: [hermes-api-server]}", "api_server", "clarify"),
    ],
)
def test_presets_of_platforms(tmp_path: Path, text: str, place: str, expected: str) -> None:
    found = loaded(tmp_path / "home", text)
    check_toolsets(found, {"lab"})
    source = Source(address=Address(platform=place, chat="1"), kind=SourceKind.PRIVATE)
    limits = TurnLimits(settings=lambda: found.settings, agent=MAIN_AGENT)(None, source)
    gone = [one.toolset for one in ALL if not all(limit.allows(one) for limit in limits)]
    assert " ".join(dict.fromkeys(gone)) == expected


def test_a_preset_of_another_platform_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no toolset “hermes-slak”"):
        check_toolsets(loaded(tmp_path / "home", "platform_toolsets: {telegram: [hermes-slak]}"), ())
