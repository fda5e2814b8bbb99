r"""Families of programs that break a rule by their words alone: a row of `families.txt` for each.

All conditions of a row have to hold: `starts` = its words without options begin like this (the values of the
options in `VALUED` are passed over), `args` = all its words do (with `\n` behind each), `if` = one of its
words is like this, `unless` = none is. `<xy>` means short options in one word with x or y among them,
`{name}` a part of `PARTS`."""

from __future__ import annotations

import re
from pathlib import Path

from hermes.agent.danger.names import by_name, listed
from hermes.agent.danger.shell.expand import UNKNOWN


def read_sections(file: str) -> dict[str, list[str]]:
    """The rows of a file beside this one, by the names of their sections."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    parts = re.split(r"^\[(.+?)\].*\n", text, flags=re.MULTILINE)
    rows = ([row for row in part.splitlines() if row and not row.startswith("#")] for part in parts[2::2])
    return dict(zip(parts[1::2], rows, strict=True))


def by_key(rows: list[str]) -> dict[str, str]:
    """Rows of a key and what is said of it."""
    return {key: value for key, _, value in (row.partition(": ") for row in rows)}


_SECTIONS = read_sections("families.txt")
VALUED = {name: listed(options) for name, options in by_name(by_key(_SECTIONS.pop("valued"))).items()}
PARTS = {"unknown": UNKNOWN, **by_key(_SECTIONS.pop("parts"))}
_WORDS = by_key(_SECTIONS.pop("words"))
VERBS, FETCHED_TOOLS = listed(_WORDS["verbs"]), listed(_WORDS["fetched tools"])
OUTPUTS, RUNS = (_SECTIONS.pop(section) for section in ("outputs", "runs"))
GIT = _SECTIONS.pop("git")
ALL = [row for rows in _SECTIONS.values() for row in rows]
