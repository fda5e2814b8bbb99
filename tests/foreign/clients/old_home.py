"""Makes a home as Hermes Agent leaves it, with that program's own store: old_home.py FOLDER"""

import os
import sys
from pathlib import Path

home = Path(sys.argv[1])
os.environ["HERMES_HOME"] = str(home)

from hermes_state import SessionDB  # noqa: E402

db = SessionDB()
call = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "terminal", "arguments": '{"command": "ls"}'},
}
lost = {"id": "call_2", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
db.create_session("20260101_090000_aaaaaa", "telegram", model="m-1", user_id="77")
db.record_gateway_session_peer(
    "20260101_090000_aaaaaa",
    source="telegram",
    user_id="77",
    session_key="agent:main:telegram:dm:77",
    chat_id="77",
    chat_type="dm",
    thread_id=None,
)
say = db.append_message
say("20260101_090000_aaaaaa", "user", "Where did I put the marmalade?")
say(
    "20260101_090000_aaaaaa",
    "assistant",
    "Let me look.",
    tool_calls=[call, lost],
    reasoning_content="a thought",
)
say("20260101_090000_aaaaaa", "tool", "cellar.txt", tool_name="terminal", tool_call_id="call_1")
say("20260101_090000_aaaaaa", "assistant", "In the cellar.", finish_reason="stop")
say(
    "20260101_090000_aaaaaa",
    "user",
    [
        {"type": "text", "text": "And the picture?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ],
)
say("20260101_090000_aaaaaa", "assistant", "On the wall.")
db.create_session("20260102_100000_bbbbbb", "cli", model="m-2")
say("20260102_100000_bbbbbb", "user", "Plan the garden")
say("20260102_100000_bbbbbb", "assistant", "Roses first.")
db.set_session_title("20260102_100000_bbbbbb", "The garden")
db.end_session("20260102_100000_bbbbbb", "user_exit")
db.create_session("20260103_100000_cccccc", "cli", model="m-2")
db.close()
