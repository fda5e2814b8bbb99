"""Makes a checkout importable from the environment that runs this file, as an editable install would.

Writes a path file, the package's metadata with its entry points, and the `hermes` command; needs no
build backend and no network."""

import re
import shlex
import shutil
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any


def entry_points(project: dict[str, Any]) -> str:
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()), ""]
    return "\n".join(lines)


def version(root: Path) -> str:
    source = root / "src/hermes/__init__.py"
    found = re.search(r'^__version__(?:: \w+)? = "([^"]+)"', source.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f'{source} needs a line like __version__ = "0.1.0".')
    return found[1]


def link(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    site = Path(sysconfig.get_path("purelib"))
    for old in site.glob("hermes_gateway-*.dist-info"):
        shutil.rmtree(old)
    number = version(root)
    info = site / f"hermes_gateway-{number}.dist-info"
    info.mkdir()
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {number}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {need}" for need in project["dependencies"]),
    ]
    files = {
        site / "hermes_gateway.pth": f"{root / 'src'}\n",
        info / "METADATA": "\n".join(metadata) + "\n",
        info / "INSTALLER": "tools/link.py\n",
        info / "entry_points.txt": entry_points(project),
        info / "RECORD": "",
    }
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    command = Path(sys.executable).with_name("hermes")
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m hermes "$@"\n', encoding="utf-8")
    command.chmod(0o755)


if __name__ == "__main__":
    link(Path(sys.argv[1]))
