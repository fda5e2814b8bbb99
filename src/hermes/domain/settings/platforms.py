"""What an operator may say about any platform: who may write, where it answers, who may use which command.
`control.access` and `control.tiers` read it; a platform's own keys are its adapter's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes.domain.settings.declaring import EVERY_ONE, NONE_LISTED, Secret, about, closed


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A further key of the HTTP API. One with a mistake in it has no rights at all."""

    key: Secret = field(default_factory=lambda: Secret(""), metadata=about("The key itself."))
    scopes: tuple[str, ...] = field(
        default=("chat", "sessions"),
        metadata=closed(NONE_LISTED, about("What it may do.", choices=("chat", "sessions", "admin"))),
    )
    agents: tuple[str, ...] | None = field(
        default=None, metadata=closed(NONE_LISTED, about("The only agents it sees; left out = all."))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSettings:
    """What an operator said about one platform; `extra` and `secrets` hold the platform's own keys.

    A list in `extra` is joined with commas, a mapping in it is flattened with dots; `trees` holds what is
    nested as it was written, with secrets as `Secret`s and what could not be read as nothing; `keys` are
    those of the HTTP API."""

    enabled: bool | None = field(
        default=None,
        metadata=about(
            "Whether it is used; empty = as soon as its credentials are set.", env=("<P>_ENABLED",)
        ),
    )
    home_channel: str = field(
        default="",
        metadata=about("The chat for reports and for jobs without an address.", env=("<P>_HOME_CHANNEL",)),
    )
    home_thread: str = field(
        default="", metadata=about("The thread in that chat.", env=("<P>_HOME_CHANNEL_THREAD_ID",))
    )
    allowed_users: tuple[str, ...] = field(
        default=(), metadata=about("Who may write; `*` = everybody.", env=("<P>_ALLOWED_USERS",))
    )
    allow_all_users: bool = field(
        default=False, metadata=about("Everybody may write.", env=("<P>_ALLOW_ALL_USERS",))
    )
    allowed_roles: tuple[str, ...] = field(
        default=(), metadata=about("Whoever has one of these roles may write.", env=("<P>_ALLOWED_ROLES",))
    )
    allow_bots: str = field(
        default="none",
        metadata=about(
            "Whether other bots are answered: never, when they mention it, or always.",
            env=("<P>_ALLOW_BOTS",),
            choices=("none", "mentions", "all"),
        ),
    )
    dm_policy: str = field(
        default="",
        metadata=closed(
            "disabled",
            about(
                "Private chats: `pairing` and `allowlist` say what strangers get, `disabled` answers nobody, "
                "`open` needs `allow_all_users` as well.",
                env=("<P>_DM_POLICY",),
                choices=("", "pairing", "allowlist", "open", "disabled"),
            ),
        ),
    )
    unauthorized_dm_behavior: str = field(
        default="",
        metadata=closed(
            "ignore",
            about(
                "What a stranger in a private chat gets: a pairing code, or nothing; empty = as for all "
                "platforms.",
                choices=("", "pair", "ignore"),
            ),
        ),
    )
    group_policy: str = field(
        default="",
        metadata=closed(
            "disabled",
            about(
                "Groups: `allowlist` answers only the chats and people of the group lists, `disabled` "
                "nowhere, `open` needs `allow_all_users` as well.",
                env=("<P>_GROUP_POLICY",),
                choices=("", "allowlist", "open", "disabled"),
            ),
        ),
    )
    group_allowed_users: tuple[str, ...] = field(
        default=(),
        metadata=about("Who may write in groups, beside `allowed_users`.", env=("<P>_GROUP_ALLOWED_USERS",)),
    )
    group_allowed_chats: tuple[str, ...] = field(
        default=(),
        metadata=about("Groups in which everybody may write.", env=("<P>_GROUP_ALLOWED_CHATS",)),
    )
    allowed_chats: tuple[str, ...] = field(
        default=(),
        metadata=closed(
            NONE_LISTED,
            about(
                "The only groups, channels or rooms it answers in; empty = all.",
                env=(
                    "<P>_ALLOWED_CHATS",
                    "<P>_ALLOWED_CHANNELS",
                    "<P>_ALLOWED_ROOMS",
                    "<P>_ALLOWED_GROUPS",
                ),
            ),
        ),
    )
    allowed_topics: tuple[str, ...] = field(
        default=(),
        metadata=closed(
            NONE_LISTED,
            about(
                "The only topics or threads it answers in; what is in none counts as `1`; empty = all.",
                env=("<P>_ALLOWED_TOPICS",),
            ),
        ),
    )
    ignored_channels: tuple[str, ...] = field(
        default=(),
        metadata=closed(
            EVERY_ONE,
            about(
                "Chats, topics and threads it never answers in.",
                env=("<P>_IGNORED_CHANNELS", "<P>_IGNORED_THREADS"),
            ),
        ),
    )
    guest_mode: bool = field(
        default=False,
        metadata=about(
            "Answer who mentions it, and may write, also in groups that `allowed_chats` does not name.",
            env=("<P>_GUEST_MODE",),
        ),
    )
    exclusive_bot_mentions: bool = field(
        default=True,
        metadata=closed(
            True,
            about(
                "In groups it leaves messages alone that call another bot by name and not it.",
                env=("<P>_EXCLUSIVE_BOT_MENTIONS",),
            ),
        ),
    )
    reactions: bool | None = field(
        default=None,
        metadata=about(
            "The message that is worked on bears 👀, then ✅ or ❌; empty = as the platform does.",
            env=("<P>_REACTIONS",),
        ),
    )
    require_mention: bool | None = field(
        default=None,
        metadata=closed(
            True,
            about(
                "In groups it answers only who mentions it or replies to it; empty = as the platform does.",
                env=("<P>_REQUIRE_MENTION",),
            ),
        ),
    )
    thread_require_mention: bool = field(
        default=False,
        metadata=closed(
            True,
            about(
                "The same in threads it already takes part in.",
                env=("<P>_THREAD_REQUIRE_MENTION", "<P>_STRICT_MENTION"),
            ),
        ),
    )
    free_response_channels: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Groups, channels or topics where no mention is needed.",
            env=(
                "<P>_FREE_RESPONSE_CHANNELS",
                "<P>_FREE_RESPONSE_CHATS",
                "<P>_FREE_RESPONSE_ROOMS",
                "<P>_FREE_RESPONSE_TOPICS",
            ),
        ),
    )
    mention_patterns: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Regular expressions that count as a mention.", env=("<P>_MENTION_PATTERNS",), form="patterns"
        ),
    )
    observe_unmentioned_group_messages: bool = field(
        default=True,
        metadata=closed(
            False,
            about(
                "Keep what people who may write say in groups without speaking to it, and tell the model of "
                "it with the next message that does.",
                env=("<P>_OBSERVE_UNMENTIONED_GROUP_MESSAGES", "<P>_HISTORY_BACKFILL"),
            ),
        ),
    )
    history_backfill_limit: int = field(
        default=50,
        metadata=about(
            "How many such messages of a chat are kept.",
            env=("<P>_HISTORY_BACKFILL_LIMIT",),
            least=0,
            most=500,
        ),
    )
    allow_admin_from: tuple[str, ...] = field(
        default=(),
        metadata=closed(
            NONE_LISTED,
            about(
                "Who may use every command in private chats; empty = who may in groups, or everybody.",
                env=("<P>_ALLOW_ADMIN_FROM",),
            ),
        ),
    )
    user_allowed_commands: tuple[str, ...] = field(
        default=(),
        metadata=closed(
            NONE_LISTED,
            about(
                "What others may use there beside /help and /whoami; empty = what they may in groups.",
                env=("<P>_USER_ALLOWED_COMMANDS",),
            ),
        ),
    )
    group_allow_admin_from: tuple[str, ...] = field(
        default=(),
        metadata=closed(
            NONE_LISTED,
            about(
                "Who may use every command in groups; empty = who may in private chats, or everybody.",
                env=("<P>_GROUP_ALLOW_ADMIN_FROM",),
            ),
        ),
    )
    group_user_allowed_commands: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "What others may use there beside /help and /whoami.", env=("<P>_GROUP_USER_ALLOWED_COMMANDS",)
        ),
    )
    gateway_restart_notification: bool = field(
        default=True,
        metadata=about("Tell chats that a stop or a restart holds up their answer, and that it is back."),
    )
    extra: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, ApiKey] = field(
        default_factory=dict, metadata=about("Further keys of the HTTP API, by name.")
    )
