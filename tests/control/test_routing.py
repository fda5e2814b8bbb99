"""Routing and access: pure decisions, with their reasons."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hermes.control.people.access import AccessRequest, decide
from hermes.control.people.routing import route
from hermes.domain.address import Address, Source, SourceKind
from hermes.domain.ids import AgentId, DeliveryId
from hermes.domain.message import Inbound
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Route, RouteMatch, Settings

SOURCE = Source(
    address=Address(platform="discord", account="work", chat="c1", thread="t1"),
    kind=SourceKind.THREAD,
    user="u1",
    user_alt="alt1",
    guild="g1",
    parent_chat="p1",
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
