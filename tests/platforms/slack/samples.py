"""Payloads as Slack's documents show them, one of each kind; names and numbers are made up."""

from __future__ import annotations

from typing import Any

ME, ANN = "U0HERMES001", "U0ANN000001"
DM, CHANNEL, GROUP = "D0ANN000001", "C0TEAM00001", "C0MPIM00001"
FILE = {
    "id": "F04EEHX1EES",
    "name": "plan.txt",
    "title": "plan.txt",
    "mimetype": "text/plain",
    "filetype": "text",
    "size": 12,
    "mode": "hosted",
    "is_external": False,
    "url_private": "https://files.slack.com/files-pri/T1-F04EEHX1EES/plan.txt",
    "url_private_download": "https://files.slack.com/files-pri/T1-F04EEHX1EES/download/plan.txt",
}


def event(**inner: Any) -> dict[str, Any]:
    return {
        "token": "XXYYZZ",
        "team_id": "T0FAKETEAM1",
        "api_app_id": "A0FAKEAPP01",
        "event": {"event_ts": inner.get("ts", "1793000000.000100"), **inner},
        "type": "event_callback",
        "event_id": "Ev123ABC456",
        "event_time": 1793000000,
    }


def message(text: str, *, channel: str = DM, kind: str = "im", **more: Any) -> dict[str, Any]:
    said = {"type": "message", "user": ANN, "ts": "1793000000.000200", "text": text, "team": "T0FAKETEAM1"}
    return event(**{**said, "channel": channel, "channel_type": kind, **more})


PAYLOADS: dict[str, dict[str, Any]] = {
    "text": message("hello &lt;b&gt;&amp;amp; *you* 😀"),
    "mention": message(f"<@{ME}> what now?", channel=CHANNEL, kind="channel"),
    "mention inside": message(f"ask <@{ME}|hermes> &amp; <@U0BOB000001>", channel=CHANNEL, kind="group"),
    "app mention": event(
        type="app_mention", user=ANN, text=f"<@{ME}> what now?", ts="1793000000.000200", channel=CHANNEL
    ),
    "group": message("all of you", channel=GROUP, kind="mpim"),
    "links": message(
        "see <https://example.invalid/?a=1&amp;b=2|the page>, <http://example.invalid|example.invalid>,"
        " <https://example.invalid/x>, <mailto:a@example.invalid|a@example.invalid> in <#C1|general> <!here>"
        " <!subteam^S1|@ops>"
    ),
    "thread": message(
        "in it",
        channel=CHANNEL,
        kind="channel",
        thread_ts="1792999999.000100",
        parent_user_id="U0BOB000001",
    ),
    "reply to us": message("as I said", thread_ts="1792999999.000100", parent_user_id=ME),
    "broadcast": message(
        "for all",
        channel=CHANNEL,
        kind="channel",
        subtype="thread_broadcast",
        thread_ts="1792999999.000100",
        root={"user": ANN, "ts": "1792999999.000100"},
    ),
    "root of a thread": message("a root", channel=CHANNEL, kind="channel", thread_ts="1793000000.000200"),
    "file": message("look", subtype="file_share", files=[FILE], upload=True),
    "image": message("", subtype="file_share", files=[{**FILE, "mimetype": "image/png", "name": "a.png"}]),
    "voice": message(
        "", subtype="file_share", files=[{**FILE, "mimetype": "audio/webm", "subtype": "slack_audio"}]
    ),
    "video clip": message(
        "", subtype="file_share", files=[{**FILE, "mimetype": "video/mp4", "subtype": "slack_video"}]
    ),
    "deleted file": message("gone", files=[{"id": "F1", "mode": "tombstone"}]),
    "shared from elsewhere": message(
        "look",
        subtype="file_share",
        files=[{"id": "F12345678", "mode": "file_access", "created": 0, "user": ""}],
    ),
    # What “Share message” and a link to a message make (docs.slack.dev, secondary message attachments).
    "forwarded": message(
        "please answer this",
        attachments=[
            {
                "is_share": True,
                "is_msg_unfurl": True,
                "author_id": "U0BOB000001",
                "author_name": "Bob",
                "channel_id": CHANNEL,
                "ts": "1792000000.000100",
                "text": f"<@{ME}> when is it &amp; where?",
                "fallback": "[1792000000] Bob: when is it",
                "files": [FILE],
            },
            {
                "service_name": "Example",
                "title": "A page",
                "text": "a preview",
                "from_url": "https://e.invalid",
            },
        ],
    ),
    "forwarded alone": message(
        "", attachments=[{"is_share": True, "author_subname": "Bob", "text": "!new", "files": []}]
    ),
    "edit": event(
        type="message",
        subtype="message_changed",
        hidden=True,
        channel=DM,
        channel_type="im",
        ts="1793000005.000100",
        message={
            "type": "message",
            "user": ANN,
            "text": "first",
            "ts": "1793000000.000200",
            "edited": {"user": ANN, "ts": "1793000005.000000"},
        },
        previous_message={"type": "message", "user": ANN, "text": "frist", "ts": "1793000000.000200"},
    ),
    "preview": event(
        type="message",
        subtype="message_changed",
        channel=DM,
        channel_type="im",
        message={"type": "message", "user": ANN, "text": "x", "ts": "1793000000.000200", "attachments": [{}]},
        previous_message={"type": "message", "user": ANN, "text": "x", "ts": "1793000000.000200"},
    ),
    "deleted": event(
        type="message",
        subtype="message_deleted",
        channel=DM,
        deleted_ts="1793000000.000200",
        ts="1793000009.1",
    ),
    "ours deleted": event(
        type="message",
        subtype="message_deleted",
        channel=DM,
        deleted_ts="1793000000.000300",
        ts="1793000009.2",
        previous_message={"type": "message", "user": ME, "text": "x", "ts": "1793000000.000300"},
    ),
    "headstone": event(
        type="message",
        subtype="message_changed",
        channel=CHANNEL,
        ts="1793000009.3",
        message={
            "type": "message",
            "subtype": "tombstone",
            "text": "This message was deleted.",
            "user": "USLACKBOT",
            "hidden": True,
            "ts": "1793000000.000400",
        },
        previous_message={"type": "message", "user": ANN, "text": "x", "ts": "1793000000.000400"},
    ),
    "ours": message("mine", user=ME, bot_id="B0HERMES001"),
    "another bot": message("beep", user="U0OTHERBOT1", bot_id="B0OTHER0001"),
    "a webhook": message(
        "",
        user=None,
        subtype="bot_message",
        bot_id="B0OTHER0002",
        username="Alerts",
        attachments=[{"fallback": "disk full", "color": "#f00"}],
    ),
    "an assistant's thread": event(
        type="assistant_thread_started",
        assistant_thread={
            "user_id": ANN,
            "context": {"channel_id": CHANNEL, "team_id": "T0FAKETEAM1", "enterprise_id": "E0GRID00001"},
            "channel_id": DM,
            "thread_ts": "1793000000.000100",
        },
    ),
    "an assistant's title": event(
        type="message",
        subtype="message_changed",
        channel=DM,
        channel_type="im",
        message={
            "type": "message",
            "subtype": "assistant_app_thread",
            "user": ME,
            "text": "New words",
            "thread_ts": "1793000000.000100",
            "ts": "1793000000.000100",
            "edited": {"user": ME, "ts": "1793000003.000000"},
        },
        previous_message={"type": "message", "text": "New chat", "user": ME, "ts": "1793000000.000100"},
    ),
    "in an assistant's thread": message(
        "hello", thread_ts="1793000000.000100", parent_user_id=ME, assistant_thread={"action_token": "x"}
    ),
    "renamed": event(
        type="channel_rename", channel={"id": CHANNEL, "name": "crew", "created": 1, "is_channel": True}
    ),
    "archived": event(type="channel_archive", channel=CHANNEL, user=ANN),
    "uninstalled": event(type="app_uninstalled"),
    "revoked": event(type="tokens_revoked", tokens={"oauth": [], "bot": [ME]}),
    "a stranger": message(
        "hi",
        user="U0STRANGER1",
        channel=CHANNEL,
        kind="channel",
        user_team="T0ELSEWHERE",
        source_team="T0ELSEWHERE",
    ),
    "of the grid": message("hi", user="W0GRID00001", team="E0GRID00001"),
    "topic": message("set the topic", subtype="channel_topic", channel=CHANNEL, kind="channel"),
    "reaction": event(
        type="reaction_added",
        user=ANN,
        reaction="thumbsup",
        item_user=ME,
        item={"type": "message", "channel": CHANNEL, "ts": "1793000000.000200"},
        event_ts="1793000007.000100",
    ),
    "joined": event(
        type="member_joined_channel",
        user=ME,
        channel=CHANNEL,
        channel_type="C",
        inviter=ANN,
        team="T0FAKETEAM1",
    ),
    "left": event(type="member_left_channel", user=ME, channel=CHANNEL, channel_type="C"),
    "button": {
        "type": "block_actions",
        "user": {"id": ANN, "username": "ann", "name": "ann", "team_id": "T0FAKETEAM1"},
        "container": {
            "type": "message",
            "message_ts": "1793000001.000100",
            "channel_id": CHANNEL,
            "thread_ts": "1793000000.000200",
        },
        "trigger_id": "12466734323.1395872398",
        "channel": {"id": CHANNEL, "name": "team"},
        "message": {
            "ts": "1793000001.000100",
            "thread_ts": "1793000000.000200",
            "user": ME,
            "text": "May I?",
        },
        "actions": [
            {
                "type": "button",
                "action_id": "hermes_0",
                "block_id": "=qXel",
                "text": {"type": "plain_text", "text": "Yes", "emoji": True},
                "value": "q_1:yes",
                "action_ts": "1793000003.932268",
            }
        ],
    },
    "command": {
        "token": "XXYYZZ",
        "team_id": "T0FAKETEAM1",
        "channel_id": CHANNEL,
        "channel_name": "team",
        "user_id": ANN,
        "user_name": "ann",
        "command": "/hermes",
        "text": "status now",
        "trigger_id": "13345224609.738474920",
    },
    "view": {"type": "view_submission", "user": {"id": ANN}},
}
