"""Jobs: work for later, and the runs that come of it. A slot is one planned run; no slot runs twice."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from enum import StrEnum

from msgspec import Struct

from hermes.domain.chats.address import Address, Source
from hermes.domain.ids import AgentId, JobId, SessionId, TurnId


class JobState(StrEnum):
    """scheduled ⇄ paused; completed when nothing is left to run; error when it cannot be planned."""

    SCHEDULED = "scheduled"
    PAUSED = "paused"
    COMPLETED = "completed"
    ERROR = "error"


class CatchUp(StrEnum):
    """What becomes of slots that passed while nobody could run them: the latest is run, none is, or all are,
    one after the other."""

    ONCE = "once"
    SKIP = "skip"
    ALL = "all"


class Job(Struct, frozen=True, kw_only=True):
    """Work for later: at most one run per (job, slot).

    `schedule` can be read again at any time; intervals count from `anchor`. `times` is how often it runs in
    all (None: for ever), `completed` how often it has. With `attach_to_session`, what it sends to its origin
    is written down in that chat's session, so that an answer to it is understood. With `notify_only`, people
    get what it says through `notify` and nothing else. It does not run in its `quiet_hours` (empty: those of
    the settings, if it repeats; “none”: there are none), and spends at most its `budget` in a day. One
    that is `moved_in` by the operator from another program, which noted no maker, answers where theirs do;
    `extra` keeps, as JSON, what another program noted and this one does not use."""

    id: JobId
    agent: AgentId
    schedule: str
    prompt: str
    created_at: datetime
    anchor: datetime
    name: str = ""
    deliver_to: str = "local"
    origin: Source | None = None
    next_due: datetime | None = None
    state: JobState = JobState.SCHEDULED
    times: int | None = None
    completed: int = 0
    catch_up: CatchUp = CatchUp.ONCE
    paused_at: datetime | None = None
    paused_reason: str = ""
    script: str = ""
    no_agent: bool = False
    context_from: tuple[JobId, ...] = ()
    model: str = ""
    toolsets: tuple[str, ...] = ()
    workdir: str = ""
    skills: tuple[str, ...] = ()
    attach_to_session: bool = False
    notify_only: bool = False
    quiet_hours: str = ""
    budget: str = ""
    last_run_at: datetime | None = None
    last_status: str = ""
    last_error: str = ""
    last_delivery_error: str = ""
    last_output: str = ""
    moved_in: bool = False
    extra: str = "{}"


class RunState(StrEnum):
    """claimed → script → turn → settled → over. `claimed` waits for what must happen before its turn; a
    `script` is under way (a crash leaves its outcome unknown); `settled` lacks only its file in the home."""

    CLAIMED = "claimed"
    SCRIPT = "script"
    TURN = "turn"
    SETTLED = "settled"
    OVER = "over"


class RunStatus(StrEnum):
    """How a run ended; empty while it has not."""

    OPEN = ""
    OK = "ok"
    SILENT = "silent"
    SKIPPED = "skipped"
    MISSED = "missed"
    STOPPED = "stopped"
    ERROR = "error"


class JobRun(Struct, frozen=True, kw_only=True):
    """What became of a slot. `to` is where its answer goes; `manual` runs were asked for by somebody."""

    job: JobId
    due: datetime
    began_at: datetime
    state: RunState
    name: str = ""
    to: tuple[Address, ...] = ()
    manual: bool = False
    notify_only: bool = False
    session: SessionId | None = None
    turn: TurnId | None = None
    ended_at: datetime | None = None
    status: RunStatus = RunStatus.OPEN
    error: str = ""

    @property
    def slot(self) -> Slot:
        return Slot(job=self.job, due=self.due)


class DueJobs(Struct, frozen=True, kw_only=True):
    """The jobs whose time has come, and when it comes for the next one."""

    jobs: tuple[Job, ...]
    next: datetime | None


class ScriptReport(Struct, frozen=True, kw_only=True):
    """How a job's script ended: what it said, and what went wrong (empty: nothing)."""

    output: str = ""
    problem: str = ""


class Slot(Struct, frozen=True, kw_only=True):
    job: JobId
    due: datetime


NO_QUIET_HOURS = "none"
_HOURS = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*-\s*(\d{1,2})(?::(\d{2}))?")


def quiet_until(hours: str, here: datetime | None = None) -> datetime | None:
    """When hours like “22:00-07:00” end, if it is within them at a time of the clock there; None if it is
    not. A `ValueError` for what is no hours."""
    if hours.strip().lower() in ("", NO_QUIET_HOURS):
        return None
    match = _HOURS.fullmatch(hours.strip())
    if match is None:
        raise ValueError(hours)
    begin, end = (time(int(match[n]) % 24, int(match[n + 1] or 0)) for n in (1, 3))
    if int(match[1]) > 24 or int(match[3]) > 24 or begin == end:
        raise ValueError(hours)
    if here is None:
        return None
    now = here.time()
    within = begin <= now < end if begin < end else now >= begin or now < end
    if not within:
        return None
    day = here if now < end else here + timedelta(days=1)
    # Of a time that comes twice it is that of the same hour: the end must not have passed yet.
    return day.replace(hour=end.hour, minute=end.minute, second=0, microsecond=0)
