"""Small tasks of clients (titles, tags): under the name `…:task` an agent answers them without its tools, by
the model of the role `title`, and outside of the conversation."""

from __future__ import annotations

from pathlib import Path

from hermes.testing.api import ApiWorld
from hermes.testing.model import ScriptedModel
from hermes.testing.model_server import FakeModelServer
from tests.entry.http.talking import CHAT, PHONE, PHONE_KEY, journal, said, sessions, words

TASK = "hermes-agent:task"


async def test_the_model_for_titles_answers_without_tools(tmp_path: Path) -> None:
    async with FakeModelServer() as main, FakeModelServer() as titles:
        config = (
            f"model: {{default: main-model, base_url: '{main.base_url}'}}\n"
            f"auxiliary: {{title_generation: {{model: small, base_url: '{titles.base_url}'}}}}\n"
            "models: {small: {context_length: 4096, images: false}, main-model: {images: true}}\n"
            "agents: {bee: {}}\n"
        )
        environ = {"HERMES_NO_PROBE": "1"}
        async with ApiWorld(home=tmp_path, provider=None, config=config, environ=environ) as api:
            offered = {model["id"]: model for model in (await api.get("/v1/models")).json["data"]}
            assert [name for name in offered if name.endswith(":task")] == [TASK, "bee:task"]
            task = offered[TASK]
            assert (task["root"], task["parent"], task["context_length"]) == ("small", "hermes-agent", 4096)
            assert offered["hermes-agent"]["name"] == "hermes-agent (main-model)"
            kinds = {
                name: offered[name]["architecture"]["input_modalities"] for name in ("hermes-agent", TASK)
            }
            assert kinds == {"hermes-agent": ["text", "image"], TASK: ["text"]}
            assert (await api.get(f"/v1/models/{TASK}")).json == task
            for name in (TASK, "bee:task"):
                heard = await api.post(CHAT, words("Name this chat", model=name))
                assert (heard.status, heard.json["model"]) == (200, name)
            assert (await api.post(CHAT, words("hello"))).status == 200
        asked = [request for request in titles.requests if request.method == "POST"]
        assert [(each.model, each.last_user_message) for each in asked] == [("small", "Name this chat")] * 2
        assert not any(each.body.get("tools") for each in asked)
        (other,) = (request for request in main.requests if request.method == "POST")
        assert other.model == "main-model" and other.body["tools"]


async def test_a_task_stays_out_of_the_conversation(tmp_path: Path) -> None:
    chat = {"X-Hermes-Chat-Id": "room", "X-Hermes-Session-Id": "notes"}
    model = ScriptedModel()
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        for name, text in (("hermes-agent", "one"), (TASK, "Write a title"), ("hermes-agent", "two")):
            heard = await api.post(CHAT, words(text, model=name), headers=chat)
            assert heard.status == 200
        assert said(await journal(api, "notes")) == ["one", "two"]
        tasks = [one for one in await sessions(api) if one.id != "notes"]
        assert [one.expires_at is not None for one in tasks] == [True]
        assert not model.requests[1].tools and model.requests[0].tools


async def test_a_key_has_the_tasks_of_its_agents(tmp_path: Path) -> None:
    config = f"""
platforms: {{api_server: {{keys: {{phone: {{key: {PHONE_KEY}, agents: [bee]}}}}}}}}
agents: {{bee: {{}}}}
"""
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        shown = (await api.get("/v1/models", headers=PHONE)).json["data"]
        assert [model["id"] for model in shown] == ["bee", "bee:task"]
        assert (await api.post(CHAT, words("hi", model="bee:task"), headers=PHONE)).status == 200
        for name in (TASK, "main:task", "nobody:task", ":task", "bee:task:task"):
            heard = await api.post(CHAT, words("hi", model=name), headers=PHONE)
            assert (heard.status, heard.json["error"]["code"]) == (404, "model_not_found"), name
            assert "There are: bee, bee:task." in heard.json["error"]["message"]
