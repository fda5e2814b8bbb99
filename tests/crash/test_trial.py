"""The trial: the real process, killed and stopped at random moments beside faults on both sides, its database
damaged while turns are open. Counted are messages lost without a word, unmarked doubles and `once` calls that
were made again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.word import replace
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.care.backup import backups_of
from hermes.state.store.sqlite import PAGE_BYTES, look_into, tables_of
from hermes.testing.history import check_history
from hermes.testing.model_script import FAULTS, Call, Cut, ModelRequest, Reply, Said, Then, message_text
from hermes.testing.model_server import FakeModelServer
from hermes.testing.wire import WorldServer
from hermes.testing.world import World
from tests import nursery
from tests.cli.command import ROOT, environment

PATIENCE = 90.0
WORDS = ("", " read", " once", " keyed", " read once", " once keyed read")
CHILD = Path(__file__).with_name("trial_child.py")
CONFIG = """
platforms: {fake: {allow_all_users: true}}
display: {busy_input_mode: queue}
model: {provider: custom, base_url: "%s", default: fake-model}
"""
DAMAGED = "My database was damaged"
TABLES = ("journal", "turns", "inbox", "outbox", "sessions", "bindings", "questions")
OPEN = """SELECT CAST(body AS TEXT) FROM inbox WHERE outcome IS NULL
UNION ALL SELECT CAST(input AS TEXT) FROM turns WHERE state IN ('accepted', 'running', 'waiting')
UNION ALL SELECT CAST(body AS TEXT) FROM outbox WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown')
"""
_ORDER = re.compile(r"chat \S+ was answered in the order (\[.*\]), not (\[.*\])")
_TOKEN = re.compile(r"\bm\d+\b")
_TOOL = re.compile(r"\b(read|keyed|once)\b")


def obedient(request: ModelRequest) -> Reply:
    """The tools that the last message with a token names, one a round, then an answer with the token. What
    the gateway says itself, like the wish for the rest of half an answer, has none. Messages whose turns were
    stopped before their answers come joined with the next one, as one message."""
    messages = request.messages
    place = max(
        n for n, one in enumerate(messages) if one["role"] == "user" and _TOKEN.search(message_text(one))
    )
    joined = message_text(messages[place])
    last = list(_TOKEN.finditer(joined))[-1]
    token, wishes = last.group(), joined[last.end() :]
    done = sum(one["role"] == "tool" for one in messages[place:])
    tools = _TOOL.findall(wishes)
    if done < len(tools):
        call = Call(id=f"{token}-{done}", name=tools[done], arguments=f'{{"token": "{token}"}}')
        return Reply(text=None, calls=(call,))
    return Reply(text=f"answer to {token}: all {done} tools were used as you wished")


@dataclass(slots=True)
class Faults:
    """What goes wrong outside, until it is told to stop. No request fails twice in a row: what a service that
    stays broken does to a turn is told by other tests."""

    dice: random.Random
    on: bool = True
    seen: dict[str, int] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)

    def _happens(self, name: str, chance: float) -> bool:
        if not self.on or self.dice.random() > chance:
            return False
        self.seen[name] = self.seen.get(name, 0) + 1
        return True

    def model(self, request: ModelRequest) -> Said:
        asked = request.last_user_message
        if asked in self._failed:
            self._failed.discard(asked)
            return obedient(request)
        for name in ("rate_limited", "server_error", "reset_before_headers", "never_answers"):
            if self._happens(name, 0.04):
                self._failed.add(asked)
                return FAULTS[name].reply
        if self._happens("half a stream", 0.1):
            self._failed.add(asked)
            return replace(obedient(request), cut=Cut(after=rb"answer [^\n]*\n\n", then=Then.RESET))
        return obedient(request)

    def platform(self, what: str, chat: str) -> HermesError | None:
        if what == "sent" and self._happens("reset after it was sent", 0.1):
            return Unreachable("the connection was reset", maybe_done=True)
        if what in ("send", "edit") and self._happens(f"429 or 500 at {what}", 0.1):
            return Unreachable("too many requests", after=0.05)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """A damage: the messages that were open then, and how many the chats had been sent."""

    open: frozenset[str]
    seen: int


@dataclass(slots=True)
class Trial:
    """One home, one world, one model, many processes."""

    home: Path
    kind: str
    world: World
    port: int
    process: subprocess.Popen[str] | None = None
    harms: list[Harm] = field(default_factory=list)

    async def begin(self) -> None:
        command = [sys.executable, str(CHILD), str(self.home), str(self.port), self.kind]
        environ = environment(self.home) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        with (self.home.parent / "stderr").open("a") as file:
            self.process = nursery.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=file, text=True)

    async def until_ready(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert line == "ready\n", (self.home.parent / "stderr").read_text()[-3000:]

    async def end(self, number: int) -> int:
        assert self.process is not None and self.process.stdout is not None
        self.process.send_signal(number)
        code = await asyncio.to_thread(self.process.wait, PATIENCE)
        self.process.stdout.close()
        return code

    def leftovers(self) -> int:
        with contextlib.closing(look_into(self.home / DATABASE_FILE)) as db:
            tx = tables_of(db, MAIN_AGENT)
            waiting = [*tx.inbox.pending(0, 9), *tx.recovery.due(0, 9), *tx.outbox.waiting("fake", 0, 9)]
        return len(waiting)

    def damage(self, dice: random.Random) -> str:
        """Spoil the roots of tables, or some pages, as a broken disk does: in the file, not in its log."""
        path = self.home / DATABASE_FILE
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        rows = " ".join(str(row[0]) for row in connection.execute(OPEN))
        self.harms.append(Harm(open=frozenset(_TOKEN.findall(rows)), seen=len(self.world.messages)))
        contents = {
            row[0] for row in connection.execute("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'")
        }
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage").fetchall())
        connection.close()
        pages = sorted(set(range(1, path.stat().st_size // PAGE_BYTES + 1)) - contents)
        chosen = dice.sample(TABLES, dice.choice((1, 1, 2)))
        spoilt = dice.choice(([roots[name] for name in chosen], dice.sample(pages, dice.choice((1, 3, 6)))))
        with path.open("r+b") as file:
            for page in spoilt:
                file.seek((page - 1) * PAGE_BYTES)
                file.write(dice.randbytes(PAGE_BYTES))
        return f"{chosen} {spoilt}"

    def problems(self) -> list[str]:
        """What must never happen; a message that was open at a damage may have been spoken of instead."""
        chats = {update.text.split()[0]: update.chat for update in self.world.updates}
        excused: set[str] = set()
        for harm in self.harms:
            later = list(self.world.messages.values())[harm.seen :]
            told = {one.chat for one in later if DAMAGED in one.text}
            excused |= {name for name in harm.open if chats[name] in told}
        words = {f"{name} was acknowledged and never answered" for name in excused}
        open_then = {int(name[1:]) for harm in self.harms for name in harm.open}
        return [
            problem
            for problem in check_history(self.world)
            if problem not in words and not _only_those_moved(problem, open_then)
        ]


def _only_those_moved(problem: str, open_then: set[int]) -> bool:
    """Whether a chat is in order but for messages that were open at a damage: their rows and those of their
    turns may both be lost, and then they are taken again, behind what came after them."""
    told = _ORDER.fullmatch(problem)
    if told is None:
        return False
    answered, expected = ([n for n in json.loads(told[i]) if n not in open_then] for i in (1, 2))
    return answered == expected


@pytest.mark.parametrize("kind", ["plain", "edits"])
async def test_nothing_is_lost_or_doubled_without_a_word(tmp_path: Path, full: bool, kind: str) -> None:
    dice = random.Random(f"trial {kind}")
    faults = Faults(dice)
    world = World(trouble=faults.platform)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    count = 0
    lives = 63 if full else 4
    async with FakeModelServer(faults.model) as server, WorldServer(world) as service:
        (home / "config.yaml").write_text(CONFIG % server.base_url)
        trial = Trial(home, kind, world, service.port)
        for life in range(lives):
            await trial.begin()
            await trial.until_ready()
            moment = asyncio.get_running_loop().time() + dice.uniform(0.05, 0.9)
            while asyncio.get_running_loop().time() < moment:
                count += 1
                room = str(dice.randrange(8))
                update = world.write(f"m{count}{dice.choice(WORDS)}", chat=room, user=f"u{room}")
                if dice.random() < 0.2:
                    world.repeat(update)
                await asyncio.sleep(dice.uniform(0.002, 0.03))
            stops = life % 5 == 1
            assert await trial.end(signal.SIGTERM if stops else signal.SIGKILL) in (0, -signal.SIGKILL)
            if kind == "plain" and life % 5 == 3 and backups_of(home / DATABASE_FILE):
                spoilt = trial.damage(dice)
                print(f"life {life}: spoilt {spoilt}, {len(trial.harms[-1].open)} messages were open")
        faults.on = False
        await trial.begin()
        await trial.until_ready()
        end = asyncio.get_running_loop().time() + PATIENCE
        while trial.problems() or not world.all_acked or await asyncio.to_thread(trial.leftovers):
            if asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(0.05)
        assert await trial.end(signal.SIGTERM) == 0
    print(f"{count} messages, faults {faults.seen}")
    assert trial.problems() == [], (home.parent / "stderr").read_text()[-6000:]
    assert faults.seen, "the faults were met"
