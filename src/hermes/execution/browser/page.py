"""The page of one session, as the tools use it: it is opened, read, clicked, typed into and pictured."""

from __future__ import annotations

import contextlib
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from msgspec import json

from hermes.domain.errors import Refused, Unreachable, UserError
from hermes.domain.ports.browser import LONGEST_VIEW, PageView
from hermes.domain.text import one_line
from hermes.execution.browser import scripts
from hermes.execution.browser.keys import key_events
from hermes.execution.browser.snapshot import tree_lines, write_lines
from hermes.execution.browser.tabs import DialogOpened, Tabs

_MOST_ELEMENTS, _MOST_TEXT, _MOST_FRAMES, _MOST_LABELS, _FEW_LINES = 30_000, 2_000_000, 20, 60, 5
_PAUSE, _LOAD_SECONDS = 0.25, 15.0
_ROBOTS = re.compile(
    r"just a moment|attention required|captcha|access denied|verify you are|checking your browser"
    r"|unusual traffic|are you (?:a )?(?:human|robot)",
    re.IGNORECASE,
)
_DOMAINS = "Accessibility Animation CSS DOMDebugger DOMSnapshot DOMStorage LayerTree Overlay Performance"
# Of the others single methods: some read files of the browser's machine (`Input.dispatchDragEvent`), and new
# ones come with each version. https://chromedevtools.github.io/devtools-protocol/tot/
_METHODS = {
    "DOM": """collectClassNamesFromSubtree copyTo describeNode disable discardSearchResults enable focus
        getAttributes getBoxModel getContentQuads getDocument getFlattenedDocument getFrameOwner
        getNodeForLocation getNodeStackTraces getNodesForSubtreeByStyle getOuterHTML getRelayoutBoundary
        getSearchResults getTopLayerElements hideHighlight highlightNode highlightRect moveTo performSearch
        pushNodeByPathToFrontend pushNodesByBackendIdsToFrontend querySelector querySelectorAll redo
        removeAttribute removeNode requestChildNodes requestNode resolveNode scrollIntoViewIfNeeded
        setAttributeValue setAttributesAsText setNodeName setNodeValue setOuterHTML undo""",
    "Emulation": """clearDeviceMetricsOverride clearGeolocationOverride clearIdleOverride
        setAutoDarkModeOverride setCPUThrottlingRate setDefaultBackgroundColorOverride
        setDeviceMetricsOverride setEmulatedMedia setEmulatedVisionDeficiency setGeolocationOverride
        setIdleOverride setLocaleOverride setPageScaleFactor setScriptExecutionDisabled setScrollbarsHidden
        setTimezoneOverride setTouchEmulationEnabled setUserAgentOverride setVisibleSize""",
    "Input": """cancelDragging dispatchKeyEvent dispatchMouseEvent dispatchTouchEvent imeSetComposition
        insertText setIgnoreInputEvents synthesizePinchGesture
        synthesizeScrollGesture synthesizeTapGesture""",
    "Log": "clear enable startViolationsReport stopViolationsReport",
    "Network": """deleteCookies disable emulateNetworkConditions enable getCertificate getCookies
        getRequestPostData getResponseBody getSecurityIsolationStatus searchInResponseBody setCacheDisabled
        setCookie setCookies setExtraHTTPHeaders setUserAgentOverride""",
    "Page": """addScriptToEvaluateOnNewDocument bringToFront captureScreenshot captureSnapshot
        createIsolatedWorld enable getAppManifest getFrameTree getLayoutMetrics getNavigationHistory
        getResourceContent getResourceTree reload removeScriptToEvaluateOnNewDocument searchInResource
        setBypassCSP setDocumentContent setFontFamilies setFontSizes setLifecycleEventsEnabled
        setWebLifecycleState stopLoading""",
    "Runtime": """addBinding awaitPromise callFunctionOn compileScript discardConsoleEntries enable evaluate
        getExceptionDetails getHeapUsage getIsolateId getProperties globalLexicalScopeNames queryObjects
        releaseObject releaseObjectGroup removeBinding runScript terminateExecution""",
}
_ALLOWED_DOMAINS = frozenset(_DOMAINS.split())
_ALLOWED = frozenset(f"{domain}.{name}" for domain, names in _METHODS.items() for name in names.split())
_TARGETS = "Target.getTargets"
_DONE = {"click": "Clicked.", "type": "Typed.", "press": "Pressed.", "back": "Went back."}


class ChromiumPage:
    """A step that finds a dialog open, or opens one, ends with `DialogOpened`. After one that got no answer
    the tab counts as broken, and the next address is opened in a new one."""

    def __init__(self, tabs: Tabs) -> None:
        self._tabs = tabs
        self._elements: dict[str, tuple[str, int]] = {}
        self._focus: str | None = None

    # --- looking ---

    async def navigate(self, url: str) -> PageView:
        await self._tabs.rules.check(url)
        if self._tabs.dialogs or self._tabs.shown.broken:
            await self._tabs.open()  # a page that asks again and again cannot be left otherwise
        self._elements, self._focus = {}, None
        with contextlib.suppress(DialogOpened):
            answer = await self._call("Page.navigate", {"url": url})
            if fault := answer.get("errorText"):
                await self._tabs.settle(_PAUSE, 1.0)  # a download is told of a moment later
                more = " ".join(self._take_notes())
                raise UserError(f"{one_line(url, 200)} could not be opened ({fault}). {more}".rstrip())
            if answer.get("loaderId"):
                await self._tabs.settle(0.0, min(self._tabs.rules.seconds / 2, _LOAD_SECONDS))
        return await self.view()

    async def where(self) -> tuple[str, str]:
        """The page's address and title. It may have gone elsewhere by itself since it was seen."""
        info = await self._call("Target.getTargetInfo", {"targetId": self._tabs.shown.target}, session="")
        return info["targetInfo"]["url"], one_line(info["targetInfo"]["title"], 300)

    async def view(self, *, full: bool = False, text: bool = True) -> PageView:
        url, title = await self.where()
        lines: list[str] = []
        if text and not self._tabs.dialogs:
            with contextlib.suppress(DialogOpened):
                lines = await self._lines(full)
        notes = self._take_notes()
        if _ROBOTS.search(title):
            notes.append("The site may take this browser for a robot and not show its page.")
        shown = write_lines(lines, LONGEST_VIEW)
        return PageView(url=one_line(url, 2000), title=title, text=shown, notes=tuple(notes))

    def _take_notes(self) -> list[str]:
        """What waits stays; what happened is told once."""
        notes = [*map(str, self._tabs.dialogs.values()), *self._tabs.notes]
        self._tabs.notes.clear()
        if not self._tabs.dialogs and not self._tabs.shown.idle.is_set():
            notes.append("The page is still loading.")
        return notes

    async def _lines(self, full: bool) -> list[str]:
        self._elements = {}
        elements, characters, status = await self._evaluate(scripts.SIZE)
        if elements > _MOST_ELEMENTS or characters > _MOST_TEXT:
            beginning = str(await self._evaluate(scripts.BEGINNING))
            told = f"[The page is too large: {elements:,} elements, {characters:,} characters. It begins:]"
            return [told, *(one_line(line, 300) for line in beginning.splitlines() if line.strip())]
        lines = [f"[The answer was {status}.]"] if status >= 400 else []
        await self._add_frame(self._tabs.shown.session, "", 0, full, lines)
        return await self._lines(True) if not full and len(lines) < _FEW_LINES else lines

    async def _add_frame(self, session: str, frame: str, depth: int, full: bool, lines: list[str]) -> None:
        """The lines of a frame and of those in it."""
        params = {"frameId": frame} if frame else {}
        answer = await self._call("Accessibility.getFullAXTree", params, session=session)
        for line in tree_lines(answer["nodes"], full=full):
            name, below = "", depth + line.depth
            if line.node and not line.frame:
                name = f"@e{len(self._elements) + 1}"
                self._elements[name] = session, line.node
            lines.append(f"{'  ' * below}- {line.text} {name}".rstrip())
            if line.frame and len(lines) < _MOST_ELEMENTS and depth < _MOST_FRAMES:
                with contextlib.suppress(Refused, KeyError):  # it is gone, or nothing of it can be seen
                    node = await self._call("DOM.describeNode", {"backendNodeId": line.node}, session=session)
                    inner = node["node"]["frameId"]
                    apart = self._tabs.shown.frames.get(inner)
                    await self._add_frame(apart or session, "" if apart else inner, below + 1, full, lines)

    async def picture(self, *, annotate: bool = False) -> bytes:
        self._tabs.check_dialogs()
        if annotate:
            await self._evaluate(f"{scripts.LABEL}({json.encode(await self._places()).decode()})")
        try:
            return b64decode((await self._call("Page.captureScreenshot", {"format": "png"}))["data"])
        finally:
            if annotate:
                await self._evaluate(scripts.UNLABEL)

    async def _places(self) -> list[tuple[str, float, float, float, float]]:
        """Where the named elements of the page itself are."""
        if not self._elements:
            await self._lines(False)
        places: list[tuple[str, float, float, float, float]] = []
        own = {name: node for name, (at, node) in self._elements.items() if at == self._tabs.shown.session}
        for name, node in list(own.items())[:_MOST_LABELS]:
            with contextlib.suppress(Refused):
                quads = (await self._call("DOM.getContentQuads", {"backendNodeId": node}))["quads"]
                places += [(name, x, y, right - x, low - y) for x, y, _, _, right, low, *_ in quads[:1]]
        return places

    # --- acting ---

    async def act(self, action: str, target: str = "", text: str = "") -> str:
        if action in ("accept", "dismiss"):
            words = await self._tabs.answer_dialog(target, action == "accept", text)
            await self._tabs.settle(_PAUSE, self._tabs.rules.seconds / 3)
            return f"{'Accepted' if action == 'accept' else 'Dismissed'}: {words}"
        if action in ("console", "clear"):
            messages = "\n".join(self._tabs.messages) or "No messages."
            if action == "clear":
                self._tabs.messages.clear()
            return messages
        self._tabs.check_dialogs()
        told = "A dialog opened."
        with contextlib.suppress(DialogOpened):
            told = await self._do(action, target, text)
        if action in _DONE:
            await self._tabs.settle(_PAUSE, self._tabs.rules.seconds / 3)
        return _DONE.get(action, told)

    async def _do(self, action: str, target: str, text: str) -> str:
        match action:
            case "click":
                await self._click(*self._find(target))
            case "type":
                await self._type(*self._find(target), text)
            case "press":
                for event in key_events(text):
                    await self._call("Input.dispatchKeyEvent", event, session=self._focus)
            case "back":
                await self._go_back()
            case "scroll":
                place = await self._evaluate(f"{scripts.SCROLL}({-1 if target == 'up' else 1})")
                return f"Scrolled to {place[0]:.0f} of {max(place[1], 0):.0f} pixels."
            case "images":
                images = await self._evaluate(scripts.IMAGES)
                lines = [f"{width}×{height} “{alt}” {source}" for source, alt, width, height in images]
                return write_lines(lines, LONGEST_VIEW) or "No images."
            case "evaluate":
                return await self._run(text)
        return ""

    def _find(self, name: str) -> tuple[str, int]:
        key = f"@{name.removeprefix('@')}"
        if key not in self._elements:
            hint = "Take a snapshot: names change with the page."
            raise UserError(f"There is no element {one_line(key, 30)}.", hint=hint)
        return self._elements[key]

    async def _click(self, session: str, node: int) -> None:
        await self._on_node("DOM.scrollIntoViewIfNeeded", session, node)
        self._focus = session
        quads: list[list[float]] = []
        if session == self._tabs.shown.session and await self._run_on(session, node, scripts.CAN_BE_HIT):
            quads = (await self._on_node("DOM.getContentQuads", session, node))["quads"]
        if not quads:  # something lies above it, or it is in a frame with coordinates of its own
            await self._run_on(session, node, scripts.CLICK)
            return
        place = {"x": sum(quads[0][::2]) / 4, "y": sum(quads[0][1::2]) / 4}
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            await self._call("Input.dispatchMouseEvent", {"type": kind, **button, **place})

    async def _type(self, session: str, node: int, text: str) -> None:
        await self._on_node("DOM.scrollIntoViewIfNeeded", session, node)
        self._focus = session
        way = await self._run_on(session, node, scripts.PREPARE_TO_TYPE, text)
        if way == "insert" and text:
            await self._call("Input.insertText", {"text": text}, session=session)
        elif way == "insert":
            for event in key_events("Delete"):
                await self._call("Input.dispatchKeyEvent", event, session=session)
        elif way != "set":
            raise UserError(f"Nothing was typed. {way}")

    async def _go_back(self) -> None:
        history = await self._call("Page.getNavigationHistory")
        if history["currentIndex"] < 2:  # the first entry is the empty page that the tab began with
            raise UserError("There is no page before this one.")
        entry = history["entries"][history["currentIndex"] - 1]["id"]
        self._elements = {}
        await self._call("Page.navigateToHistoryEntry", {"entryId": entry})

    async def _run(self, expression: str) -> str:
        """What an expression of the model comes to, or how it fails."""
        answer = await self._ask_for(expression)
        if details := answer.get("exceptionDetails"):
            said = details.get("exception", {}).get("description") or details.get("text", "")
            raise UserError(f"The expression failed: {one_line(said, 500)}")
        result = answer["result"]
        value = result["value"] if "value" in result else result.get("description", result["type"])
        words = value if isinstance(value, str) else json.encode(value).decode()
        return words if len(words) <= LONGEST_VIEW else f"{words[:LONGEST_VIEW]}\n[… cut]"

    async def ask(self, method: str, params: Mapping[str, Any], target: str, seconds: float) -> Any:
        shown = self._tabs.shown
        if method == _TARGETS:
            return {"targets": [{"targetId": name} for name in (shown.target, *shown.frames)]}
        if method.partition(".")[0] not in _ALLOWED_DOMAINS and method not in _ALLOWED:
            domains = ", ".join(sorted(_ALLOWED_DOMAINS | _METHODS.keys()))
            raise UserError(
                f"{one_line(method, 60)} is not allowed here: it concerns more than this page.",
                hint=f"Allowed are {_TARGETS} and much of {domains}.",
            )
        self._tabs.check_dialogs()
        sessions = {"": shown.session, shown.target: shown.session, **shown.frames}
        if target not in sessions:
            raise UserError(f"There is no target “{one_line(target, 60)}”.", hint=f"Call {_TARGETS}.")
        return await self._call(method, params, session=sessions[target], seconds=seconds)

    # --- the browser ---

    async def _call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        session: str | None = None,
        seconds: float = 0.0,
    ) -> dict[str, Any]:
        tab = self._tabs.shown
        at, limit = tab.session if session is None else session, seconds or self._tabs.rules.seconds
        try:
            return await self._tabs.connection.call(method, params, session=at, seconds=limit)
        except Unreachable:
            tab.broken = True
            raise

    async def _ask_for(self, expression: str) -> dict[str, Any]:
        how = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        limit = self._tabs.rules.seconds * 900  # milliseconds: it is stopped before nobody waits any more
        return await self._call("Runtime.evaluate", {"expression": expression, "timeout": limit, **how})

    async def _evaluate(self, expression: str) -> Any:
        return (await self._ask_for(expression))["result"].get("value")

    async def _on_node(self, method: str, session: str, node: int) -> dict[str, Any]:
        try:
            return await self._call(method, {"backendNodeId": node}, session=session)
        except Refused as error:
            hint = "Take a new snapshot: the page has changed."
            raise UserError(f"The element cannot be used: {error}", hint=hint) from None

    async def _run_on(self, session: str, node: int, function: str, *arguments: str) -> Any:
        resolved = await self._on_node("DOM.resolveNode", session, node)
        call = {
            "functionDeclaration": function,
            "objectId": resolved["object"]["objectId"],
            "arguments": [{"value": each} for each in arguments],
            "returnByValue": True,
            "userGesture": True,
        }
        return (await self._call("Runtime.callFunctionOn", call, session=session))["result"].get("value")
