"""What sessions keep for the model is stored once, by its hash, and forgotten when no session names it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.word import replace
from hermes.state.store.codec import hash_text
from hermes.state.store.sqlite import SqliteDb, open_current
from hermes.testing.store_suite.samples import NOW, session

PROMPT, TOOLS = "You are Ada. 😀", '[{"type": "function"}]'


def _texts(db: SqliteDb) -> list[str]:
    return [row[0] for row in db.all("SELECT body FROM prompts ORDER BY body")]


def _opened(path: Path) -> SqliteDb:
    db = open_current(path)
    sessions = db.tx(MAIN_AGENT).sessions
    sessions.add(replace(session("s1"), system_prompt=PROMPT, place_prompt="A chat.", tool_list=TOOLS))
    sessions.add(replace(session("s2"), system_prompt=PROMPT))
    sessions.add(session("s3"))
    return db


def test_a_prompt_is_stored_once_and_shared_in_memory(tmp_path: Path) -> None:
    db = _opened(tmp_path / "state.db")
    assert _texts(db) == [PROMPT, TOOLS]
    one, two, three = (db.tx(MAIN_AGENT).sessions.get(SessionId(f"s{number}")) for number in (1, 2, 3))
    assert one is not None and two is not None and three is not None
    assert (one.system_prompt, one.place_prompt, one.tool_list) == (PROMPT, "A chat.", TOOLS)
    assert one.system_prompt is two.system_prompt and two.tool_list is None
    assert (three.system_prompt, three.place_prompt, three.tool_list) == (None, None, None)
    db.tx(MAIN_AGENT).sessions.save(replace(three, system_prompt="Another."))
    assert _texts(db) == ["Another.", PROMPT, TOOLS]
    db.close()


def test_what_no_session_names_is_swept_once_it_is_old(tmp_path: Path) -> None:
    db = _opened(tmp_path / "state.db")
    tx = db.tx(MAIN_AGENT)
    later = NOW + timedelta(days=1)
    tx.sessions.delete(SessionId("s1"))
    tx.recovery.prune(NOW - timedelta(days=1), NOW)
    assert _texts(db) == [PROMPT, TOOLS], "it may be used again soon"
    tx.recovery.prune(later, NOW)
    assert _texts(db) == [PROMPT], "the prompt of s2 stays"
    tx.sessions.delete(SessionId("s2"))
    tx.recovery.prune(later, NOW)
    assert _texts(db) == []
    tx.sessions.add(replace(session("s4"), system_prompt=PROMPT))
    assert _texts(db) == [PROMPT], "what was read before is not taken for stored"
    db.close()


def test_a_session_whose_prompt_is_lost_gets_a_new_one(tmp_path: Path) -> None:
    db = _opened(tmp_path / "state.db")
    db.run("DELETE FROM prompts WHERE hash = ?", hash_text(PROMPT))
    kept = db.tx(MAIN_AGENT).sessions.get(SessionId("s1"))
    assert kept is not None and kept.system_prompt is None and kept.tool_list == TOOLS
    db.close()
