"""Who may import whom: the contracts of pyproject.toml hold, and each would notice a violation."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.shape.tree import FILES, FOLDERS, PACKAGE, ROOT, SRC, imported, parsed, pyproject, short, sources

LOWER = ("domain", "stream", "agent", "state", "execution", "control", "entry")
TOP = ("__main__", "app", "admin", "cli", "script", "testing", "plugins")
ISLANDS = ("stream", "agent", "state", "execution")
# From the bottom up; names in one row may not import each other, except admin and testing.
LADDER = (
    ("domain",),
    ISLANDS,
    ("control",),
    ("entry",),
    ("plugins",),
    ("app",),
    ("admin", "testing"),
    ("script",),
    ("cli",),
)
SINGLE_FILES = ("plugins", "app", "cli", "__main__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planting:
    """A violation: files to write into a copy of the package, and what the contract must then find."""

    contract: str
    files: dict[str, str]
    finds: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return f"{self.contract}: {', '.join(self.files)}"


def _inside(layer: str) -> str:
    """A file of that layer: the module itself, or a new one in the folder."""
    return f"{layer}.py" if layer in SINGLE_FILES else f"{layer}/planted.py"


def _imports(
    contract: str, importer: str, targets: tuple[str, ...], verb: str = "import hermes.{}\n"
) -> Planting:
    return Planting(
        contract=contract,
        files={_inside(importer): "".join(verb.format(target) for target in targets)},
        finds=frozenset((f"hermes.{importer}", f"hermes.{target}") for target in targets),
    )


def _siblings(contract: str, folder: str) -> Planting:
    """Two folders nobody has listed anywhere: a new one is covered without touching a file."""
    package = "hermes." + folder.replace("/", ".")
    return Planting(
        contract=contract,
        files={
            f"{folder}/planted_one/adapter.py": f"from {package}.planted_two import adapter\n",
            f"{folder}/planted_two/adapter.py": "",
        },
        finds=frozenset({(f"{package}.planted_one", f"{package}.planted_two")}),
    )


def _plantings() -> list[Planting]:
    climbing = [
        _imports("layers", low, tuple(name for row in LADDER[height + 1 :] for name in row))
        for height, lows in enumerate(LADDER[:-1])
        for low in lows
    ]
    others = {island: tuple(other for other in ISLANDS if other != island) for island in ISLANDS}
    platform = "hermes.entry.platforms.planted"
    return [
        *climbing,
        Planting(
            contract="layers", files={"extra.py": ""}, finds=frozenset({("undeclared", "hermes.extra")})
        ),
        *(_imports("islands", island, rest) for island, rest in others.items()),
        _imports("control", "control", ("agent", "state", "execution")),
        Planting(
            contract="control",
            files={
                "control/planted.py": "def late():\n    from hermes.stream import planted\n",
                "stream/planted.py": "import hermes.state\n",
            },
            finds=frozenset({("hermes.control", "hermes.state")}),
        ),
        _imports("entry", "entry", ("agent", "state", "execution")),
        Planting(
            contract="entry",
            files={
                "entry/planted.py": "from hermes.control import planted\n",
                "control/planted.py": "import typing\nif typing.TYPE_CHECKING:\n    import hermes.agent\n",
            },
            finds=frozenset({("hermes.entry", "hermes.agent")}),
        ),
        *(_imports("top", layer, TOP) for layer in LOWER),
        *(
            Planting(
                contract="root",
                files={f"{layer}/planted.py": "from hermes import AIAgent\n"},
                finds=frozenset({(f"hermes.{layer}.planted", "hermes")}),
            )
            for layer in LOWER
        ),
        Planting(
            contract="platforms",
            files={
                "entry/planted_door.py": "",
                "entry/platforms/planted/adapter.py": "import hermes.control\nimport hermes.stream\n"
                "import hermes.entry.http\nimport hermes.entry.terminal\nimport hermes.entry.planted_door\n",
            },
            finds=frozenset(
                (platform, f"hermes.{name}")
                for name in ("control", "stream", "entry.http", "entry.terminal", "entry.planted_door")
            ),
        ),
        Planting(
            contract="platform-kit",
            files={"entry/kit/planted.py": "import hermes.stream\nimport hermes.entry.platforms\n"},
            finds=frozenset(("hermes.entry.kit", f"hermes.{name}") for name in ("stream", "entry.platforms")),
        ),
        _siblings("platform-siblings", "entry/platforms"),
        Planting(
            contract="agent-rooms",
            files={"agent/models/planted.py": "import hermes.agent.run.loop\n"},
            finds=frozenset({("hermes.agent.models", "hermes.agent.run")}),
        ),
        _siblings("format-siblings", "agent/models/formats"),
        Planting(
            contract="http-rooms",
            files={"entry/http/site/planted.py": "import hermes.entry.http.ask.turns\n"},
            finds=frozenset({("hermes.entry.http.site", "hermes.entry.http.ask")}),
        ),
        Planting(
            contract="execution-rooms",
            files={"execution/hooks/planted.py": "import hermes.execution.local.backend\n"},
            finds=frozenset({("hermes.execution.hooks", "hermes.execution.local")}),
        ),
        Planting(
            contract="state-rooms",
            files={"state/home/planted.py": "import hermes.state.settings.loader\n"},
            finds=frozenset({("hermes.state.home", "hermes.state.settings")}),
        ),
        Planting(
            contract="stream-rooms",
            files={"stream/fold/planted.py": "import hermes.stream.faces.console\n"},
            finds=frozenset({("hermes.stream.fold", "hermes.stream.faces")}),
        ),
        Planting(
            contract="control-order",
            files={
                "control/outbound/planted.py": "import hermes.control.commands.menu\n",
                "control/planted.py": "",
            },
            finds=frozenset(
                {
                    ("hermes.control.outbound", "hermes.control.commands"),
                    ("undeclared", "hermes.control.planted"),
                }
            ),
        ),
        Planting(
            contract="outbound-order",
            files={"control/outbound/question_messages.py": "import hermes.control.outbound.lane\n"},
            finds=frozenset({("hermes.control.outbound.question_messages", "hermes.control.outbound.lane")}),
        ),
        *(
            Planting(
                contract="database",
                files={_inside(layer): "import apsw\nimport sqlite3\n"},
                finds=frozenset({(f"hermes.{layer}", "apsw"), (f"hermes.{layer}", "sqlite3")}),
            )
            for layer in (*LOWER, "plugins", "app", "admin", "script", "cli")
            if layer != "state"
        ),
    ]


PLANTINGS = _plantings()


def _lint(*arguments: str, src: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(Path(__file__).with_name("lint_tree.py"))]
    command += [str(ROOT / "pyproject.toml"), *arguments]
    environment = os.environ | {"PYTHONPATH": str(src), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "140"}
    return subprocess.run(command, env=environment, input=given, capture_output=True, text=True, check=False)


def test_every_layer_is_there() -> None:
    wanted = [*(f"{folder}/__init__.py" for folder in FOLDERS), *FILES]
    wanted += ["entry/platforms/__init__.py", "agent/models/formats/__init__.py"]
    missing = [name for name in wanted if not (PACKAGE / name).is_file()]
    assert not missing, f"The import rules need these files in src/hermes: {', '.join(missing)}"


def test_every_folder_is_a_package() -> None:
    """import-linter does not see into a folder without `__init__.py`."""
    folders = {path.parent for path in sources()}
    lost = sorted(short(folder) for folder in folders if not (folder / "__init__.py").is_file())
    assert not lost, f"These folders need an __init__.py: {', '.join(lost)}"


def test_contracts_are_kept() -> None:
    done = _lint(src=SRC)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[str, str]]]:
    src = tmp_path_factory.mktemp("planted")
    tree = src / "hermes"
    shutil.copytree(PACKAGE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [
        *FOLDERS,
        "entry/platforms",
        "entry/http",
        "entry/terminal",
        "agent/models/formats",
        "execution/hooks",
        "execution/commands",
        "execution/local",
    ]
    for name in (*(f"{folder}/__init__.py" for folder in folders), *FILES):
        if not (tree / name).exists():  # reported by test_every_layer_is_there
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).touch()
    given = json.dumps([{"contract": planting.contract, "files": planting.files} for planting in PLANTINGS])
    done = _lint("--plant", str(tree), src=src, given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads(done.stdout)
    return {
        str(planting): {(importer, target) for importer, target in pairs}
        for planting, pairs in zip(PLANTINGS, answers, strict=True)
    }


@pytest.mark.parametrize("planting", PLANTINGS, ids=str)
def test_planted_violation_is_caught(planting: Planting, found: dict[str, set[tuple[str, str]]]) -> None:
    missed = planting.finds - found[str(planting)]
    assert planting.finds and not missed, f"not noticed: {sorted(missed)}"


def test_every_contract_has_a_planting() -> None:
    contracts = {contract["id"] for contract in pyproject()["tool"]["importlinter"]["contracts"]}
    assert contracts == {planting.contract for planting in PLANTINGS}


def _foreign(tree: ast.Module) -> list[str]:
    """What a module of `domain` imports beyond the standard library, `domain` and msgspec."""
    return [
        f"line {line}: {name}"
        for line, name in imported(tree)
        if name.split(".")[0] not in {*sys.stdlib_module_names, "msgspec"}
        and name != "hermes.domain"
        and not name.startswith("hermes.domain.")
    ]


def test_domain_imports_the_standard_library_and_msgspec_only() -> None:
    wrong = [f"{short(path)} {bad}" for path in sources(PACKAGE / "domain") for bad in _foreign(parsed(path))]
    assert not wrong, wrong


@pytest.mark.parametrize(
    "line",
    [
        "import aiohttp",
        "from hermes.state import db",
        "from . import ids",
        "import hermes",
        "def f():\n import yaml",
    ],
)
def test_domain_would_be_caught(line: str) -> None:
    assert _foreign(ast.parse(line))
