"""Journeys with hooks: who is told of what, and what a hook may stop, answer or change."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.agent.run.toolbox import NO_ANSWER, NOBODY
from hermes.app.hooks import AppHooks, PluginHookRunner
from hermes.control.hooks.dispatch import Hooks
from hermes.domain.ids import AgentId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import ApprovalSettings, QuickCommand, ResetMode, ResetSettings
from hermes.domain.turns.event import ToolFinished
from hermes.execution.hooks.processes import HookProcesses
from hermes.state.files.hook_files import read_hooks
from hermes.testing.clock import FakeClock
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import Say, call, last_words, say, within
from hermes.testing.world import Deed

NOTES = """
import json
def handle(event, context):
    with open("told", "a") as file:
        file.write(json.dumps([event, context]) + "\\n")
"""


def home_with(folder: Path, **hooks: tuple[str, str]) -> Path:
    """A home with hooks: name → (events, code)."""
    for name, (events, code) in hooks.items():
        place = folder / "hooks" / name
        place.mkdir(parents=True)
        (place / "HOOK.yaml").write_text(f"events: [{events}]\n")
        (place / "handler.py").write_text(code)
    return folder


def hooks_of(home: Path) -> Hooks:
    found = read_hooks(home)
    assert not found.problems
    return Hooks([(found.hooks, HookProcesses(home, {"PATH": os.environ["PATH"]}))])


def told(home: Path, name: str = "notes") -> list[tuple[str, dict[str, object]]]:
    path = home / "hooks" / name / "told"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not what():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_conversation_is_told(tmp_path: Path) -> None:
    home = home_with(tmp_path, notes=("'session:*', 'agent:*'", NOTES))
    script = [call("read", '{"token": "t"}'), say("all done"), say("again")]
    async with Journey(folder=tmp_path, script=script, hooks=hooks_of(home)) as chat:
        chat.world.write("hello there")
        await chat.until_seen("all done")
        await until(lambda: len(told(home)) == 5)
        events = [event for event, _ in told(home)]
        assert events == ["session:start", "agent:start", "agent:step", "agent:step", "agent:end"]
        began, start, step, _, end = (context for _, context in told(home))
        who = {"platform": "fake", "user_id": "u1", "agent_id": "main", "session_id": start["session_id"]}
        assert began.items() >= (who | {"session_key": "agent:main:fake:private:1"}).items()
        where = {"chat_id": "1", "thread_id": None, "chat_type": "dm", "message": "hello there"}
        assert start.items() >= (who | where).items()
        assert step.items() >= (who | {"iteration": 1, "tool_names": ["read"]}).items()
        assert step["tools"] == [{"name": "read", "arguments": '{"token": "t"}'}]
        assert end.items() >= (who | where | {"response": "all done", "state": "done"}).items()
        chat.world.write("/new")
        await chat.until_seen("New session")
        await until(lambda: len(told(home)) == 8)
        assert [event for event, _ in told(home)[5:]] == ["session:end", "session:reset", "session:start"]
        ended, reset, new = (context for _, context in told(home)[5:])
        assert ended["session_id"] == reset["session_id"] == start["session_id"] != new["session_id"]
        await chat.hooks.close()


async def test_a_compression_is_told(tmp_path: Path) -> None:
    home = home_with(tmp_path, notes=("'session:compress'", NOTES))
    replies = iter([say("one"), say("two"), say("a summary of it")])
    script = within(9000, lambda request: next(replies))
    async with Journey(folder=tmp_path, script=script, window=9000, hooks=hooks_of(home)) as chat:
        for word in ("one", "two"):
            chat.world.write("x" * 4000)
            await chat.until_seen(word)
            await chat.until_idle()
        chat.world.write("/compress here")
        await chat.until_seen("Compressed: ")
        await until(lambda: len(told(home)) == 1)
        [(event, context)] = told(home)
        assert event == "session:compress" and context["summarised"] is True
        assert (context["platform"], context["user_id"], context["upto"]) == ("fake", "u1", 3)
        await chat.hooks.close()


async def test_a_session_that_the_expiry_job_ends_is_told_once(tmp_path: Path) -> None:
    home = home_with(tmp_path, notes=("'session:*'", NOTES))
    clock = FakeClock()
    settings = open_settings(session_reset=ResetSettings(mode=ResetMode.IDLE, idle_minutes=60))
    async with Journey(folder=tmp_path, clock=clock, settings=settings, hooks=hooks_of(home)) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        clock.jump(7200)
        assert await chat.gateway.sessions_expiry.sweep() == 1
        await until(lambda: len(told(home)) == 2)
        assert await chat.gateway.sessions_expiry.sweep() == 0
        chat.world.write("again")
        await chat.until_seen("You said: again")
        await chat.until_idle()
        await until(lambda: len(told(home)) == 3)
        clock.jump(7200)
        chat.world.write("and again")
        await chat.until_seen("You said: and again")
        await until(lambda: len(told(home)) == 5)
        events = [(event, context["session_id"]) for event, context in told(home)]
        first, second, third = (name for event, name in events if event == "session:start")
        assert events == [
            ("session:start", first),
            ("session:end", first),
            ("session:start", second),
            ("session:end", second),
            ("session:start", third),
        ]
        # The words are the same, whoever ended it.
        (_, by_job), (_, by_message) = told(home)[1], told(home)[3]
        assert by_job == by_message | {"session_id": first}
        await chat.hooks.close()


async def test_a_new_session_that_was_confirmed_is_told(tmp_path: Path) -> None:
    home = home_with(tmp_path, notes=("'session:*'", NOTES))
    settings = open_settings(approvals=ApprovalSettings(destructive_slash_confirm=True))
    async with Journey(folder=tmp_path, settings=settings, hooks=hooks_of(home)) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        chat.world.write("/new")
        await chat.until_seen("Shall I begin a new session?")
        chat.world.write("yes")
        await chat.until_seen("New session")
        await until(lambda: len(told(home)) == 4)
        events = [event for event, _ in told(home)]
        assert events == ["session:start", "session:end", "session:reset", "session:start"]
        await chat.hooks.close()


async def test_long_words_are_told_short(tmp_path: Path) -> None:
    home = home_with(tmp_path, notes=("agent:start, agent:end", NOTES))
    async with Journey(folder=tmp_path, script=[say("y" * 3000)], hooks=hooks_of(home)) as chat:
        chat.world.write("x" * 3000)
        await until(lambda: len(told(home)) == 2)
        (_, start), (_, end) = told(home)
        assert start["message"] == "x" * 500 and end["response"] == "y" * 500
        await chat.hooks.close()


async def test_boot_asks_nobody_and_is_forgotten_in_time(tmp_path: Path) -> None:
    (tmp_path / "BOOT.md").write_text("Do x.")
    clock = FakeClock()
    part = AppHooks(tmp_path, {}, clock)
    script = [call("danger", '{"token": "x"}'), call("clarify", '{"question": "Which?"}'), say("done")]
    async with Journey(folder=tmp_path, script=script, clock=clock) as chat:
        part.begin(chat.gateway, [], lambda facts: None)
        await chat.until(lambda: len(chat.model.requests) == 3)
        await chat.until_idle()
        records = [entry.record for entry in chat.model.requests[2].entries]
        results = [record.text for record in records if isinstance(record, ToolFinished)]
        assert results == [NOBODY, NO_ANSWER]
        assert not chat.world.did(Deed.EFFECT)
        (session,) = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert session.id.startswith("boot_") and session.ended is None
        clock.jump(91 * 86400)
        await chat.database.write(lambda tx: tx.recovery.prune(clock.now(), clock.now()))
        assert await chat.database.read(lambda tx: tx.sessions.find("")) == []
        await part.close()


# --- commands ---

DECIDES = """
def handle(event, context):
    args = context["args"]
    if args == "no":
        return {"decision": "deny", "message": "Not today."}
    if args == "quietly no":
        return {"decision": "deny"}
    if args == "mine":
        return {"decision": "handled", "message": "I did it: " + context["raw_command"]}
    if args == "change":
        return {"decision": "rewrite", "command_name": "title", "raw_args": "Changed"}
    if args == "badly":
        return {"decision": "rewrite", "command_name": 7}
    if args == "nonsense":
        return "certainly"
    if args == "hang":
        import time; time.sleep(600)
"""


@pytest.mark.parametrize(
    ("words", "sees"),
    [
        ("/title no", "Not today."),
        ("/title quietly no", "/title was not allowed by the hook “gate”."),
        ("/TITLE mine", "I did it: title"),
        ("/whatever mine", "I did it: whatever"),
        ("/whatever", "There is no command /whatever."),
        ("/tit change", "now called “Changed”"),
        ("/title badly", "gave no proper answer"),
        ("/title nonsense", "gave no proper answer"),
        ("/title hang", "The hook “gate” gave no proper answer, so this was not done."),
        ("/title Plain", "now called “Plain”"),
    ],
)
async def test_a_command_is_decided(tmp_path: Path, words: str, sees: str) -> None:
    home = home_with(tmp_path, gate=("'command:*'", DECIDES))
    async with Journey(folder=tmp_path, hooks=hooks_of(home)) as chat:
        chat.world.write(words)
        seen = await chat.until_seen(sees)
        assert len(seen) == 1
        await chat.until_idle()
        await chat.hooks.close()


@pytest.mark.parametrize("written", ["/deploy", "/dep", "/DEP", "/ship", "/sh"])
async def test_a_quick_command_is_asked_about_by_its_own_name(tmp_path: Path, written: str) -> None:
    """In full, in short, and by an alias that leads to it."""
    code = "def handle(event, context): return {'decision': 'deny', 'message': 'No ' + context['command']}"
    home = home_with(tmp_path, gate=("'command:deploy'", code))
    settings = open_settings(
        quick_commands={
            "deploy": QuickCommand(type="exec", command="make deploy"),
            "ship": QuickCommand(type="alias", target="/dep"),
        }
    )
    async with Journey(folder=tmp_path, settings=settings, hooks=hooks_of(home)) as chat:
        chat.world.write(written)
        await chat.until_seen("No deploy")
        await chat.until_idle()
        assert not await chat.database.read(lambda tx: tx.journal.read(tx.sessions.find("")[0].id))
        await chat.hooks.close()


async def test_a_gate_that_hangs_delays_only_what_it_gates(tmp_path: Path) -> None:
    home = home_with(tmp_path, gate=("'command:title'", DECIDES))
    async with Journey(folder=tmp_path, hooks=hooks_of(home)) as chat:
        chat.world.write("/title hang", chat="1")
        chat.world.write("hello", chat="2", user="u2")
        chat.world.write("/title Mine", chat="3", user="u3")
        await chat.until_seen("hello", chat="2")
        await chat.until_seen("now called “Mine”", chat="3")
        assert not chat.world.seen("1")
        await chat.until_seen("gave no proper answer", chat="1")
        await chat.hooks.close()


async def test_nobody_is_asked_about_who_may_not_speak(tmp_path: Path) -> None:
    home = home_with(tmp_path, notes=("'command:*'", NOTES))
    closed = open_settings(platforms={"fake": PlatformSettings()})
    async with Journey(folder=tmp_path, settings=closed, hooks=hooks_of(home)) as chat:
        chat.world.write("/title x")
        await chat.until_idle()
        assert told(home) == []
        await chat.hooks.close()


# --- turns and tools ---


NO_TOOLS = """
def handle(event, context):
    return {"decision": "deny", "reason": "No " + context["tool_name"] + "."}
"""


def tool_then_tell(request: ModelRequest) -> Say:
    results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
    return say(f"heard: {results[-1].text}") if results else call("once", '{"token": "t"}')


async def test_a_tool_is_denied_and_the_model_hears_why(tmp_path: Path) -> None:
    home = home_with(tmp_path, gate=("gate:tool", NO_TOOLS))
    async with Journey(folder=tmp_path, script=tool_then_tell, hooks=hooks_of(home)) as chat:
        chat.world.write("do it")
        await chat.until_seen("heard: Not run. No once.")
        assert not chat.world.did(Deed.EFFECT)
        await chat.hooks.close()


async def test_a_tool_is_allowed(tmp_path: Path) -> None:
    code = "def handle(event, context): assert context['arguments'] == {'token': 't'}"
    home = home_with(tmp_path, gate=("gate:tool", code))
    async with Journey(folder=tmp_path, script=tool_then_tell, hooks=hooks_of(home)) as chat:
        chat.world.write("do it")
        await chat.until_seen("heard:")
        assert len(chat.world.did(Deed.EFFECT)) == 1
        await chat.hooks.close()


TURNS = """
def handle(event, context):
    if "secret" in context["message"]:
        return {"decision": "deny", "message": "We do not talk about that."}
"""


async def test_a_turn_is_denied_with_a_sentence(tmp_path: Path) -> None:
    home = home_with(tmp_path, gate=("gate:turn", TURNS), notes=("'agent:*'", NOTES))
    heard: list[str] = []

    def script(request: ModelRequest) -> Say:
        heard.append(last_words(request))
        return say(f"you said {last_words(request)}")

    async with Journey(folder=tmp_path, script=script, hooks=hooks_of(home)) as chat:
        chat.world.write("the secret")
        await chat.until_seen("We do not talk about that.")
        chat.world.write("the weather")
        await chat.until_seen("you said the weather")
        assert heard == ["the weather"]
        await until(lambda: len(told(home)) == 3)
        assert "secret" not in json.dumps(told(home))
        await chat.hooks.close()


async def test_a_turn_gate_that_crashes_denies(tmp_path: Path) -> None:
    home = home_with(tmp_path, gate=("gate:turn", "import os\ndef handle(event, context): os._exit(1)"))
    async with Journey(folder=tmp_path, hooks=hooks_of(home)) as chat:
        for _ in range(4):
            chat.world.write("hello")
        await chat.until(lambda: sum("gave no proper answer" in seen for seen in chat.world.seen()) == 4)
        assert chat.hooks.facts()[0].open
        await chat.hooks.close()


# --- messages ---

SENDS = """
def handle(event, context):
    text = context["text"]
    if context["agent_id"] != "main" or "password" in text:
        return {"decision": "deny"}
    if "shout" in text:
        return {"decision": "rewrite", "text": text.upper()}
    if "too much" in text:
        return {"decision": "rewrite", "text": "x" * 100_000}
    if "hang" in text:
        import time; time.sleep(600)
"""


async def test_a_message_is_denied_or_changed_before_anybody_sees_it(tmp_path: Path) -> None:
    home = home_with(tmp_path, gate=("gate:send", SENDS))
    seen: set[str] = set()

    def script(request: ModelRequest) -> Say:
        return say(f"I say {last_words(request)}", pieces=5)

    async with Journey(folder=tmp_path, script=script, hooks=hooks_of(home)) as chat:
        for words in ("the password", "hang", "too much", "shout", "goodbye"):
            chat.world.write(words)
            await chat.until_idle()
            seen |= set(chat.world.seen())
        assert seen == {"I SAY SHOUT", "I say goodbye"}
        assert not any("password" in entry.text for entry in chat.world.did(Deed.SENT))
        await chat.hooks.close()


# --- which agent ---


async def test_a_hook_chooses_the_agent(tmp_path: Path) -> None:
    code = "def handle(event, context): return {'agent': 'work'} if 'work' in context['text'] else None"
    home = home_with(tmp_path, choose=("select_agent", code))
    async with Journey(folder=tmp_path, agents=("main", "work"), hooks=hooks_of(home)) as chat:
        chat.world.write("for work", chat="1")
        chat.world.write("for fun", chat="2")
        await chat.until_seen("work", "fun")
        for agent, place in (("work", "fake:1"), ("main", "fake:2")):
            store = chat.database.scoped(AgentId(agent))
            sessions = await store.read(lambda tx: tx.sessions.find("", 9))
            assert [session.place for session in sessions] == [place]
        await chat.hooks.close()


async def test_a_plugin_that_raises_or_hangs_keeps_nothing_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They listen to the same events as hooks of the home: one breaker each, and the rest goes on."""
    monkeypatch.setattr("hermes.domain.system.hooks.OBSERVER_SECONDS", 0.05)
    held, heard = threading.Event(), list[str]()

    def raising(event: str, context: dict[str, object]) -> None:
        raise KeyError("nothing of the sort")

    def hanging(event: str, context: dict[str, object]) -> None:
        held.wait(PATIENCE)

    def good(event: str, context: dict[str, object]) -> None:
        heard.append(event)

    runner = PluginHookRunner({"raising": raising, "hanging": hanging, "good": good})
    hooks = Hooks([(runner.hooks, runner)])
    try:
        async with Journey(folder=tmp_path, hooks=hooks) as chat:
            for n in range(4):
                chat.world.write(f"word {n}")
                await chat.until(lambda n=n: heard.count("agent:end") == n + 1)  # type: ignore[misc]
            await until(lambda: all(fact.open for fact in hooks.facts() if fact.name != "good"))
            states = {fact.name: (fact.open, fact.why) for fact in hooks.facts()}
    finally:
        held.set()
    assert states["good"] == (False, "") and states["raising"] == (True, "KeyError")
    assert states["hanging"][0] and heard.count("agent:start") == 4
