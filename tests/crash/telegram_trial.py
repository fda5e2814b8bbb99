"""The real gateway between a Telegram and a model that both misbehave, killed again and again.

What people wrote is marked `m1`, `m2` …; each answer carries the mark of the message it answers, and some
messages have a command run that adds its mark to a file. So what was lost, said twice or done twice is
counted from outside, without a look into the gateway."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.turn.claim import GIVEN_UP
from hermes.domain.turns.turn import CRASHES_ALONE, CRASHES_BESIDE
from hermes.state.home.homes import DATABASE_FILE
from hermes.testing.model_script import (
    Call,
    Cut,
    ModelRequest,
    Pace,
    Reply,
    Said,
    Then,
    failure,
    message_text,
)
from hermes.testing.model_server import FakeModelServer
from hermes.testing.platform_suite import Fault
from tests.cli.command import PATIENCE, Running, gateway
from tests.platforms.telegram.server import Telegram

CURSOR = "▉"
_MARK = re.compile(r"\bm\d+\b")
_SLOW = Pace(between=0.01, sizes=(9,))
_FAULTS = ("", "429", "500", "503", "reset", "half", "words", "hang")
_RATE = 0.15
"""How often a call goes wrong, on either side."""


@dataclass
class Trial:
    """One home, a Telegram and a model; lives come and go."""

    folder: Path
    seed: str
    chats: int = 10
    sent: dict[str, int] = field(default_factory=dict)
    """Marks by the chat they were written in."""
    kills: int = 0
    faulty: bool = True
    telegram: Telegram = field(default_factory=Telegram)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.model = FakeModelServer(self._answer)
        self.telegram.chaos = self._go_wrong
        self.telegram.has_drafts = False
        self.effects = self.folder / "effects"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Trial]:
        async with self.model:
            await self.telegram.up()
            home = self.folder / "home"
            home.mkdir(mode=0o700)
            (home / "config.yaml").write_text(
                f"model: {{default: fake-model, base_url: '{self.model.base_url}'}}\n"
                "display: {busy_input_mode: queue}\n"
                "platforms: {telegram: {allow_all_users: true}}\n"
            )
            try:
                yield self
            finally:
                await self.telegram.down()

    # --- both sides ---

    def _answer(self, request: ModelRequest) -> Said:
        users = [at for at, one in enumerate(request.messages) if one["role"] == "user"]
        spoken = [(at, _MARK.findall(message_text(request.messages[at]))) for at in users]
        place, marks = next((at, marks) for at, marks in reversed(spoken) if marks)
        mark = marks[-1]
        words = message_text(request.messages[place])
        after = request.messages[place + 1 :]
        if "do it" in words and not any(one["role"] == "tool" for one in after):
            command = f"echo {mark} >> {self.effects}"
            arguments = f'{{"command": "{command}"}}'
            return self._spoil(
                Reply(text=None, calls=(Call(id=f"call_{mark}", name="terminal", arguments=arguments),))
            )
        whole = f"the answer to {mark} is as long as it takes to be seen growing, and this is its end."
        heard = message_text(after[-2]) if len(after) > 1 and after[-2]["role"] == "assistant" else ""
        rest = whole[len(heard) :] if heard and whole.startswith(heard) else whole
        return self._spoil(Reply(text=rest, pace=_SLOW))

    def _spoil(self, reply: Reply) -> Said:
        if not self.faulty or self.chance.random() > _RATE:
            return reply
        match self.chance.choice(_FAULTS):
            case "429":
                return failure(429, "Rate limit reached", code="rate_limit_exceeded")
            case "500" | "503" as status:
                return failure(int(status), "The server had an error")
            case "reset":
                return Reply(text=reply.text, calls=reply.calls, cut=Cut(after=None, then=Then.RESET))
            case "half":
                return Reply(text=reply.text, calls=reply.calls, cut=Cut(after=rb"\n\n", then=Then.CLOSE))
            case "words":
                return Reply(
                    text=reply.text,
                    calls=reply.calls,
                    pace=reply.pace,
                    cut=Cut(after=b"answer", then=Then.RESET),
                )
            case "hang":
                return Reply(text=reply.text, calls=reply.calls, pace=Pace(first_byte=3.0))
        return reply

    def _go_wrong(self) -> tuple[Fault, bool] | None:
        if not self.faulty or self.chance.random() > _RATE:
            return None
        fault = self.chance.choice((Fault.TOO_FAST, Fault.BROKEN, Fault.RESET))
        return fault, fault is not Fault.TOO_FAST and self.chance.random() < 0.5

    # --- lives ---

    async def live(self, messages: int, *, stop: bool = False) -> None:
        """One life, in which people write so much, to its end by a signal at a random moment."""
        async with self._gateway() as life:
            for _ in range(messages):
                self._write()
                await asyncio.sleep(self.chance.uniform(0.0, 0.15))
            await asyncio.sleep(self.chance.uniform(0.0, 1.2))
            await self._spare_the_blamed()
            number = signal.SIGTERM if stop else signal.SIGKILL
            self.kills += number is signal.SIGKILL
            code = await asyncio.to_thread(life.stop, number)
            assert code == (0 if stop else -signal.SIGKILL)

    async def _spare_the_blamed(self) -> None:
        """Wait until no turn is one crash away from being given up: a message that runs alone at three deaths
        of the process is rightly blamed for them (decision 9), and so many kills do that by chance too."""
        brink = CRASHES_BESIDE + CRASHES_ALONE - 1
        with closing(sqlite3.connect(self.folder / "home" / DATABASE_FILE)) as database:
            end = asyncio.get_running_loop().time() + PATIENCE
            while database.execute("SELECT 1 FROM turns WHERE crashes >= ?", (brink,)).fetchone():
                assert asyncio.get_running_loop().time() < end, "a blamed turn makes no progress"
                await asyncio.sleep(0.02)

    async def settle(self) -> None:
        """A life without faults, to the end of all work."""
        self.faulty = False
        async with self._gateway():
            end = asyncio.get_running_loop().time() + PATIENCE * 4
            calm = 0
            while calm < 40:
                assert asyncio.get_running_loop().time() < end, self.lost()
                before = len(self.telegram.calls)
                await asyncio.sleep(0.1)
                busy = any(name != "getupdates" for name, _ in self.telegram.calls[before:])
                calm = 0 if busy or self.lost() else calm + 1

    @asynccontextmanager
    async def _gateway(self) -> AsyncIterator[Running]:
        """Both fakes go on while it starts. That it dies often is our doing, not a storm of its own."""
        home = self.folder / "home"
        (home / "gateway-starts.log").unlink(missing_ok=True)
        variables = {"TELEGRAM_BOT_TOKEN": self.telegram.token, "TELEGRAM_BASE_URL": self.telegram.url}
        process = gateway(home, **variables)
        life = await asyncio.to_thread(process.__enter__)
        try:
            yield life
        finally:
            await asyncio.to_thread(process.__exit__, None, None, None)

    def _write(self) -> None:
        mark = f"m{len(self.sent) + 1}"
        chat = 2000 + self.chance.randrange(self.chats)
        self.sent[mark] = chat
        self.telegram.say(chat, f"{mark} do it" if self.chance.random() < 0.4 else mark)

    # --- what came of it ---

    def answers(self) -> list[tuple[str, int, str]]:
        """Mark, chat and text of every whole answer that stands in a chat."""
        found = []
        for sent in self.telegram.sent:
            text = sent.message.get("text", "")
            if not sent.deleted and "this is its end." in text:
                found += [(mark, sent.message["chat"]["id"], text) for mark in _MARK.findall(text)]
        return found

    def lost(self) -> list[str]:
        """Marks that were neither answered nor told to have failed, as far as a chat's own messages tell."""
        answered = {mark for mark, _, _ in self.answers()}
        missing = [mark for mark in self.sent if mark not in answered]
        failures = Counter(
            sent.message["chat"]["id"]
            for sent in self.telegram.sent
            if not sent.deleted and "⚠️" in sent.message.get("text", "")
        )
        unanswered = Counter(self.sent[mark] for mark in missing)
        return [mark for mark in missing if unanswered[self.sent[mark]] > failures[self.sent[mark]]]

    def given_up(self) -> list[str]:
        return [text for sent in self.telegram.sent if GIVEN_UP in (text := sent.message.get("text", ""))]

    def misplaced(self) -> list[str]:
        return [mark for mark, chat, _ in self.answers() if self.sent[mark] != chat]

    def unmarked_doubles(self) -> list[str]:
        plain = Counter(mark for mark, _, text in self.answers() if REPEAT_MARK not in text)
        return [mark for mark, count in plain.items() if count > 1]

    def repeated_effects(self) -> list[str]:
        done = Counter(self.effects.read_text().split()) if self.effects.exists() else Counter()
        return [mark for mark, count in done.items() if count > 1]
