"""A real apptainer for tests. No suite of Debian that we run on has it, so the one of sid runs in a root of
its own beside this system: whoever calls the program enters the mount namespace in which that root is."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.execution.beds import install
from tests.execution.containers import _add_python, _make_root

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_APT = """\
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "{folder}/none";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
"""
_PACKAGES = ("apptainer", "bash", "dash", "coreutils", "mount", "util-linux")
_HOLD = """
mount --make-rprivate / && mount --bind {root} {root} || exit 1
for folder in proc sys dev tmp var/tmp run; do mount --rbind /$folder {root}/$folder || exit 1; done
mkdir -p {root}/old && cd {root} && pivot_root . old && umount -l /old || exit 1
: >{folder}/ready && exec sleep 86400
"""
_ENTER = """#!/bin/sh
exec {folder}/enter -t {holder} -m -r -w -- /usr/bin/apptainer "$@"
"""


class Apptainer:
    """`program` is what an ordinary user calls; `images` are sandbox folders: with Python and without."""

    def __init__(self) -> None:
        if os.geteuid() != 0 or not shutil.which("apt-get") or not Path(_KEYRING).exists():
            pytest.skip("apptainer is fetched and set up by root, from Debian")
        install("busybox-static", "busybox")
        # Not in memory: programs with rights of their own have none there.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="hermes-apptainer-", dir="/var/tmp"))
        folder.chmod(0o755)
        self.program = folder / "apptainer"
        self.images = {name: folder / name for name in ("python", "plain")}
        self._holder: subprocess.Popen[bytes] | None = None
        try:
            self._fetch()
            self._hold()
            self._make_images()
        except BaseException:
            self.close()
            raise

    def run(self, *words: str) -> str:
        environ = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder)}
        done = subprocess.run(
            [str(self.program), *words], env=environ, cwd="/", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _fetch(self) -> None:
        folder, root = self.folder, self.folder / "root"
        for name in ("lists/partial", "cache/archives/partial", "root"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "apt.conf").write_text(_APT.format(folder=folder))
        (folder / "sources.list").write_text(
            f"deb [signed-by={_KEYRING}] http://deb.debian.org/debian sid main\n"
        )
        environ = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}
        for words in (("update", "-q"), ("install", "-y", "-q", "--download-only", *_PACKAGES)):
            done = subprocess.run(
                ["apt-get", *words], env=environ, capture_output=True, timeout=600, check=False
            )
            if done.returncode:
                pytest.skip(f"apptainer cannot be fetched: {done.stderr.decode()[-200:]}")
        for package in sorted((folder / "cache/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            if not (root / name).exists():
                (root / name).symlink_to(f"usr/{name}")
        for name in ("hosts", "passwd", "group", "nsswitch.conf", "localtime", "resolv.conf"):
            with contextlib.suppress(OSError):
                shutil.copy(f"/etc/{name}", root / "etc" / name)
        for name in ("proc", "sys", "dev", "tmp", "var/tmp", "run"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def _hold(self) -> None:
        folder = self.folder
        hold = _HOLD.format(root=folder / "root", folder=folder)
        self._holder = subprocess.Popen(["unshare", "-m", "sh", "-c", hold], cwd="/")
        end = time.monotonic() + 40
        while not (folder / "ready").exists():
            assert self._holder.poll() is None and time.monotonic() < end, "its root cannot be mounted"
            time.sleep(0.02)
        nsenter = shutil.which("nsenter")
        assert nsenter is not None
        shutil.copy(nsenter, folder / "enter")
        # May enter the namespace for an ordinary user: CAP_SYS_CHROOT, CAP_SYS_PTRACE and CAP_SYS_ADMIN.
        rights = struct.pack("<5I", 0x02000001, 1 << 18 | 1 << 19 | 1 << 21, 0, 0, 0)
        os.setxattr(folder / "enter", "security.capability", rights)
        self.program.write_text(_ENTER.format(folder=folder, holder=self._holder.pid))
        for program in (folder / "enter", self.program):
            program.chmod(0o755)

    def _make_images(self) -> None:
        root = self.folder / "made"
        _make_root(root)
        (root / "var/tmp").mkdir(parents=True)
        (root / "etc/group").touch()
        self.run("build", "--sandbox", str(self.images["plain"]), str(root))
        _add_python(root)
        self.run("build", "--sandbox", str(self.images["python"]), str(root))
        shutil.rmtree(root)
