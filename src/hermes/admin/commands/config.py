"""`hermes config`: show, get, set, path, check and apply. Only the last one needs a gateway; the others read
and write files. What is about the whole file is in `config_file.py`."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from hermes import plugins
from hermes.admin.commands import config_file
from hermes.admin.commands.config_rollback import add_rollback
from hermes.admin.process.home_files import GATEWAY, home_holder
from hermes.admin.shell.boundary_lines import boundary_lines
from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.domain.errors import SettingsError, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.declaring import Secret
from hermes.domain.text import list_some, one_line
from hermes.domain.word import field_names, is_word, replace
from hermes.entry.desk import apply_settings
from hermes.plugins import platform_manifests
from hermes.state.files.subscriptions import WebhookSubscriptions
from hermes.state.home.homes import prepare_home
from hermes.state.settings.by_key import find_key, set_setting, unset_setting, value_at
from hermes.state.settings.loader import (
    CONFIG_FILE,
    SECRETS_FILE,
    LoadedSettings,
    agent_problems,
    check_text,
    load_settings,
)
from hermes.state.settings.model_access import complete_model, provider_model
from hermes.state.settings.names import BUILT_IN, PlatformNames

PROBLEMS = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Read, change and check the settings in config.yaml and .env."
    parser.epilog = "The environment beats .env, .env beats config.yaml. All keys: docs/reference/settings.md"
    commands = Subcommands(parser)
    add = commands.add
    add("show", "Print the settings in effect, as YAML; secrets are shown as ***.", _show, JSON)
    shown = {"key": "a dotted key like agent.max_turns, or a variable like HERMES_MODEL"}
    add("get", "Print one setting, or one section.", _get, shown | JSON)
    key = {"key": "a dotted key like agent.max_turns, or a variable like OPENAI_API_KEY"}
    value = {
        "[value]": "the new value; a list is written with commas. A secret may be left out: you are asked"
    }
    summary = "Change one setting. Variables in capitals and secrets go to .env, all others to config.yaml."
    add("set", summary, _set, key | value)
    add("unset", "Remove one setting from its file, so that its default takes effect again.", _unset, key)
    add("edit", "Edit config.yaml in your editor; it is checked before it is written.", config_file.edit)
    add(
        "diff",
        "List the settings that differ from their default, and where they are set.",
        config_file.diff,
        JSON,
    )
    add("path", "Print where config.yaml and .env are.", _path, JSON)
    add("env-path", "Print where .env is.", _env_path)
    add("apply", "Let the running gateway adopt config.yaml and .env as they are now.", _apply)
    add_rollback(commands)
    add("check", "Print every problem with its file, its line and its remedy.", _check, JSON)
    options = {"-y, --yes": "do not ask", "--dry-run": "only show what would change"} | JSON
    summary = "Rename what older versions called otherwise. Comments stay; a copy is kept."
    add("migrate", summary, config_file.run_migration, options)
    add("schema", "Print the JSON Schema of config.yaml, for editors.", config_file.schema)


def _env_path(command: CliCommand) -> None:
    command.console.line(str(command.home / SECRETS_FILE))


def _path(command: CliCommand) -> None:
    places = {"config": str(command.home / CONFIG_FILE), "secrets": str(command.home / SECRETS_FILE)}
    if command.asked.json:
        command.console.json(places)
    else:
        command.console.line("\n".join(places.values()))


def _show(command: CliCommand) -> None:
    loaded = _loaded(command)
    _say(command, loaded, plain(loaded.settings))


def _get(command: CliCommand) -> None:
    loaded = _loaded(command)
    _say(command, loaded, _got(loaded, command.asked.key))


def _say(command: CliCommand, loaded: LoadedSettings, value: Any) -> None:
    if command.asked.json:
        command.console.out.write(loaded.secrets.redact(json.dumps(value, indent=2)) + "\n")
    else:
        command.console.out.write(_said(loaded, value))
    if loaded.problems:
        command.console.note(f"{len(loaded.problems)} problem(s) in the settings; see: hermes config check")


def _loaded(command: CliCommand) -> LoadedSettings:
    return load_settings(command.home, command.environ, platforms=_plugin_platforms())


def plain(value: Any) -> Any:
    """Settings as plain data, with `***` for secrets."""
    if isinstance(value, Secret):
        return "***" if value else ""
    if isinstance(value, StrEnum):
        return value.value
    if is_word(value):
        # What stands in `trees` stands flattened in `extra` and `secrets` as well.
        names = [name for name in field_names(value) if name not in ("trees", "options")]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, tuple) else value


def _got(loaded: LoadedSettings, key: str) -> Any:
    if "." in key or not key.isupper():
        return plain(value_at(loaded.settings, key, _platforms()))
    find_key(key, platforms=_platforms())
    secret = loaded.secrets.get(key)
    return plain(secret) if secret else loaded.variables.get(key, "")


def _said(loaded: LoadedSettings, value: Any) -> str:
    if isinstance(value, (dict, list)):
        import yaml

        text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=100_000) if value else ""
    elif isinstance(value, bool):
        text = f"{value}\n".lower()
    else:
        text = "\n" if value is None else f"{value}\n"
    return loaded.secrets.redact(text)


def _platforms() -> PlatformNames:
    return PlatformNames.of(platform_manifests())


def _set(command: CliCommand) -> None:
    key, console, platforms = command.asked.key, command.console, _platforms()
    value = command.asked.value
    if value is None:
        value = _asked_value(command, platforms)
    home = prepare_home(command.home)
    if key.lower().startswith(("terminal", "routes")):
        check_terminal(command, key, value, platforms)
    written = set_setting(home, key, value, platforms)
    console.line(f"{written.name} is set in {written.file}")
    if written.secret:
        if command.environ.get(written.name, value) != value:
            console.line(f"{written.name} is also set in the environment, which takes effect.")
    elif "${" not in value:
        file, _ = check_text((home / CONFIG_FILE).read_text(encoding="utf-8"), platforms.names)
        loaded = _loaded(command)
        file = replace(file, model=complete_model(file, loaded.variable))
        if value_at(loaded.settings, key, platforms) != value_at(file, key, platforms):
            console.line("A variable in .env or in the environment sets another value, which takes effect.")
        if key == "model.provider":
            _warn_of_provider(command, loaded, value)
    _note_gateway(command)


def _note_gateway(command: CliCommand) -> None:
    """What is written counts once it is adopted."""
    holder = home_holder(command.home)
    if holder is None or holder.what != GATEWAY or _loaded(command).settings.gateway.watch_config:
        return
    command.console.note("The running gateway adopts it with: hermes config apply")


def _warn_of_provider(command: CliCommand, loaded: LoadedSettings, name: str) -> None:
    from hermes.agent.models.choose import choose
    from hermes.plugins import providers

    choice = choose(provider_model(name, "", loaded), plugins=providers(), looked=False)
    if choice.wrong:
        command.console.line(f"⚠️ No model answers so: {choice.why}. {choice.hint}")


def check_terminal(command: CliCommand, key: str, value: str, platforms: PlatformNames = BUILT_IN) -> None:
    """A `UserError` if the gateway would not start with this setting beside the others: tried on a copy."""
    before = {error.message for error in _terminal_errors(command, _loaded(command))}
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        for name in (CONFIG_FILE, SECRETS_FILE):
            if (command.home / name).is_file():
                shutil.copy2(command.home / name, folder)
        set_setting(Path(folder), key, value, platforms)
        loaded = load_settings(Path(folder), command.environ, platforms=_plugin_platforms())
    for error in _terminal_errors(command, loaded):
        if error.message not in before:
            hint = f"{error.hint} The gateway would not start with it; nothing was changed."
            raise UserError(error.message, hint=hint)


def _asked_value(command: CliCommand, platforms: PlatformNames) -> str:
    """A secret that is not typed into the command, where the shell would keep it."""
    key, console = command.asked.key, command.console
    if not console.interactive or not find_key(key, platforms=platforms).variable:
        raise UserError(f"There is no value for {key}.", hint=f"hermes config set {key} VALUE")
    value = console.ask(f"{key} (it is not shown):", secret=True)
    if not value:
        raise UserError("Nothing was changed.")
    return value


def _unset(command: CliCommand) -> None:
    key, console = command.asked.key, command.console
    home = prepare_home(command.home)
    removed = unset_setting(home, key, _platforms())
    if removed is None:
        console.line(
            f"{key} is not set in {home / CONFIG_FILE} or {home / SECRETS_FILE}; nothing was changed."
        )
        return
    console.line(f"{removed.name} is not set any more in {removed.file}")
    if removed.name in command.environ:
        console.line(f"{removed.name} is still set in the environment, which takes effect.")
    _note_gateway(command)


def _apply(command: CliCommand) -> None:
    """What cannot be adopted is refused as a whole: `SettingsError`s are printed by whoever calls this."""
    for problem in _prefill_problems(command, _loaded(command)):
        raise UserError(problem, hint="The settings from before count.")
    report, console = open_home(command).ask(apply_settings), command.console
    if not report.generation:
        console.line("No gateway runs here; the settings are correct and take effect when it starts.")
    elif not report.changed:
        again = console.spell("hermes status")
        console.line(f"No setting has changed. The gateway looks again which sandboxes work: {again}")
    adopted = [key for key in report.changed if key not in report.waits]
    if adopted:
        console.line(f"Adopted: {list_some(adopted)}.")
    if report.waits:
        restart = console.spell("hermes gateway restart")
        console.line(f"Takes effect after a restart ({restart}): {list_some(report.waits)}.")
    for line in boundary_lines(report.boundaries):
        console.line(f"Sandbox of {line}")


def _check(command: CliCommand) -> int:
    loaded, console = _loaded(command), command.console
    found = [
        *map(str, loaded.problems),
        *map(str, agent_problems(command.home, loaded.settings)),
        *_webhook_problems(command, loaded),
        *_account_problems(loaded),
    ]
    found += [*_toolset_problems(loaded), *_model_problems(command, loaded), *_agent_model_problems(loaded)]
    found += [*_http_problems(command, loaded), *_terminal_problems(command, loaded)]
    found += _prefill_problems(command, loaded)
    wrong, older = config_file.migration_notes(command.home) if loaded.has_file else ([], [])
    found = [loaded.secrets.redact(problem) for problem in (*found, *wrong)]
    notes = [loaded.secrets.redact(str(note)) for note in (*loaded.notes, *older)]
    if command.asked.json:
        console.json({"ok": not found, "problems": found, "notes": notes})
        return PROBLEMS if found else 0
    for line in (*found, *(f"note: {note}" for note in notes)):
        console.line(line)
    if not found:
        console.line("config ok")
    return PROBLEMS if found else 0


def _terminal_problems(command: CliCommand, loaded: LoadedSettings) -> list[str]:
    from hermes.app.agents.terminal_settings import nameless_machine

    return [str(error) for error in (*_terminal_errors(command, loaded), *nameless_machine(loaded))]


def _terminal_errors(command: CliCommand, loaded: LoadedSettings) -> list[SettingsError]:
    from hermes.app.agents.terminal_settings import terminal_problems

    return [*terminal_problems(loaded, command.environ)]


def _toolset_problems(loaded: LoadedSettings) -> Iterator[str]:
    settings = loaded.settings
    limits = (
        settings.toolsets,
        settings.agent.disabled_toolsets,
        settings.platform_toolsets,
        settings.routes,
    )
    if not any(limits) and not any(
        each.enabled_toolsets or each.disabled_toolsets for each in settings.agents.values()
    ):
        return
    from hermes.app.agents.tools import check_own_toolsets, check_toolsets
    from hermes.domain.tools.toolbox import ToolsetLimit
    from hermes.plugins import tools

    added = tools().toolsets
    checks: list[Callable[[], None]] = [partial(check_toolsets, loaded, added)]
    for agent, each in settings.agents.items():
        own = ToolsetLimit(enabled=each.enabled_toolsets, disabled=each.disabled_toolsets)
        checks.append(partial(check_own_toolsets, loaded, own, AgentId(agent), added))
    for check in checks:
        try:
            check()
        except SettingsError as error:
            yield str(error)


def _prefill_problems(command: CliCommand, loaded: LoadedSettings) -> list[str]:
    name = loaded.settings.prefill_messages_file
    if not name:
        return []
    from hermes.app.agents.manner import read_prefill

    try:
        read_prefill(command.home / Path(name).expanduser())
    except UserError as error:
        return [str(error)]
    return []


def _model_problems(command: CliCommand, loaded: LoadedSettings) -> list[str]:
    """A model that is set no more, though one answered here. Servers of this machine are not looked for."""
    from hermes.admin.commands.status import last_model
    from hermes.admin.process.home_files import read_state
    from hermes.agent.models.choose import ModelAccess, choose, stand_in
    from hermes.plugins import providers

    settings, before = loaded.settings.model, last_model(read_state(command.home))
    stored = {each.provider for each in loaded.credentials.get(MAIN_AGENT, ())}
    plain = choose(settings, plugins=providers(), stored=stored, looked=False)
    choice = stand_in(plain, settings, before)
    if plain is choice or choice.way is not ModelAccess.NONE:
        return []
    return [f"No model answers: {choice.why}. {choice.hint}"]


def _agent_model_problems(loaded: LoadedSettings) -> Iterator[str]:
    """Agents that would be left out because of their own model."""
    agents = [AgentId(name) for name, each in loaded.settings.agents.items() if each.model or each.provider]
    if not agents:
        return
    from hermes.agent.models.registry import Models
    from hermes.app.agents.models import model_problem
    from hermes.plugins import providers

    models = Models(providers(), probe=False)
    for agent in agents:
        if problem := model_problem(agent, loaded, models):
            yield str(problem)


def _account_problems(loaded: LoadedSettings) -> list[str]:
    from hermes.app.accounts import ONE_EACH, declared_accounts, same_credentials

    enabled = [one for one in declared_accounts(platform_manifests(), loaded) if one.enabled]
    doubles = same_credentials(enabled).items()
    return [f"{name} has the same credential as {first}. {ONE_EACH}" for name, first in doubles]


def _http_problems(command: CliCommand, loaded: LoadedSettings) -> list[str]:
    """A key that keeps the API closed."""
    if not loaded.find("api_server", "API_SERVER_KEY") and "api_server" not in loaded.settings.platforms:
        return []
    from hermes.app.http import AppHttp

    problem = AppHttp(command.home, loaded, command.environ, lambda account, state, why: None).key_problem()
    return [problem] if problem else []


def _webhook_problems(command: CliCommand, loaded: LoadedSettings) -> list[str]:
    """What only the readers of webhook routes and targets understand; routes made by command too."""
    block, file = loaded.settings.platforms.get("webhook"), WebhookSubscriptions(command.home)
    made = file.read()
    if block is None and not made and not file.problem:
        return []
    from hermes.app.http import route_problems, shared_secret, static_routes
    from hermes.entry.http.webhooks.routes import read_routes
    from hermes.entry.platforms.webhook.convert import target_problems

    def find(variable: str) -> Secret | None:
        return loaded.find("webhook", variable)

    routes = {**read_routes(made, shared_secret(loaded)), **static_routes(loaded)}
    wrong = route_problems(loaded, routes).items()
    found = [f"Webhook route “{one_line(name, 64)}”: {why}" for name, why in wrong]
    found += target_problems(None if block is None else block.trees.get("targets"), find)
    return [*found, file.problem] if file.problem else found


def _plugin_platforms() -> list[str]:
    return [manifest.name for manifest in plugins.platform_manifests()]
