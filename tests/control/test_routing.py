"""Routing and access: pure decisions, with their reasons."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.control.people.access import AccessRequest, decide
from hermes.control.people.routing import explain_route, route
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Inbound
from hermes.domain.ids import AgentId, DeliveryId
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import HostedAgent, Route, RouteMatch, Settings
from hermes.domain.word import field_names, replace

SOURCE = Source(
    address=Address(platform="discord", account="work", chat="c1", thread="t1"),
    kind=SourceKind.THREAD,
    user="u1",
    user_alt="alt1",
    guild="g1",
    parent_chat="p1",
    roles=("guests", "staff"),
)
MATCHES = {
    "platform": "discord",
    "account": "work",
    "kind": "thread",
    "chat_id": "c1",
    "thread_id": "t1",
    "user_id": "u1",
    "user_id_alt": "alt1",
    "guild_id": "g1",
    "parent_chat_id": "p1",
    "role": "staff",
}
AGENTS = [AgentId("main"), AgentId("coder"), AgentId("helper")]


def inbound(source: Source = SOURCE) -> Inbound:
    return Inbound(delivery=DeliveryId("d"), source=source, at=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("name", MATCHES)
async def test_each_field_matches_exactly(name: str) -> None:
    right = Settings(routes=(Route(match=RouteMatch(**{name: MATCHES[name]}), agent=AgentId("coder")),))
    wrong = Settings(routes=(Route(match=RouteMatch(**{name: "else"}), agent=AgentId("coder")),))
    assert await route(inbound(), right, AGENTS) == "coder"
    assert await route(inbound(), wrong, AGENTS) == "main"


async def test_the_first_declared_route_wins_and_all_fields_must_hold() -> None:
    routes = (
        Route(match=RouteMatch(platform="discord", chat_id="other"), agent=AgentId("main")),
        Route(match=RouteMatch(platform="discord"), agent=AgentId("coder")),
        Route(match=RouteMatch(**MATCHES), agent=AgentId("helper")),
    )
    assert await route(inbound(), Settings(routes=routes), AGENTS) == "coder"


async def test_the_hook_is_asked_after_the_routes_and_before_the_default() -> None:
    async def select(message: Inbound) -> str | None:
        return "helper"

    async def unknown(message: Inbound) -> str | None:
        return "nobody"

    settings = Settings(default_agent=AgentId("coder"))
    assert await route(inbound(), settings, AGENTS, select) == "helper"
    assert await route(inbound(), settings, AGENTS, unknown) == "coder"
    declared = Settings(routes=(Route(match=RouteMatch(platform="discord"), agent=AgentId("main")),))
    assert await route(inbound(), declared, AGENTS, select) == "main"


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        (Settings(), False),
        (Settings(allowed_users=("u1",)), True),
        (Settings(allowed_users=("alt1",)), True),
        (Settings(allowed_users=("someone",)), False),
        (Settings(allow_all_users=True), True),
        (Settings(platforms={"discord@work": PlatformSettings(allowed_users=("u1",))}), True),
        (Settings(platforms={"discord@work": PlatformSettings(allowed_users=("x",))}), False),
        (Settings(platforms={"telegram@work": PlatformSettings(allow_all_users=True)}), False),
        (Settings(platforms={"discord@work": PlatformSettings(allow_all_users=True)}), True),
        # What is said for one account counts for no other.
        (Settings(platforms={"discord": PlatformSettings(allow_all_users=True)}), False),
        (Settings(platforms={"discord@home": PlatformSettings(allowed_users=("u1",))}), False),
    ],
)
def test_access_denies_unless_somebody_allowed_it(settings: Settings, allowed: bool) -> None:
    decision = decide(AccessRequest(source=SOURCE), settings)
    assert decision.allowed is allowed
    assert decision.reason


def test_nobody_without_an_id_gets_in_by_a_list() -> None:
    nameless = Source(address=SOURCE.address, kind=SourceKind.PRIVATE)
    assert not decide(AccessRequest(source=nameless), Settings(allowed_users=("",))).allowed


# --- by properties -----------------------------------------------------------------------------------

VALUES = st.sampled_from(["a", "b", "c"])
FIELDS = [name for name in field_names(RouteMatch) if name != "kind"]
SOME_MATCH = st.builds(
    lambda fields, kind: RouteMatch(**fields, kind=kind),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4),
    st.sampled_from([None, "private", "group", "api"]),
)
HOSTED = [AgentId(name) for name in ("main", "coder", "helper", "alone")]
SOME_ROUTE = st.builds(
    lambda match, agent: Route(match=match, agent=agent), SOME_MATCH, st.sampled_from(HOSTED)
)
SOME_SOURCE = st.builds(
    lambda platform, account, chat, thread, user, alt, guild, parent, roles, kind: Source(
        address=Address(platform=platform, account=account, chat=chat, thread=thread),
        kind=SourceKind(kind),
        user=user,
        user_alt=alt,
        guild=guild,
        parent_chat=parent,
        roles=tuple(roles),
    ),
    VALUES, VALUES, VALUES, st.none() | VALUES, st.none() | VALUES, st.none() | VALUES, st.none() | VALUES,
    st.none() | VALUES, st.lists(VALUES, max_size=2), st.sampled_from(["private", "group", "api"]),
)  # fmt: skip


def _fits(match: RouteMatch, source: Source) -> bool:
    """As the guide tells it, written once more in another way."""
    has = {
        "platform": source.address.platform, "account": source.address.account, "kind": source.kind.value,
        "chat_id": source.address.chat, "thread_id": source.address.thread, "user_id": source.user,
        "user_id_alt": source.user_alt, "guild_id": source.guild, "parent_chat_id": source.parent_chat,
    }  # fmt: skip
    wanted = {name: getattr(match, name) for name in field_names(RouteMatch)}
    role = wanted.pop("role")
    return (role is None or role in source.roles) and all(
        value is None or has[name] == value for name, value in wanted.items()
    )


@given(
    st.lists(SOME_ROUTE, max_size=6), SOME_SOURCE, st.sampled_from([None, "helper", "alone", "nobody", ""])
)
def test_the_order_of_routes_counts_and_how_much_they_say_does_not(
    routes: list[Route], source: Source, hook: str | None
) -> None:
    settings = Settings(
        routes=tuple(routes),
        default_agent=AgentId("coder"),
        agents={"coder": HostedAgent(), "helper": HostedAgent(), "alone": HostedAgent(mode="subagent")},
    )
    asked: list[Inbound] = []

    async def select(message: Inbound) -> str | None:
        asked.append(message)
        return hook

    chosen = asyncio.run(route(inbound(source), settings, HOSTED, select))
    first = next((one for one in routes if _fits(one.match, source)), None)
    assert chosen != "alone", "people do not reach a subagent"
    if first is not None and first.agent != "alone":
        assert chosen == first.agent and not asked
    else:
        assert len(asked) == 1 and chosen == ("helper" if hook == "helper" else "coder")
    steps = explain_route(source, settings)
    assert [step.decides for step in steps].count(True) == 1
    if first is not None:
        assert steps[routes.index(first)].decides
    shadowed = [*routes, Route(match=RouteMatch(), agent=AgentId("helper"))]
    if first is not None and first.agent != "alone":
        later = asyncio.run(route(inbound(source), replace(settings, routes=tuple(shadowed)), HOSTED))
        assert later == chosen, "a later route changes nothing"
