"""What reading the settings finds: problems an operator must mend (with some of them nothing may start), and
notes that are good to know."""

from __future__ import annotations

from hermes.domain.errors import SettingsError
from hermes.domain.text import closest

MOST_FINDINGS = 100
MOST_SLIPS = 2


class SettingsFindings:
    """Collects for one file; nothing found ever stops the reading. `count` goes on where the list ends."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.count = 0
        self.problems: list[SettingsError] = []
        self.notes: list[SettingsError] = []
        self.stops: list[SettingsError] = []

    @property
    def full(self) -> bool:
        """Whether further problems are only counted, so that no effort should go into wording them."""
        return len(self.problems) >= MOST_FINDINGS

    def problem(self, line: int | None, message: str, hint: str) -> None:
        self.count += 1
        # A file that is no settings file at all would fill the screen otherwise.
        if not self.full:
            self.problems.append(SettingsError(message, file=self.file, line=line, hint=hint))

    def stop(self, line: int | None, message: str, hint: str) -> None:
        """A problem with which the gateway does not start: a limit that would not hold."""
        self.problem(line, message, hint)
        if len(self.stops) < MOST_FINDINGS:
            self.stops.append(SettingsError(message, file=self.file, line=line, hint=hint))

    def stop_for(self, earlier: int) -> None:
        """The gateway does not start with what was found after so many earlier problems."""
        new = self.problems[earlier:] or self.problems[-1:]  # a full list has room for no more
        self.stops += new[: MOST_FINDINGS - len(self.stops)]

    def note(self, line: int | None, message: str, hint: str = "") -> None:
        if len(self.notes) < MOST_FINDINGS:
            self.notes.append(SettingsError(message, file=self.file, line=line, hint=hint))


def nearest(word: str, names: list[str]) -> str:
    """The known word that was probably meant, or nothing."""
    lowered = {name.lower(): name for name in names}
    return lowered.get(closest(word.lower()[:100], lowered, 0.7), "")


def is_slip(word: str, meant: str) -> bool:
    """Whether it is a known word with other capitals, or with one or two letters wrong."""
    word, meant = word.lower(), meant.lower()
    if abs(len(word) - len(meant)) > MOST_SLIPS:
        return False
    row = list(range(len(meant) + 1))
    for number, letter in enumerate(word, 1):
        above, row = row, [number]
        for place, other in enumerate(meant):
            row.append(min(above[place] + (letter != other), above[place + 1] + 1, row[place] + 1))
    return row[-1] <= MOST_SLIPS
