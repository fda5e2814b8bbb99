"""`tools/prepare.sh` with a `uv` that only writes down what it was asked for, and real installations of
Hermes: by `./hermes` and by pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_UV = """#!/bin/sh
[ "$1" = --version ] && exit 0
configured=yes
for word; do
    [ "$last" != --python ] || python=$word
    [ "$word" != --no-config ] || configured=no
    last=$word
done
echo "${last##*/}" >>"$ASKED"
[ "${last##*/}" != "$BROKEN" ] || { echo "error: no network" >&2; exit 1; }
[ "$configured" = no ] || [ ! -f uv.toml ] || exit 0 # its packages go to the `target` of that file
[ -z "$MISPLACED" ] || exit 0
"$python" -I -c 'import pathlib, re, sys, sysconfig
for name in re.findall(r"^([\\w.-]+)==", pathlib.Path(sys.argv[1]).read_text(), re.M):
    facts = pathlib.Path(sysconfig.get_path("purelib")) / f"{name}-1.dist-info"
    facts.mkdir(exist_ok=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n")' "$last"
"""


def _offline(folder: Path) -> dict[str, str]:
    """Nothing can be had, from wherever a machine has it otherwise."""
    nothing = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": str(folder / "empty")}
    return {**nothing, "PIP_EXTRA_INDEX_URL": "", "UV_OFFLINE": "1", "UV_NO_CACHE": "1"}


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.asked = folder / "asked"
        for name in ("hermes", "pyproject.toml", "requirements.lock", "tools/prepare.sh", "tools/link.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        package = self.root / "src/hermes"
        (package / "admin/extras").mkdir(parents=True)
        for name in ("email", "matrix"):
            shutil.copy(ROOT / f"src/hermes/admin/extras/{name}.lock", package / "admin/extras")
        (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
        (package / "__main__.py").write_text('print("it runs")\n')
        uv = folder / "bin/uv"
        uv.parent.mkdir()
        uv.write_text(_UV)
        uv.chmod(0o755)
        path = f"{uv.parent}:{os.environ['PATH']}"
        self.environ = {"PATH": path, "HERMES_PYTHON": sys.executable, "ASKED": str(self.asked)}

    def start(self, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        self.asked.write_text("")
        environ = {**self.environ, **_offline(self.root), "HOME": str(self.root.parent), **more}
        return subprocess.run([self.root / "hermes"], env=environ, cwd=cwd, capture_output=True, text=True)

    def run(self, broken: str = "", cwd: Path | None = None) -> tuple[list[str], str]:
        """What was installed for one start, and what it told."""
        done = self.start(cwd, BROKEN=broken)
        assert done.returncode == 0 and done.stdout == "it runs\n", done.stderr
        return self.asked.read_text().split(), done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_an_environment_that_is_made_again_has_its_extras(checkout: Checkout) -> None:
    assert checkout.run()[0] == ["requirements.lock"]
    assert checkout.run() == ([], "")
    (checkout.root / ".venv.extras").write_text("email\nnone-of-ours\n")
    installed, told = checkout.run()
    assert installed == ["email.lock"] and "Installing the packages for email" in told
    assert checkout.run() == ([], "")
    with (checkout.root / "src/hermes/admin/extras/email.lock").open("a") as lock:
        lock.write("# another\n")
    assert checkout.run()[0] == ["email.lock"], "the extra is pinned anew"
    shutil.rmtree(checkout.root / ".venv")
    assert checkout.run()[0] == ["requirements.lock", "email.lock"]


def test_an_extra_that_cannot_be_installed_keeps_nobody_from_the_rest(checkout: Checkout) -> None:
    (checkout.root / ".venv.extras").write_text("matrix\nemail\n")
    installed, told = checkout.run(broken="matrix.lock")
    assert installed == ["requirements.lock", "matrix.lock", "email.lock"]
    assert "hermes platforms install matrix" in told and "no network" in told
    assert checkout.run(broken="matrix.lock") == ([], ""), "it is not tried at every start"


def test_the_uv_settings_of_a_project_lead_no_package_elsewhere(checkout: Checkout, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "uv.toml").write_text('[pip]\ntarget = "elsewhere"\n')
    (checkout.root / ".venv.extras").write_text("email\n")
    assert checkout.run(cwd=project)[0] == ["requirements.lock", "email.lock"]
    for name in ("aiohttp", "aiosmtplib"):
        assert list(checkout.root.glob(f".venv/lib/*/site-packages/{name}-*.dist-info")), name


def test_an_environment_without_its_packages_is_not_ready(checkout: Checkout) -> None:
    """Whatever led the installer elsewhere: it says that all is well."""
    done = checkout.start(MISPLACED="1")
    assert done.returncode == 1 and "could not be installed" in done.stderr
    assert "aiohttp" in (checkout.root / ".venv.hermes-new/setup.log").read_text()
    assert not (checkout.root / ".venv").exists()
    assert checkout.run()[0] == ["requirements.lock"], "the next start makes it again"
    assert not (checkout.root / ".venv.hermes-new").exists()


def test_packages_that_cannot_be_had_cost_nobody_the_old_ones(checkout: Checkout) -> None:
    checkout.run()
    lock, venv = checkout.root / "requirements.lock", checkout.root / ".venv"
    before, old = sorted(venv.rglob("*")), lock.read_text()
    lock.write_text(old + "# another\n")
    done = checkout.start(BROKEN="requirements.lock")
    assert done.returncode == 1 and "could not be installed" in done.stderr
    assert sorted(venv.rglob("*")) == before, "a gateway that runs from it goes on"
    lock.write_text(old)
    assert checkout.run() == ([], ""), "the old version starts as if nothing had been"
    lock.write_text(old + "# another\n")
    (checkout.root / ".venv.extras").write_text("email\n")
    assert checkout.run()[0] == ["requirements.lock", "email.lock"]
    for script in (path for path in (venv / "bin").iterdir() if path.is_file() and not path.is_symlink()):
        assert b"hermes-new" not in script.read_bytes(), script
    done = subprocess.run([venv / "bin/hermes"], capture_output=True, text=True)
    assert done.stdout == "it runs\n", done
    assert {path.name for path in checkout.root.glob(".venv*")} == {".venv", ".venv.extras", ".venv.lock"}


def test_an_exchange_that_was_cut_off_is_taken_back(checkout: Checkout) -> None:
    checkout.run()
    (checkout.root / ".venv").rename(checkout.root / ".venv.hermes-old")
    assert checkout.run() == ([], "")


# --- real installations ----------------------------------------------------------------------------


def _copy(folder: Path) -> Path:
    """The checkout without what it does not need."""
    skipped = shutil.ignore_patterns(".venv*", ".git", "tests", "bench", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=skipped)
    return folder


def _run(*command: str | Path, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ = {**kept, "HERMES_HOME": str(home), "HERMES_NO_PROBE": "1", **more}
    return subprocess.run(command, env=environ, capture_output=True, text=True, cwd=home.parent)


@pytest.mark.slow
def test_packages_of_a_platform_come_into_the_environment_of_a_checkout(tmp_path: Path) -> None:
    root, home, venv = _copy(tmp_path / "checkout"), tmp_path / "home", tmp_path / "checkout/.venv"
    imported = [str(venv / "bin/python"), "-c", "import aiosmtplib"]
    assert _run(root / "hermes", "--version", home=home).returncode == 0
    assert _run(*imported, home=home).returncode == 1
    refused = _run(root / "hermes", "platforms", "install", "email", home=home, **_offline(tmp_path))
    assert refused.returncode == 1 and "Check the network" in refused.stderr
    assert "Traceback" not in refused.stderr and _run(*imported, home=home).returncode == 1
    assert (tmp_path / "checkout/.venv.extras").read_text() == ""
    installed = _run(root / "hermes", "platforms", "install", "email", home=home)
    assert installed.returncode == 0 and "Installed: aiosmtplib" in installed.stdout, installed.stderr
    assert _run(*imported, home=home).returncode == 0
    shutil.rmtree(venv)
    assert _run(root / "hermes", "--version", home=home).returncode == 0
    assert _run(*imported, home=home).returncode == 0, "the extra is there again"


@pytest.mark.slow
def test_pip_installs_a_checkout_and_what_a_platform_needs(tmp_path: Path) -> None:
    root, home, venv = _copy(tmp_path / "checkout"), tmp_path / "home", tmp_path / "own"
    python = str(venv / "bin/python")
    assert _run(sys.executable, "-m", "venv", venv, home=home).returncode == 0
    made = _run(python, "-m", "pip", "install", "--quiet", root, home=home)
    assert made.returncode == 0, made.stderr
    program = tmp_path / "program.py"
    asking = "with AIAgent('demo', quiet_mode=True) as agent:\n    print(agent.chat('hello'))\n"
    program.write_text(f"from hermes import AIAgent\n{asking}")
    done = _run(python, str(program), home=home)
    assert done.returncode == 0 and "demo" in done.stdout, done.stderr
    hermes = str(venv / "bin/hermes")
    refused = _run(hermes, "platforms", "install", "email", home=home, **_offline(tmp_path))
    assert refused.returncode == 1 and "hermes platforms install email" in refused.stderr
    assert "No matching distribution" in refused.stderr and "Traceback" not in refused.stderr
    installed = _run(hermes, "platforms", "install", "email", home=home)
    assert installed.returncode == 0 and "Installed: aiosmtplib" in installed.stdout, installed.stderr
    assert "are installed" in _run(hermes, "platforms", "install", "email", home=home).stdout
    assert "no further packages" in _run(hermes, "platforms", "install", "telegram", home=home).stdout
