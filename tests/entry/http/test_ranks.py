"""The owner's socket knows what hooks, scripts and agents started, however it hides; each has its rights."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from hermes.domain.ports.world import Command
from hermes.domain.system import process_mark as mark
from hermes.domain.system.hooks import Hook
from hermes.domain.system.process_rank import RIGHTS, Rank
from hermes.entry.http.api import load_resources
from hermes.entry.http.site import owner_socket as peers
from hermes.entry.http.site.endpoint import LOCAL_ROUTES, ROUTES
from hermes.entry.http.site.owner_socket import descent_rank
from hermes.execution.hooks.processes import HookProcesses
from hermes.execution.local.backend import LocalBackend
from hermes.execution.process_tree import descendants
from hermes.execution.scripts import FOLDER, Scripts
from hermes.testing.api import ApiWorld
from hermes.testing.backends import local_backend

# Prints the status and the code of each answer. A `wait` goes on when that file is there.
CLIENT = """
import http.client, json, os, socket, sys, time

def ask(path, method="GET", target="/control/status", body=None):
    line = http.client.HTTPConnection("gateway")
    line.sock = socket.socket(socket.AF_UNIX)
    line.sock.connect(path)
    line.request(method, target, body, {"Content-Type": "application/json"})
    answer = line.getresponse()
    told = answer.read()
    return answer.status, "" if answer.status == 200 else json.loads(told)["error"]["code"]

if __name__ == "__main__":
    path, out, wait = (sys.argv[1:] + ["", ""])[:3]
    while wait and not os.path.exists(wait):
        time.sleep(0.02)
    try:
        told = "%s %s" % ask(path)
    except Exception as error:
        told = repr(error)
    if out:
        with open(out + ".new", "w") as file:
            file.write(told)
        os.rename(out + ".new", out)
    else:
        print(told)
"""
REFUSED = "403 not_the_owner"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.fixture
async def backend(folder: Path) -> AsyncIterator[LocalBackend]:
    made = local_backend(home=folder / "agent", environ=os.environ, workspace=folder / "work")
    yield made
    await made.close()


async def read(path: Path) -> str:
    async with asyncio.timeout(60):
        while True:
            with suppress(FileNotFoundError):
                if told := await asyncio.to_thread(path.read_text):
                    return told.strip()
            await asyncio.sleep(0.02)


async def run(backend: LocalBackend, text: str) -> str:
    return (await backend.run(Command(text=text, session="s"), lambda words: None)).output.strip()


def plain(path: str) -> str:
    """A path that an endpoint takes, with something in place of its parts."""
    return re.sub(r"\{(\w+)(?::(\w*)[^{}]*)?\}", r"\2\1", path)


def client(folder: Path, *more: str) -> str:
    return f"{sys.executable} -I -S {folder}/client.py {folder}/home/gateway.sock {' '.join(more)}"


async def test_a_process_of_the_owner_is_answered(folder: Path) -> None:
    async with ApiWorld(home=folder / "home"):
        asked = await asyncio.create_subprocess_shell(client(folder), stdout=subprocess.PIPE)
        out, _ = await asked.communicate()
        assert out.decode().strip() == "200"


@pytest.mark.parametrize(
    "trick",
    [
        "{client} > {out}",
        "setsid nohup {client} {out} >/dev/null 2>&1 &",
        "(setsid bash -c '{client} {out} & disown' &) ; true",
        "ulimit -Hm unlimited 2>/dev/null; {client} {out}",
        "ulimit -m 10000; {client} {out}",
        "exec -a hermes {client} {out}",
    ],
)
async def test_a_command_of_an_agent_is_refused(folder: Path, backend: LocalBackend, trick: str) -> None:
    out = folder / "out"
    async with ApiWorld(home=folder / "home"):
        await run(backend, trick.format(client=client(folder), out=out))
        assert await read(out) == REFUSED


async def test_every_route_is_closed_to_an_agent(
    folder: Path, backend: LocalBackend, caplog: pytest.LogCaptureFixture
) -> None:
    load_resources()
    wanted = [(route.method, plain(route.path)) for route in (*LOCAL_ROUTES, *ROUTES) if not route.signed]
    (folder / "all.py").write_text(
        f"import sys; sys.path.insert(0, {str(folder)!r}); from client import ask\n"
        f"for method, path in {wanted!r}:\n"
        f"    print(*ask({str(folder / 'home/gateway.sock')!r}, method, path))"
    )
    async with ApiWorld(home=folder / "home"):
        told = await run(backend, f"{sys.executable} -I -S {folder}/all.py")
    assert len(wanted) > 40 and told.splitlines() == [REFUSED] * len(wanted)
    assert "rank=AGENT wanted=POST /control/say" in caplog.text


async def test_what_outlives_its_supervisor_its_runner_and_its_gateway_is_refused(
    folder: Path, backend: LocalBackend
) -> None:
    """It ends whatever would have ended it, loses all its parents so, and asks the next gateway."""
    late = client(folder, f"{folder}/out", f"{folder}/go")
    (folder / "orphan.sh").write_text(
        "runner=$(awk '{print $4}' /proc/$1/stat); kill -9 $runner $1; sleep 0.2\n"
        f"awk '{{print $4}}' /proc/$$/stat > {folder}/parent; exec {late}"
    )
    text = f"setsid bash {folder}/orphan.sh $PPID </dev/null >/dev/null 2>&1 & wait"
    await backend.start(Command(text=text, session="s", timeout=0), lambda view: None)
    assert int(await read(folder / "parent")) not in (os.getpid(), *descendants())
    await backend.close()
    async with ApiWorld(home=folder / "home"):
        (folder / "go").touch()
        assert await read(folder / "out") == REFUSED


async def test_a_process_that_has_gone_is_refused(folder: Path) -> None:
    """It hands its connection on and leaves; its number could be anybody's later."""
    code = (
        "import os, socket, sys\n"
        "line = socket.socket(socket.AF_UNIX); line.set_inheritable(True)\n"
        "first = os.fork()\n"
        "if not first: line.connect(sys.argv[1]); os._exit(0)\n"
        "os.waitpid(first, 0)\n"
        "line.sendall(b'GET /control/status HTTP/1.0\\r\\n\\r\\n')\n"
        "print(b''.join(iter(lambda: line.recv(9999), b'')).decode())"
    )
    async with ApiWorld(home=folder / "home"):
        asked = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, str(folder / "home/gateway.sock"), stdout=subprocess.PIPE
        )
        out, _ = await asked.communicate()
    assert b" 403 " in out.splitlines()[0] and b"cannot be determined" in out


@pytest.mark.parametrize("kind", ["hook", "script"])
async def test_hooks_and_scripts_may_do_what_the_table_says(folder: Path, kind: str) -> None:
    load_resources()
    wanted = [(route.method, plain(route.path)) for route in (*LOCAL_ROUTES, *ROUTES) if not route.signed]
    home = folder / "home"
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); from client import ask\n"
        "def told():\n"
        f"    return [ask({str(home / 'gateway.sock')!r}, method, path)[1]\n"
        f"            for method, path in {wanted!r}]\n"
    )
    async with ApiWorld(home=home):
        if kind == "hook":
            (home / "hooks/one").mkdir(parents=True)
            (home / "hooks/one/handler.py").write_text(f"{code}def handle(event, context): return told()\n")
            hook = Hook(name="one", events=("x",), folder=str(home / "hooks/one"), timeout=60.0)
            processes = HookProcesses(home, os.environ)
            codes = (await processes.call(hook, "x", {})).answer
            await processes.close()
        else:
            (home / FOLDER).mkdir()
            (home / FOLDER / "one.py").write_text(f"{code}import json; print(json.dumps(told()))\n")
            end = await Scripts(home, os.environ).run("one.py", b"", 60)
            codes = json.loads(end.output)
    assert isinstance(codes, list)
    allowed = {f"{m} {p}" for (m, p), code in zip(wanted, codes, strict=True) if code != "not_the_owner"}
    assert allowed == RIGHTS[Rank.HOOK if kind == "hook" else Rank.SCRIPT].routes


def test_nobody_may_speak_as_the_owner() -> None:
    for rights in RIGHTS.values():
        assert not {
            word
            for route in rights.routes
            for word in ("say", "answer", "command", "pairing")
            if word in route
        }
        assert not {"config set", "pairing approve", "chat", "gateway run", "grants revoke"} & rights.commands
    assert not RIGHTS[Rank.AGENT].routes


async def test_the_mark_cannot_be_taken_off(folder: Path, backend: LocalBackend) -> None:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv to leave root behind")
    before = "setpriv --reuid=65534 --regid=65534 --clear-groups " if os.geteuid() == 0 else ""
    told = await run(backend, f"{before}bash -c 'ulimit -Hm unlimited || echo kept; ulimit -Hm'")
    assert "kept" in told and "unlimited" not in told.splitlines()[-1]


def test_where_limits_are_not_told_parents_count(tmp_path: Path) -> None:
    """As on macOS: a process below the runner is an agent's, one below something else a script's."""
    own = os.getpid()
    runner = ["-c", "import subprocess, sys  # from hermes.execution.commands import runner\n"]
    nested = "p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen(
        [sys.executable, runner[0], runner[1] + nested],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as made:
        assert made.stdout is not None
        below = int(made.stdout.readline())
        assert descent_rank(below, own) is Rank.AGENT
        assert descent_rank(below, made.pid) is Rank.SCRIPT
        assert descent_rank(own, below) is Rank.OWNER
        os.killpg(made.pid, signal.SIGKILL)


def test_a_kernel_without_handles_of_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 6.5 the number of the process has to do."""
    monkeypatch.setattr(peers, "_SO_PEERPIDFD", 0x7FFF)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peers.peer_rank(ours) is Rank.OWNER
        for level, rank in ((1, Rank.HOOK), (3, Rank.AGENT), (4, Rank.LIMITED), (99, Rank.LIMITED)):
            monkeypatch.setattr(peers, "lowest_level", lambda pid, level=level: mark.TOP - level)
            assert peers.peer_rank(ours) is rank


@pytest.mark.parametrize("told", [None, "", "Max resident set  soft  hard\n"])
def test_what_cannot_be_read_has_no_rank(monkeypatch: pytest.MonkeyPatch, told: str | None) -> None:
    def read(path: str) -> str:
        if told is None:
            raise PermissionError
        return told

    monkeypatch.setattr(peers, "_read", read)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peers.peer_rank(ours) is None


# --- the command ---------------------------------------------------------------------------------------


def _hermes_in(folder: Path) -> str:
    """The command with everything it could write below a folder, should it not be refused."""
    source = Path(__file__).parents[3] / "src"
    places = f"HERMES_HOME={folder / 'home'} HOME={folder} XDG_STATE_HOME={folder / 'state'}"
    return f"{places} PYTHONPATH={source} {sys.executable} -P -m hermes"


@pytest.mark.parametrize(
    "words",
    [
        "config set approvals.mode off",
        "pairing list",
        "chat -q hello",
        "gateway start",
        "cron list",
        "send -t x y",
    ],
)
async def test_hermes_by_an_agent_does_not_act_as_the_owner(
    folder: Path, backend: LocalBackend, words: str
) -> None:
    home = folder / "home"
    start = _hermes_in(folder)
    told = await run(backend, f"{start} {words}; echo code $?")
    assert (
        f"A command of an agent may not do this: hermes {words.split(' -')[0].split(' approvals')[0]}" in told
    )
    assert "code 1" in told and not home.exists()


@pytest.mark.parametrize("lowered", ["ulimit -m 1000", "ulimit -m 1", "ulimit -m 0"])
async def test_a_lowered_limit_is_no_way_out(folder: Path, backend: LocalBackend, lowered: str) -> None:
    home, source = folder / "home", Path(__file__).parents[3] / "src"
    start = f"HERMES_HOME={home} PYTHONPATH={source} {sys.executable} -P -m hermes"
    told = await run(backend, f"{lowered}; {start} config set approvals.mode off; echo code $?")
    assert "A process with a limit on resident memory may not do this" in told and "code 1" in told
    assert "ulimit -Hm" in told and not home.exists()


async def test_a_gateway_whose_own_limit_was_lowered_takes_nobody_for_the_owner(
    folder: Path, backend: LocalBackend
) -> None:
    """An agent may lower the gateway's limit, and its own to the same: neither makes it the owner."""
    before = resource.getrlimit(resource.RLIMIT_RSS)
    out = folder / "out"
    async with ApiWorld(home=folder / "home"):
        resource.setrlimit(resource.RLIMIT_RSS, (1 << 40, before[1]))
        try:
            await run(backend, f"ulimit -m {1 << 30}; {client(folder)} {out}")
            assert await read(out) == REFUSED
        finally:
            resource.setrlimit(resource.RLIMIT_RSS, before)


async def test_hermes_by_an_agent_may_look(folder: Path, backend: LocalBackend) -> None:
    home = folder / "home"
    start = _hermes_in(folder)
    told = await run(backend, f"{start} config path && {start} status && {start} --version")
    assert str(home) in told and "not running" in told


async def test_hermes_send_by_a_script(folder: Path) -> None:
    home = folder / "home"
    (home / FOLDER).mkdir(parents=True)
    start = _hermes_in(folder)
    (home / FOLDER / "one.sh").write_text(f"{start} send -l; {start} config set approvals.mode off; true")
    async with ApiWorld(home=home):
        end = await Scripts(home, os.environ).run("one.sh", b"", 60)
    assert end.code == 0 and b"No chats yet" in end.output
    assert b"A script of the home may not do this: hermes config set" in end.complaint
