"""Which names of toolsets a limit may hold: ours, a plugin's, and those of the existing product."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.app.agents.tools import check_toolsets, limit_for_all
from hermes.domain.errors import SettingsError
from hermes.domain.tool import Tool, ToolContext, ToolResult
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
