"""What the operator asks about the rows of an agent: how many there are, whose they are from now on, or that
they go. The settings of agents are files, which their commands change themselves."""

from __future__ import annotations

from hermes.control.people.access import read_access_request
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import is_name
from hermes.domain.text import one_line
from hermes.domain.turns.session import SessionFilter
from hermes.entry.desk import OperatorDesk, operation

_PAGE = 200


@operation("GET", "agent-rows", "How many sessions, jobs and memory entries an agent has.")
async def count_agent_rows(desk: OperatorDesk, agent: str) -> int:
    return await desk.of(_checked(agent)).read(lambda tx: tx.rows.count())


@operation("POST", "agent-idle", "Refuse if an agent is at work, or waits for an answer.")
async def check_agent_idle(desk: OperatorDesk, agent: str, waiting: bool = True) -> bool:
    """What it waits for may be the work of another agent, which answers to its id, or the other way round;
    without `waiting` that does not count."""
    _check_not_busy(desk, AgentId(agent))
    if not waiting:
        return True
    if await desk.of(_checked(agent)).read(lambda tx: tx.questions.open_of(None)):
        raise _at_work(agent)
    return True


def _check_not_busy(desk: OperatorDesk, agent: AgentId) -> None:
    if agent in desk.busy():
        raise _at_work(agent)


def _at_work(agent: str) -> UserError:
    hint = "Wait until it is done, or stop it first."
    return UserError(f"The agent {agent} is at work now, or waits for an answer.", hint=hint)


@operation("POST", "agent-rows", "Give the rows of an agent that is gone to another one.")
async def rename_agent_rows(desk: OperatorDesk, agent: str, to: str) -> bool:
    old, new = _checked(agent), _checked(to)
    if old == MAIN_AGENT or old in desk.agents or new not in desk.agents:
        raise UserError(f"The rows of {old} cannot become those of {new}.", hint="See: hermes agent list")
    _check_not_busy(desk, old)
    await desk.of(old).write(lambda tx: tx.rows.give_to(new))
    return True


@operation("POST", "agent-purge", "Delete everything that an agent which is gone left behind.")
async def purge_agent_rows(desk: OperatorDesk, agent: str) -> int:
    gone = _checked(agent)
    if gone == MAIN_AGENT or gone in desk.agents:
        raise UserError(f"The agent {gone} is still there.", hint=f"hermes agent remove {gone}")
    _check_not_busy(desk, gone)
    store, deleted = desk.of(gone), 0
    while sessions := await store.read(lambda tx: tx.sessions.find("", _PAGE, SessionFilter())):
        for session in sessions:
            await desk.delete(gone, session.id)
        deleted += len(sessions)
    await store.write(lambda tx: tx.rows.remove())
    return deleted


@operation("POST", "route", "Which agent a message from there would go to; hooks are asked.")
async def routed_agent(desk: OperatorDesk, words: list[str]) -> str:
    request = read_access_request(words)
    return await desk.route(request.source, request.text)


def _checked(agent: str) -> AgentId:
    if not is_name(agent):
        raise UserError(f"No agent is called “{one_line(agent, 60)}”.")
    return AgentId(agent)
