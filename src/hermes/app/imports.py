"""What Hermes Agent left in a home, imported once: its scheduled jobs (`cron/jobs.json`) at the first
start, and the people it had let in (`pairing/<platform>-approved.json`). What has no place is kept beside
the job; a job that cannot be understood comes along too, marked with the reason."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from hermes.control.jobs.schedule import Schedule, read_schedule
from hermes.control.people.pairing import import_paired
from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.pairing import Account, PairedUser
from hermes.domain.clock import Clock, zone_named
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, JobId, new_job_id
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.declaring import NONE_LISTED
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line, storable
from hermes.domain.turns.job import Job, JobState
from hermes.domain.word import replace
from hermes.state.files.job_files import read_jobs_file
from hermes.state.home.homes import agent_home
from hermes.state.home.jsonfile import read_mapping

cron_log = logging.getLogger("hermes.cron")
pairing_log = logging.getLogger("hermes.app")
FACT = "cron.imported"
_ID = re.compile(r"[0-9a-f]{12}")
_KEYS = """id name prompt skills skill model script no_agent context_from schedule schedule_display repeat
    enabled state paused_at paused_reason created_at next_run_at last_run_at last_status last_error
    last_delivery_error deliver origin enabled_toolsets workdir attach_to_session"""
_USED = frozenset(_KEYS.split())
FOLDERS = ("platforms/pairing", "pairing")
_SUFFIX = "-approved.json"
_MOST_PAIRED_BYTES = 4_000_000
_NAME = 100


# --- jobs ---


async def take_over_jobs(
    home: Path, agents: Iterable[AgentId], settings: Settings, store: Store, clock: Clock
) -> None:
    """Import the jobs of the agents' homes; a file that cannot be read is logged and stops nothing."""
    for agent, records in await asyncio.to_thread(_read_homes, home, list(agents), settings):
        now, zone = clock.now(), zone_named(settings.timezone)
        count = await store.scoped(agent).write(
            partial(import_jobs, agent=agent, records=records, now=now, zone=zone)
        )
        if count:
            cron_log.info("cron.imported agent=%s jobs=%d", agent, count)


def _read_homes(
    home: Path, agents: Iterable[AgentId], settings: Settings
) -> list[tuple[AgentId, Sequence[Mapping[str, Any]]]]:
    """The jobs of those homes that have any."""
    files = []
    for agent in agents:
        try:
            files.append((agent, read_jobs_file(agent_home(home, agent, settings))))
        except UserError as error:
            cron_log.warning("cron.not_imported agent=%s why=%s", agent, error)
    return [(agent, records) for agent, records in files if records]


def import_jobs(
    tx: Tx, agent: AgentId, records: Sequence[Mapping[str, Any]], now: datetime, zone: tzinfo
) -> int:
    """Import the jobs unless that was done before; how many were new."""
    fact = f"{FACT}.{agent}"
    if tx.facts.get(fact) is not None:
        return 0
    names = {job.name.casefold() for job in tx.jobs.list()}
    count = 0
    for record in records:
        job = imported_job(record, agent, now, zone)
        if tx.jobs.get(job.id) is not None:
            continue
        if job.name.casefold() in names:
            job = replace(job, name=f"{job.name} ({job.id})")
        names.add(job.name.casefold())
        tx.jobs.save(job)
        count += 1
    tx.facts.put(fact, now.isoformat())
    return count


def imported_job(record: Mapping[str, Any], agent: AgentId, now: datetime, zone: tzinfo) -> Job:
    created = _moment(record.get("created_at"), zone) or now
    repeat = record.get("repeat")
    repeat = repeat if isinstance(repeat, dict) else {}
    planned = _moment(record.get("next_run_at"), zone)
    anchor = (planned or created).replace(microsecond=0)
    state, error, plan = JobState.SCHEDULED, _text(record.get("last_error")), None
    try:
        plan = _plan(record.get("schedule"), anchor, zone)
    except UserError as problem:
        state, error = JobState.ERROR, str(problem)
    noted = _text(record.get("state"))
    if noted == "completed":
        state = JobState.COMPLETED
    elif state is JobState.SCHEDULED and (record.get("enabled") is False or noted == "paused"):
        state = JobState.PAUSED
    due = None
    if state is JobState.SCHEDULED and plan is not None:
        due = planned or plan.after(now)
        state = state if due is not None else JobState.COMPLETED
    times, done = repeat.get("times"), repeat.get("completed")
    ident = _text(record.get("id"))
    prompt = storable(_text(record.get("prompt")))
    origin = _origin(record.get("origin"))
    return Job(
        id=JobId(ident) if _ID.fullmatch(ident) else new_job_id(),
        agent=agent,
        schedule=_text(record.get("schedule_display")) if plan is None else plan.text,
        prompt=prompt,
        created_at=created,
        anchor=anchor,
        name=one_line(_text(record.get("name")) or prompt or "job", 200),
        deliver_to=_text(record.get("deliver")) or "local",
        origin=origin,
        moved_in=origin is not None and origin.user is None,
        next_due=due,
        state=state,
        times=times if isinstance(times, int) and times > 0 else None,
        completed=done if isinstance(done, int) else 0,
        paused_at=_moment(record.get("paused_at"), zone),
        paused_reason=_text(record.get("paused_reason")),
        script=_text(record.get("script")),
        no_agent=bool(record.get("no_agent")),
        context_from=tuple(JobId(word) for word in _words(record.get("context_from"))),
        model=_text(record.get("model")),
        toolsets=_limit(record.get("enabled_toolsets")),
        workdir=_text(record.get("workdir")),
        skills=_words(record.get("skills")) or _words(record.get("skill")),
        attach_to_session=record.get("attach_to_session") is True,
        last_run_at=_moment(record.get("last_run_at"), zone),
        last_status=_text(record.get("last_status")),
        last_error=error,
        last_delivery_error=_text(record.get("last_delivery_error")),
        extra=json.dumps({key: value for key, value in record.items() if key not in _USED}),
    )


def _plan(value: object, anchor: datetime, zone: tzinfo) -> Schedule:
    if isinstance(value, str):
        return read_schedule(value, anchor, zone)
    if not isinstance(value, dict):
        raise UserError("Its schedule is missing.", hint="Give it one.")
    match value.get("kind"):
        case "interval":
            return read_schedule(f"every {value.get('minutes')}m", anchor, zone)
        case "cron":
            return read_schedule(_text(value.get("expr")), anchor, zone)
        case _:
            return read_schedule(_text(value.get("run_at")) or _text(value.get("display")), anchor, zone)


def _moment(value: object, zone: tzinfo) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=zone)


def _origin(value: object) -> Source | None:
    if not isinstance(value, dict) or not value.get("platform") or not value.get("chat_id"):
        return None
    thread = _text(value.get("thread_id")) or None
    address = Address(
        platform=_text(value["platform"]).lower(),
        account=DEFAULT_ACCOUNT,
        chat=_text(value["chat_id"]),
        thread=thread,
    )
    user = _text(value.get("user_id")) or None
    return Source(address=address, kind=SourceKind.THREAD if thread else SourceKind.PRIVATE, user=user)


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _limit(value: object) -> tuple[str, ...]:
    """The only toolsets of a job; what cannot be read allows none, for no name at all allows every one."""
    return _words(value) if value is None or isinstance(value, str | list | tuple) else NONE_LISTED


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    return tuple(str(word) for word in value) if isinstance(value, list | tuple) else ()


# --- people ---


async def import_people(home: Path, store: Store) -> int:
    """Let in everybody who was approved there. A file that cannot be read is logged and tried at the
    next start; one that was imported is not read again, so that nobody who was revoked since comes back."""
    count = 0
    for file in await asyncio.to_thread(_approval_files, home):
        try:
            people = await asyncio.to_thread(read_approved, file)
        except UserError as error:
            pairing_log.warning("pairing.not_imported %s", error)
            continue
        label = str(file.relative_to(home))
        new = await store.write(partial(import_paired, label=label, people=people))
        if new:
            pairing_log.info("pairing.imported file=%s people=%d", label, new)
        count += new
    return count


def read_approved(file: Path) -> list[PairedUser]:
    """The people of one file; a `UserError` if it is not what it should be."""
    tree = read_mapping(file, _MOST_PAIRED_BYTES)
    account = Account(platform=file.name.removesuffix(_SUFFIX).lower(), name=DEFAULT_ACCOUNT)
    return [_paired(account, user, facts, file) for user, facts in tree.items() if user.strip()]


def _paired(account: Account, user: str, facts: Any, file: Path) -> PairedUser:
    noted = facts if isinstance(facts, dict) else {}
    name = noted.get("user_name")
    return PairedUser(
        account=account,
        user=user.strip(),
        name=one_line(name, _NAME) if isinstance(name, str) else "",
        approved_at=_approved_at(noted.get("approved_at"), file),
        by="imported",
    )


def _approved_at(value: Any, file: Path) -> datetime:
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value)
            return read if read.tzinfo else read.replace(tzinfo=UTC)
        return datetime.fromtimestamp(float(value), UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def _approval_files(home: Path) -> list[Path]:
    return [
        file for folder in FOLDERS for file in sorted((home / folder).glob(f"*{_SUFFIX}")) if file.is_file()
    ]
