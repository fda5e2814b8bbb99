"""A small browser that is none: it speaks the DevTools protocol over a websocket and shows one page, with
what Chromium says in its place. `test_browser_protocol.py` puts the same questions to both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

PAGE = """<title>Small</title><h1>Hello</h1><button onclick="alert('hi')">Greet</button>
<input aria-label="Name" value="Ann"><a href="/small?2">On</a><p>words</p>"""


def _node(number: int, role: str, name: str = "", value: str = "", **states: object) -> dict[str, Any]:
    properties = [{"name": key, "value": {"value": state}} for key, state in states.items()]
    return {
        "nodeId": str(number),
        "backendDOMNodeId": number,
        "role": {"value": role},
        "name": {"value": name},
        "value": {"value": value},
        "properties": properties,
    }


NODES = [
    {**_node(1, "RootWebArea", "Small", focusable=True), "childIds": ["2", "3", "4", "5", "6"]},
    {**_node(2, "heading", "Hello", level=1), "childIds": ["7"], "parentId": "1"},
    {**_node(7, "StaticText", "Hello"), "parentId": "2"},
    {**_node(3, "button", "Greet", focusable=True), "parentId": "1"},
    {**_node(4, "textbox", "Name", "Ann", focusable=True), "parentId": "1"},
    {**_node(5, "link", "On", focusable=True), "parentId": "1"},
    {**_node(6, "paragraph"), "childIds": ["8"], "parentId": "1"},
    {**_node(8, "StaticText", "words"), "parentId": "6"},
]


class FakeChromium:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.checked: list[str] = []
        self.hangs = False
        self.lacks = self.stuck = ""
        self._numbers = count(1)
        self._paused: dict[str, tuple[str, asyncio.Future[str]]] = {}
        self._clicked: asyncio.Future[None] | None = None
        self.url = "about:blank"

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"webSocketDebuggerUrl": f"ws://{request.host}/devtools/browser/1"})

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        answering: set[asyncio.Task[None]] = set()
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                task = asyncio.create_task(self._answer(socket, json.loads(message.data)))
                answering.add(task)
                task.add_done_callback(answering.discard)
        for task in answering:
            task.cancel()
        return socket

    async def _answer(self, socket: web.WebSocketResponse, call: dict[str, Any]) -> None:
        self.asked.append(call["method"])
        if self.hangs or call["method"] == self.stuck:
            return
        answer: dict[str, Any] = {"id": call["id"]}
        try:
            answer["result"] = await self._result(socket, call["method"], call["params"])
        except KeyError:
            answer["error"] = {"code": -32601, "message": f"'{call['method']}' wasn't found"}
        await socket.send_json(answer)

    async def _result(self, socket: web.WebSocketResponse, method: str, params: dict[str, Any]) -> Any:
        async def tell(event: str, **words: object) -> None:
            await socket.send_json({"method": event, "params": words, "sessionId": "tab"})

        if method == self.lacks:
            raise KeyError(method)
        match method:
            case "Target.createBrowserContext":
                return {"browserContextId": "own"}
            case "Target.createTarget":
                return {"targetId": "frame"}
            case "Target.attachToTarget":
                return {"sessionId": "tab"}
            case "Target.getTargetInfo":
                return {"targetInfo": {"targetId": "frame", "url": self.url, "title": "Small"}}
            case "Page.navigate":
                name = f"request-{next(self._numbers)}"
                verdict: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                self._paused[name] = (params["url"], verdict)
                await tell("Fetch.requestPaused", requestId=name, request={"url": params["url"]})
                if await verdict != "Fetch.continueRequest":
                    return {"frameId": "frame", "errorText": "net::ERR_BLOCKED_BY_CLIENT"}
                self.url = params["url"]
                await tell("Page.frameStartedLoading", frameId="frame")
                await tell("Page.frameStoppedLoading", frameId="frame")
                return {"frameId": "frame", "loaderId": "loader"}
            case "Fetch.continueRequest" | "Fetch.failRequest":
                url, verdict = self._paused.pop(params["requestId"])
                self.checked.append(url)
                verdict.set_result(method)
                return {}
            case "Runtime.evaluate":
                return {"result": {"type": "object", "value": [9, 20, 200]}}
            case "Accessibility.getFullAXTree":
                return {"nodes": NODES}
            case "DOM.resolveNode":
                return {"object": {"objectId": str(params["backendNodeId"])}}
            case "Runtime.callFunctionOn":
                return {"result": {"type": "boolean", "value": True}}
            case "DOM.getContentQuads":
                return {"quads": [[0, 0, 10, 0, 10, 10, 0, 10]]}
            case "Input.dispatchMouseEvent" if params["type"] == "mouseReleased":
                self._clicked = asyncio.get_running_loop().create_future()
                await tell("Page.javascriptDialogOpening", type="alert", message="hi", defaultPrompt="")
                await self._clicked
                return {}
            case "Page.handleJavaScriptDialog":
                assert self._clicked is not None
                self._clicked.set_result(None)
                await tell("Page.javascriptDialogClosed", result=params["accept"])
                return {}
        if method.endswith(".enable") or method in _QUIET:
            return {}
        raise KeyError(method)


_NOTHING_TOLD = """Browser.setDownloadBehavior Target.setDiscoverTargets Target.setAutoAttach
    Target.closeTarget Input.dispatchMouseEvent DOM.scrollIntoViewIfNeeded Target.disposeBrowserContext
    Runtime.runIfWaitingForDebugger"""
_QUIET = frozenset(_NOTHING_TOLD.split())


@asynccontextmanager
async def open_fake() -> AsyncIterator[tuple[FakeChromium, str]]:
    fake, app = FakeChromium(), web.Application()
    app.router.add_get("/json/version", fake.version)
    app.router.add_get("/devtools/browser/1", fake.serve)
    async with TestServer(app) as server:
        yield fake, f"http://127.0.0.1:{server.port}"
