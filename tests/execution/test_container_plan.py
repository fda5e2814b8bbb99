"""What a container is made with, and what it is refused for, with an engine that only notes what it is told:
commands `exec`uted in its containers run on this machine."""

from __future__ import annotations

import json
import os
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import NO_NETWORK, OPEN_NETWORK, BackendRequest, Boundary, NetworkRules
from hermes.domain.settings.settings import Profile, Settings, TerminalSettings
from hermes.domain.word import replace
from hermes.execution.far.backend import FarBackend
from hermes.execution.sandboxes.container import make_docker, make_podman, probe_docker, probe_podman
from hermes.execution.sandboxes.container_calls import call_filter
from hermes.execution.sandboxes.container_run import option_names

ENGINE = """#!/bin/sh
printf '%s\\0' "$@" >> {folder}/told; printf '\\n' >> {folder}/told
case $1 in
  version) echo {name}; exit {answers} ;;
  run) [ -z "{complaint}" ] || {{ echo "{complaint}" >&2; exit 125; }}; echo id ;;
  ps) cat {folder}/ps 2>/dev/null || : ;;
  inspect) cat {folder}/inspect 2>/dev/null || echo '[]' ;;
  exec) shift; [ "$1" = -i ] && {{ shift 2; exec "$@"; }} || : ;;
esac
"""


class FakeEngine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        (self.home / "workspace").mkdir(parents=True)
        self.program = folder / "engine"
        self.write()

    def write(self, *, name: str = "podman", answers: int = 0, complaint: str = "") -> None:
        text = ENGINE.format(folder=self.folder, name=name, answers=answers, complaint=complaint)
        self.program.write_text(text)
        self.program.chmod(0o755)

    def told(self, word: str) -> list[list[str]]:
        path = self.folder / "told"
        lines = path.read_text().split("\0\n") if path.exists() else []
        return [words for line in lines if (words := line.split("\0"))[0] == word]

    def read(self, path: str) -> str:
        return Path(path).read_text()

    def request(self, *, network: NetworkRules = NO_NETWORK, **chosen: Any) -> BackendRequest:
        given = {"docker_binary": str(self.program), "docker_image": "image:1", **chosen}
        settings = Settings(terminal=TerminalSettings(**given))
        return BackendRequest(
            profile=Profile(agent=MAIN_AGENT, home=self.home, settings=settings),
            workspace=self.home / "workspace",
            environ={"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIVEN": "1", "KEY": "secret"},
            share=lambda key, make: make(),
            network=network,
        )

    async def made(self, request: BackendRequest) -> list[str]:
        """The command line that made the container."""
        backend = make_podman(request)
        await self.open(backend)
        return self.told("run")[-1]

    async def open(self, backend: FarBackend) -> None:
        try:
            await backend.open()
        finally:
            await backend.close()


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def values(words: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(words) if name == option]


async def test_its_walls(engine: FakeEngine) -> None:
    words = await engine.made(engine.request(container_memory=512, container_cpu=1.5, container_disk=10))
    assert {"--read-only", "-d"} <= {*words} and words[-3] == "image:1"
    for option, value in {
        "--pull": "never", "--cap-drop": "ALL", "--network": "none", "--pids-limit": "256", "--cpus": "1.5",
        "--memory": "512m", "--memory-swap": "512m", "--ulimit": f"fsize={10 << 20}", "--entrypoint": "sh",
    }.items():  # fmt: skip
        assert values(words, option) == [value], option
    privileges, calls = values(words, "--security-opt")
    assert privileges == "no-new-privileges"
    rules = json.loads(engine.read(calls.removeprefix("seccomp=")))
    assert rules["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = {name for rule in rules["syscalls"] if "args" not in rule for name in rule["names"]}
    assert {"read", "execve", "openat"} <= allowed
    assert not allowed & {"ptrace", "mount", "unshare", "bpf", "io_uring_setup", "keyctl", "socket", "clone"}
    families = [rule["args"][0]["value"] for rule in rules["syscalls"] if rule["names"] == ["socket"]]
    assert families == [2, 10, 16], "neither paths nor the hypervisor"
    assert not {"--privileged", "--cap-add", "--pid", "--ipc", "--device"} & option_names(words)
    assert not any(word in " ".join(words) for word in ("secret", "docker.sock"))


async def test_its_temporary_folders_are_its_own_whatever_the_image_holds(engine: FakeEngine) -> None:
    """Podman would give them the image's contents and modes; docker has no such option."""
    places = values(await engine.made(engine.request()), "--tmpfs")
    assert len(places) == 3 and all(place.endswith(",notmpcopyup") for place in places)
    engine.write(name="docker")
    places = values(await engine.made(engine.request()), "--tmpfs")
    assert len(places) == 3 and not any("copyup" in place for place in places)


async def test_its_network(engine: FakeEngine) -> None:
    assert "--network" not in await engine.made(engine.request(network=OPEN_NETWORK))
    closed = engine.request(network=OPEN_NETWORK, docker_network=False)
    assert values(await engine.made(closed), "--network") == ["none"]
    listed = engine.request(network=NetworkRules(hosts=("example.org",)))
    with pytest.raises(UserError, match="no egress proxy"):
        await engine.open(make_podman(listed))
    assert call_filter([1], "riscv64") == "", "there the engine's own filter counts"


async def test_its_folders_and_labels(engine: FakeEngine, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    request = engine.request(docker_volumes=(f"{project}:/data:ro", "named:/cache"))
    words = await engine.made(request)
    workspace, home, data, named = values(words, "--volume")
    assert workspace == f"{engine.home}/workspace:/workspace"
    assert home.startswith(f"{engine.home}/sandboxes/podman/") and home.endswith(":/home/agent")
    assert (data, named) == (f"{project}:/data:ro", "named:/cache")
    labels = dict(label.split("=", 1) for label in values(words, "--label"))
    assert labels["hermes.agent"] == MAIN_AGENT and labels["hermes.folder"] == str(engine.home)
    assert values(words, "--name") == [f"hermes-{labels['hermes.task']}"] and labels["hermes.kept"] == "1"
    again = await engine.made(request)
    assert again == words, "the same settings, the same container"
    other = dict(label.split("=", 1) for label in values(await engine.made(engine.request()), "--label"))
    assert other["hermes.task"] == labels["hermes.task"] and other["hermes.digest"] != labels["hermes.digest"]
    elsewhere = await engine.made(replace(engine.request(), workspace=project))
    assert not any(word.startswith(f"{project}:") for word in elsewhere), "only if the owner says so"
    bound = engine.request(docker_mount_cwd_to_workspace=True)
    assert f"{project}:/workspace" in await engine.made(replace(bound, workspace=project))


async def test_one_that_runs_is_used_again_and_an_orphan_goes(engine: FakeEngine) -> None:
    words = await engine.made(engine.request())
    labels = dict(label.split("=", 1) for label in values(words, "--label"))
    lost = {**labels, "hermes.kept": "0", "hermes.task": "other"}
    (engine.folder / "ps").write_text("a\nb\n")
    (engine.folder / "inspect").write_text(
        json.dumps(
            [
                {"Id": "a", "Name": name, "State": {"Running": True}, "Config": {"Labels": each}}
                for name, each in ((values(words, "--name")[0], labels), ("hermes-other", lost))
            ]
        ).replace('"Id": "a", "Name": "hermes-other"', '"Id": "b", "Name": "hermes-other"')
    )
    made = len(engine.told("run"))
    await engine.open(make_podman(engine.request()))
    assert len(engine.told("run")) == made and ["rm", "-f", "b"] in engine.told("rm")
    assert ["rm", "-f", "a"] not in engine.told("rm")
    await engine.made(engine.request(docker_image="image:2"))
    assert len(engine.told("run")) == made + 1


async def test_what_is_refused(engine: FakeEngine, tmp_path: Path) -> None:
    home = engine.home
    cases: list[tuple[dict[str, Any], str]] = [
        ({"docker_volumes": (f"{home}/secrets:/x",)}, "a home of Hermes"),
        ({"docker_volumes": (f"{tmp_path}:/x:ro",)}, "a home of Hermes"),
        ({"docker_volumes": (f"{tmp_path}/project/../home:/x",)}, "a home of Hermes"),
        ({"docker_volumes": ("/:/x",)}, "cannot be bound"),
        ({"docker_volumes": ("/var/run:/x",)}, "a socket by which"),
        ({"docker_extra_args": ("-v", "/run/docker.sock:/x")}, "a socket by which"),
        ({"docker_extra_args": ("-v/run/docker.sock:/x",)}, "a socket by which"),
        ({"docker_extra_args": ("--volume=/run:/x",)}, "a socket by which"),
        ({"docker_extra_args": ("--mount=type=bind,source=/,target=/host",)}, "cannot be bound"),
        ({"docker_extra_args": ("--mount", f"type=bind,src={home},target=/host")}, "a home of Hermes"),
        ({"docker_binary": str(tmp_path / "none")}, "There is no .*/none on this machine"),
    ]
    link = tmp_path / "link"
    link.symlink_to(home)
    cases.append(({"docker_volumes": (f"{link}:/x",)}, "a home of Hermes"))
    for chosen, words in cases:
        with pytest.raises(UserError, match=words) as refused:
            await engine.open(make_podman(engine.request(**chosen)))
        assert refused.value.hint
    gone = engine.request(docker_mount_cwd_to_workspace=True)
    with pytest.raises(UserError, match="There is no folder"):
        await engine.open(make_podman(replace(gone, workspace=tmp_path / "gone")))
    assert engine.told("run") == []


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("Unable to find image 'image:1' locally", "The image image:1 is not on this machine"),
        ("exec: sh: executable file not found in PATH", "has no shell"),
        ("unknown or invalid runtime name: runsc", "does not know the OCI runtime"),
        ("error setting rlimit type 7", "cannot set its usual limits"),
        ("disk quota exceeded", "cannot start a container: disk quota exceeded"),
    ],
)
async def test_one_that_cannot_be_made(engine: FakeEngine, complaint: str, words: str) -> None:
    engine.write(complaint=complaint)
    with pytest.raises(UserError, match=words):
        await engine.open(make_podman(engine.request()))
    found = await probe_podman(engine.request().environ, engine.request().profile.settings.terminal)
    assert not found.works and words in found.why, "the probe finds it too"


async def test_probes_know_the_settings(engine: FakeEngine) -> None:
    environ = engine.request().environ
    terminal = engine.request(docker_runtime="runsc").profile.settings.terminal
    found = await probe_docker(environ, terminal)
    assert found.works and found.boundary is Boundary.CONTAINER
    (words,) = engine.told("run")
    assert words[-3] == "image:1" and values(words, "--runtime") == ["runsc"]
    assert ["rm", "-f", *values(words, "--name")] in engine.told("rm")
    assert not os.path.exists(values(words, "--volume")[0].partition(":")[0])  # noqa: ASYNC240
    wide = replace(terminal, docker_extra_args=("--privileged",))
    assert (await probe_docker(environ, wide)).boundary is Boundary.WEAK, "never for strangers"
    engine.write(answers=1)
    assert not (await probe_docker(environ, terminal)).works


def test_option_names() -> None:
    assert option_names(shlex.split("--memory 1g --cap-add=ALL -v /a:/b")) == {"--memory", "--cap-add", "-v"}
    assert option_names(["--memory", "1g", "stray"]) == {"--memory", "stray"}


async def test_variables_of_commands(engine: FakeEngine) -> None:
    request = engine.request(docker_env=("A=1", "B=x=y"), docker_forward_env=("GIVEN", "NONE"))
    backend = make_docker(request)
    given = backend._given
    assert given == {"A": "1", "B": "x=y", "GIVEN": "1"}


@pytest.mark.root
async def test_nobodys_files_change_hands(engine: FakeEngine, tmp_path: Path) -> None:
    """The commands of a gateway that is root are those of whoever owns the folder."""
    mine = engine.home / "workspace/mine"
    mine.write_text("mine")
    words = await engine.made(engine.request())
    assert values(words, "--user") == ["0:0"] and "ALL" in values(words, "--cap-drop")
    assert mine.stat().st_uid == (engine.home / "workspace").stat().st_uid == 0
    project = tmp_path / "project"
    project.mkdir()
    os.chown(project, 4242, 4243)
    bound = replace(engine.request(docker_mount_cwd_to_workspace=True), workspace=project)
    words = await engine.made(bound)
    assert values(words, "--user") == ["4242:4243"]
    apart = replace(engine.request(), workspace=engine.home / "sandboxes/strangers/workspace-1")
    words = await engine.made(apart)
    assert values(words, "--user") == ["1000:1000"] and apart.workspace.stat().st_uid == 1000
    kept = replace(apart, workspace=engine.home / "sandboxes/strangers/workspace-2")
    kept.workspace.mkdir()
    (kept.workspace / "file").write_text("")
    assert values(await engine.made(kept), "--user") == ["0:0"]
    assert (kept.workspace / "file").stat().st_uid == 0
    as_root = replace(engine.request(docker_run_as_host_user=True), workspace=apart.workspace)
    with pytest.raises(UserError, match="who may not change"):
        await engine.open(make_podman(as_root))
