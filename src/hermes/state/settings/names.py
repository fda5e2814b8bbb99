"""The names that are not fields: platforms with their variables, and keys of Hermes Agent that are
known here but not used yet, so that nobody's working file is full of "typos".

Accounts in variables: `TELEGRAM_BOT_TOKEN__WORK` says for telegram@work what `TELEGRAM_BOT_TOKEN` says for
telegram. Behind the two underscores stands the account's name in capitals, with `_` for `-`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from msgspec import Struct

from hermes.domain.chats.address import DEFAULT_ACCOUNT, account_problem, read_platform
from hermes.domain.chats.capabilities import Manifest
from hermes.domain.errors import UserError
from hermes.domain.models.providers import PROVIDERS
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.state.settings.values import knobs, sections

ACCOUNT_MARK = "__"
"""Stands before an account's name in a variable."""
OF_THE_MACHINE = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
"""Variables that count for every account, in small letters or capitals."""
_PLATFORMS = """telegram discord slack whatsapp whatsapp_cloud signal matrix mattermost email sms dingtalk
    feishu wecom wecom_callback weixin qqbot yuanbao bluebubbles photon google_chat teams line
    irc simplex ntfy homeassistant raft relay api_server webhook msgraph_webhook github"""
PLATFORMS = frozenset(_PLATFORMS.split())


class PlatformNames(Struct, frozen=True, kw_only=True):
    """The platforms that may have a block, and the variables that single ones have for themselves."""

    names: frozenset[str] = PLATFORMS
    variables: tuple[str, ...] = ()

    @classmethod
    def of(cls, manifests: Iterable[Manifest]) -> PlatformNames:
        every = tuple(manifests)
        variables = tuple(field.env for manifest in every for field in manifest.settings)
        return cls(names=PLATFORMS | {manifest.name for manifest in every}, variables=variables)


BUILT_IN = PlatformNames()
_PREFIXES = {"qqbot": "QQ", "homeassistant": "HASS", "relay": "GATEWAY_RELAY"}
_VENDORS = {"sms": "TWILIO"}
"""What else the variables of a platform begin with: the name of who provides it."""
_HOMES = {
    "matrix": ("MATRIX_HOME_ROOM",),
    "email": ("EMAIL_HOME_ADDRESS",),
    "qqbot": ("QQBOT_HOME_CHANNEL", "QQ_HOME_CHANNEL"),
}
_TOKENS = {
    "telegram": "TELEGRAM_BOT_TOKEN",
    "discord": "DISCORD_BOT_TOKEN",
    "slack": "SLACK_BOT_TOKEN",
    "matrix": "MATRIX_ACCESS_TOKEN",
    "whatsapp_cloud": "WHATSAPP_CLOUD_ACCESS_TOKEN",
    "line": "LINE_CHANNEL_ACCESS_TOKEN",
    "sms": "TWILIO_AUTH_TOKEN",
}
# Keys of a platform block that are no fields, whatever they resemble; adapters find them in `extra`.
_PLATFORM_KEYS = """token api_key extra allowed_hosts reply_to_mode typing_indicator
    typing_status_text channel_overrides channel_prompts channel_skill_bindings
    cron_continuable_surface notice_delivery auto_thread no_thread_channels"""
PLATFORM_KEYS = frozenset(_PLATFORM_KEYS.split())
# Platforms whose “group users” are groups: the list says where it answers, or where everybody may write.
_GROUPS_LISTED = {
    "signal": "allowed_chats",
    "whatsapp": "allowed_chats",
    "weixin": "allowed_chats",
    "wecom": "allowed_chats",
    "yuanbao": "allowed_chats",
    "qqbot": "group_allowed_chats",
}
_LATER_SECTIONS = """terminal security tool_output
    web clarify
    openrouter updates model_catalog network lsp
    curator goals moa kanban secrets dashboard bedrock vertex x_search desktop computer_use onboarding
    privacy hooks"""
VERSION_KEY = "_config_version"
_LATER_ROOT = """file_read_max_chars
    mcp_discovery_timeout hooks_auto_accept
    max_concurrent_sessions reset_triggers session_store_max_age_days
    filter_silence_narration always_log_local"""
_LATER_IN = {
    "agent": """service_tier tool_use_enforcement
        task_completion_guidance parallel_tool_call_guidance environment_probe coding_context
        verify_on_stop max_verify_nudges gateway_timeout_warning
        gateway_notify_interval gateway_auto_continue_freshness""",
    "approvals": "mcp_reload_confirm",
    "display": """compact language friendly_tool_labels resume_display interface
        background_process_notifications ephemeral_system_ttl""",
    "compression": "in_place abort_on_summary_failure hygiene_hard_message_limit",
    "browser": "engine headed record_sessions",
    "cron": "provider",
    "mcp_servers": """keepalive_interval client_cert client_key skip_preflight sampling.model sampling.timeout
        sampling.max_tokens_cap sampling.allowed_models sampling.max_tool_rounds""",
    "memory": "nudge_interval",
    "skills": "creation_nudge_interval guard_agent_created inline_shell inline_shell_timeout",
    "logging": "max_size_mb backup_count",
    "tts": "speed elevenlabs minimax mistral gemini xai neutts kittentts",
    "stt": "groq mistral elevenlabs xai deepinfra",
    "voice": "record_key max_recording_seconds beep_enabled silence_threshold silence_duration",
    "image_gen": "use_gateway",
    "sessions": "vacuum_after_prune min_interval_hours",
    "gateway": """multiplex_profiles profile_routes platform_connect_timeout delivery_ledger
        strict trust_recent_files
        trust_recent_files_seconds restart_loop_guard respawn_storm
        systemd_watchdog_seconds proxy_url proxy_key scale_to_zero write_sessions_json""",
}
AUXILIARY = {
    "title_generation": "title",
    "compression": "summary",
    "vision": "vision",
    "approval": "approval",
}
"""The roles of models as Hermes Agent calls them in settings."""
_LATER_TASKS = """web_extract skills_hub mcp memory_query_rewrite tts_audio_tags goal_judge curator
    background_review monitor profile_describer transient_retries"""
_LATER_IN["auxiliary"] = _LATER_TASKS
# Dotted keys; a section here covers everything below it.
LATER = frozenset(
    [*_LATER_SECTIONS.split(), *_LATER_ROOT.split()]
    + [f"{section}.{name}" for section, names in _LATER_IN.items() for name in names.split()]
    # These too may stand under `gateway:`.
    + [f"gateway.{name}" for name in (*_LATER_ROOT.split(), "stt")]
)

PROVIDER_VARIABLES = sorted(
    {name for spec in PROVIDERS.values() for name in (*spec.keys, spec.url_variable, *spec.places) if name}
)
_OF_SANDBOXES = (
    "DAYTONA_API_KEY",
    "DAYTONA_API_URL",
    "DAYTONA_TARGET",
    "MODAL_TOKEN_ID",
    "MODAL_TOKEN_SECRET",
)
PLATFORM_FIELDS = knobs(PlatformSettings)
_BY_VARIABLE = {
    variable.removeprefix("<P>_").lower(): knob.name
    for knob in PLATFORM_FIELDS.values()
    for variable in knob.about.env
}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_KEYS = """key keys apikey token secret secrets password passwords passwd passphrase pass credential
    credentials"""
_KEY_WORDS = frozenset(_KEYS.split())
_NOT_THE_KEY_ITSELF = frozenset({"file", "path", "dir", "name", "length", "count", "url", "env"})


def is_key_like(name: str) -> bool:
    """Whether what has this name is a credential: it holds KEY, TOKEN, SECRET, PASSWORD or the like. The name
    of an account behind it changes nothing about that."""
    plain, mark, _ = name.partition(ACCOUNT_MARK)
    if mark and is_key_like(plain):
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and words[-1] not in _NOT_THE_KEY_ITSELF and not _KEY_WORDS.isdisjoint(words)


def is_later(dotted: str) -> bool:
    """Whether Hermes Agent has this key and this program does not use it yet."""
    parts = dotted.split(".")
    if parts[0] == "mcp_servers":
        parts[1:2] = []  # the name of a server, for all of which the same is known
    return any(".".join(parts[:count]) in LATER for count in range(1, len(parts) + 1))


def platform_prefix(platform: str) -> str:
    return _PREFIXES.get(platform, platform.upper().replace("-", "_"))


def with_account(variable: str, account: str) -> str:
    """The variable that says the same for an account."""
    if account == DEFAULT_ACCOUNT:
        return variable
    return f"{variable}{ACCOUNT_MARK}{account.upper().replace('-', '_')}"


_OWN_KEYS = {
    "api_server": """host port cors_origins model_name allowed_hosts trusted_proxies max_concurrent_runs
        max_runs_per_client max_body_bytes max_connections body_timeout idle_timeout allow_private_images
        on_disconnect approval_requests key keys model_routes""",
    "webhook": "host port rate_limit max_body_bytes script_timeout_seconds routes targets",
    "github": "api_url",
}
_TREES = frozenset({"routes", "targets", "keys"})
"""Own keys that hold more than one value, so that no variable says them."""
_ENVIRONMENT_ONLY = """HERMES_HOME HERMES_PROFILE HERMES_PYTHON HERMES_VENV HERMES_RUNTIME_DIR
    HERMES_GATEWAY_LOCK_DIR HERMES_GATEWAY_URL HERMES_QUIET NO_COLOR XDG_STATE_HOME XDG_RUNTIME_DIR"""
ENVIRONMENT_ONLY = frozenset(_ENVIRONMENT_ONLY.split())
"""Variables that count before `.env` is read, or for every home of a user."""
_OF_EVERY_PLATFORM = ("typing_indicator", "channel_prompts", "channel_overrides")


def own_keys(platform: str, variables: Iterable[str]) -> list[str]:
    """The keys that the block of a platform may hold beside those of every platform's; none if nothing is
    known of it, because its adapter is not installed. `variables` are those of all manifests."""
    prefix = f"{platform_prefix(platform)}_"
    declared = [name.removeprefix(prefix).lower() for name in variables if name.startswith(prefix)]
    known = [*declared, *_OWN_KEYS.get(platform, "").split()]
    return [*known, *_OF_EVERY_PLATFORM] if known else []


def own_variables() -> list[str]:
    """The variables that no field and no manifest declares."""
    own = [
        f"{platform_prefix(platform)}_{key.upper()}"
        for platform, keys in _OWN_KEYS.items()
        for key in keys.split()
        if key not in _TREES
    ]
    machine = (name.upper() for name in sorted(OF_THE_MACHINE))
    return [*own, *PROVIDER_VARIABLES, *_OF_SANDBOXES, "HERMES_NO_PROBE", *machine]


def known_variables(platforms: PlatformNames = BUILT_IN) -> list[str]:
    """Every variable that something here reads from `.env`."""
    known: list[str] = []
    for section in (Settings, *sections(Settings).values()):
        known += [name for knob in knobs(section).values() for name in knob.about.env]
    for platform in sorted(platforms.names):
        for knob in knobs(PlatformSettings).values():
            known += platform_variables(platform, knob.about.env)
    return [*known, *platforms.variables, *own_variables()]


def platform_variable(name: str, key: str) -> str:
    """The variable that says what `key` says in the block of a platform or of an account."""
    platform, account = read_platform(name)
    own = _TOKENS.get(platform) if key == "token" else None
    return with_account(own or f"{platform_prefix(platform)}_{key.upper()}", account)


def platform_variables(name: str, env: tuple[str, ...]) -> tuple[str, ...]:
    """The variables of a field of a platform's or an account's block, from their pattern `<P>_…`."""
    platform, account = read_platform(name)
    return tuple(with_account(variable, account) for variable in _variables(platform, env))


def _variables(platform: str, env: tuple[str, ...]) -> tuple[str, ...]:
    if env == ("<P>_HOME_CHANNEL",) and platform in _HOMES:
        return _HOMES[platform]
    lists = {"allowed_chats": "<P>_ALLOWED_CHATS", "group_allowed_chats": "<P>_GROUP_ALLOWED_CHATS"}
    meant = _GROUPS_LISTED.get(platform)
    if meant is not None and lists[meant] in env:
        env = (*env, "<P>_GROUP_ALLOWED_USERS")
    elif meant is not None and env == ("<P>_GROUP_ALLOWED_USERS",):
        return ()
    return tuple(name.replace("<P>", platform_prefix(platform)) for name in env)


def field_of(name: str, key: str) -> str:
    """The field that a key of a platform's or an account's block means: its own name, an older one, or one
    that its variables have."""
    if key == "allow_from":
        return "allowed_users"
    if key == "group_allow_from":
        return _GROUPS_LISTED.get(read_platform(name)[0], "group_allowed_users")
    return key if key in PLATFORM_FIELDS else _BY_VARIABLE.get(key, key)


def _is_field(variable: str, platform: str) -> bool:
    """Whether it says what a field of the platform's block says."""
    fields = (platform_variables(platform, knob.about.env) for knob in PLATFORM_FIELDS.values())
    return variable == platform_variable(platform, "token") or any(variable in names for names in fields)


def platform_of(variable: str, platforms: Iterable[str], also: Collection[str] = ()) -> str:
    """The platform that a variable belongs to, if it is a field of its block, a credential or in `also`."""
    known = frozenset(platforms)
    fits = [
        name
        for name in known
        if variable.startswith((f"{platform_prefix(name)}_", f"{_VENDORS.get(name, platform_prefix(name))}_"))
    ]
    odd = [name for name in known if variable == _TOKENS.get(name) or variable in _HOMES.get(name, ())]
    for name in (*fits, *odd):
        if _is_field(variable, name):
            return name
    if not fits or not (is_key_like(variable) or variable in also):
        return ""
    return max(fits, key=lambda name: len(platform_prefix(name)))


def named_account(variable: str, platforms: Iterable[str], also: Collection[str] = ()) -> tuple[str, str]:
    """The platform and the account that a variable is about; no platform if it is about none. Where no
    account can be called so it is a `UserError`."""
    plain, mark, capitals = variable.partition(ACCOUNT_MARK)
    platform = platform_of(plain if mark else variable, platforms, also)
    if not mark or not platform:
        return platform, DEFAULT_ACCOUNT
    account = capitals.lower().replace("_", "-")
    problem = account_problem(platform, account)
    if problem is not None:
        raise UserError(f"{variable}: {problem.message}", hint=problem.hint)
    if with_account(plain, account) != variable:
        raise UserError(f"{variable} is not read.", hint=f"Write it {with_account(plain, account)}.")
    return platform, account
