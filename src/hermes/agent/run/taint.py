"""Whether a run has words from outside before it, and what its person named in their own.

Both are read from the records, so a crash changes neither. Words from outside count as long as the model sees
them; files of the workspace and what commands print may be anybody's too, and count in the turn that read
them (docs/decisions/0021)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from hermes.agent.call_repair import read_arguments
from hermes.agent.context.shown import shown
from hermes.domain.chats.address import SourceKind
from hermes.domain.ports.agent import Run
from hermes.domain.safety.outside import own_words
from hermes.domain.turns.event import Entry, ModelSaid, ToolFinished, UserSaid
from hermes.domain.turns.transcript import turn_entries
from hermes.domain.turns.turn import Cause

_READERS = frozenset({"read_file", "search_files", "terminal", "process", "execute_code"})
_HOST = re.compile(r"(?<![\w.\-@])[\w\-]+(?:\.[\w\-]+)*")
_OPENING = r"(\[{<\"'«„“‘`*"
_CLOSING = r".;:!?)\]}>\"'»”’`*…"


def has_read_outside(run: Run) -> bool:
    """Whether somebody else's words may speak through the model in this turn."""
    return has_read_foreign(run) or _has_read_files(turn_entries(run.transcript, run.turn.id))


def has_read_foreign(run: Run) -> bool:
    """Whether they do for certain: more than files of the workspace and what commands print was read."""
    outside = run.turn.input.guidance.outside or _is_from(run, SourceKind.WEBHOOK)
    return outside or _sees_foreign(run)


def _sees_foreign(run: Run) -> bool:
    """What was undone is seen no more."""
    return shown(run.transcript, run.memory).foreign


def _has_read_files(entries: Sequence[Entry]) -> bool:
    records = [entry.record for entry in entries]
    calls = {call.id: call for said in records if isinstance(said, ModelSaid) for call in said.calls}
    finished = (calls[done.call] for done in records if isinstance(done, ToolFinished) and done.call in calls)
    for call in finished:
        from hermes.agent.danger.destinations import prints_own  # large, and only after a tool was used

        command = (read_arguments(call.arguments) or {}).get("command")
        if call.name in _READERS and not (isinstance(command, str) and prints_own(command)):
            return True
    return False


# --- what the person named ---

# Words that others said, that came along as context, that were quoted or passed on, or that are the
# gateway's do not count, nor does what the model wrote: a child's task, a process's end.


def is_named(run: Run, forms: Sequence[str]) -> bool:
    """Whether one of these ways to write something stands by itself in the person's own words."""
    words = "\n".join(_own_words(run))
    return any(_stands_alone(form, words) for form in forms)


def named_hosts(run: Run) -> Callable[[str], bool]:
    """Whether the person named a host, alone or in an address. Their words are read once, when it is first
    asked."""

    @cache
    def words() -> str:
        return "\n".join(_own_words(run)).lower()

    @cache
    def names() -> frozenset[str]:
        return frozenset(name.removeprefix("www.") for name in _HOST.findall(words()))

    def is_named(host: str) -> bool:
        host = host.lower().removeprefix("www.")
        if _HOST.fullmatch(host):
            return host in names()
        return (
            bool(host) and re.search(rf"(?<![\w.\-@:]){re.escape(host)}(?![\w\-:]|\.\w)", words()) is not None
        )

    return is_named


def _own_words(run: Run) -> Iterator[str]:
    """In a session that several share, only those of this turn are the person's for certain."""
    turn = run.turn
    job, webhook = _is_from(run, SourceKind.JOB), _is_from(run, SourceKind.WEBHOOK)
    for entry in run.transcript:
        said = entry.record
        if not isinstance(said, UserSaid) or said.author != turn.input.author:
            continue
        if entry.turn == turn.id and turn.cause is Cause.CHILD:
            continue
        if run.session.owner is not None or (entry.turn == turn.id and not said.steering):
            yield own_words(said.text, job=job, webhook=webhook)


def _is_from(run: Run, kind: SourceKind) -> bool:
    return run.turn.source is not None and run.turn.source.kind is kind


def _stands_alone(form: str, words: str) -> bool:
    """Whether it is written out, with nothing that could belong to it on either side."""
    pattern = rf"(?:^|(?<=[\s,{_OPENING}])){re.escape(form)}(?=[{_CLOSING}]*(?:[,\s]|$))"
    return re.search(pattern, words) is not None
