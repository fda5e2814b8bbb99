"""Journeys with manner: personalities and ephemeral words that nothing stores, how hard a model thinks, what
is shown of that, the footer, tool progress and pauses, per session, platform and for all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.app.agents.manner import AgentManner, read_prefill
from hermes.domain.errors import UserError
from hermes.domain.models.manner import Manner
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.personalities import BUILT_IN, personality_words
from hermes.domain.models.usage import Usage
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.manner import (
    HumanDelay,
    Personality,
    PlatformDisplay,
    PlatformHint,
    ReasoningOverride,
    RuntimeFooter,
)
from hermes.domain.settings.settings import AgentSettings, DisplaySettings, Settings
from hermes.domain.turns.turn import Speaker
from hermes.domain.word import replace
from hermes.script.agent import AIAgent
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, ScriptedModel, echo, say
from tests.domain.test_toolbox import SESSION


async def ask(chat: Journey, text: str, *seen: str) -> None:
    before = len(chat.world.seen())
    chat.world.write(text)
    await chat.until(lambda: len(chat.world.seen()) > before)
    if seen:
        await chat.until_seen(*seen)
    await chat.until_idle()


async def test_a_session_keeps_how_it_was_asked_to_behave(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        await ask(chat, "/personality", "Personality: none", "pirate")
        await ask(chat, "/personality pirat", "Did you mean pirate?")
        await ask(chat, "/personality Pirate", "Personality of this session: pirate.")
        await ask(chat, "/reasoning high", "thinks at the level high")
        await ask(chat, "/reasoning show")
        await ask(chat, "/footer on", "The footer is on")
        await ask(chat, "/verbose", "shown in this session: verbose.")
        await ask(chat, "/reasoning loud", "“loud” is no level of thinking.")
        await ask(chat, "/reasoning low --global", "counts for this session alone")
        await ask(chat, "/footer maybe", "neither on nor off")
        await ask(chat, "/verbose loud", "no level of tool progress")
    async with Journey(folder=tmp_path, world=chat.world) as later:
        await ask(later, "/personality", "Personality: pirate")
        await ask(later, "/reasoning", "Thinking: high, shown.")
        (session,) = await later.database.read(lambda tx: tx.sessions.find(""))
        kept = Manner(personality="pirate", effort="high", thoughts=True, footer=True, progress="verbose")
        assert session.manner == kept
        for line in ("/personality default", "/reasoning reset", "/footer off"):
            await ask(later, line)
        (session,) = await later.database.read(lambda tx: tx.sessions.find(""))
        assert session.manner == Manner(footer=False, progress="verbose")


async def test_thoughts_and_footer_are_shown_where_they_are_wanted(tmp_path: Path) -> None:
    def script(request: object) -> Say:
        return Say(text="forty-two", thought="\n".join(f"thought {n}" for n in range(20)))

    async with Journey(folder=tmp_path, script=script) as chat:
        await ask(chat, "what?", "forty-two")
        assert chat.world.seen()[-1] == "forty-two"
        await ask(chat, "/reasoning show")
        await ask(chat, "/footer on")
        await ask(chat, "again?", "> thought 19")
        shown = chat.world.seen()[-1]
        assert "… 5 earlier lines" in shown and "> thought 4\n" not in shown and "scripted" in shown
        await ask(chat, "/reasoning full")
        await ask(chat, "once more?", "> thought 0\n")


async def test_what_a_platform_shows_differs(tmp_path: Path) -> None:
    shown = PlatformDisplay(show_reasoning=True, streaming=False, runtime_footer=True)
    settings = open_settings(display=DisplaySettings(platforms={"fake": shown}))

    def script(request: object) -> Say:
        return Say(text="word " * 20, thought="hm", pieces=8)

    async with Journey(folder=tmp_path, settings=settings, script=script) as chat:
        await ask(chat, "hello", "> hm")
        assert "scripted" in chat.world.seen()[-1]
        assert not [post for post in chat.world.messages.values() if post.edits], (
            "it was shown before its end"
        )


async def test_hints_about_a_platform(tmp_path: Path) -> None:
    for number, (hint, there, gone) in enumerate(
        (
            (PlatformHint(append="Use no emoji."), ["Use no emoji.", "Write"], "nothing of it"),
            (PlatformHint(replace="Rhyme."), ["- Rhyme."], "Write Markdown"),
        )
    ):
        settings = open_settings(platform_hints={"fake": hint})
        (tmp_path / str(number)).mkdir()
        async with Journey(folder=tmp_path / str(number), settings=settings) as chat:
            await ask(chat, "hello", "You said: hello")
            system = chat.model.requests[0].system
            assert all(words in system for words in there) and gone not in system


async def test_messages_of_one_answer_pause_like_people(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = open_settings(
        human_delay=HumanDelay(mode="custom", min_ms=5000, max_ms=5000),
        display=DisplaySettings(streaming=False),
    )
    long = "\n\n".join(f"part {number} " + "x" * 900 for number in range(12))
    async with Journey(
        folder=tmp_path, settings=settings, script=lambda request: say(long), clock=clock
    ) as chat:
        chat.world.write("tell me")
        await chat.until(lambda: len(chat.world.seen()) == 1)
        for count in range(2, 4):
            await clock.advance(4.5)
            assert len(chat.world.seen()) == count - 1
            await clock.advance(0.6)
            await chat.until(lambda count=count: len(chat.world.seen()) == count)


# --- what is told at call time alone ---


def test_nothing_keeps_ephemeral_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    prefill = [
        {"role": "user", "content": "prefilled-question"},
        {"role": "assistant", "content": "prefilled-answer"},
    ]
    (tmp_path / "prefill.json").write_text(json.dumps(prefill))
    (home / "config.yaml").write_text(
        f"prefill_messages_file: {tmp_path}/prefill.json\nlogging: {{level: DEBUG}}\n"
        "personalities: {odd: {system_prompt: oddly-spoken-words, tone: dry}}\ndisplay: {personality: odd}\n"
    )
    monkeypatch.setenv("HERMES_EPHEMERAL_SYSTEM_PROMPT", "ephemeral-words")
    model = ScriptedModel(echo)
    with AIAgent(provider=model, folder=home, verbose_logging=True) as agent:
        agent.chat("hello")
        agent.chat("again")
    for request in model.requests:
        assert request.system.endswith("oddly-spoken-words\nTone: dry\n" + request.system.rpartition("\n")[2])
        assert "ephemeral-words" in request.system
        assert [message.by for message in request.history] == [Speaker.USER, Speaker.AGENT]
    assert model.requests[0].system == model.requests[1].system
    kept = b"".join(
        path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "config.yaml"
    )
    for words in (b"ephemeral-words", b"prefilled-question", b"prefilled-answer", b"oddly-spoken-words"):
        assert words not in kept


def test_which_effort_counts(tmp_path: Path) -> None:
    overrides = {"deep": ReasoningOverride(effort="xhigh")}
    settings = Settings(agent=AgentSettings(reasoning_effort="low", reasoning_overrides=overrides))
    manner = AgentManner(LiveSettings(settings), tmp_path, "")
    assert [manner(SESSION, model).effort for model in ("other", "deep")] == ["low", "xhigh"]
    assert manner(replace(SESSION, manner=Manner(effort="none")), "deep").effort == "none"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot be read"),
        ("[", "is no JSON"),
        ("{}", "is no list of messages"),
        ('[{"role": "tool", "content": "x"}]', "is no list of messages"),
    ],
)
def test_a_wrong_prefill_file_is_told(tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "prefill.json").write_text(text)
    with pytest.raises(UserError, match=why):
        read_prefill(tmp_path / "prefill.json")


def test_personalities() -> None:
    assert len(BUILT_IN) == 14 and personality_words("none", {}) == "" == personality_words("gone", {})
    own = {"pirate": Personality(system_prompt="Arr.")}
    assert "Arr." in personality_words("pirate", own)


def test_pauses_and_footer_fields() -> None:
    assert HumanDelay().bounds is None and HumanDelay(mode="natural", min_ms=1).bounds == (0.8, 2.5)
    assert HumanDelay(mode="custom", min_ms=300, max_ms=100).bounds == (0.3, 0.3)
    assert RuntimeFooter().fields == ("model", "context_pct", "tokens", "cost")


async def test_the_footer_tells_what_an_answer_took(tmp_path: Path) -> None:
    def script(request: object) -> Say:
        return Say(text="forty-two", usage=Usage(prompt=12_000, completion=500))

    facts = ModelFacts(window=50_000, price_in=3.0, price_out=15.0)
    settings = open_settings(display=DisplaySettings(runtime_footer=RuntimeFooter(enabled=True)))
    async with Journey(folder=tmp_path, script=script, facts=facts, settings=settings) as chat:
        await ask(chat, "what?", "forty-two")
        footer = chat.world.seen()[-1].splitlines()[-1]
        assert footer == "scripted · 25 % of the window · 12k in, 500 out · $0.0435"


def test_samples_keep_no_ephemeral_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_EPHEMERAL_SYSTEM_PROMPT", "ephemeral-words")
    monkeypatch.chdir(tmp_path)
    said = [{"role": "user", "content": "prefilled-question"}, {"role": "assistant", "content": "fine"}]
    model = ScriptedModel(echo)
    options = {"ephemeral_system_prompt": "ephemeral-option", "prefill_messages": said}
    with AIAgent(provider=model, folder=tmp_path / "home", save_trajectories=True, **options) as agent:  # type: ignore[arg-type]
        agent.run_conversation("hello", system_message="for-this-call-alone")
        sample = json.dumps(agent.trajectory())
    for words in ("ephemeral-words", "ephemeral-option", "for-this-call-alone"):
        assert words in model.requests[0].system
    kept = sample + (tmp_path / "trajectory_samples.jsonl").read_text()
    assert "hello" in kept
    for words in ("ephemeral", "prefilled-question", "for-this-call-alone"):
        assert words not in kept
