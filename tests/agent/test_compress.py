"""Compression by its parts: how a prompt is measured, where it is cut, what is cleared, who summarises."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.context import tokens
from hermes.agent.context.compress import Compressor, Summariser
from hermes.agent.context.cuts import Tail, cuttable, find_cut
from hermes.agent.context.shown import shown
from hermes.agent.context.tokens import fixed_tokens, prompt_tokens, tokens_of
from hermes.agent.context.transcript_messages import Role, messages
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import MAIN_AGENT, CallId, QuestionId, TurnId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage
from hermes.domain.settings.compression import CompressionSettings
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Asked,
    Cleared,
    Entry,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Restored,
    Summarised,
    ToolFinished,
    Undone,
    UserSaid,
)
from hermes.domain.turns.transcript import number_records, visible
from hermes.domain.turns.turn import Guidance, TurnAction, TurnInput
from hermes.state.settings.loader import load_settings
from hermes.testing.model_script import Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.model_server import ModelRequest as ServedRequest
from tests.agent.driving import AT, SESSION, tool
from tests.agent.test_routes import CLIENT

PICTURE = Attachment(kind=MediaKind.IMAGE, ref="https://example.org/cat.png")


def entries(*records: Record, before: list[Entry] | None = None) -> list[Entry]:
    return [*(before or []), *number_records(before or [], TurnId("t"), records, AT)]


def calling(name: str, arguments: str = "{}", id: str = "c") -> ModelSaid:
    return ModelSaid(calls=(ToolCall(id=CallId(id), name=name, arguments=arguments),))


# --- how large a prompt is ---


def test_four_characters_are_a_token_and_a_picture_is_many() -> None:
    assert tokens_of(entries(UserSaid(text="x" * 400))) in range(100, 110)
    assert tokens_of(entries(UserSaid(text="", attachments=(PICTURE,)))) in range(1500, 1510)
    assert fixed_tokens("x" * 400, [tool("t")]) >= 100


def test_the_models_own_count_corrects_ours_and_what_is_new_is_added() -> None:
    said = entries(UserSaid(text="x" * 400), ModelSaid(text="y" * 40, usage=Usage(prompt=5000)), Finished())
    memory: dict[str, object] = {}
    assert prompt_tokens(said, memory, lambda: 0) in range(5000, 5030)
    more = entries(UserSaid(text="z" * 400), before=said)
    assert prompt_tokens(more, memory, lambda: 0) in range(5110, 5140)
    # After a summary only our count is left, and how far it was off before.
    summed = entries(Summarised(upto=3, text="s" * 400), before=more)
    assert prompt_tokens(summed, memory, lambda: 0) > 2 * tokens_of(visible(summed))


def test_a_long_session_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Entry] = []
    for _ in range(500):
        said = entries(UserSaid(text="hi"), ModelSaid(text="ho", usage=Usage(prompt=9)), before=said)
    memory: dict[str, object] = {}
    prompt_tokens(said, memory, lambda: 0)
    counted: list[Record] = []
    real = tokens.record_tokens
    monkeypatch.setattr(tokens, "record_tokens", lambda record, **how: counted.append(record) or real(record))
    prompt_tokens(entries(UserSaid(text="more"), before=said), memory, lambda: 0)
    assert len(counted) == 1


RECORDS = st.sampled_from(
    [
        UserSaid(text="hi", author="Ann"),
        UserSaid(text="ho", author="Bob", attachments=(PICTURE,), notes=(3,)),
        ModelSaid(text="hm", usage=Usage(prompt=700)),
        calling("read", json.dumps({"path": "p" * 900})),
        ToolFinished(call=CallId("c"), text="r" * 900, outside=True),
        Finished(),
        Cleared(upto=3),
        Summarised(upto=2, text="short"),
        Undone(since=2),
        Restored(since=2),
    ]
)


@given(st.lists(RECORDS, max_size=25))
def test_what_is_kept_of_a_warm_session_is_what_a_cold_one_finds(records: list[Record]) -> None:
    memory: dict[str, object] = {}
    said: list[Entry] = []
    for record in records:
        said = entries(record, before=said)
        warm, cold = shown(said, memory), shown(said, {})
        assert warm == cold and warm.entries == visible(said)


# --- where it is cut ---


@given(st.lists(st.integers(0, 4), max_size=20), st.integers(0, 60), st.integers(0, 8))
def test_a_cut_parts_no_call_from_its_result(turns: list[int], size: int, count: int) -> None:
    said: list[Entry] = []
    for number, calls in enumerate(turns):
        made = tuple(ToolCall(id=CallId(f"c{number}.{n}"), name="t", arguments="{}") for n in range(calls))
        results = [ToolFinished(call=call.id, text="r") for call in made]
        steps = [ModelSaid(calls=made), *results] if made else []
        said = entries(UserSaid(text="u" * 40), *steps, ModelSaid(text="done"), Finished(), before=said)
    cut = find_cut(said, Tail(tokens=size, messages=count))
    if cut is None:
        return
    assert cuttable(said)[cut - 1]
    wire = messages(said[cut:])
    open_calls = [call.id for message in wire for call in message.calls]
    assert [message.call for message in wire if message.role is Role.TOOL] == open_calls
    stays = [entry for entry in said[cut:] if not isinstance(entry.record, Finished)]
    assert tokens_of(stays) >= size or len(stays) >= min(count, 8)


# --- what is cleared ---


def test_old_results_arguments_and_pictures_are_told_in_a_line() -> None:
    written = json.dumps({"path": "a.txt", "content": "w" * 5000})
    said = entries(
        UserSaid(text="look", attachments=(PICTURE,)),
        calling("write_file", written, "c1"),
        ToolFinished(call=CallId("c1"), text="r" * 5000),
        calling("delegate", "{}", "c2"),
        Asked(question=QuestionId("q"), kind=QuestionKind.CHILD, text="count", call=CallId("c2")),
        ToolFinished(call=CallId("c2"), text="k" * 5000),
        calling("read", "{}", "c3"),
        ToolFinished(call=CallId("c3"), text="n" * 5000),
    )
    cleared = visible(entries(Cleared(upto=6), before=said))
    first, write, result, _, child, _, newest = messages(cleared)
    assert first.images == () and "attached: image" in first.text
    assert len(write.calls[0].arguments) < 500
    assert json.loads(write.calls[0].arguments)["path"] == "a.txt"
    assert "5000 characters" in result.text and "Call the tool again" in result.text
    assert child.text == "k" * 5000, "nobody can bring again what a child agent brought"
    assert newest.text == "n" * 5000
    assert tokens_of(cleared) < tokens_of(visible(said)) - 2500


# --- a window that is told ---


@pytest.mark.parametrize(
    ("quote", "window"),
    [
        # platform.openai.com: error codes; docs.anthropic.com: errors; llama.cpp pull 15780
        ("This model's maximum context length is 8192 tokens. However, you requested 9001 tokens", 8192),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("input length and `max_tokens` exceed context limit: 148240 + 64000 > 200000, decrease", 200_000),
        ("Request too large for m on tokens per minute (TPM): Limit 8000, Requested 9000", None),
        ("input is too long", None),
    ],
)
def test_a_stated_limit_lowers_the_known_window(quote: str, window: int | None) -> None:
    compressor = of_window(1_000_000)
    compressor.learn("m", ModelFault("too long", kind=FaultKind.TOO_LONG, quote=quote))
    limits = compressor.limits("m")
    assert limits is not None and limits.window == (window or 1_000_000)
    assert limits.trigger < limits.hard < limits.window


def test_what_else_becomes_known_of_a_window_counts_more_than_an_error_before_it() -> None:
    window = 4096
    compressor = of_window(None)
    compressor._facts = lambda model: ModelFacts(window=window)
    quote = "the request exceeds the available context size (4096 tokens), try increasing it"
    compressor.learn("m", ModelFault("too long", kind=FaultKind.TOO_LONG, quote=quote))
    window = 32_768  # the server was started anew
    limits = compressor.limits("m")
    assert limits is not None and limits.window == 32_768


def of_window(window: int | None) -> Compressor:
    async def nobody(model: str) -> Summariser:
        raise AssertionError("nobody is asked")

    return Compressor(
        model="m",
        settings=CompressionSettings,
        facts=lambda model: ModelFacts(window=window),
        choose=nobody,
    )


async def test_a_small_model_summarises_in_several_passes_and_forgets_no_earlier_summary() -> None:
    """What it cannot read at once is for the next pass; what the pass before it made is never cut off."""
    asked: list[str] = []

    async def ask(system: str, words: str) -> tuple[str, Usage]:
        asked.append(words)
        return f"pass {len(asked)} " + "s" * 1500, Usage(prompt=1)

    async def choose(model: str) -> Summariser:
        return Summariser(ask=ask, window=3000)

    compressor = Compressor(
        model="m",
        settings=lambda: CompressionSettings(protect_last_n=2),
        facts=lambda model: ModelFacts(window=8000),
        choose=choose,
    )
    said: list[Entry] = []
    for number in range(30):
        said = entries(
            UserSaid(text=f"m{number} " + "u" * 800), ModelSaid(text="ok"), Finished(), before=said
        )
    uptos = []
    for _ in range(3):
        result = await compressor.prepare(SESSION, said)
        assert isinstance(result.record, Summarised)
        uptos.append(result.record.upto)
        said = entries(result.record, before=said)
    assert uptos == sorted(set(uptos)) and all(len(words) <= 3000 * 4 for words in asked)
    assert "pass 1 " in asked[1] and "pass 2 " in asked[2] and "m0 " not in asked[1]


async def test_where_the_latest_messages_fill_the_window_fewer_of_them_stay() -> None:
    async def ask(system: str, words: str) -> tuple[str, Usage]:
        return "They talked.", Usage(prompt=1)

    async def choose(model: str) -> Summariser:
        return Summariser(ask=ask, window=12_000)

    compressor = Compressor(
        model="m",
        settings=CompressionSettings,
        facts=lambda model: ModelFacts(window=12_000),
        choose=choose,
    )
    said: list[Entry] = []
    for number in range(3):
        said = entries(UserSaid(text=f"m{number}"), ModelSaid(text="a" * 12_000), Finished(), before=said)
    result = await compressor.prepare(SESSION, said)
    assert isinstance(result.record, Summarised) and result.after < 8000
    assert result.record.upto < said[-1].seq, "the last answer stays"


def test_where_no_window_is_known_nothing_is_due() -> None:
    assert of_window(None).limits("m") is None


def test_settings_that_are_not_used_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "compression: {threshold: 0.5, in_place: false, protect_last_n: 0}\n"
    )
    loaded = load_settings(tmp_path, {})
    assert loaded.settings.compression.threshold == 0.5
    assert any("protect_last_n" in str(problem) for problem in loaded.problems)


# --- who summarises ---


@pytest.mark.parametrize("own", [False, True], ids=["no summary model", "a summary model"])
async def test_the_model_of_the_session_or_of_the_settings_summarises_and_no_third(
    tmp_path: Path, own: bool
) -> None:
    """openclaw#86820: a conversation was summarised through another provider than was configured."""

    def named(name: str) -> FakeModelServer:
        return FakeModelServer(lambda request: Reply(text=f"{name} says hello " * 20))

    async with named("main") as main, named("far") as far, named("short") as short:
        (tmp_path / "config.yaml").write_text(
            f"model: {{default: main-model, base_url: '{main.base_url}'}}\n"
            "platforms:\n  api_server:\n    model_routes:\n"
            f"      far: {{model: far-model, base_url: '{far.base_url}', api_key: k}}\n"
            + (f"auxiliary: {{compression: {{model: s, base_url: '{short.base_url}'}}}}\n" if own else "")
        )
        app = App(tmp_path, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
        async with asyncio.timeout(60), app.running():
            for action in (*[TurnAction.SAY] * 8, TurnAction.COMPRESS):
                words = TurnInput(text="x" * 3000, action=action, guidance=Guidance(model="far"))
                turn = await app.gateway.submit(Submission(agent=MAIN_AGENT, source=CLIENT, input=words))
                seen = [one async for one in app.gateway.watch(MAIN_AGENT, turn.id) if isinstance(one, Entry)]
        [summary] = [one.record for one in seen if isinstance(one.record, Summarised)]
        assert summary.text.startswith("short" if own else "far")
        assert summary.usage is not None and summary.usage.role == "summary"
        asked = [request for server in (main, far, short) for request in server.requests if _sums_up(request)]
        assert len(asked) == 1 and asked[0] not in main.requests


def _sums_up(request: ServedRequest) -> bool:
    return request.method == "POST" and "You write the summary" in str(request.messages[0]["content"])
