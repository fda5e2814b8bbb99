"""Real containers for tests: podman from Debian, and images made here from the programs of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import pytest

from tests.execution.beds import install

PYTHON_IMAGE = "localhost/hermes/python:1"
PLAIN_IMAGE = "localhost/hermes/plain:1"
# What podman needs where the kernel's old and new control groups are mixed and no limit may be raised.
_WRAPPER = """#!/bin/sh
exec podman --root {folder}/storage --runroot {folder}/run --tmpdir {folder}/tmp --runtime runc \\
  --cgroup-manager cgroupfs --storage-driver overlay "$@"
"""
EXTRA_ARGS = ("--ulimit", "nofile=1024:4096", "--ulimit", "nproc=512:512")


class Podman:
    """An engine with a storage of its own, and two images: with Python and without."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            pytest.skip("containers are run by root here")
        for package, program in (("podman", "podman"), ("runc", "runc"), ("busybox-static", "busybox")):
            install(package, program)
        # Its paths may not be longer than 50 characters, so pytest's own folders are too deep.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="hermes-pod-"))
        self.binary = folder / "podman"
        for name in ("storage", "run", "tmp"):
            (folder / name).mkdir()
        self.binary.write_text(_WRAPPER.format(folder=folder))
        self.binary.chmod(0o755)
        root = folder / "root"
        _make_root(root)
        self._import(root, PLAIN_IMAGE)
        _add_python(root)
        self._import(root, PYTHON_IMAGE)
        shutil.rmtree(root)

    def run(self, *words: str) -> str:
        done = subprocess.run([str(self.binary), *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        for words in (("rm", "-af", "-t", "0"), ("rmi", "-af")):
            subprocess.run([str(self.binary), *words], capture_output=True, check=False)
        subprocess.run(["umount", str(self.folder / "storage" / "overlay")], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _import(self, root: Path, image: str) -> None:
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
            command = [str(self.binary), "import", "-", image]
            done = subprocess.run(command, stdin=tar.stdout, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _make_root(root: Path) -> None:
    for name in ("bin", "etc", "proc", "dev", "sys", "tmp", "root", "home", "workspace"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin/busybox")
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    for name in ("bash", "nohup"):  # of which Debian's busybox has none
        program = shutil.which(name)
        assert program is not None
        (root / "bin" / name).unlink(missing_ok=True)
        shutil.copy(program, root / "bin" / name)
        _copy_libraries(root, Path(program))
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")


def _add_python(root: Path) -> None:
    """The interpreter that runs this, at the same place, with what the far end imports."""
    program = Path(sysconfig.get_config_var("BINDIR")) / f"python{sysconfig.get_python_version()}"
    place = root / str(program).lstrip("/")
    place.parent.mkdir(parents=True)
    shutil.copy(program, place)
    (root / "bin/python3").symlink_to(program)
    _copy_libraries(root, program)
    library = Path(sysconfig.get_paths()["stdlib"])
    kept = shutil.ignore_patterns("test", "site-packages", "__pycache__", "idlelib", "ensurepip", "config-*")
    shutil.copytree(library, root / str(library).lstrip("/"), ignore=kept, symlinks=True)
    for module in (library / "lib-dynload").glob("*.so"):
        if module.name.startswith(("_ctypes.", "select.", "_posixsubprocess.", "zlib.", "_socket.", "_ssl.")):
            _copy_libraries(root, module)


def _copy_libraries(root: Path, program: Path) -> None:
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    for word in told.split():
        if word.startswith("/"):
            place = root / word.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copy(word, place)
