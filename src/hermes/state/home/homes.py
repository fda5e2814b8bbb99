"""Homes: which folder a command works in, what a home must have, and where each agent of it lives."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import NAME_RULE, Settings, is_name
from hermes.domain.text import one_line
from hermes.state.home.findings import nearest

USUAL_HOME = ".hermes"
PROFILES_FOLDER = "profiles"
ARCHIVES_FOLDER = "archives"
"""Where backups of the whole home are kept."""
RESTORING = ".restoring"
"""What a restore is made of, until it is done; with the file `ready` in it, only finishing is left."""
ACTIVE_FILE = "active_profile"
DEFAULT_PROFILE = "default"
DATABASE_FILE = "gateway.db"
"""Not `state.db`: a home of the older product has a file of that name, and it is not ours to touch."""
RESTORED_MARK = f"{DATABASE_FILE}.restored"
"""Says that the database is missing because a restore put a backup of it in place."""
INSIDE = "_HERMES_GATEWAY"
"""Set for what an agent runs, so that it does not end the gateway that it lives in."""
SKILLS_FOLDER = "skills"
AGENTS_FOLDER = "agents"
HOME_FOLDERS = ("logs", "cache", "memories", SKILLS_FOLDER, "hooks")


def find_home(environ: Mapping[str, str], profile: str | None = None) -> Path:
    """The home to work in: `-p`, else HERMES_PROFILE, else HERMES_HOME if it is a profile's home, else the
    profile in use, else HERMES_HOME or ~/.hermes itself. The profile `default` is that home itself."""
    named = _named_home(environ)
    root = root_home(environ)
    chosen = profile or environ.get("HERMES_PROFILE", "")
    if chosen:
        return profile_home(root, chosen)
    if named != root:
        return named
    sticky = active_profile(root)
    if sticky == DEFAULT_PROFILE:
        return root
    try:
        return profile_home(root, sticky)
    except UserError as error:
        raise UserError(
            f"The profile in use is wrong: {error.message}",
            hint="Choose another with -p, or: hermes profile use default",
        ) from error


def spell_hermes(home: Path, environ: Mapping[str, str]) -> str:
    """The command as somebody must write it to reach this home from a shell that knows only HOME."""
    bare = {name: value for name, value in environ.items() if name not in ("HERMES_HOME", "HERMES_PROFILE")}
    profile = home.name if home.parent.name == PROFILES_FOLDER else DEFAULT_PROFILE
    for variables in ({}, {"HERMES_HOME": str(home)}):
        for option in (None, profile):
            try:
                reached = find_home(bare | variables, option)
            except UserError:
                continue
            if reached == home:
                words = [f"{name}={quote(value)}" for name, value in variables.items()]
                return " ".join([*words, "hermes", *(("-p", option) if option else ())])
    return "hermes"


def root_home(environ: Mapping[str, str]) -> Path:
    """The home that holds the profiles, also when HERMES_HOME names one of them."""
    named = _named_home(environ)
    return named.parent.parent if named.parent.name == PROFILES_FOLDER else named


def _named_home(environ: Mapping[str, str]) -> Path:
    said = environ.get("HERMES_HOME", "").strip()
    if "\0" in said:
        raise UserError("HERMES_HOME is not a path.", hint="Set it to a folder of yours.")
    own = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    if not said:
        return own / USUAL_HOME
    path = own / said[2:] if said.startswith("~/") else Path(said)
    return Path(os.path.abspath(path))


def profile_home(root: Path, name: str) -> Path:
    """Where the profile lives."""
    if name == DEFAULT_PROFILE:
        return root
    if not is_name(name):
        raise UserError(f"A profile cannot be called “{one_line(name)}”.", hint=f"Use {NAME_RULE}.")
    home = root / PROFILES_FOLDER / name
    if not home.is_dir():
        meant = nearest(name, list(profile_names(root)))
        hint = f"Did you mean “{meant}”?" if meant else f"Create it with: hermes profile create {name}"
        raise UserError(f"There is no profile “{name}” in {root}.", hint=hint)
    return home


def profile_names(root: Path) -> tuple[str, ...]:
    """The profiles of a home, without the default one."""
    try:
        folders = sorted(path for path in (root / PROFILES_FOLDER).iterdir() if path.is_dir())
    except OSError:
        return ()
    return tuple(path.name for path in folders if is_name(path.name))


def active_profile(root: Path) -> str:
    """The profile that was chosen to stay."""
    try:
        with (root / ACTIVE_FILE).open("rb") as file:
            return file.read(200).decode("utf-8", "replace").strip() or DEFAULT_PROFILE
    except OSError:
        return DEFAULT_PROFILE


def prepare_home(home: Path) -> Path:
    """Make the home usable: a folder of ours, closed to others when we make it, with what it needs in it."""
    try:
        if home.exists() and not home.is_dir():
            raise UserError(f"{home} is a file, not a folder.", hint="Set HERMES_HOME to a folder of yours.")
        if not home.exists():
            home.mkdir(mode=0o700, parents=True)
            home.chmod(0o700)
        _check_owner(home)
        if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
            if _is_read_only(home):
                hint = "Set HERMES_HOME to a folder on another one."
                raise UserError(f"{home} is on a read-only file system.", hint=hint)
            raise UserError(f"{home} is not writable.", hint=f"Make it so: chmod u+rwx {home}")
        for name in HOME_FOLDERS:
            (home / name).mkdir(mode=0o700, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        place = getattr(error, "filename", None) or home
        raise UserError(
            f"{one_line(str(place), 200)} cannot be created or used ({reason}).",
            hint="Create it yourself, or set HERMES_HOME to a folder of yours.",
        ) from error
    return home


def _is_read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _check_owner(home: Path) -> None:
    owner, me = home.stat().st_uid, os.geteuid()
    if owner != me:
        theirs, mine = user_name(owner), user_name(me)
        raise UserError(
            f"{home} belongs to {theirs}, and this runs as {mine}.",
            hint=f"Run it as {theirs}, or take the folder over: sudo chown -R {mine} {home}",
        )


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def agent_home(home: Path, agent_id: AgentId, settings: Settings) -> Path:
    """Where an agent keeps its identity, memory, skills, jobs and secrets."""
    if agent_id == MAIN_AGENT:
        return home
    hosted = settings.agents.get(agent_id)
    if hosted is None or not is_name(agent_id):
        meant = nearest(agent_id, [MAIN_AGENT, *settings.agents])
        hint = f"Did you mean “{meant}”?" if meant else "Declare it under `agents:` in config.yaml."
        raise UserError(f"There is no agent “{one_line(agent_id)}”.", hint=hint)
    if not hosted.home_dir:
        return home / AGENTS_FOLDER / agent_id
    try:
        return Path(os.path.abspath(home / Path(hosted.home_dir).expanduser()))
    except RuntimeError as error:
        raise UserError(
            f"The home_dir of the agent {agent_id} names a user that does not exist.",
            hint="Write a path that begins with / or ~/.",
        ) from error
