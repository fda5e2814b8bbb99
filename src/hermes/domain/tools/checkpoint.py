"""Checkpoints: the state of a workspace before a turn changed it, and what a rewind does to its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct, field

from hermes.domain.ids import SessionId, TurnId
from hermes.domain.safety.late_pattern import late_pattern

FileVersion = tuple[str, str]
"""The mode and the object id of a file, as git tells them; both empty for one that is not there."""
NOT_KNOWN = "?"
"""Stands for how a stretch of work left the files, if nobody can tell it from what others did."""
CHANGING = ("write_file", "patch", "terminal", "process", "execute_code")
_ONLY_LOOKS = late_pattern(
    r"(?:ls|pwd|cat|head|tail|wc|grep|echo|which|date|whoami|uname|stat|du|df|ps|id|git status)"
    r"(?: [\w./:=@%+,-]+)*"
)
Changes = Mapping[str, tuple[FileVersion, FileVersion]]
"""Files that differ between two states, by path: how each was, and how it is."""


def may_change_files(tool: str, arguments: Mapping[str, object]) -> bool:
    if tool == "process":
        return arguments.get("action") == "write"
    looks = tool == "terminal" and _ONLY_LOOKS.fullmatch(str(arguments.get("command"))) is not None
    return tool in CHANGING and not looks


class Stretch(Struct, frozen=True, kw_only=True):
    """A stretch of a turn's work, between two states; without `after` if its end was not written down."""

    before: str
    after: str = ""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A row: the folder `root` of the gateway's machine was in the state `before` when the turn first changed
    something. `after` are the states that followed, separated by blanks: how a stretch of work left it, how
    it was when the turn went on after a wait, and so on. While the turn works, the last one has no end."""

    session: SessionId
    turn: TurnId
    root: str
    before: str
    after: str = ""
    label: str = ""
    at: datetime
    id: int = 0

    @property
    def stretches(self) -> list[Stretch]:
        """Oldest first."""
        states = [self.before, *self.after.split()]
        ends = [*states[1::2], ""]
        known = ["" if end == NOT_KNOWN else end for end in ends]
        return [Stretch(before=state, after=known[place]) for place, state in enumerate(states[::2])]

    @property
    def is_open(self) -> bool:
        return len(self.after.split()) % 2 == 0

    @property
    def states(self) -> set[str]:
        return {self.before, *self.after.split()} - {NOT_KNOWN}


class CheckpointView(Struct, frozen=True, kw_only=True):
    """What is kept for one folder."""

    agent: str
    root: str
    checkpoints: int
    size: int


class RewindPlan(Struct, kw_only=True):
    """What becomes of which file, and how it must still be for that. `kept` are those that stay because
    somebody else changed them since."""

    targets: dict[str, FileVersion] = field(default_factory=dict)
    expected: dict[str, FileVersion] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    unknown: bool = False
    """Whether a stretch has no written end, so that nobody can tell what it did from what others did."""
    spared: list[str] = field(default_factory=list)
    """What may be all that is left of files that no state holds: it stays."""
    left_out: list[str] = field(default_factory=list)
    """What changed, but is in no state."""
    private: set[str] = field(default_factory=set)
    """What only its owner could read."""

    def take_back(self, changes: Changes, since: Iterable[str]) -> None:
        """Undo the changes of a turn, the newest turn first; `since` are the files that somebody else changed
        between this turn and the one after it, or now."""
        self.kept.update(since)
        for path in self.kept & self.targets.keys():
            self.targets.pop(path)
        for path, (old, new) in changes.items():
            if path not in self.kept:
                self.expected.setdefault(path, new)
                self.targets[path] = old
