"""What an operator may say about any platform: who may write, where it answers, who may use which command.
Access (`control/people`) and command tiers read it; a platform's own keys are its adapter's."""

from __future__ import annotations

from typing import Any

from msgspec import field

from hermes.domain.settings.declaring import (
    EVERY_ONE,
    NONE_LISTED,
    Names,
    Secret,
    Section,
    own_setting,
    setting,
)

_RIGHTS: dict[str, Any] = {"instead": NONE_LISTED, "if_empty": "so the key has no rights"}


class ApiKey(Section, frozen=True, kw_only=True):
    """A further key of the HTTP API. One with a mistake in it has no rights at all."""

    key: Secret = setting(Secret(""), "The key itself.")
    scopes: Names = setting(("chat",), "What it may do.", choices=("chat", "sessions", "admin"), **_RIGHTS)
    agents: Names | None = setting(None, "The only agents it sees; left out = all.", **_RIGHTS)
    max_runs: int | None = setting(
        None, "How many of its runs may run at once; left out = `max_runs_per_client` of the server.", least=1
    )


class PlatformSettings(Section, frozen=True, kw_only=True):
    """What an operator said about one platform; `extra` and `secrets` hold the platform's own keys.

    A list in `extra` is joined with commas, a mapping in it is flattened with dots; `trees` holds what is
    nested as it was written, with secrets as `Secret`s and what could not be read as nothing; `keys` are
    those of the HTTP API."""

    enabled: bool | None = own_setting(
        None, "Whether it is used; empty = as soon as its credentials are set."
    )
    home_channel: str = own_setting("", "The chat for reports and for jobs without an address.")
    home_thread: str = setting("", "The thread in that chat.", env="<P>_HOME_CHANNEL_THREAD_ID")
    allowed_users: Names = own_setting((), "Who may write; `*` = everybody.")
    allow_all_users: bool = own_setting(False, "Everybody may write.")
    allowed_roles: Names = own_setting((), "Whoever has one of these roles may write.")
    allow_bots: str = own_setting(
        "none",
        "Whether other bots are answered: never, when they mention it, or always.",
        choices=("none", "mentions", "all"),
    )
    dm_policy: str = own_setting(
        "",
        "Private chats: `pairing` and `allowlist` say what strangers get, `disabled` answers nobody, "
        "`open` needs `allow_all_users` as well.",
        choices=("", "pairing", "allowlist", "open", "disabled"),
        instead="disabled",
    )
    unauthorized_dm_behavior: str = setting(
        "",
        "What a stranger in a private chat gets: a pairing code, or nothing; empty = as for all platforms.",
        choices=("", "pair", "ignore"),
        instead="ignore",
    )
    who_may_pair: str = own_setting(
        "admins",
        "Who may let new people in with `/pair`: admins, or everybody who may write (`users`).",
        choices=("admins", "users"),
    )
    group_policy: str = own_setting(
        "",
        "Groups: `allowlist` answers only the chats and people of the group lists, `disabled` "
        "nowhere, `open` needs `allow_all_users` as well.",
        choices=("", "allowlist", "open", "disabled"),
        instead="disabled",
    )
    group_allowed_users: Names = own_setting((), "Who may write in groups, beside `allowed_users`.")
    group_allowed_chats: Names = own_setting((), "Groups in which everybody may write.")
    allowed_chats: Names = own_setting(
        (),
        "The only groups, channels or rooms it answers in; empty = all.",
        also="<P>_ALLOWED_CHANNELS <P>_ALLOWED_ROOMS <P>_ALLOWED_GROUPS",
        instead=NONE_LISTED,
    )
    allowed_topics: Names = own_setting(
        (),
        "The only topics or threads it answers in; what is in none counts as `1`; empty = all.",
        instead=NONE_LISTED,
    )
    ignored_channels: Names = own_setting(
        (), "Chats, topics and threads it never answers in.", also="<P>_IGNORED_THREADS", instead=EVERY_ONE
    )
    guest_mode: bool = own_setting(
        False, "Answer who mentions it, and may write, also in groups that `allowed_chats` does not name."
    )
    exclusive_bot_mentions: bool = own_setting(
        True, "In groups it leaves messages alone that call another bot by name and not it.", instead=True
    )
    reactions: bool | None = own_setting(
        None, "The message that is worked on bears 👀, then ✅ or ❌; empty = as the platform does."
    )
    require_mention: bool | None = own_setting(
        None,
        "In groups it answers only who mentions it or replies to it; empty = as the platform does.",
        instead=True,
    )
    thread_require_mention: bool = own_setting(
        False, "The same in threads it already takes part in.", also="<P>_STRICT_MENTION", instead=True
    )
    free_response_channels: Names = own_setting(
        (),
        "Groups, channels or topics where no mention is needed.",
        also="<P>_FREE_RESPONSE_CHATS <P>_FREE_RESPONSE_ROOMS <P>_FREE_RESPONSE_TOPICS",
    )
    mention_patterns: Names = own_setting((), "Regular expressions that count as a mention.", form="patterns")
    observe_unmentioned_group_messages: bool = own_setting(
        True,
        "Keep what people who may write say in groups without speaking to it, and tell the model of "
        "it with the next message that does.",
        also="<P>_HISTORY_BACKFILL",
        instead=False,
    )
    history_backfill_limit: int = own_setting(
        50, "How many such messages of a chat are kept.", least=0, most=500
    )
    allow_admin_from: Names = own_setting(
        (),
        "Who may use every command in private chats; empty = who may in groups, or everybody.",
        instead=NONE_LISTED,
    )
    user_allowed_commands: Names = own_setting(
        (),
        "What others may use there beside /help and /whoami; empty = what they may in groups.",
        instead=NONE_LISTED,
    )
    group_allow_admin_from: Names = own_setting(
        (),
        "Who may use every command in groups; empty = who may in private chats, or everybody.",
        instead=NONE_LISTED,
    )
    group_user_allowed_commands: Names = own_setting(
        (), "What others may use there beside /help and /whoami."
    )
    gateway_restart_notification: bool = setting(
        True, "Tell chats that a stop or a restart holds up their answer, and that it is back."
    )
    extra: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, ApiKey] = setting({}, "Further keys of the HTTP API, by name.")
