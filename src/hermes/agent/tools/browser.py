"""The tools of the web browser. What a page says is outside; what is done on it may happen only once."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from hermes.agent.tools.approval_text import action_digest, visible, visible_line
from hermes.agent.tools.registry import ApprovalCase, ToolInvocation, cap, tool
from hermes.domain.errors import UserError
from hermes.domain.ports.browser import LONGEST_VIEW, Browser, BrowserPage, PageView
from hermes.domain.ports.world import Media
from hermes.domain.safety.url_secrets import credential_in
from hermes.domain.tools.tool import Approval, ApprovalPrompt, Effect, ToolResult

_SECONDS = 180.0
_NEVER = Approval.NEVER


async def _ask_on_page(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    """What is typed, pressed or clicked leaves for the site of the page; code may send to any."""
    host = await case.services.get(Browser).host_of(case.session)
    anywhere = bool(values.get("expression") or values.get("method"))
    if not anywhere and (not host or "expression" in values):
        return None  # there is nothing to act on, or only messages are read
    told = "\n".join(f"{name}: {visible(str(value))}" for name, value in values.items() if value)
    text = f"Act on the page of {visible_line(host or 'no site')} in the browser:\n{told}"
    digest = action_digest("browser", host, dict(values))
    return ApprovalPrompt(text=text, digest=digest, hosts=() if anywhere else (host,))


_ACTS: Any = {"needs": Browser, "seconds": _SECONDS, "after_outside": _ask_on_page}
_LOOKS: Any = {"needs": Browser, "seconds": _SECONDS, "after_outside": _NEVER}


def _shown(view: PageView, before: str = "") -> ToolResult:
    head = [before, f"{view.title} {view.url}".strip(), *(f"[{note}]" for note in view.notes)]
    data = {"success": True, "url": view.url, "title": view.title, "snapshot": view.text}
    return ToolResult(text="\n".join(filter(None, (*head, view.text))), data=data, outside=True)


async def _act(invocation: ToolInvocation, action: str, target: str = "", text: str = "") -> ToolResult:
    async def work(page: BrowserPage) -> ToolResult:
        told = await page.act(action, target, text)
        return _shown(await page.view(text=False), told)

    return await _on_page(invocation, work)


async def _on_page(
    invocation: ToolInvocation, work: Callable[[BrowserPage], Awaitable[ToolResult]], *, opens: bool = False
) -> ToolResult:
    return await invocation.services.get(Browser).use(invocation.context, work, opens=opens)


@tool("browser", Effect.READ, needs=Browser, seconds=_SECONDS)
async def browser_navigate(invocation: ToolInvocation, url: str) -> ToolResult:
    """Open a web page in a real browser: gives its elements (@e1 …). For mere text use web_extract."""
    url = url.strip() if "://" in url else f"https://{url.strip()}"
    if name := credential_in(url):
        raise UserError(f"The address was not opened: it carries a credential ({name}).")

    async def work(page: BrowserPage) -> ToolResult:
        return _shown(await page.navigate(url))

    return await _on_page(invocation, work, opens=True)


@tool("browser", Effect.READ, **_LOOKS)
async def browser_snapshot(invocation: ToolInvocation, full: bool = False) -> ToolResult:
    """Read the page again: its elements (@e1 …), open dialogs, frames.

    full: with all text"""

    async def work(page: BrowserPage) -> ToolResult:
        return _shown(await page.view(full=full))

    return await _on_page(invocation, work)


@tool("browser", Effect.ONCE, **_ACTS)
async def browser_click(invocation: ToolInvocation, ref: str) -> ToolResult:
    """Click an element of the last snapshot.

    ref: like @e5"""
    return await _act(invocation, "click", ref)


@tool("browser", Effect.ONCE, **_ACTS)
async def browser_type(invocation: ToolInvocation, ref: str, text: str) -> ToolResult:
    """Replace the content of a field, or choose an option of a list by its label."""
    return await _act(invocation, "type", ref, text)


@tool("browser", Effect.ONCE, needs=Browser, seconds=_SECONDS, after_outside=_NEVER)
async def browser_scroll(invocation: ToolInvocation, direction: Literal["up", "down"]) -> ToolResult:
    """Scroll the page by most of a screen."""
    return await _act(invocation, "scroll", direction)


@tool("browser", Effect.ONCE, needs=Browser, seconds=_SECONDS, after_outside=_NEVER)
async def browser_back(invocation: ToolInvocation) -> ToolResult:
    """Go back to the page before."""
    return await _act(invocation, "back")


@tool("browser", Effect.ONCE, **_ACTS)
async def browser_press(invocation: ToolInvocation, key: str) -> ToolResult:
    """Press a key: Enter, Tab, ArrowDown, a, Control+A …"""
    return await _act(invocation, "press", text=key)


@tool("browser", Effect.READ, **_LOOKS)
async def browser_get_images(invocation: ToolInvocation) -> ToolResult:
    """List the page's images: size, description, address."""
    return await _act(invocation, "images")


@tool("browser", Effect.READ, needs=(Browser, Media), seconds=_SECONDS, after_outside=_NEVER)
async def browser_vision(invocation: ToolInvocation, question: str, annotate: bool = False) -> ToolResult:
    """Ask about a picture of the page, for what a snapshot does not tell.

    annotate: mark elements with their refs"""
    pictures: list[bytes] = []

    async def work(page: BrowserPage) -> ToolResult:
        pictures.append(await page.picture(annotate=annotate))
        return _shown(await page.view(text=False))

    view = await _on_page(invocation, work)
    item = await invocation.services.get(Media).put(pictures[0], "image/png")
    answer = await invocation.context.ask_model("vision", question, [item.attached("page.png")])
    return ToolResult(text=f"{view.text}\n{answer}", data={"success": True, "analysis": answer}, outside=True)


@tool("browser", Effect.ONCE, **_ACTS)
async def browser_console(
    invocation: ToolInvocation, expression: str = "", clear: bool = False
) -> ToolResult:
    """Read the console's messages, or run JavaScript in the page and get its value.

    clear: forget the messages afterwards"""
    if expression:
        return await _act(invocation, "evaluate", text=expression)
    return await _act(invocation, "clear" if clear else "console")


@tool("browser", Effect.ONCE, needs=Browser, seconds=320.0, after_outside=_ask_on_page)
async def browser_cdp(
    invocation: ToolInvocation,
    method: str,
    params: str = "{}",
    target_id: str = "",
    frame_id: str = "",
    timeout: int = 30,
) -> ToolResult:
    """Send a command of the Chrome DevTools Protocol to the page, for what no other tool does.

    params: a JSON object
    target_id: of Target.getTargets
    frame_id: a frame of another site instead"""
    try:
        given = json.loads(params or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise UserError("params must be a JSON object.")

    async def work(page: BrowserPage) -> ToolResult:
        target, seconds = target_id or frame_id, float(min(max(timeout, 1), 300))
        answer = await page.ask(method, given, target, seconds)
        return ToolResult(
            text=cap(json.dumps(answer, ensure_ascii=False), LONGEST_VIEW), data=answer, outside=True
        )

    return await _on_page(invocation, work)


@tool("browser", Effect.ONCE, **_ACTS)
async def browser_dialog(
    invocation: ToolInvocation,
    action: Literal["accept", "dismiss"],
    prompt_text: str = "",
    dialog_id: str = "",
) -> ToolResult:
    """Answer an alert, confirm or prompt of the page."""
    return await _act(invocation, action, dialog_id, prompt_text)
