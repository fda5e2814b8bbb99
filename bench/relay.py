"""A bare aiohttp relay in a process of its own: what comes from the model server goes out as it is. A stream
through the gateway is compared with it. `python -m bench.relay <model address>` prints its port."""

from __future__ import annotations

import asyncio
import sys

import aiohttp
from aiohttp import web


async def _serve(url: str) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def relay(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            headers = {"Content-Type": "application/json"}
            async with session.post(f"{url}/chat/completions", data=body, headers=headers) as asked:
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(request)
                while data := await asked.content.readany():
                    await response.write(data)
                return response

        app = web.Application()
        app.router.add_post("/v1/chat/completions", relay)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(_serve(sys.argv[1]))
    except ImportError:
        asyncio.run(_serve(sys.argv[1]))
