"""Recovery: a new life over what a killed one left: pending messages, open turns, unsent answers.

One process builds the database, all of it in the log, and kills itself. Each life begins on a copy of that,
as a process of its own. The large one is stopped after a while; a small one goes on until nothing is left,
so that every message can be counted."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from bench.figure import Better, Figure
from bench.rig import ACCOUNT, Rig, answer_to, inbound
from bench.stopwatch import most_resident, run
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import OutboxRow
from hermes.domain.ids import MAIN_AGENT, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, UserSaid
from hermes.domain.turns.session import begin_session, session_key
from hermes.domain.turns.turn import BusyMode, Cause, ReplyPlace, Turn, TurnInput, TurnState
from hermes.state.store.codec import encode
from hermes.state.store.migrations import migrate
from hermes.state.store.sqlite import StoreOptions, connect, tables_of

_CHATS = 10_000
_MEGABYTE = 1 << 20
_NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What the killed life left behind."""

    pending: int
    open: int
    unsent: int


def measure(folder: Path, quick: bool) -> list[Figure]:
    large = (
        Left(pending=20_000, open=500, unsent=500)
        if quick
        else Left(pending=100_000, open=2_000, unsent=2_000)
    )
    small = Left(pending=1_000, open=200, unsent=200)
    figures = list(_first_moments(large, _live(folder / "large", large, seconds=3.0)))
    drained = _live(folder / "small", small, seconds=0.0)
    figures += [
        _fault(f"{small.pending:,} pending, run to the end: lost", drained["lost"]),
        _fault(f"{small.pending:,} pending, run to the end: twice", drained["twice"]),
    ]
    return figures


def _first_moments(left: Left, told: dict[str, float]) -> Iterator[Figure]:
    figure = partial(Figure, bench="recovery", unit="ms")
    begin = f"{left.pending:,} pending"
    yield figure(name=f"{begin}: store open", value=told["open"])
    yield figure(name=f"{begin}: first turn claimed", value=told["claim"])
    yield figure(name=f"{begin}: first record of this life", value=told["record"], target=2_000)
    yield figure(name=f"{begin}: first pending message taken", value=told["take"])
    yield figure(name=f"{begin}: a new message accepted", value=told["accept"])
    yield figure(name=f"{begin}: with Python's start and imports", value=told["process"])
    yield Figure(
        bench="recovery", name=f"{begin}: answers in the first 3 s", value=told["answers"], unit="",
        better=Better.MORE,
    )  # fmt: skip
    memory = told["memory"] / _MEGABYTE
    yield Figure(bench="recovery", name=f"{begin}: most memory", value=memory, unit="MB")
    yield _fault(f"{begin}, stopped after 3 s: twice", told["twice"])


def _fault(name: str, value: float) -> Figure:
    return Figure(bench="recovery", name=name, value=value, unit="", better=Better.FAULT, target=0)


def _live(folder: Path, left: Left, *, seconds: float) -> dict[str, float]:
    """Build, kill, copy, live."""
    template, copy = folder / "template", folder / "copy"
    template.mkdir(parents=True)
    numbers = [str(left.pending), str(left.open), str(left.unsent)]
    command = [sys.executable, "-m", "bench.recovery"]
    killed = subprocess.run([*command, "build", str(template), *numbers], check=False)
    if killed.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the builder ended with {killed.returncode}")
    copy.mkdir()
    for name in ("state.db", "state.db-wal"):
        shutil.copy(template / name, copy / name)
    began = time.time()
    done = subprocess.run(
        [*command, "live", str(copy), *numbers, str(seconds), str(began)],
        check=True,
        capture_output=True,
        text=True,
    )
    told: dict[str, float] = json.loads(done.stdout)
    return told


# --- the life that is killed ---


def build(folder: Path, left: Left) -> None:
    db = connect(folder / "state.db", StoreOptions(checkpoint_pages=0))
    db.run("BEGIN IMMEDIATE")
    migrate(db, "the bench's database")
    tx = tables_of(db, MAIN_AGENT)
    now = datetime.now(UTC)
    boot = tx.recovery.boot(now)
    for n in range(left.open):
        _open_turn(tx, n, now, boot.epoch)
    for n in range(left.unsent):
        to = inbound(f"o{n}", "x").source.address
        body = Body(text=answer_to(f"old{n}"))
        tx.outbox.add(OutboxRow(key=f"old:{n}", to=to, body=body, created_at=now))
    db.connection.executemany(
        "INSERT INTO inbox (account, delivery, ref, body, accepted_at) VALUES (?, ?, ?, ?, ?)",
        [_pending(n, now.timestamp()) for n in range(left.pending)],
    )
    db.run("COMMIT")
    os.kill(os.getpid(), signal.SIGKILL)


def _pending(n: int, moment: float) -> tuple[Any, ...]:
    item = inbound(f"p{n % _CHATS}", f"pending{n}")
    return (ACCOUNT, item.delivery, item.ref, encode(item), moment)


def _open_turn(tx: Tx, n: int, now: datetime, epoch: int) -> None:
    """A turn that ran and had written down what was said to it."""
    item = inbound(f"r{n}", f"open{n}")
    key = session_key(item.source, MAIN_AGENT)
    session = begin_session(key, item.source, now)
    tx.sessions.add(session)
    tx.bindings.bind(key, session.id, item.source, now)
    turn = Turn(
        id=TurnId(f"turn_open{n}"),
        session=SessionId(session.id),
        agent=MAIN_AGENT,
        cause=Cause.MESSAGE,
        input=TurnInput(text=item.text, author="Ada"),
        created_at=now,
        source=item.source,
        reply=ReplyPlace(to=item.source.address, ref=item.ref),
        busy=BusyMode.QUEUE,
    )
    tx.turns.add(turn)
    started = Turn(
        id=turn.id, session=turn.session, agent=turn.agent, cause=turn.cause, input=turn.input,
        created_at=now, state=TurnState.RUNNING, attempt=1, progress=1,
    )  # fmt: skip
    tx.turns.save(started, attempt=0, epoch=epoch)
    tx.journal.append(session.id, [Entry(seq=1, turn=turn.id, at=now, record=UserSaid(text=item.text))])


# --- the life that is measured ---


async def live(folder: Path, left: Left, seconds: float, began: float) -> dict[str, float]:
    """The moments of this life, in milliseconds since the store began to open. No seconds: to the end."""
    firsts: dict[str, float] = {}
    start = time.perf_counter()

    def seen(name: str) -> None:
        if name not in firsts:
            firsts[name] = (time.perf_counter() - start) * 1e3
            if name == "record":
                firsts["process"] = (time.time() - began) * 1e3

    rig = Rig(folder=folder, count=True, seen=seen)
    async with rig:
        firsts["open"] = firsts.pop("<lambda>", (time.perf_counter() - start) * 1e3)
        await rig.say("new", _NEW)
        if seconds:
            await asyncio.sleep(max(0.0, seconds - (time.perf_counter() - start)))
        else:
            await rig.rest()
    answers = rig.desk.answers
    expected = {f"pending{n}" for n in range(left.pending)} | {f"open{n}" for n in range(left.open)}
    expected |= {f"old{n}" for n in range(left.unsent)} | {_NEW}
    twice = sum(count > 1 for count in answers.values()) + sum(count > 1 for count in rig.desk.keys.values())
    return {
        **firsts,
        "answers": answers.total(),
        "memory": most_resident(),
        "lost": len(expected - answers.keys()),
        "twice": twice + _turns_too_many(folder),
    }


def _turns_too_many(folder: Path) -> int:
    """Turns that no inbox row points to, those that were open before apart: a row that was taken twice."""
    connection = apsw.Connection(str(folder / "state.db"))
    rows = connection.execute(
        "SELECT count(*) FROM turns WHERE id NOT IN (SELECT turn FROM inbox WHERE turn IS NOT NULL)"
        " AND id NOT LIKE 'turn_open%'"
    ).fetchall()
    connection.close()
    return int(str(rows[0][0]))


def main(arguments: list[str]) -> None:
    what, folder, pending, opened, unsent, *more = arguments
    left = Left(pending=int(pending), open=int(opened), unsent=int(unsent))
    if what == "build":
        build(Path(folder), left)
    seconds, began = map(float, more)
    print(json.dumps(run(lambda: live(Path(folder), left, seconds, began))))


if __name__ == "__main__":
    main(sys.argv[1:])
