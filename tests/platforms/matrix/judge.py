"""Runs programs with matrix-nio in the environment that has it, and says what it has to see."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from tests.foreign.environments import ROOT, python_of
from tests.platforms.matrix.bed import MatrixBed


async def heard(client: str, *arguments: str, environment: str = "matrix") -> dict[str, Any]:
    """What a client printed; it gets our sources and nothing else of our surroundings but the path."""
    python = await asyncio.to_thread(python_of, environment)
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(ROOT / "tests" / "foreign" / "clients" / client),
        *arguments,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 600)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-4000:]
    return json.loads(out)


async def judged(bed: MatrixBed, password: str) -> dict[str, Any]:
    """What matrix-nio sees as the bot of a bed."""
    async with bed:
        text = await bed.ann.say(bed.chat.chat, "hello")
        await bed.ann.call("POST", "createRoom", invite=[bed.bot.id])
        found = await heard("matrix_nio.py", bed.front.url, bed.bot.id, password, bed.chat.chat, text)
        names = {bed.ann.id: "ann", bed.bot.id: "hermes"}
        found["members"] = sorted(names[one] for one in found["members"])
        found["login"], found["seen"][1] = names[found["login"]], names[found["seen"][1]]
        return found


EXPECTED = {
    "wrong password": "LoginError",
    "login": "hermes",
    "rooms": [2, 1],
    "joined": "JoinResponse",
    "seen": ["hello", "ann"],
    "members": ["ann", "hermes"],
    "once": True,
    "typing": "RoomTypingResponse",
    "file": True,
    "no file": "M_NOT_FOUND",
    "news": ["RoomMessageText", "RoomMessageText", "ReactionEvent", "RedactedEvent", "RedactionEvent"],
    "deleted": "RedactedEvent",
    "no event": "M_NOT_FOUND",
    "history": [3, True, False],
    "reactions": ["👍"],
    "forbidden": "M_FORBIDDEN",
    "made": ["RoomCreateResponse", "New"],
    "unknown token": "M_UNKNOWN_TOKEN",
}
