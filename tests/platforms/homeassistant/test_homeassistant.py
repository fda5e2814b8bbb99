"""The Home Assistant adapter: the suite, and what is its own: what is watched, questions, notifications."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Body
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.entry.platforms.homeassistant import convert
from hermes.testing.platform_suite import CHECKS, Check, Does, Inboxes, conform, hosted, running, until
from tests.platforms.homeassistant.bed import ME, HomeBed
from tests.platforms.homeassistant.samples import EVENTS, changed


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_homeassistant_conforms(check: Check, full: bool) -> None:
    await conform(check, HomeBed, full=full)


def read(name: str) -> convert.Inbound:
    (item,) = convert.to_inbounds(EVENTS[name], ME)
    return item


def test_questions_and_changes() -> None:
    question = read("question")
    assert (question.text, question.source.user, question.source.kind) == (
        "Is the door shut?",
        "ann",
        SourceKind.PRIVATE,
    )
    assert question.source.address.chat == "voice"
    assert (read("bare").source.address.chat, read("bare").source.user) == (
        "home",
        EVENTS["bare"]["context"]["user_id"],
    )
    assert read("door").text == "[Home Assistant] Front (door) (binary_sensor.door) changed from off to on."
    assert read("warmth").text == "[Home Assistant] Oven (sensor.oven) changed from 20.1 to 180.5 °C."
    assert read("door").source.address.chat == "events"
    for name in ("same", "new", "gone", "away", "unwatched", "ignored", "service"):
        assert convert.to_inbounds(EVENTS[name], ME) == (), name


async def test_an_entity_is_told_of_once_in_a_while() -> None:
    async with HomeBed() as bed:
        bed.said |= {"HASS_WATCH_DOMAINS": "binary_sensor, switch", "HASS_COOLDOWN": "3600"}
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: len(next(iter(bed.server.sockets.values()), {})) == 2, "it does not listen")
            for after in ("on", "off", "on"):
                before = "off" if after == "on" else "on"
                for entity in ("binary_sensor.door", "switch.pump", "light.kitchen"):
                    await bed.server.tell(changed(entity, before, after))
            await bed.do(Does.TEXT, "and now?")
            await until(lambda: "and now?" in inboxes.texts, "a question has no cooldown")
        assert len(inboxes.items) == 3, inboxes.texts


async def test_what_is_asked_while_it_subscribes_is_not_lost() -> None:
    async with HomeBed() as bed:
        bed.said["HASS_WATCH_DOMAINS"] = "light"
        bed.server.between = {"text": "what is the time?"}
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.texts == ["what is the time?"], "it is lost, or stops the account")


async def test_an_answer_names_its_question_as_the_automation_of_the_page_expects() -> None:
    page = (Path(__file__).parents[3] / "docs/platforms/homeassistant.md").read_text()
    assert 'reply_to: "{{ context.id }}"' in page.partition("wait_for_trigger")[2].partition("timeout")[0]
    async with HomeBed() as bed:
        platform, inboxes = bed.connect(), Inboxes()
        async with running(platform, inboxes.accept, None):
            await until(lambda: bed.server.greeted > 0, "it does not listen")
            question = bed.server.event("hermes_message", {"text": "the time?", "chat": "voice"})
            await bed.server.tell(question)
            await until(lambda: bool(inboxes.items), "it never came")
            item = inboxes.items[0]
            await platform.send(item.source.address, Body(text="noon"), key="k", reply_to=item.ref)
        assert bed.server.calls[-1][1]["reply_to"] == question["context"]["id"]


async def test_without_watched_entities_no_changes_are_asked_for() -> None:
    async with HomeBed() as bed:
        async with running(bed.connect(), Inboxes().accept, None):
            await until(lambda: bed.server.greeted > 0, "it does not listen")
            assert [list(wanted) for wanted in bed.server.sockets.values()] == [["hermes_message"]]


async def test_notifications_and_answers_go_where_they_belong() -> None:
    async with HomeBed() as bed:
        platform = bed.connect()

        async def say(chat: str, text: str, key: str) -> None:
            to = Address(platform="homeassistant", chat=chat)
            await platform.send(to, Body(text=text), key=key, reply_to="01JK")

        async with running(platform, Inboxes().accept, None):
            await say("notify.mobile_app_phone", "the washer is done", "k1")
            await say("events", "noted", "k2")
            await say("events", "noted", "k2")
            await say("voice", "it is shut", "k3")
            await say("notify.kitchen_speaker", "dinner", "k3b")
            await say("mobile_app_phone", "as a home of Hermes Agent says it", "k3c")
            with pytest.raises(Refused, match="does not have that"):
                await say("notify.nobody", "x", "k4")
            with pytest.raises(Refused, match="no place"):
                await say("../../config", "x", "k5")
        assert [(place, text) for place, _, text in bed.server.said] == [
            ("notify.mobile_app_phone", "the washer is done"),
            ("events", "noted"),
            ("voice", "it is shut"),
            ("notify.kitchen_speaker", "dinner"),
            ("notify.mobile_app_phone", "as a home of Hermes Agent says it"),
        ]
        names = [name for name, _ in bed.server.calls]
        assert names.count("persistent_notification.create") == 2, "the same notification, once more"
        assert bed.server.calls[3][1]["reply_to"] == "01JK"


async def test_while_home_assistant_starts_a_notification_waits() -> None:
    async with HomeBed() as bed:
        platform, to = bed.connect(), Address(platform="homeassistant", chat="notify.mobile_app_phone")
        async with running(platform, Inboxes().accept, None):
            bed.server.starts = True
            with pytest.raises(Unreachable, match="starting") as raised:
                await platform.send(to, Body(text="the washer is done"), key="k", reply_to=None)
            assert raised.value.after == 30.0 and not raised.value.maybe_done
            bed.server.starts = False
            await platform.send(to, Body(text="the washer is done"), key="k", reply_to=None)
        assert len(bed.server.said) == 1


async def test_what_was_not_stored_is_kept_until_it_is() -> None:
    async with HomeBed() as bed:
        refused: list[object] = []

        async def refuse(items: object, cursor: str | None) -> None:
            if items:
                refused.append(items)
                raise Unreachable("the disk is full")

        async with running(bed.connect(), refuse, None):
            await bed.do(Does.TEXT, "keep me")
            await until(lambda: bool(refused), "it never came")
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await until(lambda: inboxes.texts == ["keep me"], "it is lost")


async def test_a_pong_is_a_sign_of_life() -> None:
    async with HomeBed() as bed:
        adapter, inboxes = bed.connect(), Inboxes()
        adapter.ping_seconds = 0.01
        async with running(adapter, inboxes.accept, None):
            await until(lambda: inboxes.batches > 3, "no sign of life")


async def test_tokens_that_do_not_count() -> None:
    async with HomeBed() as bed:
        bed.server.expired = True
        with pytest.raises(NeedsLogin, match="HASS_TOKEN"):
            await bed.connect().run(Inboxes().accept, None)
        with pytest.raises(NeedsLogin, match="HASS_TOKEN"):
            await bed.connect().check()
        bed.server.expired, bed.server.admin = False, False
        with pytest.raises(NeedsLogin, match="administrator"):
            await bed.connect().run(Inboxes().accept, None)


@pytest.mark.parametrize(
    ("variable", "value", "error", "words"),
    [
        ("HASS_TOKEN", "", NeedsLogin, "HASS_TOKEN is missing"),
        ("HASS_URL", "homeassistant.local", NeedsLogin, "no address"),
        ("HASS_WATCH_ENTITIES", "door", UserError, "light.kitchen"),
        ("HASS_WATCH_DOMAINS", "light.kitchen", UserError, "a domain"),
        ("HASS_IGNORE_ENTITIES", "Light.Kitchen", UserError, "HASS_IGNORE_ENTITIES"),
        ("HASS_COOLDOWN", "soon", UserError, "HASS_COOLDOWN"),
        ("HASS_COOLDOWN", "nan", UserError, "HASS_COOLDOWN"),
        ("HASS_COOLDOWN", "-1", UserError, "HASS_COOLDOWN"),
    ],
)
def test_wrong_settings(variable: str, value: str, error: type[Exception], words: str) -> None:
    bed = HomeBed()
    bed.said |= {"HASS_URL": "http://127.0.0.1:1", variable: value}
    with pytest.raises(error, match=words):
        bed.connect()


async def test_the_check_tells_what_is_watched() -> None:
    async with HomeBed() as bed:
        found = await bed.connect().check()
        assert "2025.4.4" in found[0].text and "HASS_WATCH_ENTITIES" in found[1].hint
        bed.said["HASS_WATCH_DOMAINS"] = "lock"
        assert "lock.*" in (await bed.connect().check())[1].text
        await asyncio.sleep(0)
