"""`AIAgent` in a program: against a model server, and with the demo model."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes
from hermes import AIAgent
from hermes.agent.models.choose import choose
from hermes.agent.models.demo import FOOTER, DemoProvider
from hermes.domain.errors import UserError
from hermes.domain.models.providers import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS
from hermes.domain.models.usage import Usage
from hermes.script.options import _model_settings
from hermes.state.settings.loader import load_settings
from hermes.testing.model import ScriptedModel, say
from hermes.testing.model_script import Call, ModelRequest, Reply, failure
from hermes.testing.model_server import FakeModelServer

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "OPENAI_BASE_URL", "HERMES_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes"))
    monkeypatch.setenv("HERMES_NO_PROBE", "1")
    monkeypatch.chdir(tmp_path)
    yield
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name == "hermes-agent"]


def demo(**more: Any) -> AIAgent:
    return AIAgent(provider=DemoProvider(delay=0), quiet_mode=True, **more)


def system(request: ModelRequest) -> str:
    return str(request.messages[0]["content"])


async def test_a_chat_with_a_server() -> None:
    async with FakeModelServer(key=KEY) as server:
        with AIAgent("fake-model", api_key=KEY, base_url=server.base_url, quiet_mode=True) as agent:
            first = await asyncio.to_thread(agent.chat, "hello")
            assert "hello" in first
            second = await agent.achat("again")
            assert "again" in second and "fake-model" in agent.model_line and KEY not in agent.model_line
        asked = server.requests[-1]
        assert [message["role"] for message in asked.messages] == ["system", "user", "assistant", "user"]
        assert asked.headers["Authorization"] == f"Bearer {KEY}"


def test_an_address_has_the_format_of_its_own_provider(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "model: custom:anth:x\nproviders:\n"
        "  anth: {base_url: 'http://a.example', api_mode: anthropic_messages}\n"
    )
    loaded = load_settings(tmp_path, {})
    there: Any = {"model": "m", "base_url": "http://b.example/v1"}
    assert choose(_model_settings(loaded, there)).format == CHAT_COMPLETIONS
    named = choose(_model_settings(loaded, {**there, "provider": "anthropic"}))
    assert (named.format, named.provider) == (ANTHROPIC_MESSAGES, "anthropic")


async def test_everything_about_an_answer(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("blue")
    script = [
        Reply(calls=(Call(name="read_file", arguments='{"path": "x.txt"}', id="c1"),), usage=Usage(prompt=5)),
        Reply(text="It is blue.", reasoning="hm", usage=Usage(prompt=7, completion=3, cached=2)),
    ]
    told: list[tuple[str, str, str, bool | None]] = []
    words: list[str | None] = []

    def progress(event: str, name: str, preview: str, args: Any, **more: Any) -> None:
        told.append((event, name, preview, more.get("is_error")))

    async with FakeModelServer(script) as server:
        with AIAgent(
            model="m", base_url=server.base_url, tool_progress_callback=progress, max_iterations=9
        ) as agent:
            result = await agent.arun_conversation("what is in x.txt?", stream_callback=words.append)
    assert result["final_response"] == "It is blue." and result["last_reasoning"] == "hm"
    assert [message["role"] for message in result["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert (result["api_calls"], result["completed"], result["failed"]) == (2, True, False)
    assert (result["prompt_tokens"], result["completion_tokens"], result["total_tokens"]) == (12, 3, 15)
    assert (result["cache_read_tokens"], result["last_prompt_tokens"]) == (2, 7)
    assert result["turn_exit_reason"].startswith("text_response")
    assert (result["model"], result["provider"], result["base_url"]) == ("m", "custom", server.base_url)
    assert result["session_id"] == agent.session_id and result["error"] is None
    assert told == [
        ("tool.started", "read_file", "x.txt", None),
        ("tool.completed", "read_file", "x.txt", False),
    ]
    assert "".join(word for word in words if word) == "It is blue." and words[-1] is None


async def test_what_is_injected_is_stored_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    prefill = [{"role": "user", "content": "PREFILL-Q"}, {"role": "assistant", "content": "PREFILL-A"}]
    async with FakeModelServer() as server:
        async with AIAgent(
            model="m",
            base_url=server.base_url,
            folder=tmp_path / "kept",
            ephemeral_system_prompt="EPHEMERAL",
            prefill_messages=prefill,
            session_id="my/session",
        ) as agent:
            result = await agent.arun_conversation("hi", system_message="ONCE-ONLY")
            await agent.achat("more")
    first, second = server.requests
    assert "EPHEMERAL" in system(first) and "ONCE-ONLY" in system(first)
    assert "EPHEMERAL" in system(second) and "ONCE-ONLY" not in system(second)
    assert [str(one["content"]) for one in first.messages[1:]] == ["PREFILL-Q", "PREFILL-A", "hi"]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert result["session_id"] == "my/session" and b'"hi"' in kept
    for word in ("EPHEMERAL", "ONCE-ONLY", "PREFILL"):
        assert word.encode() not in kept and word not in caplog.text and word not in str(result["messages"])
    assert (tmp_path / "kept" / "sessions" / "my%2Fsession.jsonl").read_text().count("\n") == 4


async def test_conversations_are_saved_as_samples(tmp_path: Path) -> None:
    script = [Reply(text="It is blue.", reasoning="hm"), failure(400, "no")]
    async with FakeModelServer(script) as server:
        options: Any = {"base_url": server.base_url, "api_key": KEY, "save_trajectories": True}
        with AIAgent("m", **options) as agent:
            await agent.arun_conversation(f"my key is {KEY}")
            await agent.arun_conversation("and now?")
    (line,) = (tmp_path / "trajectory_samples.jsonl").read_text().splitlines()
    sample = json.loads(line)
    assert sample.keys() == {"conversations", "timestamp", "model", "completed"} and sample["completed"]
    assert [turn["from"] for turn in sample["conversations"]] == ["system", "human", "gpt"]
    assert sample["conversations"][2]["value"] == "<think>\nhm\n</think>\nIt is blue."
    assert KEY not in line
    (failed,) = (tmp_path / "failed_trajectories.jsonl").read_text().splitlines()
    assert not json.loads(failed)["completed"]


def test_a_folder_keeps_the_conversation(tmp_path: Path) -> None:
    for count in (1, 2):
        with demo(folder=tmp_path / "kept", session_id="one") as agent:
            result = agent.run_conversation("help")
            assert len(result["messages"]) == 2 * count
    with demo(folder=tmp_path / "kept") as agent:
        with demo(folder=tmp_path / "kept") as other, pytest.raises(UserError, match="An AIAgent works on"):
            agent.chat("help")
            other.chat("help")


def test_a_history_of_ones_own() -> None:
    with demo() as agent:
        first = agent.run_conversation("help")
        same = agent.run_conversation("help", conversation_history=first["messages"])
        assert same["session_id"] == first["session_id"] and len(same["messages"]) == 4
        other = agent.run_conversation(
            [{"type": "text", "text": "help"}], conversation_history=[{"role": "user", "content": "x"}]
        )
        assert other["session_id"] != first["session_id"]
        assert [one["content"] for one in other["messages"][:2]] == ["x", "help"]
        fresh = agent.run_conversation("help", conversation_history=[])
        assert len(fresh["messages"]) == 2


@pytest.mark.parametrize("kept", [True, False])
def test_it_finds_what_was_said_in_another_session(tmp_path: Path, kept: bool) -> None:
    with demo(folder=tmp_path / "kept" if kept else None) as agent:
        first = agent.run_conversation("apples are red")
        told = agent.run_conversation("search history for apples", conversation_history=[])
        assert told["session_id"] != first["session_id"]
        assert f"{first['session_id']}\n" in told["final_response"]
        assert "user: apples are red" in told["final_response"]


def test_nobody_approves_unless_somebody_does(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o700)
    with demo() as agent:
        assert "no approval_callback" in agent.chat("run: chmod -R 777 open")
        assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700
        assert "Nobody is there to answer" in agent.chat("ask me")
    asked: list[str] = []

    def approve(text: str) -> bool:
        asked.append(text)
        return True

    with demo(approval_callback=approve, clarify_callback=lambda text, options: options[1]) as agent:
        assert "I ran" in agent.chat("run: chmod -R 777 open") and "chmod -R 777" in asked[0]
        assert (tmp_path / "open").stat().st_mode & 0o777 == 0o777
        assert "You answered: green" in agent.chat("ask me")
    with demo(approval_callback=lambda text: "never heard of") as agent:
        assert "Denied" in agent.chat("run: chmod -R 777 open")


def test_what_limits_commands_on_this_machine_counts(tmp_path: Path) -> None:
    home = tmp_path / "hermes"
    home.mkdir(mode=0o700)
    config = home / "config.yaml"
    config.write_text("approvals: {deny: ['echo never*']}\nterminal: {backend: ssh}\n")
    with demo(approval_callback=lambda text: True) as agent:
        assert "No machine is named" in agent.chat("run: touch there")
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text("terminal: {backend: local}\n")
    with demo(approval_callback=lambda text: True, folder=folder) as agent:
        assert "I ran" in agent.chat("run: echo now")
        assert "approvals.deny" in agent.chat("run: echo never again")
    assert not (tmp_path / "there").exists()
    for wrong in (
        "terminal: {backend: local, network: none}",
        "terminal: [",
        "terminal: {backend: bublewrap}",
    ):
        config.write_text(wrong)
        with pytest.raises(UserError, match=r"config\.yaml|bublewrap"), demo() as agent:
            agent.chat("run: touch there")
    assert not (tmp_path / "there").exists()


def test_toolsets() -> None:
    with demo(enabled_toolsets=["none"]) as agent:
        assert "does not have it" in agent.chat("list files")
    with demo(enabled_toolsets=["fiel"]) as agent, pytest.raises(UserError, match="Did you mean file"):
        agent.chat("list files")


def test_interrupting() -> None:
    # For half a minute, so that it is still counting however late it is told.
    with AIAgent(provider=DemoProvider(delay=0.03), quiet_mode=True) as agent:
        heard: list[str | None] = []

        def stop_soon(text: str | None) -> None:
            heard.append(text)
            if len(heard) == 10:
                agent.interrupt("enough")

        result = agent.run_conversation("count to 900", stream_callback=stop_soon)
        assert result["interrupted"] and result["partial"] and not result["completed"]
        assert result["interrupt_message"] == "enough" and "1 2 3" in result["final_response"]
        assert result["turn_exit_reason"] == "interrupted_by_user"
        assert FOOTER in agent.chat("count to 3")


async def test_cancelling_stops_the_turn() -> None:
    async with AIAgent(provider=DemoProvider(delay=0.1), quiet_mode=True) as agent:
        task = asyncio.create_task(agent.achat("count to 900"))  # for a minute and a half
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        began = time.monotonic()
        assert FOOTER in await agent.achat("count to 3")
        assert time.monotonic() - began < 45


async def test_failures_are_told() -> None:
    async with FakeModelServer(lambda request: failure(401, "no", code="invalid_api_key")) as server:
        with AIAgent(model="m", base_url=server.base_url, api_key="wrong-key-123") as agent:
            result = await agent.arun_conversation("hi")
            assert result["failed"] and result["final_response"] is None and "credentials" in result["error"]
            with pytest.raises(UserError, match="credentials"):
                await agent.achat("hi")
    assert "wrong-key-123" not in str(result)


async def test_the_last_step_is_told() -> None:
    call = Reply(calls=(Call(name="todo", arguments='{"items": []}'),))
    async with FakeModelServer(
        lambda request: call if request.body.get("tools") else Reply(text="That is all.")
    ) as server:
        with AIAgent(model="m", base_url=server.base_url, max_iterations=2, quiet_mode=True) as agent:
            result = await agent.arun_conversation("go")
    assert result["final_response"] == "That is all." and result["turn_exit_reason"].startswith(
        "max_iterations"
    )


def test_callbacks_that_break_and_misuse() -> None:
    with demo() as agent:

        def broken(text: str | None) -> None:
            raise ZeroDivisionError

        def recursive(text: str | None) -> None:
            agent.chat("help")

        with pytest.raises(ZeroDivisionError):
            agent.run_conversation("help", stream_callback=broken)
        with pytest.raises(RuntimeError, match="cannot ask the same agent"):
            agent.run_conversation("help", stream_callback=recursive)
        assert "offline demo model" in agent.chat("help")
    with pytest.raises(RuntimeError, match="closed"):
        agent.chat("help")
    agent.close()
    with pytest.raises(TypeError, match="no option modle"):
        AIAgent(modle="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="two models"):
        AIAgent("x", model="y")


def test_an_agent_that_is_forgotten_ends() -> None:
    agent = demo()
    agent.chat("help")
    del agent


def test_a_program_that_forgets_to_close_ends_cleanly(tmp_path: Path) -> None:
    program = (
        "from hermes import AIAgent\n"
        "agent = AIAgent(quiet_mode=True, provider='demo')\n"
        "agent.chat('run: sleep 100 & echo started')\n"
        "print('asked')\n"
    )
    environ = os.environ | {"PYTHONPATH": str(Path(hermes.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    # On a busy machine Python's own watch over slow steps speaks up; everything else would be ours.
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
    assert (done.returncode, done.stdout, complaints) == (0, "asked\n", [])


def test_verbose(capfd: pytest.CaptureFixture[str]) -> None:
    before = logging.getLogger("hermes").level
    with AIAgent(provider=ScriptedModel([say("yes")]), verbose_logging=True) as agent:
        assert agent.chat("hi") == "yes"
    assert "gateway.start" in capfd.readouterr().err
    assert logging.getLogger("hermes").level == before


def test_several_at_once() -> None:
    with demo() as agent:
        answers: list[str] = []
        threads = [
            threading.Thread(target=lambda: answers.append(agent.chat("count to 5"))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answer.partition("\n")[0] for answer in answers] == ["1 2 3 4 5"] * 4


def test_tool_lines_unless_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    with AIAgent(provider=DemoProvider(delay=0)) as agent:
        agent.chat("list files")
    assert "→ read_file ." in capfd.readouterr().err


def test_the_public_names() -> None:
    assert hermes.__all__ == ["AIAgent", "__version__"]
    with pytest.raises(AttributeError):
        hermes.Nothing  # type: ignore[attr-defined]  # noqa: B018


async def test_a_provider_by_name_has_its_own_key_and_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeModelServer([Reply(text="far")], key="key-of-groq") as server:
        monkeypatch.setenv("GROQ_API_KEY", "key-of-groq")
        monkeypatch.setenv("GROQ_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
        with AIAgent(model="groq:some-model", quiet_mode=True) as agent:
            result = await asyncio.to_thread(agent.run_conversation, "hello")
        assert (result["final_response"], result["model"]) == ("far", "some-model")


def told(folder: Path, **options: Any) -> str:
    """The system prompt of an agent whose folder, project and memory have something to say."""
    model = ScriptedModel(lambda request: say("yes"))
    for file, words in (("home/SOUL.md", "I am Ada."), ("project/AGENTS.md", "Tabs, never spaces.")):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(words)
    (folder / "home/memories").mkdir(exist_ok=True)
    (folder / "home/memories/MEMORY.md").write_text("The build takes an hour.")
    places = {"folder": folder / "home", "workspace": folder / "project"}
    with AIAgent(provider=model, quiet_mode=True, **places, **options) as agent:
        agent.chat("hello")
    return model.requests[0].system


def test_what_a_program_leaves_out_of_the_prompt(tmp_path: Path) -> None:
    words = ("I am Ada.", "Tabs, never spaces.", "The build takes an hour.")

    def parts(**options: Any) -> list[bool]:
        system = told(tmp_path, **options)
        return [each in system for each in words]

    assert parts() == [True, True, True]
    assert parts(skip_context_files=True) == [False, False, True]
    assert parts(skip_context_files=True, load_soul_identity=True) == [True, False, True]
    assert parts(skip_memory=True) == [True, True, False]


async def test_how_a_model_is_asked_by_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    routed = {"providers_allowed": ["deepinfra"], "providers_ignored": ["azure"]}
    routed |= {"providers_order": ["deepinfra", "groq"], "provider_sort": "price"}
    async with FakeModelServer([Reply(text="yes")], key=KEY) as server:
        monkeypatch.setenv("OPENROUTER_BASE_URL", server.base_url)
        place = {"api_key": KEY, "provider": "openrouter"}
        asked = {"max_tokens": 77, "reasoning_config": {"enabled": True, "effort": "high"}}
        with AIAgent("some/model", quiet_mode=True, **place, **asked, **routed) as agent:
            assert await agent.achat("hello") == "yes"
        wire = server.requests[0].wire
        assert (wire["max_tokens"], wire["reasoning"]) == (77, {"effort": "high"})
        assert wire["provider"] == {
            "only": ["deepinfra"],
            "ignore": ["azure"],
            "order": ["deepinfra", "groq"],
            "sort": "price",
        }


async def test_another_model_of_the_program_answers() -> None:
    async with (
        FakeModelServer([failure(404, "no such model", code="model_not_found")] * 9, key=KEY) as broken,
        FakeModelServer([Reply(text="from the other")], key="key-2") as other,
    ):
        spare = {"provider": "custom", "model": "spare", "base_url": other.base_url, "api_key": "key-2"}
        with AIAgent(
            "gone", api_key=KEY, base_url=broken.base_url, quiet_mode=True, fallback_model=spare
        ) as agent:
            assert "from the other" in await agent.achat("hello")
        assert other.requests[0].model == "spare"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"reasoning_config": {"effort": "loud"}}, "reasoning_config cannot be read"),
        ({"reasoning_config": {"budget": 3}}, "reasoning_config cannot be read"),
        ({"max_tokens": 0}, "max_tokens is less than 1"),
        ({"fallback_model": {"provider": "groq"}}, "fallback_model names no model"),
        ({"fallback_model": {"model": "x", "speed": "1"}}, "fallback_model names no model"),
        ({"provider_sort": "beauty"}, "provider_sort is beauty"),
        ({"providers_order": ["groq"]}, "Only OpenRouter lets one choose vendors"),
    ],
)
def test_what_is_not_honoured_is_refused(options: dict[str, Any], why: str) -> None:
    with AIAgent("m", api_key=KEY, base_url="http://127.0.0.1:9/v1", quiet_mode=True, **options) as agent:
        with pytest.raises(UserError, match=why):
            agent.chat("hello")


async def test_an_agent_of_this_machine(tmp_path: Path) -> None:
    """`profile` names an agent of the home: its key, model, identity, memory and toolsets."""
    home = tmp_path / "hermes"
    folder = home / "agents" / "bee"
    (folder / "memories").mkdir(parents=True)
    (folder / "SOUL.md").write_text("You are a bee.")
    (folder / "memories" / "MEMORY.md").write_text("The hive is in the oak.")
    (folder / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    async with FakeModelServer(key=KEY) as server:
        (home / "config.yaml").write_text(
            f"model: {{provider: custom, base_url: '{server.base_url}', api_key: sk-other-0123456}}\n"
            "agents: {bee: {model: honey, toolsets: [todo]}}\n"
        )
        with AIAgent(profile="bee", quiet_mode=True) as agent:
            assert "hello" in await asyncio.to_thread(agent.chat, "hello")
        (asked,) = server.requests
        assert asked.model == "honey" and "You are a bee." in system(asked)
        assert "The hive is in the oak." in json.dumps(asked.messages)
        wire = asked.wire
        assert isinstance(wire, dict)
        assert {tool["function"]["name"] for tool in wire["tools"]} == {"todo"}
        with AIAgent("other", profile="bee", quiet_mode=True) as agent:
            await asyncio.to_thread(agent.chat, "hello")
        assert server.requests[-1].model == "other"
    with pytest.raises(UserError, match="There is no agent “wasp”"):
        AIAgent(profile="wasp")
    assert (folder / "memories" / "MEMORY.md").read_text() == "The hive is in the oak."
