"""Who gets which boundary, through a whole gateway: the owner at the terminal and in chats, strangers,
groups, jobs, webhooks and API keys, on machines where a sandbox works and where none does. The sandboxes
here are the local backend under their names; what holds commands in is not the matter of these journeys."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from hermes import plugins
from hermes.control.jobs.editing import JobAction, JobDesk, JobSpec
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import SettingsError, UserError
from hermes.domain.ids import MAIN_AGENT, JobId, SessionId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.world import Backend, BackendRequest, Command
from hermes.domain.turns.event import ToolFinished
from hermes.domain.turns.job import RunState
from hermes.domain.turns.turn import Cause, Guidance, TurnInput
from hermes.entry.terminal.served_door import local_caller
from hermes.execution.local.backend import make_local
from hermes.state.settings import unsupported_limits
from hermes.testing.api import ApiWorld
from hermes.testing.backends import fake_probes, make_boxed
from hermes.testing.harness import PATIENCE
from hermes.testing.model import Say, ScriptedModel, call, say
from hermes.testing.platform import fake_platform
from hermes.testing.world import World

SECRET = "the secret of the route"
OWNERS_KEY = "a key that nobody guesses"
GUESTS_KEY = "another key that nobody guesses"
ADMINS_KEY = "a third key that nobody guesses"
CONFIG = f"""
platforms:
  fake: {{allow_all_users: true, allowed_users: [ann]}}
  webhook: {{extra: {{routes: {{gh: {{secret: {SECRET}, prompt: "run pwd"}}}}}}}}
  api_server:
    keys:
      guest: {{key: {GUESTS_KEY}}}
      helper: {{key: {ADMINS_KEY}, scopes: [admin]}}
"""
BROKEN = "bwrap could not be started: no user namespaces. Allow them."
ROUTED = "routes: [{match: {platform: fake, chat_id: '5'}, agent: main, backend: bubblewrap%s}]\n"


class Ran:
    """A command that was run: in which backend, folder and network."""

    def __init__(self, name: str, request: BackendRequest) -> None:
        self.name = name
        self.workspace = request.workspace
        self.network = str(request.network)

    def __repr__(self) -> str:
        return f"{self.name} in {self.workspace.name}, network {self.network}"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Ran]]:
    """What is run, in the order of it. `broken` in a folder's path keeps the sandbox there from starting."""
    seen: list[Ran] = []

    def maker(name: str) -> Callable[[BackendRequest], Backend]:
        def make(request: BackendRequest) -> Backend:
            backend = make_local(request) if name == "local" else make_boxed(name, request)
            return cast(Backend, Noting(backend, Ran(name, request), seen))

        return make

    makers = {name: maker(name) for name in ("local", "docker", "bubblewrap", "landlock")}
    monkeypatch.setattr(plugins, "backends", lambda used=None: makers)
    monkeypatch.setattr(unsupported_limits, "installed", lambda group: makers)
    yield seen


class Noting:
    def __init__(self, inner: Backend, ran: Ran, seen: list[Ran]) -> None:
        self._inner = inner
        self._ran = ran
        self._seen = seen

    async def open(self) -> None:
        if "broken" in str(self._ran.workspace) and self._ran.name != "local":
            raise UserError("bwrap could not be started: no user namespaces.", hint="Allow them.")
        await self._inner.open()

    async def run(self, command: Command, output: Callable[[str], None]) -> Any:
        self._seen.append(self._ran)
        return await self._inner.run(command, output)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Machine:
    """A gateway on a machine where these sandboxes work. People say `run …`, and the agent does."""

    def __init__(self, folder: Path, *works: str, config: str = "", world: World | None = None) -> None:
        self.world = world or World()
        self.results: list[str] = []
        self.folder = folder
        self.api = ApiWorld(
            home=folder / "home",
            config=CONFIG + config,
            provider=ScriptedModel(self._answer),
            accounts={"fake": fake_platform("edits", self.world)},
            environ={"TERMINAL_ENV": "", "WEBHOOK_PORT": "0"},
            probes=fake_probes(*works),
        )

    def _answer(self, request: ModelRequest) -> Say:
        record = request.entries[-1].record
        if isinstance(record, ToolFinished):
            self.results.append(record.text)
            return say(f"it said: {record.text}")
        words = str(getattr(record, "text", "run pwd")).partition("run ")[2].partition("\n")[0] or "pwd"
        if words.startswith("reading "):
            return call("read_file", json.dumps({"path": words.removeprefix("reading ")}))
        return call("terminal", json.dumps({"command": words.strip()}))

    async def __aenter__(self) -> Machine:
        await self.api.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.api.__aexit__()

    @property
    def own(self) -> Path:
        return self.api.home / "workspace"

    async def until(self, what: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                if what():
                    return
                await asyncio.sleep(0.01)

    async def result(self, number: int = 1) -> str:
        await self.until(lambda: len(self.results) >= number)
        return self.results[number - 1]

    async def asked(self, chat: str = "1") -> str:
        await self.until(lambda: any("Run: " in text for text in self.world.seen(chat)))
        return next(text for text in self.world.seen(chat) if "Run: " in text)

    async def at_terminal(self, folder: Path, unattended: str = "") -> None:
        await self.api.app.gateway.submit(
            Submission(
                agent=MAIN_AGENT,
                source=local_caller(folder=str(folder)).source,
                input=TurnInput(text="run pwd", guidance=Guidance(unattended=unattended)),
                place=SessionTarget(session=SessionId(f"s{unattended}"), begin=True),
                cause=Cause.MESSAGE,
            )
        )

    async def until_set(self, backend: str) -> None:
        await self.until(lambda: self.api.app.loaded.settings.terminal.backend == backend)

    async def ask_api(self, key: str, session: str = "") -> None:
        body = {"model": "main", "messages": [{"role": "user", "content": "run pwd"}]}
        headers = {"Authorization": f"Bearer {key}"} | ({"X-Hermes-Session-Id": session} if session else {})
        heard = await self.api.post("/v1/chat/completions", body, headers=headers)
        assert heard.status == 200, heard.data


# --- where a sandbox works ---


async def test_the_owner_at_the_terminal_works_on_the_machine_itself(tmp_path: Path, ran: list[Ran]) -> None:
    folder = await asyncio.to_thread(lambda: tmp_path.resolve() / "project")
    folder.mkdir()
    async with Machine(tmp_path, "docker", "bubblewrap") as machine:
        await machine.at_terminal(folder)
        assert await machine.result() == str(folder)
        # A sub-agent of theirs works alone, in the same folder.
        await machine.at_terminal(folder, "deny")
        await machine.result(2)
    assert [(each.name, each.workspace) for each in ran] == [("local", folder), ("docker", folder)]


async def test_the_owner_in_a_chat_gets_the_strongest_that_works(tmp_path: Path, ran: list[Ran]) -> None:
    for number, works in enumerate([("docker", "bubblewrap"), ("bubblewrap", "landlock"), ("landlock",)]):
        async with Machine(tmp_path / str(number), *works) as machine:
            machine.world.write("run pwd", user="ann")
            await machine.result()
            assert ran[-1].workspace == machine.own, "the agent's own"
    assert [str(each) for each in ran] == [
        "docker in workspace, network open",
        "bubblewrap in workspace, network open",
        "landlock in workspace, network open",
    ]


async def test_a_stranger_has_a_world_of_their_own_without_network(tmp_path: Path, ran: list[Ran]) -> None:
    async with Machine(tmp_path, "bubblewrap", "landlock") as machine:
        (machine.own).mkdir(parents=True, exist_ok=True)
        (machine.own / "letter").write_text("private")
        machine.world.write("run echo mine > note; pwd", user="bob", chat="2")
        await machine.result()
        machine.world.write("run reading note", user="bob", chat="2")
        assert "mine" in await machine.result(2), "files are those of the same world"
        machine.world.write("run reading note", user="eve", chat="3")
        assert "mine" not in await machine.result(3)
        machine.world.write("run pwd", user="eve", chat="3")
        await machine.result(4)
    bob, eve = ran
    assert bob.name == eve.name == "bubblewrap" and bob.network == eve.network == "none"
    folders = machine.api.home / "sandboxes" / "bubblewrap"
    assert bob.workspace.parent.parent == eve.workspace.parent.parent == folders
    assert bob.workspace != eve.workspace and (bob.workspace / "note").read_text() == "mine\n"
    assert bob.workspace.stat().st_mode & 0o077 == 0


async def test_in_a_group_everybody_has_what_is_theirs(tmp_path: Path, ran: list[Ran]) -> None:
    async with Machine(tmp_path, "bubblewrap") as machine:
        for number, person in enumerate(("ann", "bob"), 1):
            machine.world.write("run pwd", user=person, chat="9", kind="group", mentions_us=True)
            await machine.result(number)
    assert [each.network for each in ran] == ["open", "none"]
    assert ran[0].workspace == machine.own and "sandboxes" in ran[1].workspace.parts


async def settled(desk: JobDesk, job: JobId) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if all(run.state is RunState.OVER for run in await desk.runs(job, 5)):
                return
            await asyncio.sleep(0.01)


async def test_a_job_is_no_way_around_the_boundary_of_its_maker(tmp_path: Path, ran: list[Ran]) -> None:
    def person(name: str) -> Source:
        address = Address(platform="fake", chat=name)
        return Source(address=address, kind=SourceKind.PRIVATE, user=name)

    makers = [None, local_caller().source, person("ann"), person("bob"), person("bob")]
    async with Machine(tmp_path, "bubblewrap") as machine:
        desk = machine.api.app.gateway.jobs(MAIN_AGENT)
        job = None
        for number, maker in enumerate(makers, 1):
            if number < len(makers):
                job = await desk.create(
                    JobSpec(prompt="run pwd", schedule="every 9h", deliver="local"), maker
                )
            assert job is not None
            await desk.act(job.id, JobAction.RUN)
            await machine.result(number)
            await settled(desk, job.id)
    assert [each.name for each in ran] == ["bubblewrap"] * 5
    assert [each.network for each in ran] == ["open"] * 3 + ["none"] * 2
    assert {each.workspace for each in ran[:3]} == {machine.own}
    assert ran[3].workspace == ran[4].workspace != machine.own, "all runs of a job have one folder"


async def test_a_strangers_job_runs_no_script_of_the_machine(tmp_path: Path, ran: list[Ran]) -> None:
    bob = Source(address=Address(platform="fake", chat="bob"), kind=SourceKind.PRIVATE, user="bob")
    async with Machine(tmp_path, "bubblewrap") as machine:
        scripts = machine.api.home / "scripts"
        scripts.mkdir()
        (scripts / "backup.sh").write_text(f"touch {tmp_path}/taken\n")
        (scripts / "backup.sh").chmod(0o700)
        desk = machine.api.app.gateway.jobs(MAIN_AGENT)
        wish = JobSpec(script="backup.sh", no_agent=True, schedule="every 9h", deliver="local")
        with pytest.raises(UserError, match="owner and of admins"):
            await desk.create(wish, bob)
        job = await desk.create(JobSpec(prompt="run pwd", schedule="every 9h", deliver="local"), bob)
        with pytest.raises(UserError, match="owner and of admins"):
            await desk.update(job.id, JobSpec(script="backup.sh", no_agent=True))
        own = await desk.create(wish, None)
        await desk.act(own.id, JobAction.RUN)
        await settled(desk, own.id)
        assert (tmp_path / "taken").exists(), "the owner's does"


async def test_no_name_of_a_session_leads_into_the_folder_of_another(tmp_path: Path, ran: list[Ran]) -> None:
    odd = "carol smith"
    guessed = "task-" + hashlib.sha256(odd.encode()).hexdigest()[:32]
    other = f"cron_{'0' * 12}_x"
    config = "      second: {key: a fourth key that nobody guesses}\n"
    async with Machine(tmp_path, "bubblewrap", config=config) as machine:
        for name in (odd, guessed, other, "s"):
            await machine.ask_api(GUESTS_KEY, name)
        heard = await machine.api.ask(
            "DELETE", "/api/sessions/s", headers={"Authorization": f"Bearer {OWNERS_KEY}"}
        )
        assert heard.status in (200, 204), heard.data
        await machine.ask_api("a fourth key that nobody guesses", "s")
    assert len({each.workspace for each in ran}) == len(ran) == 5, ran


async def test_whoever_writes_to_a_webhook_is_a_stranger(tmp_path: Path, ran: list[Ran]) -> None:
    async with Machine(tmp_path, "bubblewrap") as machine:
        body = b'{"a": 1}'
        mac = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={mac}"}
        heard = await machine.api.ask("POST", "/webhooks/gh", data=body, headers=headers)
        assert heard.status == 202, heard.data
        await machine.result()
    assert ran[0].name == "bubblewrap" and ran[0].network == "none" and ran[0].workspace != machine.own


async def test_a_key_is_an_admins_if_it_has_the_scope(tmp_path: Path, ran: list[Ran]) -> None:
    async with Machine(tmp_path, "bubblewrap") as machine:
        for key in (OWNERS_KEY, ADMINS_KEY, GUESTS_KEY):
            await machine.ask_api(key)
    assert [each.network for each in ran] == ["open", "open", "none"]
    assert [each.workspace == machine.own for each in ran] == [True, True, False]


async def test_a_route_opens_the_network_for_strangers(tmp_path: Path, ran: list[Ran]) -> None:
    config = ROUTED % ", network: [pypi.org]" + "terminal: {network: [a.example]}\n"
    async with Machine(tmp_path, "docker", "bubblewrap", config=config) as machine:
        for number, (person, chat) in enumerate([("bob", "5"), ("bob", "6"), ("ann", "5"), ("ann", "7")], 1):
            machine.world.write("run pwd", user=person, chat=chat)
            await machine.result(number)
    assert [(each.name, each.network) for each in ran] == [
        ("bubblewrap", "pypi.org"),
        ("docker", "none"),
        ("bubblewrap", "pypi.org"),
        ("docker", "a.example"),
    ]


# --- where none does ---


async def test_without_a_sandbox_the_owner_is_asked_for_each_command(tmp_path: Path, ran: list[Ran]) -> None:
    async with Machine(tmp_path) as machine:
        machine.world.write("run pwd", user="ann")
        asked = await machine.asked()
        assert asked.startswith("Run: pwd\nNo sandbox holds commands here, so each is asked for.")
        assert not ran
        machine.world.write("yes", user="ann")
        assert await machine.result() == str(machine.own)
        assert [each.name for each in ran] == ["local"]
        # Whoever sits at the machine is asked for what is dangerous alone.
        await machine.at_terminal(machine.own)
        await machine.result(2)
        assert [each.name for each in ran] == ["local", "local"]


@pytest.mark.parametrize("works", [(), ("landlock",)])
async def test_without_a_sandbox_a_stranger_is_refused(
    tmp_path: Path, ran: list[Ran], works: tuple[str, ...]
) -> None:
    async with Machine(tmp_path, *works) as machine:
        machine.world.write("run pwd", user="bob")
        machine.world.write("run reading /etc/hostname", user="bob", chat="2")
        for number in (1, 2):
            assert (await machine.result(number)).startswith(
                "Commands and files of people who are neither owner nor admin need a sandbox, and none works"
                " on this machine. See what is missing: hermes doctor"
            )
        await machine.ask_api(GUESTS_KEY)
        assert "none works on this machine" in await machine.result(3)
    assert not ran


async def test_the_owners_word_for_local_is_not_the_strangers(tmp_path: Path, ran: list[Ran]) -> None:
    async with Machine(tmp_path, "bubblewrap", config="terminal: {backend: local}\n") as machine:
        machine.world.write("run pwd", user="ann")
        assert await machine.result() == str(machine.own)
        machine.world.write("run pwd", user="bob", chat="2")
        assert "and none is set for them. Set terminal.backend: auto" in await machine.result(2)
    assert [each.name for each in ran] == ["local"]


@pytest.mark.parametrize("config", ["terminal: {backend: bubblewrap}\n", ROUTED % ""])
async def test_a_sandbox_that_cannot_start_is_not_replaced(
    tmp_path: Path, ran: list[Ran], config: str
) -> None:
    async with Machine(tmp_path / "broken", "docker", config=config) as machine:
        machine.world.write("run pwd", user="ann", chat="5")
        assert (await machine.result()).endswith(BROKEN)
        machine.world.write("run pwd", user="bob", chat="5")
        assert (await machine.result(2)).endswith(BROKEN)
    assert not ran


async def test_strangers_do_not_run_in_what_is_weak(tmp_path: Path, ran: list[Ran]) -> None:
    async with Machine(tmp_path, "landlock", config="terminal: {backend: landlock}\n") as machine:
        machine.world.write("run pwd", user="bob")
        assert "the backend landlock does not hold them in well enough" in await machine.result()
        machine.world.write("run pwd", user="ann", chat="2")
        await machine.result(2)
    assert [each.name for each in ran] == ["landlock"]


async def test_a_network_that_nothing_can_limit_is_not_left_open(tmp_path: Path, ran: list[Ran]) -> None:
    async with Machine(tmp_path, config="terminal: {network: none}\n") as machine:
        machine.world.write("run pwd", user="ann")
        assert "The network cannot be limited for commands" in await machine.result()
        await machine.at_terminal(machine.own)
        assert "The network cannot be limited for commands" in await machine.result(2)
    assert not ran


# --- changes ---


async def test_settings_that_change_count_from_the_next_turn_on(tmp_path: Path, ran: list[Ran]) -> None:
    watched = "gateway: {watch_config: true}\n"
    async with Machine(tmp_path, "docker", "bubblewrap", config=watched) as machine:
        machine.world.write("run pwd", user="ann")
        await machine.result()
        for number, (text, backend, name) in enumerate(
            [
                ("terminal: {backend: local}\n", "local", "local"),
                ("terminal: {backend: bubblewrap, network: none}\n", "bubblewrap", "bubblewrap"),
                ("", "auto", "docker"),
            ],
            2,
        ):
            (machine.api.home / "config.yaml").write_text(CONFIG + watched + text)
            await machine.until_set(backend)
            machine.world.write("run pwd", user="ann")
            await machine.result(number)
            assert ran[-1].name == name
    assert [each.network for each in ran] == ["open", "open", "none", "open"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (ROUTED.replace("bubblewrap", "local") % "", "neither owner nor admin may come by this route"),
        ("terminal: {network: [not a host]}\n", "“not a host” is no host"),
        ("terminal: {network: [open, a.example]}\n", "“open” is no host"),
        ("terminal: {backend: local, network: none}\n", "the backend local cannot limit the network"),
        ("terminal: {env_passthrough: [API_SERVER_KEY]}\n", "API_SERVER_KEY holds a credential"),
    ],
)
async def test_what_cannot_be_meant_keeps_it_from_starting(
    tmp_path: Path, ran: list[Ran], config: str, words: str
) -> None:
    with pytest.raises(SettingsError) as error:
        async with Machine(tmp_path, "bubblewrap", config=config):
            pass
    assert words in str(error.value) and error.value.line and error.value.hint


async def test_a_question_does_not_outlive_its_boundary(tmp_path: Path, ran: list[Ran]) -> None:
    """The gateway starts again, and another boundary counts: the answer allows nothing there."""
    danger = "run rm -rf /srv/data"
    async with Machine(tmp_path, "landlock") as machine:
        machine.world.write(danger, user="ann")
        await machine.until(lambda: any("Where: landlock" in text for text in machine.world.seen("1")))
    after = Machine(tmp_path)
    after.world = machine.world
    after.api.accounts = {"fake": fake_platform("edits", machine.world)}
    async with after:
        machine.world.write("always", user="ann")
        assert (await after.result()).startswith("Not done: it would not be what was allowed")
    assert not ran, "it ran where nobody was asked about it"


# --- what a session remembers of its commands ---


async def test_a_script_that_an_earlier_life_wrote_is_read_before_it_runs(
    tmp_path: Path, ran: list[Ran]
) -> None:
    config, world = "terminal: {backend: local}\n", World()
    async with Machine(tmp_path, config=config, world=world) as machine:
        machine.world.write("run printf 'rm -rf ~/documents' > made.sh", user="ann")
        await machine.result()
    async with Machine(tmp_path, config=config, world=world) as machine:
        machine.world.write("run sh made.sh", user="ann")
        assert "deletes" in await machine.asked()
    assert len(ran) == 1


async def test_a_session_hears_once_that_it_works_in_another_world(tmp_path: Path, ran: list[Ran]) -> None:
    texts: list[str] = []
    world = World()
    for works in ("bubblewrap", "docker"):
        async with Machine(tmp_path, works, world=world) as machine:
            for number in (1, 2):
                machine.world.write("run echo done", user="ann")
                texts.append(await machine.result(number))
    moved = texts.pop(2)
    assert texts == ["done"] * 3 and moved.endswith("\ndone")
    assert "another place: docker" in moved and "Before: bubblewrap" in moved
