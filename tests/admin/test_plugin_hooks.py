"""Hooks that packages bring: functions of this process that observe, and can hold nobody up."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hermes import plugins
from hermes.app.hooks import PluginHookRunner, plugin_hook
from hermes.domain.errors import Unreachable
from hermes.domain.system.hooks import Hook


def hook(name: str, timeout: float = 40.0) -> Hook:
    return Hook(name=name, folder="", events=("agent:end",), timeout=timeout)


async def test_functions_and_coroutines_are_called() -> None:
    async def later(event: str, context: dict[str, object]) -> str:
        return f"{event} {context['n']}"

    runner = PluginHookRunner({"now": lambda event, context: context["n"], "later": later})
    assert (await runner.call(hook("now"), "agent:end", {"n": 1})).answer == 1
    assert (await runner.call(hook("later"), "agent:end", {"n": 2})).answer == "agent:end 2"


async def test_what_it_raises_is_said_without_its_words() -> None:
    def broken(event: str, context: dict[str, object]) -> None:
        raise SystemExit("people said this")

    with pytest.raises(Unreachable) as told:
        await PluginHookRunner({"x": broken}).call(hook("x"), "agent:end", {})
    assert str(told.value) == "SystemExit"


async def test_one_that_hangs_is_not_called_again_until_it_comes_back() -> None:
    held = threading.Event()
    calls: list[str] = []

    def slow(event: str, context: dict[str, object]) -> None:
        calls.append(event)
        held.wait(60)

    runner = PluginHookRunner({"x": slow})
    with pytest.raises(Unreachable, match="no answer within"):
        await runner.call(hook("x", 0.2), "agent:end", {})
    with pytest.raises(Unreachable, match="has not come back"):
        await runner.call(hook("x", 0.2), "agent:end", {})
    assert calls == ["agent:end"]
    held.set()


def test_they_observe_and_are_never_asked() -> None:
    def chosen(event: str, context: dict[str, object]) -> None: ...

    chosen.events = ("agent:end", "gate:tool", "command:*", "nothing")  # type: ignore[attr-defined]
    assert plugin_hook("x", chosen).events == ("agent:end",)
    every = plugin_hook("x", lambda event, context: None).events
    assert "session:start" in every and "gate:tool" not in every and "command:*" not in every


def test_they_are_found_by_their_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hx_hooks-1.dist-info").mkdir()
    (tmp_path / "hx_hooks-1.dist-info" / "METADATA").write_text("Name: hx-hooks\nVersion: 1\n")
    entries = "[hermes.hooks]\ngood = hx_hooks:handle\nbad = hx_hooks:NOT_ONE\n"
    (tmp_path / "hx_hooks-1.dist-info" / "entry_points.txt").write_text(entries)
    (tmp_path / "hx_hooks.py").write_text("def handle(event, context): pass\nNOT_ONE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(plugins.hooks()) == ["good"]
