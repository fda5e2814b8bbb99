"""Updates as the Bot API's documents show them, one of each kind; names and numbers are made up."""

from __future__ import annotations

from typing import Any

ANN = {
    "id": 501,
    "is_bot": False,
    "first_name": "Ann",
    "last_name": "Other",
    "username": "ann",
    "language_code": "en",
}
ME = {"id": 123456789, "is_bot": True, "first_name": "Hermes", "username": "hermes_test_bot"}
PRIVATE = {"id": 501, "first_name": "Ann", "last_name": "Other", "username": "ann", "type": "private"}
GROUP = {"id": -1001234567890, "title": "Team", "type": "supergroup"}
FORUM = {"id": -1009876543210, "title": "Forum", "is_forum": True, "type": "supergroup"}
CHANNEL = {"id": -1005555555555, "title": "News", "username": "news_channel", "type": "channel"}
FILE = {"file_id": "AgACAgIAAxkBAAI", "file_unique_id": "AQADq", "file_size": 1234}


def message(chat: dict[str, Any], number: int, **more: Any) -> dict[str, Any]:
    return {"message_id": number, "from": ANN, "chat": chat, "date": 1793000000, **more}


def entity(sort: str, offset: int, length: int, **more: Any) -> dict[str, Any]:
    return {"type": sort, "offset": offset, "length": length, **more}


MESSAGES: dict[str, dict[str, Any]] = {
    "text": message(PRIVATE, 1, text="hello 😀 there"),
    "command": message(PRIVATE, 2, text="/start now", entities=[entity("bot_command", 0, 6)]),
    "command to us": message(
        GROUP, 3, text="/status@Hermes_Test_Bot all", entities=[entity("bot_command", 0, 23)]
    ),
    "command to another": message(
        GROUP, 4, text="/status@other_bot", entities=[entity("bot_command", 0, 17)]
    ),
    "mention": message(
        GROUP, 5, text="😀 hi @hermes_test_bot, what now?", entities=[entity("mention", 6, 16)]
    ),
    "mention first": message(
        GROUP, 6, text="@hermes_test_bot what now?", entities=[entity("mention", 0, 16)]
    ),
    "mention by number": message(
        GROUP, 7, text="Hermes, what now?", entities=[entity("text_mention", 0, 6, user=ME)]
    ),
    "reply": message(
        GROUP, 8, text="and then?", reply_to_message={**message(GROUP, 3, text="so"), "from": ME}
    ),
    "quote": message(
        GROUP,
        9,
        text="why?",
        reply_to_message={**message(GROUP, 3, text="long text of ours"), "from": ME},
        quote={"text": "text of", "position": 5, "is_manual": True},
    ),
    "topic": message(
        FORUM,
        10,
        text="in a topic",
        message_thread_id=77,
        is_topic_message=True,
        reply_to_message=message(FORUM, 77, forum_topic_created={"name": "Plans", "icon_color": 7322096}),
    ),
    # core.telegram.org/bots/api, Chat.is_direct_messages and Message.direct_messages_topic
    "direct message to a channel": message(
        {"id": -1004444444444, "title": "News", "type": "supergroup", "is_direct_messages": True},
        12,
        text="to the editors",
        direct_messages_topic={"topic_id": 501, "user": {"id": 501, "is_bot": False, "first_name": "Ann"}},
    ),
    "general topic": message(FORUM, 11, text="in general"),
    "reply in a group is no topic": message(GROUP, 12, text="x", message_thread_id=3),
    "private topic": message(PRIVATE, 13, text="in my topic", message_thread_id=5, is_topic_message=True),
    "photo": message(
        PRIVATE,
        14,
        photo=[
            {**FILE, "file_id": "small", "width": 90, "height": 60},
            {**FILE, "width": 1280, "height": 853},
        ],
        caption="look @hermes_test_bot",
        caption_entities=[entity("mention", 5, 16)],
        media_group_id="13579",
    ),
    "voice": message(PRIVATE, 15, voice={**FILE, "duration": 3, "mime_type": "audio/ogg"}),
    "audio": message(
        PRIVATE, 16, audio={**FILE, "duration": 3, "mime_type": "audio/mpeg", "file_name": "song.mp3"}
    ),
    "document": message(
        PRIVATE, 17, document={**FILE, "file_name": "plan.pdf", "mime_type": "application/pdf"}
    ),
    "video": message(
        PRIVATE, 18, video={**FILE, "duration": 3, "width": 9, "height": 6, "mime_type": "video/mp4"}
    ),
    "video note": message(PRIVATE, 19, video_note={**FILE, "length": 240, "duration": 4}),
    "animation": message(
        PRIVATE,
        20,
        animation={**FILE, "duration": 3, "width": 9, "height": 6, "mime_type": "video/mp4"},
        document={**FILE, "mime_type": "video/mp4"},
    ),
    "sticker": message(
        PRIVATE,
        21,
        sticker={
            **FILE,
            "type": "regular",
            "width": 512,
            "height": 512,
            "is_animated": False,
            "is_video": False,
            "emoji": "🎉",
            "set_name": "Party",
        },
    ),
    "location": message(PRIVATE, 22, location={"latitude": 52.52, "longitude": 13.405}),
    "venue": message(
        PRIVATE,
        23,
        venue={"location": {"latitude": 1.5, "longitude": 2.25}, "title": "Café", "address": "Main street"},
    ),
    "contact": message(PRIVATE, 24, contact={"phone_number": "+49123", "first_name": "Bob"}),
    "poll": message(
        PRIVATE,
        25,
        poll={
            "id": "1",
            "question": "Tea?",
            "options": [
                {"text": text, "voter_count": 0, "persistent_id": str(n)}
                for n, text in enumerate(("yes", "no"))
            ],
            "total_voter_count": 0,
            "is_closed": False,
            "is_anonymous": True,
            "type": "regular",
            "allows_multiple_answers": False,
            "allows_revoting": True,
            "members_only": False,
        },
    ),
    "dice": message(PRIVATE, 26, dice={"emoji": "🎲", "value": 4}),
    "as the group": {
        **message(GROUP, 27, text="I am an admin"),
        "from": {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"},
        "sender_chat": GROUP,
    },
    "service": message(GROUP, 28, new_chat_title="Team 2"),
    "forwarded": message(
        PRIVATE,
        29,
        text="/stop now",
        entities=[entity("bot_command", 0, 5)],
        forward_origin={"type": "user", "sender_user": {**ANN, "first_name": "Bob [x]"}, "date": 1793000000},
    ),
    "forwarded from nobody": message(
        PRIVATE,
        30,
        document={**FILE, "file_name": "a.pdf"},
        forward_origin={"type": "hidden_user", "sender_user_name": "Ghost", "date": 1793000000},
    ),
    "forwarded from a channel": message(
        PRIVATE,
        31,
        text="news",
        forward_origin={"type": "channel", "chat": CHANNEL, "message_id": 5, "date": 1793000000},
    ),
    "links and code": message(
        PRIVATE,
        32,
        text="😀 read this and run print(1)",
        entities=[
            entity("text_link", 3, 9, url="https://example.invalid/a?b=1"),
            entity("pre", 21, 8, language="python"),
            entity("bold", 3, 4),
        ],
    ),
    "another bot": message(GROUP, 33, text="@other_bot go", entities=[entity("mention", 0, 10)]),
    "both bots": message(
        GROUP,
        34,
        text="@other_bot @hermes_test_bot go",
        entities=[entity("mention", 0, 10), entity("mention", 11, 16)],
    ),
    "a person": message(GROUP, 35, text="@abbott go", entities=[entity("mention", 0, 7)]),
    "checklist": message(
        PRIVATE,
        36,
        checklist={
            "title": "Party",
            "tasks": [{"id": 1, "text": "cake", "completion_date": 1793000000}, {"id": 2, "text": "guests"}],
        },
    ),
    "story": message(PRIVATE, 37, story={"chat": CHANNEL, "id": 4}),
    "a moving sticker": message(
        PRIVATE,
        38,
        sticker={
            **FILE,
            "file_id": "moving",
            "type": "regular",
            "width": 512,
            "height": 512,
            "is_animated": True,
            "is_video": False,
            "thumbnail": {**FILE, "width": 128, "height": 128},
        },
    ),
    "quote of another chat": message(
        PRIVATE,
        39,
        text="true?",
        external_reply={"origin": {"type": "channel", "chat": CHANNEL, "message_id": 5, "date": 1793000000}},
        quote={"text": "it rains", "position": 0},
    ),
    "about a picture": message(
        GROUP,
        40,
        text="@hermes_test_bot what is it?",
        entities=[entity("mention", 0, 16)],
        reply_to_message=message(GROUP, 39, photo=[{**FILE, "width": 90, "height": 60}]),
    ),
    "about a place": message(
        GROUP, 41, text="far?", reply_to_message=message(GROUP, 39, location={"latitude": 1, "longitude": 2})
    ),
    "became a supergroup": message(
        {"id": -77, "title": "Team", "type": "group"}, 42, migrate_to_chat_id=-1001234567890
    ),
    "was a group": message(GROUP, 1, migrate_from_chat_id=-77),
    "pinned": message(GROUP, 43, pinned_message=message(GROUP, 8, text="important")),
    "came in": message(GROUP, 44, new_chat_members=[ANN]),
}
UPDATES: dict[str, dict[str, Any]] = {
    **{
        name: {"update_id": 900 + place, "message": one} for place, (name, one) in enumerate(MESSAGES.items())
    },
    "edit": {
        "update_id": 1001,
        "edited_message": message(PRIVATE, 1, text="hello again", edit_date=1793000100),
    },
    "channel post": {
        "update_id": 1002,
        "channel_post": {
            "message_id": 31,
            "sender_chat": CHANNEL,
            "chat": CHANNEL,
            "date": 1793000000,
            "text": "breaking",
        },
    },
    "button": {
        "update_id": 1003,
        "callback_query": {
            "id": "4382bfdwdsb323b2d9",
            "from": ANN,
            "message": {
                **message(PRIVATE, 40, text="May I?"),
                "from": ME,
                "reply_markup": {"inline_keyboard": [[{"text": "Yes", "callback_data": "q_1:yes"}]]},
            },
            "chat_instance": "-42",
            "data": "q_1:yes",
        },
    },
    "reaction": {
        "update_id": 1004,
        "message_reaction": {
            "chat": GROUP,
            "message_id": 8,
            "user": ANN,
            "date": 1793000000,
            "old_reaction": [],
            "new_reaction": [{"type": "emoji", "emoji": "👍"}],
        },
    },
    "joined": {
        "update_id": 1005,
        "my_chat_member": {
            "chat": GROUP,
            "from": ANN,
            "date": 1793000000,
            "old_chat_member": {"user": ME, "status": "left"},
            "new_chat_member": {"user": ME, "status": "member"},
        },
    },
}
