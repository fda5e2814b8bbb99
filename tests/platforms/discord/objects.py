"""Discord's objects with every field that the documents call required; names and numbers are made up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

GUILD = "600000000000000001"
GENERAL = "610000000000000001"
FORUM = "610000000000000002"
THREAD = "620000000000000001"
EPOCH_MS = 1_420_070_400_000


def user_of(number: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "username": name,
        "discriminator": "0",
        "global_name": name.capitalize(),
        "avatar": None,
        "public_flags": 0,
        "flags": 0,
        "primary_guild": None,
        "bot": False,
        **more,
    }


def as_others_see(user: dict[str, Any]) -> dict[str, Any]:
    """A user without what is told to itself alone."""
    return {name: value for name, value in user.items() if name in user_of("1", "x")}


def person(number: str) -> dict[str, Any]:
    return user_of(number, "ann" if number == "501" else f"ann{number}")


BOT = user_of(
    "123456789012345678",
    "hermes",
    bot=True,
    mfa_enabled=True,
    verified=True,
    email=None,
    locale="en-US",
)
APPLICATION: dict[str, Any] = {
    "id": "123456789012345678",
    "name": "Hermes",
    "icon": None,
    "description": "An agent.",
    "bot_public": False,
    "bot_require_code_grant": False,
    "verify_key": "00" * 32,
    "owner": user_of("900000000000000001", "owner"),
    "team": None,
    "type": None,
    "flags": 1 << 19,
    "flags_new": str(1 << 19),
    "integration_types_config": {"0": {}},
    "redirect_uris": [],
    "interactions_endpoint_url": None,
    "role_connections_verification_url": None,
    "explicit_content_filter": 0,
    "eligible_oauth2_scopes": [],
    "approximate_guild_count": 1,
    "approximate_user_install_count": 0,
    "approximate_user_authorization_count": 0,
    "bot": as_others_see(BOT),
}


def channel_of(number: str, sort: int, **more: Any) -> dict[str, Any]:
    common: dict[str, Any] = {"id": number, "type": sort, "last_message_id": None, "flags": 0}
    if sort == 1:
        return {**common, "recipients": [person(number)], **more}
    name = {"name": "general", "guild_id": GUILD}
    if sort in (10, 11, 12):
        metadata = {
            "archived": False,
            "auto_archive_duration": 1440,
            "archive_timestamp": "2026-11-01T10:00:00.000000+00:00",
            "locked": False,
            "create_timestamp": "2026-11-01T10:00:00.000000+00:00",
        }
        thread = {
            "parent_id": GENERAL,
            "owner_id": BOT["id"],
            "message_count": 1,
            "member_count": 1,
            "total_message_sent": 1,
            "rate_limit_per_user": 0,
            "thread_metadata": metadata,
        }
        return {**common, **name, **thread, **more}
    text = {
        "position": 0,
        "permission_overwrites": [],
        "nsfw": False,
        "topic": None,
        "parent_id": None,
        "rate_limit_per_user": 0,
        "last_pin_timestamp": None,
    }
    if sort == 15:
        text |= {
            "available_tags": [],
            "default_reaction_emoji": None,
            "default_sort_order": None,
            "default_forum_layout": 0,
            "default_thread_rate_limit_per_user": 0,
        }
    return {**common, **name, **text, **more}


def member_of(roles: list[str], user: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "user": as_others_see(user or BOT),
        "nick": None,
        "avatar": None,
        "banner": None,
        "roles": roles,
        "joined_at": "2026-10-01T10:00:00.000000+00:00",
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "flags": 0,
        "pending": False,
        "communication_disabled_until": None,
    }


def role_of(number: str, name: str) -> dict[str, Any]:
    return {
        "id": number,
        "name": name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": 1,
        "permissions": "2251799813685247",
        "managed": False,
        "mentionable": False,
        "flags": 0,
    }


def guild_of(channels: dict[str, dict[str, Any]], roles: list[str]) -> dict[str, Any]:
    places = [one for one in channels.values() if one["type"] != 1]
    return {
        "id": GUILD,
        "name": "Team",
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "owner_id": "900000000000000001",
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "roles": [role_of(GUILD, "@everyone"), *(role_of(one, "team") for one in roles)],
        "emojis": [],
        "features": [],
        "mfa_level": 0,
        "application_id": None,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "max_presences": None,
        "max_members": 250000,
        "vanity_url_code": None,
        "description": None,
        "banner": None,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "preferred_locale": "en-US",
        "public_updates_channel_id": None,
        "max_video_channel_users": 25,
        "nsfw_level": 0,
        "nsfw": False,
        "stickers": [],
        "premium_progress_bar_enabled": False,
        "safety_alerts_channel_id": None,
        "incidents_data": None,
        "widget_enabled": False,
        "widget_channel_id": None,
        "joined_at": "2026-10-01T10:00:00.000000+00:00",
        "large": False,
        "unavailable": False,
        "member_count": 2,
        "voice_states": [],
        "members": [member_of(roles)],
        "channels": [one for one in places if one["type"] not in (10, 11, 12)],
        "threads": [
            one for one in places if one["type"] in (10, 11, 12) and not one["thread_metadata"]["archived"]
        ],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
        "embedded_activities": [],
    }


def message_of(number: str, channel: str, author: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    made = datetime.fromtimestamp(((int(number) >> 22) + EPOCH_MS) / 1000, UTC)
    return {
        "id": number,
        "channel_id": channel,
        "author": as_others_see(author),
        "content": text,
        "timestamp": made.isoformat(),
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "pinned": False,
        "type": 0,
        "flags": 0,
        "components": [],
        **more,
    }
