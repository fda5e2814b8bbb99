"""What services cache of a session's prompt: the bytes that stay, the breakpoints, the keys, and why a cache
was missed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats import load_format
from hermes.domain.errors import ModelFault
from hermes.domain.ids import CallId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.providers import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS, CODEX_RESPONSES, CacheStyle
from hermes.domain.models.usage import CacheMiss, Usage
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Entry, Kept, ModelSaid, Record, ToolFinished, UserSaid
from hermes.domain.word import replace
from hermes.testing.model_script import Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import A_TOOL, KEY, ask, hear
from tests.effort import effort

MARKED = f"{CHAT_COMPLETIONS} with marks"
FORMATS = (CHAT_COMPLETIONS, MARKED, CODEX_RESPONSES, ANTHROPIC_MESSAGES)
MARK = b',"cache_control":{"type":"ephemeral"}'
CLOSING = {ANTHROPIC_MESSAGES: b"]}]}", MARKED: b"]}]}"}
SEALS: dict[str, object] = {
    ANTHROPIC_MESSAGES: [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"text": 5}],
    CODEX_RESPONSES: [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "s"}],
}
OTHER_TOOL = replace(A_TOOL, name="other")


def entry(seq: int, record: Record) -> Entry:
    return replace(ask("x").entries[0], seq=seq, record=record)


def session(name: str, turns: int, calls: int = 3) -> Iterator[list[Record]]:
    """What each request of a session adds: turns with a tool loop, some with many calls at once."""
    kept = Kept(format=name, model="claude-x", text=json.dumps(SEALS.get(name, {})))
    for turn in range(turns):
        made = tuple(
            ToolCall(id=CallId(f"c{turn}_{number}"), name="write_file", arguments='{"path": "a"}')
            for number in range(12 if turn % 5 == 4 else calls)
        )
        reply = [ModelSaid(text=f"Done {turn - 1}.")] if turn else []
        yield [*reply, UserSaid(text=f"Do {turn}, please.")]
        yield [
            ModelSaid(text="Wait.", calls=made, kept=kept),
            *(ToolFinished(call=call.id, text=f"result of {call.id}") for call in made),
        ]


def requests(name: str, turns: int = 20) -> Iterator[ModelRequest]:
    entries: list[Entry] = []
    memory: dict[str, object] = {}
    for records in session(name, turns):
        entries += [entry(len(entries) + place, record) for place, record in enumerate(records)]
        request = replace(ask("x", tools=[A_TOOL, OTHER_TOOL]), model="claude-x", cache_key="key")
        yield replace(request, entries=list(entries), memory=memory)


def endpoint_of(name: str) -> ModelEndpoint:
    style = CacheStyle.MARKS if name == MARKED else CacheStyle.AUTOMATIC
    return ModelEndpoint(base_url="http://here/v1", caching=style, facts=lambda model: ModelFacts())


def encode(name: str, request: ModelRequest) -> bytes:
    return load_format(CHAT_COMPLETIONS if name == MARKED else name).encode(request, endpoint_of(name))


# --- the bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_the_prefix_of_a_session_never_changes_by_a_byte(name: str) -> None:
    """Over 20 turns with tools, whatever was sent is the beginning of what is sent next; only breakpoints
    move. A session that was let go and comes back sends the same."""
    before = b""
    for request in requests(name):
        body = encode(name, request)
        assert body == encode(name, replace(request, memory={})), "a warm prompt is not the cold one"
        plain = body.replace(MARK, b"")
        assert plain.startswith(before)
        assert json.loads(body)["model"] == "claude-x"
        closing = CLOSING.get(name, b"]}")
        assert plain.endswith(closing)
        before = plain.removesuffix(closing)
    assert len(before) > 15_000


@pytest.mark.parametrize("name", FORMATS)
def test_turn_500_costs_what_turn_10_did(name: str) -> None:
    costs = [effort(lambda: encode(name, request)) for request in requests(name, 500)]  # noqa: B023
    early, late = (max(costs[2 * turn : 2 * turn + 10]) for turn in (10, 490))
    assert late <= 1.2 * early


# --- breakpoints -------------------------------------------------------------------------------------


def blocks_of(body: dict[str, Any]) -> list[tuple[str, bool]]:
    """The blocks of a prompt in the order in which they are cached, and which of them are breakpoints."""
    blocks = [*body["tools"], *body.get("system", ())]
    for message in body["messages"]:
        content = message.get("content") or []
        inner = [content] if isinstance(content, str) else content
        blocks += [{"role": message["role"], "block": block} for block in inner]
        blocks += [{"call": call} for call in message.get("tool_calls", ())]
    marked = []
    for block in blocks:
        text = json.dumps(block)
        plain = text.replace(', "cache_control": {"type": "ephemeral"}', "")
        marked.append((plain, text != plain))
    return marked


class AnthropicCache:
    """What platform.claude.com/docs/en/build-with-claude/prompt-caching says: written at breakpoints, found
    at most 20 blocks before one."""

    def __init__(self) -> None:
        self._written: set[int] = set()

    def read(self, blocks: list[tuple[str, bool]]) -> int:
        """How many blocks are found; then this prompt is written."""
        prefixes = [0]
        for text, _ in blocks:
            prefixes.append(hash((prefixes[-1], text)))
        marks = [place for place, (_, marked) in enumerate(blocks, 1) if marked]
        assert len(marks) <= 4, "the service takes four at most"
        places = (place for mark in marks for place in range(mark, max(0, mark - 20), -1))
        found = max((place for place in places if prefixes[place] in self._written), default=0)
        self._written |= {prefixes[mark] for mark in marks}
        return found


@pytest.mark.parametrize("name", [ANTHROPIC_MESSAGES, MARKED])
def test_each_request_finds_all_of_the_one_before_it(name: str) -> None:
    """Also behind a turn with 12 calls at once, which is more than the 20 blocks a service looks back."""
    cache, before = AnthropicCache(), 0
    for number, request in enumerate(requests(name)):
        blocks = blocks_of(json.loads(encode(name, request)))
        found = cache.read(blocks)
        assert found >= before, f"request {number} found {found} blocks of {before}"
        before = len(blocks)
    assert before > 200


def test_tools_and_system_are_cached_for_other_sessions_too() -> None:
    cache, (first, *_) = AnthropicCache(), requests(ANTHROPIC_MESSAGES)
    cache.read(blocks_of(json.loads(encode(ANTHROPIC_MESSAGES, first))))
    other = replace(first, entries=[entry(0, UserSaid(text="else"))], memory={})
    assert cache.read(blocks_of(json.loads(encode(ANTHROPIC_MESSAGES, other)))) == 3
    another = replace(other, system="Be long.", memory={})
    assert cache.read(blocks_of(json.loads(encode(ANTHROPIC_MESSAGES, another)))) == 2


def test_how_long_it_is_kept_is_told() -> None:
    (request, *_) = requests(ANTHROPIC_MESSAGES)
    assert b'"ttl"' not in encode(ANTHROPIC_MESSAGES, replace(request, cache_ttl="5m"))
    hour = json.loads(encode(ANTHROPIC_MESSAGES, replace(request, cache_ttl="1h")))
    assert hour["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert encode(MARKED, replace(request, cache_ttl="1h")).count(b'"ttl":"1h"') == 2


def test_who_takes_a_key_gets_one_and_nobody_else() -> None:
    (request, *_) = requests(CODEX_RESPONSES)
    for name in (CHAT_COMPLETIONS, CODEX_RESPONSES):
        keyed = replace(endpoint_of(name), caching=CacheStyle.KEY)
        assert json.loads(load_format(name).encode(request, keyed))["prompt_cache_key"] == "key"
        assert b"prompt_cache_key" not in encode(name, request)


def test_models_that_cache_by_themselves_get_no_marks() -> None:
    (request, *_) = requests(MARKED)
    assert MARK in encode(MARKED, request)
    assert MARK not in encode(MARKED, replace(request, model="openai/gpt-5", memory={}))


# --- misses ------------------------------------------------------------------------------------------

FLOOR = 1000


class Talk:
    """A session whose service says what it found in its cache."""

    def __init__(self, server: FakeModelServer) -> None:
        self.server = server
        endpoint = ModelEndpoint(
            base_url=server.base_url,
            key=Secret(KEY),
            caching=CacheStyle.MARKS,
            facts=lambda model: ModelFacts(cache_floor=FLOOR),
        )
        self.provider = HttpProvider(endpoint, load_format(ANTHROPIC_MESSAGES))
        self.request = replace(ask("hi"), tools=(A_TOOL,), memory={}, cache_ttl="5m")
        self.used = Usage()

    async def call(self, cached: int, prompt: int = 5000, **fields: Any) -> CacheMiss | None:
        self.used = Usage(prompt=prompt, completion=1, cached=cached)
        self.request = replace(self.request, **fields)
        end = (await hear(self.provider, self.request)).whole
        entries = [*self.request.entries]
        for record in (ModelSaid(text="ok", usage=end.usage), UserSaid(text="more")):
            entries.append(entry(len(entries), record))
        self.request = replace(self.request, entries=entries)
        return end.cache_miss


async def test_why_a_cache_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    async with FakeModelServer(lambda request: Reply(text="ok", usage=talk.used), key=KEY) as server:
        talk = Talk(server)
        assert await talk.call(0, prompt=900) is CacheMiss.BELOW_FLOOR
        assert await talk.call(0) is CacheMiss.BELOW_FLOOR, "what came before was not cached"
        assert await talk.call(4800) is None
        now += 301
        assert await talk.call(0) is CacheMiss.EXPIRED
        assert await talk.call(0) is CacheMiss.UNEXPLAINED
        assert await talk.call(0, tools=(A_TOOL, OTHER_TOOL)) is CacheMiss.TOOLS_CHANGED
        assert await talk.call(100, model="other-model") is CacheMiss.MODEL_CHANGED
        assert await talk.call(0, system="Another.") is CacheMiss.PREFIX_CHANGED
        assert await talk.call(0, entries=talk.request.entries[2:]) is CacheMiss.PREFIX_CHANGED
        assert await talk.call(0, entries=[entry(0, UserSaid(text="new"))], memory={}) is CacheMiss.FIRST_CALL
        assert await talk.call(0, memory={}) is None, "after a restart nobody can tell"
        await talk.provider.close()


async def test_a_cache_that_nobody_knows_of_is_not_missed() -> None:
    async with FakeModelServer(key=KEY) as server:
        endpoint = ModelEndpoint(base_url=server.base_url, key=Secret(KEY))
        provider = HttpProvider(endpoint, load_format(CHAT_COMPLETIONS))
        assert (await hear(provider, ask("hi"))).whole.cache_miss is None
        await provider.close()


async def test_a_call_that_failed_leaves_no_trace() -> None:
    async with FakeModelServer([], key=KEY) as server:
        talk = Talk(server)
        assert isinstance((await hear(talk.provider, talk.request)).error, ModelFault)
        assert "cache trace" not in talk.request.memory
        await talk.provider.close()
