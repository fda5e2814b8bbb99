"""The fake model server on the wire: each fault does what its name says, seen through a plain socket.

`answer_in` is a small client's judgement of what came back; it holds every entry of `FAULTS` to its word.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import os
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from hermes.domain.models.usage import Usage
from hermes.testing import model_server
from hermes.testing.clock import settle
from hermes.testing.model_script import FAULTS, WORDS, Call, ModelRequest, Pace, Reply, Said, script_from_json
from hermes.testing.model_server import Ended, FakeModelServer, refusing_address, unreachable_address

pytestmark = [pytest.mark.asyncio, pytest.mark.filterwarnings("error")]

Json = dict[str, Any]
QUIET = 0.3
PATIENCE = 30.0
EVENT_END = b'"finish_reason": null}]}\n\n'


def fault_named_by_user(request: ModelRequest) -> Said:
    return FAULTS[request.last_user_message].reply


def asked(text: str, *, stream: bool = True, **more: object) -> Json:
    return {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}], **more}


@dataclass
class Wire:
    """Everything that came back, how the connection ended, and whether the HTTP body was complete."""

    head: bytes
    body: bytes
    end: str
    complete: bool = False

    @property
    def status(self) -> int:
        return int(self.head.split()[1]) if self.head else 0

    @property
    def headers(self) -> dict[str, str]:
        lines = (line.split(": ", 1) for line in self.head.decode().split("\r\n")[1:] if line)
        return {name.lower(): text for name, text in lines}

    @property
    def chunks(self) -> list[Json]:
        return [json.loads(line[6:]) for line in self.body.split(b"\n") if line.startswith(b"data: {")]

    @property
    def choices(self) -> list[Json]:
        return [choice for chunk in self.chunks for choice in chunk["choices"]]

    @property
    def deltas(self) -> list[Json]:
        return [choice["delta"] for choice in self.choices]

    @property
    def text(self) -> str:
        return "".join(delta.get("content") or "" for delta in self.deltas)

    @property
    def calls(self) -> list[Json]:
        return [call for delta in self.deltas for call in delta.get("tool_calls", ())]

    @property
    def arguments(self) -> str:
        return "".join(call["function"]["arguments"] for call in self.calls)

    @property
    def finish(self) -> str | None:
        return next((choice["finish_reason"] for choice in self.choices if choice["finish_reason"]), None)


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", urlsplit(url).port)


def posted(body: Json, *headers: str) -> bytes:
    content = json.dumps(body).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: x", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


async def read_some(reader: asyncio.StreamReader, quiet: float) -> bytes:
    """What comes next; a TimeoutError if nothing does. The server lives in this loop: if it was the loop that
    stood still, it speaks in the turns that the loop makes now."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(quiet):
            return await reader.read(1 << 20)
    await settle()
    async with asyncio.timeout(0.05):
        return await reader.read(1 << 20)


async def wire(url: str, body: Json, *headers: str, **limits: float) -> Wire:
    """Post over a bare socket; stop at its end, at `enough` bytes, after a `quiet` time, or in `total`."""
    enough, quiet = limits.get("enough", 10_000_000), limits.get("quiet", PATIENCE)
    reader, writer = await connect(url)
    writer.write(posted(body, "Connection: close", *headers))
    raw, end, until = bytearray(), "", time.monotonic() + limits.get("total", PATIENCE)
    while not end:
        try:
            data = await read_some(reader, quiet)
        except TimeoutError:
            end = "stalled"
        except ConnectionResetError:
            end = "reset"
        else:
            raw += data
            end = "closed" if not data else "enough" if len(raw) >= enough or time.monotonic() > until else ""
    writer.transport.abort()
    await asyncio.sleep(0)
    head, _, content = bytes(raw).partition(b"\r\n\r\n")
    seen = Wire(head, content, end)
    length = seen.headers.get("content-length")
    seen.body, seen.complete = (content, len(content) == int(length)) if length else unchunked(content)
    return seen


def unchunked(data: bytes) -> tuple[bytes, bool]:
    parts: list[bytes] = []
    start = 0
    while (line_end := data.find(b"\r\n", start)) >= 0:
        size = int(data[start:line_end], 16)
        if size == 0:
            return b"".join(parts), True
        parts.append(data[line_end + 2 : line_end + 2 + size])
        start = line_end + 2 + size + 2
    return b"".join(parts), False


async def wire_of(said: Said | str, body: Json | None = None, **limits: float) -> Wire:
    async with FakeModelServer([FAULTS[said].reply if isinstance(said, str) else said]) as server:
        return await wire(server.base_url, body or asked("hello"), **limits)


def answer_in(seen: Wire) -> tuple[str, list[object]]:
    """The text and the arguments of each call, or an error if this is no whole and sound reply."""
    if seen.status != 200 or not seen.complete or len(seen.body) > 4_000_000:
        raise ValueError(f"{seen.status} {seen.end}")
    body = gzip.decompress(seen.body) if seen.headers.get("content-encoding") == "gzip" else seen.body
    said = body.decode("utf-8-sig").replace("\r\n", "\n")
    if said.startswith("{"):
        choice = json.loads(said)["choices"][0]
        text, calls = choice["message"]["content"] or "", list(choice["message"].get("tool_calls", ()))
        finish = choice["finish_reason"] or "none was needed"
    else:
        text, calls, finish = streamed_answer(said)
    if finish in (None, "content_filter") or not all(isinstance(call, dict) for call in calls):
        raise ValueError(f"ended by {finish}")
    return joined_halves(text), [call["function"]["arguments"] for call in calls]


def joined_halves(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def streamed_answer(said: str) -> tuple[str, list[Json], str | None]:
    text, finish = "", None
    calls: dict[int, Json] = {}
    for event in said.split("\n\n"):
        data = "\n".join(line[5:] for line in event.split("\n") if line.startswith("data:"))
        if data.strip() == "[DONE]":
            finish = finish or ("none was needed" if text else None)
            continue
        for choice in json.loads(data)["choices"] if data else ():
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
            for part in choice["delta"].get("tool_calls", []):
                known = calls.setdefault(part.get("index", 0), part)
                if known is not part:
                    known["function"]["arguments"] += part["function"]["arguments"]
    return text, list(calls.values()), finish


@pytest.mark.parametrize("stream", [True, False])
async def test_every_fault_ends_as_it_says(stream: bool) -> None:
    async def ending(name: str) -> tuple[str, list[object]] | None:
        limits = {"quiet": 1.0, "total": 1.0} if name.startswith(("never", "stall", "endless")) else {}
        seen = await wire(server.base_url, asked(name, stream=stream), **limits)
        try:
            return answer_in(seen)
        except (ValueError, LookupError, TypeError, AttributeError, OSError):
            return None

    async with FakeModelServer(fault_named_by_user) as server:
        endings = await asyncio.gather(*(ending(name) for name in FAULTS))
    for (name, fault), ended in zip(FAULTS.items(), endings, strict=True):
        if fault.ends == "error" and (stream or not fault.stream_only):
            assert ended is None, name
        else:
            assert isinstance(fault.reply, Reply)
            arguments = [call.arguments for call in fault.reply.calls]
            assert ended == (joined_halves(fault.reply.text or ""), arguments), name
    assert len(FAULTS) >= 40


async def test_a_stream_says_the_same_as_a_whole_reply() -> None:
    calls = (Call(id="a", name="f", arguments='{"x": "ü"}'), Call(id="b", name="g"))
    usage = Usage(prompt=7, completion=5, cached=3, reasoning=2)
    reply = Reply(text="Grüße 世界 😀", reasoning="think", calls=calls, usage=usage, pace=Pace(sizes=(1, 3)))
    body = asked("x", stream_options={"include_usage": True})
    streamed = await wire_of(reply, body)
    whole = json.loads((await wire_of(reply, asked("x", stream=False))).body)
    message = whole["choices"][0]["message"]
    assert streamed.text == message["content"] == reply.text
    assert "".join(one.get("reasoning_content", "") for one in streamed.deltas) == reply.reasoning
    assert message["reasoning_content"] == reply.reasoning
    assert streamed.finish == whole["choices"][0]["finish_reason"] == "tool_calls"
    *before, last = streamed.chunks
    assert {chunk["usage"] for chunk in before} == {None}
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
    assert whole["usage"]["total_tokens"] == 12
    first, *pieces = [call for call in streamed.calls if call["index"] == 0]
    assert first == {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert all(set(piece) == {"index", "function"} for piece in pieces)
    assert streamed.arguments == "".join(one["function"]["arguments"] for one in message["tool_calls"])
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert (await wire_of(reply, body)).body == streamed.body
    assert "usage" not in (await wire_of(reply)).chunks[0]


async def test_models_keys_and_unknown_paths() -> None:
    known = {"Authorization": "Bearer sesame"}
    async with FakeModelServer(key="sesame", models=("a", "b")) as server, aiohttp.ClientSession() as session:
        root = server.base_url.removesuffix("/v1")
        async with session.get(f"{root}/v1/models", headers=known) as response:
            assert [model["id"] for model in (await response.json())["data"]] == ["a", "b"]
        for path, status in (("/v1/models", 401), ("/api/tags", 404), ("/api/show?x=1", 404)):
            async with session.get(root + path) as response:
                assert response.status == status
        for headers, status in (({}, 401), ({"Authorization": "Bearer no"}, 401), (known, 400)):
            async with session.post(f"{root}/v1/chat/completions", headers=headers, json={}) as response:
                assert response.status == status
                assert set((await response.json())["error"]) == {"message", "type", "param", "code"}
    first, *_, last = server.requests
    assert (first.method, first.path, first.body) == ("GET", "/v1/models", None)
    assert first.headers["authorization"] == "Bearer sesame"
    assert (last.method, last.path, last.body) == ("POST", "/v1/chat/completions", {})
    assert first.at <= last.at <= datetime.now(UTC)
    assert [exchange.request for exchange in server.exchanges] == [seen.number for seen in server.requests]


async def test_scripts_answer_in_order_by_rule_and_by_echo() -> None:
    cut = {"text": "hello", "pace": {"sizes": [2]}, "cut": {"after": "he", "then": "end"}}
    called = {"calls": [{"name": "f"}], "usage": {"prompt": 3}}
    failing = {"match": r"^fail\b", "reply": {"fault": "overloaded"}}
    script: Json = {"rules": [failing], "replies": [cut, {"status": 418}, called]}
    async with FakeModelServer(script_from_json(script)) as server:
        assert (await wire(server.base_url, asked("fail now"))).status == 529
        assert (await wire(server.base_url, asked("x"))).body.endswith(b'"content": "he')
        assert (await wire(server.base_url, asked("x"))).status == 418
        assert (await wire(server.base_url, asked("x"))).calls[0]["function"]["name"] == "f"
        assert b"script_exhausted" in (await wire(server.base_url, asked("x"))).body
    async with FakeModelServer(script_from_json(script | {"repeat_last": True})) as server:
        seen = [(await wire(server.base_url, asked("x"))).body for _ in range(5)]
        assert [b"tool_calls" in body for body in seen] == [False, False, True, True, True]
    async with FakeModelServer(script_from_json({"rules": [failing]})) as server:
        assert (await wire(server.base_url, asked("so, fail?"))).text == "so, fail?"
    for wrong in ({"replies": [{"fault": "no"}]}, {"replies": [{"txt": ""}]}, {"rules": [{"match": "("}]}):
        with pytest.raises(ValueError, match="not a model script"):
            script_from_json(wrong)


async def test_pace_delays_the_first_byte_and_each_event() -> None:
    began = time.monotonic()
    seen = await wire_of(Reply(text="abcd", pace=Pace(first_byte=0.1, between=0.05, sizes=(1,))))
    assert [delta.get("content") for delta in seen.deltas] == ["", "a", "b", "c", "d", None]
    assert 0.1 + 5 * 0.05 <= time.monotonic() - began < PATIENCE


@pytest.mark.parametrize(
    ("name", "status", "within"),
    [
        ("rate_limited", 429, b'"rate_limit_exceeded"'),
        ("quota_used_up", 429, b'"insufficient_quota"'),
        ("server_error", 500, b'"server_error"'),
        ("bad_gateway", 502, b'"server_error"'),
        ("unavailable", 503, b'"server_error"'),
        ("overloaded", 529, b'"overloaded_error"'),
        ("unauthorized", 401, b'"invalid_api_key"'),
        ("forbidden", 403, b'"unsupported_country"'),
        ("model_not_found", 404, b'"model_not_found"'),
        ("context_too_long", 400, b'"context_length_exceeded"'),
        ("html_error_page", 502, b"<!DOCTYPE html>"),
        ("html_page_as_success", 200, b"<!DOCTYPE html>"),
        ("plain_text_as_success", 200, b"upstream"),
        ("error_body_as_success", 200, b'{"error": {'),
        ("json_body_to_stream", 200, b'"object": "chat.completion",'),
    ],
)
async def test_a_whole_body_has_its_status_and_words(name: str, status: int, within: bytes) -> None:
    seen = await wire_of(name)
    assert (seen.status, seen.complete, within in seen.body) == (status, True, True)
    kind = "text/html" if "html" in name else "text/plain" if "plain" in name else "application/json"
    assert seen.headers["content-type"] == kind
    assert "retry-after" not in seen.headers


async def test_retry_after_comes_as_seconds_or_as_a_date() -> None:
    assert (await wire_of("rate_limited_for_seconds")).headers["retry-after"] == "2"
    assert (await wire_of("unavailable_for_seconds")).headers["retry-after"] == "1"
    assert (await wire_of("rate_limited_for_a_day")).headers["retry-after"] == "86400"
    told = (await wire_of("rate_limited_until_date")).headers["retry-after"]
    assert told.endswith(" GMT")
    assert -PATIENCE < (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds() <= 3


CUT_FAULTS = [name for name in FAULTS if name.startswith(("never", "stall", "close", "reset", "clean"))]
LAST_BYTES = {
    "close_in_sse_line": b'"content": "three',
    "close_in_utf8_character": b"\xf0\x9f",
    "stall_in_arguments": b'{\\"path\\": \\"notes',
    "close_in_arguments": b'{\\"path\\": \\"notes',
}
VISIBLE_TEXT = {"before_first_text": "", "after_words": "One two three ", "before_finish": WORDS}


@pytest.mark.parametrize("name", CUT_FAULTS)
async def test_a_cut_stream_ends_where_it_says(name: str) -> None:
    stalls = name.startswith(("never", "stall"))
    seen = await wire_of(name, quiet=QUIET if stalls else PATIENCE)
    assert seen.end == ("stalled" if stalls else "reset" if name.startswith("reset") else "closed")
    assert seen.complete == name.startswith("clean")
    assert bool(seen.head) == (name != "never_answers" and "before_headers" not in name)
    if name == "never_answers" or "headers" in name:
        assert seen.body == b""
        return
    assert seen.body.endswith(LAST_BYTES.get(name, EVENT_END))
    if name not in LAST_BYTES:
        assert seen.finish is None
        assert seen.text == next((text for part, text in VISIBLE_TEXT.items() if part in name), WORDS)


async def test_a_whole_reply_is_cut_in_the_middle_too() -> None:
    body = asked("x", stream=False)
    closed = await wire_of("close_after_words", body)
    assert (closed.end, closed.complete) == ("closed", False)
    assert 0 < len(closed.body) < int(closed.headers["content-length"])
    ended = await wire_of("clean_end_after_words", body)
    assert (ended.complete, "content-length" in ended.headers) == (True, False)
    assert (await wire_of("stall_after_words", body, quiet=QUIET)).end == "stalled"


@pytest.mark.parametrize(
    ("name", "enough", "again"),
    [
        ("endless_dribble", 8_000, b'"content": "la "'),
        ("endless_comments", 2_500, b": keep-alive\n\n"),
        ("endless_big_deltas", 8_000_000, b'"content": "xxxx'),
        ("endless_reasoning", 8_000_000, b'"reasoning_content": "hmm '),
        ("endless_arguments", 8_000_000, b'"tool_calls": [{"index": 0, "function": {"arguments": "   '),
    ],
)
async def test_an_endless_stream_ends_when_the_client_leaves(name: str, enough: int, again: bytes) -> None:
    async with FakeModelServer([FAULTS[name].reply]) as server:
        seen = await wire(server.base_url, asked("x"), enough=enough)
        assert (seen.end, seen.complete) == ("enough", False)
        assert seen.body.count(again) > 5
        await until(server.exchanges, 1)
        assert server.exchanges[0].ended is Ended.CLIENT_LEFT


async def until(happened: list[Any], count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(happened) < count:  # noqa: ASYNC110 - a server in another loop turn fills a plain list
            await asyncio.sleep(0.01)


async def test_framing_oddities_are_there_byte_for_byte() -> None:
    async def body(name: str) -> bytes:
        return (await wire_of(name)).body

    assert b"[DONE]" not in await body("missing_done")
    assert b'"stop"' in await body("missing_done")
    assert b'"stop"' not in await body("done_without_finish")
    assert (await body("done_without_finish")).endswith(EVENT_END + b"data: [DONE]\n\n")
    assert b'"choices": [{"del\n\ndata: {' in await body("invalid_json_line")
    assert (await body("error_in_stream")).endswith(EVENT_END)
    assert EVENT_END + b'data: {"error"' in await body("error_in_stream")
    assert max(map(len, (await body("huge_line")).split(b"\n"))) > 5_000_000
    assert (await body("empty_body_as_success")) == b""
    assert (await wire_of("odd_content_type")).headers["content-type"] == "application/octet-stream"
    assert (await body("gzip")).startswith(b"\x1f\x8b")
    assert (await wire_of("false_gzip")).headers["content-encoding"] == "gzip"
    assert (await body("false_gzip")).startswith(b"data: ")
    assert b": OPENROUTER PROCESSING\n\n:\ndata: {" in await body("comments")
    assert (await body("other_fields")).startswith(b"event: message\nid: 7\nretry: 10\ndata: {")
    assert (await body("crlf")).endswith(b"}\r\n\r\ndata: [DONE]\r\n\r\n")
    assert (await body("no_space_after_colon")).startswith(b"data:{")
    assert (await body("many_data_lines")).startswith(b'data: {\ndata:  "id": "chatcmpl-000001",\n')
    assert (await body("byte_order_mark")).startswith(b"\xef\xbb\xbfdata: {")
    assert b"\\ud83d" in await body("surrogate_halves")
    assert b"\\ud83d\\ude00" not in await body("surrogate_halves")


async def test_bytes_of_one_character_come_in_separate_transfer_chunks() -> None:
    async with FakeModelServer([FAULTS["byte_by_byte"].reply]) as server, aiohttp.ClientSession() as session:
        async with session.post(f"{server.base_url}/chat/completions", json=asked("x")) as response:
            pieces = [data async for data, _ in response.content.iter_chunks() if data]
    assert {len(piece) for piece in pieces} == {1}
    assert "😀".encode() in b"".join(pieces)


async def test_odd_shapes_are_sent_as_they_are() -> None:
    assert (await wire_of("empty_choices")).choices == []
    assert [delta.get("content") for delta in (await wire_of("empty_content")).deltas] == ["", None]
    assert (await wire_of("null_content")).deltas[0] == {"role": "assistant", "content": None}
    assert (await wire_of("content_number")).deltas[1] == {"content": 42}
    assert isinstance((await wire_of("tool_calls_object")).deltas[1]["tool_calls"], dict)
    assert (await wire_of("finish_length")).finish == "length"
    assert (await wire_of("finish_length_in_arguments")).finish == "length"
    assert (await wire_of("finish_content_filter")).finish == "content_filter"
    assert (await wire_of("finish_unknown")).finish == "eos"
    assert (await wire_of("finish_stop_with_calls")).finish == "stop"
    assert (await wire_of("unknown_tool")).calls[0]["function"]["name"] == "no_such_tool"
    assert len({call["id"] for call in (await wire_of("many_calls")).calls if "id" in call}) == 500
    doubled = (await wire_of("duplicate_call_ids")).calls
    assert [call["id"] for call in doubled if "id" in call] == ["call_1", "call_1"]
    assert {call["index"] for call in doubled} == {0, 1}
    assert not any("id" in call for call in (await wire_of("missing_call_ids")).calls)
    assert not any("index" in call for call in (await wire_of("missing_call_index")).calls)
    assert (await wire_of("arguments_object")).calls[0]["function"]["arguments"]["path"] == "notes.txt"
    assert json.loads((await wire_of("arguments_not_object")).arguments) == ["notes.txt", "x"]
    assert (await wire_of("words_and_call")).text == WORDS


async def test_garbage_arguments_are_no_json() -> None:
    for name in ("empty", "truncated", "trailing_comma", "single_quotes", "python_literals"):
        arguments = (await wire_of(f"arguments_{name}")).arguments
        with pytest.raises(json.JSONDecodeError):
            json.loads(arguments)


async def test_ports_that_refuse_and_ports_that_never_connect() -> None:
    with refusing_address() as url, pytest.raises(ConnectionRefusedError):
        await connect(url)
    with unreachable_address() as url, pytest.raises(TimeoutError):
        async with asyncio.timeout(QUIET):
            await connect(url)


async def test_closing_ends_stalled_and_unread_streams_and_leaks_nothing() -> None:
    names = ("never_answers", "stall_after_words", "endless_big_deltas", "endless_dribble")
    async with FakeModelServer(fault_named_by_user) as server:
        writers = [(await connect(server.base_url))[1] for _ in names]
        for name, writer in zip(names, writers, strict=True):
            writer.write(posted(asked(name)))
        await until(server.requests, len(names))
        await asyncio.sleep(0.05)
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE
    assert [exchange.ended for exchange in server.exchanges] == [Ended.SERVER_CLOSED] * len(names)
    with pytest.raises(ConnectionRefusedError):
        await connect(server.base_url)
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    gc.collect()
    async with server:
        assert (await wire(server.base_url, asked("overloaded"))).status == 529


async def test_the_process_serves_logs_and_stops_on_sigterm(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps({"replies": [{"text": "from afar"}, {"fault": "close_after_words"}]}))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes.testing.model_server", "--port", "0", "--key", "sesame"),
        *("--script", str(script), "--log", str(log)),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(model_server.__file__).parents[2])},
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    known = "Authorization: Bearer sesame"
    assert (await wire(url, asked("hi"), known)).text == "from afar"
    assert not (await wire(url, asked("hi again"), known)).complete
    process.terminate()
    assert await process.wait() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["what"] for line in lines] == ["request", "exchange"] * 2
    assert lines[0]["body"]["messages"][0]["content"] == "hi"
    assert "sesame" not in log.read_text()
    assert [line["ended"] for line in lines[1::2]] == ["sent", "cut"]
