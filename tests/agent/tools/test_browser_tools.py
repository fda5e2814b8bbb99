"""The tools of the browser: what they ask of it, what they tell, what a person is asked, and who has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.danger.scope import CommandScope
from hermes.agent.tools import make_tools
from hermes.agent.tools.browser import _ask_on_page
from hermes.agent.tools.registry import ApprovalCase, CommandRules
from hermes.app.browser import AppBrowser, has_browser
from hermes.domain.chats.message import Attachment
from hermes.domain.chats.rows import MediaItem
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, CallId, SessionId
from hermes.domain.ports.browser import Browser, PageView
from hermes.domain.ports.world import Backend, Media
from hermes.domain.settings.browser import BrowserSettings
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Effect, Tool, ToolCall, ToolContext
from hermes.domain.word import replace
from hermes.stream.fold.tool_lines import ProgressLevel, ToolLine, ToolState, chat_line, plain_line
from hermes.testing.tool_suite import check_tool, tool_context


class Screen:
    """A browser and its page, which note what is asked of them."""

    def __init__(self) -> None:
        self.done: list[tuple[object, ...]] = []
        self.opens: list[bool] = []
        self.host = "shop.example.org"

    async def use(
        self, context: ToolContext, work: Callable[[Any], Awaitable[Any]], *, opens: bool = False
    ) -> Any:
        self.opens.append(opens)
        return await work(self)

    async def host_of(self, session: str) -> str:
        return self.host

    async def navigate(self, url: str) -> PageView:
        self.done.append(("navigate", url))
        return PageView(url=url, title="Shop", text='- button "Buy" @e1', notes=("A popup opened.",))

    async def view(self, *, full: bool = False, text: bool = True) -> PageView:
        return PageView(url="https://shop.example.org/", title="Shop", text="all" if full else "")

    async def act(self, action: str, target: str = "", text: str = "") -> str:
        self.done.append((action, target, text))
        return f"{action} done"

    async def picture(self, *, annotate: bool = False) -> bytes:
        return b"\x89PNG"

    async def ask(self, method: str, params: Mapping[str, Any], target: str, seconds: float) -> Any:
        self.done.append((method, params, target, seconds))
        return {"value": "ü"}


class Shelf:
    async def put(self, data: bytes, mime: str) -> MediaItem:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return MediaItem(sha256="0" * 64, path="0", size=len(data), mime=mime, stored_at=at)


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def tools(screen: Screen) -> dict[str, Tool]:
    services = ToolServices({Browser: screen, Media: Shelf(), Backend: object(), CommandRules: object()})
    return {tool.name: tool for tool in make_tools(services) if tool.toolset == "browser"}


def test_twelve_tools_that_tell_the_truth(tools: dict[str, Tool]) -> None:
    read = {name for name, tool in tools.items() if tool.effect is Effect.READ}
    assert len(tools) == 12
    assert read == {f"browser_{name}" for name in ("navigate", "snapshot", "get_images", "vision")}
    for tool in tools.values():
        check_tool(tool)
    assert not [tool for tool in make_tools(ToolServices({})) if tool.toolset == "browser"]


async def test_what_they_do(tools: dict[str, Tool], screen: Screen) -> None:
    async def ask(role: str, text: str, attachments: Any = ()) -> str:
        assert role == "vision" and isinstance(attachments[0], Attachment)
        return f"I see: {text}"

    context = replace(tool_context(), ask_model=ask)

    async def call(name: str, **arguments: object) -> str:
        result = await tools[f"browser_{name}"].run(context, arguments)
        assert result.outside, name
        return result.text

    told = await call("navigate", url="shop.example.org/a")
    assert told == 'Shop https://shop.example.org/a\n[A popup opened.]\n- button "Buy" @e1'
    assert await call("click", ref="@e1") == "click done\nShop https://shop.example.org/"
    assert "all" in await call("snapshot", full="true")
    assert "s3cret" not in await call("type", ref="@e2", text="s3cret")
    others: dict[str, dict[str, object]] = {
        "scroll": {"direction": "down"}, "back": {}, "press": {"key": "Enter"}, "get_images": {},
        "console": {"clear": True}, "dialog": {"action": "accept", "prompt_text": "7", "dialog_id": "d1"},
    }  # fmt: skip
    for name, arguments in others.items():
        await call(name, **arguments)
    assert await call("console", expression="1+1") == "evaluate done\nShop https://shop.example.org/"
    assert "I see: What?" in await call("vision", question="What?")
    assert await call("cdp", method="DOM.getDocument", params={"depth": 1}, timeout=900) == '{"value": "ü"}'
    assert [done[0] for done in screen.done] == [
        "navigate", "click", "type", "scroll", "back", "press", "images", "clear", "accept", "evaluate",
        "DOM.getDocument",
    ]  # fmt: skip
    assert screen.done[1:3] == [("click", "@e1", ""), ("type", "@e2", "s3cret")]
    assert ("accept", "d1", "7") in screen.done and screen.done[-1][1:] == ({"depth": 1}, "", 300.0)
    assert screen.opens.count(True) == 1, "only an address opens a page"
    for wrong in ({"method": "A.b", "params": "[1]"}, {"method": "A.b", "params": "{"}):
        with pytest.raises(UserError, match="JSON object"):
            await call("cdp", **wrong)
    with pytest.raises(UserError, match="carries a credential"):
        await call("navigate", url="https://shop.example.org/?api_key=abcdefgh12345678")


async def test_what_a_person_is_asked_after_outside_words(screen: Screen) -> None:
    case = ApprovalCase(
        services=ToolServices({Browser: screen}),
        session=SessionId("s"),
        scope=CommandScope(cwd="/", workspace="/", home="/"),
    )
    prompt = await _ask_on_page(case, {"ref": "@e1", "text": "my address"})
    assert prompt is not None and prompt.hosts == ("shop.example.org",)
    assert "shop.example.org" in prompt.text and "my address" in prompt.text
    other = await _ask_on_page(case, {"ref": "@e1", "text": "my other address"})
    assert other is not None and other.digest != prompt.digest
    assert await _ask_on_page(case, {"expression": "", "clear": True}) is None
    for code in ({"expression": "fetch(x)"}, {"method": "Runtime.evaluate", "params": "{}"}):
        free = await _ask_on_page(case, code)
        assert free is not None and free.hosts == (), "it may send anywhere, whatever was named"
    screen.host = ""
    assert await _ask_on_page(case, {"ref": "@e1"}) is None
    assert await _ask_on_page(case, {"expression": "fetch(x)"}) is not None, "an empty page may, too"


def test_what_is_typed_is_shown_nowhere() -> None:
    for arguments in ('{"ref": "@e1", "text": "s3cret"}', '{"ref": "s3cret', '["s3cret"]'):
        call = ToolCall(id=CallId("c"), name="browser_type", arguments=arguments)
        line = ToolLine(seq=1, call=call, state=ToolState.RUNNING)
        assert "s3cret" not in plain_line(call)
        assert all("s3cret" not in chat_line(line, level) for level in ProgressLevel)
    assert "@e1" in plain_line(ToolCall(id=CallId("c"), name="browser_type", arguments='{"ref": "@e1"}'))


def test_without_a_browser_nobody_has_the_tools(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    settings = BrowserSettings(path=str(program))
    assert not has_browser(settings, {})
    assert has_browser(replace(settings, cdp_url="http://127.0.0.1:9222"), {})
    program.write_text("#!/bin/sh\n")
    assert not has_browser(settings, {})
    program.chmod(0o755)
    assert has_browser(settings, {})
    given: Any = type("Given", (), {"browser": settings})
    assert AppBrowser({}, lambda: given, None, None).of(AgentId("main")) is not None  # type: ignore[arg-type]
    program.unlink()
    assert AppBrowser({}, lambda: given, None, None).of(AgentId("main")) is None  # type: ignore[arg-type]
