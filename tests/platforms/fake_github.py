"""A GitHub with one issue, behind the endpoint that the adapter uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from aiohttp import web

from hermes.domain.chats.address import Address
from hermes.testing.platform_suite import Fault
from hermes.testing.served import Route, ServedFake

ISSUE = Address(platform="github", chat="me/it", thread="7")


@dataclass
class FakeGithub(ServedFake):
    """Comments of one issue, behind the two endpoints that the adapter uses."""

    chat: Address = ISSUE
    bodies: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def routes(self) -> Iterable[Route]:
        yield "*", "/repos/me/it/issues/7/comments", self.answer

    def seen(self) -> list[str]:
        """Comments as people see them: what is between `<!--` and `-->` is hidden."""
        return [body.partition("<!--")[0].strip() for body in self.bodies]

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.GONE:
                return web.json_response({"message": "Not Found"}, status=404)
            case Fault.REVOKED:
                return web.json_response({"message": "Bad credentials"}, status=401)
        # Both sorts tell the seconds; the secondary limit answers 403.
        status = 429 if fault is Fault.TOO_FAST else 403
        return web.json_response({"message": "slow down"}, status=status, headers={"Retry-After": "3"})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.tokens.add(request.headers["Authorization"])
        self.asked.append(f"{request.method} {request.path_qs}")
        return await self.troubled(request, ISSUE.chat, lambda: self._answer(request))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
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
