"""The tools of a house, over the fake Home Assistant: only what its owner exposed is seen or moved, and what
lets people in is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hermes.agent.tools import make_tools
from hermes.agent.tools.registry import CommandRules
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.house import House
from hermes.domain.ports.world import Backend
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Effect, Tool
from hermes.execution.house import home_assistant
from hermes.execution.house.home_assistant import HomeAssistantHouse
from hermes.testing.tool_suite import check_tool, tool_context
from tests.agent.tools.test_tools import Bench, bench
from tests.platforms.homeassistant.samples import state
from tests.platforms.homeassistant.server import TOKEN, Home

__all__ = ["bench"]
EXPOSED = {"conversation": True}


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Home]:
    monkeypatch.setattr(home_assistant, "_SETTLES_SECONDS", 0.0)
    async with Home() as fake:
        fake.states = [
            state("light.kitchen", "off", friendly_name="Kitchen", brightness=3),
            state("sensor.oven", "180", friendly_name="Oven", unit_of_measurement="°C"),
            state("lock.door", "locked", friendly_name="Door"),
            state("light.secret", "on", friendly_name="Secret"),
            state("light.cloud", "on", friendly_name="Cloud"),
        ]
        fake.exposed = {
            "light.kitchen": EXPOSED,
            "sensor.oven": EXPOSED,
            "lock.door": EXPOSED,
            "light.secret": {"conversation": False},
            "light.cloud": {"cloud.alexa": True},
        }
        yield fake


def tools_in(house: Home, bench: Bench, token: str = TOKEN) -> dict[str, Tool]:
    made = HomeAssistantHouse(lambda: house.url, lambda: token)
    services = bench.services.plus(House, made)
    return {tool.name: tool for tool in make_tools(services) if tool.toolset == "homeassistant"}


async def test_three_tools_where_there_is_a_house(house: Home, bench: Bench) -> None:
    tools = tools_in(house, bench)
    assert {name: tool.effect for name, tool in tools.items()} == {
        "ha_list_entities": Effect.READ,
        "ha_get_state": Effect.READ,
        "ha_call_service": Effect.ONCE,
    }
    for tool in tools.values():
        check_tool(tool)
    without = ToolServices({Backend: object(), CommandRules: object()})
    assert not [tool for tool in make_tools(without) if tool.toolset == "homeassistant"]


async def test_only_what_is_exposed_is_seen_and_moved(house: Home, bench: Bench) -> None:
    tools, context = tools_in(house, bench), tool_context()

    async def call(name: str, **arguments: object) -> str:
        result = await tools[name].run(context, arguments)
        return result.text

    assert await call("ha_list_entities") == (
        "light.kitchen: Kitchen = off\nsensor.oven: Oven = 180 °C\nlock.door: Door = locked"
    )
    assert await call("ha_list_entities", domain="sensor") == "sensor.oven: Oven = 180 °C"
    assert await call("ha_list_entities", words="KITCH") == "light.kitchen: Kitchen = off"
    assert "Nothing of that kind" in await call("ha_list_entities", domain="vacuum")
    assert '"brightness": 3' in await call("ha_get_state", entity_id="light.kitchen")
    told = await call(
        "ha_call_service", entity_id="light.kitchen", service="turn_on", data='{"brightness_pct": 40}'
    )
    assert told == "Done. light.kitchen = on"
    asked = house.calls[-1][1]
    assert asked["target"] == {"entity_id": "light.kitchen"} and asked["service_data"] == {
        "brightness_pct": 40
    }
    before = len(house.calls)
    for entity in ("light.secret", "light.cloud", "light.nowhere", "", "light.kitchen,light.secret"):
        for name, more in (("ha_get_state", {}), ("ha_call_service", {"service": "turn_on"})):
            with pytest.raises(UserError, match="exposed"):
                await call(name, entity_id=entity, **more)
    assert len(house.calls) == before, "something moved"


async def test_bad_calls_are_told_in_a_sentence(house: Home, bench: Bench) -> None:
    tools, context = tools_in(house, bench), tool_context()

    async def call(**arguments: object) -> None:
        await tools["ha_call_service"].run(context, {"entity_id": "light.kitchen", **arguments})

    for arguments, words in (
        ({"service": "light.turn_on"}, "like turn_on"),
        ({"service": "turn_on", "data": "{half"}, "no JSON object"),
        ({"service": "turn_on", "data": "[1]"}, "no JSON object"),
        ({"service": "explode"}, "not found"),
    ):
        with pytest.raises(UserError, match=words):
            await call(**arguments)
    wrong = tools_in(house, bench, "wrong")
    with pytest.raises(UserError, match="HASS_TOKEN"):
        await wrong["ha_list_entities"].run(context, {})
    house.exposed = {"light.kitchen": True}  # type: ignore[dict-item]
    assert "Nothing" in (await tools["ha_list_entities"].run(context, {})).text, "unreadable exposes nothing"
    await house.down()
    with pytest.raises(UserError, match="cannot be reached"):
        await tools["ha_list_entities"].run(context, {})


async def test_what_lets_people_in_is_asked_for(house: Home, bench: Bench) -> None:
    tool = tools_in(house, bench)["ha_call_service"]
    session = SessionId("s")
    assert callable(tool.approval) and callable(tool.after_outside)
    kitchen = {"entity_id": "light.kitchen", "service": "turn_on"}
    door = {"entity_id": "lock.door", "service": "unlock"}
    assert await tool.approval(session, kitchen) is None
    asked = await tool.approval(session, door)
    assert asked is not None and "unlock on lock.door" in asked.text
    other = await tool.approval(session, {**door, "service": "open"})
    assert other is not None and other.digest != asked.digest
    assert await tool.after_outside(session, kitchen) is not None, "words from outside move nothing"
