"""The kill matrix with the real provider: the model is a server in the test, so it outlives every process;
and what it is asked after each crash must be something that a service accepts."""

from __future__ import annotations

import random
import re
from pathlib import Path

from hermes.testing.model_script import Call, ModelRequest, Pace, Reply, message_text
from hermes.testing.model_server import Ended, FakeModelServer
from tests.crash.matrix import CASES, MESSAGES, each_case, survives
from tests.crash.wire import refused, wire_problems

_TOKEN = re.compile(r"m\d+")
_TOOL = re.compile(r"\b(read|keyed|once|danger)\b")
_PIECES = Pace(between=0.002, sizes=(9,))


def obedient(request: ModelRequest) -> Reply:
    """What `testing.model.obedient` does, told from the wire: the tools that the last message names, one a
    round, then an answer with the message's token."""
    messages = request.messages
    place = max(at for at, one in enumerate(messages) if one["role"] == "user")
    said = message_text(messages[place])
    done = sum(one["role"] == "tool" for one in messages[place:])
    token = _TOKEN.search(said)
    name = token.group() if token else "nobody"
    tools = _TOOL.findall(said)
    if done < len(tools):
        call = Call(id=f"{name}-{done}", name=tools[done], arguments=f'{{"token": "{name}"}}')
        return Reply(text=None, calls=(call,), pace=_PIECES)
    return Reply(text=f"answer to {name}: all {done} tools were used as you wished", pace=_PIECES)


def server_problems(server: FakeModelServer) -> list[str]:
    """Requests that a service would refuse, and more answers left unread than a kill explains."""
    left = sum(one.ended is not Ended.SENT for one in server.exchanges)
    most = len({chat for _, chat in MESSAGES})  # the turns that can run when the process is killed
    return refused(server) + ([f"{left} answers were left unread"] if left > most else [])


@each_case(set(random.Random("real provider").sample(CASES, 6)))
async def test_killed_there_with_a_model_server_the_history_stays_whole(
    tmp_path: Path, point: str, kind: str, occurrence: int
) -> None:
    async with FakeModelServer(obedient) as server:
        await survives(tmp_path, (point, kind, occurrence), model=server.base_url)
        assert server_problems(server) == []
        assert len(server.requests) >= len(MESSAGES) + 8, "a model call for each round and each answer"


def test_what_a_service_would_refuse_is_found() -> None:
    user, said = {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}
    calls = {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}
    results = [{"role": "tool", "tool_call_id": one} for one in ("b", "a")]
    assert wire_problems([user, calls, *results, said, user]) == []
    assert len(wire_problems([user, calls, results[0], user])) == 1
    assert len(wire_problems([user, calls])) == 2
    assert len(wire_problems([user, results[0]])) == 1
