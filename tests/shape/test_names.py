"""Names a reader can trust: no empty words, a header on every module, the same files per platform."""

from __future__ import annotations

import ast
import re

from tests.shape.tree import PACKAGE, classes, parsed, short, sources

EMPTY_WORDS = {"manager", "helper", "util", "utility", "common", "base", "handler"}
HEADER_LINES = 5
# Words that carry anything: a parameter or a field says what it holds.
VAGUE = {"told", "said", "known", "found", "one"}
# "file:name" → why it may be called so.
VAGUE_EXCEPTIONS: dict[str, str] = {}
# A public class name that stands in more than one file → why both may have it. Empty is the goal.
SHARED_NAMES: dict[str, str] = {}
PLATFORM_FILES = {"__init__.py", "manifest.py", "adapter.py", "convert.py"}


def _words(name: str) -> set[str]:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {word.lower() for word in words} | {word.lower().removesuffix("s") for word in words}


def test_modules_and_classes_have_telling_names() -> None:
    wrong = []
    for path in sources():
        module = path.parent.name if path.stem == "__init__" else path.stem
        names = [module, *(kind.name for kind in classes(parsed(path)))]
        wrong += [f"{short(path)}: {name}" for name in names if _words(name) & EMPTY_WORDS]
    assert not wrong, f"names that say nothing ({', '.join(sorted(EMPTY_WORDS))}): {wrong}"


def test_words_are_split() -> None:
    assert _words("HTTPHandler") & EMPTY_WORDS
    assert _words("string_utils") & EMPTY_WORDS
    assert not _words("Database") & EMPTY_WORDS


def test_every_module_opens_with_a_short_header() -> None:
    wrong = []
    for path in sources():
        header = (ast.get_docstring(parsed(path)) or "").strip()
        first = header.split("\n\n")[0]
        if not header:
            wrong.append(f"{short(path)}: no docstring")
        elif len(first.splitlines()) > HEADER_LINES:
            wrong.append(f"{short(path)}: its first paragraph is longer than {HEADER_LINES} lines")
    assert not wrong, "\n".join(wrong)


def test_every_platform_has_the_same_files() -> None:
    """These at least; what is too much for one file of an adapter stands beside it."""
    platforms = PACKAGE / "entry" / "platforms"
    folders = [path for path in sorted(platforms.iterdir()) if path.is_dir() and path.name != "__pycache__"]
    wrong = []
    for folder in folders:
        there = {path.name for path in folder.iterdir() if path.name != "__pycache__"}
        if not there >= PLATFORM_FILES:
            wrong.append(f"{folder.name}: {sorted(PLATFORM_FILES - there)}")
    assert not wrong, f"a platform has {sorted(PLATFORM_FILES)}; missing: {wrong}"


def test_public_class_names_are_unique() -> None:
    """One meaning per word: whoever looks for a class by its name finds one."""
    places: dict[str, list[str]] = {}
    for path in sources():
        if not short(path).startswith("testing/"):
            for kind in classes(parsed(path)):
                if not kind.name.startswith("_"):
                    places.setdefault(kind.name, []).append(short(path))
    shared = {name: files for name, files in places.items() if len(files) > 1}
    assert shared.keys() == SHARED_NAMES.keys(), {
        name: shared.get(name, "no longer shared") for name in shared.keys() ^ SHARED_NAMES.keys()
    }
    assert all(len(reason.split()) >= 4 for reason in SHARED_NAMES.values()), "a shared name needs a reason"


def _carriers(tree: ast.Module) -> set[str]:
    """Parameters, fields and attributes of `self` that are called by a vague word."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names |= {item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        elif isinstance(node, ast.ClassDef):
            fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
            names |= {field.id for field in fields if isinstance(field, ast.Name)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return {name for name in names if name.lstrip("_") in VAGUE}


def test_signatures_and_fields_say_what_they_hold() -> None:
    wrong = {
        f"{short(path)}:{name}"
        for path in sources()
        if not short(path).startswith("testing/")
        for name in _carriers(parsed(path))
    }
    assert wrong == VAGUE_EXCEPTIONS.keys(), sorted(wrong ^ VAGUE_EXCEPTIONS.keys())


def test_vague_carriers_are_noticed() -> None:
    source = "class A:\n    told: str\n    def f(self, said, *, one):\n        self._found = said\n"
    assert _carriers(ast.parse(source)) == {"told", "said", "one", "_found"}
