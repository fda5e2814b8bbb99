"""What a program may tell its `AIAgent`, and the settings that follow from it, over what its folder and this
machine say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypedDict

from hermes.agent.models.choose import with_endpoint
from hermes.app.agents.terminal_settings import check_terminal
from hermes.domain.chats.address import Source
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.agent import Provider
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.fallback import FallbackEntry
from hermes.domain.settings.manner import EFFORTS
from hermes.domain.settings.providers import ProviderRouting
from hermes.domain.settings.settings import HostedAgent, ModelSettings, Settings
from hermes.domain.tools.toolbox import ToolsetLimit
from hermes.domain.word import field_names, is_word, replace
from hermes.state.home.homes import agent_home, find_home
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.model_access import model_at, model_of, provider_model, with_routing

Message = dict[str, Any]
_OF_THE_MACHINE = (
    "terminal", "approvals", "security", "plugins", "toolsets", "platform_toolsets", "command_allowlist",
)  # fmt: skip
"""The limits of this machine, which count for its owner's programs too."""


class ToolProgress(Protocol):
    """Told of each tool: `tool.started`, then `tool.completed` with `duration`, `is_error`, `result`."""

    def __call__(
        self, event: str, name: str, preview: str, args: Mapping[str, Any], **more: Any
    ) -> object: ...


class AgentOptions(TypedDict, total=False):
    """What an `AIAgent` may be told; all of it is optional."""

    model: str
    profile: str | None
    provider: str | Provider
    api_key: str | None
    base_url: str | None
    max_iterations: int | None
    enabled_toolsets: Sequence[str] | None
    disabled_toolsets: Sequence[str] | None
    verbose_logging: bool
    quiet_mode: bool
    session_id: str | None
    folder: str | Path | None
    workspace: str | Path | None
    save_trajectories: bool
    ephemeral_system_prompt: str | None
    prefill_messages: Sequence[Message] | None
    tool_progress_callback: ToolProgress | None
    stream_delta_callback: Callable[[str | None], object] | None
    approval_callback: Callable[[str], str | bool] | None
    clarify_callback: Callable[[str, Sequence[str]], str] | None
    skip_context_files: bool
    load_soul_identity: bool
    skip_memory: bool
    reasoning_config: Mapping[str, Any] | None
    max_tokens: int | None
    fallback_model: Mapping[str, str] | Sequence[Mapping[str, str]] | None
    providers_allowed: Sequence[str] | None
    providers_ignored: Sequence[str] | None
    providers_order: Sequence[str] | None
    provider_sort: str | None


def machine_settings() -> LoadedSettings:
    """What is set on this machine; a `UserError` if its limits cannot be read or cannot hold."""
    loaded = load_settings(find_home(os.environ), os.environ)
    for stop in loaded.stops:
        raise stop
    check_terminal(loaded, os.environ)
    return loaded


def identity_of(loaded: LoadedSettings, options: AgentOptions) -> Path | None:
    """The folder of the agent that is meant; a `UserError` if there is none."""
    profile = options.get("profile")
    if profile is None:
        return None
    return agent_home(find_home(os.environ), AgentId(profile), loaded.settings)


def toolsets_of(loaded: LoadedSettings, options: AgentOptions) -> ToolsetLimit:
    """The program's word counts before that of the agent it is to be like."""
    hosted = loaded.settings.agents.get(options.get("profile") or MAIN_AGENT) or HostedAgent()
    enabled, disabled = options.get("enabled_toolsets"), options.get("disabled_toolsets")
    return ToolsetLimit(
        enabled=tuple(hosted.enabled_toolsets if enabled is None else enabled),
        disabled=tuple(hosted.disabled_toolsets if disabled is None else disabled),
    )


def changed_settings(loaded: LoadedSettings, options: AgentOptions, own: Settings) -> Settings:
    """What the program says, over what its folder says, over what is set on this machine (for the agent
    that it is to be like)."""
    agent_id = AgentId(options.get("profile") or MAIN_AGENT)
    machine = loaded.settings.of(agent_id)
    settings = replace(own, **{name: _filled(own, machine, name) for name in _OF_THE_MACHINE})
    agent = settings.agent
    agent = replace(
        agent,
        max_turns=options.get("max_iterations") or agent.max_turns,
        disabled_toolsets=agent.disabled_toolsets or machine.agent.disabled_toolsets,
        context_files=agent.context_files and not options.get("skip_context_files"),
    )
    effort = _effort(options.get("reasoning_config"))
    if effort:
        agent = replace(agent, reasoning_effort=effort, reasoning_overrides={})
    memory = settings.memory
    if options.get("skip_memory"):
        memory = replace(memory, memory_enabled=False, user_profile_enabled=False)
    terminal = settings.terminal
    if options.get("folder") is None:  # nobody would find the container again
        terminal = replace(terminal, container_persistent=False)
    return replace(
        settings,
        model=_model_settings(loaded, options),
        agent=agent,
        memory=memory,
        terminal=terminal,
        fallback_providers=(*_fallbacks(loaded, options), *settings.fallback_providers),
    )


def _filled(own: Settings, machine: Settings, name: str) -> Any:
    """A setting; in a section, each key that the agent's folder leaves as it is."""
    mine, other, plain = (getattr(each, name) for each in (own, machine, Settings()))
    if not is_word(plain):
        return other if mine == plain else mine
    keys = field_names(plain)
    left = {key: getattr(other, key) for key in keys if getattr(mine, key) == getattr(plain, key)}
    return replace(mine, **left)


def _model_settings(loaded: LoadedSettings, options: AgentOptions) -> ModelSettings:
    agent = AgentId(options.get("profile") or MAIN_AGENT)
    settings, loaded = model_of(agent, loaded), loaded.of(agent)
    provider, name = options.get("provider"), options.get("model") or ""
    if isinstance(provider, str) and provider != settings.provider:
        settings = provider_model(provider, name, loaded)
    elif name:
        settings = model_at(name, settings, loaded)
    settings = with_endpoint(settings, options.get("base_url") or "", options.get("api_key") or "")
    if isinstance(provider, str) and provider and options.get("base_url"):
        settings = replace(settings, provider=provider)
    most = options.get("max_tokens")
    if most is not None:
        if most < 1:
            raise UserError("max_tokens is less than 1.", hint="Leave it out, or give a larger number.")
        settings = replace(settings, max_tokens=most)
    routing = _routing(options)
    return settings if routing == ProviderRouting() else with_routing(settings, routing)


def source_for(source: Source, options: AgentOptions) -> Source:
    """Who asks. Without the files of the project SOUL.md is not told either, unless that is wanted."""
    skips = bool(options.get("skip_context_files")) and not options.get("load_soul_identity")
    return replace(source, ignore_rules=True) if skips else source


def _effort(config: Mapping[str, Any] | None) -> str:
    """`{"enabled": False}`, or `{"effort": level}`; empty if nothing is said."""
    if config is None:
        return ""
    effort = "none" if config.get("enabled") is False else str(config.get("effort") or "")
    if effort not in EFFORTS or config.keys() - {"enabled", "effort"}:
        levels = ", ".join(filter(None, EFFORTS))
        raise UserError("reasoning_config cannot be read.", hint=f'Give {{"effort": …}}, one of {levels}.')
    return effort


def _fallbacks(loaded: LoadedSettings, options: AgentOptions) -> list[FallbackEntry]:
    """Models that answer when the agent's own cannot; keys of named providers are those of this machine."""
    given = options.get("fallback_model") or ()
    entries = []
    for entry in [given] if isinstance(given, Mapping) else given:
        names = {*field_names(FallbackEntry)}
        if not entry.get("model") or entry.keys() - names:
            hint = f"Give a mapping with {', '.join(sorted(names))}."
            raise UserError("fallback_model names no model, or what is not known of one.", hint=hint)
        texts = {name: str(text) for name, text in entry.items() if name != "api_key"}
        made = FallbackEntry(api_key=Secret(entry.get("api_key") or ""), **texts)
        if made.provider and not made.api_key and not made.base_url:
            made = replace(made, api_key=provider_model(made.provider, made.model, loaded).api_key)
        entries.append(made)
    if entries and not isinstance(options.get("provider") or "", str):
        raise UserError("fallback_model needs a model by name.", hint="Leave out `provider`, or name one.")
    return entries


def _routing(options: AgentOptions) -> ProviderRouting:
    routing = ProviderRouting(
        only=tuple(options.get("providers_allowed") or ()),
        ignore=tuple(options.get("providers_ignored") or ()),
        order=tuple(options.get("providers_order") or ()),
        sort=options.get("provider_sort") or "",
    )
    if routing.sort not in ("", "price", "throughput", "latency"):
        raise UserError(f"provider_sort is {routing.sort}.", hint="Give price, throughput or latency.")
    return routing
