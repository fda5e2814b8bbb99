"""A Modal whose sandboxes are folders of this machine and whose commands run here. It speaks the messages of
the SDK's own `modal_proto` over gRPC, and that SDK judges it. The service that makes sandboxes and the router
of their commands are at one address."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message_factory import GetMessageClass
from grpclib import GRPCError, Status
from grpclib.const import Cardinality, Handler
from grpclib.server import Server
from modal_proto import api_pb2 as api
from modal_proto import task_command_router_pb2 as router

from hermes.execution.process_tree import descendants

PIECE = 1 << 16
JWT = ".".join(
    base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
    for part in ({"alg": "none"}, {"exp": int(time.time()) + 36000}, "x")
)


@dataclass
class FakeExec:
    process: asyncio.subprocess.Process
    read: int = 0
    written: int = 0


@dataclass
class FakeSandbox:
    id: str
    definition: Any
    folder: Path
    runs: bool = True
    execs: dict[str, FakeExec] = field(default_factory=dict)

    @property
    def task(self) -> str:
        return f"ta-{self.id.removeprefix('sb-')}V"


class FakeModal:
    """`token` lets in. Sandboxes of one name have their files at one path, one after another."""

    def __init__(self, token: tuple[str, str], folder: Path) -> None:
        self.token, self.folder, self.url = token, folder, ""
        self.quota = 100
        self.slow = False
        """Whether making a sandbox takes longer than anybody waits."""
        self.full = False
        """Whether sandboxes take no further process."""
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.images: dict[str, str] = {}
        """How long each snapshot is to be kept, and the name of what is to be fetched for other images."""
        self.snapshots = 0
        self.stuck = asyncio.Event()
        """Snapshots wait until it is set."""
        self.stuck.set()
        (folder / "images").mkdir(parents=True)
        (folder / "homes").mkdir()

    async def listen(self) -> None:
        server = Server([_Service(self, api, "ModalClient"), _Service(self, router, "TaskCommandRouter")])
        await server.start("127.0.0.1", 0)
        self._server = server
        port = server._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def running(self) -> list[FakeSandbox]:
        return [sandbox for sandbox in self.sandboxes.values() if sandbox.runs]

    async def end(self, sandbox: FakeSandbox) -> None:
        """As when its container ends: all its processes, and all its files."""
        if not sandbox.runs:
            return
        sandbox.runs = False
        for each in sandbox.execs.values():
            while left := [pid for pid in (*descendants(each.process.pid), each.process.pid) if _kill(pid)]:
                if left == [each.process.pid]:
                    break
                await asyncio.sleep(0.01)
            await each.process.wait()
        await asyncio.to_thread(shutil.rmtree, sandbox.folder)

    # --- the service ---

    async def AppGetOrCreate(self, asked: Any) -> Any:
        return api.AppGetOrCreateResponse(app_id="ap-1")

    async def AuthTokenGet(self, asked: Any) -> Any:
        return api.AuthTokenGetResponse(token=JWT)

    async def EnvironmentGetOrCreate(self, asked: Any) -> Any:
        settings = api.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api.EnvironmentMetadata(name="main", settings=settings)
        return api.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)

    async def ImageGetOrCreate(self, asked: Any) -> Any:
        name = asked.image.dockerfile_commands[0].removeprefix("FROM ")
        status = api.GenericResult.GENERIC_STATUS_SUCCESS
        result = api.GenericResult(status=status)
        if name.startswith("bad"):
            result = api.GenericResult(
                status=api.GenericResult.GENERIC_STATUS_FAILURE, exception=f"{name}: not found"
            )
        image = f"im-{uuid.uuid4().hex}"
        self.images[image] = name
        (self.folder / "images" / image).mkdir()
        return api.ImageGetOrCreateResponse(image_id=image, result=result)

    async def ImageFromId(self, asked: Any) -> Any:
        self._check_image(asked.image_id)
        return api.ImageFromIdResponse(image_id=asked.image_id)

    async def SandboxCreateV2(self, asked: Any) -> Any:
        self._check_image(asked.definition.image_id)
        if self.slow:
            await asyncio.sleep(3600)
        if len(self.running()) >= self.quota:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "too many sandboxes for this plan")
        name = asked.definition.name
        if any(each.definition.name == name for each in self.running()):
            raise GRPCError(Status.ALREADY_EXISTS, f"a sandbox named {name} runs")
        folder = self.folder / "homes" / name
        await _copy(self.folder / "images" / asked.definition.image_id, folder)
        sandbox = FakeSandbox(f"sb-{uuid.uuid4().hex}", asked.definition, folder)
        self.sandboxes[sandbox.id] = sandbox
        return api.SandboxCreateV2Response(sandbox_id=sandbox.id, task_id=sandbox.task)

    async def SandboxGetFromNameV2(self, asked: Any) -> Any:
        for each in self.running():
            if each.definition.name == asked.sandbox_name:
                return api.SandboxGetFromNameResponse(sandbox_id=each.id)
        raise GRPCError(Status.NOT_FOUND, "no sandbox of that name")

    SandboxGetFromName = SandboxGetFromNameV2

    async def SandboxGetTaskIdV2(self, asked: Any) -> Any:
        return api.SandboxGetTaskIdResponse(task_id=self._find(asked.sandbox_id).task)

    async def SandboxWaitV2(self, asked: Any) -> Any:
        status = api.GenericResult.GENERIC_STATUS_TERMINATED
        runs = self._find(asked.sandbox_id).runs
        return api.SandboxWaitResponse(result=None if runs else api.GenericResult(status=status))

    async def SandboxTerminateV2(self, asked: Any) -> Any:
        await self.end(self._find(asked.sandbox_id))
        return api.SandboxTerminateResponse()

    async def SandboxGetCommandRouterAccess(self, asked: Any) -> Any:
        self._find(asked.sandbox_id)
        return api.SandboxGetCommandRouterAccessResponse(url=self.url, jwt=JWT)

    # --- the router of commands ---

    async def TaskExecStart(self, asked: Any) -> Any:
        sandbox = self._task(asked.task_id)
        if self.full:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "too many processes")
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(sandbox.folder)}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *asked.command_args, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL,
            cwd=sandbox.folder, env=env, start_new_session=True, limit=PIECE,
        )  # fmt: skip
        sandbox.execs[asked.exec_id] = FakeExec(process)
        return router.TaskExecStartResponse()

    async def TaskExecStdinWrite(self, asked: Any) -> Any:
        running = self._task(asked.task_id).execs[asked.exec_id]
        assert asked.offset <= running.written
        stdin = running.process.stdin
        assert stdin is not None
        with contextlib.suppress(ConnectionError):
            stdin.write(asked.data[running.written - asked.offset :])
            running.written = asked.offset + len(asked.data)
            await stdin.drain()
            if asked.eof:
                stdin.close()
        return router.TaskExecStdinWriteResponse()

    async def TaskExecStdioRead(self, asked: Any, stream: Any) -> None:
        sandbox = self._task(asked.task_id)
        if asked.file_descriptor != router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT:
            return
        running = sandbox.execs[asked.exec_id]
        stdout = running.process.stdout
        assert stdout is not None and asked.offset == running.read
        while data := await stdout.read(PIECE):
            running.read += len(data)
            await stream.send_message(router.TaskExecStdioReadResponse(data=data))
        self._task(asked.task_id)

    async def TaskExecWait(self, asked: Any) -> Any:
        running = self._task(asked.task_id).execs[asked.exec_id]
        code = await running.process.wait()
        self._task(asked.task_id)
        return (
            router.TaskExecWaitResponse(code=code) if code >= 0 else router.TaskExecWaitResponse(signal=-code)
        )

    async def TaskSnapshotFilesystem(self, asked: Any) -> Any:
        sandbox = self._task(asked.task_id)
        await self.stuck.wait()
        image = f"im-{uuid.uuid4().hex}"
        await _copy(sandbox.folder, self.folder / "images" / image)
        self.images[image] = str(asked.ttl_seconds)
        self.snapshots += 1
        return router.TaskSnapshotFilesystemResponse(image_id=image)

    # --- what is known ---

    def _find(self, id: str) -> FakeSandbox:
        if id not in self.sandboxes:
            raise GRPCError(Status.NOT_FOUND, f"no sandbox {id}")
        return self.sandboxes[id]

    def _task(self, task: str) -> FakeSandbox:
        for each in self.running():
            if each.task == task:
                return each
        raise GRPCError(Status.NOT_FOUND, "the sandbox has ended")

    def _check_image(self, image: str) -> None:
        if image not in self.images:
            raise GRPCError(Status.NOT_FOUND, f"no image {image}")

    def check(self, service: str, metadata: Any) -> None:
        if service == "ModalClient":
            given = (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret"))
            allowed = given == self.token
        else:
            allowed = metadata.get("authorization") == f"Bearer {JWT}"
        if not allowed:
            raise GRPCError(Status.UNAUTHENTICATED, "the token is not valid")


class _Service:
    """What the fake has of a service, under the names and with the messages of its description."""

    def __init__(self, fake: FakeModal, module: Any, name: str) -> None:
        self._fake, self._name = fake, name
        self._described = module.DESCRIPTOR.services_by_name[name]

    def __mapping__(self) -> dict[str, Handler]:
        return {
            f"/{self._described.full_name}/{method.name}": Handler(
                self._serve(method),
                Cardinality.UNARY_STREAM if method.server_streaming else Cardinality.UNARY_UNARY,
                GetMessageClass(method.input_type),
                GetMessageClass(method.output_type),
            )
            for method in self._described.methods
            if hasattr(self._fake, method.name)
        }

    def _serve(self, method: Any) -> Any:
        work = getattr(self._fake, method.name)

        async def serve(stream: Any) -> None:
            asked = await stream.recv_message()
            self._fake.check(self._name, stream.metadata)
            if method.server_streaming:
                await work(asked, stream)
            else:
                await stream.send_message(await work(asked))

        return serve


async def _copy(source: Path, to: Path) -> None:
    copy = await asyncio.create_subprocess_exec("cp", "-a", "-T", str(source), str(to))
    assert await copy.wait() == 0


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
