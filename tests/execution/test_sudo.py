"""sudo with a password: by the real one, as an ordinary user who has files of the system of their own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.execution.commands import askpass
from tests.execution.beds import install

ROOT = Path(__file__).parents[2]
PASSWORD = "pw-Rr7 'x\"$(id)"
USER = 4711
STEPS = """
import asyncio, os, sys
from pathlib import Path
from hermes.domain.ports.world import Command
from tests.execution.beds import make_bed

PASSWORD = sys.stdin.readline().rstrip()

async def main(kind, folder):
    bed = make_bed(kind, folder)
    await bed.backend.open()
    asked = []
    answers = []

    async def password(wrong):
        asked.append(wrong)
        return answers.pop(0)

    async def run(text, *given, **more):
        answers[:], asked[:] = given, []
        command = Command(text=text, password=password, timeout=60, **more)
        return await bed.backend.run(command, lambda words: None)

    done = await run("sudo id -u; sudo -k", PASSWORD)
    assert (done.output, done.code, asked) == ("0\\n", 0, [0]), (done, asked)
    # It keeps its standard input, and works in pipes, subshells and functions.
    done = await run("f() { sudo cat; }; (echo words | f)", PASSWORD)
    assert (done.output, asked) == ("words\\n", [0]), (done, asked)
    # What is allowed without a password asks nobody.
    done = await run("sudo true && echo fine")
    assert (done.output, asked) == ("fine\\n", []), (done, asked)
    # A wrong one is asked for again; none at all ends it.
    done = await run("sudo id -u", "wrong", PASSWORD)
    assert done.output.endswith("0\\n") and asked == [0, 1], (done, asked)
    done = await run("sudo id -u", "")
    assert done.code and asked == [0] and "0\\n" not in done.output, (done, asked)
    # Nothing of it is left for others: no variable, argument, function or file.
    look = "grep -aslF -e 'pw-''Rr7' /proc/[0-9]*/cmdline /proc/[0-9]*/environ"
    look += "; grep -rsl 'pw-''Rr7' /tmp; export -p | grep -c 'pw-''Rr7'"
    done = await run(f"sudo id -u; {look}", PASSWORD)
    assert done.output == "0\\n0\\n", done
    plain = await bed.backend.run(Command(text="declare -f sudo; echo [$SUDO_ASKPASS]"), lambda words: None)
    assert plain.output == "[]\\n", plain
    # Whoever is no child of sudo gets none, however it asks.
    thief = "helper=$(declare -f sudo | grep -o '[^=]*/ask'); $helper; echo code $?; sudo() { :; }"
    done = await run(thief, PASSWORD)
    assert "code 1" in done.output and asked == [], (done, asked)
    # Nobody waits for an answer longer than the command lasts.
    slow = asyncio.Event()

    async def never(wrong):
        await slow.wait()
        return ""

    command = Command(text="sudo id -u", password=never, timeout=2)
    done = await bed.backend.run(command, lambda words: None)
    assert done.timed_out, done
    await bed.backend.close()
    assert not [name for name in os.listdir("/tmp") if name.startswith(".hermes-")]

folder = Path(sys.argv[2])
asyncio.run(main(sys.argv[1], folder))
"""
VIEW = """
set -e
mount --bind "$4" /mnt  # the checkout may be below /tmp
mount -t tmpfs none /tmp -o mode=1777
mkdir -p "$4"; mount --bind /mnt "$4"
mount -t tmpfs none /var/lib/sudo
mount -t tmpfs none /run/sudo 2>/dev/null || :
for name in passwd shadow group sudoers; do mount --bind "$1/$name" /etc/$name; done
mkdir /tmp/person; chown 4711 /tmp/person
export HOME=/tmp/person TMPDIR=/tmp
exec setpriv --reuid 4711 --regid 4711 --clear-groups /usr/bin/python3 -W error -c "$2" "$3" /tmp/person
"""


@pytest.fixture
def etc() -> Iterator[Path]:
    install("sudo", "sudo")
    folder = Path(tempfile.mkdtemp(prefix="hermes-sudo-"))
    for name in ("passwd", "shadow", "group"):
        shutil.copy(f"/etc/{name}", folder / name)
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=PASSWORD, capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = {
        "passwd": f"person:x:{USER}:{USER}::/tmp/person:/bin/bash",
        "shadow": f"person:{hashed}:19000:0:99999:7:::",
        "group": f"person:x:{USER}:",
    }
    for name, line in lines.items():
        with (folder / name).open("a") as file:
            file.write(f"{line}\n")
    (folder / "sudoers").write_text(
        "Defaults env_reset, lecture=never, timestamp_timeout=0\n"
        "root ALL=(ALL:ALL) ALL\nperson ALL=(ALL) ALL\nperson ALL=(ALL) NOPASSWD: /bin/true, /usr/bin/true\n"
    )
    (folder / "sudoers").chmod(0o440)
    (folder / "shadow").chmod(0o640)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.root
@pytest.mark.server
@pytest.mark.parametrize("kind", ["local", "far"])
def test_the_real_one(kind: str, etc: Path) -> None:
    """`far` is what the backend ssh runs on the other machine."""
    look = f"import sys, msgspec, regex; assert sys.version_info[:2] == {sys.version_info[:2]}"
    paths = f"{ROOT}/src:{sysconfig.get_path('purelib')}:{ROOT}"
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": paths, "LANG": "C.UTF-8"}
    as_other = ["setpriv", f"--reuid={USER}", "--clear-groups", "/usr/bin/python3", "-c", look]
    if subprocess.run(as_other, env=environ, capture_output=True, check=False).returncode:
        pytest.skip("no Python that another user can start has our packages")
    argv = ["unshare", "-m", "sh", "-c", VIEW, "sh", str(etc), STEPS, kind, str(ROOT)]
    done = subprocess.run(
        argv, env=environ, cwd="/", input=PASSWORD, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_the_door(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(askpass, "hide_memory", lambda: None)
    monkeypatch.setattr(askpass.tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    door = askpass.PasswordDoor()
    helper = subprocess.Popen([tmp_path / "ask"], stdout=subprocess.PIPE)
    while not door.greet() and helper.poll() is None:
        pass
    assert helper.communicate()[0] == b"" and helper.returncode == 1, "it is no child of sudo"
    monkeypatch.setattr(askpass, "_is_of_sudo", lambda guest: True)
    helper = subprocess.Popen([tmp_path / "ask"], stdout=subprocess.PIPE)
    while not door.greet():
        pass
    door.give(PASSWORD.encode())
    assert helper.communicate()[0] == f"{PASSWORD}\n".encode() and door.asked == 1
    assert PASSWORD not in (tmp_path / "ask").read_text() and PASSWORD.encode() not in door.shell_code
    assert (tmp_path / "ask").stat().st_mode & 0o777 == 0o700
    door.close()
    assert not tmp_path.exists()
    with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as late:
        late.connect(str(tmp_path / "door"))
