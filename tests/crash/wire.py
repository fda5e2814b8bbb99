"""What a model service would refuse, told from the requests that a fake one got."""

from __future__ import annotations

from typing import Any

from hermes.testing.model_server import FakeModelServer


def refused(server: FakeModelServer) -> list[str]:
    """Requests that a service would refuse, and those that this one did."""
    problems = [problem for request in server.requests for problem in wire_problems(request.messages)]
    answered = [one for one in server.exchanges if one.status not in (200, None)]
    return problems + [f"request {one.request} got {one.status}" for one in answered]


def wire_problems(messages: list[dict[str, Any]]) -> list[str]:
    """Why a service would refuse these messages: calls without their results, results without their call."""
    problems: list[str] = []
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                problems.append(f"{number}: a result of {message['tool_call_id']}, which is not open")
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            problems.append(f"{number}: {message['role']} while {sorted(open_calls)} have no result")
        open_calls = {call["id"] for call in message.get("tool_calls", ())}
    return problems + [f"at the end {call} has no result" for call in open_calls]
