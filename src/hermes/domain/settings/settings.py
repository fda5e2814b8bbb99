"""The settings everybody reads, typed and with their defaults. The loader is in `state/settings`.

Every field is one key of `config.yaml`. `hermes config check` and the reference page are made from these
classes, so a key that is not here is unknown."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from hermes.domain.chats.address import LOCAL_DOOR, SINGLE, Address, Source
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.agents import NO_NETWORK_WORD as NO_NETWORK_WORD
from hermes.domain.settings.agents import OPEN_NETWORK_WORD as OPEN_NETWORK_WORD
from hermes.domain.settings.agents import SUBAGENT, AgentApprovals
from hermes.domain.settings.agents import UNREADABLE as UNREADABLE
from hermes.domain.settings.agents import HostedAgent as HostedAgent
from hermes.domain.settings.agents import Route as Route
from hermes.domain.settings.agents import RouteMatch as RouteMatch
from hermes.domain.settings.backup import BackupSettings
from hermes.domain.settings.browser import BrowserSettings
from hermes.domain.settings.budgets import Budget
from hermes.domain.settings.checkpoints import CheckpointSettings
from hermes.domain.settings.compression import CompressionSettings
from hermes.domain.settings.declaring import EVERY_ONE, NONE_LISTED, Names, Secret, Section, setting
from hermes.domain.settings.delegation import DelegationSettings
from hermes.domain.settings.egress import BrokeredSecret, WebsiteBlocklist
from hermes.domain.settings.fallback import FallbackEntry, PoolSettings
from hermes.domain.settings.manner import (
    EFFORTS,
    PROGRESS,
    HumanDelay,
    Personality,
    PlatformDisplay,
    PlatformHint,
    ReasoningOverride,
    RuntimeFooter,
)
from hermes.domain.settings.mcp import McpServer
from hermes.domain.settings.media import ImageGenSettings, SttSettings, TtsSettings, VoiceSettings
from hermes.domain.settings.memory import MemorySettings
from hermes.domain.settings.memory_providers import HindsightSettings, HonchoSettings
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.prompt_caching import PromptCaching
from hermes.domain.settings.providers import (
    NO_ENDPOINT_OPTIONS,
    EndpointOptions,
    ProviderRouting,
    ProviderSettings,
)
from hermes.domain.settings.skills import SkillSettings
from hermes.domain.settings.tool_limits import CodeExecution, LoopGuard
from hermes.domain.settings.tool_loading import ToolLoading
from hermes.domain.settings.web import WebSettings
from hermes.domain.turns.turn import BusyMode
from hermes.domain.word import replace

LOCAL_WINDOW = 16_384
"""What a model from a file reads, if nobody says."""
AUTO = "auto"
"""The setting of a backend that leaves the choice to what works on this machine."""
RESERVED_NAMES = frozenset({"default", "hermes", "root", "sudo", "test", "tmp"})
NAME_RULE = (
    "small letters, digits, “-” and “_”, at most 64, beginning with a letter or a digit, and not a reserved "
    f"name ({', '.join(sorted(RESERVED_NAMES))})"
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def is_name(text: str) -> bool:
    """Whether an agent or a profile may be called so."""
    return _NAME.fullmatch(text) is not None and text not in RESERVED_NAMES


class ModelSettings(Section, frozen=True, kw_only=True):
    """Which model answers. `model: some/name` is short for `model: {default: some/name}`."""

    default: str = setting("", "The model's name.", env="HERMES_MODEL HERMES_INFERENCE_MODEL")
    provider: str = setting(
        "auto",
        "Who serves it; `auto` follows the keys and the address that are set.",
        env="HERMES_INFERENCE_PROVIDER",
    )
    base_url: str = setting("", "Address of an OpenAI-compatible API.", env="OPENAI_BASE_URL", form="url")
    api_key: Secret = setting(
        Secret(""),
        "The key for it; a named provider reads `<PROVIDER>_API_KEY` instead.",
        env="OPENAI_API_KEY OPENROUTER_API_KEY",
    )
    api_mode: str = setting(
        "",
        "The wire format of that API: `chat_completions`, `codex_responses` (or `responses`), "
        "`anthropic_messages`; empty = the provider's own.",
    )
    context_length: int | None = setting(
        None, "Tokens that the model reads and writes together; empty = what is known of it.", least=1
    )
    max_tokens: int | None = setting(
        None, "Tokens it may write per call; the provider's own limit if empty.", least=1
    )
    path: str = setting("", "With the provider `local`: the GGUF file of the model.")
    options: EndpointOptions = NO_ENDPOINT_OPTIONS
    """What `providers` and `provider_routing` say of the endpoint; no setting of its own."""


class ModelFactSettings(Section, frozen=True, kw_only=True):
    """What you know of a model; it counts before what Hermes knows. Prices are dollars per million tokens."""

    context_length: int | None = setting(None, "Tokens it reads and writes together.", least=1)
    max_output: int | None = setting(None, "Tokens it writes at most.", least=1)
    images: bool | None = setting(None, "Whether it takes pictures.")
    tools: bool | None = setting(None, "Whether it can call tools.")
    thinking: bool | None = setting(None, "Whether it thinks before it answers.")
    price_in: float | None = setting(None, "What it costs to read.", least=0)
    price_out: float | None = setting(None, "What it costs to write.", least=0)
    price_cache_read: float | None = setting(None, "What it costs to read what is cached.", least=0)
    price_cache_write: float | None = setting(None, "What it costs to cache.", least=0)
    long_after: int | None = setting(None, "Longer prompts have prices of their own.", least=1)
    price_long_in: float | None = setting(None, "What such a prompt costs to read.", least=0)
    price_long_out: float | None = setting(None, "What its answer costs to write.", least=0)
    cache_floor: int | None = setting(None, "Tokens below which nothing is cached.", least=0)


class AuxiliaryModel(Section, frozen=True, kw_only=True):
    """The model of a role beside the main one; what is empty is as for the main model."""

    enabled: bool = setting(True, "False: titles, or descriptions of pictures, are not made at all.")
    model: str = setting("", "Its name.")
    provider: str = setting("", "Who serves it.")
    base_url: str = setting("", "Address of an OpenAI-compatible API.", form="url")
    api_key: Secret = setting(Secret(""), "The key for it; a named provider reads `<PROVIDER>_API_KEY`.")
    timeout: float | None = setting(None, "Seconds that an answer may take.", least=1)
    extra_body: str = setting("", "Fields that are added to its requests.", form="json")
    reasoning_effort: str = setting("", "How hard it thinks; empty = as it likes.", choices=EFFORTS)


class AgentSettings(Section, frozen=True, kw_only=True):
    """How the agent works."""

    max_turns: int = setting(
        60, "Model calls in one turn before it must answer.", env="HERMES_MAX_ITERATIONS", least=1
    )
    api_max_retries: int = setting(3, "How often a failed model call is tried again.", least=0)
    clarify_timeout: float = setting(3600.0, "Seconds a question to the person stays open.", least=0)
    client_tool_timeout: float = setting(
        600.0, "Seconds an API client has to give the result of a function of its own.", least=0
    )
    gateway_timeout: float = setting(
        1800.0,
        "Seconds without any sign of life after which a tool is ended, or a turn whose model is silent is "
        "given up; 0 = never.",
        least=0,
    )
    restart_drain_timeout: float = setting(
        10.0,
        "Seconds that running turns get at a stop or a restart to come to rest; what is unfinished goes "
        "on after the next start.",
        env="HERMES_RESTART_DRAIN_TIMEOUT",
        least=0,
        most=3600,
    )
    disabled_toolsets: Names = setting((), "Toolsets that no agent has; `*` = every one.", instead=EVERY_ONE)
    system_prompt: str = setting("", "Text added to the system prompt.")
    ephemeral_system_prompt: str = setting(
        "",
        "Told to the model behind the system prompt with each request, and stored nowhere.",
        env="HERMES_EPHEMERAL_SYSTEM_PROMPT",
    )
    reasoning_effort: str = setting(
        "",
        "How hard models think; empty = as they like. `/reasoning` decides for one session.",
        choices=EFFORTS,
    )
    reasoning_overrides: dict[str, ReasoningOverride] = setting(
        {}, "The same for single models: `{model: level}`."
    )
    context_files: bool = setting(
        True, "Tell the model what files of the project say: HERMES.md, AGENTS.md, CLAUDE.md, .cursorrules."
    )
    image_input_mode: str = setting(
        "auto",
        "Images of chats: shown to the model (`auto`, `native`), or only named to it (`text`, for one "
        "that cannot see).",
        choices=("auto", "native", "text"),
    )


class TerminalSettings(Section, frozen=True, kw_only=True):
    """Where the commands of agents run."""

    backend: str = setting(
        AUTO,
        "`auto` = this machine for the owner's own terminal, and for everything else the strongest sandbox "
        "that works here; `local` = this machine without a sandbox, for owner and admins; or a sandbox by "
        "its name. A route may name one of its own.",
        env="TERMINAL_ENV",
        instead=UNREADABLE,
    )
    network: Names = setting(
        (),
        "What commands of owner and admins may reach: `open`, `none` or a list of hosts (`*.example.org` for "
        "all below); not set = `open`. Strangers reach nothing unless a route says so.",
        env="TERMINAL_NETWORK",
        instead=(NO_NETWORK_WORD,),
        empty_denies=True,
    )
    timeout: float = setting(
        180.0,
        "Seconds a command may take if the agent names no other limit; it may name up to 600.",
        env="TERMINAL_TIMEOUT",
        least=1,
        most=600,
    )
    env_passthrough: Names = setting(
        (), "Variables of the gateway that commands see too; never one with a credential."
    )
    lifetime_seconds: float = setting(
        300.0,
        "Seconds without a use after which an idle backend is let go.",
        env="TERMINAL_LIFETIME_SECONDS",
        least=0,
    )
    docker_image: str = setting(
        "nikolaik/python-nodejs:python3.11-nodejs20",
        "The image of containers. It must be on this machine: nothing is fetched unasked.",
        env="TERMINAL_*",
    )
    docker_binary: str = setting(
        "auto",
        "The program that runs containers, by name or path; `auto` = docker, or podman where docker does not "
        "answer.",
        env="TERMINAL_*",
    )
    docker_runtime: str = setting(
        "", "The OCI runtime of containers, like `runsc` for gVisor; empty = the usual one.", env="TERMINAL_*"
    )
    docker_network: bool = setting(
        True, "Whether a container may have any network at all.", env="TERMINAL_*", instead=False
    )
    docker_volumes: Names = setting(
        (),
        "Further folders in containers, as `host:container[:ro]`; none that holds a home of Hermes or the "
        "socket of a container engine.",
        env="TERMINAL_*",
    )
    docker_mount_cwd_to_workspace: bool = setting(
        False,
        "Bind the folder that a session works in as `/workspace`; else containers have one of their own, in "
        "the home's `sandboxes/`.",
        env="TERMINAL_*",
    )
    docker_env: Names = setting(
        (), "Variables of commands in containers, as `NAME=value` or `{NAME: value}`."
    )
    docker_forward_env: Names = setting(
        (), "Variables of the gateway that commands in containers see too.", env="TERMINAL_*"
    )
    docker_extra_args: Names = setting(
        (),
        "Further options of `docker run`. With one that may open the container, it counts as a weak sandbox.",
        env="TERMINAL_*",
    )
    docker_run_as_host_user: bool = setting(
        False,
        "Run commands in containers as the user of the gateway also if that is root, not as the owner of "
        "their folder.",
        env="TERMINAL_*",
    )
    container_cpu: float = setting(
        1.0, "Processors that a container may use; 0 = all.", env="TERMINAL_*", least=0
    )
    container_memory: int = setting(
        5120, "Megabytes of memory that a container may use; 0 = all.", env="TERMINAL_*", least=0
    )
    container_disk: int = setting(
        51200, "Megabytes that a file in a container may have; 0 = no limit.", env="TERMINAL_*", least=0
    )
    container_persistent: bool = setting(
        True,
        "Keep a container and its folders for the next time; else both go with the last use.",
        env="TERMINAL_*",
    )
    singularity_image: str = setting(
        "",
        "The image of the backends `singularity` and `apptainer`: a `.sif` file or a sandbox folder on this "
        "machine. Nothing is fetched unasked.",
        env="TERMINAL_*",
    )
    daytona_image: str = setting(
        "",
        "The image of sandboxes of Daytona; empty = the usual one of that service.",
        env="TERMINAL_*",
    )
    modal_image: str = setting(
        "nikolaik/python-nodejs:python3.11-nodejs20",
        "The image of sandboxes of Modal: its name in a registry, or the id of one there (`im-…`).",
        env="TERMINAL_*",
    )
    ssh_host: str = setting("", "The machine on which the backend `ssh` runs commands.", env="TERMINAL_*")
    ssh_user: str = setting("", "The user there; empty = as ssh itself decides.", env="TERMINAL_*")
    ssh_port: int = setting(22, "The port of its ssh server.", env="TERMINAL_*", least=1, most=65535)
    ssh_key: str = setting(
        "", "The file with the private key; empty = the keys that ssh finds by itself.", env="TERMINAL_*"
    )


class ApprovalSettings(Section, frozen=True, kw_only=True):
    """Who decides about dangerous actions, and for how long it may take."""

    mode: str = setting(
        "manual",
        "Who decides: a person, a model first, or nobody (everything is allowed).",
        choices=("manual", "smart", "off"),
    )
    deny: Names = setting(
        (), "Commands that are never run, with `*` and `?` for anything, like `git push*`.", instead=EVERY_ONE
    )
    ask: Names = setting(
        (),
        "Commands that are asked for each time, whatever was allowed before: `/yolo` and `off` too.",
        instead=EVERY_ONE,
    )
    ask_always: bool = setting(
        False,
        "Whether every command is asked for each time, like those of `approvals.ask`.",
        env="HERMES_EXEC_ASK",
        instead=True,
    )
    allow_folders: Names = setting(
        (), "Folders besides the workspace in which deleting and writing is not asked for; full paths."
    )
    timeout: float = setting(3600.0, "Seconds a request for approval stays open.", least=0)
    yolo_command: bool = setting(
        True,
        "Whether there is `/yolo`. If not, it does not count in sessions either where it was used before.",
        instead=False,
    )
    destructive_slash_confirm: bool = setting(
        False, "Ask before `/new` and `/undo` leave something behind.", instead=True
    )
    cron_mode: str = setting(
        "deny", "What a job gets that would have to ask, with nobody there.", choices=("deny", "approve")
    )
    link_hosts: Names = setting(
        (),
        "Sites, with all below them, to which answers may link in full even after words from outside were "
        "read; any other that the person did not name is cut if its address could carry data away.",
    )


class CronSettings(Section, frozen=True, kw_only=True):
    """How jobs run and what people get of them."""

    wrap_response: bool = setting(True, "Tell above and below an answer which job it is from.")
    mirror_delivery: bool = setting(
        False,
        "Note what a job sends to the chat it was made in also in that chat's session, so that an answer "
        "to it is understood; `attach_to_session` does it for one job.",
    )
    output_retention: int = setting(50, "How many outputs of a job are kept as files.", least=1)
    max_parallel_jobs: int = setting(
        0, "Runs at the same time; 0 = as many as are due.", env="HERMES_CRON_MAX_PARALLEL", least=0
    )
    timeout: float = setting(
        600.0,
        "Seconds without a step after which a run is stopped; 0 = never.",
        env="HERMES_CRON_TIMEOUT",
        least=0,
    )
    quiet_hours: str = setting(
        "",
        "Like `22:00-07:00` in your `timezone`: jobs that repeat do not run then, and catch up afterwards as "
        "each is told to.",
        form="hours",
        instead="0:00-23:59",
    )
    script_timeout: float = setting(
        3600.0, "Seconds a job's script may take.", env="HERMES_CRON_SCRIPT_TIMEOUT", least=1
    )


CHAT_SKINS = (
    "default", "mono", "slate", "daylight", "warm-lightmode", "ares", "poseidon", "sisyphus", "charizard",
)  # fmt: skip
EDITING_MODES = ("emacs", "vi")


class DisplaySettings(Section, frozen=True, kw_only=True):
    """What people see while the agent works."""

    busy_input_mode: BusyMode = setting(
        BusyMode.INTERRUPT, "What a message does while the agent works.", env="HERMES_GATEWAY_BUSY_INPUT_MODE"
    )
    tool_progress: str = setting(
        "all",
        "What is shown of tools at work: nothing, each change of tool, each call, or each call with its "
        "arguments. A terminal shows each call, or nothing.",
        choices=PROGRESS,
    )
    tool_preview_length: int = setting(
        0,
        "Characters of a call's arguments that a chat shows; 0 = 48, or 200 if `verbose`.",
        least=0,
        most=1000,
    )
    interim_assistant_messages: bool = setting(
        True, "Show in chats, while the agent works, what it says between its calls."
    )
    show_reasoning: bool = setting(False, "Show what the model thinks before it answers.")
    reasoning_full: bool = setting(False, "Show all of it in chats, not only the last 15 lines.")
    streaming: bool | None = setting(
        None, "Show answers while they are written; empty = as `streaming.enabled` says."
    )
    personality: str = setting("", "How agents speak unless a session chose otherwise with `/personality`.")
    skin: str = setting("default", "The colours of the chat in a terminal.", choices=CHAT_SKINS)
    calm: bool = setting(False, "Let nothing move in the terminal while the agent works.")
    inline_diffs: bool = setting(True, "Show in the terminal what changed in a file.")
    final_response_markdown: str = setting(
        "render",
        "Answers in a terminal: drawn, drawn without colours, or as the model wrote them.",
        choices=("render", "strip", "raw"),
    )
    bell_on_complete: bool = setting(
        False, "Ring the terminal's bell when an answer is complete or something is asked."
    )
    show_cost: bool = setting(True, "Show what a session cost, where the price is known, below the input.")
    timestamps: bool = setting(False, "Show in the terminal when you said something.")
    editing_mode: str = setting("emacs", "The keys that edit a line in the terminal.", choices=EDITING_MODES)
    enter_key: str = setting(
        "send",
        "What Enter does in the terminal; Alt+Enter does the other.",
        choices=("send", "newline"),
    )
    runtime_footer: RuntimeFooter = setting(RuntimeFooter(), "A line under each answer in a chat.")
    platforms: dict[str, PlatformDisplay] = setting({}, "What differs on a platform or account, by its name.")


class StreamingSettings(Section, frozen=True, kw_only=True):
    """How an answer grows in a chat that can edit messages."""

    enabled: bool = setting(True, "Show the answer while it is being written.")
    transport: str = setting(
        "edit",
        "How: `edit` lets a message grow; `draft` and `auto` show a preview of the platform's own where "
        "it has one (private chats of Telegram) and else edit; `off` shows nothing. Also `mode`.",
        choices=("auto", "edit", "draft", "off"),
    )
    edit_interval: float = setting(0.8, "Least seconds between two edits.", least=0)
    buffer_threshold: int = setting(24, "Least new characters for an edit.", least=1)
    cursor: str = setting(" ▉", "Shown at the end of an unfinished answer.")


class GatewaySettings(Section, frozen=True, kw_only=True):
    """The gateway's own limits."""

    gather_seconds: float = setting(
        1.0, "How long the pieces of one message are waited for.", least=0, most=60
    )
    max_running: int = setting(512, "Turns that run at the same time.", least=1)
    max_message_chars: int = setting(1_000_000, "The longest message that is taken.", least=1)
    outbox_hours: float = setting(24.0, "How long an undeliverable answer is tried again.", least=0)
    dedupe_days: int = setting(30, "How long a delivery is remembered, so that it counts once.", least=1)
    media_delivery_allow_dirs: Names = setting(
        (),
        "Folders besides the agent's workspace that files may be sent from.",
        env="HERMES_MEDIA_ALLOW_DIRS",
    )
    max_inbound_media_bytes: int = setting(
        134_217_728, "The largest file that is taken from a message.", least=0
    )
    message_timestamps: bool = setting(
        True, "Tell the model when a message of a chat was written, in the zone of `timezone`."
    )
    stuck_seconds: float = setting(
        60.0,
        "Seconds without any turn of the event loop after which the process ends, to be started again; "
        "0 = never.",
        least=0,
    )
    cache_mb: int = setting(32, "Memory for warm sessions.", least=1)
    watch_config: bool = setting(
        False,
        "Adopt changes of config.yaml and .env once they are saved, as `hermes config apply` does.",
    )
    reserve_mb: int = setting(
        32,
        "Disk space kept aside for running turns when the disk is full; 0 for none.",
        env="HERMES_RESERVE_MB",
        least=0,
    )


SCRIPT_DOOR = "script"
"""Where a Python program of the owner's speaks from."""
DOORS = ("cli", LOCAL_DOOR, "api_server", "webhook", "cron", SCRIPT_DOOR)
"""What is no platform and may have toolsets of its own, as `platform_toolsets` names it."""


class PlatformToolsets(Section, frozen=True, kw_only=True):
    """The toolsets of one platform."""

    toolsets: Names = setting(
        (),
        "The only toolsets for what comes from there; written and empty = none.",
        instead=("none",),
        empty_denies=True,
    )


class LoggingSettings(Section, frozen=True, kw_only=True):
    """What is written to the log."""

    level: str = setting(
        "INFO", "The least important line that is kept.", choices=("DEBUG", "INFO", "WARNING", "ERROR")
    )


class SessionSettings(Section, frozen=True, kw_only=True):
    """What is kept of sessions, and for how long."""

    write_json: bool = setting(
        True, "Keep each session as `sessions/<id>.jsonl`, one message in OpenAI format a line."
    )
    auto_prune: bool = setting(False, "Delete conversations by themselves that nobody used for long.")
    retention_days: int = setting(90, "After so many days without use.", least=1, most=36_500)


class ResetMode(StrEnum):
    """When a chat's session is over by itself."""

    NONE = "none"
    IDLE = "idle"
    DAILY = "daily"
    BOTH = "both"


class ResetSettings(Section, frozen=True, kw_only=True):
    """When the next message of a chat begins a new session by itself."""

    mode: ResetMode = setting(
        ResetMode.NONE, "Never, after a pause, once a day, or whichever of the two comes first."
    )
    idle_minutes: int = setting(1440, "The pause.", least=1)
    at_hour: int = setting(4, "The hour of the day, in the time zone of the settings.", least=0, most=23)
    notify: bool = setting(True, "Tell the person that a new session began.")
    notify_exclude_platforms: Names = setting(("api_server", "webhook"), "Platforms where nobody is told.")
    bg_process_max_age_hours: float = setting(
        24.0, "A session with a running background process goes on, up to this age of it.", least=0
    )


class QuickCommand(Section, frozen=True, kw_only=True):
    """A slash command of your own: another command under a new name, or a shell command that is run where the
    agent runs its own, with the same approvals."""

    type: str = setting("", "What it is: a shell command or another name.", choices=("exec", "alias"))
    command: str = setting("", "For `exec`: the shell command; it has 30 seconds.")
    target: str = setting("", "For `alias`: the slash command, with its arguments.")


class SecuritySettings(Section, frozen=True, kw_only=True):
    """What agents may reach, and what is kept from people and models."""

    allow_private_urls: bool = setting(
        False, "Let addresses from outside lead into private networks, too; metadata of clouds never."
    )
    private_hosts: Names = setting(
        (), "Hosts in private networks that may be reached: `nas.lan`, `10.0.0.5:8080`, `192.168.1.0/24`."
    )
    allowed_hosts: Names = setting(
        (),
        "The only hosts that may be reached; not set = all of the open network.",
        instead=NONE_LISTED,
        empty_denies=True,
    )
    egress_proxy: str = setting(
        "", "A proxy to the open network: `http://127.0.0.1:3128` or `socks5://127.0.0.1:1080`."
    )
    website_blocklist: WebsiteBlocklist = setting(WebsiteBlocklist(), "Sites that agents do not reach.")
    broker: dict[str, BrokeredSecret] = setting({}, "Secrets that agents use without having them, by name.")
    redact_secrets: bool = setting(
        True,
        "Show `‹secret›` for what looks like a credential; those Hermes has loaded are never shown anyway.",
        instead=True,
    )


class PluginOptions(Section, frozen=True, kw_only=True):
    """What one plugin is told, in words that only it knows; values of keys like `api_key` are secrets."""

    values: dict[str, Any] = field(default_factory=dict)


class PluginSettings(Section, frozen=True, kw_only=True):
    """Which of the installed plugins are used. One is named by its package, or an entry of it like
    `tools:weather`."""

    enabled: Names = setting(
        (),
        "The only plugins that are used; not set = every one, written and empty = none.",
        instead=NONE_LISTED,
        empty_denies=True,
    )
    disabled: Names = setting((), "Plugins that are not used; `*` = none is.", instead=EVERY_ONE)
    entries: dict[str, PluginOptions] = setting(
        {}, "What a plugin is told, by the name of its entry (`weather: {city: Berlin}`); it knows the keys."
    )

    def allows(self, *names: str) -> bool:
        """Whether a plugin with these names is used."""
        if not {*names, "*"}.isdisjoint(self.disabled):
            return False
        return not self.enabled or not {*names, "*"}.isdisjoint(self.enabled)


class Settings(Section, frozen=True, kw_only=True):
    """Everything that was said in `config.yaml`, `.env` and the environment."""

    model: ModelSettings = field(default_factory=ModelSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    terminal: TerminalSettings = field(default_factory=TerminalSettings)
    approvals: ApprovalSettings = field(default_factory=ApprovalSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    cron: CronSettings = field(default_factory=CronSettings)
    tools: ToolLoading = field(default_factory=ToolLoading)
    code_execution: CodeExecution = field(default_factory=CodeExecution)
    tool_loop_guardrails: LoopGuard = field(default_factory=LoopGuard)
    delegation: DelegationSettings = field(default_factory=DelegationSettings)
    display: DisplaySettings = field(default_factory=DisplaySettings)
    streaming: StreamingSettings = field(default_factory=StreamingSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    hindsight: HindsightSettings = field(default_factory=HindsightSettings)
    honcho: HonchoSettings = field(default_factory=HonchoSettings)
    skills: SkillSettings = field(default_factory=SkillSettings)
    web: WebSettings = field(default_factory=WebSettings)
    stt: SttSettings = field(default_factory=SttSettings)
    tts: TtsSettings = field(default_factory=TtsSettings)
    voice: VoiceSettings = field(default_factory=VoiceSettings)
    image_gen: ImageGenSettings = field(default_factory=ImageGenSettings)
    compression: CompressionSettings = field(default_factory=CompressionSettings)
    checkpoints: CheckpointSettings = field(default_factory=CheckpointSettings)
    backup: BackupSettings = field(default_factory=BackupSettings)
    plugins: PluginSettings = field(default_factory=PluginSettings)
    session_reset: ResetSettings = field(default_factory=ResetSettings)
    reset_by_type: dict[str, ResetSettings] = setting(
        {}, "The same for one sort of place (`private`, `group` …)."
    )
    reset_by_platform: dict[str, ResetSettings] = setting(
        {}, "The same for one platform or account; it beats the sort of place."
    )
    quick_commands: dict[str, QuickCommand] = setting({}, "Slash commands of your own, by name.")
    group_sessions_per_user: bool = setting(True, "In groups each member has a session of their own.")
    thread_sessions_per_user: bool = setting(False, "In threads each member has a session of their own.")
    toolsets: Names = setting(
        (),
        "The only toolsets that agents have; not set, `all` or `hermes-cli` = every one, "
        "written and empty = none.",
        instead=("none",),
        empty_denies=True,
    )
    platform_toolsets: dict[str, PlatformToolsets] = setting(
        {},
        "The only toolsets of agents on a platform, an account (`telegram@work`), or `cli`, `cron`, "
        "`api_server`, `webhook`: `{telegram: [file, todo]}`.",
    )
    command_allowlist: Names = setting(
        (),
        "Beginnings of commands that nobody is asked about, like `npm run *`. They cover one plain command, "
        "without pipes, redirections or variables; never what is denied, always asked for or of Hermes.",
    )
    human_delay: HumanDelay = field(default_factory=HumanDelay)
    personalities: dict[str, Personality] = setting({}, "Further personalities, by name; also other texts.")
    platform_hints: dict[str, PlatformHint] = setting({}, "What the model is told about platforms, by name.")
    prefill_messages_file: str = setting(
        "",
        "A JSON file, a list of `{role, content}`, that is told to the model before each conversation and "
        "stored nowhere; relative = from the home.",
        env="HERMES_PREFILL_MESSAGES_FILE",
    )
    context_file_max_chars: int | None = setting(
        None,
        "Characters of one file of the project; empty = by the model's window, at least 20,000.",
        least=1,
    )
    timezone: str = setting(
        "", "Like `Europe/Berlin`; empty = the machine's.", env="HERMES_TIMEZONE", form="timezone"
    )
    default_agent: AgentId = setting(MAIN_AGENT, "The agent for whatever names none and no route matches.")
    models: dict[str, ModelFactSettings] = setting({}, "What you know of models, by their names.")
    providers: dict[str, ProviderSettings] = setting(
        {}, "Endpoints of your own, by name, and what is different at providers that Hermes knows."
    )
    provider_routing: ProviderRouting = field(default_factory=ProviderRouting)
    prompt_caching: PromptCaching = field(default_factory=PromptCaching)
    auxiliary: dict[str, AuxiliaryModel] = setting(
        {},
        "Models for other work than answering, by what they do: `title_generation`, `compression`, `vision`, "
        "`approval`.",
    )
    budgets: dict[str, Budget] = setting(
        {}, "How much may be spent, by names of your own: `{family: {person: '*', per: day, dollars: 2}}`."
    )
    fallback_providers: tuple[FallbackEntry, ...] = setting(
        (), "Models that answer when the agent's own cannot, in this order."
    )
    credential_pool_strategies: dict[str, PoolSettings] = setting(
        {},
        "How one of several credentials is chosen, by provider: `{openrouter: round_robin}`. There are "
        "`fill_first`, `round_robin`, `random` and `least_used`.",
    )
    mcp_servers: dict[str, McpServer] = setting({}, "MCP servers whose tools agents use, by name.")
    agents: dict[str, HostedAgent] = setting({}, "The agents this gateway hosts beside `main`, by id.")
    routes: tuple[Route, ...] = setting(
        (), "Which chats, API clients, webhooks and jobs go to which agent; the first match counts."
    )
    platforms: dict[str, PlatformSettings] = setting(
        {}, "What is said about each platform, by its name; further accounts are `name@account`."
    )
    allowed_users: Names = setting(
        (), "Who may write on every platform; `*` = everybody.", env="GATEWAY_ALLOWED_USERS"
    )
    allow_all_users: bool = setting(
        False, "Everybody may write on every platform.", env="GATEWAY_ALLOW_ALL_USERS"
    )
    unauthorized_dm_behavior: str = setting(
        "pair",
        "What a stranger in a private chat gets: a pairing code (unless there is a list of who may "
        "write), or nothing.",
        choices=("pair", "ignore"),
        instead="ignore",
    )

    def route_for(self, source: Source | None) -> Route | None:
        """The first route that fits a source."""
        return next((route for route in self.routes if source and route.match.fits(source)), None)

    def of(self, agent: AgentId) -> Settings:
        """As they count for one agent. Its own lists of commands add to those of all."""
        hosted = self.agents.get(agent)
        if hosted is None:
            return self
        given, backend = hosted.approvals, hosted.backend or self.terminal.backend
        budget = hosted.budget.of(agent)
        return replace(
            self,
            terminal=replace(self.terminal, backend=backend),
            approvals=self.approvals if given == AgentApprovals() else _approvals(self.approvals, given),
            timezone=hosted.timezone or self.timezone,
            budgets=self.budgets if budget is None else {**self.budgets, f"agents.{agent}": budget},
        )

    def speaks(self, agent: AgentId) -> bool:
        """Whether people reach it, or only agents that delegate to it."""
        hosted = self.agents.get(agent)
        return hosted is None or hosted.mode != SUBAGENT

    def helpers_of(self, agent: AgentId) -> dict[str, str]:
        """The agents that take tasks of this one, and what they are for: none that asks nobody, unless this
        one does not either."""
        asks = self.of(agent).approvals.mode != "off"
        others = {name: one for name, one in self.agents.items() if name != agent and one.mode != "primary"}
        return {
            name: one.description
            for name, one in others.items()
            if not asks or self.of(AgentId(name)).approvals.mode != "off"
        }

    def block(self, place: Address) -> PlatformSettings:
        """What was said about the account of a place. Nothing of one account counts for another."""
        name = place.platform if place.platform in SINGLE else place.credential
        return self.platforms.get(name) or PlatformSettings()


def _approvals(shared: ApprovalSettings, given: AgentApprovals) -> ApprovalSettings:
    return replace(
        shared,
        mode=given.mode or shared.mode,
        deny=(*shared.deny, *given.deny),
        ask=(*shared.ask, *given.ask),
        timeout=shared.timeout if given.timeout is None else given.timeout,
        cron_mode=given.cron_mode or shared.cron_mode,
    )


class Profile(Struct, frozen=True, kw_only=True):
    """An agent's identity on this machine: its id, its folder, its settings."""

    agent: AgentId
    home: Path
    settings: Settings
