"""What our processes inside a sandbox need of this machine: the interpreter that runs the gateway, its
standard library, and the few packages that they load. Inside, one that is not the system's own appears at a
place of its own, so that the home it is installed in does not."""

from __future__ import annotations

import functools
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

PLACE = "/opt/hermes"
_PACKAGE = Path(__file__).parents[2]
_PACKAGES = ("msgspec", "regex")
_ROOMS = ("__init__.py", "domain", "execution")
_INSIDE = (
    "sandboxes.inside", "sandboxes.landlock_rules", "sandboxes.seccomp", "commands.runner",
    "commands.supervisor", "commands.output_capture", "commands.handover", "egress.forwarder",
)  # fmt: skip
_START = (
    "import sys; sys.path[:0] = sys.argv.pop(1).split(':'); "
    "from hermes.execution.sandboxes import inside; inside.main()"
)


class Interpreter(Struct, frozen=True, kw_only=True):
    """`program` is its path inside; `binds` are paths here and where they are seen inside; `hidden` folders
    are not shown. `libraries` is where it finds its own shared library, if that is an unusual place."""

    program: str
    sources: str
    binds: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...] = ()
    libraries: str = ""

    @property
    def readable(self) -> tuple[str, ...]:
        return tuple(ours for ours, _ in self.binds)

    def start(self, *arguments: str) -> list[str]:
        """The command line of `inside.py`."""
        return [self.program, "-I", "-S", "-c", _START, self.sources, *arguments]


@functools.cache
def moved_interpreter() -> Interpreter:
    """As it is seen inside, where only the system's own folders are at their places."""
    program, base = _real_program(), Path(sys.base_prefix).resolve()
    # The whole package, by one mount instead of three.
    binds = [(str(_PACKAGE), f"{PLACE}/lib/hermes")]
    binds += [(ours, f"{PLACE}/lib/{name}") for ours, name in _packages()]
    if program.is_relative_to("/usr"):
        return Interpreter(program=str(program), sources=f"{PLACE}/lib", binds=tuple(binds))
    library = f"{PLACE}/python/lib"
    binds += [(str(program), f"{PLACE}/python/bin/{program.name}"), (str(base / "lib"), library)]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return Interpreter(
        program=f"{PLACE}/python/bin/{program.name}",
        sources=f"{PLACE}/lib",
        binds=tuple(binds),
        hidden=(f"{library}/{version}/site-packages",),
        libraries=library,
    )


@functools.cache
def own_interpreter() -> Interpreter:
    """At its own place, for a sandbox that moves nothing. Packages are looked for in whole folders."""
    base = Path(sys.base_prefix).resolve()
    packages = dict.fromkeys(os.path.dirname(path) for path, _ in _packages())
    rooms = [str(_PACKAGE / room) for room in _ROOMS]
    ours = [*rooms, *packages, str(_real_program()), str(base / "lib")]
    return Interpreter(
        program=str(_real_program()),
        sources=":".join((str(_PACKAGE.parent), *packages)),
        binds=tuple((path, path) for path in ours),
    )


@functools.cache
def compile_sources() -> None:
    """See to it that what only runs inside is there compiled: inside, that could not be kept, and would be
    done again at each start."""
    for name in _INSIDE:
        spec = find_spec(f"hermes.execution.{name}")
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader.get_code(spec.name)


def _real_program() -> Path:
    """Not that of a virtual environment, which only leads to it."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


def _packages() -> list[tuple[str, str]]:
    """Paths here, and their names below the folder of sources."""
    found = []
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            found.append((os.path.realpath(spec.submodule_search_locations[0]), name))
    return found
