"""The reference mentions every command, setting, hook and event there is, read from the code itself."""

from __future__ import annotations

import importlib
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping

import pytest

from hermes.domain.settings.declaring import is_section
from hermes.domain.word import field_names
from tests.shape.tree import FOLDERS, PACKAGE, ROOT, constant, load, sources

# Keys that have no name of their own in the reference, and why.
NOT_NAMED = {
    "platforms.<name>.extra": "stands for the platform's own keys, told by its manifest",
    "platforms.<name>.secrets": "the same, for those that are secret",
    "platforms.<name>.trees": "the same, for those that hold more than one value",
    "model.options": "made of `providers` and `provider_routing`",
}


def _text(name: str) -> str:
    path = ROOT / name
    if not path.is_file():
        pytest.fail(f"{name} does not exist yet.", pytrace=False)
    return path.read_text(encoding="utf-8")


def _missing(page: str, words: Iterable[str]) -> list[str]:
    """Words that do not stand alone on the page: `/new` is not mentioned by `/newest`."""
    text = _text(page)
    return [word for word in words if not re.search(rf"(?<![\w.]){re.escape(word)}(?![\w-])", text)]


def _expect(page: str, kind: str, words: Iterable[str]) -> None:
    known = list(words)
    assert known, f"no {kind} found: the test has lost sight of the code"
    missing = _missing(page, known)
    assert not missing, f"{page} does not mention {kind}: {', '.join(missing)}"


def _keys(kind: type, prefix: str = "") -> Iterator[str]:
    """`model.default`, `agents.<name>.model`, `routes[].match.platform` … for every leaf."""
    hints = typing.get_type_hints(kind)
    for name in field_names(kind):
        yield from _leaves(hints[name], prefix + name)


def _leaves(hint: object, path: str) -> Iterator[str]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    nested = [part for part in arguments if is_section(part)]
    if is_section(hint):
        yield from _keys(hint, path + ".")
    elif origin in (dict, Mapping) and nested:
        yield from _leaves(nested[0], path + ".<name>")
    elif origin in (tuple, list) and nested:
        yield from _leaves(nested[0], path + "[]")
    elif origin in (typing.Union, types.UnionType) and nested:
        yield from _leaves(nested[0], path)
    elif path not in NOT_NAMED:
        yield path


def test_slash_commands() -> None:
    why = "it must map each slash command's name to its object"
    for path in sources(PACKAGE / "control" / "commands"):  # a command registers itself when imported
        if path.stem != "__init__":
            load(f"hermes.control.commands.{path.stem}", why)
    names = constant("hermes.control.commands.registry", "COMMANDS", why)
    _expect("docs/reference/commands.md", "slash commands", (f"/{name.lstrip('/')}" for name in names))


def test_command_line() -> None:
    names = constant("hermes.cli", "COMMANDS", "it must map each command's name to one line about it")
    _expect("docs/reference/cli.md", "commands", (f"hermes {name}" for name in names))


def test_settings() -> None:
    settings = constant("hermes.domain.settings.settings", "Settings", "it is the root of all settings")
    _expect("docs/reference/settings.md", "settings", _keys(settings))


def test_events() -> None:
    why = "it must be the union of its kinds"
    unions = [constant("hermes.domain.turns.event", name, why) for name in ("Live", "Record")]
    unions.append(constant("hermes.domain.turns.gateway_event", "GatewayEvent", why))
    kinds = [kind.__name__ for union in unions for kind in typing.get_args(union)]
    _expect("docs/reference/events.md", "events", kinds)


def test_hooks() -> None:
    names = constant("hermes.domain.system.hooks", "EVENTS", "it must be a tuple of the hooks' names")
    _expect("docs/reference/hooks.md", "hooks", names)


# Capitals that the pages name and that are no settings of Hermes, and whose they are.
OF_OTHERS = {
    **dict.fromkeys(["OPENAI_API_BASE", "OPENAI_API_BASE_URL", "TASK_MODEL_EXTERNAL"], "other programs"),
    "LIBRECHAT_BODY_CONVERSATIONID": "LibreChat",
    **dict.fromkeys(["RLIMIT_RSS", "MY_MODEL", "CHAT_ID"], "an example, or a word of the system"),
    **dict.fromkeys(["HERMES_API", "EVERY_AGENT", "INSECURE_NO_AUTH"], "names in code, and a value"),
    **dict.fromkeys(["HERMES_SKILL_DIR", "HERMES_SESSION_ID"], "replaced in the text of a skill"),
    "HERMES_WRITE_SAFE_ROOT": "refused, because nothing honours it",
}


def _variables() -> set[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    return set(re.findall(r"(?<![\w<>])[A-Z][A-Z0-9]+(?:_+[A-Z0-9]+)+(?![\w<>])", text))


def test_every_variable_that_a_page_names_can_be_set() -> None:
    by_key = importlib.import_module("hermes.state.settings.by_key")
    names = importlib.import_module("hermes.state.settings.names")
    manifests = constant("hermes.plugins", "platform_manifests", "it must tell all platforms")
    platforms = names.PlatformNames.of(manifests())
    named = _variables()
    assert {"API_SERVER_PORT", "WEBHOOK_HOST", "HERMES_NO_PROBE"} <= named, "the pages were not read"
    refused = []
    for variable in sorted(named - OF_OTHERS.keys() - names.ENVIRONMENT_ONLY):
        try:
            by_key.find_key(variable, platforms=platforms)
        except Exception as error:
            refused.append(str(error))
    assert not refused, f"the pages name variables that `config set` refuses: {refused}"
    assert OF_OTHERS.keys() <= named, "an exception that no page needs any more"


def test_the_first_pages() -> None:
    _expect("README.md", "the two commands", ["./hermes", "./test"])
    _expect("ARCHITECTURE.md", "folders", [f"{name}/" for name in FOLDERS])


def test_a_missing_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "_text", lambda name: "`/newest` and `/stop`, `agent:start`, command:*")
    assert _missing("page", ["/new", "/stop", "agent:start", "command:*", "start-up"]) == ["/new", "start-up"]
