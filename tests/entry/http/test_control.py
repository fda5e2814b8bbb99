"""The owner's socket: who may use it, where it is, what it answers, and that the port knows nothing of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from hermes.admin.process.home_files import GATEWAY, hold_home
from hermes.admin.process.running import RunningGateway, find_running
from hermes.control.people.standing import at_machine, is_trusted
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, TurnId
from hermes.domain.settings.settings import Settings
from hermes.domain.turns.event import Entry, FeedItem, Finished
from hermes.domain.turns.session import owner_of
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace
from hermes.entry.http.api import load_resources
from hermes.entry.http.site.endpoint import LOCAL_ROUTES, ROUTES
from hermes.entry.http.site.owner_socket import bind_socket, listening, socket_places
from hermes.entry.terminal.door import GatewayGone, Presence, SessionChoice, TerminalState
from hermes.entry.terminal.remote import GatewayConnection, enter_remote
from hermes.entry.terminal.served_door import find_session_to_resume, local_caller
from hermes.stream.wire.socket import decode
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder of ours with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="hx-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


async def watched(line: GatewayConnection, turn: Turn, after: int = 0) -> list[FeedItem]:
    door = (await enter_remote(line, SessionChoice(attach=False))).door
    return [seen async for seen in door.watch(turn.id, after)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def test_there_are_routes_for_the_owner_alone() -> None:
    load_resources()
    assert len(LOCAL_ROUTES) >= 12 and all(route.path.startswith("/control/") for route in LOCAL_ROUTES)
    assert not any(route.path.startswith("/control/") for route in ROUTES)


_KEYS = """platforms: {api_server: {keys: {
  phone: {key: another long secret 1, scopes: [chat, sessions]},
  some: {key: another long secret 2, scopes: [admin], agents: [main]}}}}"""


async def test_the_port_knows_the_conversation_of_whoever_may_do_everything(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", config=_KEYS) as api:
        load_resources()
        for route in (route for route in LOCAL_ROUTES if route.attaches):
            path, given = route.path.replace("{turn}", "turn_1").replace("{key}", "k"), {"json": {}}
            for key, status in (("", 401), ("another long secret 1", 403), ("another long secret 2", 403)):
                heard = await api.ask(route.method, path, headers={"Authorization": f"Bearer {key}"}, **given)
                assert heard.status == status, (path, key)


async def test_a_terminal_elsewhere_is_not_at_the_machine(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        terminal = {"folder": "/etc"}
        said = await api.post("/control/say", {"text": "hello", "key": "k1", "terminal": terminal})
        assert said.status == 200
        source = decode(Turn, said.data).source
        assert source is not None and source.folder is None and source.address.chat == "remote"
        assert is_trusted(source, Settings()) and not at_machine(source)
        local = local_caller(MAIN_AGENT, "/etc").source
        assert at_machine(local) and owner_of(local) == owner_of(source)


async def test_the_port_does_not_know_the_rest(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        for path in {route.path for route in LOCAL_ROUTES if not route.attaches}:
            for method in ("GET", "POST", "DELETE", "OPTIONS"):
                heard = await api.ask(method, path.replace("{turn}", "turn_1"))
                assert (heard.status, heard.json["error"]["code"]) == (404, "unknown_url"), path


async def test_the_socket_is_the_owners(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home):
        facts = (home / "gateway.sock").stat()
        assert stat.S_ISSOCK(facts.st_mode) and stat.S_IMODE(facts.st_mode) == 0o600
    assert not (home / "gateway.sock").exists()


@pytest.mark.root
async def test_another_user_is_refused_even_if_the_file_lets_them(short: Path) -> None:
    """A socket that somebody has made open to all by mistake."""
    path = short / "home/gateway.sock"
    code = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "s.sendall(b'GET /control/status HTTP/1.0\\r\\n\\r\\n')\n"
        "print(b''.join(iter(lambda: s.recv(9999), b'')).decode())"
    )
    async with ApiWorld(home=short / "home"):
        for one, mode in ((short, 0o755), (short / "home", 0o755), (path, 0o666)):
            one.chmod(mode)
        asked = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, str(path), stdout=subprocess.PIPE
        )
        out, _ = await asked.communicate()
        assert b" 403 " in out.splitlines()[0] and b"not_the_owner" in out and b"pid" not in out


# --- where it is ---------------------------------------------------------------------------------------


async def test_a_deep_home_has_its_socket_in_the_runtime_folder(tmp_path: Path, short: Path) -> None:
    home = tmp_path / ("deep" * 10) / ("deeper" * 10) / "home"
    environ = {"XDG_RUNTIME_DIR": str(short)}
    async with ApiWorld(home=home, environ=environ):
        made = listening(home, environ)
        assert made is not None and made.parent == short and stat.S_IMODE(made.stat().st_mode) == 0o600
        assert not (home / "gateway.sock").exists()
        async with GatewayConnection(lambda: made) as line:
            turn = await (await enter_remote(line, SessionChoice())).door.say("hello", "k")
            assert isinstance((await watched(line, turn))[-1], Entry)
    assert listening(home, environ) is None and not made.exists()


def test_a_shell_finds_it_where_a_service_put_it(tmp_path: Path, short: Path) -> None:
    """The gateway knew no runtime folder, the shell knows one."""
    home = tmp_path / ("deep" * 30) / "home"
    without, having = (list(socket_places(home, {"XDG_RUNTIME_DIR": one})) for one in ("", str(short)))
    assert set(without) < set(having) and all(len(os.fsencode(path)) <= 107 for path in having)
    too_deep = tmp_path / ("deep" * 40)
    too_deep.mkdir()
    assert list(socket_places(home, {"XDG_RUNTIME_DIR": str(too_deep)})) == without


@pytest.mark.parametrize("trouble", ["open", "link", "foreign"])
def test_a_runtime_folder_that_is_not_ours_is_refused(trouble: str, tmp_path: Path, short: Path) -> None:
    if trouble == "foreign" and os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    home, named = tmp_path / ("deep" * 30) / "home", short / "named"
    home.mkdir(parents=True)
    if trouble == "link":
        (short / "real").mkdir(mode=0o700)
        named.symlink_to(short / "real")
    else:
        named.mkdir(mode=0o700)
    if trouble == "open":
        named.chmod(0o777)
    elif trouble == "foreign":
        os.chown(named, 65534, 65534)
    for use in (bind_socket, listening):
        with pytest.raises(UserError, match="is not for you alone"):
            use(home, {"XDG_RUNTIME_DIR": str(named)})


async def test_without_a_socket_the_gateway_runs_all_the_same(tmp_path: Path, short: Path) -> None:
    home = tmp_path / ("deep" * 30) / "home"
    os.chmod(short, 0o777)
    async with ApiWorld(home=home, environ={"XDG_RUNTIME_DIR": str(short)}) as api:
        assert (await api.get("/health")).status == 200
        assert os.listdir(short) == []


# --- who is found -------------------------------------------------------------------------------------


def test_a_folder_at_the_place_of_the_socket_is_one_sentence_and_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "gateway.sock").mkdir()
    with pytest.raises(UserError, match=r"There is a folder at .*gateway\.sock") as told:
        bind_socket(tmp_path, {})
    assert told.value.hint == "Move it away." and (tmp_path / "gateway.sock").is_dir()


def test_a_stale_file_is_nobody(tmp_path: Path) -> None:
    path, bound = bind_socket(tmp_path, {})
    assert listening(tmp_path, {}) is None, "bound, and nobody listens"
    bound.listen()
    assert listening(tmp_path, {}) == path
    assert find_running(tmp_path, {}) is None, "the lock decides"
    bound.close()
    assert path.exists() and listening(tmp_path, {}) is None
    again, bound = bind_socket(tmp_path, {})
    assert again == path
    bound.close()


def test_a_gateway_that_is_just_starting_is_waited_for_and_then_told_of(tmp_path: Path) -> None:
    with hold_home(tmp_path, GATEWAY):
        with pytest.raises(UserError, match="does not answer yet"):
            find_running(tmp_path, {}, 0.2)
        _, bound = bind_socket(tmp_path, {})
        bound.listen()
        found = find_running(tmp_path, {}, 0.0)
        assert found is not None and found.holder.pid == os.getpid()
        bound.close()
    with (
        hold_home(tmp_path, "hermes sessions list"),
        pytest.raises(UserError, match="Try again when it is done"),
    ):
        find_running(tmp_path, {}, 0.2)


def test_one_that_says_nothing_is_told_of(tmp_path: Path) -> None:
    with hold_home(tmp_path, GATEWAY):
        _, bound = bind_socket(tmp_path, {})
        bound.listen()
        found = find_running(tmp_path, {}, 0.0)
        assert found is not None
        bound.close()
        with pytest.raises(UserError, match="went away before it answered"):
            found.status()


# --- what it answers ----------------------------------------------------------------------------------


async def test_words_with_the_same_key_are_said_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home) as api, GatewayConnection(lambda: home / "gateway.sock") as line:
        door = (await enter_remote(line, SessionChoice())).door
        again = (await enter_remote(line, SessionChoice())).door
        turn = await door.say("hello", "key 1")
        assert (await again.say("hello", "key 1")).id == turn.id
        with pytest.raises(UserError, match="used for another request"):
            await again.say("something else", "key 1")
        assert [type(seen) for seen in await watched(line, turn)][-1] is Entry
        assert len(await api.app.gateway.read(MAIN_AGENT, lambda tx: tx.sessions.find(""))) == 1


async def test_a_turn_is_watched_from_any_record_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home), GatewayConnection(lambda: home / "gateway.sock") as line:
        door = (await enter_remote(line, SessionChoice())).door
        turn = await door.say("hello", "k")
        seen = [one for one in await watched(line, turn) if isinstance(one, Entry)]
        assert isinstance(seen[-1].record, Finished) and [one.seq for one in seen] == [1, 2, 3]
        assert await watched(line, turn, after=2) == seen[2:]
        with pytest.raises(UserError, match="There is no such run"):
            [one async for one in door.watch(TurnId("turn_nosuch"), 0)]


async def test_turns_that_nobody_said_are_heard_of(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home) as api, GatewayConnection(lambda: home / "gateway.sock") as line:
        heard: asyncio.Queue[Turn] = asyncio.Queue()
        line.follow = heard.put_nowait
        session = (await (await enter_remote(line, SessionChoice())).door.say("hello", "k")).session
        woken = await api.app.gateway.wake(MAIN_AGENT, session, "[it is done]")
        assert woken is not None and (await heard.get()).id == woken.id


async def test_a_gateway_that_does_not_come_back_is_given_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    hold = asyncio.Event()
    heard: list[Presence] = []
    model = ScriptedModel(lambda request: Say(text="never", hold=hold))
    async with ApiWorld(home=home, provider=model) as api:
        async with GatewayConnection(lambda: home / "gateway.sock", patience=0.3) as line:
            line.hear = lambda presence, words: heard.append(presence)
            door = (await enter_remote(line, SessionChoice())).door
            turn = await door.say("hello", "k")
            await api.__aexit__()
            with pytest.raises(GatewayGone, match="did not come back"):
                [one async for one in door.watch(turn.id, 0)]
            with pytest.raises(GatewayGone, match="this was not done"):
                await door.say("more", "k2")
            assert heard == [Presence.AWAY, Presence.LOST]


@pytest.mark.parametrize("mended", [False, True])
async def test_what_cannot_start_again_is_waited_for_like_any_other(tmp_path: Path, mended: bool) -> None:
    """The reason is told once, and there is time to mend it; who watches hears of it in the same way."""
    home = tmp_path / "home"
    heard: list[tuple[Presence, str]] = []
    broken = False

    def locate() -> Path:
        if broken:
            raise UserError("config.yaml:1: wrong.")
        return home / "gateway.sock"

    async with ApiWorld(home=home) as api:
        async with GatewayConnection(locate, patience=10 if mended else 0.5) as line:
            line.hear = lambda presence, words: heard.append((presence, words))
            door = (await enter_remote(line, SessionChoice())).door
            turn = await door.say("hello", "k")
            await rest(api, [turn])
            broken = True
            await api.__aexit__()
            await until(lambda: (Presence.AWAY, "config.yaml:1: wrong.") in heard)
            if mended:
                async with ApiWorld(home=home):
                    broken = False
                    assert [one async for one in door.watch(turn.id, 0)]
                    await until(lambda: heard[-1][0] is Presence.HERE)
            else:
                with pytest.raises(GatewayGone, match="did not come back"):
                    [one async for one in door.watch(turn.id, 0)]
                assert heard[-1] == (Presence.LOST, str(Presence.LOST))
            assert [words for _, words in heard].count("config.yaml:1: wrong.") == 1


async def test_what_another_terminal_watches_is_not_joined(tmp_path: Path) -> None:
    home = tmp_path / "home"
    hold = asyncio.Event()
    model = ScriptedModel(lambda request: Say(text="later", hold=hold))
    async with (
        ApiWorld(home=home, provider=model) as api,
        GatewayConnection(lambda: home / "gateway.sock") as line,
    ):
        turn = await (await enter_remote(line, SessionChoice())).door.say("hello", "k")
        found = await find_session_to_resume(api.app.gateway, local_caller(), SessionChoice())
        assert [one.id for one in found.turns] == [turn.id]
        watching = asyncio.create_task(watched(line, turn))
        await until(lambda: api.app.gateway.feeds.is_watched(turn.id))
        assert (await enter_remote(line, SessionChoice())).turns == ()
        hold.set()
        seen = await watching
        assert isinstance(seen[-1], Entry) and isinstance(seen[-1].record, Finished)


async def rest(api: ApiWorld, turns: list[Turn]) -> None:
    """Until all are finished; watched from inside, so that no terminal has seen them."""
    for turn in turns:
        [one async for one in api.app.gateway.watch(MAIN_AGENT, turn.id, 0)]


async def test_what_was_finished_unwatched_is_shown_in_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        ApiWorld(home=home, provider=ScriptedModel(lambda request: Say(text="done"))) as api,
        GatewayConnection(lambda: home / "gateway.sock") as line,
    ):
        there, here = (
            SessionChoice(terminal=TerminalState(folder=str(tmp_path / name))) for name in ("proj", "p2")
        )
        door = (await enter_remote(line, there)).door
        turns = [await door.say("hello", "k"), await door.say("and then", "k2")]
        await rest(api, turns)
        visit = await enter_remote(line, here)
        assert (visit.session, visit.turns, visit.elsewhere) == (None, (), ())
        # What is said from here in that session is still of its folder.
        visit = await enter_remote(line, replace(here, named=turns[0].session))
        turns.append(await visit.door.say("from elsewhere", "k3"))
        await rest(api, turns)
        assert (await enter_remote(line, here)).turns == ()
        visit = await enter_remote(line, there)
        assert [turn.id for turn in visit.turns] == [turns[-1].id]


async def test_a_session_at_work_is_stopped_and_deleted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    model = ScriptedModel(lambda request: Say(text="later", hold=asyncio.Event()))
    async with ApiWorld(home=home, provider=model), GatewayConnection(lambda: home / "gateway.sock") as line:
        door = (await enter_remote(line, SessionChoice())).door
        turn = await door.say("hello", "k")
        path, query = "http://gateway/control/session", {"agent": "main", "name": turn.session}
        connector = aiohttp.UnixConnector(str(home / "gateway.sock"))
        async with aiohttp.ClientSession(connector=connector) as http:
            async with http.delete(path, params=query) as response:
                assert response.status == 200
            async with http.get(path, params=query) as response:
                assert await response.json() == []
            async with http.get(path, params={**query, "agent": "nobody"}) as response:
                assert response.status == 404
        with pytest.raises(UserError, match="There is no session"):
            await door.say("more", "k2")


async def test_status_counts_what_is_unfinished(tmp_path: Path) -> None:
    home = tmp_path / "home"
    hold = asyncio.Event()
    model = ScriptedModel(lambda request: Say(text="later", hold=hold))
    home.mkdir()
    with hold_home(home, GATEWAY):
        async with (
            ApiWorld(home=home, provider=model) as api,
            GatewayConnection(lambda: home / "gateway.sock") as line,
        ):
            turn = await (await enter_remote(line, SessionChoice())).door.say("hello", "k")
            await until(lambda: bool(model.requests))
            found = find_running(home, {})
            assert isinstance(found, RunningGateway)
            told = await asyncio.to_thread(found.status)
            assert told["turns"] == {"running": 1} and told["outbox"] == {} and told["open_streams"] == 1
            assert told["facts"]["api"] == api.address and told["pid"] == os.getpid()
            hold.set()
            await watched(line, turn)
            assert (await api.app.gateway.open_work()).turns == {}


def test_making_the_socket_leaves_the_rights_of_other_files_alone(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The umask is the whole process's: a folder that another thread makes meanwhile would be closed."""
    monkeypatch.setattr(os, "umask", lambda mode: pytest.fail("the umask was changed"))
    path, bound = bind_socket(short, {})
    with bound:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and os.listdir(short) == ["gateway.sock"]
        bound.listen()
        assert listening(short, {}) == path


async def test_the_owner_hears_what_happens_and_reads_no_words(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home) as api:
        connector = aiohttp.UnixConnector(str(home / "gateway.sock"))
        async with aiohttp.ClientSession(connector=connector) as http:
            async with http.get("http://gateway/control/happenings") as heard:
                assert heard.status == 200
                assert (await heard.content.readuntil(b"\n\n")).startswith(b"event: hello")
                words = {"model": "main", "messages": [{"role": "user", "content": "a secret word"}]}
                assert (await api.post("/v1/chat/completions", words)).status == 200
                text = b""
                async with asyncio.timeout(60):
                    while b"event: TurnEnded" not in text:
                        text += await heard.content.readuntil(b"\n\n")
    names = [line.removeprefix("event: ") for line in text.decode().splitlines() if line.startswith("event")]
    assert names.index("TurnBegan") < names.index("TurnEnded") and "SessionBegan" in names
    assert '"state":"done"' in text.decode() and "secret" not in text.decode()
