"""A home of OpenClaw, as its releases leave one: what they wrote in runs of ours, with less in it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

CONFIG = """{
  // mine
  meta: { lastTouchedVersion: '2026.6.1' },
  gateway: { port: 18789, auth: { mode: "token", token: "theirs" }, },
  agents: { defaults: {
    model: { primary: "house/little", fallbacks: ["anthropic/claude-sonnet-4-6", "unheard/of"] },
    workspace: "/home/somebody/.openclaw/workspace", userTimezone: "Europe/Berlin",
  }, list: [{ id: "main", default: true }, { id: "work" }] },
  models: { providers: { house: { baseUrl: "http://127.0.0.1:9/v1", apiKey: "${HOUSE_SECRET_KEY}",
    api: "openai-completions", models: [{ id: "little", contextWindow: 8192 }] } } },
  channels: {
    telegram: { botToken: { source: "env", id: "MY_BOT_TOKEN" }, dmPolicy: "open",
      allowFrom: ["*", "telegram:77", 78], groups: { "-100500": { requireMention: false } } },
    discord: { enabled: false, token: "off" },
    whatsapp: { allowFrom: ["+1555"] },
  },
  mcp: { servers: { notes: { command: "notes-server", args: ["--all"] } } },
  tools: { exec: { timeoutSec: 60 }, elevated: { enabled: true } },
}
"""
_FIRST = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T09:00:00.000Z"}
USUAL = "agent:main:telegram:direct:77"


def said(ident: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    at = f"2026-01-01T09:00:{int(ident):02}.000Z"
    message = {"role": role, "content": content, "timestamp": 1767258000000 + int(ident), **more}
    return {"type": "message", "id": ident, "parentId": parent, "timestamp": at, "message": message}


def words(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


MARMALADE = [
    _FIRST,
    said("1", None, "user", words("Where did I put the marmalade?")),
    said("2", "1", "assistant", words("In the attic.")),
    said(
        "3", "1", "assistant",
        [{"type": "thinking", "thinking": "a thought"}, *words("Let me look."),
         {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "cellar.txt"}}],
        model="little",
    ),
    said("4", "3", "toolResult", words("one jar"), toolCallId="c1", toolName="read"),
    {"type": "custom", "customType": "x", "id": "5", "parentId": "4", "timestamp": "2026-01-01T09:00:05Z"},
    said("6", "5", "assistant", words("In the cellar."), model="little"),
]  # fmt: skip
"""What was taken back (2) is beside the way to the end."""
GARDEN = [
    said("1", None, "user", "Plan the garden"),
    said("2", "1", "assistant", words("Roses.")),
    said("3", "2", "user", "And then?"),
    {"type": "compaction", "id": "4", "parentId": "3", "timestamp": "2026-01-02T09:00:00.000Z",
     "summary": "They plan a garden.", "firstKeptEntryId": "3", "tokensBefore": 9},
    said("5", "4", "assistant", words("Tulips.")),
]  # fmt: skip
_TICK = {
    "id": "b4a75f3c", "name": "Tick", "enabled": True, "createdAtMs": 1767258000000,
    "schedule": {"kind": "every", "everyMs": 7200000}, "sessionTarget": "main",
    "payload": {"kind": "systemEvent", "text": "Check the stove"}, "state": {},
}  # fmt: skip
JOBS = [
    {
        "id": "35a4b4c1", "name": "Morning brief", "enabled": True, "createdAtMs": 1767258000000,
        "schedule": {"kind": "cron", "expr": "0 7 * * *", "tz": "Europe/Berlin"},
        "payload": {"kind": "agentTurn", "message": "Summarize overnight updates."},
        "delivery": {"mode": "announce", "channel": "telegram", "to": "telegram:77"}, "state": {},
    },
    _TICK,
    {
        **_TICK, "id": "x1", "name": "Lima",
        "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "America/Lima"},
    },
    {**_TICK, "id": "x2", "name": "Script", "payload": {"kind": "command", "command": "ls"}},
    {**_TICK, "id": "x3", "name": "Past", "schedule": {"kind": "at", "at": "2026-01-01T00:00:00Z"}},
    {**_TICK, "id": "x4", "name": "Its own", "declarationKey": "heartbeat:main"},
]  # fmt: skip


def make_home(home: Path, *, database: bool, config: str = "openclaw.json") -> Path:
    """With `database` as 2026.9 keeps things, else as releases before 2026.6."""
    workspace, agent = home / "workspace", home / "agents" / "main"
    for folder in (
        workspace / "memory",
        workspace / "skills/baking",
        home / "skills/knots",
        home / "credentials",
    ):
        folder.mkdir(parents=True)
    for folder in (agent / "sessions", agent / "agent", home / "cron", home / "state", home / "agents/work"):
        folder.mkdir(parents=True)
    (home / config).write_text(CONFIG)
    (home / ".env").write_text(
        "HOUSE_SECRET_KEY=house-0123456789\nMY_BOT_TOKEN=77:telegram-0123456789\nOPENCLAW_X=1\nEDITOR_THEME=dark\n"
    )
    (workspace / "SOUL.md").write_text("You are Old Claw.\n")
    (workspace / "AGENTS.md").write_text("# House rules\n")
    (workspace / "HEARTBEAT.md").write_text("look around")
    (workspace / "MEMORY.md").write_text("# Pets\n\nThe cat is called Tea.\n\nThe dog is called Ink.\n")
    (workspace / "memory/2026-01-02.md").write_text("Bought marmalade.\n")
    (workspace / "memory/2026-01-01.md").write_text("Moved the jars.\n")
    (workspace / "USER.md").write_text("- Likes short answers\n")
    (workspace / "skills/baking/SKILL.md").write_text("---\nname: baking\ndescription: bakes\n---\nBake.")
    (workspace / "skills/baking/away").symlink_to("/etc/passwd")
    (home / "skills/knots/SKILL.md").write_text("---\nname: knots\ndescription: knots\n---\nTie.")
    (home / "credentials/telegram-allowFrom.json").write_text('{"version": 1, "allowFrom": ["501"]}')
    (home / "credentials/telegram-work-allowFrom.json").write_text('{"version": 1, "allowFrom": ["502"]}')
    (home / "agents/main/agent/auth-profiles.json").write_text(
        '{"version": 1, "profiles": {"anthropic:default": {"type": "api_key", "provider": "anthropic",'
        ' "key": "sk-ant-0123456789"}, "openai-codex:me": {"type": "oauth", "provider": "openai-codex"}}}'
    )
    (_in_database if database else _in_files)(home, agent)
    return home


SESSIONS: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "aaaa-1": (USUAL, {"displayName": "Jam"}, MARMALADE),
    "bbbb-2": ("agent:main:main", {"deliveryContext": {"channel": "telegram", "to": "telegram:78"}}, GARDEN),
    "cccc-3": ("agent:main:cron:35a4b4c1", {}, GARDEN),
}


def _in_files(home: Path, agent: Path) -> None:
    (home / "cron/jobs.json").write_text(json.dumps({"version": 1, "jobs": JOBS}))
    index = {}
    for ident, (key, entry, events) in SESSIONS.items():
        index[key] = {"sessionId": ident, "updatedAt": 1, **entry}
        text = "".join(f"{json.dumps(event)}\n" for event in events)
        (agent / f"sessions/{ident}.jsonl").write_text(f"{text}{{torn")
    (agent / "sessions/aaaa-1.trajectory.jsonl").write_text("{}")
    (agent / "sessions/dddd-4.jsonl.deleted.2026-01-01").write_text(json.dumps(GARDEN[0]))
    (agent / "sessions/eeee-5.jsonl.reset.2026-01-01").write_text(json.dumps(GARDEN[0]))
    (agent / "sessions/sessions.json").write_text(json.dumps(index))


def _in_database(home: Path, agent: Path) -> None:
    with closing(sqlite3.connect(home / "state/openclaw.sqlite")) as db, db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE cron_jobs (store_key, job_id, name, job_json, state_json)")
        for job in JOBS:
            db.execute(
                "INSERT INTO cron_jobs VALUES ('s', ?, ?, ?, '{}')", (job["id"], job["name"], json.dumps(job))
            )
        db.execute("CREATE TABLE channel_pairing_allow_entries (channel_key, account_id, entry, sort_order)")
        db.execute("INSERT INTO channel_pairing_allow_entries VALUES ('telegram', 'default', '503', 0)")
    with closing(sqlite3.connect(agent / "agent/openclaw-agent.sqlite")) as db, db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE session_nodes (session_key, current_session_id, entry_json)")
        db.execute("CREATE TABLE session_windows (session_id, session_key, created_at)")
        db.execute("CREATE TABLE transcript_events (session_id, seq, event_json)")
        for ident, (key, entry, events) in SESSIONS.items():
            db.execute("INSERT INTO session_nodes VALUES (?, ?, ?)", (key, ident, json.dumps(entry)))
            db.execute("INSERT INTO session_windows VALUES (?, ?, 1)", (ident, key))
            for seq, event in enumerate(events):
                db.execute("INSERT INTO transcript_events VALUES (?, ?, ?)", (ident, seq, json.dumps(event)))
        db.execute("INSERT INTO session_windows VALUES ('eeee-5', ?, 0)", (USUAL,))
        db.execute("INSERT INTO transcript_events VALUES ('eeee-5', 0, ?)", (json.dumps(GARDEN[0]),))
