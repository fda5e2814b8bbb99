"""A Daytona whose sandboxes are folders of this machine and whose commands run here. Routes, bodies and the
terminal's messages are those that the SDK `daytona` 0.226.1 sends and reads, and that SDK judges them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web


@dataclass
class FakeSandbox:
    id: str
    name: str
    folder: Path
    order: dict[str, Any]
    state: str = "started"
    asked: int = 0
    """How often somebody said that it is still wanted."""
    shells: dict[str, int] = field(default_factory=dict)
    """The first process of each terminal."""

    def end(self) -> None:
        for pid in self.shells.values():
            _kill_tree(pid)
        self.shells.clear()


@dataclass
class FakeDaytona:
    key: str
    folder: Path
    url: str = ""
    sandboxes: dict[str, FakeSandbox] = field(default_factory=dict)
    """By id."""
    made: int = 0

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._checked])
        router = app.router
        router.add_post("/api/sandbox", self._create)
        router.add_get("/api/sandbox/{id}", self._get)
        router.add_post("/api/sandbox/{id}/start", self._start)
        router.add_post("/api/sandbox/{id}/stop", self._stop)
        router.add_post("/api/sandbox/{id}/last-activity", self._stay)
        router.add_delete("/api/sandbox/{id}", self._delete)
        router.add_get("/asked", self._asked)
        router.add_get("/toolbox/{id}/process/pty/create-connect", self._terminal)
        router.add_delete("/toolbox/{id}/process/pty/{terminal}", self._kill)
        return app

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path != "/asked" and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"message": "Unauthorized", "statusCode": 401}, status=401)
        response: web.StreamResponse = await handler(request)
        return response

    def _find(self, request: web.Request) -> FakeSandbox:
        asked = request.match_info["id"]
        for sandbox in self.sandboxes.values():
            if asked in (sandbox.id, sandbox.name):
                return sandbox
        raise web.HTTPNotFound(text=json.dumps({"message": f"Sandbox {asked} not found", "statusCode": 404}))

    def _told(self, sandbox: FakeSandbox) -> web.Response:
        order = sandbox.order
        return web.json_response(
            {
                "id": sandbox.id, "organizationId": "o", "name": sandbox.name, "user": "daytona", "env": {},
                "labels": order.get("labels", {}), "public": False, "kvm": False, "target": "local", "cpu": 1,
                "networkBlockAll": order.get("networkBlockAll", False), "gpu": 0, "memory": 1, "disk": 1,
                "state": sandbox.state, "toolboxProxyUrl": f"{self.url}/toolbox",
            }
        )  # fmt: skip

    async def _create(self, request: web.Request) -> web.Response:
        order = await request.json()
        if "many" in str(order.get("buildInfo")):
            return web.json_response({"message": "Sandbox limit exceeded", "statusCode": 403}, status=403)
        if "bad" in str(order.get("buildInfo")):
            return web.json_response({"message": "image bad:1 does not exist", "statusCode": 400}, status=400)
        name = order["name"]
        self.made += 1
        sandbox = FakeSandbox(f"id-{self.made}", name, self.folder / name, order)
        sandbox.folder.mkdir(parents=True)
        self.sandboxes[sandbox.id] = sandbox
        return self._told(sandbox)

    async def _get(self, request: web.Request) -> web.Response:
        return self._told(self._find(request))

    async def _start(self, request: web.Request) -> web.Response:
        sandbox = self._find(request)
        sandbox.state = "started"
        return self._told(sandbox)

    async def _stop(self, request: web.Request) -> web.Response:
        sandbox = self._find(request)
        sandbox.end()
        sandbox.state = "stopped"
        if sandbox.order.get("autoDeleteInterval") == 0:
            self._remove(sandbox)
        return self._told(sandbox)

    async def _asked(self, request: web.Request) -> web.Response:
        return web.Response(text=str(sum(sandbox.asked for sandbox in self.sandboxes.values())))

    async def _stay(self, request: web.Request) -> web.Response:
        self._find(request).asked += 1
        return web.Response()

    async def _delete(self, request: web.Request) -> web.Response:
        sandbox = self._find(request)
        sandbox.end()
        self._remove(sandbox)
        return self._told(sandbox)

    def _remove(self, sandbox: FakeSandbox) -> None:
        del self.sandboxes[sandbox.id]
        shutil.rmtree(sandbox.folder)
        sandbox.state = "destroyed"

    async def _terminal(self, request: web.Request) -> web.WebSocketResponse:
        sandbox = self._find(request)
        if sandbox.state != "started":
            raise web.HTTPBadRequest(text=json.dumps({"message": "the sandbox is not running"}))
        socket = web.WebSocketResponse(protocols=("X-Daytona-Pty-Exit-Control",), max_msg_size=0)
        await socket.prepare(request)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(sandbox.folder), "TERM": "xterm"}
        pid, master = pty.fork()
        if not pid:
            os.chdir(sandbox.folder)
            os.execve("/bin/bash", ["bash", "--norc", "-i"], env)
        sandbox.shells[request.query["id"]] = pid
        await socket.send_json({"type": "control", "status": "connected"})
        heard = asyncio.create_task(_hear(socket, master, pid))
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    await _in_thread(_write, master, message.data)
        finally:
            _kill_tree(pid)
            heard.cancel()
            await asyncio.wait((heard,))
        return socket

    async def _kill(self, request: web.Request) -> web.Response:
        pid = self._find(request).shells.pop(request.match_info["terminal"], 0)
        if pid:
            _kill_tree(pid)
        return web.json_response({})


async def _hear(socket: web.WebSocketResponse, master: int, pid: int) -> None:
    try:
        while True:
            try:
                data = await _in_thread(os.read, master, 1 << 16)
            except OSError:
                break
            if not data:
                break
            await socket.send_bytes(data)
        _, status = await _in_thread(os.waitpid, pid, 0)
        code = os.waitstatus_to_exitcode(status)
        await socket.close(message=json.dumps({"exitCode": code}).encode())
    finally:
        os.close(master)


_THREADS = ThreadPoolExecutor(200)
"""Each terminal holds one, and the usual pool is small."""


async def _in_thread(function: Any, *given: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, function, *given)


def _write(master: int, data: bytes) -> None:
    view = memoryview(data)
    with contextlib.suppress(OSError):
        while view:
            view = view[os.write(master, view) :]


def _kill_tree(pid: int) -> None:
    """As a container's end does."""
    from hermes.execution.process_tree import descendants

    for each in (*descendants(pid), pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
