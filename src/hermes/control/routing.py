"""Routing: which agent a chat belongs to. Declared routes in order, then a hook's word, then the default."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from hermes.domain.address import Source
from hermes.domain.ids import AgentId
from hermes.domain.message import Inbound
from hermes.domain.settings import Route, RouteMatch, Settings

SelectAgent = Callable[[Inbound], Awaitable[str | None]]
"""A hook that may name an agent; it has its own deadline and answers None when it does not care."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    agent: AgentId
    by: str


def declared(source: Source, routes: Collection[Route]) -> AgentId | None:
    """The agent of the first route whose every given field is exactly the source's."""
    for route in routes:
        if matches(source, route.match):
            return route.agent
    return None


def matches(source: Source, wanted: RouteMatch) -> bool:
    address = source.address
    pairs = (
        (wanted.platform, address.platform),
        (wanted.account, address.account),
        (wanted.kind, source.kind.value),
        (wanted.chat_id, address.chat),
        (wanted.thread_id, address.thread),
        (wanted.user_id, source.user),
        (wanted.user_id_alt, source.user_alt),
        (wanted.guild_id, source.guild),
        (wanted.parent_chat_id, source.parent_chat),
    )
    return all(want is None or want == have for want, have in pairs)


async def route(
    inbound: Inbound, settings: Settings, known: Collection[AgentId], select: SelectAgent | None = None
) -> Routed:
    """A name that no hosted agent has is passed over, so that a message always finds somebody."""
    agent = declared(inbound.source, settings.routes)
    if agent is not None and agent in known:
        return Routed(agent=agent, by="a declared route")
    if select is not None:
        chosen = await select(inbound)
        if chosen and AgentId(chosen) in known:
            return Routed(agent=AgentId(chosen), by="the select_agent hook")
    if settings.default_agent in known:
        return Routed(agent=settings.default_agent, by="the default")
    return Routed(agent=next(iter(known)), by="the only agent there is")
