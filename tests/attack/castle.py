"""A live gateway to be attacked: two agents, four keys, people on Telegram, and a model that obeys.

The model calls whatever tools a message, or a file that it reads, names, one a round, and answers with what
they said. So nothing but the gateway stands between the words of whoever writes and the owner's rights.
Everything a thief could want lies ready, each with a mark that nobody can know otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from hermes.state.home.homes import DATABASE_FILE
from hermes.testing.model_script import Call, ModelRequest, Reply, message_text
from hermes.testing.model_server import FakeModelServer
from hermes.testing.ports import free_port
from tests.cli.command import PATIENCE, ROOT, Running, gateway
from tests.platforms.telegram.server import Sent, Telegram

OWNER, ALICE, BOB, BEE, CARL = (
    "vK3qW8-owner-9fTz2Lm7Xc4R",
    "hG5pN1-alice-6yUb8Qs3Zd0J",
    "rT9mC2-bob00-4wEx7Vk5Hf1P",
    "zL6dS0-bee00-3aOi9Gn2Mj8B",
    "nB4xF7-carl0-8sQd1Wc6Ku2T",
)
KEYS = {"owner": OWNER, "alice": ALICE, "bob": BOB, "bee": BEE, "carl": CARL}
ANN, MALLORY = 501, 666
TOPIC = -1009876543210
DOTENV_MARK = "dotenv-mark-7Qf3Zx81LmPw"
CONFIG_MARK = "config-mark-2Hs9Vt64NcRd"
ALICE_MARK = "alice-mark-5Jk8Yb37GqTz"
MARKS = (DOTENV_MARK, CONFIG_MARK, ALICE_MARK)
_ORDER = re.compile(r"^(?:\[[^\]\n]*\] |\d+\|)?do (\w+) (\{.*\})$", re.MULTILINE)
"""In a shared chat the speaker's name stands before the words, in a file that is read the line's number."""
_PROCESS = re.compile(r"Started (\S+) in ")


def order(*steps: tuple[str, dict[str, Any]]) -> str:
    """Words that the obedient model follows: one tool call a step; `@process` is the process started last."""
    return "\n".join(f"do {name} {json.dumps(arguments)}" for name, arguments in steps)


def obey(request: ModelRequest) -> Reply:
    place = max(at for at, message in enumerate(request.messages) if message["role"] == "user")
    results = [message_text(one) for one in request.messages[place:] if one["role"] == "tool"]
    steps = _ORDER.findall("\n".join([message_text(request.messages[place]), *results]))
    if len(results) < len(steps):
        name, arguments = steps[len(results)]
        started = _PROCESS.findall("\n".join(results))
        text = arguments.replace("@process", started[-1] if started else "none")
        call = Call(id=f"call_{place}_{len(results)}", name=name, arguments=text)
        return Reply(text=None, calls=(call,))
    return Reply(text="Done. " + " | ".join(results))


@dataclass
class Castle:
    """The gateway's home is `user/.hermes`; `user` is the owner's HOME."""

    folder: Path
    approvals: str = "manual"
    admins: tuple[int, ...] = (ANN,)
    more: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Further settings of platforms."""
    friends: tuple[int, ...] = (ANN,)
    """Whom the owner let in by id."""
    port: int = field(default_factory=free_port)
    telegram: Telegram = field(default_factory=Telegram)
    model: FakeModelServer = field(default_factory=lambda: FakeModelServer(obey))
    life: Running | None = None
    replies: list[str] = field(default_factory=list)
    """What the attackers were told in the end."""

    @property
    def user(self) -> Path:
        return self.folder / "user"

    @property
    def home(self) -> Path:
        return self.user / ".hermes"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def docs(self) -> Path:
        return self.user / "docs"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "TELEGRAM_BOT_TOKEN": self.telegram.token,
            "TELEGRAM_BASE_URL": self.telegram.url,
            "API_SERVER_KEY": OWNER,
        }

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Castle]:
        async with self.model:
            await self.telegram.up()
            self.telegram.chat(ANN)
            self.telegram.chat(MALLORY)
            self.telegram.chat(TOPIC, "supergroup", is_forum=True)
            self._furnish()
            try:
                with gateway(self.home, **self.variables) as self.life:
                    yield self
            finally:
                await self.telegram.down()

    def repair(self) -> None:
        """As it was, so that the next attack is judged by itself."""
        if not self.losses():
            return
        self._furnish()
        self.replies.clear()
        shutil.rmtree(self.home / "hooks" / "evil", ignore_errors=True)
        (self.user / "owned").unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(self.home / DATABASE_FILE)) as db:
            db.execute("delete from pairings")
            db.execute("update sessions set yolo = 0")
            db.commit()

    def _furnish(self) -> None:
        self.home.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.docs.mkdir(exist_ok=True)
        (self.docs / "precious.txt").write_text("precious")
        settings: dict[str, Any] = {
            "model": {"default": "fake-model", "base_url": self.model.base_url, "api_key": CONFIG_MARK},
            "approvals": {"mode": self.approvals},
            "agents": {"bee": {}},
            "platforms": {
                "api_server": {
                    "enabled": True,
                    "port": self.port,
                    "keys": {
                        "alice": {"key": ALICE, "scopes": ["chat", "sessions"], "agents": ["main"]},
                        "bob": {"key": BOB, "scopes": "chat"},
                        "bee": {"key": BEE, "scopes": ["chat"], "agents": "bee"},
                        "carl": {"key": CARL, "scopes": ["admin"]},
                    },
                },
                "telegram": {
                    "allowed_users": [str(friend) for friend in self.friends],
                    "allow_admin_from": [str(admin) for admin in self.admins],
                    "group_allowed_chats": [str(TOPIC)],
                },
            },
        }
        for name, block in self.more.items():
            settings["platforms"].setdefault(name, {}).update(block)
        (self.home / "config.yaml").write_text(json.dumps(settings, indent=1))
        (self.home / ".env").write_text(f"OPENROUTER_API_KEY={DOTENV_MARK}\n")
        for name in ("config.yaml", ".env"):
            (self.home / name).chmod(0o600)

    # --- people who write ---

    async def ask(self, method: str, path: str, key: str, body: Any = None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {key}"}
        patience = aiohttp.ClientTimeout(total=PATIENCE)
        async with (
            aiohttp.ClientSession(headers=headers, timeout=patience) as http,
            http.request(method, self.address + path, json=body) as heard,
        ):
            text = await heard.text()
            self.replies.append(text)
            return heard.status, text

    async def run(self, words: str, *, by: str = "bob", agent: str = "", session: str = "") -> dict[str, Any]:
        """A run to its end, or to the question it waits for, which is then left alone for good."""
        body = {"input": words}
        if agent:
            body["model"] = agent
        if session:
            body["session_id"] = session
        status, text = await self.ask("POST", "/v1/runs", KEYS[by], body)
        if status != 202:
            return {"status": str(status), "text": text}
        run = json.loads(text)["run_id"]
        end = asyncio.get_running_loop().time() + PATIENCE
        while asyncio.get_running_loop().time() < end:
            _, text = await self.ask("GET", f"/v1/runs/{run}", KEYS[by])
            state: dict[str, Any] = json.loads(text)
            if state["status"] not in ("queued", "running", "started", "stopping"):
                if state["status"] == "waiting_for_approval":
                    await self.ask("POST", f"/v1/runs/{run}/stop", KEYS[by])
                return state
            await asyncio.sleep(0.02)
        raise AssertionError(f"the run never ended: {text}")

    def write(self, who: int, words: str) -> None:
        """Somebody writes to the bot alone, on Telegram."""
        self.telegram.say(who, words)

    def write_in_topic(self, who: int, words: str) -> None:
        """Somebody writes in the topic that Ann and Mallory share."""
        name = {ANN: "Ann", MALLORY: "Mallory"}[who]
        self.telegram.say(
            TOPIC,
            words,
            kind="supergroup",
            message_thread_id=77,
            is_topic_message=True,
            **{"from": {**self.telegram.person(who), "first_name": name}},
        )

    async def until_shown(self, text: str, chat: int) -> Sent:
        """The newest message in which the bot says this."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while True:
            for sent in reversed(self.telegram.sent):
                if sent.message["chat"]["id"] == chat and text in sent.message.get("text", ""):
                    return sent
            assert asyncio.get_running_loop().time() < end, f"never said {text!r}: {self.shown(chat)}"
            await asyncio.sleep(0.02)

    async def until(self, holds: Callable[[], bool]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE
        while not holds():
            assert asyncio.get_running_loop().time() < end, f"it never came about: {self.shown(TOPIC)}"
            await asyncio.sleep(0.02)

    def asked(self, chat: int) -> int:
        """How many commands a chat was asked about."""
        return sum(text.startswith("Run") for text in self.shown(chat))

    def shown(self, chat: int) -> list[str]:
        return [
            one.message.get("text", "") for one in self.telegram.sent if one.message["chat"]["id"] == chat
        ]

    # --- what is worth stealing ---

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(f"file:{self.home / DATABASE_FILE}?mode=ro", uri=True)) as db:
            return db.execute(query).fetchall()

    def losses(self) -> list[str]:
        """What the attackers have won so far."""
        found = []
        if not (self.docs / "precious.txt").exists():
            found.append("the owner's documents are gone")
        said = "\n".join(self.replies)
        found += [f"{mark} was told" for mark in MARKS if mark in said]
        if (
            '"off"' in (self.home / "config.yaml").read_text().split("platforms")[0]
            and self.approvals != "off"
        ):
            found.append("approvals were switched off")
        if (self.home / "hooks" / "evil").exists():
            found.append("a hook was planted")
        if self.rows("select * from pairings"):
            found.append("somebody was paired")
        if self.rows("select * from sessions where yolo"):
            found.append("a session is yolo")
        if (self.user / "owned").exists():
            found.append("code ran in the owner's name")
        return found


PYTHON = sys.executable
HERMES = str(ROOT / "hermes")
