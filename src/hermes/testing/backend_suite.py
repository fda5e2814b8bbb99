"""What every backend must do, as checks that a backend's own tests run.

    @pytest.mark.parametrize("name", CHECKS)
    async def test_conformance(name, bed):
        await CHECKS[name](bed)

A `Bed` is a backend with a fresh folder in its world. Checks ask that world itself what is left in it, so
they hold wherever commands run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from hermes.domain.errors import HermesError, UserError
from hermes.domain.ports.world import Backend, Command, CommandResult, FileSearch, ProcessView, World

SECRET_NAME = "HERMES_SUITE_SECRET"
SECRET = "the-secret-of-the-suite"
GRANTED_NAME, GRANTED = "HERMES_SUITE_GRANTED", "what the suite grants"
SESSION = "suite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """`folder` is fresh and empty. The environment the backend was made in holds `SECRET_NAME`=`SECRET`, and
    `GRANTED_NAME`=`GRANTED`, which commands may see if it is `granted`. `again` makes the same backend as the
    next gateway would; `kill` ends from outside what runs its commands. What is not given is not checked."""

    backend: Backend
    folder: str
    granted: bool = False
    again: Callable[[], Backend] | None = None
    kill: Callable[[], Awaitable[None]] | None = None

    async def run(self, text: str, *, timeout: float = 30.0, session: str = SESSION) -> CommandResult:
        command = Command(text=text, session=session, timeout=timeout)
        return await self.backend.run(command, lambda words: None)

    async def survivors(self, name: str = "pids") -> list[str]:
        """Which of the processes whose ids stand in the file are still there."""
        path = f"{self.folder}/{name}"
        look = f'for p in $(cat {path}); do kill -0 "$p" 2>/dev/null && echo "$p"; done; true'
        return (await self.run(look, session="look")).output.split()

    async def noted(self, count: int, name: str = "pids") -> None:
        """Wait until so many processes have written down their ids."""
        while len(await self.noted_ids(name)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def noted_ids(self, name: str = "pids") -> list[bytes]:
        path = f"{self.folder}/{name}"
        if await self.backend.files.stat("look", path) is None:
            return []
        return (await self.backend.files.read("look", path)).split()


def _stubborn(folder: str) -> str:
    """A command whose processes use every trick to be left alone: each writes down its id."""
    note = f"echo $BASHPID >> {folder}/pids"
    return "\n".join(
        [
            f"( ( {note}; exec sleep 300 ) & )",
            f"setsid bash -c 'echo $$ >> {folder}/pids; exec sleep 300' &",
            f"( trap '' TERM INT HUP; {note}; while :; do sleep 300; done ) &",
            f"nohup bash -c 'echo $$ >> {folder}/pids; exec sleep 300' >/dev/null 2>&1 &",
            f"setsid bash -c '( trap \"\" TERM; {note}; while :; do sleep 1; done ) &' &",
            "sleep 300",
        ]
    )


TRICKS = 5


async def check_run(bed: Bed) -> None:
    heard: list[str] = []
    result = await bed.backend.run(
        Command(text="echo out; echo err >&2; exit 3", session=SESSION), heard.append
    )
    assert (sorted(result.output.split()), result.code, result.cut) == (["err", "out"], 3, False)
    assert sorted("".join(heard).split()) == ["err", "out"]
    assert (await bed.run("printf 'grüße 🐚'")).output == "grüße 🐚"
    assert (await bed.run("kill -9 $$")).code == 137


async def check_stdin_is_closed(bed: Bed) -> None:
    result = await bed.run("cat; read -r line; echo $?")
    assert (result.output, result.timed_out) == ("1\n", False)


async def check_folder_and_exports_last(bed: Bed) -> None:
    await bed.run(
        f"mkdir -p '{bed.folder}/a b'; cd '{bed.folder}/a b'; export GREETING='it''s \"me\"'; OTHER=1"
    )
    result = await bed.run('pwd; echo "$GREETING/$OTHER"')
    assert result.output == f'{bed.folder}/a b\nits "me"/\n'
    assert await bed.backend.cwd(SESSION) == f"{bed.folder}/a b"
    assert (await bed.run("pwd; echo $GREETING", session="other")).output != result.output
    elsewhere = Command(text="pwd", session=SESSION, cwd="/")
    assert (await bed.backend.run(elsewhere, lambda words: None)).output == "/\n"
    assert (await bed.run("pwd; unset GREETING")).output == f"{bed.folder}/a b\n"
    assert (await bed.run('echo "${GREETING-gone}"')).output == "gone\n"


async def check_a_spoiled_shell_spoils_nothing(bed: Bed) -> None:
    await bed.run(f"cd {bed.folder}; export KEPT=1")
    for spoiler in (
        "exit 7",
        "set -euo pipefail; false",
        "echo 'open",
        "if",
        "kill -9 $$",
        "exec true",
        "set -n",
    ):
        await bed.run(spoiler)
        assert (await bed.run("echo $KEPT; pwd")).output == f"1\n{bed.folder}\n", spoiler
    await bed.run("cd /; export KEPT=2; exit 1")
    assert (await bed.run("echo $KEPT; pwd")).output == "2\n/\n"


async def check_a_timeout_ends_the_tree(bed: Bed) -> None:
    # On a busy machine they may not all have begun before the first time is up.
    for seconds in (1.0, 5.0, 40.0):
        await bed.run(f": > {bed.folder}/pids")
        result = await bed.run(_stubborn(bed.folder), timeout=seconds)
        assert (result.timed_out, result.code) == (True, 124)
        assert await bed.survivors() == []
        if len(await bed.noted_ids()) == TRICKS:
            return
    raise AssertionError("they never all began")


async def check_cancelling_ends_the_tree(bed: Bed) -> None:
    task = asyncio.create_task(bed.run(_stubborn(bed.folder)))
    await bed.noted(TRICKS)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert await bed.survivors() == []


async def check_long_output_is_cut(bed: Bed) -> None:
    result = await bed.run("echo first; seq 1 200000; echo last")
    assert result.cut and result.code == 0
    assert result.output.startswith("first\n1\n2\n") and result.output.endswith("\n200000\nlast\n")
    assert len(result.output) < 100_000
    assert result.saved in result.output
    whole = await bed.backend.files.read(SESSION, result.saved, limit=10 << 20)
    assert whole.splitlines()[100_000] == b"100000"


async def check_no_secrets_in_the_environment(bed: Bed) -> None:
    result = await bed.run(
        "env; cat /proc/$PPID/environ /proc/self/environ 2>/dev/null | tr '\\0' '\\n'; true"
    )
    assert SECRET_NAME not in result.output and SECRET not in result.output
    names = {line.partition("=")[0] for line in (await bed.run("env")).output.splitlines()}
    assert {"PATH", "HOME"} <= names


async def check_what_is_granted_is_there(bed: Bed) -> None:
    told = (await bed.run(f'printf %s "${{{GRANTED_NAME}-none}}"')).output
    assert told == (GRANTED if bed.granted else "none")
    names = {line.partition("=")[0] for line in (await bed.run("env")).output.splitlines()}
    usual = {
        "PATH",
        "HOME",
        "LANG",
        "TERM",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    }
    assert names - usual <= {
        GRANTED_NAME,
        "HOSTNAME",
        "SSH_CLIENT",
        "SSH_CONNECTION",
        "MAIL",
        "HERMES_MARK",
    }, names


async def check_bytes_are_kept(bed: Bed) -> None:
    """As they are in files; an output is text in the end, and says so where it is none."""
    await bed.run(
        f"printf 'a\\000b\\377c\\r\\n' > {bed.folder}/bytes; head -c 100000 /dev/urandom > {bed.folder}/noise"
    )
    assert await bed.backend.files.read(SESSION, f"{bed.folder}/bytes") == b"a\0b\xffc\r\n"
    noise = await bed.backend.files.read(SESSION, f"{bed.folder}/noise")
    await bed.backend.files.write(SESSION, f"{bed.folder}/copy", noise)
    assert (await bed.run(f"cmp {bed.folder}/noise {bed.folder}/copy && echo same")).output == "same\n"
    assert (await bed.run(r"printf 'a\000b\r\n'")).output == "a\0b\r\n"


async def check_a_wrong_folder(bed: Bed) -> None:
    for folder in (f"{bed.folder}/none", "/etc/passwd", "~nobody-here"):
        wrong = Command(text="echo ran", session=SESSION, cwd=folder)
        await _is_refused(bed.backend.run(wrong, lambda words: None))
    await bed.run(f"mkdir {bed.folder}/gone; cd {bed.folder}/gone")
    await bed.run(f"rmdir {bed.folder}/gone", session="other")
    told = await bed.run("pwd")
    assert told.output.endswith(f"{bed.folder}\n") and "is gone" in told.output


async def check_the_next_gateway_goes_on(bed: Bed) -> None:
    if bed.again is None:
        return
    await bed.run(f"cd {bed.folder}; export KEPT=1; echo words > file")
    await bed.backend.close()
    again = Bed(backend=bed.again(), folder=bed.folder)
    await again.backend.open()
    try:
        assert (await again.run("pwd; echo $KEPT; cat file")).output == f"{bed.folder}\n1\nwords\n"
    finally:
        await again.backend.close()


async def check_what_is_killed_from_outside(bed: Bed) -> None:
    if bed.kill is None:
        return
    running = asyncio.create_task(bed.run(f"echo $$ > {bed.folder}/pids; sleep 300"))
    await bed.noted(1)
    await bed.kill()
    await asyncio.wait((running,))
    error = running.exception()
    assert isinstance(error, HermesError) and str(error)
    assert (await bed.run("echo again")).output == "again\n"


async def check_life_in_the_background(bed: Bed) -> None:
    processes, ended = bed.backend.processes, list[ProcessView]()
    order = Command(text="echo ready; read -r line; echo got $line; exit 5", session=SESSION, timeout=0)
    started = await bed.backend.start(order, ended.append)
    assert started.running and [view.id for view in await processes.list(SESSION)] == [started.id]
    seen = ""
    while "ready" not in seen:
        seen += (await processes.poll(SESSION, started.id)).output
    assert (await processes.poll(SESSION, started.id)).output == ""
    await processes.write(SESSION, started.id, b"words\n")
    done = await processes.wait(SESSION, started.id, 30)
    assert (done.running, done.code, done.output) == (False, 5, "got words\n")
    assert [(view.id, view.code) for view in ended] == [(started.id, 5)]
    assert not (await processes.list(SESSION))[0].running
    assert await processes.list("other") == []
    for stranger in (processes.poll("other", started.id), processes.kill(SESSION, "proc_none")):
        await _is_refused(stranger)


async def check_all_that_it_wrote(bed: Bed) -> None:
    processes = bed.backend.processes
    order = Command(text="seq 3; read -r line; seq 60000", session=SESSION, timeout=0)
    started = await bed.backend.start(order, lambda view: None)
    while not (await processes.poll(SESSION, started.id, whole=True)).output.endswith("3\n"):
        pass
    assert (await processes.poll(SESSION, started.id)).output == "1\n2\n3\n"
    whole = await processes.poll(SESSION, started.id, whole=True)
    assert (whole.output, whole.dropped) == ("1\n2\n3\n", 0)
    await processes.write(SESSION, started.id, b"\n")
    done = await processes.wait(SESSION, started.id, 30)
    whole = await processes.poll(SESSION, started.id, whole=True)
    written = 6 + sum(len(f"{number}\n") for number in range(1, 60_001))
    assert whole.output.endswith("60000\n") and whole.dropped + len(whole.output) == written
    assert done.dropped + len(done.output) == written - 6
    assert 100_000 <= len(whole.output) <= 200_000


async def check_what_is_watched_for(bed: Bed) -> None:
    lines = asyncio.Queue[tuple[str, ...]]()
    order = Command(
        text="seq 2; echo 'tea [ready]'; read -r line; seq 60000; echo ready again; sleep 300",
        session=SESSION,
        timeout=0,
        watch=("[ready]", "ready again"),
        wrote=lambda view, found: lines.put_nowait(found),
    )
    started = await bed.backend.start(order, lambda view: None)
    assert await asyncio.wait_for(lines.get(), 60) == ("tea [ready]",)
    await bed.backend.processes.write(SESSION, started.id, b"\n")
    assert await asyncio.wait_for(lines.get(), 60) == ("ready again",)
    seen = (await bed.backend.processes.poll(SESSION, started.id)).output
    assert "60000\nready again\n" in seen, "what was watched is still new to who polls"


async def check_a_terminal(bed: Bed) -> None:
    told = "test -t 0 && test -t 2 && stty size && echo $TERM; exit 3"
    order = Command(text=told, session=SESSION, pty=True, timeout=60)
    try:
        result = await bed.backend.run(order, lambda words: None)
    except UserError as error:
        assert "no Python" in str(error)
        return
    assert (result.output, result.code) == ("40 120\r\nxterm-256color\r\n", 3)
    assert (await bed.run("test -t 1 || echo $TERM")).output == "dumb\n"
    processes = bed.backend.processes
    text = "stty -echo; echo ready; read -r line; echo got $line; cat; sh -c 'echo end; exec sleep 300'"
    started = await bed.backend.start(
        Command(text=text, session=SESSION, pty=True, timeout=0), lambda view: None
    )
    seen = ""
    while "ready" not in seen:
        seen += (await processes.poll(SESSION, started.id)).output
    await processes.write(SESSION, started.id, b"words\n", close=True)
    while "end" not in seen:
        seen += (await processes.poll(SESSION, started.id)).output
    assert seen == "ready\r\ngot words\r\nend\r\n"
    await processes.write(SESSION, started.id, b"\x03")
    done = await processes.wait(SESSION, started.id, 60)
    assert (done.running, done.code) == (False, 130)


async def check_killing_in_the_background(bed: Bed) -> None:
    started = await bed.backend.start(
        Command(text=_stubborn(bed.folder), session=SESSION, timeout=0), lambda view: None
    )
    await bed.noted(TRICKS)
    view = await bed.backend.processes.kill(SESSION, started.id)
    assert not view.running
    assert await bed.survivors() == []


async def check_what_a_command_leaves_behind_is_known(bed: Bed) -> None:
    result = await bed.run(f"sleep 300 & echo $! > {bed.folder}/pids; echo away")
    assert (result.output, result.code) == ("away\n", 0)
    assert [view.id for view in await bed.backend.processes.list(SESSION) if view.running] == [result.left]
    assert len(await bed.survivors()) == 1
    await bed.backend.processes.kill(SESSION, result.left)
    assert await bed.survivors() == []


async def check_files_go_round(bed: Bed) -> None:
    files = bed.backend.files
    for name, data in (
        ("plain.txt", b"hello\n"),
        ("sub/grüße 🐚.txt", "grüße\n".encode()),
        ("binary", bytes(range(256)) * 10),
        ("empty", b""),
        ("large", b"0123456789abcdef" * 200_000),
    ):
        path = f"{bed.folder}/{name}"
        await files.write(SESSION, path, data)
        assert await files.read(SESSION, path, limit=10 << 20) == data
        found = await files.stat(SESSION, path)
        assert found is not None and (found.size, found.folder) == (len(data), False)
    assert await files.read(SESSION, f"{bed.folder}/large", start=16, limit=4) == b"0123"
    assert (await bed.run(f"cat {bed.folder}/plain.txt")).output == "hello\n"
    await bed.run(f"cd {bed.folder}; chmod 751 plain.txt")
    await files.write(SESSION, "plain.txt", b"relative\n")
    found = await files.stat(SESSION, "plain.txt")
    assert found is not None and found.mode == 0o751
    assert (await bed.run("cat plain.txt")).output == "relative\n"
    listed = [view.path.rpartition("/")[2] for view in await files.list(SESSION, ".")]
    assert listed == ["binary", "empty", "large", "plain.txt", "sub"]
    for name, size in (("new", 5), ("new-and-large", 3 << 20)):
        await files.write(SESSION, f"{bed.folder}/modes/{name}", b"x" * size, mode=0o751)
        found = await files.stat(SESSION, f"{bed.folder}/modes/{name}")
        assert found is not None and found.mode == 0o751, "a new file has the mode that it is given"


async def check_what_files_cannot_do(bed: Bed) -> None:
    files = bed.backend.files
    assert await files.stat(SESSION, f"{bed.folder}/none") is None
    await files.write(SESSION, f"{bed.folder}/file", b"x")
    await bed.run(f"mkdir {bed.folder}/closed; echo x > {bed.folder}/closed/a; mkfifo {bed.folder}/pipe")
    for refused in (
        files.read(SESSION, f"{bed.folder}/none"),
        files.read(SESSION, bed.folder),
        files.read(SESSION, f"{bed.folder}/pipe"),
        files.list(SESSION, f"{bed.folder}/none"),
        files.write(SESSION, bed.folder, b"x"),
        files.write(SESSION, f"{bed.folder}/file/below", b"x"),
        files.search(FileSearch(pattern="(", under=bed.folder)),
    ):
        await _is_refused(refused)
    if (await bed.run("id -u")).output.strip() != "0":
        await bed.run(f"chmod 000 {bed.folder}/closed")
        await _is_refused(files.read(SESSION, f"{bed.folder}/closed/a"))
        await bed.run(f"chmod 755 {bed.folder}/closed")


async def check_searching(bed: Bed) -> None:
    files = bed.backend.files
    for name, text in (
        ("a.py", "one\nneedle two\n"),
        ("deep/er/b.py", "x\ny\nNeedle needle\n"),
        (".git/c.py", "needle"),
        ("node_modules/d.py", "needle"),
        ("e.bin", "needle\0"),
        ("out/f.py", "needle"),
        (".gitignore", "out/\n"),
    ):
        await files.write(SESSION, f"{bed.folder}/{name}", text.encode())
    found = await files.search(FileSearch(pattern=r"need\w+", under=bed.folder))
    assert [(one.path[len(bed.folder) + 1 :], one.line, one.text) for one in found.matches] == [
        ("a.py", 2, "needle two"),
        ("deep/er/b.py", 3, "Needle needle"),
    ]
    named = await files.search(FileSearch(pattern="*.py", under=bed.folder, names=True))
    assert [one.path[len(bed.folder) + 1 :] for one in named.matches] == ["a.py", "deep/er/b.py"]
    few = await files.search(FileSearch(pattern="n", under=bed.folder, glob="*.py", limit=1))
    assert (len(few.matches), few.more) == (1, True)
    search = FileSearch(pattern="needle", under=f"{bed.folder}/deep", context=1)
    (shown,) = (await files.search(search)).matches
    assert (shown.before, shown.line, shown.after) == (("y",), 3, ())
    counted = await files.search(FileSearch(pattern="[exy]", under=bed.folder, counted=True))
    assert [(one.path[len(bed.folder) + 1 :], one.count) for one in counted.matches] == [
        ("a.py", 2),
        ("deep/er/b.py", 3),
    ]
    whole = await files.search(FileSearch(pattern="[exy]", under=bed.folder, files=True))
    assert [(one.path[len(bed.folder) + 1 :], one.line) for one in whole.matches] == [
        ("a.py", 0),
        ("deep/er/b.py", 0),
    ]


async def check_its_world(bed: Bed) -> None:
    world = await bed.backend.place("fresh")
    assert isinstance(world, World) and world == await bed.backend.place("other")
    assert (await bed.run("pwd; echo ~", session="fresh")).output == f"{world.workspace}\n{world.home}\n"
    assert await bed.backend.cwd("fresh") == world.workspace
    found = await bed.backend.files.stat("fresh", ".")
    assert found is not None and found.folder and world.shell and world.system


async def check_its_life(bed: Bed) -> None:
    backend = bed.backend
    assert backend.idle() and await backend.health() == ""
    await bed.run(f"cd {bed.folder}; export KEPT=1")
    running = asyncio.create_task(bed.run("sleep 300", session="busy"))
    started = await backend.start(Command(text="sleep 300", session=SESSION, timeout=0), lambda view: None)
    assert not backend.idle()
    running.cancel()
    await asyncio.wait((running,))
    await backend.processes.kill(SESSION, started.id)
    assert backend.idle()
    await backend.close()
    await backend.open()
    assert (await bed.run("pwd; echo $KEPT")).output == f"{bed.folder}\n1\n"


async def check_variables_of_one_command(bed: Bed) -> None:
    for value in ("it's", "$(echo no)", "two\nlines"):
        command = Command(text='printf %s "$GIVEN"', session=SESSION, env={"GIVEN": value})
        assert (await bed.backend.run(command, lambda words: None)).output == value


async def check_output_that_is_not_text(bed: Bed) -> None:
    result = await bed.run(r"printf 'a\377\000b'")
    assert (result.output, result.code) == ("a\ufffd\0b", 0)


async def check_a_flood_stalls_nobody(bed: Bed) -> None:
    flood = asyncio.create_task(bed.run("yes", session="flood", timeout=120))
    quick = (bed.run(f"echo {number}", session=str(number)) for number in range(10))
    assert [result.output for result in await asyncio.gather(*quick)] == [f"{n}\n" for n in range(10)]
    assert not flood.done()
    flood.cancel()
    await asyncio.wait((flood,))


async def check_a_program_calls_the_gateway(bed: Bed) -> None:
    """Where there is no Python it is refused, never run without anybody who listens."""
    heard: list[bytes] = []

    async def answer(line: bytes) -> bytes:
        return b"answer to " + line

    def hear(line: bytes) -> Callable[[], Awaitable[bytes]] | None:
        heard.append(line)
        if line == b"bad":
            raise ValueError
        return None if line == b"note" else partial(answer, line)

    def calling(text: str) -> Command:
        return Command(text=text, session=SESSION, timeout=30.0, hear=hear, given=b"begin\n")

    talk = "read -r a; echo $a >&247; read -r b; echo got $b; echo c >&247; sleep 0.2; echo note >&247"
    try:
        result = await bed.backend.run(calling(talk), lambda words: None)
    except UserError as error:
        assert "Python" in str(error) and (await bed.run("command -v python3")).code != 0
        return
    assert (result.output, result.code) == ("got answer to begin\n", 0)
    assert heard == [b"begin", b"c", b"note"]
    await bed.backend.run(calling("for n in 1 2 3 4 5 6 7 8; do echo $n >&247; done"), lambda words: None)
    assert heard[3:] == [b"%d" % number for number in range(1, 9)]
    assert (await bed.run("echo still here")).output == "still here\n"
    ended = await bed.backend.run(calling("echo bad >&247; sleep 60; echo late"), lambda words: None)
    assert (ended.output, ended.timed_out) == ("", False) and ended.code
    assert (await bed.run("cat; { echo x >&247; } 2>/dev/null || echo closed")).output == "closed\n"


async def check_files_in_pieces(bed: Bed) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(40):
            yield bytes([number]) * 100_000

    files, path = bed.backend.files, f"{bed.folder}/in/pieces"
    await files.write(SESSION, path, pieces())
    found = await files.stat(SESSION, path)
    assert found is not None and found.size == 4_000_000
    assert await files.read(SESSION, path, start=3_900_000, limit=10) == bytes([39]) * 10

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise UserError("there is no more")

    await _is_refused(files.write(SESSION, path, broken()))
    assert (await files.read(SESSION, path, limit=3)) == bytes(3)


async def check_files_are_removed(bed: Bed) -> None:
    files = bed.backend.files
    await files.write(SESSION, f"{bed.folder}/real/file", b"words")
    await bed.run(f"cd {bed.folder}; ln -s real way; ln -s real/file link; mkdir folder")
    await _is_refused(files.write(SESSION, f"{bed.folder}/way/file", None, follow=False))
    await _is_refused(files.write(SESSION, f"{bed.folder}/folder", None))
    await _is_refused(files.write(SESSION, f"{bed.folder}/nothing", None))
    await files.write(SESSION, f"{bed.folder}/link", None)
    assert await files.read(SESSION, f"{bed.folder}/real/file") == b"words", "a link is removed, not its file"
    await files.write(SESSION, f"{bed.folder}/real/file", None, follow=False)
    assert await files.stat(SESSION, f"{bed.folder}/real/file") is None


async def check_links_are_not_followed_unasked(bed: Bed) -> None:
    files = bed.backend.files
    await files.write(SESSION, f"{bed.folder}/real/file", b"words")
    await bed.run(f"cd {bed.folder}; ln -s real way; ln -s real/file link")
    found = await files.stat(SESSION, f"{bed.folder}/way/file")
    assert found is not None and found.path == f"{bed.folder}/real/file"
    assert await files.read(SESSION, found.path, follow=False) == b"words"
    for path in (f"{bed.folder}/way/file", f"{bed.folder}/link"):
        await _is_refused(files.read(SESSION, path, follow=False))
        await _is_refused(files.write(SESSION, path, b"others", follow=False))
    assert await files.read(SESSION, f"{bed.folder}/link") == b"words"
    await files.write(SESSION, found.path, b"new words", follow=False)
    await files.write(SESSION, f"{bed.folder}/new/folder/file", b"x", follow=False)
    assert await files.read(SESSION, f"{bed.folder}/link") == b"new words"
    await files.write(SESSION, f"{bed.folder}/link", b"words")
    assert await files.read(SESSION, found.path) == b"words"


async def _is_refused(asked: Awaitable[object]) -> None:
    try:
        await asked
    except UserError as error:
        assert str(error)
    else:
        raise AssertionError("it was not refused")


CHECKS: dict[str, Callable[[Bed], Awaitable[None]]] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}
