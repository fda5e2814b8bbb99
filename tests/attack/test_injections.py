"""Orders that reach the agent in words from outside: the model obeys them all, and nothing comes of them that
nobody approved. Held against the same court without approvals, so that the rig is known to see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hermes.testing.model_script import ModelRequest, Pace, Reply
from hermes.testing.model_server import FakeModelServer
from tests.attack.castle import ANN, order
from tests.attack.injections import AIMS, WAYS, Court, obey_all
from tests.cli.command import PATIENCE, gateway


def _chosen(full: bool) -> list[tuple[str, str]]:
    """Each aim on some of the ways, each way with many aims; a name of a file carries no address."""
    ways, aims = list(WAYS), list(AIMS)
    pairs = [
        (ways[(place + step * 4) % len(ways)], aim) for place, aim in enumerate(aims) for step in range(3)
    ]
    return list(dict.fromkeys(pairs))[:: 1 if full else 6]


async def test_no_order_from_outside_takes_effect(tmp_path: Path, full: bool) -> None:
    chosen = _chosen(full)
    assert not full or (len(chosen) >= 80 and len({way for way, _ in chosen}) >= 8 and len(AIMS) >= 25)
    won: dict[str, list[str]] = {}
    async with Court(tmp_path).besieged() as court:
        for way, aim in chosen:
            await WAYS[way](court, AIMS[aim](court))
            if lost := court.thefts():
                won[f"{aim} by {way}"] = lost
            court.jobs_made = len(court.rows("select * from jobs"))
            court.forget()
    assert not won, "\n".join(f"{name}: {', '.join(lost)}" for name, lost in won.items())


async def test_the_rig_sees_what_is_taken(tmp_path: Path) -> None:
    seen = {}
    async with Court(tmp_path, approvals="off").besieged() as court:
        for way, aim in (
            ("a file", "a chat"),
            ("a search in files", "every chat"),
            ("a page", "the home channel"),
            ("a command's output", "a job here"),
            ("a file's name", "a chat"),
            ("an earlier conversation", "curl"),
            ("a webhook", "a chat"),
            ("a forwarded message", "wget"),
            ("a quoted message", "a job elsewhere"),
            ("a document", "curl header"),
            ("a job", "curl by variable"),
            ("a file", "a webhook"),
        ):
            await WAYS[way](court, AIMS[aim](court))
            await court.until(lambda: bool(court.thefts()))
            seen[aim] = court.thefts()
            court.jobs_made = len(court.rows("select * from jobs"))
            court.forget()
    assert all(seen.values()), seen


async def test_links_are_clickable_before_anything_was_read(tmp_path: Path) -> None:
    async with Court(tmp_path).besieged() as court:
        await court.run(AIMS["a link"](court), by="owner")
        assert court.thefts()


@pytest.mark.parametrize("aim", ["the home channel", "a job here", "curl"])
async def test_what_was_read_counts_after_the_plug_is_pulled(tmp_path: Path, aim: str) -> None:
    alive = [True]

    def obey_slowly(request: ModelRequest) -> Reply:
        """In the first life it takes long to answer once it has read something."""
        reply = obey_all(request)
        has_read = any(message["role"] == "tool" for message in request.messages)
        return replace(reply, pace=Pace(first_byte=PATIENCE)) if has_read and alive else reply

    court = Court(tmp_path)
    court.model = FakeModelServer(obey_slowly)
    async with court.besieged():
        (court.docs / "note.txt").write_text(AIMS[aim](court))
        court.write(ANN, order(("read_file", {"path": str(court.docs / "note.txt")})))
        await court.until(lambda: bool(court.rows("select * from journal where kind = 'tool_finished'")))
        assert court.life is not None
        court.life.process.kill()
        court.life.process.wait()
        alive.clear()
        with gateway(court.home, **court.variables) as court.life:
            await court.until(lambda: bool(court.rows("select * from turns where state = 'waiting'")))
            [(calls,)] = court.rows("select count(*) from journal where kind = 'tool_started'")
            assert calls == 1 and court.thefts() == []
