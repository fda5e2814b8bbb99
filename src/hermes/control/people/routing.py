"""Routing: picks the agent for a message that names none. Declared routes in order, then a hook's word, then
the default: the same for chats, API clients, webhooks and jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from msgspec import Struct

from hermes.control.hooks.context import about_inbound
from hermes.control.hooks.dispatch import Hooks
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Inbound
from hermes.domain.ids import AgentId
from hermes.domain.settings.settings import Settings
from hermes.domain.system.hooks import SELECT_AGENT
from hermes.domain.turns.session import Isolation, SessionKey, session_key

JOBS = "cron"
"""The platform that jobs come from, as routes and addresses name it."""

SelectAgent = Callable[[Inbound], Awaitable[str | None]]
"""A hook that may name an agent; it has its own deadline and answers None when it does not care."""


def chat_session_key(source: Source, agent: AgentId, settings: Settings) -> SessionKey:
    isolation = Isolation(
        groups_per_user=settings.group_sessions_per_user, threads_per_user=settings.thread_sessions_per_user
    )
    return session_key(source, agent, isolation)


def job_source(name: str | None, maker: Source | None = None) -> Source:
    """A job that is to be made, as routes see it: its name is the chat, who makes it is the person."""
    person = None if maker is None else maker.person
    return Source(address=Address(platform=JOBS, chat=name or "-"), kind=SourceKind.JOB, user=person)


async def route(
    inbound: Inbound,
    settings: Settings,
    agents: Collection[AgentId],
    select: SelectAgent | None = None,
    maker: Source | None = None,
) -> AgentId:
    """A name that no hosted agent has, or one that people do not speak with, is passed over; one that is
    hosted but cannot be built is not, so that nobody with other rights answers in its place. Where no route
    is declared for what somebody makes, those for its maker count."""
    for source in (inbound.source, maker) if settings.routes else ():
        fitting = (known.agent for known in settings.routes if source and known.match.fits(source))
        agent = next(fitting, None)
        if agent is not None and agent in agents and settings.speaks(agent):
            return agent
    if select is not None:
        chosen = await select(inbound)
        if chosen and AgentId(chosen) in agents and settings.speaks(AgentId(chosen)):
            return AgentId(chosen)
    return settings.default_agent if settings.default_agent in agents else next(iter(agents))


def agent_chooser(hooks: Hooks) -> SelectAgent | None:
    """What routing asks where no declared route fits; None where no hook wants to be asked."""

    async def choose(inbound: Inbound) -> str | None:
        return await hooks.choose(about_inbound(inbound))

    return choose if SELECT_AGENT in hooks.followed else None


class RouteStep(Struct, frozen=True, kw_only=True):
    """What one rule says of a source, and whether it decides."""

    rule: str
    agent: AgentId
    reason: str
    decides: bool = False


def explain_route(source: Source, settings: Settings) -> list[RouteStep]:
    """Which rule gives a source its agent, and why not the others. Whether a hook would name one is not known
    before it is asked."""
    steps: list[RouteStep] = []
    decided = False
    for n, known in enumerate(settings.routes, 1):
        missed = known.match.misses(source)
        if decided:
            reason = "is not asked any more"
        elif missed is not None:
            name, want, have = missed
            reason = f"{name} is {f'“{have}”' if have else 'not given'}, not “{want}”"
        else:
            reason = "fits"
        decides = not decided and missed is None
        steps.append(RouteStep(rule=f"route {n}", agent=known.agent, reason=reason, decides=decides))
        decided = decided or decides
    if not decided:
        steps.append(RouteStep(rule="select_agent hooks", agent=AgentId(""), reason="name none"))
        default = settings.default_agent
        steps.append(RouteStep(rule="default_agent", agent=default, reason="is left", decides=True))
    return steps
