"""What an operator may say about any platform: who may write, where it answers, who may use which command.
Access (`control/people`) and command tiers read it; a platform's own keys are its adapter's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes.domain.settings.declaring import EVERY_ONE, NONE_LISTED, Names, Secret, setting

_RIGHTS: dict[str, Any] = {"instead": NONE_LISTED, "if_empty": "so the key has no rights"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A further key of the HTTP API. One with a mistake in it has no rights at all."""

    key: Secret = setting(Secret(""), "The key itself.")
    scopes: Names = setting(
        ("chat", "sessions"), "What it may do.", choices=("chat", "sessions", "admin"), **_RIGHTS
    )
    agents: Names | None = setting(None, "The only agents it sees; left out = all.", **_RIGHTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSettings:
    """What an operator said about one platform; `extra` and `secrets` hold the platform's own keys.

    A list in `extra` is joined with commas, a mapping in it is flattened with dots; `trees` holds what is
    nested as it was written, with secrets as `Secret`s and what could not be read as nothing; `keys` are
    those of the HTTP API."""

    enabled: bool | None = setting(
        None, "Whether it is used; empty = as soon as its credentials are set.", env="<P>_*"
    )
    home_channel: str = setting("", "The chat for reports and for jobs without an address.", env="<P>_*")
    home_thread: str = setting("", "The thread in that chat.", env="<P>_HOME_CHANNEL_THREAD_ID")
    allowed_users: Names = setting((), "Who may write; `*` = everybody.", env="<P>_*")
    allow_all_users: bool = setting(False, "Everybody may write.", env="<P>_*")
    allowed_roles: Names = setting((), "Whoever has one of these roles may write.", env="<P>_*")
    allow_bots: str = setting(
        "none",
        "Whether other bots are answered: never, when they mention it, or always.",
        env="<P>_*",
        choices=("none", "mentions", "all"),
    )
    dm_policy: str = setting(
        "",
        "Private chats: `pairing` and `allowlist` say what strangers get, `disabled` answers nobody, "
        "`open` needs `allow_all_users` as well.",
        env="<P>_*",
        choices=("", "pairing", "allowlist", "open", "disabled"),
        instead="disabled",
    )
    unauthorized_dm_behavior: str = setting(
        "",
        "What a stranger in a private chat gets: a pairing code, or nothing; empty = as for all platforms.",
        choices=("", "pair", "ignore"),
        instead="ignore",
    )
    group_policy: str = setting(
        "",
        "Groups: `allowlist` answers only the chats and people of the group lists, `disabled` "
        "nowhere, `open` needs `allow_all_users` as well.",
        env="<P>_*",
        choices=("", "allowlist", "open", "disabled"),
        instead="disabled",
    )
    group_allowed_users: Names = setting((), "Who may write in groups, beside `allowed_users`.", env="<P>_*")
    group_allowed_chats: Names = setting((), "Groups in which everybody may write.", env="<P>_*")
    allowed_chats: Names = setting(
        (),
        "The only groups, channels or rooms it answers in; empty = all.",
        env="<P>_* <P>_ALLOWED_CHANNELS <P>_ALLOWED_ROOMS <P>_ALLOWED_GROUPS",
        instead=NONE_LISTED,
    )
    allowed_topics: Names = setting(
        (),
        "The only topics or threads it answers in; what is in none counts as `1`; empty = all.",
        env="<P>_*",
        instead=NONE_LISTED,
    )
    ignored_channels: Names = setting(
        (),
        "Chats, topics and threads it never answers in.",
        env="<P>_* <P>_IGNORED_THREADS",
        instead=EVERY_ONE,
    )
    guest_mode: bool = setting(
        False,
        "Answer who mentions it, and may write, also in groups that `allowed_chats` does not name.",
        env="<P>_*",
    )
    exclusive_bot_mentions: bool = setting(
        True,
        "In groups it leaves messages alone that call another bot by name and not it.",
        env="<P>_*",
        instead=True,
    )
    reactions: bool | None = setting(
        None,
        "The message that is worked on bears 👀, then ✅ or ❌; empty = as the platform does.",
        env="<P>_*",
    )
    require_mention: bool | None = setting(
        None,
        "In groups it answers only who mentions it or replies to it; empty = as the platform does.",
        env="<P>_*",
        instead=True,
    )
    thread_require_mention: bool = setting(
        False, "The same in threads it already takes part in.", env="<P>_* <P>_STRICT_MENTION", instead=True
    )
    free_response_channels: Names = setting(
        (),
        "Groups, channels or topics where no mention is needed.",
        env="<P>_* <P>_FREE_RESPONSE_CHATS <P>_FREE_RESPONSE_ROOMS <P>_FREE_RESPONSE_TOPICS",
    )
    mention_patterns: Names = setting(
        (), "Regular expressions that count as a mention.", env="<P>_*", form="patterns"
    )
    observe_unmentioned_group_messages: bool = setting(
        True,
        "Keep what people who may write say in groups without speaking to it, and tell the model of "
        "it with the next message that does.",
        env="<P>_* <P>_HISTORY_BACKFILL",
        instead=False,
    )
    history_backfill_limit: int = setting(
        50, "How many such messages of a chat are kept.", env="<P>_*", least=0, most=500
    )
    allow_admin_from: Names = setting(
        (),
        "Who may use every command in private chats; empty = who may in groups, or everybody.",
        env="<P>_*",
        instead=NONE_LISTED,
    )
    user_allowed_commands: Names = setting(
        (),
        "What others may use there beside /help and /whoami; empty = what they may in groups.",
        env="<P>_*",
        instead=NONE_LISTED,
    )
    group_allow_admin_from: Names = setting(
        (),
        "Who may use every command in groups; empty = who may in private chats, or everybody.",
        env="<P>_*",
        instead=NONE_LISTED,
    )
    group_user_allowed_commands: Names = setting(
        (), "What others may use there beside /help and /whoami.", env="<P>_*"
    )
    gateway_restart_notification: bool = setting(
        True, "Tell chats that a stop or a restart holds up their answer, and that it is back."
    )
    extra: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, ApiKey] = setting({}, "Further keys of the HTTP API, by name.")
