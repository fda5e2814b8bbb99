"""What the operator's commands ask of a home, each thing written once. A gateway that runs answers
them on the owner's socket (`http.control`); where none runs, the command itself does, with the same desk on
the database that rests (`admin.home`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from hermes.control.access import Verdict
from hermes.control.courier import Courier, Letter
from hermes.control.doors import look_up
from hermes.control.explain import explain, read_knock
from hermes.control.handoff import cancel_handoff, retry_handoff
from hermes.control.job_words import job_facts, run_facts
from hermes.control.jobs import JobDesk, JobWish
from hermes.control.outbox import drop_messages, list_outbox, retry_messages
from hermes.control.pairing import Approval, Overview, approve, clear_pending, overview, revoke
from hermes.control.submission import Unknown
from hermes.control.trace import trace_message
from hermes.domain.address import Address
from hermes.domain.directory import Channel
from hermes.domain.errors import UserError
from hermes.domain.grants import Grant
from hermes.domain.handoff import Handoff
from hermes.domain.ids import MAIN_AGENT, AgentId, JobId, SessionId
from hermes.domain.message import Body
from hermes.domain.pairing import Account
from hermes.domain.ports import Store, Tx
from hermes.domain.rows import Hit, OutboxRow
from hermes.domain.session import Session
from hermes.domain.text import one_line, storable
from hermes.stream.wire import EntryWords, entry_words

T = TypeVar("T")
Perform = Callable[..., Awaitable[Any]]
Performed = TypeVar("Performed", bound=Perform)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A home in the hands of its operator. `sends` tells whether somebody sends to a chat now, `carry` wakes
    who hands conversations over."""

    agents: Sequence[AgentId]
    default: AgentId
    courier: Courier
    jobs: Callable[[AgentId], JobDesk]
    delete: Callable[[AgentId, SessionId], Awaitable[None]]
    sends: Callable[[Address], bool]
    carry: Callable[[], None]

    def of(self, agent: AgentId) -> Store:
        return self.courier.store.scoped(agent)

    async def collect(
        self, query: Callable[[Tx], list[T]], only: str | None = None, *, writing: bool = False
    ) -> list[T]:
        """What a query finds with each agent, or with one alone."""
        if only is not None and only not in self.agents:
            raise Unknown(f"There is no agent “{one_line(only, 80)}”.")
        found: list[T] = []
        for agent in self.agents if only is None else [AgentId(only)]:
            store = self.of(agent)
            found += await (store.write(query) if writing else store.read(query))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that can be asked for: by `body` or `query`, whichever type `perform` takes."""

    method: str
    path: str
    told: str
    perform: Perform


OPERATIONS: dict[Perform, Operation] = {}


def operation(method: str, path: str, told: str) -> Callable[[Performed], Performed]:
    def declare(perform: Performed) -> Performed:
        OPERATIONS[perform] = Operation(method=method, path=f"/control/{path}", told=told, perform=perform)
        return perform

    return declare


# --- sessions ----------------------------------------------------------------------------------------


class OfAgents(msgspec.Struct, kw_only=True):
    """Whose sessions: one agent's, or everybody's."""

    agent: str | None = None
    limit: int = 20


class Named(OfAgents, kw_only=True):
    """By id, its beginning, or title."""

    name: str


class Words(OfAgents, kw_only=True):
    words: str


class Message(msgspec.Struct, kw_only=True):
    message: str


class FoundSession(msgspec.Struct, kw_only=True):
    """A session that fits; its visible records if no other does."""

    session: Session
    entries: list[EntryWords]


@operation("GET", "sessions", "The sessions, the latest first.")
async def list_sessions(desk: Desk, query: OfAgents) -> list[Session]:
    found = await desk.collect(lambda tx: tx.sessions.find("", query.limit), query.agent)
    return sorted(found, key=lambda session: session.updated_at, reverse=True)[: query.limit]


@operation("GET", "search", "What was said, in all sessions.")
async def search(desk: Desk, query: Words) -> list[Hit]:
    # It brings the index up to date first, so it writes.
    hits = await desk.collect(lambda tx: tx.search.find(query.words, query.limit), query.agent, writing=True)
    return hits[: query.limit]


@operation("GET", "session", "The sessions that a name fits, and what was said in it.")
async def find_session(desk: Desk, query: Named) -> list[FoundSession]:
    def look(tx: Tx) -> list[FoundSession]:
        return [
            FoundSession(session=session, entries=[entry_words(entry) for entry in entries])
            for session, entries in look_up(tx, query.name)
        ]

    return await desk.collect(look, query.agent)


@operation("DELETE", "session", "Delete a session for good.")
async def delete_session(desk: Desk, query: Named) -> None:
    await desk.delete(AgentId(query.agent or desk.default), SessionId(query.name))


@operation("GET", "trace", "Where a message is.")
async def trace(desk: Desk, query: Message) -> list[str]:
    # The inbox is everybody's, so several agents may tell the same line.
    return list(dict.fromkeys(await desk.collect(lambda tx: trace_message(tx, query.message))))


# --- messages ----------------------------------------------------------------------------------------


class SendRequest(msgspec.Struct, kw_only=True):
    target: str
    text: str
    key: str


class PlacesAnswer(msgspec.Struct, kw_only=True):
    """Home channels by account, and the chats that are known, the latest first."""

    homes: dict[str, Address]
    channels: list[Channel]


class Limit(msgspec.Struct, kw_only=True):
    limit: int = 100


class ChangeRequest(msgspec.Struct, kw_only=True):
    """Messages by their keys; none named is all that were given up."""

    keys: list[str]
    drop: bool = False


@operation("POST", "send", "Send a message; with the same key it is sent once.")
async def send(desk: Desk, body: SendRequest) -> list[Address]:
    letter = Letter(key=body.key, target=body.target, body=Body(text=storable(body.text)))
    return list((await desk.courier.post(desk.default, letter)).to)


@operation("GET", "places", "The home channels and the chats that are known.")
async def places(desk: Desk) -> PlacesAnswer:
    known = await desk.courier.known(desk.default)
    return PlacesAnswer(homes=dict(known.homes), channels=list(known.channels))


@operation("GET", "outbox", "The messages that are on their way or were given up.")
async def outbox(desk: Desk, query: Limit) -> list[OutboxRow]:
    return await desk.of(desk.default).read(lambda tx: list_outbox(tx, query.limit))


@operation("POST", "outbox", "Try messages again, or drop them.")
async def change_outbox(desk: Desk, body: ChangeRequest) -> list[OutboxRow]:
    store, now = desk.of(desk.default), desk.courier.clock.now()
    if body.drop:
        return await store.write(lambda tx: drop_messages(tx, body.keys, desk.sends))
    rows = await store.write(lambda tx: retry_messages(tx, body.keys, now, desk.sends))
    for row in rows:
        desk.courier.ring(row.to)
    return rows


# --- people ------------------------------------------------------------------------------------------


class ApproveRequest(msgspec.Struct, kw_only=True):
    account: Account
    code: str
    by: str


class RevokeRequest(msgspec.Struct, kw_only=True):
    account: Account
    user: str


class ClearRequest(msgspec.Struct, kw_only=True):
    account: Account | None = None


class ExplainRequest(msgspec.Struct, kw_only=True):
    words: list[str]


@operation("GET", "pairing", "Who is paired, and who waits.")
async def list_people(desk: Desk) -> Overview:
    now = desk.courier.clock.now()
    return await desk.of(MAIN_AGENT).read(lambda tx: overview(tx, now))


@operation("POST", "pairing/approve", "Let in who was given this code.")
async def approve_code(desk: Desk, body: ApproveRequest) -> Approval:
    now = desk.courier.clock.now()
    approval = await desk.of(MAIN_AGENT).write(lambda tx: approve(tx, body.account, body.code, body.by, now))
    if approval.place is not None:
        desk.courier.ring(approval.place)
    return approval


@operation("POST", "pairing/revoke", "Let somebody in no more.")
async def revoke_person(desk: Desk, body: RevokeRequest) -> None:
    await desk.of(MAIN_AGENT).write(lambda tx: revoke(tx, body.account, body.user))


@operation("POST", "pairing/clear", "Forget open requests and invitations.")
async def clear(desk: Desk, body: ClearRequest) -> int:
    return await desk.of(MAIN_AGENT).write(lambda tx: clear_pending(tx, body.account))


@operation("POST", "access", "Whether a message from there would be answered, and why.")
async def explain_access(desk: Desk, body: ExplainRequest) -> Verdict:
    knock, courier = read_knock(body.words), desk.courier
    return await courier.store.read(lambda tx: explain(tx, knock, courier.settings, courier.capabilities))


# --- jobs --------------------------------------------------------------------------------------------


class JobRequest(msgspec.Struct, kw_only=True):
    """A job to make, for an agent, or to change, by its id."""

    wish: JobWish
    job: str = ""
    agent: str = ""


class JobAct(msgspec.Struct, kw_only=True):
    job: str
    act: Literal["pause", "resume", "run", "remove"]


class OfJob(msgspec.Struct, kw_only=True):
    """The runs of one job, or of all."""

    job: str = ""
    limit: int = 20


@operation("GET", "jobs", "The jobs of all agents.")
async def list_jobs(desk: Desk) -> list[dict[str, Any]]:
    desks = [desk.jobs(agent) for agent in desk.agents]
    return [job_facts(job, jobs.zone) for jobs in desks for job in await jobs.all()]


@operation("POST", "jobs", "Make a job, or change one.")
async def save_job(desk: Desk, body: JobRequest) -> dict[str, Any]:
    if body.job:
        jobs = await _jobs_with(desk, body.job)
        return job_facts(await jobs.update(body.job, body.wish), jobs.zone)
    agent = AgentId(body.agent) or desk.default
    if agent not in desk.agents:
        raise UserError(f"There is no agent “{one_line(agent, 60)}”.")
    jobs = desk.jobs(agent)
    return job_facts(await jobs.create(body.wish, None), jobs.zone)


@operation("POST", "jobs/act", "Pause, resume, run or remove a job.")
async def act_on_job(desk: Desk, body: JobAct) -> None:
    jobs = await _jobs_with(desk, body.job)
    acts = {"pause": jobs.pause, "resume": jobs.resume, "run": jobs.run, "remove": jobs.remove}
    await acts[body.act](body.job)


@operation("GET", "runs", "What became of the runs, the newest first.")
async def list_runs(desk: Desk, query: OfJob) -> list[dict[str, Any]]:
    desks = [await _jobs_with(desk, query.job)] if query.job else [desk.jobs(one) for one in desk.agents]
    found = [run_facts(run, one.zone) for one in desks for run in await one.runs(query.job, query.limit)]
    return sorted(found, key=lambda run: str(run["due"]), reverse=True)[: query.limit]


async def _jobs_with(desk: Desk, ident: str) -> JobDesk:
    for agent in desk.agents:
        jobs = desk.jobs(agent)
        if await jobs.get(JobId(ident)) is not None:
            return jobs
    raise UserError(f"There is no job “{one_line(ident, 60)}” any more.")


# --- grants and hand-offs ----------------------------------------------------------------------------


class RevokeGrant(msgspec.Struct, kw_only=True):
    grant: str


class ChangeHandoff(msgspec.Struct, kw_only=True):
    """Try one again that failed, or let one be that is not done."""

    handoff: str
    cancel: bool = False


@operation("GET", "grants", "What people allowed for good.")
async def list_grants(desk: Desk) -> list[Grant]:
    return await desk.collect(lambda tx: tx.grants.list())


@operation("POST", "grants/revoke", "Take a grant back; whether there was one.")
async def revoke_grant(desk: Desk, body: RevokeGrant) -> bool:
    return any([await desk.of(agent).write(lambda tx: tx.grants.revoke(body.grant)) for agent in desk.agents])


@operation("GET", "handoffs", "Conversations that were handed over, or are on their way.")
async def list_handoffs(desk: Desk, query: Limit) -> list[Handoff]:
    found = await desk.collect(lambda tx: tx.handoffs.latest(None, query.limit))
    return sorted(found, key=lambda one: one.created_at, reverse=True)[: query.limit]


@operation("POST", "handoffs", "Try a hand-off again, or let it be.")
async def change_handoff(desk: Desk, body: ChangeHandoff) -> Handoff:
    now = desk.courier.clock.now()

    def change(tx: Tx) -> Handoff | None:
        if tx.handoffs.get(body.handoff) is None:
            return None
        return cancel_handoff(tx, body.handoff) if body.cancel else retry_handoff(tx, body.handoff, now)

    for agent in desk.agents:
        changed = await desk.of(agent).write(change)
        if changed is not None:
            desk.carry()
            return changed
    raise UserError(
        f"There is no hand-off “{one_line(body.handoff, 40)}”.", hint="`hermes handoff list` shows them."
    )
