"""Runs import-linter in a process of its own, so that the tree it reads is the one on PYTHONPATH.

`lint_tree.py PYPROJECT` prints import-linter's report. With a JSON list of plantings on stdin
(`{"contract": id, "files": {path: text}}`) after `--plant TREE` it writes each into the tree in turn
and prints, as JSON, what that contract then finds: pairs of importer and imported."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from importlinter import configuration
from importlinter.application import use_cases

configuration.configure()


def findings(config: str, contract: str) -> list[list[str]]:
    options = use_cases.read_user_options(config)
    use_cases._register_contract_types(options)
    with contextlib.redirect_stdout(sys.stderr):
        report = use_cases.create_report(options, (contract,), cache_dir=None)
    [(_, check)] = report.get_contracts_and_checks()
    if check.kept:
        return []
    found: list[list[str]] = []
    for entry in check.metadata.get("invalid_dependencies", ()):
        found.append([entry["importer"], entry["imported"]])
    for entry in check.metadata.get("invalid_chains", ()):
        found.append([entry["downstream_module"], entry["upstream_module"]])
    found += [["undeclared", name] for name in check.metadata.get("undeclared_modules", ())]
    return found


def plant(config: str, tree: Path, planting: dict[str, Any]) -> list[list[str]]:
    before: dict[Path, bytes | None] = {}
    try:
        for name, text in planting["files"].items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # A new folder needs its `__init__.py` to be a package.
            for missing in (folder / "__init__.py" for folder in path.parents if tree in folder.parents):
                if not missing.exists():
                    before[missing] = None
                    missing.touch()
            before.setdefault(path, path.read_bytes() if path.exists() else None)
            path.write_text(text, encoding="utf-8")
        return findings(config, planting["contract"])
    finally:
        for path, content in before.items():
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)


def main(arguments: list[str]) -> int:
    config = arguments[0]
    if len(arguments) == 1:
        return 0 if use_cases.lint_imports(config, cache_dir=None, no_logo=True) else 1
    tree = Path(arguments[2])
    json.dump([plant(config, tree, planting) for planting in json.load(sys.stdin)], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
