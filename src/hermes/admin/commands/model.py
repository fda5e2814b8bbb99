"""`hermes model`: which model answers, choosing another one, and the list of those there are. On a terminal
it asks, step by step: the provider, its key if it lacks one, the model. It works without a gateway; one that
runs adopts the change."""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from hermes.admin.commands.platform_packages import FURTHER_EXTRAS, install_extra, is_installed
from hermes.admin.shell.command import CliCommand, declare
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column
from hermes.admin.shell.picker import PickOption, pick
from hermes.agent.models.catalogue import SOURCE, ModelCatalogue, trim
from hermes.agent.models.choose import DEMO, ModelAccess, ModelChoice, unknown_provider_hint
from hermes.agent.models.local import gguf_problem
from hermes.agent.models.registry import Models
from hermes.agent.models.servers import NO_PROBE, fetch_json
from hermes.app.agents.model_places import CACHE_FOLDER, ModelPlaces
from hermes.app.agents.model_search import ModelSearch, adopt_model
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.providers import CUSTOM, LOCAL, find_provider, has_tag, split_model
from hermes.domain.ports.models import ModelOption, describe_facts
from hermes.domain.settings.settings import LOCAL_WINDOW
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.entry.desk import apply_settings
from hermes.plugins import platform_manifests, providers
from hermes.state.home.homes import prepare_home
from hermes.state.settings.by_key import set_setting
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.model_access import model_routes

_FETCH_SECONDS = 30.0
_ARGUMENTS = {
    "[name]": "the model, or a part of its name, also as `provider:model`; or a GGUF file; `list` lists them",
    "--provider P": "at this provider",
    "--global": "for every session that has none of its own; so it always is from here",
    "--refresh": "fetch anew what is published of models",
    "--json": "print JSON",
}


class _Row(Struct, frozen=True, kw_only=True):
    """A model in a list."""

    name: str
    facts: ModelFacts


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=run)
    parser.description = (
        "Show or choose the model that answers. Without a name it asks, if there is a terminal."
    )
    declare(parser, _ARGUMENTS)


def run(command: CliCommand) -> None:
    asked = command.asked
    if asked.refresh:
        _refresh(command)
    if asked.name == "list":
        _list(command)
    elif (asked.name or "").lower().endswith(".gguf"):
        use_file(command, asked.name)
    elif asked.name or asked.provider:
        _adopt(command, asyncio.run(_find(command, asked.name or "", asked.provider or "")))
    elif asked.refresh:
        return
    elif command.console.interactive and not asked.json:
        from hermes.admin.commands.model_setup import ask_model

        ask_model(command)
        _tell_gateway(command)
    else:
        _show(command)


def _loaded(command: CliCommand) -> LoadedSettings:
    platforms = [manifest.name for manifest in platform_manifests()]
    return load_settings(command.home, command.environ, platforms=platforms)


async def make_search(command: CliCommand, loaded: LoadedSettings | None = None) -> ModelSearch:
    """For the main agent, by the settings of the home."""
    loaded = loaded or _loaded(command)
    places = ModelPlaces(loaded, SystemClock(), command.home)
    stored = {
        one.provider: one
        for one in reversed(loaded.credentials.get(MAIN_AGENT, ()))
        if not one.dead and (one.expires_at is None or one.expires_at > datetime.now(UTC))
    }
    named = {one.provider for one in loaded.credentials.get(MAIN_AGENT, ())}
    places.models = Models(providers(), probe=not loaded.variables.get(NO_PROBE), stored=lambda: named)

    def keyed(choice: ModelChoice) -> ModelChoice:
        held = None if choice.key else stored.get(choice.provider)
        return (
            choice
            if held is None
            else replace(choice, key=held.key, base_url=held.base_url or choice.base_url)
        )

    own = await places.models.choose(loaded.settings.model)
    base = replace(loaded.settings.model, default=own.model)
    aliases = {name: route.default for name, route in model_routes(loaded).items()}
    return ModelSearch(places=places, loaded=loaded, base=base, own=own, aliases=aliases, keyed=keyed)


async def _find(command: CliCommand, text: str, provider: str) -> ModelOption:
    search = await make_search(command)
    option = await search.find(text, provider)
    if option.name in search.aliases:
        raise UserError(
            f"“{option.name}” is a name for API clients.", hint=f"Its model is {search.aliases[option.name]}."
        )
    return option


async def check_model(command: CliCommand, name: str, provider: str) -> str:
    """The name of the model: that of the provider's usual one, if only that is named. A `UserError` for a
    model at a provider that there is not; `phi3:mini` is a name if it is listed."""
    loaded, wanted = _loaded(command), provider.strip().lower()
    own = loaded.settings.providers
    if not provider and (":" not in name or has_tag(name) or split_model(name, own)[0]):
        return name
    if wanted == DEMO:
        raise UserError("The demo model serves a whole home.", hint="hermes setup --provider demo")
    if wanted and name and wanted in (LOCAL, loaded.settings.model.provider, *providers()):
        return name  # none of them is in the list of providers
    search = await make_search(command, loaded)
    if provider:
        where = search.provider(provider)
        return name or (await search.find("", where)).name.removeprefix(f"{where}:")
    try:
        await search.find(name)
        return name
    except UserError as error:
        head = name.partition(":")[0]
        raise UserError(
            f"There is no provider “{one_line(head, 40)}” and no model “{one_line(name, 80)}” here.",
            hint=unknown_provider_hint(head, [f"{CUSTOM}:{one}" for one in own]),
        ) from error


def _adopt(command: CliCommand, option: ModelOption) -> None:
    loaded, home = _loaded(command), prepare_home(command.home)
    command.console.line(adopt_model(home, loaded, option.name))
    for line in filter(None, (describe_facts(option.facts), option.note)):
        command.console.line(line)
    _tell_gateway(command)


def _tell_gateway(command: CliCommand) -> None:
    """A gateway that runs adopts the change at once."""
    access = open_home(command)
    if access.running:
        access.ask(apply_settings)
        command.console.line("The running gateway has adopted it.")


def _show(command: CliCommand) -> None:
    search = asyncio.run(make_search(command))
    assert search.own is not None
    option, choice = search.describe(""), search.own
    facts = {"model": choice.model, "provider": choice.provider, "why": choice.why, "hint": choice.hint}
    if command.asked.json:
        command.console.json({**facts, "context_length": option.facts.window})
        return
    command.console.line(choice.line)
    for line in filter(None, (describe_facts(option.facts), choice.hint)):
        command.console.line(line)


def use_file(command: CliCommand, name: str) -> None:
    """A model from a file; what runs it is installed if it is missing."""
    path = Path(name).expanduser().absolute()
    if problem := gguf_problem(str(path)):
        raise UserError(f"{problem}.", hint="Give the path of a complete GGUF file.")
    extra, home = FURTHER_EXTRAS[LOCAL], prepare_home(command.home)
    if not is_installed(extra):
        install_extra(extra, LOCAL, command.console)
    for key, value in (("path", str(path)), ("default", path.stem), ("provider", LOCAL)):
        set_setting(home, f"model.{key}", value)
    command.console.line(f"The default model is now {path.stem}, run on this machine.")
    window = _loaded(command).settings.model.context_length or LOCAL_WINDOW
    command.console.line(f"It reads {window:,} tokens; model.context_length sets another size.")
    _tell_gateway(command)


# --- lists


def _list(command: CliCommand) -> None:
    rows = asyncio.run(_rows_at(command, command.asked.provider or ""))
    columns = [
        Column("name", "MODEL"),
        Column(
            "context_length",
            "TOKENS",
            lambda size: f"{size:,}" if size else "–",
            lambda row: row.facts.window,
        ),
        Column("price_in", "IN $/M", _price, lambda row: row.facts.price_in),
        Column("price_out", "OUT $/M", _price, lambda row: row.facts.price_out),
        Column("tools", "TOOLS", _known, lambda row: row.facts.tools),
        Column("images", "PICTURES", _known, lambda row: row.facts.images),
    ]
    command.list(rows, columns, none="The provider lists no models, and none of it are published.")


def _price(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _known(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"


async def _rows_at(command: CliCommand, provider: str) -> list[_Row]:
    search = await make_search(command)
    return await _rows(search, search.provider(provider) if provider else "")


async def _rows(search: ModelSearch, where: str) -> list[_Row]:
    """The models of a provider: as it lists them now, else as they are published, the newest first."""
    choice = search.choice(where)
    if choice.way is ModelAccess.NONE and not find_provider(where):
        raise UserError(f"No model answers there: {choice.why}.", hint=choice.hint)
    names = await search.live_names(choice)
    spec = find_provider(choice.provider)
    if not names and spec is not None:
        names = [model.name for model in search.places.catalogue.models(spec.facts)]
    prefix = f"{where}:" if where not in ("", search.base.provider) else ""
    return [_Row(name=name, facts=search.describe(prefix + name).facts) for name in names]


def _refresh(command: CliCommand) -> None:
    published = asyncio.run(fetch_json(SOURCE, _FETCH_SECONDS))
    catalogue = ModelCatalogue(prepare_home(command.home) / CACHE_FOLDER)
    try:
        text = trim(published if isinstance(published, dict) else {}, datetime.now(UTC).date().isoformat())
    except ValueError as error:
        hint = f"What is known of models is of {catalogue.day}, and stays. Check the network, then try again."
        raise UserError(f"{SOURCE} gave no list of models.", hint=hint) from error
    catalogue.write(text)
    command.console.line(f"{text.count(chr(10)) - 1:,} models are known, as of {catalogue.day}.")


# --- asking step by step


def title_of(provider: str) -> str:
    spec = find_provider(provider)
    return spec.title if spec else provider


def pick_model_at(command: CliCommand, search: ModelSearch, where: str) -> str:
    """A model of a provider, by its name or a part of it."""
    rows = asyncio.run(_rows(search, where))
    options = [PickOption(key=row.name, detail=describe_facts(row.facts)) for row in rows]
    return pick(command.console, "Which model?", options, free=True)
