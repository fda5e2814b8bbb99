"""The source tree as the shape tests see it: files, parsed modules, layers, imports."""

from __future__ import annotations

import ast
import importlib
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "hermes"

FOLDERS = (
    "domain",
    "stream",
    "agent",
    "state",
    "execution",
    "control",
    "entry",
    "app",
    "admin",
    "script",
    "testing",
)
FILES = ("__init__.py", "__main__.py", "cli.py", "plugins.py")


def sources(under: Path = PACKAGE) -> list[Path]:
    return sorted(path for path in under.rglob("*.py") if "__pycache__" not in path.parts)


def short(path: Path) -> str:
    """A path as the tables of exceptions spell it: `control/turn/actor.py`."""
    return path.relative_to(PACKAGE).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its dotted name inside the module, e.g. `Actor.run` or `fold.inner`."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child
                yield from walk(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}{child.name}.")
            else:
                yield from walk(child, prefix)

    yield from walk(tree, "")


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything a module imports, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def load(name: str, why: str) -> ModuleType:
    """Imports a module that a shape test reads from; says in plain words what is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        reason = str(error)
    pytest.fail(f"{name} cannot be imported ({reason}); {why}", pytrace=False)


def constant(name: str, attribute: str, why: str) -> Any:
    module = load(name, why)
    if not hasattr(module, attribute):
        pytest.fail(f"{name}.{attribute} does not exist; {why}", pytrace=False)
    return getattr(module, attribute)
