"""`hermes auth`: the keys and logins of models, in `auth.json` of the home or of an agent. Secrets are asked
for without echo and never printed. A gateway that runs adopts every change at once."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column, dash
from hermes.agent.models.login import google
from hermes.agent.models.login.google import read_google_login
from hermes.agent.models.login.oauth import LoginTokens, refresh_tokens, request_code, wait_for_tokens
from hermes.agent.models.login.services import LOGINS, DeviceLogin, claims_of, login_of
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.models.credential import Credential, CredentialKind
from hermes.domain.models.providers import CUSTOM, NO_KEY, PROVIDERS, ProviderAuth, find_provider
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.settings import AUTO
from hermes.domain.text import closest, list_some, one_line
from hermes.domain.word import replace
from hermes.entry.desk import apply_settings
from hermes.state.home.credentials import CredentialFile
from hermes.state.home.homes import agent_home, prepare_home
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.model_access import key_variables
from hermes.state.settings.secrets import looks_like_placeholder

OF_AGENT = {"--agent NAME": "the agent that has them; without it the gateway's own, for all agents"}
PROVIDER = {"provider": "the provider, as `openrouter`, `nous` or `custom:<name>`"}
ANY_PROVIDER = {"[provider]": "only this provider"}
_LOGIN = OF_AGENT | {"--label NAME": "a name for it", "--no-browser": "only print the address (always so)"}
_KEY = {
    "--type TYPE": "`api-key` or `oauth`; without it, as the provider usually has it",
    "--api-key KEY": "the key; better left out: it is asked for and not shown, or read from a pipe",
    "--base-url URL": "the address that it is for, if that is not the provider's own",
}
_WAYS = (*LOGINS, google.PROVIDER)
_TYPES = {"api-key": CredentialKind.API_KEY, "oauth": CredentialKind.OAUTH}


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add(
        "add",
        "Store a further key of a provider, or log in once more.",
        _add,
        PROVIDER | _KEY | _LOGIN | JSON,
    )
    add(
        "list",
        "List keys and logins; those of .env and the environment too.",
        _list,
        ANY_PROVIDER | OF_AGENT | JSON,
    )
    which = {"credential": "its id, label or number in the list"}
    add("remove", "Remove a key or a login from auth.json.", _remove, PROVIDER | which | OF_AGENT)
    add("reset", "End the cooldowns, so that refused keys are tried again.", _reset, ANY_PROVIDER | OF_AGENT)
    add(
        "status",
        "Show whether a key or a login can be used; exit code 1 if none.",
        status,
        ANY_PROVIDER | OF_AGENT | JSON,
    )
    login_arguments(add("login", "Log in to a provider by a code.", login))
    logout_arguments(add("logout", "Remove the logins of a provider.", logout))


def login_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(_WAYS)
    declare(parser, {"[provider]": f"where: {names}"} | _LOGIN)


def logout_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--provider", dest="named", metavar="NAME", help="the same as provider")
    declare(parser, {"[provider]": "only this one; without it, every login"} | OF_AGENT)


# --- what changes


def _add(command: CliCommand) -> None:
    asked, provider = command.asked, _provider(command.asked.provider)
    if asked.type is not None and asked.type not in _TYPES:
        raise UserError(
            f"There is no type “{one_line(asked.type, 30)}”.", hint=f"There are: {', '.join(_TYPES)}."
        )
    spec = find_provider(provider)
    usual = CredentialKind.API_KEY
    if spec is not None and spec.auth is ProviderAuth.OAUTH_DEVICE_CODE and not asked.api_key:
        usual = CredentialKind.OAUTH
    if _TYPES.get(asked.type, usual) is CredentialKind.OAUTH:
        return _log_in(command, provider, again=False)
    file = _file(command)
    stored = file.read().of(provider)
    key = _asked_key(command, provider, stored)
    credential = Credential(
        id=secrets.token_hex(3),
        provider=provider,
        label=_label(asked.label, "key", stored),
        key=Secret(key),
        base_url=_address(asked.base_url, provider),
    )
    file.add(credential)
    _tell(command, credential, f"Stored {credential.label} for {provider} in {file.path}.")


def login(command: CliCommand) -> None:
    provider = command.asked.provider
    if provider is None:
        raise UserError("Where do you want to log in?", hint=f"hermes login {' | '.join(_WAYS)}")
    _log_in(command, _provider(provider), again=True)


def _log_in(command: CliCommand, provider: str, *, again: bool) -> None:
    """Get tokens by a code, or by the login of Google's own program. A login `again` takes the place of one
    with its label, or of one that is over."""
    kept = read_google_login(command.environ) if provider == google.PROVIDER else None
    service = LOGINS.get(provider)
    if service is None and kept is None:
        hint = f"Store a key: hermes auth add {provider}. One can log in to {', '.join(_WAYS)}."
        raise UserError(f"One cannot log in to {provider}.", hint=hint)
    file = _file(command)
    logins = [one for one in file.read().of(provider) if one.kind is CredentialKind.OAUTH]
    if not again:
        _label(command.asked.label, "login", logins)  # before anybody takes the trouble
    start = Credential(id="", provider=provider, label=google.TITLE, client=kept[1] if kept else None)
    service = service or login_of(start)
    assert service is not None
    tokens = asyncio.run(_tokens(command, service, kept[0] if kept else None))
    wanted = command.asked.label or _owner(tokens)
    before = [one for one in logins if again and (one.dead or one.label == (wanted or one.label))]
    if before:
        credential = tokens.on(replace(before[0], client=start.client))
    else:
        new = Credential(
            id=secrets.token_hex(3),
            provider=provider,
            label=_label(command.asked.label, wanted or "login", logins),
            kind=CredentialKind.OAUTH,
            source="gcloud" if kept else "device_code",
            client=start.client,
        )
        credential = tokens.on(new)
    file.add(credential)
    _tell(command, credential, f"Logged in to {service.title}; the login is in {file.path}.")


async def _tokens(command: CliCommand, service: DeviceLogin, refresh: Secret | None) -> LoginTokens:
    say = command.console.note
    try:
        if refresh is not None:
            given = await refresh_tokens(service, refresh, datetime.now(UTC))
            return replace(given, refresh=given.refresh or refresh)
        code = await request_code(service)
        say(f"Open {one_line(code.url, 300)} in any browser, and log in to {service.title}.")
        say(f"Type in this code, if you are asked for one: {one_line(code.code, 40)}")
        say("Give it to nobody: whoever has it can use your account. Waiting …")
        return await wait_for_tokens(service, code, sleep=asyncio.sleep, now=lambda: datetime.now(UTC))
    except UserError:
        raise
    except HermesError as error:
        raise UserError(f"{error}.".replace("..", "."), hint="Try again later.") from error


def _remove(command: CliCommand) -> None:
    provider, wanted = _provider(command.asked.provider), command.asked.credential
    file = _file(command)
    listed = _listed(command, provider)
    numbered = listed[int(wanted) - 1 : int(wanted)] if wanted.isdecimal() and int(wanted) else []
    named = [one for one in listed if wanted in (one.id, one.label)] or numbered
    if len(named) != 1:
        what = "Several credentials are" if named else "No credential is"
        hint = f"See: hermes auth list {provider}"
        raise UserError(f"{what} called “{one_line(wanted, 40)}” for {provider}.", hint=hint)
    (credential,) = named
    if not credential.stored:
        hint = f"Remove it there: hermes config unset {credential.label}"
        raise UserError(f"{credential.label} does not stand in {file.path}.", hint=hint)
    file.remove(credential.id)
    _tell(command, credential, f"Removed {credential.label} of {provider}.")


def logout(command: CliCommand) -> None:
    file, asked = _file(command), command.asked.provider or getattr(command.asked, "named", None)
    provider = None if asked is None else _provider(asked)
    gone = [one for one in file.read().credentials if one.kind is CredentialKind.OAUTH]
    gone = [one for one in gone if provider in (None, one.provider)]
    if not gone:
        raise UserError(
            f"There is no login{f' at {provider}' if provider else ''}.", hint="See: hermes auth list"
        )
    file.remove(*(one.id for one in gone))
    names = list_some(sorted({one.provider for one in gone}))
    _tell(command, gone[0], f"Logged out of {names}. The services themselves were not told.")


def _reset(command: CliCommand) -> None:
    listed = [one for one in _listed(command, _named(command)) if one.cooldown is not None]
    if listed:
        ended = {one.id: None for one in listed}
        _file(command).rest(dict(ended), datetime.now(UTC), {})
    command.console.line(f"{len(listed)} cooldowns ended.")


# --- what is shown


def _list(command: CliCommand) -> None:
    now = datetime.now(UTC)
    columns = [
        Column("provider", "PROVIDER"),
        Column("id", "ID"),
        Column("label", "LABEL"),
        Column("kind", "TYPE"),
        Column("source", "SOURCE"),
        Column("status", "STATUS", value=lambda key: _status(key, now)),
        Column("usable", value=lambda key: key.is_usable(now)),
        Column("until", value=lambda key: key.cooldown.until if key.cooldown else None),
        Column("expires_at", "EXPIRES", lambda at: dash(at and f"{at:%Y-%m-%d %H:%M} UTC")),
        Column("uses"),
    ]
    none = "There are no credentials. Store one: hermes auth add PROVIDER"
    command.list(_listed(command, _named(command)), columns, none=command.console.spell(none), whole=3)
    if problem := _read(command).problem:
        raise UserError(problem)


def status(command: CliCommand) -> int:
    """The exit code says whether a call would find a credential."""
    _list(command)
    now = datetime.now(UTC)
    return 0 if any(one.is_usable(now) for one in _listed(command, _named(command))) else 1


def _status(credential: Credential, now: datetime) -> str:
    if credential.dead:
        return f"dead: {credential.dead}"
    if credential.is_usable(now) or credential.cooldown is None:
        return "ok"
    return f"{credential.cooldown.kind} until {credential.cooldown.until:%Y-%m-%d %H:%M} UTC"


# --- what they share


def _listed(command: CliCommand, provider: str | None) -> list[Credential]:
    """What is stored, behind what stands in the environment."""
    loaded, stored = _loaded(command).of(_agent(command)), _read(command).read()
    every: list[Credential] = []
    named: dict[str, list[str]] = {}
    for name, entry in loaded.settings.providers.items():
        named.setdefault(f"{CUSTOM}:{name}", []).append(entry.key_env)
    for fallback in loaded.settings.fallback_providers:
        named.setdefault(fallback.provider, []).append(fallback.key_env)
    names = [*PROVIDERS, *named, *(one.provider for one in stored.credentials)]
    for name in dict.fromkeys(names if provider is None else [provider]):
        spec, usual = find_provider(name), key_variables(name)
        if spec is not None and (name == CUSTOM or spec.is_local):
            usual = usual[:1]  # behind it comes OpenAI's
        for variable in filter(None, (*named.get(name, ()), *usual)):
            if (key := loaded.variable(variable)) and key != NO_KEY:
                every.append(stored.rested(Credential.outside(name, variable, Secret(key))))
                break
        every += stored.of(name)
    return every


def _provider(name: str) -> str:
    wanted = name.strip().lower()
    spec = find_provider(wanted)
    if spec is not None and spec.auth is not ProviderAuth.NONE:
        return spec.id
    if wanted.startswith(f"{CUSTOM}:") or wanted == CUSTOM:
        return wanted
    near = closest(wanted, PROVIDERS)
    hint = (
        f"Did you mean {near}?" if near else f"There are: {', '.join(PROVIDERS)}; your own as custom:<name>."
    )
    if spec is not None:
        raise UserError(f"{spec.title} needs no key.")
    raise UserError(f"There is no provider “{one_line(name, 40)}”.", hint=hint)


def _named(command: CliCommand) -> str | None:
    return None if command.asked.provider is None else _provider(command.asked.provider)


def _loaded(command: CliCommand) -> LoadedSettings:
    return load_settings(command.home, command.environ)


def _file(command: CliCommand) -> CredentialFile:
    """The file of the agent that is asked for, in a home that is there."""
    home = agent_home(prepare_home(command.home), _agent(command), _loaded(command).settings)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = CredentialFile(home)
    file.read()
    if file.problem:
        raise UserError(file.problem)
    return file


def _read(command: CliCommand) -> CredentialFile:
    file = CredentialFile(agent_home(command.home, _agent(command), _loaded(command).settings))
    file.read()
    return file


def _agent(command: CliCommand) -> AgentId:
    return AgentId(command.asked.agent or MAIN_AGENT)


def _asked_key(command: CliCommand, provider: str, stored: Sequence[Credential]) -> str:
    """From the option, without echo from the terminal, or the first line of a pipe."""
    console, given = command.console, command.asked.api_key
    if given is None and console.interactive:
        given = console.ask(f"Key of {provider} (it is not shown):", secret=True)
    elif given is None:
        given = sys.stdin.readline() if sys.stdin is not None else ""
    key = str(given).strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UserError("That is no key; nothing was stored.", hint="Give the key as the provider shows it.")
    if looks_like_placeholder(key):
        raise UserError("That is still a placeholder; nothing was stored.", hint="Give the real key.")
    same = next((one for one in stored if one.key.reveal() == key), None)
    if same is not None:
        raise UserError(f"This key is stored already, as {same.label}; nothing was changed.")
    return key


def _address(url: str | None, provider: str) -> str:
    if url is not None and not url.startswith(("https://", "http://")):
        raise UserError(f"“{one_line(url, 60)}” is no address.", hint="It begins with https://.")
    if url is None and provider == CUSTOM:
        hint = "Add --base-url URL, or declare it under `providers:` and use custom:<name>."
        raise UserError("A key for an endpoint of your own needs its address.", hint=hint)
    return url or ""


def _label(wanted: str | None, usual: str, stored: Sequence[Credential]) -> str:
    """The name that is asked for, or the first free one: `key`, `key 2`, `key 3`."""
    taken = {one.label for one in stored}
    if wanted is None:
        names = (usual if number == 1 else f"{usual} {number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)
    label = one_line(wanted, 60)
    if label in taken:
        raise UserError(f"There is a credential called “{label}” already.", hint="Choose another --label.")
    return label


def _owner(tokens: LoginTokens) -> str:
    """Whom the token names."""
    claims = claims_of(tokens.access.reveal())
    names = (claims.get(name) for name in ("email", "preferred_username"))
    return next((one_line(name, 60) for name in names if isinstance(name, str) and name), "")


def _tell(command: CliCommand, credential: Credential, words: str) -> None:
    """Say what was done, and let a gateway that runs adopt it."""
    console = command.console
    if getattr(command.asked, "json", False):
        fields = ("id", "provider", "label", "kind")
        console.json({name: str(getattr(credential, name)) for name in fields})
    else:
        console.line(words)
    home = open_home(command)
    if home.running:
        home.ask(apply_settings)
        console.note("The running gateway has adopted it.")
    chosen = find_provider(_loaded(command).settings.model.provider)
    if chosen is not None and chosen.id not in (AUTO, credential.provider):
        console.note(f"Your model is at {chosen.title}. To change that: hermes config set model.provider …")
