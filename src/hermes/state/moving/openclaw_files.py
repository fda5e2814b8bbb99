"""What stands in the files of OpenClaw and becomes files here: who the agent is, what it remembers, its jobs,
and the people who were let in.

Facts: docs/concepts/memory.md, docs/automation/cron-jobs.md and docs/channels/pairing.md of
openclaw/openclaw, and homes that its releases 2026.6.1 and 2026.9.6 made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.errors import UserError
from hermes.domain.knowledge.memory import SEPARATOR, parse_entries
from hermes.domain.text import one_line, storable
from hermes.state.home.jsonfile import read_json
from hermes.state.moving.old_database import has_table, opened, rows
from hermes.state.moving.openclaw_sessions import HINT, PROGRAM, platform_and_chat, read_object

Tree = dict[str, Any]
_DATABASE = "state/openclaw.sqlite"
_LONGEST_ENTRY = 2000
_MOST_MEMORY = 512 * 1024
_LARGEST_JSON = 16 * 1024 * 1024
_BLANK = re.compile(r"\n\s*\n")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MINUTE = 60_000


def read_text(path: Path, left: list[str]) -> str:
    try:
        return storable(path.read_text("utf-8", "replace")).strip() if path.is_file() else ""
    except OSError as error:
        left.append(f"{path.name}: it cannot be read ({error.strerror})")
        return ""


# --- memory ------------------------------------------------------------------------------------------


def memory_text(workspace: Path, left: list[str]) -> str:
    """`memory/*.md`, day by day, then MEMORY.md: what comes last is told first. What is too much for a file
    of entries is left out, the oldest first."""
    days = sorted((workspace / "memory").glob("*.md"))
    files = [*days, workspace / "MEMORY.md"]
    entries: list[str] = []
    room = _MOST_MEMORY
    for path in reversed(files):
        before = f"{path.stem}: " if path in days else ""
        new = [f"{before}{entry}" for entry in _entries(read_text(path, left))]
        room -= sum(len(entry.encode()) + len(SEPARATOR.encode()) for entry in new)
        if room < 0:
            left.append(f"memory: {path.name} and what is older; there is too much of it")
            break
        entries = [*new, *entries]
    return _joined(entries)


def profile_text(workspace: Path, left: list[str]) -> str:
    return _joined(_entries(read_text(workspace / "USER.md", left)))


def _joined(entries: Iterable[str]) -> str:
    text = SEPARATOR.join(entries)
    return SEPARATOR.join(parse_entries(text)) + "\n" if text else ""


def _entries(text: str) -> Iterator[str]:
    """Paragraphs, each under the headings it stands below."""
    heading = ""
    for block in _BLANK.split(_COMMENT.sub("", text)):
        lines = [line.rstrip() for line in block.strip().splitlines() if line.strip() not in ("", "§", "---")]
        while lines and lines[0].startswith("#"):
            heading = lines.pop(0).lstrip("#").strip()
        body = "\n".join(lines)
        while body:
            piece, body = body[:_LONGEST_ENTRY], body[_LONGEST_ENTRY:]
            yield f"{heading}: {piece}" if heading else piece


# --- jobs --------------------------------------------------------------------------------------------


def read_jobs(home: Path, left: list[str]) -> list[Tree]:
    """As OpenClaw writes them down, from its database and from the file before it."""
    jobs: dict[str, Tree] = {}
    told = read_json(home / "cron" / "jobs.json", _LARGEST_JSON)
    listed = told.get("jobs", []) if isinstance(told, dict) else told
    for row in _of_table(home, "cron_jobs"):
        jobs[str(row["job_id"])] = read_object(row["job_json"]) | {
            "state": read_object(row.get("state_json"))
        }
    for job in listed if isinstance(listed, list) else ():
        if isinstance(job, dict):
            jobs.setdefault(str(job.get("id") or job.get("jobId")), job)
    return [
        job for job in jobs.values() if not job.get("declarationKey")
    ]  # those are made by OpenClaw itself


def convert_jobs(jobs: Iterable[Tree], agent: str, zone: str, now: datetime, left: list[str]) -> list[Tree]:
    """As `cron/jobs.json` has them. One whose hours are those of another zone is there, but paused."""
    made = []
    for job in jobs:
        name = one_line(str(job.get("name") or job.get("id")), 100)
        try:
            if job.get("agentId") not in (None, "", agent):
                raise UserError(f"it belongs to the agent {job['agentId']}")
            made.append(_job(job, name, zone, now, left))
        except UserError as error:
            left.append(f"the job {name}: {error.message}")
    return made


def _job(job: Tree, name: str, zone: str, now: datetime, left: list[str]) -> Tree:
    payload = _dict(job.get("payload"))
    prompt = payload.get("message") or payload.get("text")
    if payload.get("kind") not in ("agentTurn", "systemEvent") or not isinstance(prompt, str):
        raise UserError(f"it does not ask the agent, but is of the kind {payload.get('kind')}")
    schedule, other = _schedule(_dict(job.get("schedule")), now)
    made: Tree = {
        "id": sha256(str(job.get("id") or job.get("jobId")).encode()).hexdigest()[:12],
        "name": name,
        "prompt": prompt,
        "schedule": schedule,
        "enabled": job.get("enabled") is not False,
        "created_at": _moment(job.get("createdAtMs")),
        "deliver": _target(_dict(job.get("delivery")), name, left),
    }
    if other and other != zone:
        made |= {"enabled": False, "paused_reason": f"Its hours are those of {other}."}
        left.append(
            f"the job {name}: it is paused, for its hours are those of {other}; change them, then resume it"
        )
    return made


def _schedule(schedule: Tree, now: datetime) -> tuple[Tree, str]:
    """As this program says it, and the time zone it names."""
    match schedule.get("kind"):
        case "cron":
            return {"kind": "cron", "expr": str(schedule.get("expr"))}, str(schedule.get("tz") or "")
        case "every":
            every = schedule.get("everyMs")
            if not isinstance(every, int) or every < _MINUTE:
                raise UserError("it runs more than once a minute")
            return {"kind": "interval", "minutes": every // _MINUTE}, ""
        case "at":
            at = _moment(schedule.get("at") or schedule.get("atMs"))
            if not at or datetime.fromisoformat(at) <= now:
                raise UserError("it was for once, and is over")
            return {"kind": "once", "run_at": at}, ""
    raise UserError("its schedule cannot be read")


def _target(delivery: Tree, name: str, left: list[str]) -> str:
    if delivery.get("mode") in (None, "none"):
        return "local"
    platform, chat = platform_and_chat(delivery.get("channel"), delivery.get("to"))
    if delivery["mode"] != "announce" or not platform or platform == "last" or not chat:
        left.append(f"the target of the job {name}: its answers stay in a file (hermes cron edit)")
        return "local"
    chat, _, thread = chat.partition(":topic:")
    return str(Address(platform=platform, chat=chat, thread=thread or None))


def _moment(value: object) -> str:
    """In words, with its zone; OpenClaw reads a time without one as UTC."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()
        return datetime.fromtimestamp(float(value) / 1000, UTC).isoformat()  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


# --- people and keys ---------------------------------------------------------------------------------


def read_people(home: Path, left: list[str]) -> dict[str, dict[str, Tree]]:
    """Who was paired, by platform. Those of further accounts are left out: one yes is for one account."""
    people: dict[str, dict[str, Tree]] = {}
    found = [
        (row["channel_key"], row["account_id"], [row["entry"]])
        for row in _of_table(home, "channel_pairing_allow_entries")
    ]
    for path in sorted((home / "credentials").glob("*-allowFrom.json")):
        platform, _, account = path.name.removesuffix("-allowFrom.json").partition("-")
        told = read_json(path, _LARGEST_JSON)
        named = told.get("allowFrom") if isinstance(told, dict) else None
        found.append((platform, account, named if isinstance(named, list) else []))
    for platform, account, listed in found:
        if account not in ("", "default"):
            left.append(f"the people of the account {account} of {platform}")
        else:
            ids = (str(one).strip().removeprefix(f"{platform}:") for one in listed)
            people.setdefault(str(platform), {}).update({one: {} for one in ids if one and one != "*"})
    return {platform: known for platform, known in people.items() if known}


def read_keys(home: Path, agent: str, left: list[str]) -> dict[str, str]:
    """Keys of providers, by provider. Logins are left out: they hold for the program that was logged in."""
    stores = [read_object(row["store_json"]) for row in _of_table(home, "auth_profile_stores")]
    stores.append(_dict(read_json(home / "agents" / agent / "agent" / "auth-profiles.json", _LARGEST_JSON)))
    keys: dict[str, str] = {}
    for store in stores:
        for name, profile in _dict(store.get("profiles")).items():
            profile = _dict(profile)
            provider, key = str(profile.get("provider") or name.partition(":")[0]), profile.get("key")
            if profile.get("type") == "api_key" and isinstance(key, str) and key:
                keys.setdefault(provider, key)
            else:
                left.append(f"the login {name}: log in again (hermes auth)")
    return keys


def _of_table(home: Path, table: str) -> list[Tree]:
    path = home / _DATABASE
    if not path.is_file():
        return []
    with opened(path, PROGRAM, HINT) as db:
        return list(rows(db, f"SELECT * FROM {table}")) if has_table(db, table) else []


def _dict(value: object) -> Tree:
    return value if isinstance(value, dict) else {}


def as_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
