"""The Dockerfile, read by hadolint; and that it copies what there is."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from tests.foreign.environments import ROOT, python_of

DOCKERFILE = ROOT / "Dockerfile"


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.xdist_group("foreign")
def test_hadolint_finds_nothing() -> None:
    program = python_of("hadolint").with_name("hadolint")
    # Versions of Debian's packages come with its security updates; they are not pinned.
    done = subprocess.run(
        [program, "--ignore", "DL3008", DOCKERFILE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


def test_it_copies_what_there_is_and_runs_as_nobody_special() -> None:
    text = DOCKERFILE.read_text()
    taken = {name for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.M) for name in line.split()}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert taken == allowed and all((ROOT / name).exists() for name in taken)
    assert "\nUSER 10001:10001\n" in text and "HEALTHCHECK" in text


def test_the_compose_example_is_closed() -> None:
    (service,) = yaml.safe_load((ROOT / "examples/docker/compose.yaml").read_text())["services"].values()
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
