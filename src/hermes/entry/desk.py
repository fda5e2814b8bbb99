"""What the operator's commands ask of a home, each operation written once. A running gateway performs them on
the owner's socket (`http/owner.py`); where none runs, the command performs them itself, directly on the
gateway's database (`admin/shell/home.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from hermes.control.handoff.requests import cancel_handoff, retry_handoff
from hermes.control.jobs.editing import JobAction, JobDesk, JobSpec, pick_job
from hermes.control.jobs.wording import job_facts, run_facts
from hermes.control.outbound.outbox_admin import drop_messages, list_outbox, retry_messages
from hermes.control.outbound.sending import MessageSender, OutboundMessage
from hermes.control.people.access import AccessDecision, explain, read_access_request
from hermes.control.people.pairing import (
    PairingApproval,
    PairingOverview,
    approve,
    clear_pending,
    overview,
    revoke,
)
from hermes.control.people.routing import job_source
from hermes.control.sessions.administration import archive_session, change_session, trace_message
from hermes.control.sessions.callers import look_up
from hermes.control.sessions.moving_in import move_in
from hermes.control.sessions.retention import unused_sessions
from hermes.control.sessions.submission import NotFound
from hermes.control.usage import BY, LONGEST_REPORT, UsageQuery, UsageReport, count_usage
from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.channels import Channel
from hermes.domain.chats.handoff import Handoff
from hermes.domain.chats.message import Body
from hermes.domain.chats.pairing import Account
from hermes.domain.chats.rows import OutboxRow, SearchHit
from hermes.domain.errors import UserError
from hermes.domain.ids import EVERY_AGENT, MAIN_AGENT, AgentId, SessionId
from hermes.domain.ports.agent import MemoryCare
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.live import SettingsReport
from hermes.domain.text import one_line, storable
from hermes.domain.tools.checkpoint import CheckpointView
from hermes.domain.tools.tool import Grant
from hermes.domain.turns.job import Job
from hermes.domain.turns.moving import MovedSession
from hermes.domain.turns.session import Session, SessionFilter
from hermes.stream.wire.socket import WireEntry, entry_words

T = TypeVar("T")
Perform = Callable[..., Awaitable[Any]]
Performed = TypeVar("Performed", bound=Perform)


class OperatorDesk(Struct, frozen=True, kw_only=True):
    """A home in the hands of its operator. `route` says whose something is that names no agent, `sends`
    whether somebody sends to a chat now; `carry` wakes who hands conversations over, `apply` adopts the
    settings that stand in the files, `restart` begins anew with them, `copy_database` makes a copy that
    nobody changes; `memory_of` is what looks after an agent's memory with its files, `tend_checkpoints` looks
    after the checkpoints of one."""

    agents: Sequence[AgentId]
    default: AgentId
    route: Callable[[Source, str], Awaitable[AgentId]]
    courier: MessageSender
    jobs: Callable[[AgentId], JobDesk]
    delete: Callable[[AgentId, SessionId], Awaitable[None]]
    sends: Callable[[Address], bool]
    carry: Callable[[], None]
    apply: Callable[[], Awaitable[SettingsReport]]
    restart: Callable[[], Awaitable[None]]
    copy_database: Callable[[], Awaitable[str]]
    memory_of: Callable[[AgentId], Awaitable[MemoryCare | None]]
    tend_checkpoints: Callable[[AgentId, str], Awaitable[list[CheckpointView]]]
    busy: Callable[[], Collection[AgentId]] = tuple
    """The agents that are at work."""

    def of(self, agent: AgentId) -> Store:
        return self.courier.store.scoped(agent)

    async def collect(self, query: Callable[[Tx], list[T]], only: str | None = None) -> list[T]:
        """What a query finds with all agents, or with one alone."""
        return await self.of(EVERY_AGENT if only is None else self.check(only)).read(query)

    def check(self, agent: str) -> AgentId:
        if agent not in self.agents:
            raise NotFound(f"There is no agent “{one_line(agent, 80)}”.")
        return AgentId(agent)


OPERATIONS: dict[Perform, tuple[str, str, str]] = {}
"""What can be asked for, each by its method, path and summary."""


def operation(method: str, path: str, summary: str) -> Callable[[Performed], Performed]:
    """Declare an operation; what it takes beside the desk is what is sent."""

    def declare(perform: Performed) -> Performed:
        OPERATIONS[perform] = (method, f"/control/{path}", summary)
        return perform

    return declare


# --- settings ----------------------------------------------------------------------------------------


@operation("POST", "settings", "Adopt what stands in config.yaml and .env.")
async def apply_settings(desk: OperatorDesk) -> SettingsReport:
    return await desk.apply()


@operation("POST", "restart", "Begin anew, unless the settings would keep the gateway from starting.")
async def restart_gateway(desk: OperatorDesk) -> bool:
    await desk.restart()
    return True


@operation("POST", "database-copy", "Copy the database; where the copy is, in the folder of its backups.")
async def copy_database(desk: OperatorDesk) -> str:
    return await desk.copy_database()


# --- checkpoints -------------------------------------------------------------------------------------


@operation("POST", "checkpoints", "Prune or clear the checkpoints of all agents, or of one; what is left.")
async def tend_checkpoints(
    desk: OperatorDesk, action: str = "status", agent: str | None = None
) -> list[CheckpointView]:
    if agent is not None and agent not in desk.agents:
        raise NotFound(f"There is no agent “{one_line(agent, 80)}”.")
    wanted = desk.agents if agent is None else [AgentId(agent)]
    return [view for one in wanted for view in await desk.tend_checkpoints(one, action)]


# --- moving in ---------------------------------------------------------------------------------------


@operation("POST", "moved-sessions", "Write conversations of another program; how many were not here yet.")
async def move_sessions(desk: OperatorDesk, sessions: list[MovedSession], agent: str = MAIN_AGENT) -> int:
    store, known = desk.of(AgentId(agent)), 0
    for moved in sessions:  # each in a commit of its own: they may be long
        known += await store.write(lambda tx, moved=moved: move_in(tx, moved, AgentId(agent)))  # type: ignore[misc]
    return known


# --- sessions ----------------------------------------------------------------------------------------


class SessionAnswer(msgspec.Struct, kw_only=True):
    """A session that fits; its visible records if no other does."""

    session: Session
    entries: list[WireEntry]


@operation("GET", "sessions", "The sessions, the latest first.")
async def list_sessions(
    desk: OperatorDesk,
    agent: str | None = None,
    limit: int = 20,
    source: str | None = None,
    archived: bool | None = None,
) -> list[Session]:
    """`source` is a platform or a tag; `archived` None = those that are and those that are not."""
    among = SessionFilter(batched=False, platform=source, archived=archived)
    sessions = await desk.collect(lambda tx: tx.sessions.find("", limit, among), agent)
    return sorted(sessions, key=lambda session: session.updated_at, reverse=True)[:limit]


@operation("GET", "search", "What was said, in all sessions.")
async def search(
    desk: OperatorDesk, words: str, agent: str | None = None, limit: int = 20
) -> list[SearchHit]:
    # It brings the index up to date first, so it writes.
    hits = await desk.collect(lambda tx: tx.search.find(words, limit), agent)
    return hits[:limit]


@operation("GET", "session", "The sessions that a name fits, and what was said in it.")
async def find_session(desk: OperatorDesk, name: str, agent: str | None = None) -> list[SessionAnswer]:
    """By id, its beginning, or title."""

    def look(tx: Tx) -> list[SessionAnswer]:
        return [
            SessionAnswer(session=session, entries=[entry_words(entry) for entry in entries])
            for session, entries in look_up(tx, name)
        ]

    return await desk.collect(look, agent)


@operation("DELETE", "session", "Delete a session.")
async def delete_session(desk: OperatorDesk, name: str, agent: str | None = None) -> None:
    await desk.delete(AgentId(agent or desk.default), SessionId(name))


@operation("POST", "session/title", "Rename a session.")
async def rename_session(desk: OperatorDesk, name: str, title: str, agent: str | None = None) -> Session:
    store = desk.of(AgentId(agent or desk.default))
    return await store.write(lambda tx: change_session(tx, SessionId(name), None, {"title": title}))


@operation("POST", "session/archived", "Take a session out of the lists, or back into them.")
async def put_away(desk: OperatorDesk, name: str, archived: bool = True, agent: str | None = None) -> Session:
    store = desk.of(AgentId(agent or desk.default))
    return await store.write(lambda tx: archive_session(tx, SessionId(name), archived))


@operation("GET", "sessions/unused", "Sessions that nobody used for so many days, at most so many.")
async def list_unused(
    desk: OperatorDesk, days: int, limit: int = 1000, agent: str | None = None
) -> list[Session]:
    since = desk.courier.clock.now() - timedelta(days=days)
    return await desk.collect(lambda tx: unused_sessions(tx, since, limit), agent)


@operation("GET", "usage", "What models took, by day.")
async def usage_report(
    desk: OperatorDesk, days: int = 30, by: str = "model", agent: str | None = None, person: str = ""
) -> UsageReport:
    if by not in BY or not 1 <= days <= LONGEST_REPORT:
        raise UserError(f"Ask for 1 to {LONGEST_REPORT} days, by one of {', '.join(BY)}.")
    await count_usage(desk.courier.store)
    query = UsageQuery(by=by, days=days, now=desk.courier.clock.now(), person=person)
    return query.report(await desk.collect(query.read, agent))


@operation("GET", "trace", "Where a message is.")
async def trace(desk: OperatorDesk, message: str) -> list[str]:
    # The inbox is everybody's, so several agents may tell the same line.
    return list(dict.fromkeys(await desk.collect(lambda tx: trace_message(tx, message))))


# --- messages ----------------------------------------------------------------------------------------


class PlacesAnswer(msgspec.Struct, kw_only=True):
    """Home channels by account, and the chats that are known, the latest first."""

    homes: dict[str, Address]
    channels: list[Channel]


@operation("POST", "send", "Send a message; with the same key it is sent once.")
async def send(desk: OperatorDesk, target: str, text: str, key: str) -> list[Address]:
    letter = OutboundMessage(key=key, target=target, body=Body(text=storable(text)))
    return list((await desk.courier.post(desk.default, letter)).to)


@operation("GET", "send", "What became of a message that was sent by its key.")
async def sent(desk: OperatorDesk, key: str) -> list[OutboxRow]:
    prefix = OutboundMessage(key=key, target="", body=Body()).prefix
    return await desk.of(desk.default).read(lambda tx: tx.outbox.begun(prefix))


@operation("GET", "places", "The home channels and the chats that are known.")
async def places(desk: OperatorDesk) -> PlacesAnswer:
    places = await desk.courier.known(desk.default)
    return PlacesAnswer(homes=dict(places.homes), channels=list(places.channels))


@operation("GET", "outbox", "The messages that are on their way or were given up.")
async def outbox(desk: OperatorDesk, limit: int = 100) -> list[OutboxRow]:
    return await desk.of(desk.default).read(lambda tx: list_outbox(tx, limit))


@operation("POST", "outbox", "Try messages again, or drop them.")
async def change_outbox(desk: OperatorDesk, keys: list[str], drop: bool = False) -> list[OutboxRow]:
    """Those with these keys; none named is all that were given up."""
    store, now = desk.of(desk.default), desk.courier.clock.now()
    if drop:
        return await store.write(lambda tx: drop_messages(tx, keys, desk.sends), ends=True)
    rows = await store.write(lambda tx: retry_messages(tx, keys, now, desk.sends), first=True)
    for row in rows:
        desk.courier.ring(row.to)
    return rows


# --- people ------------------------------------------------------------------------------------------


@operation("GET", "pairing", "Who is paired, and who waits.")
async def list_people(desk: OperatorDesk) -> PairingOverview:
    now = desk.courier.clock.now()
    return await desk.of(MAIN_AGENT).read(lambda tx: overview(tx, now))


@operation("POST", "pairing/approve", "Let in who was given this code.")
async def approve_code(desk: OperatorDesk, account: Account, code: str, by: str) -> PairingApproval:
    now = desk.courier.clock.now()
    approval = await desk.of(MAIN_AGENT).write(lambda tx: approve(tx, account, code, by, now), first=True)
    if approval.place is not None:
        desk.courier.ring(approval.place)
    return approval


@operation("POST", "pairing/revoke", "Let somebody in no more.")
async def revoke_person(desk: OperatorDesk, account: Account, user: str) -> None:
    await desk.of(MAIN_AGENT).write(lambda tx: revoke(tx, account, user), ends=True)


@operation("POST", "pairing/clear", "Forget open requests and invitations.")
async def clear_pairing_requests(desk: OperatorDesk, account: Account | None = None) -> int:
    return await desk.of(MAIN_AGENT).write(lambda tx: clear_pending(tx, account), ends=True)


@operation("POST", "access", "Whether a message from there would be answered, and why.")
async def explain_access(desk: OperatorDesk, words: list[str]) -> AccessDecision:
    knock, courier = read_access_request(words), desk.courier
    return await courier.store.read(lambda tx: explain(tx, knock, courier.live.now, courier.capabilities))


# --- jobs --------------------------------------------------------------------------------------------


@operation("GET", "jobs", "The jobs of all agents.")
async def list_jobs(desk: OperatorDesk) -> list[dict[str, Any]]:
    zone = desk.jobs(desk.default).zone
    return [job_facts(job, zone) for job in await desk.collect(lambda tx: tx.jobs.list())]


@operation("POST", "jobs", "Make a job, or change one.")
async def save_job(
    desk: OperatorDesk, wish: JobSpec, job: str | None = None, agent: str = ""
) -> dict[str, Any]:
    """The job of this id or name is changed; without one a job is made, for this agent or the one that it
    is routed to."""
    if job is not None:
        jobs, changed = await _find_job(desk, job)
        return job_facts(await jobs.update(changed.id, wish), jobs.zone)
    whose = AgentId(agent) or await desk.route(job_source(wish.name), wish.prompt or "")
    if whose not in desk.agents:
        raise UserError(f"There is no agent “{one_line(whose, 60)}”.")
    jobs = desk.jobs(whose)
    return job_facts(await jobs.create(wish, None), jobs.zone)


@operation("POST", "jobs/act", "Pause, resume, run or remove a job.")
async def act_on_job(desk: OperatorDesk, job: str, act: JobAction) -> dict[str, Any]:
    jobs, known = await _find_job(desk, job)
    return job_facts(await jobs.act(known.id, JobAction(act)), jobs.zone)


@operation("GET", "runs", "What became of the runs, the newest first.")
async def list_runs(desk: OperatorDesk, job: str = "", limit: int = 20) -> list[dict[str, Any]]:
    """Those of one job, or of all."""
    only = (await _find_job(desk, job))[1] if job else None
    ident, zone = None if only is None else only.id, desk.jobs(desk.default).zone
    runs = await desk.collect(lambda tx: tx.job_runs.of(ident, limit))
    return [run_facts(run, zone) for run in runs]


async def _find_job(desk: OperatorDesk, word: str) -> tuple[JobDesk, Job]:
    job = pick_job(await desk.collect(lambda tx: tx.jobs.list()), word)
    return desk.jobs(job.agent), job


# --- grants and hand-offs ----------------------------------------------------------------------------


@operation("GET", "grants", "What people have permanently allowed.")
async def list_grants(desk: OperatorDesk) -> list[Grant]:
    return await desk.collect(lambda tx: tx.grants.list())


@operation("POST", "grants/revoke", "Take a grant back; whether there was one.")
async def revoke_grant(desk: OperatorDesk, grant: str) -> bool:
    return await desk.of(EVERY_AGENT).write(lambda tx: tx.grants.revoke(grant), ends=True)


@operation("GET", "handoffs", "Conversations that were handed over, or are on their way.")
async def list_handoffs(desk: OperatorDesk, limit: int = 50) -> list[Handoff]:
    handoffs = await desk.collect(lambda tx: tx.handoffs.latest(None, limit))
    return sorted(handoffs, key=lambda handoff: handoff.created_at, reverse=True)[:limit]


@operation("POST", "handoffs", "Try a failed hand-off again, or cancel an unfinished one.")
async def change_handoff(desk: OperatorDesk, handoff: str, cancel: bool = False) -> Handoff:
    now = desk.courier.clock.now()

    def change(tx: Tx) -> Handoff | None:
        if tx.handoffs.get(handoff) is None:
            return None
        return cancel_handoff(tx, handoff) if cancel else retry_handoff(tx, handoff, now)

    changed = await desk.of(EVERY_AGENT).write(change, first=not cancel, ends=cancel)
    if changed is not None:
        desk.carry()
        return changed
    raise UserError(
        f"There is no hand-off “{one_line(handoff, 40)}”.", hint="`hermes handoff list` shows them."
    )
