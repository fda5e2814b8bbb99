"""Setting up a model: who serves it, its key, its name; tried with a real call before anything is written.
Used by `hermes setup`, at a terminal and from scripts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.admin.commands.model import make_search, pick_model_at, title_of, use_file
from hermes.admin.shell.command import CliCommand
from hermes.admin.shell.output import CliConsole
from hermes.admin.shell.picker import PickOption, pick
from hermes.agent.models.choose import DEMO, ModelAccess, is_local, shown_url
from hermes.agent.models.roles import ChosenModel
from hermes.app.agents.model_search import ModelSearch
from hermes.domain.errors import FaultKind, HermesError, ModelFault, UserError
from hermes.domain.models.providers import (
    CUSTOM,
    NO_KEY,
    PROVIDERS,
    ProviderAuth,
    ProviderSpec,
    find_provider,
)
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.plugins import platform_manifests
from hermes.state.home.homes import prepare_home
from hermes.state.settings.by_key import set_settings
from hermes.state.settings.loader import load_settings
from hermes.state.settings.secrets import looks_like_placeholder

_SECONDS = 60.0
_CUSTOM_KEY = "CUSTOM_API_KEY"
_FILE = "file"
_HERE = "here"
_KEY_PAGES = {
    "openrouter": "https://openrouter.ai/settings/keys",
    "anthropic": "https://console.anthropic.com/settings/keys",
    "openai": "https://platform.openai.com/api-keys",
    "gemini": "https://aistudio.google.com/apikey",
    "deepseek": "https://platform.deepseek.com/api_keys",
}
_FIRST = ("openrouter", "anthropic", "openai")


class ModelAnswers(Struct, frozen=True, kw_only=True):
    """What was answered, before it is written."""

    provider: str
    model: str = ""
    base_url: str = ""
    keys: Mapping[str, str] = {}

    def overlay(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment as if it was written already. An address or a model of before does not count."""
        plain = {"HERMES_INFERENCE_PROVIDER": self.provider, "HERMES_MODEL": self.model}
        return {**environ, **self.keys, **plain, "OPENAI_BASE_URL": self.base_url}

    def write(self, home: Path) -> None:
        settings: dict[str, str | None] = {**self.keys}
        settings["model.provider"] = self.provider
        settings["model.default"] = self.model or None
        settings["model.base_url"] = self.base_url or None
        set_settings(prepare_home(home), settings)


def search_with(command: CliCommand, answers: ModelAnswers) -> ModelSearch:
    environ = answers.overlay(command.environ)
    loaded = load_settings(command.home, environ, platforms=[one.name for one in platform_manifests()])
    if not answers.base_url:  # one that stands in the file would be taken along
        loaded = replace(
            loaded, settings=replace(loaded.settings, model=replace(loaded.settings.model, base_url=""))
        )
    return asyncio.run(make_search(command, loaded))


def try_model(search: ModelSearch) -> str:
    """Ask the model one thing; how that went. A `UserError` says why there was no answer."""

    async def ask() -> str:
        assert search.own is not None
        choice = search.keyed(search.own)
        if choice.way is ModelAccess.NONE:
            raise UserError(f"No model answers: {choice.why}.", hint=choice.hint)
        models = search.places.models
        facts = search.places.facts(choice, search.base)
        provider = models.provider(choice, search.base, shared=True)
        model = ChosenModel(provider=provider, model=choice.model, facts=facts, timeout=_SECONDS)
        began = time.monotonic()
        try:
            await model.ask("Answer with the single word: ready", sleep=asyncio.sleep)
        finally:
            await models.close()
        return f"{choice.model} answered after {time.monotonic() - began:.1f} s."

    try:
        return asyncio.run(ask())
    except UserError:
        raise
    except HermesError as error:
        # Some services repeat the key that they refuse.
        words = error.message if isinstance(error, ModelFault) else str(error)
        why = search.loaded.secrets.redact(one_line(words, 300)).rstrip(".")
        hint = error.hint if isinstance(error, ModelFault) and error.kind is not FaultKind.BAD_KEY else ""
        raise UserError(f"It does not answer: {why}. Nothing was changed.", hint=hint) from error


# --- at a terminal -----------------------------------------------------------------------------------


def ask_model(command: CliCommand) -> None:
    """Until a model answers, or somebody leaves."""
    console = command.console
    search = asyncio.run(make_search(command))
    assert search.own is not None
    console.words(f"Now: {search.own.line}")
    chosen = pick(console, "Who serves your model?", _offers(search))
    if chosen == _FILE:
        return use_file(command, console.ask("The path of the GGUF file:"))
    if chosen == _HERE:
        return console.line(try_model(search))
    if chosen == DEMO:
        ModelAnswers(provider=DEMO).write(command.home)
        return console.line("The demo model answers now.")
    answers = ModelAnswers(provider=chosen)
    if chosen == CUSTOM == search.own.provider:
        loaded, before = search.loaded, search.loaded.settings.model
        name = next(filter(loaded.variable, PROVIDERS[CUSTOM].keys), _CUSTOM_KEY)
        held = loaded.variable(name) or before.api_key.reveal()
        answers = replace(answers, base_url=before.base_url, keys={name: held} if held else {})
    while True:
        answers = _ask_access(command, answers)
        try:
            answers = _look(command, answers)
            search = search_with(command, answers)
            model = pick_model_at(command, search, "" if chosen == CUSTOM else chosen)
            found = asyncio.run(search.find(model, "" if chosen == CUSTOM else chosen)).name
            model = found.removeprefix(f"{chosen}:")
            answers = replace(answers, model=model)
            console.line(f"Asking {model} …")
            console.line(try_model(search_with(command, answers)))
            break
        except UserError as error:
            console.words(f"{error.message} {console.spell(error.hint)}".rstrip())
            again = console.ask("Press Enter to try again, or type “keep” to save it unchecked:", secret=True)
            if again.lower() == "keep":
                break
    answers.write(command.home)
    console.line(f"Saved in {command.home}.{' Secrets are in .env.' if answers.keys else ''}")


def _offers(search: ModelSearch) -> list[PickOption]:
    """What can be used at once comes first, then those that most people have a key for."""
    names = [name for name, spec in PROVIDERS.items() if name != CUSTOM and not spec.is_local]
    names += [f"{CUSTOM}:{name}" for name in search.loaded.settings.providers if find_provider(name) is None]
    names.sort(key=lambda name: (bool(search.state(name)), name not in _FIRST))
    offers = [
        PickOption(key=name, label=title_of(name), detail="" if search.state(name) else "its key is set")
        for name in names
    ]
    own = search.own
    server = None if own is None else find_provider(own.provider)
    if own is not None and server is not None and server.is_local and own.way is ModelAccess.HTTP:
        offers.insert(0, PickOption(key=_HERE, label=own.title, detail=f"found here: {own.model}"))
    offers += [
        PickOption(key=CUSTOM, label="Another address", detail="any OpenAI-compatible server, also Ollama"),
        PickOption(key=_FILE, label="A GGUF file", detail="runs on this machine"),
    ]
    offers.sort(key=lambda offer: own is None or offer.key not in (_HERE, own.provider))
    return [
        *offers,
        PickOption(key=DEMO, label="None yet", detail="the demo model: no key, knows a few phrases"),
    ]


def _look(command: CliCommand, answers: ModelAnswers) -> ModelAnswers:
    """The answers, mended as far as the list of models shows: a key that is refused is asked for again, and
    an address may lack its `/v1`."""
    console = command.console
    while True:
        search = search_with(command, answers)
        if search.own is None or search.own.way is not ModelAccess.HTTP:
            return answers
        listing = asyncio.run(search.listing(search.own))
        url = answers.base_url.rstrip("/")
        if url and listing.status == 404 and not url.endswith("/v1"):
            longer = replace(answers, base_url=f"{url}/v1")
            search = search_with(command, longer)
            assert search.own is not None
            there = asyncio.run(search.listing(search.own))
            if there.status != 404:
                answers, listing = longer, there
                console.line(f"Its address is {url}/v1.")
        if url and not listing.status:
            raise UserError(f"Nothing answers at {url}.")
        if url and listing.status == 404:
            console.line(f"There is no list of models at {url}/models. The address mostly ends in /v1.")
        if listing.status not in (401, 403):
            return answers
        spec = find_provider(answers.provider)
        if spec is None or not spec.keys:
            console.line("It refuses the key.")
            return answers
        key = console.ask("It refuses the key. Enter another one, or nothing to go on:", secret=True)
        if not key:
            return answers
        answers = replace(answers, keys={spec.keys[0]: key})


def _ask_address(console: CliConsole, before: ModelAnswers) -> ModelAnswers:
    """The address of a server of one's own and its key. No other key is ever sent there."""
    kept = f" (Enter keeps {before.base_url})" if before.base_url else ", like http://127.0.0.1:11434/v1"
    while True:
        url = console.ask(f"Its address{kept}:") or before.base_url
        if not url:
            raise UserError("Nothing was changed.")
        if "://" not in url:
            url = f"{'http' if is_local(f'http://{url}') else 'https'}://{url}"
        if _is_address(url):
            break
        console.line("That is no address: it begins with http:// or https://, and names a host.")
    held = {name: key for name, key in before.keys.items() if key != NO_KEY}
    if url != before.base_url and held:
        console.line(f"The key of {before.base_url} will be replaced.")
        held = {}
    unless = "Enter keeps the one it has" if held else "Enter for none"
    key = console.ask(f"Its key, if it has one (it is not shown; {unless}):", secret=True)
    keys = {_CUSTOM_KEY: key or NO_KEY} if key or not held else held
    return replace(before, base_url=url, keys=keys)


def _ask_access(command: CliCommand, before: ModelAnswers) -> ModelAnswers:
    """The address and the key, as far as they are needed."""
    console, provider = command.console, before.provider
    if provider == CUSTOM:
        return _ask_address(console, before)
    spec = find_provider(provider)
    if spec is None:  # one of the settings, with its key
        return ModelAnswers(provider=provider)
    if spec.auth is ProviderAuth.OAUTH_DEVICE_CODE and not spec.keys:
        raise UserError(
            f"{spec.title} wants a login.", hint=f"hermes auth login {provider}; then: hermes setup"
        )
    if not asyncio.run(make_search(command)).state(provider):
        keep = console.ask(f"{spec.title} has a key already. Enter keeps it, or type “new”:").lower()
        if keep != "new":
            return ModelAnswers(provider=provider)
    where = f" (get one at {_KEY_PAGES[provider]})" if provider in _KEY_PAGES else ""
    while True:
        key = console.ask(f"The key of {spec.title}{where}; it is not shown:", secret=True)
        if not key:
            raise UserError("Nothing was changed.")
        if not looks_like_placeholder(key):
            return ModelAnswers(provider=provider, keys={spec.keys[0]: key})
        console.line("That is a placeholder; enter the real key.")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


# --- from a script -----------------------------------------------------------------------------------


def set_model(command: CliCommand) -> str:
    """From options and the environment; tried, then written. Returns what is said of it."""
    asked = command.asked
    provider = (asked.provider or "").strip().lower()
    if provider == DEMO:
        ModelAnswers(provider=DEMO).write(command.home)
        return "The demo model answers."
    spec = find_provider(provider) if provider else None
    if asked.base_url and spec is None:
        spec = PROVIDERS[CUSTOM]
    elif spec is None:
        asyncio.run(make_search(command)).provider(provider)  # says what there is
    provider = spec.id if spec is not None else provider
    keys = {} if spec is None else _given_key(command, spec, asked.base_url or "")
    answers = ModelAnswers(
        provider=provider, model=asked.model or "", base_url=asked.base_url or "", keys=keys
    )
    search = search_with(command, answers)
    assert search.own is not None
    if search.own.way is ModelAccess.NONE:
        names = spec.keys if spec is not None and provider != CUSTOM else ()
        hint = f"export {names[0]}=…, then try again." if names and not keys else search.own.hint
        raise UserError(f"No model answers so: {search.own.why}. Nothing was changed.", hint=hint)
    answers = replace(answers, model=answers.model or search.own.model)
    told = "It was not tried." if asked.no_check else try_model(search_with(command, answers))
    answers.write(command.home)
    return told


def _given_key(command: CliCommand, spec: ProviderSpec, base_url: str) -> dict[str, str]:
    """The key in the environment, under the name that it is kept by. An address of one's own gets that of
    OpenAI last, as both are given together; it never gets a key that is kept for another address."""
    given = {name: key for name in spec.keys if (key := command.environ.get(name))}
    own = spec.keys[0] if spec.keys else ""
    if own in given or not (spec.id == CUSTOM or spec.is_local):
        return dict([*given.items()][:1])
    if not base_url:
        return {}
    loaded = load_settings(command.home, {})
    kept, before = loaded.variable(own), loaded.settings.model.base_url
    if kept and (not before or before.split("/")[:3] == base_url.split("/")[:3]):
        return {}
    if kept not in ("", NO_KEY) and not given:
        hint = f"export {own}=…, or {own}={NO_KEY} if it needs none; then try again."
        raise UserError(f"{own} is the key of {shown_url(before)}. Nothing was changed.", hint=hint)
    return {own: next(iter(given.values()))} if given else {}
