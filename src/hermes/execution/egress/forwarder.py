"""Runs inside a sandbox: listens on 127.0.0.1 and pipes each connection to a Unix socket, the egress proxy of
the gateway. Standard library alone, one file, so that it can be handed to any Python: `forwarder.py PORT
SOCKET`. Port 0 takes a free one; the port is printed once it listens. It ends with its standard input, if
`--until-stdin-ends` is given."""

import argparse
import asyncio
import contextlib
import sys

MOST = 256
PIECE = 64 * 1024


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, free: asyncio.Semaphore
) -> None:
    onward = sending = None
    try:
        async with free:
            there, onward = await asyncio.open_unix_connection(path)
            sending = asyncio.ensure_future(pipe(reader, onward))
            await pipe(there, writer)  # the proxy ends a connection for both directions
    except OSError:
        pass  # the gateway is gone; the client sees its connection end
    finally:
        if sending is not None:
            sending.cancel()
        for side in (onward, writer):
            if side is not None:
                side.close()


async def serve(port: int, path: str, until_stdin_ends: bool) -> None:
    free = asyncio.Semaphore(MOST)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await forward(reader, writer, path, free)

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    if not until_stdin_ends:
        await server.serve_forever()
    await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> int:
    parser = argparse.ArgumentParser(prog="forwarder")
    parser.add_argument("port", type=int)
    parser.add_argument("socket")
    parser.add_argument("--until-stdin-ends", action="store_true")
    given = parser.parse_args()
    try:
        asyncio.run(serve(given.port, given.socket, given.until_stdin_ends))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"forwarder: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
