"""A crowd for the isolation of agents: many people on five platforms, eight agents, and markers planted in
everything that an agent can hold. `watch` looks at all that a model is told, `scan` at what is stored.

A marker names the agent that it was given to: `MARK-<agent>-<user>-<kind>-<n>`. Each agent's SOUL.md names
the agent, so a model's request says whose it is; one with a marker of another agent is a crossing."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from hermes.domain.ids import AgentId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.state.store.writer import SqliteStore
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, say
from hermes.testing.platform import fake_platform
from hermes.testing.world import Update, World

PLATFORMS = ("telegram", "discord", "slack", "matrix", "mattermost")
AGENTS = ("main", *(f"a{n}" for n in range(1, 8)))
_MARKER = re.compile(r"MARK-(\w+?)-(\w+?)-(\w+?)-\d+")
_WHOSE = re.compile(r"AGENT-(\w+)")
_numbers = itertools.count(1)
ANSWER_SECONDS = 240.0


class IndexedWorld(World):
    """Says when something new is seen in a chat. Each life of a gateway has one of its own, whose updates
    come after those of all lives before."""

    def __init__(self, life: int) -> None:
        super().__init__()
        self.base = self._uploaded = life * 1_000_000
        self.by_chat: dict[str, list[str]] = {}
        self.arrived: dict[str, asyncio.Event] = {}
        self.asked: set[str] = set()
        """The chats with a question that nobody answered: a file waits behind it."""

    def write(self, text: str, *, chat: str = "1", user: str = "u1", **more: object) -> Update:
        seq = self.base + len(self.updates) + 1
        update = Update(seq=seq, delivery=f"d{seq}", chat=chat, user=user, text=text, **more)  # type: ignore[arg-type]
        self.updates.append(update)
        self._news.set()
        return update

    async def poll(self, after: int, limit: int = 100) -> list[Update]:
        while not (news := self.updates[max(after - self.base, 0) :][:limit]):
            self._news.clear()
            await self._news.wait()
        return news

    async def ack(self, upto: int) -> None:
        pass

    async def send(self, chat: str, text: str, key: str, *more: object) -> str:
        ref = await super().send(chat, text, key, *more)  # type: ignore[arg-type]
        self.by_chat.setdefault(chat, []).append(self.messages[ref].shown)
        if self.messages[ref].buttons:
            self.asked.add(chat)
        self.arrived.setdefault(chat, asyncio.Event()).set()
        return ref


def folder_of(home: Path, agent: str) -> Path:
    return home if agent == "main" else home / "agents" / agent


def prepare(home: Path, users: int) -> str:
    """A home with markers in identities, keys and files; its config."""
    for agent in AGENTS:
        folder = folder_of(home, agent)
        (folder / "workspace").mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "SOUL.md").write_text(f"You are AGENT-{agent}. MARK-{agent}-x-soul-1")
        (folder / "workspace" / "plan.txt").write_text(f"MARK-{agent}-x-file-1")
        if agent != "main":
            (folder / ".env").write_text(
                f"TOOL_API_KEY=MARK-{agent}-x-secret-1\nPLACE=MARK-{agent}-x-env-1\n"
            )
    home.chmod(0o700)
    people = ", ".join(f"u{n}" for n in range(users))
    platforms = ", ".join(
        f"{name}: {{allowed_users: [{people}], allow_admin_from: [{people}]}}" for name in PLATFORMS
    )
    routes = "".join(f"- {{match: {{guild_id: {agent}}}, agent: {agent}}}\n" for agent in AGENTS)
    hosted = ", ".join(f"{agent}: {{}}" for agent in AGENTS[1:])
    return (
        f"platforms: {{{platforms}}}\nagents: {{{hosted}}}\nroutes:\n{routes}streaming: {{enabled: false}}\n"
        "checkpoints: {enabled: false}\nmemory: {memory_char_limit: 100000, user_char_limit: 100000}\n"
        "terminal: {backend: local}\napprovals: {timeout: 3600}\n"
    )


class Watch:
    """The model of every agent: it does what it is told, and notes what it should not have been told."""

    def __init__(self) -> None:
        self.crossed: list[str] = []
        self.seen = Counter[str]()

    def __call__(self, request: ModelRequest) -> Say:
        records = [entry.record for entry in request.entries]
        text = "\n".join([request.system, *request.notes.values(), *map(str, records)])
        whose = _WHOSE.search(request.system)
        agent = whose[1] if whose else "?"
        for marker in _MARKER.finditer(text):
            self.seen[marker[3]] += 1
            if marker[1] != agent:
                self.crossed.append(f"{agent} was told {marker[0]}")
        # Admins share the agent's memory, which a flush repeats; what they say stays in their conversations.
        words = [m for r in records if isinstance(r, UserSaid) for m in _MARKER.finditer(r.text)]
        people = {marker[2] for marker in words if marker[3] == "text"}
        if len(people) > 1:
            self.crossed.append(f"{agent} has the words of {people} in one conversation")
        if isinstance(records[-1], ToolFinished):
            return say(f"result: {records[-1].text[:2000]}")
        line = next((r.text for r in reversed(records) if isinstance(r, UserSaid)), "").rpartition("\n")[2]
        verb, _, rest = line.partition(" ")
        if verb == "call":
            name, _, arguments = rest.partition(" ")
            return call(name, arguments, id=f"c{next(_numbers)}")
        return say(rest if verb == "print" else f"heard: {line[-200:]}")


_FOREIGN = ("workspace/plan.txt", "SOUL.md", ".env", "memories/MEMORY.md", "media", ".")


class Person:
    """Somebody on one platform who talks with one agent, in a chat of their own. Every second one talks with
    another agent, too, so that what is kept for a person may not follow them."""

    def __init__(self, n: int, home: Path, dice: random.Random, shift: int = 0) -> None:
        self.name, self.agent = f"u{n}", AGENTS[(n + shift) % len(AGENTS)]
        self.platform = PLATFORMS[n % len(PLATFORMS)]
        self.chat = f"{self.agent}.{self.name}"
        self._home, self._dice = home, dice
        self._count = itertools.count(1)

    def mark(self, kind: str) -> str:
        return f"MARK-{self.agent}-{self.name}-{kind}-{next(self._count)}"

    def wish(self) -> str:
        """One operation; a good part of them reach for what is another agent's."""
        other = self._dice.choice([agent for agent in AGENTS if agent != self.agent])
        theirs = folder_of(self._home, other)
        foreign = self._dice.choice(
            ["workspace/plan.txt", "SOUL.md", ".env", "memories/MEMORY.md", "media", "."]
        )
        wishes: list[Callable[[], str]] = [
            lambda: f"hello {self.mark('text')}",
            lambda: _call("memory", action="add", target="user", content=self.mark("memory")),
            lambda: _call("memory", action="add", target="memory", content=self.mark("memory")),
            lambda: _call("memory", action="search", content="MARK"),
            lambda: _call("write_file", path=f"{self.name}.txt", content=self.mark("file")),
            lambda: _call("read_file", path=f"{self.name}.txt"),
            lambda: _call("read_file", path=str(theirs / foreign)),
            lambda: _call("search_files", pattern="MARK", path="."),
            lambda: _call("search_files", pattern="MARK", path=str(theirs)),
            lambda: _call(
                "write_file", path=str(theirs / "workspace" / "plan.txt"), content=self.mark("file")
            ),
            lambda: _call("session_search", query="MARK"),
            lambda: _call(
                "cronjob", action="create", schedule="every 9h", prompt=self.mark("job"), name=self.name
            ),
            lambda: _call("cronjob", action="list"),
            lambda: f"print MEDIA:{theirs / 'workspace' / 'plan.txt'}",
            lambda: "/new",
            lambda: "upload",
        ]
        if self._dice.random() < 0.02:
            return _call("terminal", command="env; echo done")
        return self._dice.choice(wishes)()


def _call(tool: str, **arguments: str) -> str:
    return f"call {tool} {json.dumps(arguments)}"


class Crowd:
    """The gateway and everybody who writes to it; `operations` counts what was answered."""

    def __init__(self, home: Path, users: int, seed: int) -> None:
        self.home, self.users, self.seed = home, users, seed
        self.watch = Watch()
        self.worlds = {name: IndexedWorld(seed) for name in PLATFORMS}
        accounts = {name: fake_platform("edits", world, name) for name, world in self.worlds.items()}
        self.api = ApiWorld(
            home=home, config=prepare(home, users), provider=ScriptedModel(self.watch), accounts=accounts
        )
        self.operations = 0

    async def live(self, each: int, beside: Callable[[], Awaitable[None]] | None = None) -> None:
        """Let everybody do so many things, all at the same time, and something `beside` it over and over."""
        dice = random.Random(self.seed)
        people = [Person(n, self.home, random.Random(dice.random())) for n in range(self.users)]
        also = range(0, self.users, 2)
        people += [Person(n, self.home, random.Random(dice.random()), shift=3) for n in also]
        async with self.api, asyncio.timeout(3000):
            going_on = None if beside is None else asyncio.create_task(_repeat(beside), name="beside")
            async with asyncio.TaskGroup() as group:
                for person in people:
                    group.create_task(self._talk(person, each))
            if going_on is not None:
                going_on.cancel()
                await asyncio.wait((going_on,))
            self.watch.crossed += self.shown()

    async def _talk(self, person: Person, each: int) -> None:
        world = self.worlds[person.platform]
        arrived = world.arrived.setdefault(person.chat, asyncio.Event())
        for _ in range(each):
            wish, uploads = person.wish(), ()
            if person.chat in world.asked:
                wish = "/deny"
                world.asked.discard(person.chat)
            elif wish == "upload":
                data = person.mark("media").encode()
                uploads = (world.upload(data, "note.txt", mime="text/plain", size=len(data)),)
                wish = f"look {person.mark('text')}"
            before = len(world.by_chat.get(person.chat, ()))
            world.write(wish, chat=person.chat, user=person.name, guild=person.agent, uploads=uploads)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    while len(world.by_chat.get(person.chat, ())) <= before:
                        arrived.clear()
                        await arrived.wait()
            except TimeoutError:
                last = world.by_chat.get(person.chat, ["nothing"])[-1]
                raise AssertionError(f"{person.chat}: no answer to {wish!r}; the last was {last!r}") from None
            self.operations += 1

    def shown(self) -> Iterator[str]:
        """What somebody saw of another agent's."""
        for world in self.worlds.values():
            for chat, texts in world.by_chat.items():
                whose = chat.partition(".")[0]
                for text in texts:
                    yield from (f"{chat} saw {m[0]}" for m in _MARKER.finditer(text) if m[1] != whose)
                    if "📎" in text and "plan.txt" in text:
                        yield f"{chat} was sent a file of another agent: {text}"


async def _repeat(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await work()
        await asyncio.sleep(0.02)


async def scan(home: Path) -> list[str]:
    """What is stored with one agent and belongs to another: in its rows and in its folder."""
    crossed: list[str] = []

    def note(agent: str, where: str, text: str) -> None:
        crossed.extend(f"{agent} has {m[0]} in {where}" for m in _MARKER.finditer(text) if m[1] != agent)

    async with SqliteStore(home / "gateway.db") as store:
        for agent in AGENTS:
            scoped = store.scoped(AgentId(agent))
            for session in await scoped.read(lambda tx: tx.sessions.find("", 100_000)):
                entries = await scoped.read(lambda tx, session=session: tx.journal.read(session.id))
                # What somebody asked for may name a path, but no marker of another agent.
                note(agent, session.id, "\n".join(str(entry.record) for entry in entries))
            for entry in await scoped.read(lambda tx: tx.memory.list()):
                note(agent, "memory", entry.text)
            for job in await scoped.read(lambda tx: tx.jobs.list()):
                note(agent, "jobs", str(job))
    for agent in AGENTS[1:]:
        for path in (home / "agents" / agent).rglob("*"):
            if path.is_file():
                note(agent, str(path), path.read_text(errors="replace"))
    for name in ("workspace", "memories", "media", "cron", "SOUL.md"):
        for path in [home / name, *(home / name).rglob("*")]:
            if path.is_file():
                note("main", str(path), path.read_text(errors="replace"))
    return crossed


async def live_until_killed(home: Path, users: int, each: int, seed: int) -> None:
    """A life of the crowd that may be cut off at any moment; what crossed is written down at once."""
    crowd = Crowd(home, users, seed)
    crossed, done = home.parent / "crossed", home.parent / f"operations.{seed}"
    print("ready", flush=True)
    living = asyncio.create_task(crowd.live(each))
    going_on = True
    while going_on:
        await asyncio.wait((living,), timeout=0.05)
        going_on = not living.done()
        if seen := [*crowd.watch.crossed, *crowd.shown()]:
            crossed.write_text("\n".join(seen))
        done.write_text(str(crowd.operations))
    living.result()


if __name__ == "__main__":
    asyncio.run(live_until_killed(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
