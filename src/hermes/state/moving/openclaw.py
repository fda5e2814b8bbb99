"""A home of OpenClaw, found and read: what of it becomes which file, setting or variable here, and what is
left out, with the reason. Nothing is written."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from hermes.domain.errors import UserError
from hermes.domain.models.providers import find_provider
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.textfile import MOST_BYTES, decode
from hermes.state.home.textfile import read_text as read_settings_text
from hermes.state.moving import openclaw_files as files
from hermes.state.moving.json5 import parse_json5
from hermes.state.moving.openclaw_sessions import OldSessions
from hermes.state.moving.openclaw_settings import OldSettings, convert_settings
from hermes.state.settings.dotenv import parse_dotenv
from hermes.state.settings.model_access import key_variable
from hermes.state.settings.names import is_key_like, known_variables

CONFIGS = ("openclaw.json", "clawdbot.json", "moltbot.json")
_WORKSPACES = ("workspace", "workspace-main", "workspace.default")
_OURS = ("OPENCLAW_", "CLAWDBOT_", "MOLTBOT_")
_READ = frozenset((*CONFIGS, *_WORKSPACES, ".env", "skills", "cron", "credentials", "agents", "state"))
_NOT_NEEDED = """logs cache tmp media devices identity plugin-skills workspace-attestations update-check.json
    completions delivery-queue canvas browser sandbox sandboxes memory subagents
    config-journal-fingerprint.key"""
_PASSED_OVER = frozenset(_NOT_NEEDED.split())
_OTHERS = {
    "IDENTITY.md": "SOUL.md",
    "TOOLS.md": "workspace/AGENTS.md",
    "HEARTBEAT.md": "a job",
    "BOOT.md": "a hook",
}


class OldHome(Struct):
    """`texts` by the names they get here; `folders` are copied as they are, skill by skill."""

    settings: OldSettings
    sessions: OldSessions
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    folders: list[tuple[Path, str]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def is_openclaw(folder: Path) -> bool:
    return any((folder / name).is_file() for name in CONFIGS) or (folder / "agents/main/sessions").is_dir()


def read_openclaw(folder: Path, now: datetime) -> OldHome:
    tree, left = _config(folder), list[str]()
    agent, workspace = _agent(folder, tree, left)
    variables = variables_of(folder / ".env", left)
    settings = convert_settings(tree, variables)
    for provider, key in files.read_keys(folder, agent, left).items():
        spec = find_provider(provider)
        settings.variables.setdefault(key_variable(spec.id if spec else provider), key)
    _sift(settings)
    home = OldHome(settings=settings, sessions=OldSessions(folder / "agents" / agent), left=left)
    _add_texts(home, folder, workspace, agent, now)
    for place in (folder / "skills", workspace / "skills"):
        home.folders += [
            (skill.parent, f"skills/{skill.parent.name}") for skill in sorted(place.glob("*/SKILL.md"))
        ]
    unknown = sorted(name for name in os.listdir(folder) if name not in _READ and name not in _PASSED_OVER)
    home.left += [
        f"{name}: not known here" for name in unknown if not name.startswith((*CONFIGS, "workspace"))
    ]
    return home


def _add_texts(home: OldHome, folder: Path, workspace: Path, agent: str, now: datetime) -> None:
    left, keys = home.left, home.settings.keys
    jobs = files.read_jobs(folder, left)
    zones = {
        str(job["schedule"].get("tz") or "") for job in jobs if isinstance(job.get("schedule"), dict)
    } - {""}
    if len(zones) == 1 and "timezone" not in keys:
        keys["timezone"] = zones.copy().pop()
    converted = files.convert_jobs(jobs, agent, str(keys.get("timezone", "")), now, left)
    texts = {
        "SOUL.md": (files.read_text(workspace / "SOUL.md", left), "identity"),
        "workspace/AGENTS.md": (files.read_text(workspace / "AGENTS.md", left), "instructions"),
        "memories/MEMORY.md": (files.memory_text(workspace, left), "memory"),
        "memories/USER.md": (files.profile_text(workspace, left), "what is known of you"),
        "cron/jobs.json": (
            files.as_json({"jobs": converted}) if converted else "",
            f"{len(converted)} scheduled jobs",
        ),
    }
    for platform, people in files.read_people(folder, left).items():
        what = f"{len(people)} people who are let in"
        texts[f"pairing/{platform}-approved.json"] = (files.as_json(people), what)
    home.texts = {name: (text, what) for name, (text, what) in texts.items() if text}
    for name, place in _OTHERS.items():
        if (workspace / name).is_file():
            left.append(f"{name}: make it part of {place}, if you want it")
    taken = {"SOUL.md", "AGENTS.md", "MEMORY.md", "USER.md", "memory", "skills", *_OTHERS}
    others = [name for name in _names(workspace) if name not in taken and not name.startswith(".")]
    if others:
        left.append(f"{len(others)} other files and folders of {workspace}: they stay there")


def _config(folder: Path) -> dict[str, Any]:
    path = next((folder / name for name in CONFIGS if (folder / name).is_file()), None)
    if path is None:
        return {}
    try:
        data = path.read_bytes()
        findings = SettingsFindings(path.name)
        tree = parse_json5(decode(data[: MOST_BYTES * 16], findings).text)
        if not isinstance(tree, dict):
            raise ValueError("it is no object")
        return tree
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).", hint="Make it readable.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}.", hint="Mend it, then try again.") from None


def _agent(folder: Path, tree: dict[str, Any], left: list[str]) -> tuple[str, Path]:
    """Its one agent, or the one that answers where no other is named, and that one's workspace."""
    agents = tree.get("agents")
    agents = agents if isinstance(agents, dict) else {}
    defaults, listed = agents.get("defaults"), agents.pop("list", None)
    known = (
        [one for one in listed if isinstance(one, dict) and one.get("id")] if isinstance(listed, list) else []
    )
    chosen: dict[str, Any] = next((one for one in known if one.get("default")), known[0] if known else {})
    agent = str(chosen.get("id") or "main")
    there = {str(one["id"]) for one in known} | set(_names(folder / "agents"))
    for other in sorted(there - {agent}):
        left.append(f"the agent {other}, with its conversations: this moves one agent, {agent}")
    usual = defaults.pop("workspace", None) if isinstance(defaults, dict) else None
    named = chosen.get("workspace") or usual
    if isinstance(named, str) and named:
        place = Path(named).expanduser()
        # A home that was copied here has its workspace beside it, whatever path it names.
        for candidate in (folder / place.name, place):
            if candidate.is_dir():
                return agent, candidate
    names = (f"workspace-{agent}", *_WORKSPACES)
    return agent, next((folder / name for name in names if (folder / name).is_dir()), folder / "workspace")


def variables_of(path: Path, left: list[str]) -> dict[str, str]:
    findings = SettingsFindings(path.name)
    entries = parse_dotenv(read_settings_text(path, findings), findings)
    left += [f".env: {problem.message}" for problem in findings.problems]
    return {entry.name: entry.value for entry in entries if entry.value}


def _sift(settings: OldSettings) -> None:
    """Variables that something here reads, or that a skill may: keys. All others are named."""
    known = set(known_variables())
    for name in list(settings.variables):
        if name.startswith(_OURS) or not (name in known or is_key_like(name)):
            del settings.variables[name]
            if not name.startswith(_OURS):
                settings.left.append(f"the variable {name}: not used here")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder))
    except OSError:
        return []
