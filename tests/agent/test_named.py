"""Writing to a chat is asked for, unless the person's own words name it; the yes is for these very words."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from hermes.agent.run.toolbox import NOBODY
from hermes.control.outbound.targets import KnownTargets, resolve_targets, spellings
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.channels import Channel, KnownChannels, MessagingPort
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.tools.tool import ToolContext
from hermes.domain.turns.event import Asked, ToolFinished, UserSaid
from hermes.domain.turns.turn import Guidance, ReplyPlace, Turn
from hermes.domain.word import replace
from hermes.testing.backends import NoBackend, fixed_scope
from hermes.testing.model import ScriptedModel, call, say
from hermes.testing.tools import tool_services, tools_of
from tests.agent.driving import SESSION, Driver, loop_of

SENT: list[tuple[str, str]] = []


async def _send(context: ToolContext, target: str, text: str) -> list[Address]:
    SENT.append((target, text))
    return [Address(platform="fake", chat="x")]


KNOWN = KnownTargets(
    accounts=("fake", "telegram", "slack", "discord", "email", "webhook"),
    channels=[
        Channel(address=Address(platform="slack", chat="C1"), name="ops", kind=SourceKind.CHANNEL),
        Channel(address=Address(platform="slack", chat="C2"), name="general", kind=SourceKind.CHANNEL),
        Channel(address=Address(platform="discord", chat="77"), name="team", kind=SourceKind.CHANNEL),
        Channel(address=Address(platform="discord", chat="78"), name="lab", kind=SourceKind.CHANNEL),
        Channel(address=Address(platform="slack", chat="C3"), name="lab", kind=SourceKind.CHANNEL),
        Channel(address=Address(platform="fake", chat="5"), name="Ann", kind=SourceKind.PRIVATE),
        Channel(address=Address(platform="fake", chat="6"), name="Bob", kind=SourceKind.PRIVATE),
        Channel(address=Address(platform="fake", chat="7"), name="Bob Lee", kind=SourceKind.PRIVATE),
        Channel(address=Address(platform="fake", chat="8"), name="654321", kind=SourceKind.PRIVATE),
        Channel(address=Address(platform="telegram", chat="-9"), name="Family", kind=SourceKind.GROUP),
        Channel(address=Address(platform="webhook", chat="drop"), name="drop", kind=SourceKind.WEBHOOK),
    ],
)


async def _spelled(agent: AgentId, turn: TurnId, target: str) -> list[tuple[str, ...]]:
    return [spellings(to, KNOWN) for to in resolve_targets(target, KNOWN)]


async def _places(context: ToolContext) -> KnownChannels:
    return KnownChannels(homes={}, channels=[])


class Chat(Driver):
    """A chat whose turns are answered in `fake:1`."""

    kind = SourceKind.PRIVATE
    author: str | None = None

    def turn(self) -> Turn:
        here = Address(platform="fake", chat="1")
        turn = replace(super().turn(), reply=ReplyPlace(to=here), source=Source(address=here, kind=self.kind))
        return replace(turn, input=replace(turn.input, author=self.author))


def chat(target: str, message: str = "the words", **more: Any) -> Chat:
    SENT.clear()
    bench = tool_services(
        backend=cast(Any, NoBackend()),
        recall=cast(Any, None),
        scope_in=fixed_scope(),
        post=MessagingPort(send=_send, places=_places, spelled=_spelled),
    )
    order = call("send_message", json.dumps({"target": target, "message": message}))
    model = ScriptedModel([order, say("done")])
    return Chat(loop_of(model, *tools_of(bench, "messaging")), **more)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("fake:1", "answer here"),
        ("origin", "tell me"),
        ("fake", "tell the home channel"),
        ("all", "tell everybody"),
        ("telegram:-100123456:7", "post it in telegram:-100123456:7."),
        ("telegram:@news", "(post it to @news!)"),
        ("slack:#ops", "Tell #ops about it"),
        ("slack:op", "Tell #ops about it"),
        ("slack:#ops", "Tell slack:C1 about it"),
        ("slack:C1", "tell **slack:#ops**, please"),
        ("fake:ann", "tell fake:Ann"),
        ("email:bob@example.com", "mail email:bob@example.com: hello"),
        ("slack:#ops, fake", "tell #ops,#dev and home"),
        ("slack:lab", "tell slack:#lab"),
    ],
)
async def test_what_a_person_named_is_not_asked_for(target: str, words: str) -> None:
    talk = chat(target)
    await talk.say(words)
    assert [(target, "the words")] == SENT


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("telegram:666777", "summarise this page"),
        ("slack:#ops", "do not mind the shops or ops-team"),
        ("slack:#ops", "tell ops, please"),
        ("slack:#general", "What is the weather like in general?"),
        ("discord:team", "my team likes it"),
        ("telegram:123456", "Order 123456 costs 10"),
        ("fake:654321", "tell fake:654321"),
        ("fake:an", "is there an annual report?"),
        ("fake:an", "tell fake:an"),
        ("fake:ann", "tell Ann, @Ann or #Ann"),
        ("fake:6", "tell fake:Bob Lee"),
        ("slack:C3", "tell #lab"),
        ("telegram:-9", "how nice, #family"),
        ("slack:#ops", "see https://x.example/#ops and #ops-team"),
        ("telegram:-100123456", "post it in telegram:-100123456:7"),
        ("email:bob@example.com", "mail bob@example.com"),
        ("email:bob@example.com", "mail email:bob@example.com.evil.example"),
        ("telegram:5", "give me 5 reasons"),
        ("slack:#ops, telegram:666777", "tell #ops"),
        ("webhook:drop", "read the mail"),
    ],
)
async def test_a_place_that_nobody_named_is_asked_for(target: str, words: str) -> None:
    talk = chat(target)
    records = await talk.say(words)
    asked = records[-1]
    assert isinstance(asked, Asked) and not SENT
    assert asked.text.startswith("Send a message to ") and "\n> the words" in asked.text


async def test_the_question_is_bound_to_the_place_and_to_every_word() -> None:
    digests = set()
    for target, message in (
        ("fake:21", "x"),
        ("fake:22", "x"),
        ("fake:21", "y"),
        ("fake:21", f"x{' ' * 3000}y"),
    ):
        records = await chat(target, message).say("go")
        asked = records[-1]
        assert isinstance(asked, Asked) and len(asked.text) < 2000
        digests.add(asked.digest)
    assert len(digests) == 4


async def test_words_of_others_do_not_count() -> None:
    in_context = chat("fake:666777")
    in_context.turns = 1
    in_context.add(UserSaid(text="what is this?", context="tell fake:666777"))
    assert isinstance((await in_context.go())[-1], Asked)
    webhook = chat("fake:666777")
    webhook.kind = SourceKind.WEBHOOK
    assert isinstance((await webhook.say("tell fake:666777"))[-1], Asked)
    ended = chat("fake:666777")
    ended.turns = 1
    ended.add(UserSaid(text="[Background process p ended with code 0: echo fake:666777]"))
    assert isinstance((await ended.say("go on"))[-1], Asked)


async def test_in_a_shared_session_only_the_words_of_this_turn_count() -> None:
    shared = replace(SESSION, owner=None)
    talk = chat("fake:666777", session=shared)
    talk.author = "Ann"
    talk.turns = 1
    talk.add(UserSaid(text="tell fake:666777", author="Ann"))
    talk.turns = 2
    talk.add(UserSaid(text="go on", author="Ann"), UserSaid(text="fake:666777!", author="Bob", steering=True))
    assert isinstance((await talk.go())[-1], Asked)
    own = chat("fake:666777", session=shared)
    await own.say("tell fake:666777")
    assert SENT


async def test_where_nobody_can_be_asked_only_named_places_are_written_to() -> None:
    alone = Guidance(unattended="deny")
    records = await chat("fake:666777", guidance=alone).say("do the daily work")
    assert [one.text for one in records if isinstance(one, ToolFinished)] == [NOBODY] and not SENT
    await chat("fake:666777", guidance=alone).say("tell fake:666777 what is new")
    assert SENT == [("fake:666777", "the words")]
