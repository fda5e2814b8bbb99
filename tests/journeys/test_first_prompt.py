"""How large the first request is with every toolset on, also with 200 tools of a plugin, and that
`hermes prompt-size` says so without a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes import plugins
from hermes.agent.models.formats.chat_completions.request import encode_request
from hermes.app.overrides import AppOverrides
from hermes.cli import main
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.settings.settings import PluginSettings
from hermes.domain.word import replace
from hermes.testing.model import ScriptedModel, echo
from tests.agent.test_demo_tools import living, say
from tests.journeys.test_deferred_tools import ENDPOINT, laboratory

ME = Source(address=Address(platform=LOCAL_DOOR, chat="local"), kind=SourceKind.PRIVATE, user="local")
MOST = 8 * 1024


@pytest.fixture(params=[0, 200])
def added(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """So many tools that a plugin adds, on a machine that has a browser."""
    monkeypatch.setattr("hermes.app.browser.has_browser", lambda settings, environ: True)
    usual = plugins.tools

    def tools(used: PluginSettings = plugins.EVERY_PLUGIN) -> plugins.OfferedTools:
        offered = usual(used)
        return replace(offered, plain=[*offered.plain, *laboratory(request.param)])

    monkeypatch.setattr(plugins, "tools", tools)
    yield request.param


async def test_the_first_request_is_small(tmp_path: Path, added: int) -> None:
    model = ScriptedModel(echo)
    (tmp_path / "home").mkdir()
    async with living(tmp_path / "home", AppOverrides(provider=model, platforms={})) as app:
        await say(app, "hi", source=ME)
        assert (tmp_path / "home" / "SOUL.md").is_file()
    (request,) = model.requests
    size = len(encode_request(request, ENDPOINT))
    assert size <= MOST, f"{size} bytes"
    assert len(request.tools) + len(request.deferred) >= 11 + added
    assert {"terminal", "read_file", "patch", "todo"} <= {tool.name for tool in request.tools}


def test_prompt_size_tells_it_without_a_gateway(
    tmp_path: Path, added: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "AGENTS.md").write_text("Use tabs.\n" * 10)
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.chdir(project)
    assert main(["prompt-size", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    sizes = {(part["tier"], part["name"]): part["bytes"] for part in told["parts"]}
    assert sum(sizes.values()) == told["total_bytes"] <= MOST
    assert sizes["context", "AGENTS.md"] == 99 and ("tools", "terminal") in sizes
    assert ("bridge", "tool_search") in sizes or not added
    assert sum(tier == "deferred" for tier, _ in sizes) >= added
    assert not list(home.iterdir()), "nothing was made"
    assert main(["prompt-size", "--platform", "telegram"]) == 0
    assert "place" in capsys.readouterr().out
    assert main(["prompt-size", "--platform", "telegrm"]) != 0
    assert main(["prompt-size", "--agent", "nobody"]) != 0
    assert "There is no agent “nobody”" in capsys.readouterr().err
