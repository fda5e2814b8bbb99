"""What only answers a question loads nothing: no SDK, no database, no event loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.shape.tree import PACKAGE, SRC

# Everything loaded after the interpreter itself was up goes to the last line, as JSON.
PROBE = """
import json, runpy, sys
before = set(sys.modules)
try:
    {action}
except SystemExit as end:
    if end.code not in (None, 0):
        raise
print("\\n" + json.dumps(sorted(set(sys.modules) - before)))
"""

COMMAND = "sys.argv = ['hermes', {!r}]; runpy.run_module('hermes', run_name='__main__')"
PLATFORMS = "from hermes.plugins import platform_manifests as all; assert len(list(all())) >= {}"


GATEWAY = (
    "import hermes.admin.commands.gateway, hermes.app.app, hermes.entry.http.server as server;"
    "from hermes.entry.http import api; api.load_resources(api.AT_START)"
)
NEEDED_LATER = {
    "hermes.agent.danger.judge",  # with the first command
    "hermes.agent.danger.destinations",  # after the first use of a tool
    "hermes.agent.models.login.oauth",  # with the first login that is renewed
    "hermes.execution.mcp",  # with the first agent that has an MCP server
    "hermes.entry.desk",  # with the first request on the owner's socket
    "hermes.entry.http.api.responses.endpoints",  # with the first request beside chat and health
    "hermes.entry.http.webhooks.routes",  # with the first route
    "hermes.state.settings.by_key",  # when a setting is written
    "hermes.stream.faces.responses.fold",  # with the first answer of a client to a question
    "markdown_it",  # with the first answer that is printed with markup
    "prompt_toolkit",  # in terminals alone
    "rich",
    "regex",  # with the first pattern of a person
    "ruamel",  # when settings are written
    "yaml",  # when settings are read: the gateway has imported everything else by then
}


TERMINAL = "import hermes.cli, hermes.admin.commands.conversation, hermes.entry.terminal.{}"


def _loaded(action: str) -> set[str]:
    """The packages, by their first names."""
    return {name.split(".")[0] for name in _modules(action)}


def _modules(action: str) -> set[str]:
    for needed in ("__init__.py", "__main__.py", "cli.py", "plugins.py"):
        if not (PACKAGE / needed).is_file():
            pytest.fail(f"src/hermes/{needed} does not exist yet.", pytrace=False)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROBE.format(action=action)],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def _foreign(loaded: set[str]) -> list[str]:
    """Whatever belongs neither to Python nor to Hermes: aiohttp, apsw, yaml, any platform's SDK …"""
    return sorted(loaded - sys.stdlib_module_names - {"hermes", "__main__", "__mp_main__"})


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_answering_loads_nothing(option: str) -> None:
    loaded = _loaded(COMMAND.format(option))
    assert not _foreign(loaded)
    assert not loaded & {"asyncio", "sqlite3", "ssl"}


def test_listing_platforms_loads_no_sdk() -> None:
    folders = [path.parent for path in (PACKAGE / "entry" / "platforms").glob("*/manifest.py")]
    # A manifest is a word of `domain`, and words are made of msgspec, which loads typing_extensions.
    assert set(_foreign(_loaded(PLATFORMS.format(len(folders))))) <= {"msgspec", "typing_extensions"}


def test_a_gateway_loads_nothing_before_it_is_needed() -> None:
    modules = _modules(GATEWAY)
    assert not NEEDED_LATER & {*modules, *(name.split(".")[0] for name in modules)}


@pytest.mark.parametrize("view", ["oneshot", "view_plain"])
def test_a_terminal_loads_no_gateway(view: str) -> None:
    """Every `hermes -q` waits for what its client loads."""
    modules = _modules(TERMINAL.format(view))
    assert not [name for name in modules if name.startswith(("hermes.control", "hermes.app", "hermes.agent"))]
    assert not [name for name in modules if name.startswith(("hermes.state.store", "hermes.execution"))]
    assert set(_foreign({name.split(".")[0] for name in modules})) <= {"msgspec", "typing_extensions"}


def test_a_rich_terminal_loads_no_gateway_and_rich_only_with_the_first_answer() -> None:
    modules = _modules(TERMINAL.format("view_rich"))
    own = ("hermes.control", "hermes.app", "hermes.agent", "hermes.state.store", "hermes.execution")
    assert not [name for name in modules if name.startswith(own)]
    foreign = set(_foreign({name.split(".")[0] for name in modules}))
    assert foreign <= {"msgspec", "typing_extensions", "prompt_toolkit", "wcwidth"}


def test_the_probe_sees() -> None:
    assert "hermes.agent.danger.judge" in _modules("import hermes.agent.danger.judge")
    assert {"yaml", "asyncio"} <= _loaded("import yaml, asyncio")
    assert "yaml" in _foreign(_loaded("import yaml, json"))


def test_settings_are_sections() -> None:
    """A dataclass costs half a millisecond of every start, and would not know what `setting` returns."""
    folder = PACKAGE / "domain" / "settings"
    assert not [
        path.name for path in folder.glob("*.py") if "@dataclass(" in path.read_text(encoding="utf-8")
    ]
