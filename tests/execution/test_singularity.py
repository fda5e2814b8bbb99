"""The backend `apptainer` over real instances of an ordinary user; these tests run as root, and step down."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.ports.world import NO_NETWORK, Boundary
from hermes.domain.settings.settings import TerminalSettings
from hermes.execution.sandboxes.singularity import make_apptainer, make_singularity, probe_singularity
from hermes.testing.backends import backend_request
from tests.execution.apptainer import Apptainer
from tests.execution.test_ordinary_user import NOBODY, as_nobody

pytestmark = pytest.mark.xdist_group("apptainer")  # they look at all the instances of one user
PARTS = Path(__file__).parent / "singularity_checks.py"


@pytest.fixture(scope="module")
def apptainer() -> Iterator[Apptainer]:
    made = Apptainer()
    yield made
    made.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="hermes-inst-"))
    os.chown(made, NOBODY, NOBODY)
    yield made
    shutil.rmtree(made)


def step_down(apptainer: Apptainer, folder: Path, image: str, *parts: str) -> None:
    words = (str(apptainer.program), str(apptainer.images[image]), *parts)
    done = as_nobody(PARTS.read_text(), ":".join(words), folder)
    assert done.returncode == 0, done.stderr[-4000:]
    listed = ["pgrep", "-U", str(NOBODY), "-f", "Apptainer instance"]
    assert subprocess.run(listed, capture_output=True, check=False).stdout == b"", "an instance is left"


@pytest.mark.server
@pytest.mark.root
@pytest.mark.parametrize("image", ["python", "plain"])
def test_conformance(image: str, apptainer: Apptainer, folder: Path) -> None:
    step_down(apptainer, folder, image, "conformance")


@pytest.mark.server
@pytest.mark.root
def test_what_only_it_does(apptainer: Apptainer, folder: Path) -> None:
    step_down(apptainer, folder, "python", "walls", "orphans", "dies", "refused", "hosts", "probed")


async def test_root_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    for make in (make_apptainer, make_singularity):
        backend = make(backend_request(home=tmp_path, workspace=tmp_path / "w", environ=dict(os.environ)))
        assert (await backend.place()).boundary is Boundary.CONTAINER
        with pytest.raises(UserError, match="A gateway that is root cannot use"):
            await backend.open()
        await backend.close()


async def test_where_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr("hermes.execution.sandboxes.singularity._PATH", str(tmp_path))
    found = await probe_singularity({"PATH": str(tmp_path)}, TerminalSettings(singularity_image="x.sif"))
    assert not found.works and found.why == "There is no singularity and no apptainer on this machine."
    request = backend_request(
        home=tmp_path, workspace=tmp_path / "w", environ={"PATH": str(tmp_path)}, network=NO_NETWORK
    )
    with pytest.raises(UserError, match="There is no apptainer on this machine"):
        await make_apptainer(request).open()
