"""Sizes that say "an idea is missing": functions and protocols. Long files are printed, to be looked at."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from tests.shape.tree import classes, functions, parsed, short, sources

# One idea per file: its length is not a rule. Files over this are listed, so that somebody looks at them.
LONG_FILE = 800
FUNCTION_LINES = 60
PROTOCOL_METHODS = 5

# "file:Class.function" or "file:Class" → why it may be larger. What is no longer needed here fails the
# test, so the table cannot grow old.
EXCEPTIONS: dict[str, str] = {}


def _too_large() -> Iterator[tuple[str, str]]:
    for path in sources():
        name, tree = short(path), parsed(path)
        for function, node in functions(tree):
            yield from ((f"{name}:{function}", fault) for fault in _function_faults(node))
        for kind in classes(tree):
            methods = sum(_is_method(item) for item in kind.body)
            if _is_protocol(kind) and methods > PROTOCOL_METHODS:
                yield f"{name}:{kind.name}", f"a protocol of {methods} methods, at most {PROTOCOL_METHODS}"


def _function_faults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > FUNCTION_LINES:
        yield f"{lines} lines, at most {FUNCTION_LINES}"


def _is_method(node: ast.stmt) -> bool:
    """A property is an attribute: a bundle of ports may have as many as there are ports."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
        ast.unparse(decorator) == "property" for decorator in node.decorator_list
    )


def _is_protocol(kind: ast.ClassDef) -> bool:
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in kind.bases)
    return any(ast.unparse(base).split(".")[-1] == "Protocol" for base in bases)


def test_nothing_is_too_large() -> None:
    faults = [f"{place}: {fault}" for place, fault in _too_large() if place not in EXCEPTIONS]
    assert not faults, "\n".join(faults)


def test_every_exception_is_needed_and_reasoned() -> None:
    needed = {place for place, _ in _too_large()}
    assert not (EXCEPTIONS.keys() - needed), f"no longer needed: {sorted(EXCEPTIONS.keys() - needed)}"
    assert all(len(reason.split()) >= 4 for reason in EXCEPTIONS.values()), "an exception needs a reason"


def _long(lengths: dict[str, int]) -> list[str]:
    return [f"{name} ({lines})" for name, lines in lengths.items() if lines > LONG_FILE]


def test_long_files_are_listed() -> None:
    """A list to read, not a limit: a file of one idea may be long."""
    long = _long({short(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()})
    if long:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn(f"files over {LONG_FILE} lines: {', '.join(long)}", stacklevel=1)
    assert _long({"a.py": LONG_FILE, "b.py": LONG_FILE + 1}) == [f"b.py ({LONG_FILE + 1})"]


def test_the_measure_measures() -> None:
    long = "def f():\n" + "    pass\n" * FUNCTION_LINES
    assert [len(list(_function_faults(node))) for _, node in functions(ast.parse(long))] == [1]
    protocols = "class A(Protocol): ...\nclass B(typing.Protocol[T]): ...\nclass C(Platform): ..."
    assert [_is_protocol(kind) for kind in classes(ast.parse(protocols))] == [True, True, False]
