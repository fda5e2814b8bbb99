"""Sizes that say "an idea is missing": files, functions, protocols, parameter lists."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.shape.tree import classes, functions, parsed, short, sources

FILE_LINES = 500
FUNCTION_LINES = 60
PROTOCOL_METHODS = 5
PARAMETERS = 6

# "file" or "file:Class.function" or "file:Class" → why it may be larger. What is no longer needed
# here fails the test, so the table cannot grow old.
EXCEPTIONS: dict[str, str] = {
    "agent/tools/jobs.py:cronjob": "its parameters are the tool's arguments, whose names are the product's",
}


def _too_large() -> Iterator[tuple[str, str]]:
    for path in sources():
        name, tree = short(path), parsed(path)
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES:
            yield name, f"{lines} lines, at most {FILE_LINES}"
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
    names = [item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if names and names[0] in ("self", "cls"):
        del names[0]
    if len(names) > PARAMETERS:
        yield f"{len(names)} parameters, at most {PARAMETERS}: make it a dataclass"


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


def test_the_measure_measures() -> None:
    long = "def f():\n" + "    pass\n" * FUNCTION_LINES
    wide = "async def g(self, a, b, c, *, d, e, f, h): ..."
    assert [len(list(_function_faults(node))) for _, node in functions(ast.parse(long + wide))] == [1, 1]
    protocols = "class A(Protocol): ...\nclass B(typing.Protocol[T]): ...\nclass C(Platform): ..."
    assert [_is_protocol(kind) for kind in classes(ast.parse(protocols))] == [True, True, False]
