"""The locks name no machine, pin everything by hash, and belong to the dependencies of pyproject.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.shape.tree import ROOT, pyproject

FOREIGN = [
    f"tests/foreign/{name}.lock"
    for name in (
        *("openai", "openai-1", "llm", "litellm", "frameworks", "llama-index", "node"),
        *("telegram", "discord", "slack", "synapse", "matrix", "skills-ref", "whatsapp", "signal", "twilio"),
    )
]
LOCKS = [
    "requirements.lock",
    "requirements-dev.lock",
    "tools/bootstrap-pip.lock",
    "tools/bootstrap-uv.lock",
    *FOREIGN,
]
ADDRESS = re.compile(
    r"https?:|file:|ssh:|git\+|^\s*-[ief]\b|--(index|extra|find|trusted|proxy)|@\s*\w"
    r"|\b[a-z0-9-]+\.(com|org|net|io|dev|cloud|internal|local|example)\b",
    re.IGNORECASE | re.MULTILINE,
)


def _addresses(text: str) -> list[str]:
    ours = text.replace("hermes.execution.local", "")  # a package of ours, no host
    return [match[0] for match in ADDRESS.finditer(ours)]


def _pins(lock: str) -> dict[str, Requirement]:
    """Name → pinned requirement; fails on a line that is neither a pin nor a hash."""
    pins: dict[str, Requirement] = {}
    for block in re.split(r"\n(?=\S)", (ROOT / lock).read_text(encoding="utf-8").strip()):
        pin, *hashes = (line.strip().removesuffix("\\").strip() for line in block.splitlines())
        requirement = Requirement(pin)
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), f"{lock}: {pin} is not pinned"
        assert hashes, f"{lock}: {pin} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), f"{lock}: {pin}"
        pins[canonicalize_name(requirement.name)] = requirement
    return pins


def _wanted(*, dev: bool) -> list[Requirement]:
    project = pyproject()["project"]
    texts = project["dependencies"] + (project["optional-dependencies"]["dev"] if dev else [])
    return [Requirement(text) for text in texts]


def _reachable(start: Iterable[str]) -> set[str]:
    """Everything the packages may need, by the metadata of what is installed here."""
    seen: set[tuple[str, str]] = set()
    waiting = [(name, "") for name in start]
    while waiting:
        name, extra = canonicalize_name(waiting[-1][0]), waiting.pop()[1]
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another platform only
            continue
        for need in map(Requirement, needs):
            marker = str(need.marker).replace("'", '"')
            if "extra ==" not in marker or (extra and f'extra == "{extra}"' in marker):
                waiting += [(need.name, one) for one in ("", *need.extras)]
    return {name for name, _ in seen}


@pytest.mark.parametrize("name", [*LOCKS, "pyproject.toml"])
def test_no_address(name: str) -> None:
    found = _addresses((ROOT / name).read_text(encoding="utf-8"))
    assert not found, f"{name} names a place: {found}"


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://mirror.example/simple",
        "--find-links /opt/wheels",
        "-f wheels",
        "# from mirror.internal",
        "aiohttp @ file:///tmp/x.whl",
        "https://host/x.whl",
    ],
)
def test_an_address_is_noticed(line: str) -> None:
    assert _addresses(f"aiohttp==1\n{line}\n")


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_is_pinned_by_hash(lock: str) -> None:
    assert _pins(lock)


@pytest.mark.parametrize(("lock", "dev"), [("requirements.lock", False), ("requirements-dev.lock", True)])
def test_lock_belongs_to_pyproject(lock: str, dev: bool) -> None:
    pins, wanted = _pins(lock), _wanted(dev=dev)
    names = [canonicalize_name(need.name) for need in wanted]
    missing = [name for name in names if name not in pins]
    assert not missing, f"{lock} lacks {missing}: run tools/lock"
    stale = [
        str(need)
        for need, name in zip(wanted, names, strict=True)
        if not need.specifier.contains(str(pins[name].specifier).removeprefix("=="), prereleases=True)
    ]
    assert not stale, f"{lock} does not satisfy {stale}: run tools/lock"
    surplus = pins.keys() - _reachable(names)
    assert not surplus, f"{lock} pins what nobody needs: {sorted(surplus)}: run tools/lock"


def test_what_is_tested_is_what_runs() -> None:
    runtime, tested = _pins("requirements.lock"), _pins("requirements-dev.lock")
    different = [name for name, pin in runtime.items() if tested[name].specifier != pin.specifier]
    assert not different, f"the two locks differ in {different}: run tools/lock"


@pytest.mark.parametrize("folder", ["node", "frameworks", "slack", "mattermost", "discord", "signal"])
def test_the_locks_of_node_name_no_place_and_pin_by_hash(folder: str) -> None:
    packages = json.loads((ROOT / "tests/foreign" / folder / "package-lock.json").read_text())["packages"]
    installed = [told for place, told in packages.items() if place]
    assert installed
    assert all("resolved" not in told and told["integrity"].startswith("sha512-") for told in installed)


def test_no_other_lock_file() -> None:
    """uv.lock and pylock.toml write the index and every file's address."""
    assert not [path.name for path in map(Path, ("uv.lock", "pylock.toml")) if (ROOT / path).exists()]
