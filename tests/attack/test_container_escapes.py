"""Every way out of a container that we know, tried in a real one: none may succeed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hermes.domain.word import replace
from hermes.execution.sandboxes.container import make_podman
from hermes.testing.backend_suite import Bed
from tests.attack.escapes import ATTEMPTS
from tests.attack.test_escapes import MARK, Outside, _file_tools_stay_inside, escapes
from tests.attack.test_escapes import outside as outside
from tests.execution.containers import Podman
from tests.execution.test_container import request_for

pytestmark = [pytest.mark.server, pytest.mark.root]


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    engine = Podman()
    yield engine
    engine.close()


@pytest.mark.parametrize("user", [0, 1000])
async def test_no_way_leads_out_of_a_container(user: int, podman: Podman, outside: Outside) -> None:
    """As an ordinary user there, and as root without its rights."""
    work = outside.folder / "work"
    os.chown(work, user, user)
    request = request_for(podman, outside.folder / "home", docker_mount_cwd_to_workspace=True)
    backend = make_podman(replace(request, workspace=work))
    await backend.open()
    bed = Bed(backend=backend, folder="/workspace")
    try:
        assert (await bed.run("id -u; command -v python3")).output == f"{user}\n/bin/python3\n"
        found = await escapes(bed, outside, [*ATTEMPTS])
        assert not found, found
        await _file_tools_stay_inside(bed)
    finally:
        await backend.close()
        podman.run("rm", "-af")
    assert outside.heard == []
    assert not (outside.out / "written").exists() and not (outside.out / "new").exists()
    assert outside.told("doomed") == outside.told("secret") == MARK
