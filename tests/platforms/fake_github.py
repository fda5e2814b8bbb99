"""A GitHub with one issue, behind the endpoint that the adapter uses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from hermes.domain.address import Address
from hermes.testing.platform_suite import Fault

ISSUE = Address(platform="github", chat="me/it", thread="7")


class FakeGithub:
    """Comments of one issue, behind the two endpoints that the adapter uses."""

    def __init__(self) -> None:
        self.chat = ISSUE
        self.bodies: list[str] = []
        self.tokens: set[str] = set()
        self.asked: list[str] = []
        self._fault: Fault | None = None
        self.url = ""

    def seen(self) -> list[str]:
        """Comments as people see them: what is between `<!--` and `-->` is hidden."""
        return [body.partition("<!--")[0].strip() for body in self.bodies]

    def fail_next(self, fault: Fault | None) -> None:
        self._fault = fault

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.tokens.add(request.headers["Authorization"])
        self.asked.append(f"{request.method} {request.path_qs}")
        match self._fault:
            case Fault.GONE:
                return web.json_response({"message": "Not Found"}, status=404)
            case Fault.REVOKED:
                return web.json_response({"message": "Bad credentials"}, status=401)
            case Fault.TOO_FAST | Fault.TOO_FAST_ALL as fault:
                # Both sorts tell the seconds; the secondary limit answers 403.
                status = 429 if fault is Fault.TOO_FAST else 403
                return web.json_response(
                    {"message": "slow down"}, status=status, headers={"Retry-After": "3"}
                )
            case Fault.BROKEN:
                return web.json_response({"message": "oops"}, status=502)
        if request.method == "POST":
            self.bodies.append((await request.json())["body"])
            assert len(self.bodies[-1]) <= 65_536
            return web.json_response({"id": len(self.bodies)}, status=201)
        page, size = int(request.query.get("page", 1)), int(request.query["per_page"])
        known = [{"id": number, "body": body} for number, body in enumerate(self.bodies, 1)]
        pages = max(1, -(-len(known) // size))
        link = f'<{self.url}?page={pages}&x=1>; rel="last"'
        headers = {"Link": link} if page < pages else {}
        return web.json_response(known[(page - 1) * size : page * size], headers=headers)


@asynccontextmanager
async def fake_github() -> AsyncIterator[FakeGithub]:
    stage = FakeGithub()
    app = web.Application()
    app.router.add_route("*", "/repos/me/it/issues/7/comments", stage.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stage.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield stage
    finally:
        await runner.cleanup()
