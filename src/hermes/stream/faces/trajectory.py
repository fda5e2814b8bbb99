"""A conversation as a training sample: turns of `system`, `human`, `gpt` and `tool`, with thoughts, calls and
results between tags, as models of the Hermes family are trained on. Takes what is visible of a transcript."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes.domain.ids import CallId
from hermes.domain.tools.tool import Tool, ToolCall
from hermes.domain.turns.chat_format import as_message
from hermes.domain.turns.event import Entry, ModelSaid, Record, Summarised, ToolFinished, UserSaid
from hermes.domain.turns.thoughts import without_thoughts
from hermes.stream.fold.steps import thoughts_of

PREAMBLE = (
    "You answer with the help of functions. Their signatures, as JSON, are between the <tools> tags. To call "
    "one, write a JSON object with its name and arguments between <tool_call> tags; its result comes back "
    "between <tool_response> tags. Think between <think> tags before you speak or call.\n<tools>\n{tools}\n"
    "</tools>"
)
SAMPLES, FAILED_SAMPLES = "trajectory_samples.jsonl", "failed_trajectories.jsonl"
"""The files that a program's conversations are added to: those that came to an answer, and the others."""


class Trajectory(Struct, frozen=True, kw_only=True):
    """`tool_stats` and `tool_error_counts` name every tool that was there, also those nobody called."""

    conversations: list[dict[str, str]]
    api_calls: int
    reasoned: bool
    tool_stats: Mapping[str, Mapping[str, int]]
    tool_error_counts: Mapping[str, int]


def make_trajectory(entries: Iterable[Entry], tools: Sequence[Tool]) -> Trajectory:
    records = [entry.record for entry in entries]
    replies = [record for record in records if isinstance(record, ModelSaid)]
    names = {call.id: call.name for reply in replies for call in reply.calls}
    results = [(names.get(record.call, ""), record) for record in records if isinstance(record, ToolFinished)]
    called = Counter(name for name, _ in results)
    failed = Counter(name for name, result in results if result.failed)
    every = dict.fromkeys([*(tool.name for tool in tools), *called])
    return Trajectory(
        conversations=[_system(tools), *_turns(records, names)],
        api_calls=len(replies),
        reasoned=any(map(thoughts_of, replies)),
        tool_stats={
            name: {"count": called[name], "success": called[name] - failed[name], "failure": failed[name]}
            for name in every
        },
        tool_error_counts={name: failed[name] for name in every},
    )


def _system(tools: Sequence[Tool]) -> dict[str, str]:
    signatures = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools
    ]
    return {"from": "system", "value": PREAMBLE.format(tools=_dump(signatures))}


def _turns(records: Iterable[Record], names: Mapping[CallId, str]) -> list[dict[str, str]]:
    turns: list[dict[str, str]] = []
    for record in records:
        match record:
            case UserSaid() | Summarised():
                message = as_message(record)
                _add(turns, "human", "" if message is None else message["content"], "\n\n")
            case ModelSaid():
                _add(turns, "gpt", _spoken(record), "")
            case ToolFinished():
                answer = {"tool_call_id": record.call, "name": names.get(record.call, "")}
                _add(turns, "tool", _tagged("tool_response", answer | {"content": _result(record)}), "\n")
            case _:
                pass
    return turns


def _add(turns: list[dict[str, str]], speaker: str, value: str, glue: str) -> None:
    """Speakers take turns: what one says in several pieces is one turn."""
    if turns and turns[-1]["from"] == speaker:
        turns[-1]["value"] += glue + value
    else:
        turns.append({"from": speaker, "value": value})


def _spoken(reply: ModelSaid) -> str:
    think = f"<think>\n{thoughts_of(reply).strip()}\n</think>"
    calls = [_tagged("tool_call", {"name": call.name, "arguments": _arguments(call)}) for call in reply.calls]
    return "\n".join(part for part in (think, without_thoughts(reply.text).strip(), *calls) if part)


def _arguments(call: ToolCall) -> Any:
    try:
        return json.loads(call.arguments or "{}")
    except ValueError:
        return call.arguments


def _result(result: ToolFinished) -> Any:
    """JSON stays JSON, so that nothing is quoted twice."""
    try:
        return json.loads(result.text)
    except ValueError:
        return result.text


def _tagged(tag: str, value: Mapping[str, Any]) -> str:
    return f"<{tag}>\n{_dump(value)}\n</{tag}>"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
