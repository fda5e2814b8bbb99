"""Pages of every kind on loopback, and a browser that finds them by name as if they were on the web."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from hermes.domain.ids import AgentId
from hermes.domain.ports.world import OPEN_NETWORK
from hermes.domain.settings.browser import BrowserSettings
from hermes.execution.browser.host import BrowserHost
from hermes.execution.egress.client import EgressClient
from hermes.execution.egress.parts import EgressParts
from hermes.testing.clock import FakeClock
from tests.execution.egress_site import HOST, INSIDE, OTHER, open_proxy, reach
from tests.execution.fake_cdp import PAGE

FORM = """<title>Form</title><h1>Order</h1><form action="/done" method="get">
<label>Name <input name="name" value="old"></label><label>Note <textarea name="note"></textarea></label>
<label>Size <select name="size"><option>small</option><option value="L">large</option></select></label>
<label>Day <input type="date" name="day"></label><label>Pass <input type="password" name="pass"></label>
<label><input type="checkbox" name="gift" value="yes"> Gift</label><button>Send</button></form>
<div contenteditable aria-label="Free" tabindex="0">before</div>"""
SHADOW = """<title>Shadow</title><div id="open"></div><div id="closed"></div><script>
for (const mode of ['open', 'closed']) {
  const root = document.getElementById(mode).attachShadow({mode});
  root.innerHTML = `<button>${mode} button</button>`;
  root.firstChild.onclick = () => console.log(mode + ' was clicked');
}</script>"""
DIALOGS = """<title>Dialogs</title>
<button onclick="console.log('said ' + prompt('How many?', '3'))">Ask</button>
<button onclick="alert('hello'); console.log('after')">Alert</button>
<button onclick="for (;;) alert('again')">Loop</button>"""


class Pages:
    """Serves pages and notes which paths were asked for."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.inside: list[str] = []
        self.asked_inside: list[str] = []
        self.port = 0

    def url(self, path: str, host: str = HOST) -> str:
        return f"http://{host}:{self.port}{path}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request.path_qs)
        known = {"/form": FORM, "/shadow": SHADOW, "/dialogs": DIALOGS, "/small": PAGE, **self._written()}
        if request.path in known:
            return web.Response(text=known[request.path], content_type="text/html")
        match request.path:
            case "/done":
                return web.Response(text=f"<title>Done</title><p>{sorted(request.query.items())}</p>",
                                    content_type="text/html")  # fmt: skip
            case "/to":
                return web.Response(status=302, headers={"Location": request.query["u"]})
            case "/file":
                return web.Response(
                    body=b"data", headers={"Content-Disposition": "attachment; filename=a.zip"}
                )
            case "/large":
                words = (
                    b"<title>Large</title><p>begins here</p>" + b"<p>" + b"some words of a page " * 2_500_000
                )
                return web.Response(body=words, content_type="text/html")
            case "/endless" | "/never":
                response = web.StreamResponse(headers={"Content-Type": "text/html"})
                if request.path == "/endless":
                    await response.prepare(request)
                    await response.write(b"<title>Endless</title><h1>First words</h1>" + b" " * 2000)
                await asyncio.sleep(3600)
                return response
            case "/socket":
                socket = web.WebSocketResponse()
                await socket.prepare(request)
                async for message in socket:
                    if message.type is WSMsgType.TEXT:
                        await socket.send_str(f"echo {message.data}")
                return socket
        return web.Response(status=404)

    def _written(self) -> dict[str, str]:
        inside = self.url("/secret", INSIDE)
        return {
            "/frames": f"<title>Frames</title><h1>Outer</h1><iframe src='/form'></iframe>"
            f"<iframe src='{self.url('/shadow', OTHER)}'></iframe>",
            "/popups": "<title>Popups</title><button onclick=\"window.open('/form')\">One</button>"
            "<button onclick=\"for (let i = 0; i < 20; i++) window.open('/shadow?' + i)\">Many</button>",
            "/reach": f"""<title>Reach</title><img src="{inside}"><script>
              fetch("{inside}", {{mode: 'no-cors'}}).catch(() => 0);
              fetch("http://127.0.0.2:{self.port}/secret", {{mode: 'no-cors'}}).catch(() => 0);
              fetch("http://169.254.169.254/latest", {{mode: 'no-cors'}}).catch(() => 0);
              fetch("/to?u={inside}", {{mode: 'no-cors'}}).catch(() => 0);
              new WebSocket("ws://{INSIDE}:{self.port}/secret").onerror = () => console.log('socket refused');
              const own = new WebSocket("ws://{HOST}:{self.port}/socket");
              own.onopen = () => own.send('hi'); own.onmessage = e => console.log(e.data);
            </script>""",
            "/ways-out": f"""<title>Ways out</title><iframe src="{self.url('/way-out', OTHER)}"></iframe>
              <button onclick="window.open('{inside}?popup')">Open</button>
              <script>new SharedWorker("data:text/javascript,fetch('{inside}?worker', {{mode: 'no-cors'}})");
              new Worker("data:text/javascript,postMessage('works')").onmessage = e => console.log(e.data);
              </script>""",
            "/way-out": f"<img src='{inside}?frame'>",
            "/bare": "<title>Bare</title>" + "<p>word</p>" * 3 + "<img src='/a.png' alt='a picture'>"
            "<div style='height:5000px'></div><script>console.warn('careful'); null.x</script>",
        }  # fmt: skip

    async def note_inside(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.inside.append("somebody came")
        if line := await reader.readline():
            self.asked_inside.append(line.decode())
        writer.close()


@asynccontextmanager
async def open_pages() -> AsyncIterator[Pages]:
    pages = Pages()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", pages.answer)
    async with TestServer(app) as server:
        pages.port = server.port or 0
        forbidden = await asyncio.start_server(pages.note_inside, "127.0.0.2", pages.port)
        try:
            yield pages
        finally:
            forbidden.close()


@asynccontextmanager
async def open_browser(folder: Path, environ: dict[str, str], **settings: Any) -> AsyncIterator[BrowserHost]:
    chosen = BrowserSettings(**{"command_timeout": 40.0, **settings})
    async with open_proxy(folder) as proxy:
        client = EgressClient(EgressParts(reach=reach))
        host = BrowserHost(
            environ,
            lambda: chosen,
            FakeClock(),
            lambda: proxy.open(AgentId("browser"), OPEN_NETWORK),
            client.check,
        )
        try:
            yield host
        finally:
            await host.close()
