"""The one loader of settings, for every door: `config.yaml`, then `.env`, then the environment.

It never raises for what stands in them: each mistake is a problem with its line and its remedy, and the
rest counts. Only a home that cannot be used at all is an error."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from hermes.domain.chats.address import read_platform, spell_platform
from hermes.domain.errors import SettingsError, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.models.credential import Credential, secrets_of
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import ApiKey, PlatformSettings
from hermes.domain.settings.settings import UNREADABLE, Settings
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.state.home.agent_homes import check_homes
from hermes.state.home.credentials import CredentialFile
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.homes import DATABASE_FILE, agent_home
from hermes.state.home.textfile import TextFile, read_text
from hermes.state.redaction.ordinary import is_no_key, is_ordinary
from hermes.state.redaction.values import LEAST_LENGTH
from hermes.state.settings import names
from hermes.state.settings.dotenv import parse_dotenv
from hermes.state.settings.history import CONFIG_FILE as CONFIG_FILE
from hermes.state.settings.key_places import arrange
from hermes.state.settings.model_access import complete_model
from hermes.state.settings.platform_reader import API_SERVER
from hermes.state.settings.reader import SettingsReader
from hermes.state.settings.secrets import Secrets, looks_like_placeholder, password_in
from hermes.state.settings.unsupported_limits import stop_at_limits, stop_at_variable
from hermes.state.settings.values import SettingSpec, WrongValue, convert, fallback, knobs, sections
from hermes.state.settings.yaml_tree import YamlMapping, read_yaml

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


log = logging.getLogger("hermes.settings")
S = TypeVar("S", bound="DataclassInstance")
SECRETS_FILE = ".env"
_KEY_OF_API = re.compile(r"API_SERVER_KEYS_([A-Z0-9_]+)_KEY")
_ASSIGNED = re.compile(r"[A-Z][A-Z0-9_]*(?=\s*=)")
_CHOOSE = "Choose one that nobody guesses: at least twelve characters, with digits."
_EXPOSED = "Others on this machine can read it."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """What was read. `stops` are the problems with which nothing starts. `variables` are those of `.env` and
    the environment that are no secrets; `exposed` are the notes that others on this machine can read the
    secrets in a file, `weak` those that a secret is an ordinary word."""

    settings: Settings
    secrets: Secrets
    problems: tuple[SettingsError, ...] = ()
    stops: tuple[SettingsError, ...] = ()
    notes: tuple[SettingsError, ...] = ()
    exposed: tuple[SettingsError, ...] = ()
    weak: tuple[SettingsError, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_file: bool = False
    """Whether there is a `config.yaml`."""
    credentials: Mapping[AgentId, tuple[Credential, ...]] = field(default_factory=dict, repr=False)
    """What is stored in the `auth.json` of each agent that has one."""
    agent_variables: Mapping[AgentId, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """What stands in the `.env` of each agent that has one."""
    own: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of the agent that these are for, see `of`."""
    file: str = CONFIG_FILE
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)

    def wrong(self, key: str, message: str, hint: str) -> SettingsError:
        """What is wrong with a value of `config.yaml`, for those who alone know what it may hold."""
        return SettingsError(message, file=self.file, line=self.lines.get(key), hint=hint)

    def variable(self, *names: str) -> str:
        """What the first variable says that is set, a secret one too; empty if none is. All those of the
        agent's own `.env` come before the gateway's."""
        own = map(self.own.get, names)
        shared = (self.secrets.reveal(name) or self.variables.get(name) for name in names)
        return next(filter(None, (*own, *shared)), "")

    def of(self, agent: AgentId) -> LoadedSettings:
        """As they count for one agent: what stands in its own `.env` comes first, for it alone."""
        own = self.agent_variables.get(agent)
        return self if own is None or own is self.own else dataclasses.replace(self, own=own)

    def find(self, account: str, variable: str) -> Secret | None:
        """What an operator said for a platform's variable, as a variable or as a key of its block; for
        `telegram@work`, what was said for that account."""
        machine = variable.lower() in names.OF_THE_MACHINE
        own = variable if machine else names.with_account(variable, read_platform(account)[1])
        if value := self.variable(own):
            return Secret(value)
        block = self.settings.platforms.get(account)
        if block is None:
            return None
        for name in (*block.secrets, *block.extra):
            if own == names.platform_variable(account, name) or variable == name.upper():
                return block.secrets.get(name) or Secret(block.extra.get(name, ""))
        return None


class _Variable(Struct, frozen=True, kw_only=True):
    """A variable with its place, so that what is wrong with it can be told."""

    value: str
    findings: SettingsFindings
    line: int | None = None


def load_settings(
    home: Path, environ: Mapping[str, str], *, platforms: Iterable[str] = (), text: str | None = None
) -> LoadedSettings:
    """Read a home's settings. `platforms` are names that plugins add to the built-in ones; a `text` counts
    instead of what `config.yaml` says."""
    _check_home(home)
    findings = SettingsFindings(str(home / CONFIG_FILE))
    in_file, in_environment = SettingsFindings(str(home / SECRETS_FILE)), SettingsFindings("environment")
    variables, hidden = _variables(home, environ, in_file, in_environment)
    known = names.PLATFORMS | {name.lower() for name in platforms}
    reader = SettingsReader(
        findings, known, lambda name: variables[name].value if name in variables else None
    )
    file, root = _read_config(home, findings, text)
    root = arrange(root, known, findings)
    stop_at_limits(root, findings)
    settings = reader.settings(root)
    settings = _with_environment(settings, variables, known)
    check_homes(home, settings, reader.lines, findings)
    key_like = {
        name for name, held in variables.items() if names.is_key_like(name) or password_in(held.value)
    }
    secret_values = reader.secrets | {name: variables[name].value for name in key_like}
    hidden += map(password_in, (variables[name].value for name in key_like))
    agent_variables = _agent_variables(home, settings)
    for name, value in (pair for own in agent_variables.values() for pair in own.items()):
        hidden.append(value if names.is_key_like(name) else password_in(value))
    credentials = _credentials(home, settings)
    hidden = [value for value in hidden if not is_ordinary(value)]
    hidden += (value for stored in credentials.values() for value in secrets_of(stored))
    hidden += map(password_in, (*reader.secrets.values(), settings.security.egress_proxy))
    plain = {name for name in key_like if _is_plain(variables[name].value, name, variables)}
    plain |= {name for name, value in reader.secrets.items() if is_no_key(value)}
    weak = list(_weak(reader, findings, {name: variables[name] for name in plain & key_like}))
    if any(value and value in file.text for value in reader.secrets.values()):  # not `${NAME}`
        _check_mode(findings, file.mode)
    exposed = [note for note in (*findings.notes, *in_file.notes) if note.message == _EXPOSED]
    return LoadedSettings(
        settings=settings,
        secrets=Secrets(
            secret_values,
            also=hidden,
            patterns=settings.security.redact_secrets,
            ordinary=plain,
        ),
        problems=(*_by_line(findings.problems), *in_file.problems, *in_environment.problems),
        stops=(*_by_line(findings.stops), *in_file.stops, *in_environment.stops),
        notes=(*_by_line(findings.notes), *in_file.notes, *in_environment.notes, *weak),
        weak=tuple(weak),
        exposed=tuple(exposed) if exposed and home.stat().st_mode & 0o011 else (),
        variables={name: held.value for name, held in variables.items() if name not in key_like},
        has_file=file.mode is not None,
        credentials=credentials,
        agent_variables=agent_variables,
        file=findings.file,
        lines=reader.lines,
    )


def _read_config(
    home: Path, findings: SettingsFindings, text: str | None = None
) -> tuple[TextFile, YamlMapping]:
    if (home / "config.yml").exists():
        findings.note(None, "config.yml is not read.", f"Rename it to {CONFIG_FILE}.")
    file = read_text(home / CONFIG_FILE, findings) if text is None else TextFile(text=text, mode=0o600)
    root = read_yaml(file, findings)
    # Nobody knows what stood in the lines that could not be read, so nothing starts without them.
    findings.stops += findings.problems
    is_empty = file.mode is not None and not root.pairs and not findings.problems
    if is_empty and not file.text.strip() and (home / DATABASE_FILE).exists():
        # Comments or `{}` are somebody's choice; no word at all is what a lost file looks like.
        message = f"{CONFIG_FILE} is empty, though this home was used before: its limits may be lost."
        findings.stop(None, message, "Restore it, or remove the file to start with the defaults.")
    elif is_empty:
        findings.note(None, f"{CONFIG_FILE} is empty.", "Every setting has its default.")
    return file, root


def _check_mode(findings: SettingsFindings, mode: int | None) -> None:
    if mode is not None and mode & 0o077:
        findings.note(None, _EXPOSED, f"Make it yours alone: chmod 600 {findings.file}")


def _is_plain(value: str, name: str, variables: Mapping[str, _Variable]) -> bool:
    """Whether a variable that is called like a secret holds what stands in texts by chance: a word, a number,
    a path, or what another variable says openly (the name of the user or the machine)."""
    if is_ordinary(value):
        return True
    same = (other for other, held in variables.items() if held.value == value)
    return any(not names.is_key_like(other) and not password_in(value) for other in same)


def _weak(
    reader: SettingsReader, findings: SettingsFindings, plain: Mapping[str, _Variable]
) -> Iterator[SettingsError]:
    """Notes on secrets that anybody guesses. Those of settings are hidden all the same."""
    for name, held in plain.items():
        if held.value.isalpha() and len(held.value) >= LEAST_LENGTH and not is_no_key(held.value):
            message = f"{name} is an ordinary word, so it is not hidden in texts."
            yield SettingsError(message, file=held.findings.file, line=held.line, hint=_CHOOSE)
    for name, value in reader.secrets.items():
        if len(value) >= LEAST_LENGTH and is_ordinary(value) and not is_no_key(value):
            message = f"{name} is an ordinary word, and calls with this word are not run."
            line = reader.lines.get(name)
            yield SettingsError(message, file=findings.file, line=line, hint=_CHOOSE)


def _by_line(problems: list[SettingsError]) -> list[SettingsError]:
    return sorted(problems, key=lambda error: error.line or 0)


def check_text(
    text: str, platforms: frozenset[str] = names.PLATFORMS
) -> tuple[Settings, list[SettingsError]]:
    """What a `config.yaml` with this text would mean by itself, and its problems."""
    findings = SettingsFindings(CONFIG_FILE)
    reader = SettingsReader(findings, platforms, lambda name: f"${{{name}}}")
    root = read_yaml(TextFile(text=text), findings)
    return reader.settings(arrange(root, platforms, findings)), findings.problems


def check_agent_secrets(home: Path) -> None:
    """A `SettingsError` for a platform's credential in the `.env` of an agent's home: accounts belong to the
    gateway, so there it would connect nothing."""
    findings = SettingsFindings(str(home / SECRETS_FILE))
    for entry in parse_dotenv(read_text(home / SECRETS_FILE, findings), findings):
        if entry.value and names.is_key_like(entry.name) and names.platform_of(entry.name, names.PLATFORMS):
            raise SettingsError(
                f"{entry.name} does not belong to an agent.",
                file=findings.file,
                line=entry.first,
                hint="Move it to the gateway's .env, and give the account to the agent with a route.",
            )


def agent_problems(home: Path, settings: Settings) -> Iterator[SettingsError]:
    """What keeps agents from being built: credentials in their `.env` that are the gateway's."""
    for agent in map(AgentId, settings.agents):
        try:
            if agent != MAIN_AGENT:
                check_agent_secrets(agent_home(home, agent, settings))
        except SettingsError as error:
            yield error
        except UserError:
            continue  # it is told with its home_dir


def without_accounts(text: str, *more: str) -> str:
    """The text of a `.env` without the credentials of platforms, for a copy: accounts stay where they are,
    also those in remarks. `more` variables stay behind, too."""

    def is_account(name: str) -> bool:
        return name in more or (names.is_key_like(name) and bool(names.platform_of(name, names.PLATFORMS)))

    entries = parse_dotenv(TextFile(text=text), SettingsFindings(""))
    owners = {number: entry.name for entry in entries for number in range(entry.first, entry.last + 1)}
    kept, torn = list[str](), False
    for number, line in enumerate(text.split("\n"), 1):
        name = line.partition("=")[0].strip().removeprefix("export ").strip()
        # What cannot be read goes with the account above it: its quote may never be closed.
        torn = number not in owners and (torn or is_account(name))
        remarked = line.lstrip().startswith("#") and any(map(is_account, _ASSIGNED.findall(line)))
        if not torn and not remarked and not is_account(owners.get(number, "")):
            kept.append(line)
    return "\n".join(kept)


def _agent_variables(home: Path, settings: Settings) -> dict[AgentId, dict[str, str]]:
    """What the agents' own `.env` files say. What is wrong with one is told when its agent is built."""
    variables: dict[AgentId, dict[str, str]] = {}
    for agent, place in _homes_of(home, settings):
        if agent == MAIN_AGENT:
            continue
        findings = SettingsFindings("")
        entries = parse_dotenv(read_text(place / SECRETS_FILE, findings), findings)
        if entries:
            variables[agent] = {entry.name: entry.value for entry in entries if entry.value}
    return variables


def _credentials(home: Path, settings: Settings) -> dict[AgentId, tuple[Credential, ...]]:
    stored: dict[AgentId, tuple[Credential, ...]] = {}
    for agent, place in _homes_of(home, settings):
        if credentials := CredentialFile(place).read().credentials:
            stored[agent] = credentials
    return stored


def _homes_of(home: Path, settings: Settings) -> Iterator[tuple[AgentId, Path]]:
    """Without those whose home_dir leads nowhere: such an agent is left out, and all others work."""
    for agent in (MAIN_AGENT, *map(AgentId, settings.agents)):
        try:
            place = agent_home(home, agent, settings)
        except UserError:
            continue  # it is told when it is built
        yield agent, place


def _check_home(home: Path) -> None:
    try:
        os.stat(home / CONFIG_FILE)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(
            f"The home {one_line(str(home), 200)} cannot be used ({reason}).",
            hint="Set HERMES_HOME to a folder of yours.",
        ) from error


def _variables(
    home: Path, environ: Mapping[str, str], in_file: SettingsFindings, in_environment: SettingsFindings
) -> tuple[dict[str, _Variable], list[str]]:
    """All variables, the environment first; and the secrets in `.env` that it hides."""
    path = home / SECRETS_FILE
    file = read_text(path, in_file)
    _check_mode(in_file, file.mode)
    variables: dict[str, _Variable] = {}
    hidden: list[str] = []
    entries = parse_dotenv(file, in_file)
    in_file.stops += in_file.problems
    for entry in entries:
        if entry.name in variables:
            message = f"{entry.name} was set in line {variables[entry.name].line} already."
            in_file.note(entry.first, message, "Remove one of the two; this later one counts.")
        secret = names.is_key_like(entry.name)
        if secret and looks_like_placeholder(entry.value):
            in_file.problem(entry.first, f"{entry.name} is still a placeholder.", "Put in the real value.")
        elif entry.value:
            if secret:
                hidden.append(entry.value)
            variables[entry.name] = _Variable(value=entry.value, findings=in_file, line=entry.first)
    for name, value in environ.items():
        if value:
            variables[name] = _Variable(value=value, findings=in_environment)
    for name, held in variables.items():
        stop_at_variable(name, held.value, held.line, held.findings)
    return variables, hidden


def _with_environment(
    settings: Settings, variables: Mapping[str, _Variable], platforms: frozenset[str]
) -> Settings:
    changed: dict[str, Any] = {
        name: _overlaid(getattr(settings, name), variables) for name in sections(Settings)
    }
    overlaid = replace(settings, **changed)
    changed["model"] = complete_model(
        overlaid,
        lambda *wanted: next(
            (held.value for name in wanted if (held := variables.get(name)) and held.value), ""
        ),
    )
    blocks = dict(settings.platforms)
    accounts = _told_accounts(variables, platforms)
    for name in sorted(platforms | blocks.keys() | accounts):
        before = blocks.get(name, PlatformSettings())
        after = _overlaid(before, variables, name)
        if before.enabled is False:
            after = replace(after, enabled=False)
        if name in blocks or name in accounts or after != before:
            blocks[name] = after
    api = blocks.get(API_SERVER, PlatformSettings())
    if (keys := _declared_keys(variables, api.keys)) != api.keys:
        blocks[API_SERVER] = replace(api, keys=keys)
    return replace(_overlaid(settings, variables), platforms=blocks, **changed)


def _declared_keys(variables: Iterable[str], keys: Mapping[str, ApiKey]) -> dict[str, ApiKey]:
    """The keys of the HTTP API, with those that only a variable declares."""
    if UNREADABLE in keys:
        return {}  # nobody knows the limits that stood there
    own = {names.platform_variable(API_SERVER, f"keys_{name}_key") for name in keys}
    found = (_KEY_OF_API.fullmatch(variable) for variable in variables if variable not in own)
    return {match[1].lower(): ApiKey() for match in found if match} | dict(keys)


def _told_accounts(variables: Mapping[str, _Variable], platforms: frozenset[str]) -> set[str]:
    """The further accounts that variables tell of."""
    accounts: set[str] = set()
    for name, held in variables.items():
        if names.ACCOUNT_MARK not in name:
            continue
        try:
            platform, account = names.named_account(name, platforms)
        except UserError as error:
            held.findings.problem(held.line, error.message, error.hint)
        else:
            if platform:
                accounts.add(spell_platform(platform, account))
    return accounts


def _overlaid(section: S, variables: Mapping[str, _Variable], platform: str = "") -> S:
    """The section with the values that variables give to its fields."""
    changed: dict[str, Any] = {}
    for knob in knobs(type(section)).values():
        own = names.platform_variables(platform, knob.about.env) if platform else knob.about.env
        held = [(name, variables[name]) for name in own if name in variables]
        if not held or knob.kind is Secret:
            continue
        if not knob.many:
            changed[knob.name] = _from_variable(knob, *held[0])
        else:
            # Several variables may add to one list: LINE names groups and rooms apart.
            items = [item for pair in held for item in _from_variable(knob, *pair)]
            changed[knob.name] = tuple(dict.fromkeys(items))
    return replace(section, **changed) if changed else section


def _from_variable(knob: SettingSpec, name: str, variable: _Variable) -> Any:
    try:
        return convert(knob, variable.value)
    except WrongValue as error:
        message = f"{name} must be {error.expected}, not “{one_line(variable.value, 40)}”."
        variable.findings.problem(variable.line, message, error.remedy)
        return fallback(knob)
